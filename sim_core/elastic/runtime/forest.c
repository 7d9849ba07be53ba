/* Trees as flat arrays, evaluated for many queries: one tree after the other, so that it stays in the nearest cache, and FOREST_SIDE
 * queries side by side, so that one's wait for memory is another's work. A leaf leads to itself, so that a walk has no branch. */
#include "batch.h"

enum { FOREST_SIDE = 16 };

/* x <= threshold goes to `first`, otherwise to the one after it */
typedef struct { S threshold; int32_t feature, first; } forest_node;

typedef struct {
  const forest_node *node;
  const S *value;       /* of each node; those of leaves count */
  const int32_t *root;  /* (trees) */
  const int32_t *depth; /* (trees) steps from the root to the deepest leaf */
  const S *weight;      /* (trees) */
  int32_t trees, features;
} forest_trees;

REFIT_INLINE void forest_walk(const forest_trees *f, int32_t tree, const S *x, int32_t *at, int32_t side) {
  for (int32_t q = 0; q < side; q++) at[q] = f->root[tree];
  for (int32_t step = 0; step < f->depth[tree]; step++)
    for (int32_t q = 0; q < side; q++) {
      const forest_node n = f->node[at[q]];
      at[q] = n.first + !(x[q * f->features + n.feature] <= n.threshold);
    }
}

/* x (n, features), rounded as the trees were grown with; out (n) = sum of weight times leaf, or (n, trees) leaves if `each` */
int EXPORT(forest)(const forest_trees *f, const S *x, S *out, int64_t n, int32_t each) {
  if (!each) memset(out, 0, (size_t)n * sizeof(S));
  for (int32_t tree = 0; tree < f->trees; tree++)
    for (int64_t first = 0; first < n; first += FOREST_SIDE) {
      int32_t at[FOREST_SIDE];
      const S *some = x + first * f->features;
      const int32_t side = n - first < FOREST_SIDE ? (int32_t)(n - first) : FOREST_SIDE;
      if (side == FOREST_SIDE) forest_walk(f, tree, some, at, FOREST_SIDE); /* a length that the compiler knows */
      else forest_walk(f, tree, some, at, side);
      for (int32_t q = 0; q < side; q++) {
        if (each) out[(first + q) * f->trees + tree] = f->value[at[q]];
        else out[first + q] += f->weight[tree] * f->value[at[q]];
      }
    }
  return REFIT_OK;
}
