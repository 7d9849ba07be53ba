/* Layers of fully connected networks over R, for the blocks that sim_core/codegen/dense.py prints.
 *
 * Weights are either each robot's own (R) or one row that all lanes share (S): then an eighth of the memory is read, and the
 * gradient by them is the sum over the lanes. Sizes are constants where these are inlined. Four units at a time: their sums
 * do not wait for each other, and each input is loaded once for four.
 */
#ifndef REFIT_DENSE_H
#define REFIT_DENSE_H

/* z (+)= W x + b;  W (rows, columns), b (rows) or NULL, both of type T */
#define DENSE_PRODUCT(NAME, T, START)                                                              \
  REFIT_INLINE void NAME(const T *W, const T *b, const R *x, R *z, int rows, int columns) {        \
    int i = 0;                                                                                     \
    for (; i + 4 <= rows; i += 4) {                                                                \
      const T *const w0 = W + i * columns, *const w1 = w0 + columns, *const w2 = w1 + columns,     \
              *const w3 = w2 + columns;                                                            \
      R s0 = START(i), s1 = START(i + 1), s2 = START(i + 2), s3 = START(i + 3);                    \
      for (int j = 0; j < columns; j++) {                                                          \
        const R h = x[j];                                                                          \
        s0 += w0[j] * h, s1 += w1[j] * h, s2 += w2[j] * h, s3 += w3[j] * h;                        \
      }                                                                                            \
      z[i] = s0, z[i + 1] = s1, z[i + 2] = s2, z[i + 3] = s3;                                      \
    }                                                                                              \
    for (; i < rows; i++) {                                                                        \
      R s = START(i);                                                                              \
      for (int j = 0; j < columns; j++) s += W[i * columns + j] * x[j];                            \
      z[i] = s;                                                                                    \
    }                                                                                              \
  }
#define DENSE_FROM_BIAS(i) (b ? b[i] : C(0.0))
#define DENSE_FROM_SHARED_BIAS(i) (b ? r_splat(b[i]) : C(0.0))
#define DENSE_FROM_SUM(i) (b ? z[i] + b[i] : z[i])
DENSE_PRODUCT(dense_product, R, DENSE_FROM_BIAS)
DENSE_PRODUCT(dense_product_shared, S, DENSE_FROM_SHARED_BIAS)
DENSE_PRODUCT(dense_add_product, R, DENSE_FROM_SUM)

/* xbar = W' d */
#define DENSE_BACK(NAME, T)                                                                        \
  REFIT_INLINE void NAME(const T *W, const R *d, R *xbar, int rows, int columns) {                 \
    for (int j = 0; j < columns; j++) xbar[j] = C(0.0);                                            \
    int i = 0;                                                                                     \
    for (; i + 4 <= rows; i += 4) {                                                                \
      const R d0 = d[i], d1 = d[i + 1], d2 = d[i + 2], d3 = d[i + 3];                              \
      const T *const w0 = W + i * columns, *const w1 = w0 + columns, *const w2 = w1 + columns,     \
              *const w3 = w2 + columns;                                                            \
      for (int j = 0; j < columns; j++)                                                            \
        xbar[j] += (w0[j] * d0 + w1[j] * d1) + (w2[j] * d2 + w3[j] * d3);                          \
    }                                                                                              \
    for (; i < rows; i++)                                                                          \
      for (int j = 0; j < columns; j++) xbar[j] += W[i * columns + j] * d[i];                      \
  }
DENSE_BACK(dense_back, R)
DENSE_BACK(dense_back_shared, S)

/* Wbar += d x';  bbar += d (or NULL) */
REFIT_INLINE void dense_gradient(const R *x, const R *d, R *Wbar, R *bbar, int rows, int columns) {
  int i = 0;
  for (; i + 4 <= rows; i += 4) {
    const R d0 = d[i], d1 = d[i + 1], d2 = d[i + 2], d3 = d[i + 3];
    R *const g0 = Wbar + i * columns, *const g1 = g0 + columns, *const g2 = g1 + columns, *const g3 = g2 + columns;
    for (int j = 0; j < columns; j++) {
      const R h = x[j];
      g0[j] += d0 * h, g1[j] += d1 * h, g2[j] += d2 * h, g3[j] += d3 * h;
    }
  }
  for (; i < rows; i++)
    for (int j = 0; j < columns; j++) Wbar[i * columns + j] += d[i] * x[j];
  if (bbar)
    for (i = 0; i < rows; i++) bbar[i] += d[i];
}

/* The same summed over the lanes. As many columns at once as there are lanes: x is turned, so that a vector holds neighbouring
 * columns of one lane, and a row's share is one such vector times one scalar for each lane. */
enum { DENSE_L = sizeof(R) / sizeof(S) };
#ifdef REFIT_CUDA
typedef S dense_scalar, dense_vector;
#else
typedef S dense_scalar __attribute__((may_alias));
typedef R dense_vector __attribute__((may_alias, aligned(sizeof(S))));
#endif
REFIT_INLINE void dense_gradient_stripe(const R *x, const R *d, S *g, int rows, int columns, int wide) {
  const dense_scalar *const xs = (const dense_scalar *)x;
  R turned[DENSE_L];
  for (int l = 0; l < DENSE_L; l++) {
    turned[l] = C(0.0);
    for (int c = 0; c < wide; c++) ((dense_scalar *)&turned[l])[c] = xs[c * DENSE_L + l];
  }
  for (int i = 0; i < rows; i++, g += columns) {
    const dense_scalar *const di = (const dense_scalar *)(d + i);
    R sum[2] = {di[0] * turned[0], C(0.0)};
#pragma GCC unroll 16
    for (int l = 1; l < DENSE_L; l++) sum[l % 2] += di[l] * turned[l];
    sum[0] += sum[1];
    if (wide == DENSE_L) *(dense_vector *)g += sum[0];
    else
      for (int c = 0; c < wide; c++) g[c] += ((const dense_scalar *)sum)[c];
  }
}
REFIT_INLINE void dense_gradient_shared(const R *x, const R *d, S *Wbar, S *bbar, int rows, int columns) {
  int j = 0;
  for (; j + DENSE_L <= columns; j += DENSE_L) dense_gradient_stripe(x + j, d, Wbar + j, rows, columns, DENSE_L);
  if (j < columns) dense_gradient_stripe(x + j, d, Wbar + j, rows, columns, columns - j);
  if (bbar)
    for (int i = 0; i < rows; i++)
      for (int l = 0; l < DENSE_L; l++) bbar[i] += ((const dense_scalar *)(d + i))[l];
}

/* Activations with their derivatives. */
REFIT_INLINE R dense_identity(R z, R *d) { *d = C(1.0); return z; }
REFIT_INLINE R dense_tanh(R z, R *d) { const R h = r_tanh(z); *d = C(1.0) - h * h; return h; }
REFIT_INLINE R dense_sin(R z, R *d) { R h; r_sincos(z, &h, d); return h; }
REFIT_INLINE R dense_relu(R z, R *d) { *d = r_lt(C(0.0), z); return r_fmax(z, C(0.0)); }
REFIT_INLINE R dense_softplus(R z, R *d) {
  const R e = r_exp(-r_fabs(z)), positive = r_lt(C(0.0), z), s = C(1.0) / (C(1.0) + e);
  *d = positive * s + (C(1.0) - positive) * (e * s);
  return r_fmax(z, C(0.0)) + r_log1p(e);
}
REFIT_INLINE R dense_elu(R z, R *d) {
  const R e = r_exp(r_fmin(z, C(0.0)));
  *d = e;
  return r_fmax(z, C(0.0)) + (e - C(1.0));
}
REFIT_INLINE R dense_sigmoid(R z, R *d) {
  const R t = r_tanh(z * C(0.5));
  *d = (C(1.0) - t * t) * C(0.25);
  return (C(1.0) + t) * C(0.5);
}
REFIT_INLINE R dense_softsign(R z, R *d) {
  const R r = C(1.0) / (C(1.0) + r_fabs(z));
  *d = r * r;
  return z * r;
}

#endif
