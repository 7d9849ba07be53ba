/* REFIT_LANES numbers side by side: into lanes and out of them, four numbers of each lane at a time. */
#ifndef REFIT_GRANULAR_LANES_H
#define REFIT_GRANULAR_LANES_H

#if REFIT_LANES == 1
REFIT_INLINE R r_select(I mask, R x, R y) { return mask ? x : y; }
REFIT_INLINE int refit_any(I mask) { return mask != 0; }
REFIT_INLINE R load_lanes(const S *x) { return *x; }
REFIT_INLINE void store_lanes(S *to, R x) { *to = x; }
#else
typedef R unaligned_lanes __attribute__((aligned(sizeof(S)), may_alias));
REFIT_INLINE R load_lanes(const S *x) { return *(const unaligned_lanes *)x; }
REFIT_INLINE void store_lanes(S *to, R x) { *(unaligned_lanes *)to = x; }
#endif

#if REFIT_LANES == 16 && defined(__AVX512F__)
#include <immintrin.h>
#define SHUFFLE_4(x)                                                                                                    \
  const __m512d p = (__m512d)_mm512_unpacklo_ps((__m512)x[0], (__m512)x[1]), q = (__m512d)_mm512_unpackhi_ps((__m512)x[0], (__m512)x[1]); \
  const __m512d r = (__m512d)_mm512_unpacklo_ps((__m512)x[2], (__m512)x[3]), s = (__m512d)_mm512_unpackhi_ps((__m512)x[2], (__m512)x[3]); \
  const R y[4] = {(R)_mm512_unpacklo_pd(p, r), (R)_mm512_unpackhi_pd(p, r), (R)_mm512_unpacklo_pd(q, s), (R)_mm512_unpackhi_pd(q, s)};
#define BLOCK(y, l) _mm512_extractf32x4_ps((__m512)y, l)
REFIT_INLINE R join(const S *a, const S *b, const S *c, const S *d) {
  __m512 r = _mm512_castps128_ps512(_mm_loadu_ps(a));
  r = _mm512_insertf32x4(r, _mm_loadu_ps(b), 1);
  r = _mm512_insertf32x4(r, _mm_loadu_ps(c), 2);
  return (R)_mm512_insertf32x4(r, _mm_loadu_ps(d), 3);
}

REFIT_INLINE R sqrt_lanes(R x) { return (R)_mm512_sqrt_ps((__m512)x); }
REFIT_INLINE int any_lane(I mask) { return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0; }

/* to[k], lane l = from[l][at + k] */
REFIT_INLINE void into_lanes(R *to, const S *const *from, int at) {
  R x[4];
  for (int j = 0; j < 4; j++) x[j] = join(from[j] + at, from[4 + j] + at, from[8 + j] + at, from[12 + j] + at);
  SHUFFLE_4(x)
  for (int k = 0; k < 4; k++) to[k] = y[k];
}

/* to[stride l + k] = lane l of x[k] */
REFIT_INLINE void out_of_lanes(S *to, int stride, const R *x) {
  SHUFFLE_4(x)
  for (int j = 0; j < 4; j++) {
    _mm_storeu_ps(to + stride * j, BLOCK(y[j], 0));
    _mm_storeu_ps(to + stride * (4 + j), BLOCK(y[j], 1));
    _mm_storeu_ps(to + stride * (8 + j), BLOCK(y[j], 2));
    _mm_storeu_ps(to + stride * (12 + j), BLOCK(y[j], 3));
  }
}
#else
REFIT_INLINE R sqrt_lanes(R x) { return r_sqrt(x); }
REFIT_INLINE int any_lane(I mask) { return refit_any(mask); }

#ifdef REFIT_CUDA
REFIT_INLINE void into_lanes(R *to, const S *const *from, int at) { /* one read, if the numbers are aligned for it */
  const float4 x = *(const float4 *)(from[0] + at);
  to[0] = x.x;
  to[1] = x.y;
  to[2] = x.z;
  to[3] = x.w;
}
#else
REFIT_INLINE void into_lanes(R *to, const S *const *from, int at) {
  S x[4][REFIT_LANES];
  for (int l = 0; l < REFIT_LANES; l++)
    for (int k = 0; k < 4; k++) x[k][l] = from[l][at + k];
  for (int k = 0; k < 4; k++) to[k] = load_lanes(x[k]);
}
#endif

REFIT_INLINE void out_of_lanes(S *to, int stride, const R *x) {
  S y[4][REFIT_LANES];
  for (int k = 0; k < 4; k++) store_lanes(y[k], x[k]);
  for (int l = 0; l < REFIT_LANES; l++)
    for (int k = 0; k < 4; k++) to[stride * l + k] = y[k][l];
}
#endif

#endif
