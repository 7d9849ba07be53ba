/* Projected Gauss-Seidel over friction cones: loops over R for the blocks that sim_core/codegen/cone.py prints.
 *
 * A p = b for impulses p of n points, three each (normal, two tangents), with p_n >= 0 and |p_t| <= mu p_n. A (m, m) is
 * symmetric, m = 3 n; touching (n) is 1 or 0. Sizes are constants where these are inlined.
 */
#ifndef REFIT_CONE_H
#define REFIT_CONE_H

#define CONE_TINY 1e-24

/* Residual left = b - A p after a change of p_i by d. */
REFIT_INLINE void cone_change(const R *A, R *left, R d, int i, int m) {
  for (int j = 0; j < m; j++) left[j] -= A[i * m + j] * d;
}

/* The solution p; where they are not NULL also history (iterations, m), the impulses after each iteration, and relaxed
 * (iterations, 2 n), the tangential ones before they are drawn into the cone. */
REFIT_INLINE void cone_solve(const R *A, const R *b, const R *mu, const R *touching, R *p, R *history, R *relaxed, int n,
                             int iterations, R *left, R *inverse) {
  const int m = 3 * n;
  for (int i = 0; i < m; i++) p[i] = C(0.0), left[i] = b[i], inverse[i] = C(1.0) / A[i * m + i];
  for (int it = 0; it < iterations; it++) {
    for (int k = 0; k < n; k++) {
      const int c = 3 * k, i = c + 1, j = c + 2;
      const R normal = touching[k] * r_fmax(p[c] + left[c] * inverse[c], C(0.0));
      cone_change(A, left, normal - p[c], c, m);
      const R yi = p[i] + left[i] * inverse[i];
      const R yj = p[j] + (left[j] - A[i * m + j] * (yi - p[i])) * inverse[j];
      const R inside = r_fmin(C(1.0), mu[k] * normal / r_sqrt(yi * yi + yj * yj + C(CONE_TINY)));
      cone_change(A, left, inside * yi - p[i], i, m);
      cone_change(A, left, inside * yj - p[j], j, m);
      p[c] = normal, p[i] = inside * yi, p[j] = inside * yj;
      if (relaxed) relaxed[2 * (it * n + k)] = yi, relaxed[2 * (it * n + k) + 1] = yj;
    }
    if (history)
      for (int i = 0; i < m; i++) history[it * m + i] = p[i];
  }
}

/* y = (b_i - sum over j != i of A_ij p_j) / A_ii, differentiated. */
REFIT_INLINE R cone_row_fwd(const R *A, const R *p, const R *Adot, const R *bdot, const R *pdot, R y, R inverse, int i, int m) {
  R s = bdot[i] - Adot[i * m + i] * y, t = A[i * m + i] * pdot[i] + Adot[i * m + i] * p[i];
  for (int j = 0; j < m; j++) s -= Adot[i * m + j] * p[j], t -= A[i * m + j] * pdot[j];
  return (s + t) * inverse;
}

REFIT_INLINE void cone_row_adj(const R *A, const R *p, R ybar, R y, R inverse, R *Abar, R *bbar, R *pbar, int i, int m) {
  const R w = ybar * inverse, own = pbar[i], diagonal = Abar[i * m + i];
  bbar[i] += w;
  for (int j = 0; j < m; j++) pbar[j] -= w * A[i * m + j], Abar[i * m + j] -= w * p[j];
  pbar[i] = own, Abar[i * m + i] = diagonal - w * y;
}

/* Tangent of cone_solve. */
REFIT_INLINE void cone_fwd(const R *A, const R *b, const R *mu, const R *touching, const R *Adot, const R *bdot,
                           const R *mudot, R *pdot, int n, int iterations, R *p, R *history, R *relaxed, R *left,
                           R *inverse) {
  const int m = 3 * n;
  cone_solve(A, b, mu, touching, p, history, relaxed, n, iterations, left, inverse);
  for (int i = 0; i < m; i++) p[i] = pdot[i] = C(0.0);
  for (int it = 0; it < iterations; it++)
    for (int k = 0; k < n; k++) {
      const int c = 3 * k, i = c + 1, j = c + 2;
      const R *const now = history + it * m;
      const R yi = relaxed[2 * (it * n + k)], yj = relaxed[2 * (it * n + k) + 1], normal = now[c];
      const R pushing = r_lt(C(0.0), normal);
      pdot[c] = r_if_else_zero(pushing, cone_row_fwd(A, p, Adot, bdot, pdot, normal, inverse[c], c, m));
      p[c] = normal;
      pdot[i] = cone_row_fwd(A, p, Adot, bdot, pdot, yi, inverse[i], i, m);
      p[i] = yi;
      pdot[j] = cone_row_fwd(A, p, Adot, bdot, pdot, yj, inverse[j], j, m);
      const R over = C(1.0) / r_sqrt(yi * yi + yj * yj + C(CONE_TINY)), bound = mu[k] * normal * over;
      const R sliding = r_lt(bound, C(1.0));
      const R along = (yi * pdot[i] + yj * pdot[j]) * over * over;
      const R stretch = (mudot[k] * normal + mu[k] * pdot[c]) * over - bound * along;
      const R scale = r_fmin(C(1.0), bound);
      pdot[i] = scale * pdot[i] + r_if_else_zero(sliding, stretch * yi);
      pdot[j] = scale * pdot[j] + r_if_else_zero(sliding, stretch * yj);
      p[i] = now[i], p[j] = now[j];
    }
}

/* Adjoint of cone_solve: exact derivative of its iterations, from last to first. */
REFIT_INLINE void cone_adj(const R *A, const R *b, const R *mu, const R *touching, const R *seed, R *Abar, R *bbar, R *mubar,
                           int n, int iterations, R *p, R *pbar, R *history, R *relaxed, R *left, R *inverse) {
  const int m = 3 * n;
  cone_solve(A, b, mu, touching, p, history, relaxed, n, iterations, left, inverse);
  for (int i = 0; i < m * m; i++) Abar[i] = C(0.0);
  for (int i = 0; i < m; i++) bbar[i] = C(0.0), pbar[i] = seed[i];
  for (int k = 0; k < n; k++) mubar[k] = C(0.0);
  for (int it = iterations; it-- > 0;)
    for (int k = n; k-- > 0;) {
      const int c = 3 * k, i = c + 1, j = c + 2;
      const R yi = relaxed[2 * (it * n + k)], yj = relaxed[2 * (it * n + k) + 1], normal = p[c];
      const R over = C(1.0) / r_sqrt(yi * yi + yj * yj + C(CONE_TINY)), bound = mu[k] * normal * over;
      const R sliding = r_lt(bound, C(1.0)), scale = r_fmin(C(1.0), bound);
      const R g = r_if_else_zero(sliding, (pbar[i] * yi + pbar[j] * yj) * over);
      const R yibar = scale * pbar[i] - g * bound * over * yi, yjbar = scale * pbar[j] - g * bound * over * yj;
      mubar[k] += g * normal;
      pbar[c] += g * mu[k];
      /* p as each row saw it; its own entry is not read (the diagonal is taken apart) */
      p[i] = yi, pbar[i] = yibar, pbar[j] = C(0.0);
      cone_row_adj(A, p, yjbar, yj, inverse[j], Abar, bbar, pbar, j, m);
      p[j] = it ? history[(it - 1) * m + j] : C(0.0);
      const R yitotal = pbar[i];
      pbar[i] = C(0.0);
      cone_row_adj(A, p, yitotal, yi, inverse[i], Abar, bbar, pbar, i, m);
      p[i] = it ? history[(it - 1) * m + i] : C(0.0);
      const R nbar = r_if_else_zero(r_lt(C(0.0), normal), pbar[c]);
      pbar[c] = C(0.0);
      cone_row_adj(A, p, nbar, normal, inverse[c], Abar, bbar, pbar, c, m);
      p[c] = it ? history[(it - 1) * m + c] : C(0.0);
    }
}

#endif
