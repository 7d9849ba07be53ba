/* A rigid body's points against the surface of an elastic object: pairs, their coupling, and the complementarity problem.
 *
 * The surface comes as it is seen along the approach: coordinates across it, sorted by the cells of a grid. Equations by their numbers in
 * Zhu's thesis (2023), section 4.4.
 */
#ifndef ELASTIC_H
#define ELASTIC_H
#include "batch.h"

enum { ELASTIC_FEATURES = 9, ELASTIC_NEAR = 3, ELASTIC_PANEL = 8, ELASTIC_BLOCK = 32, ELASTIC_TILE = 128 };
/* what solves the complementarity problem */
enum { ELASTIC_EXACT, ELASTIC_PRUNED, ELASTIC_APART };
/* pairs whose middles are nearer than this are one [m] */
#define ELASTIC_SAME K(1e-6)
/* a penetration that an exact answer does not leave, over the largest displacement */
#define ELASTIC_LEFT K(1e-12)

typedef struct {
  const S *across;      /* (n, 2) places across the approach, by cells */
  const S *feature;     /* (n, ELASTIC_FEATURES) in the same order */
  const int32_t *start; /* (rows * columns + 1) first point of each cell */
  const uint8_t *covers; /* (n) whether something that is hidden lies below */
  S u[3], v[3];         /* unit vectors across the approach */
  S low[2], cell, reach;
  int32_t columns, rows;
} elastic_sight;

/* One surface point that touches, as an average of three. */
typedef struct { S feature[ELASTIC_FEATURES], rigid[3], nominal, displacement; } elastic_pair;

/* What is said of one pose. */
typedef struct { S penetration; int32_t count, beside, undercut, failed; } elastic_outcome;

/* ---- the three nearest across the approach --------------------------------------------- */

typedef struct { S square[ELASTIC_NEAR]; int32_t at[ELASTIC_NEAR]; } elastic_near;

REFIT_INLINE void elastic_look(const elastic_sight *s, int32_t column, int32_t row, S x, S y, elastic_near *near) {
  const int64_t cell = (int64_t)row * s->columns + column;
  for (int32_t i = s->start[cell]; i < s->start[cell + 1]; i++) {
    const S dx = s->across[2 * (int64_t)i] - x, dy = s->across[2 * (int64_t)i + 1] - y, square = dx * dx + dy * dy;
    if (square >= near->square[2]) continue;
    int k = 2;
    for (; k > 0 && near->square[k - 1] > square; k--) near->square[k] = near->square[k - 1], near->at[k] = near->at[k - 1];
    near->square[k] = square, near->at[k] = i;
  }
}

REFIT_INLINE int32_t elastic_cell(S x, S low, S cell, int32_t count) {
  const S at = s_floor((x - low) / cell);
  return at <= 0 ? 0 : at >= count - 1 ? count - 1 : (int32_t)at;
}

/* Rings of cells around the point until no farther one can matter. Returns 0 where the nearest is beyond reach. */
REFIT_FN int elastic_nearest(const elastic_sight *s, S x, S y, elastic_near *near) {
  for (int k = 0; k < ELASTIC_NEAR; k++) near->square[k] = K(1e300), near->at[k] = -1;
  const int32_t column = elastic_cell(x, s->low[0], s->cell, s->columns), row = elastic_cell(y, s->low[1], s->cell, s->rows);
  const int32_t most = s->columns > s->rows ? s->columns : s->rows;
  for (int32_t ring = 0; ring <= most; ring++) {
    const S safe = (ring - 1) * s->cell; /* what is not yet seen is at least so far */
    if (ring > 0 && near->square[2] <= safe * safe) break;
    if (ring > 0 && near->at[0] < 0 && safe > s->reach) return 0;
    for (int32_t j = row - ring; j <= row + ring; j++) {
      if (j < 0 || j >= s->rows) continue;
      const int32_t step = j == row - ring || j == row + ring || ring == 0 ? 1 : 2 * ring;
      for (int32_t i = column - ring; i <= column + ring; i += step)
        if (i >= 0 && i < s->columns) elastic_look(s, i, j, x, y, near);
    }
  }
  return near->at[2] >= 0 && near->square[0] <= s->reach * s->reach;
}

/* ---- pairs ------------------------------------------------------------------------------ */

REFIT_INLINE void elastic_order(int32_t *at) {
  for (int k = 1; k < ELASTIC_NEAR; k++)
    for (int l = k; l > 0 && at[l - 1] > at[l]; l--) {
      const int32_t swap = at[l];
      at[l] = at[l - 1], at[l - 1] = swap;
    }
}

/* Averages over three points, in an order that does not depend on the body's (4.1). Returns 0 where their normals cancel. */
REFIT_INLINE int elastic_average(const elastic_sight *s, const elastic_near *near, const S *rigid, elastic_pair *pair) {
  int32_t at[ELASTIC_NEAR];
  for (int k = 0; k < ELASTIC_NEAR; k++) at[k] = near->at[k];
  elastic_order(at);
  S sum[ELASTIC_FEATURES] = {0}, nominal = 0;
  for (int k = 0; k < ELASTIC_NEAR; k++) {
    const S *f = s->feature + ELASTIC_FEATURES * (int64_t)at[k];
    for (int i = 0; i < ELASTIC_FEATURES; i++) sum[i] += f[i];
    for (int i = 0; i < 3; i++) nominal -= (rigid[i] - f[i]) * f[6 + i];
  }
  const S length = s_sqrt(sum[6] * sum[6] + sum[7] * sum[7] + sum[8] * sum[8]);
  for (int i = 0; i < ELASTIC_FEATURES; i++) pair->feature[i] = sum[i] / (i < 6 ? ELASTIC_NEAR : length);
  for (int i = 0; i < 3; i++) pair->rigid[i] = rigid[i];
  pair->nominal = nominal / ELASTIC_NEAR;
  pair->displacement = 0;
  return length > K(1e-6);
}

/* Pairs at one place become one with the largest displacement, whose rigid point is the middle of those that ask for it. */
REFIT_FN int32_t elastic_merge(elastic_pair *pair, int32_t count, int32_t *tied) {
  int32_t kept = 0;
  for (int32_t i = 0; i < count; i++) {
    int32_t k = 0;
    for (; k < kept; k++) {
      S square = 0;
      for (int c = 0; c < 3; c++) square += (pair[i].feature[c] - pair[k].feature[c]) * (pair[i].feature[c] - pair[k].feature[c]);
      if (square < ELASTIC_SAME * ELASTIC_SAME) break;
    }
    if (k == kept) {
      tied[kept] = 1;
      pair[kept++] = pair[i];
    } else if (pair[i].nominal > pair[k].nominal + K(1e-9)) {
      tied[k] = 1;
      pair[k] = pair[i];
    } else if (pair[i].nominal >= pair[k].nominal - K(1e-9)) {
      tied[k]++;
      for (int c = 0; c < 3; c++) pair[k].rigid[c] += (pair[i].rigid[c] - pair[k].rigid[c]) / tied[k];
    }
  }
  return kept;
}

/* ---- equations -------------------------------------------------------------------------- */

/* Row i less what ELASTIC_PANEL finished rows, of which r is the first, say of it, in columns from..to. */
REFIT_INLINE void elastic_reduce(S *REFIT_RESTRICT row, const S *REFIT_RESTRICT r, int64_t stride, int32_t i, int32_t from, int32_t to) {
  const S c0 = r[i], c1 = r[stride + i], c2 = r[2 * stride + i], c3 = r[3 * stride + i];
  const S c4 = r[4 * stride + i], c5 = r[5 * stride + i], c6 = r[6 * stride + i], c7 = r[7 * stride + i];
  for (int32_t j = from; j < to; j++)
    row[j] -= c0 * r[j] + c1 * r[stride + j] + c2 * r[2 * stride + j] + c3 * r[3 * stride + j] + c4 * r[4 * stride + j] +
              c5 * r[5 * stride + j] + c6 * r[6 * stride + j] + c7 * r[7 * stride + j];
}

/* U'U = the matrix whose upper half comes in, rows of `stride`; Cholesky by blocks of rows, and what is left of the matrix by tiles that
 * stay in the nearest cache. Returns 0 where it is not positive definite. */
REFIT_FN int elastic_factor(S *REFIT_RESTRICT a, int32_t n, int64_t stride) {
  for (int32_t block = 0; block < n; block += ELASTIC_BLOCK) {
    const int32_t end = block + ELASTIC_BLOCK < n ? block + ELASTIC_BLOCK : n;
    for (int32_t first = block; first < end; first += ELASTIC_PANEL) {
      const int32_t last = first + ELASTIC_PANEL < end ? first + ELASTIC_PANEL : end;
      for (int32_t k = first; k < last; k++) {
        S *row = a + k * stride;
        if (!(row[k] > 0)) return 0;
        const S inverse = 1 / s_sqrt(row[k]);
        for (int32_t j = k; j < n; j++) row[j] *= inverse;
        for (int32_t i = k + 1; i < last; i++) {
          S *REFIT_RESTRICT to = a + i * stride;
          const S c = row[i];
          for (int32_t j = i; j < n; j++) to[j] -= c * row[j];
        }
      }
      /* panels are whole but for the very last, after which there are no rows */
      for (int32_t i = last; i < end; i++) elastic_reduce(a + i * stride, a + first * stride, stride, i, i, n);
    }
    for (int32_t tile = end; tile < n; tile += ELASTIC_TILE) {
      const int32_t to = tile + ELASTIC_TILE < n ? tile + ELASTIC_TILE : n;
      for (int32_t i = end; i < to; i++)
        for (int32_t first = block; first < end; first += ELASTIC_PANEL)
          elastic_reduce(a + i * stride, a + first * stride, stride, i, i > tile ? i : tile, to);
    }
  }
  return 1;
}

/* x := (U'U)^-1 x */
REFIT_FN void elastic_substitute(const S *REFIT_RESTRICT u, S *REFIT_RESTRICT x, int32_t n, int64_t stride) {
  for (int32_t k = 0; k < n; k++) {
    const S *row = u + k * stride;
    const S value = x[k] /= row[k];
    for (int32_t j = k + 1; j < n; j++) x[j] -= row[j] * value;
  }
  for (int32_t k = n - 1; k >= 0; k--) {
    const S *row = u + k * stride;
    S sum[4] = {x[k], 0, 0, 0};
    for (int32_t j = k + 1; j < n; j++) sum[j & 3] -= row[j] * x[j];
    x[k] = (sum[0] + sum[1] + sum[2] + sum[3]) / row[k];
  }
}

/* One problem and the room that it takes: n points, `active` of them in equations. */
typedef struct { S *g, *u, *x, *w; int32_t *active; int64_t stride; int32_t n, count; } elastic_problem;

/* x := the displacements of the active points that meet their nominal ones, in the active points' order. */
REFIT_FN int elastic_equations(const elastic_problem *p, const S *nominal) {
  for (int32_t i = 0; i < p->count; i++) {
    const S *row = p->g + p->active[i] * p->stride;
    S *to = p->u + i * p->stride;
    for (int32_t j = i; j < p->count; j++) to[j] = row[p->active[j]];
    p->x[i] = nominal[p->active[i]];
  }
  if (!elastic_factor(p->u, p->count, p->stride)) return 0;
  elastic_substitute(p->u, p->x, p->count, p->stride);
  return 1;
}

/* w = G z - d; returns the point that penetrates most, or -1. */
REFIT_FN int32_t elastic_gap(const elastic_problem *p, const S *nominal, const S *z, S most) {
  for (int32_t j = 0; j < p->n; j++) p->w[j] = -nominal[j];
  for (int32_t i = 0; i < p->n; i++) {
    if (z[i] == 0) continue;
    const S *row = p->g + i * p->stride, value = z[i];
    for (int32_t j = 0; j < p->n; j++) p->w[j] += row[j] * value;
  }
  for (int32_t i = 0; i < p->count; i++) p->w[p->active[i]] = 0;
  int32_t worst = -1;
  S least = -ELASTIC_LEFT * most;
  for (int32_t j = 0; j < p->n; j++)
    if (p->w[j] < least) least = p->w[j], worst = j;
  return worst;
}

/* All points as equations; those that would pull are dropped, again until none would (section 4.4.2). */
REFIT_FN int elastic_prune(elastic_problem *p, const S *nominal, S *z) {
  p->count = p->n;
  for (int32_t i = 0; i < p->n; i++) p->active[i] = i, z[i] = 0;
  while (p->count) {
    if (!elastic_equations(p, nominal)) return 0;
    int32_t kept = 0;
    for (int32_t i = 0; i < p->count; i++)
      if (p->x[i] >= 0) p->active[kept++] = p->active[i];
    const int done = kept == p->count;
    p->count = kept;
    if (!done) continue;
    for (int32_t i = 0; i < kept; i++) z[p->active[i]] = p->x[i];
    break;
  }
  return 1;
}

/* From there points that penetrate come back one by one (Lawson and Hanson, 1974, 23.3). */
REFIT_FN int elastic_readmit(elastic_problem *p, const S *nominal, S *z, S most) {
  for (int64_t turn = 0; turn < 10 * (int64_t)p->n + 10; turn++) {
    const int32_t enters = elastic_gap(p, nominal, z, most);
    if (enters < 0) return 1;
    p->active[p->count++] = enters;
    for (;;) {
      if (!elastic_equations(p, nominal)) return 0;
      S share = 1;
      int32_t leaves = -1;
      for (int32_t i = 0; i < p->count; i++) {
        const S now = z[p->active[i]];
        if (p->x[i] > 0) continue;
        const S part = now > p->x[i] ? now / (now - p->x[i]) : 0;
        if (part < share || leaves < 0) share = part, leaves = i;
      }
      for (int32_t i = 0; i < p->count; i++) {
        S *to = z + p->active[i];
        *to = leaves < 0 ? p->x[i] : *to + share * (p->x[i] - *to);
      }
      if (leaves < 0) break;
      int32_t kept = 0;
      for (int32_t i = 0; i < p->count; i++) {
        const int32_t at = p->active[i];
        if (i == leaves || (p->x[i] <= 0 && z[at] <= K(1e-15) * most)) z[at] = 0;
        else p->active[kept++] = at;
      }
      p->count = kept;
      if (!kept) break;
    }
    if (z[enters] == 0) return 1; /* its penetration is below what double precision tells */
  }
  return 0;
}

/* (4.3) for G and nominal displacements d: z (n). Returns 0 where it was not solved; `penetration`: what pruning alone would leave. */
REFIT_FN int elastic_solve(elastic_problem *p, const S *nominal, S *z, int kind, S *penetration) {
  S most = 0;
  for (int32_t i = 0; i < p->n; i++)
    if (nominal[i] > most) most = nominal[i];
  *penetration = 0;
  if (kind == ELASTIC_APART) {
    for (int32_t i = 0; i < p->n; i++) z[i] = nominal[i];
    return 1;
  }
  if (!elastic_prune(p, nominal, z)) return 0;
  const int32_t worst = elastic_gap(p, nominal, z, most);
  if (worst < 0) return 1;
  *penetration = -p->w[worst];
  return kind == ELASTIC_PRUNED || elastic_readmit(p, nominal, z, most);
}

#endif
