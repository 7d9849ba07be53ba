/* Which pairs may touch: spheres sorted into the cells of a grid, and what pairs of a new list remember of the list before.
 *
 * The order of a list depends on places alone, neither on threads nor on the machine: pairs of one sphere a are sorted by cells, in a
 * cell by number.
 */
#ifndef REFIT_GRANULAR_NEIGHBOURS_H
#define REFIT_GRANULAR_NEIGHBOURS_H

typedef struct { S low[3], size; int32_t n[3]; } granular_grid;

typedef struct {
  granular_grid *grid;
  const int64_t *first;         /* (cells + 1) of its spheres in `sorted` */
  int32_t *of, *sorted;         /* cell of each sphere; spheres by cells, those of a cell in their order */
  S *center;                    /* of the sorted spheres (spheres, 4) */
} granular_cells;

/* As many cells as a grid has at most. */
#define MOST_CELLS(spheres) (4 * (int64_t)(spheres) + 4096)

/* The finest grid over a region whose cells are wider than two spheres reach, with not too many cells. */
REFIT_INLINE void fit_grid(const granular_world *w, granular_grid *g, const S *low, const S *high, S largest) {
  S size = 2 * largest + w->skin;
  for (;;) {
    double cells = 1;
    for (int k = 0; k < 3; k++) cells *= (double)REFIT_M(floor)((high[k] - low[k]) / size) + 1;
    if (cells <= (double)MOST_CELLS(w->spheres)) break;
    size *= K(1.26);
  }
  g->size = size;
  for (int k = 0; k < 3; k++) {
    g->low[k] = low[k];
    g->n[k] = (int32_t)((high[k] - low[k]) / size) + 1;
  }
}

/* Grows a region by a sphere. */
REFIT_INLINE void hold_sphere(const S *center, S *low, S *high, S *largest) {
  for (int k = 0; k < 3; k++) {
    if (center[k] < low[k]) low[k] = center[k];
    if (center[k] > high[k]) high[k] = center[k];
  }
  if (center[3] > *largest) *largest = center[3];
}

REFIT_INLINE int32_t along(const granular_grid *g, const S *c, int k) {
  const int32_t i = (int32_t)((c[k] - g->low[k]) / g->size);
  return i < 0 ? 0 : i >= g->n[k] ? g->n[k] - 1 : i;
}

REFIT_INLINE int32_t cell_at(const granular_grid *g, const S *c) {
  return along(g, c, 0) + g->n[0] * (along(g, c, 1) + g->n[1] * along(g, c, 2));
}

/* Later spheres that sphere i may touch: as many as there is room for are written down. Returns how many there are. */
REFIT_FN int64_t spheres_near(const granular_world *w, const granular_cells *cells, int32_t i, int32_t *b, int64_t room) {
  const granular_grid *g = cells->grid;
  const S *c = w->center + 4 * i;
  const int32_t body = w->body[i], fixed = w->motion[body].inverse_mass == 0;
  int64_t n = 0;
  int32_t at[3];
  for (int k = 0; k < 3; k++) at[k] = along(g, c, k);
  const int32_t x0 = at[0] > 0 ? at[0] - 1 : 0, x1 = at[0] + 1 < g->n[0] ? at[0] + 1 : at[0];
  for (int32_t z = at[2] - 1; z <= at[2] + 1; z++) {
    if (z < 0 || z >= g->n[2]) continue;
    for (int32_t y = at[1] - 1; y <= at[1] + 1; y++) {
      if (y < 0 || y >= g->n[1]) continue;
      const int64_t row = g->n[0] * ((int64_t)y + (int64_t)g->n[1] * z);
      const int64_t last = cells->first[row + x1 + 1];
      for (int64_t o = cells->first[row + x0]; o < last; o++) {
        const int32_t j = cells->sorted[o];
        if (j <= i) continue;
        const S *d = cells->center + 4 * o;
        const S u = d[0] - c[0], v = d[1] - c[1], z_ = d[2] - c[2], reach = c[3] + d[3] + w->skin;
        if (u * u + v * v + z_ * z_ >= reach * reach || w->body[j] == body) continue;
        if (fixed && w->motion[w->body[j]].inverse_mass == 0) continue;
        if (n < room) b[n] = j;
        n++;
      }
    }
  }
  return n;
}

/* Likewise parts. */
REFIT_FN int64_t parts_near(const granular_world *w, int32_t i, int32_t *b, int64_t room) {
  const S *c = w->center + 4 * i;
  int64_t n = 0;
  if (w->motion[w->body[i]].inverse_mass == 0) return 0;
  for (int32_t p = 0; p < w->parts; p++) {
    if (!is_near_part(w->pose + p, c, c[3] + w->skin)) continue;
    if (n < room) b[n] = w->spheres + p;
    n++;
  }
  return n;
}

/* What pair p of a new list remembers: history and touch in the list before, where like pairs of its sphere a are from range[0] on,
 * before range[1]. */
REFIT_INLINE void remember(const granular_pairs *before, const int64_t *range, const granular_pairs *to, int64_t p) {
  const int32_t b = to->b[p];
  to->touches[p] = 0;
  for (int k = 0; k < 6; k++) to->history[k * to->room + p] = 0;
  for (int64_t o = range[0]; o < range[1]; o++)
    if (before->b[o] == b) {
      for (int k = 0; k < 6; k++) to->history[k * to->room + p] = before->history[k * before->room + o];
      to->touches[p] = before->touches[o];
      return;
    }
}

#endif
