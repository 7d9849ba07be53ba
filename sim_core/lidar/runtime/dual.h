/* Numbers that carry their derivatives by LIDAR_P parameters (forward mode); 0: plain numbers. */
#ifndef LIDAR_DUAL_H
#define LIDAR_DUAL_H
#include "real.h"

#ifndef LIDAR_P
#define LIDAR_P 0
#endif
#define LIDAR_EACH for (int k = 0; k < LIDAR_P; k++)

typedef struct { S v; S d[LIDAR_P > 0 ? LIDAR_P : 1]; } dual;

REFIT_INLINE dual d_of(S v) {
  dual r;
  r.v = v;
  LIDAR_EACH r.d[k] = 0;
  return r;
}
/* f(x) of value v and slope s */
REFIT_INLINE dual d_chain(dual x, S v, S s) {
  dual r;
  r.v = v;
  LIDAR_EACH r.d[k] = s * x.d[k];
  return r;
}
REFIT_INLINE dual d_chain2(dual x, dual y, S v, S sx, S sy) {
  dual r;
  r.v = v;
  LIDAR_EACH r.d[k] = sx * x.d[k] + sy * y.d[k];
  return r;
}
REFIT_INLINE dual d_add(dual x, dual y) {
  dual r;
  r.v = x.v + y.v;
  LIDAR_EACH r.d[k] = x.d[k] + y.d[k];
  return r;
}
REFIT_INLINE dual d_sub(dual x, dual y) {
  dual r;
  r.v = x.v - y.v;
  LIDAR_EACH r.d[k] = x.d[k] - y.d[k];
  return r;
}
REFIT_INLINE dual d_mul(dual x, dual y) { return d_chain2(x, y, x.v * y.v, y.v, x.v); }
REFIT_INLINE dual d_div(dual x, dual y) { return d_chain2(x, y, x.v / y.v, 1 / y.v, -x.v / (y.v * y.v)); }
REFIT_INLINE dual d_scale(dual x, S s) { return d_chain(x, s * x.v, s); }
REFIT_INLINE dual d_shift(dual x, S s) { x.v += s; return x; }
REFIT_INLINE dual d_square(dual x) { return d_chain(x, x.v * x.v, 2 * x.v); }
/* at 0 the derivative is left out, where it is infinite */
REFIT_INLINE dual d_sqrt(dual x) {
  const S root = s_sqrt(x.v);
  return d_chain(x, root, root > 0 ? K(0.5) / root : 0);
}

REFIT_INLINE dual d_dot(const dual *a, const dual *b) {
  dual r = d_mul(a[0], b[0]);
  for (int i = 1; i < 3; i++) {
    r.v += a[i].v * b[i].v;
    LIDAR_EACH r.d[k] += a[i].d[k] * b[i].v + a[i].v * b[i].d[k];
  }
  return r;
}
/* the same with a vector that depends on no parameter */
REFIT_INLINE dual d_dot_fixed(const dual *a, const S *b) {
  dual r = d_scale(a[0], b[0]);
  for (int i = 1; i < 3; i++) {
    r.v += a[i].v * b[i];
    LIDAR_EACH r.d[k] += a[i].d[k] * b[i];
  }
  return r;
}
/* y = a + s b */
REFIT_INLINE void d_along(dual *y, const dual *a, dual s, const dual *b) {
  for (int i = 0; i < 3; i++) y[i] = d_add(a[i], d_mul(s, b[i]));
}
REFIT_INLINE void d_cross(dual *r, const dual *a, const dual *b) {
  for (int i = 0; i < 3; i++) {
    const int j = (i + 1) % 3, l = (i + 2) % 3;
    r[i] = d_sub(d_mul(a[j], b[l]), d_mul(a[l], b[j]));
  }
}
REFIT_INLINE void d_unit(dual *a) {
  const dual length = d_sqrt(d_dot(a, a));
  for (int i = 0; i < 3; i++) a[i] = d_div(a[i], length);
}
#endif
