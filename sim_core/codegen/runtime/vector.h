/* Functions on R when R is a vector of REFIT_LANES scalars.
 *
 * Arithmetic is the compiler's. sin and cos are written here (inlined, both from one
 * reduction); exp, log, pow and tanh go to glibc's libmvec when the vector has the width
 * of a machine register, every other function goes lane by lane to libm.
 */
typedef S R __attribute__((vector_size(REFIT_LANES * sizeof(S))));
typedef SI I __attribute__((vector_size(REFIT_LANES * sizeof(S))));

REFIT_INLINE R r_splat(S x) { return x - (R){0}; }
REFIT_INLINE S r_get(R x, int lane) { return x[lane]; }
#define C(x) r_splat(K(x))

/* mask ? x : y, by bits; a lane of a mask is 0 or -1 */
REFIT_INLINE R r_select(I mask, R x, R y) { return (R)((mask & (I)x) | (~mask & (I)y)); }
REFIT_INLINE R r_truth(I mask) { return (R)(mask & (I)C(1.0)); }

REFIT_INLINE R r_lt(R x, R y) { return r_truth(x < y); }
REFIT_INLINE R r_le(R x, R y) { return r_truth(x <= y); }
REFIT_INLINE R r_eq(R x, R y) { return r_truth(x == y); }
REFIT_INLINE R r_ne(R x, R y) { return r_truth(x != y); }
REFIT_INLINE R r_not(R x) { return r_truth(x == C(0.0)); }
REFIT_INLINE R r_and(R x, R y) { return r_truth((x != C(0.0)) & (y != C(0.0))); }
REFIT_INLINE R r_or(R x, R y) { return r_truth((x != C(0.0)) | (y != C(0.0))); }
REFIT_INLINE R r_if_else_zero(R condition, R x) { return (R)((condition != C(0.0)) & (I)x); }
REFIT_INLINE R r_fmin(R x, R y) { return r_select((x < y) | (x != x), x, y); }
REFIT_INLINE R r_fmax(R x, R y) { return r_select((x > y) | (x != x), x, y); }
REFIT_INLINE R r_fabs(R x) { return (R)((I)x & ~(I)C(-0.0)); }
REFIT_INLINE R r_sign(R x) {
  return r_select(x != x, x, r_truth(x > C(0.0)) - r_truth(x < C(0.0)));
}

#define REFIT_LANEWISE_1(name)                                            \
  REFIT_INLINE R r_##name(R x) {                                          \
    R y;                                                                  \
    for (int l = 0; l < REFIT_LANES; l++) y[l] = s_##name(x[l]);          \
    return y;                                                             \
  }
#define REFIT_LANEWISE_2(name)                                            \
  REFIT_INLINE R r_##name(R x, R z) {                                     \
    R y;                                                                  \
    for (int l = 0; l < REFIT_LANES; l++) y[l] = s_##name(x[l], z[l]);    \
    return y;                                                             \
  }

/* sqrt, floor and ceil become single instructions lane by lane or whole */
REFIT_LANEWISE_1(sqrt) REFIT_LANEWISE_1(floor) REFIT_LANEWISE_1(ceil)
REFIT_LANEWISE_1(asin) REFIT_LANEWISE_1(acos) REFIT_LANEWISE_1(atan) REFIT_LANEWISE_1(tan)
REFIT_LANEWISE_1(erf) REFIT_LANEWISE_1(sinh) REFIT_LANEWISE_1(cosh) REFIT_LANEWISE_1(asinh)
REFIT_LANEWISE_1(acosh) REFIT_LANEWISE_1(atanh) REFIT_LANEWISE_1(log1p) REFIT_LANEWISE_1(expm1)
REFIT_LANEWISE_2(fmod) REFIT_LANEWISE_2(remainder) REFIT_LANEWISE_2(copysign)
REFIT_LANEWISE_2(atan2) REFIT_LANEWISE_2(hypot)

/* libmvec's names: _ZGV <instruction set> N <lanes> <v per argument> _ <function> */
#if defined(REFIT_LIBMVEC) && defined(__x86_64__) && defined(__GLIBC_PREREQ)
#define REFIT_BITS (REFIT_LANES * REFIT_SCALAR_BITS)
#define REFIT_MVEC_NAME(isa, lanes, v, f) _ZGV##isa##N##lanes##v##_##f
#define REFIT_MVEC_EXPAND(isa, lanes, v, f) REFIT_MVEC_NAME(isa, lanes, v, f)
#if REFIT_BITS == 128
#define REFIT_MVEC(v, f) REFIT_MVEC_EXPAND(b, REFIT_LANES, v, f)
#elif REFIT_BITS == 256 && defined(__AVX2__)
#define REFIT_MVEC(v, f) REFIT_MVEC_EXPAND(d, REFIT_LANES, v, f)
#elif REFIT_BITS == 512 && defined(__AVX512F__)
#define REFIT_MVEC(v, f) REFIT_MVEC_EXPAND(e, REFIT_LANES, v, f)
#endif
#endif

#ifdef REFIT_MVEC
#define REFIT_MVEC_1(name)               \
  R REFIT_MVEC(v, REFIT_M(name))(R);     \
  REFIT_INLINE R r_##name(R x) { return REFIT_MVEC(v, REFIT_M(name))(x); }
#define REFIT_MVEC_2(name)               \
  R REFIT_MVEC(vv, REFIT_M(name))(R, R); \
  REFIT_INLINE R r_##name(R x, R y) { return REFIT_MVEC(vv, REFIT_M(name))(x, y); }
REFIT_MVEC_1(exp) REFIT_MVEC_1(log) REFIT_MVEC_2(pow)
#if __GLIBC_PREREQ(2, 35)
#define REFIT_MVEC_TANH
#endif
#else
REFIT_LANEWISE_1(exp) REFIT_LANEWISE_1(log) REFIT_LANEWISE_2(pow)
#endif
#ifdef REFIT_MVEC_TANH
REFIT_MVEC_1(tanh)
#else
REFIT_LANEWISE_1(tanh)
#endif

/* sin and cos together: x = k pi/2 + r with |r| <= pi/4, then Taylor polynomials in r (the
 * first omitted term is below half a unit in the last place), swapped and signed by k mod 4.
 * pi/2 is split so that k times the leading parts is exact: 33 bits each for double, 11 for
 * float. Arguments beyond the split's reach, and NaN and infinity, go lane by lane to libm. */
#ifdef REFIT_FLOAT
static const S refit_pi_2[3] = {0x1.92p0f, 0x1.fb4p-12f, 0x1.4442d0p-24f};
static const S refit_sin[4] = {1.0f / 362880, -1.0f / 5040, 1.0f / 120, -1.0f / 6};
static const S refit_cos[5] = {-1.0f / 3628800, 1.0f / 40320, -1.0f / 720, 1.0f / 24, -0.5f};
#define REFIT_TRIG_LIMIT 6.0e3f
#define REFIT_ROUNDER 0x1.8p23f /* adding it leaves the nearest integer in the low bits */
#else
static const S refit_pi_2[3] = {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
static const S refit_sin[8] = {1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800,
                               -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
static const S refit_cos[8] = {1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600,
                               -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5};
#define REFIT_TRIG_LIMIT 1.0e6
#define REFIT_ROUNDER 0x1.8p52
#endif

REFIT_INLINE R refit_polynomial(R z, const S *coefficients, int n) {
  R p = r_splat(coefficients[0]);
#pragma GCC unroll 8
  for (int i = 1; i < n; i++) p = p * z + coefficients[i];
  return p;
}

REFIT_INLINE int refit_any(I mask) {
  SI any = 0;
  for (int l = 0; l < REFIT_LANES; l++) any |= mask[l];
  return any != 0;
}

/* libm for the lanes of x that the reduction cannot serve; the others keep their results */
REFIT_FN void refit_sincos_far(const R *x, I far, R *s, R *c) {
  for (int l = 0; l < REFIT_LANES; l++)
    if (far[l]) {
      (*s)[l] = REFIT_M(sin)((*x)[l]);
      (*c)[l] = REFIT_M(cos)((*x)[l]);
    }
}

REFIT_INLINE void r_sincos(R x, R *s, R *c) {
  const R rounded = x * K(0.63661977236758134308) + REFIT_ROUNDER;
  const R k = rounded - REFIT_ROUNDER;
  const I quadrant = (I)rounded;
  const R r = ((x - k * refit_pi_2[0]) - k * refit_pi_2[1]) - k * refit_pi_2[2];
  const R z = r * r;
  const R sr = r + r * z * refit_polynomial(z, refit_sin, sizeof refit_sin / sizeof(S));
  const R cr = K(1.0) + z * refit_polynomial(z, refit_cos, sizeof refit_cos / sizeof(S));
  const I odd = -(quadrant & 1), sign = (I)C(-0.0);
  R ss = (R)((I)r_select(odd, cr, sr) ^ (-((quadrant >> 1) & 1) & sign));
  R cc = (R)((I)r_select(odd, sr, cr) ^ (-(((quadrant + 1) >> 1) & 1) & sign));
  const I far = ~(r_fabs(x) <= REFIT_TRIG_LIMIT);
  if (__builtin_expect(refit_any(far), 0)) {
    R xf = x, sf = ss, cf = cc; /* variables of their own: only they need an address */
    refit_sincos_far(&xf, far, &sf, &cf);
    ss = sf, cc = cf;
  }
  *s = ss, *c = cc;
}
REFIT_INLINE R r_sin(R x) { R s, c; r_sincos(x, &s, &c); return s; }
REFIT_INLINE R r_cos(R x) { R s, c; r_sincos(x, &s, &c); return c; }
