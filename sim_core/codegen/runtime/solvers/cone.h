/* Projected Gauss-Seidel over friction cones: loops over R for the blocks that sim_core/codegen/cone.py prints.
 *
 * (J Y' + cfm) p = b for impulses p of n points, three each (normal, two tangents), with p_n >= 0 and |p_t| <= mu p_n.
 * J and Y hold a row of nv numbers for each of the m = 3 n impulses: the motion it resists and the one it causes. w = Y' p
 * is carried along, so that a row costs 2 nv and no matrix of m rows and columns is made. touching (n) is 1 or 0.
 * Sizes are constants where these are inlined.
 */
#ifndef REFIT_CONE_H
#define REFIT_CONE_H

#define CONE_TINY 1e-24

REFIT_INLINE R cone_dot(const R *a, const R *b, int nv) {
  R s = a[0] * b[0];
  for (int k = 1; k < nv; k++) s += a[k] * b[k];
  return s;
}
REFIT_INLINE void cone_add(R *w, const R *Y, R d, int nv) {
  for (int k = 0; k < nv; k++) w[k] += Y[k] * d;
}

/* What the problem is, and 1 / (J_i . Y_i + cfm) of each row. */
typedef struct { const R *J, *Y, *b, *cfm, *mu, *touching; R *inverse; int n, nv, iterations; } Cone;

REFIT_INLINE void cone_prepare(const Cone *c) {
  for (int i = 0; i < 3 * c->n; i++)
    c->inverse[i] = C(1.0) / (cone_dot(c->J + i * c->nv, c->Y + i * c->nv, c->nv) + c->cfm[i / 3]);
}

/* p_i that solves row i for the others as they are. */
REFIT_INLINE R cone_relaxed(const Cone *c, const R *p, const R *w, int i) {
  return p[i] + (c->b[i] - cone_dot(c->J + i * c->nv, w, c->nv) - c->cfm[i / 3] * p[i]) * c->inverse[i];
}
REFIT_INLINE void cone_set(const Cone *c, R *p, R *w, int i, R value) {
  cone_add(w, c->Y + i * c->nv, value - p[i], c->nv);
  p[i] = value;
}

/* The solution p and w; where it is not NULL also history (iterations, n, 5): of every visit of a point its normal impulse,
 * its tangential ones before and after they are drawn into the cone. */
REFIT_INLINE void cone_solve(const Cone *c, R *p, R *w, R *history) {
  cone_prepare(c);
  for (int i = 0; i < 3 * c->n; i++) p[i] = C(0.0);
  for (int k = 0; k < c->nv; k++) w[k] = C(0.0);
  for (int it = 0; it < c->iterations; it++)
    for (int k = 0; k < c->n; k++) {
      const int i = 3 * k + 1, j = 3 * k + 2;
      cone_set(c, p, w, 3 * k, c->touching[k] * r_fmax(cone_relaxed(c, p, w, 3 * k), C(0.0)));
      const R yi = cone_relaxed(c, p, w, i);
      cone_set(c, p, w, i, yi);
      const R yj = cone_relaxed(c, p, w, j);
      const R inside = r_fmin(C(1.0), c->mu[k] * p[3 * k] / r_sqrt(yi * yi + yj * yj + C(CONE_TINY)));
      cone_set(c, p, w, i, inside * yi);
      cone_set(c, p, w, j, inside * yj);
      if (history) {
        R *h = history + 5 * (it * c->n + k);
        h[0] = p[3 * k], h[1] = yi, h[2] = yj, h[3] = p[i], h[4] = p[j];
      }
    }
}

/* Tangent of cone_solve: the same visits with every quantity's derivative beside it. dot holds the problem's, inverse
 * included; pdot and wdot come out. */
REFIT_INLINE R cone_relaxed_fwd(const Cone *c, const Cone *dot, const R *p, const R *w, const R *pdot, const R *wdot, int i) {
  const int at = i * c->nv, k = i / 3;
  const R left = c->b[i] - cone_dot(c->J + at, w, c->nv) - c->cfm[k] * p[i];
  const R leftdot = dot->b[i] - cone_dot(dot->J + at, w, c->nv) - cone_dot(c->J + at, wdot, c->nv) - dot->cfm[k] * p[i] -
                    c->cfm[k] * pdot[i];
  return pdot[i] + leftdot * c->inverse[i] + left * dot->inverse[i];
}
REFIT_INLINE void cone_set_fwd(const Cone *c, const Cone *dot, R *p, R *w, R *pdot, R *wdot, int i, R value, R valuedot) {
  cone_add(wdot, c->Y + i * c->nv, valuedot - pdot[i], c->nv);
  cone_add(wdot, dot->Y + i * c->nv, value - p[i], c->nv);
  cone_set(c, p, w, i, value);
  pdot[i] = valuedot;
}
REFIT_INLINE void cone_fwd(const Cone *c, const Cone *dot, R *p, R *w, R *pdot, R *wdot) {
  cone_prepare(c);
  for (int i = 0; i < 3 * c->n; i++) {
    const int at = i * c->nv;
    dot->inverse[i] = -c->inverse[i] * c->inverse[i] *
                      (cone_dot(dot->J + at, c->Y + at, c->nv) + cone_dot(c->J + at, dot->Y + at, c->nv) + dot->cfm[i / 3]);
    p[i] = pdot[i] = C(0.0);
  }
  for (int k = 0; k < c->nv; k++) w[k] = wdot[k] = C(0.0);
  for (int it = 0; it < c->iterations; it++)
    for (int k = 0; k < c->n; k++) {
      const int i = 3 * k + 1, j = 3 * k + 2;
      const R normal = c->touching[k] * r_fmax(cone_relaxed(c, p, w, 3 * k), C(0.0));
      const R normaldot = r_if_else_zero(r_lt(C(0.0), normal), cone_relaxed_fwd(c, dot, p, w, pdot, wdot, 3 * k));
      cone_set_fwd(c, dot, p, w, pdot, wdot, 3 * k, normal, normaldot);
      const R yi = cone_relaxed(c, p, w, i), yidot = cone_relaxed_fwd(c, dot, p, w, pdot, wdot, i);
      cone_set_fwd(c, dot, p, w, pdot, wdot, i, yi, yidot);
      const R yj = cone_relaxed(c, p, w, j), yjdot = cone_relaxed_fwd(c, dot, p, w, pdot, wdot, j);
      const R over = C(1.0) / r_sqrt(yi * yi + yj * yj + C(CONE_TINY)), bound = c->mu[k] * normal * over;
      const R inside = r_fmin(C(1.0), bound), along = (yi * yidot + yj * yjdot) * over * over;
      const R stretch = (dot->mu[k] * normal + c->mu[k] * normaldot) * over - bound * along;
      const R insidedot = r_if_else_zero(r_lt(bound, C(1.0)), stretch);
      cone_set_fwd(c, dot, p, w, pdot, wdot, i, inside * yi, inside * yidot + insidedot * yi);
      cone_set_fwd(c, dot, p, w, pdot, wdot, j, inside * yj, inside * yjdot + insidedot * yj);
    }
}

/* Adjoint of cone_solve: exact derivative of its visits, from last to first. bar holds the derivatives by the problem, which
 * are added to; its inverse gathers those by J_i . Y_i + cfm. */
typedef struct { R *J, *Y, *b, *cfm, *mu, *inverse; } ConeBar;

/* Of cone_set(value), which took p_i from `before` to `after`: the derivative by value; w goes back to before. */
REFIT_INLINE R cone_set_adj(const Cone *c, const ConeBar *bar, R *w, R *pbar, const R *wbar, int i, R before, R after) {
  const R *const Y = c->Y + i * c->nv;
  const R change = after - before, dbar = cone_dot(Y, wbar, c->nv), valuebar = pbar[i] + dbar;
  cone_add(bar->Y + i * c->nv, wbar, change, c->nv);
  cone_add(w, Y, -change, c->nv);
  pbar[i] = -dbar;
  return valuebar;
}
/* Of y = cone_relaxed(i) at p_i = now. */
REFIT_INLINE void cone_relaxed_adj(const Cone *c, const ConeBar *bar, const R *w, R *pbar, R *wbar, int i, R now, R y, R ybar) {
  const int at = i * c->nv, k = i / 3;
  const R leftbar = ybar * c->inverse[i];
  bar->b[i] += leftbar;
  bar->cfm[k] -= leftbar * now;
  bar->inverse[i] -= leftbar * (y - now);
  cone_add(bar->J + at, w, -leftbar, c->nv);
  cone_add(wbar, c->J + at, -leftbar, c->nv);
  pbar[i] += ybar - leftbar * c->cfm[k];
}
REFIT_INLINE void cone_adj(const Cone *c, const ConeBar *bar, const R *seed, R *p, R *w, R *pbar, R *wbar, R *history) {
  const int m = 3 * c->n;
  cone_solve(c, p, w, history);
  for (int i = 0; i < m * c->nv; i++) bar->J[i] = bar->Y[i] = C(0.0);
  for (int i = 0; i < m; i++) bar->b[i] = bar->inverse[i] = C(0.0), pbar[i] = seed[i];
  for (int k = 0; k < c->n; k++) bar->cfm[k] = bar->mu[k] = C(0.0);
  for (int k = 0; k < c->nv; k++) wbar[k] = C(0.0);
  for (int it = c->iterations; it-- > 0;)
    for (int k = c->n; k-- > 0;) {
      const int i = 3 * k + 1, j = 3 * k + 2;
      const R *const h = history + 5 * (it * c->n + k), *const last = h - 5 * c->n;
      const R n0 = it ? last[0] : C(0.0), i0 = it ? last[3] : C(0.0), j0 = it ? last[4] : C(0.0);
      const R normal = h[0], yi = h[1], yj = h[2];
      R yjbar = cone_set_adj(c, bar, w, pbar, wbar, j, j0, h[4]);
      R yibar = cone_set_adj(c, bar, w, pbar, wbar, i, yi, h[3]);
      const R over = C(1.0) / r_sqrt(yi * yi + yj * yj + C(CONE_TINY)), bound = c->mu[k] * normal * over;
      const R sliding = r_lt(bound, C(1.0)), inside = r_fmin(C(1.0), bound);
      const R g = r_if_else_zero(sliding, (yibar * yi + yjbar * yj) * over);
      yibar = inside * yibar - g * bound * over * yi, yjbar = inside * yjbar - g * bound * over * yj;
      bar->mu[k] += g * normal;
      pbar[3 * k] += g * c->mu[k];
      cone_relaxed_adj(c, bar, w, pbar, wbar, j, j0, yj, yjbar);
      pbar[i] += yibar;
      yibar = cone_set_adj(c, bar, w, pbar, wbar, i, i0, yi);
      cone_relaxed_adj(c, bar, w, pbar, wbar, i, i0, yi, yibar);
      const R nbar = cone_set_adj(c, bar, w, pbar, wbar, 3 * k, n0, normal);
      /* where the impulse is positive it is the relaxed one; elsewhere that has no say */
      cone_relaxed_adj(c, bar, w, pbar, wbar, 3 * k, n0, normal, r_if_else_zero(r_lt(C(0.0), normal), nbar));
    }
  for (int i = 0; i < m; i++) {
    cone_add(bar->J + i * c->nv, c->Y + i * c->nv, bar->inverse[i], c->nv);
    cone_add(bar->Y + i * c->nv, c->J + i * c->nv, bar->inverse[i], c->nv);
    bar->cfm[i / 3] += bar->inverse[i];
  }
}

#endif
