/* lidar.h on CPU threads, and the trees of boxes over triangles that it looks through. */
#include "lidar.h"

/* ---- trees --------------------------------------------------------------------------- */

typedef struct { const S *corner; const S *middle; int32_t *order; lidar_node *nodes; int32_t count; } lidar_tree;
typedef struct { S low[3], high[3]; int32_t count; } lidar_bin;
enum { LIDAR_BINS = 16, LIDAR_LEAF = 4 };

static void lidar_widen(lidar_bin *bin, const S *low, const S *high) {
  for (int i = 0; i < 3; i++) {
    if (low[i] < bin->low[i]) bin->low[i] = low[i];
    if (high[i] > bin->high[i]) bin->high[i] = high[i];
  }
}

static S lidar_surface(const lidar_bin *b) {
  if (!b->count) return 0;
  const S x = b->high[0] - b->low[0], y = b->high[1] - b->low[1], z = b->high[2] - b->low[2];
  return x * y + y * z + z * x;
}

static const lidar_bin LIDAR_NOTHING = {{K(1e300), K(1e300), K(1e300)}, {-K(1e300), -K(1e300), -K(1e300)}, 0};

/* Number of the bin of a triangle's middle. */
static int lidar_bin_of(S at, S low, S high) {
  const int bin = (int)((at - low) / (high - low) * LIDAR_BINS);
  return bin < LIDAR_BINS - 1 ? bin : LIDAR_BINS - 1;
}

/* Puts order[first .. last) in two parts where boxes have the least surface times triangles (Wald 2007). Returns where, or -1. */
static int32_t lidar_split(lidar_tree *tree, lidar_node *node, int32_t first, int32_t last) {
  lidar_bin around = LIDAR_NOTHING;
  for (int32_t f = first; f < last; f++) {
    const S *m = tree->middle + 3 * (int64_t)tree->order[f];
    lidar_widen(&around, m, m);
  }
  S best = K(1e300), border = 0;
  int axis = -1;
  for (int i = 0; i < 3; i++) {
    if (around.high[i] <= around.low[i]) continue;
    lidar_bin bins[LIDAR_BINS];
    for (int k = 0; k < LIDAR_BINS; k++) bins[k] = LIDAR_NOTHING;
    for (int32_t f = first; f < last; f++) {
      const int64_t at = tree->order[f];
      lidar_bin *bin = bins + lidar_bin_of(tree->middle[3 * at + i], around.low[i], around.high[i]);
      for (int k = 0; k < 3; k++) lidar_widen(bin, tree->corner + 9 * at + 3 * k, tree->corner + 9 * at + 3 * k);
      bin->count++;
    }
    S after[LIDAR_BINS];
    lidar_bin sum = LIDAR_NOTHING;
    for (int k = LIDAR_BINS - 1; k > 0; k--) {
      if (bins[k].count) lidar_widen(&sum, bins[k].low, bins[k].high);
      sum.count += bins[k].count;
      after[k] = sum.count ? lidar_surface(&sum) * sum.count : K(1e300);
    }
    sum = LIDAR_NOTHING;
    for (int k = 0; k < LIDAR_BINS - 1; k++) {
      if (bins[k].count) lidar_widen(&sum, bins[k].low, bins[k].high);
      sum.count += bins[k].count;
      const S cost = sum.count ? lidar_surface(&sum) * sum.count + after[k + 1] : K(1e300);
      if (cost < best) best = cost, axis = i, border = k;
    }
  }
  if (axis < 0) return -1;
  int32_t half = first;
  for (int32_t f = first; f < last; f++) {
    const int32_t at = tree->order[f];
    if (lidar_bin_of(tree->middle[3 * (int64_t)at + axis], around.low[axis], around.high[axis]) > border) continue;
    tree->order[f] = tree->order[half];
    tree->order[half++] = at;
  }
  node->axis = axis;
  return half > first && half < last ? half : -1;
}

static void lidar_grow(lidar_tree *tree, int32_t first, int32_t last, int deep) {
  lidar_node *node = tree->nodes + tree->count++;
  lidar_bin whole = LIDAR_NOTHING;
  for (int32_t f = first; f < last; f++)
    for (int k = 0; k < 3; k++) {
      const S *x = tree->corner + 9 * (int64_t)tree->order[f] + 3 * k;
      lidar_widen(&whole, x, x);
    }
  for (int i = 0; i < 3; i++) node->low[i] = whole.low[i], node->high[i] = whole.high[i];
  node->first = first, node->count = last - first, node->right = node->axis = 0;
  /* a ray's stack holds LIDAR_STACK nodes */
  if (last - first <= LIDAR_LEAF || deep >= LIDAR_STACK - 2) return;
  const int32_t half = lidar_split(tree, node, first, last);
  if (half < 0) return;
  node->count = 0;
  lidar_grow(tree, first, half, deep + 1);
  node->right = tree->count;
  lidar_grow(tree, half, last, deep + 1);
}

/* corner (n, 9), middle (n, 3); order (n) comes in as 0 .. n - 1; nodes: room for 2 n. Returns their number. */
int32_t EXPORT(tree)(const S *corner, const S *middle, int32_t *order, lidar_node *nodes, int32_t n) {
  lidar_tree tree = {corner, middle, order, nodes, 0};
  lidar_grow(&tree, 0, n, 0);
  return tree.count;
}

/* ---- scans --------------------------------------------------------------------------- */

typedef struct {
  const lidar_world *w;
  const S *u, *t;
  lidar_beam *out;
  S *slope;
} lidar_batch;

static void lidar_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const lidar_batch *b = argument;
  (void)scratch;
  for (int64_t at = first; at < last; at++) {
    const int64_t scan = at / b->w->beams, inputs = b->w->inputs;
    lidar_scan_beam(b->w, b->u + scan * inputs, b->t + scan * inputs * LIDAR_P, (int32_t)(at % b->w->beams), b->out + at,
                    b->slope + at * LIDAR_P, NULL);
  }
}

/* u (n, inputs), t (n, inputs, LIDAR_P), out (n, beams), slope (n, beams, LIDAR_P) */
int EXPORT(scans)(const lidar_world *w, const S *u, const S *t, lidar_beam *out, S *slope, int64_t n, int threads) {
  const lidar_batch batch = {w, u, t, out, slope};
  return refit_parallel(lidar_slice, &batch, n * w->beams, threads, 0);
}

/* All returns of one scan; as many as there is room for. Returns their number. */
int64_t EXPORT(returns)(const lidar_world *w, const S *u, const S *t, lidar_return *list, int64_t room) {
  lidar_list found = {list, room, 0};
  S slope[LIDAR_P > 0 ? LIDAR_P : 1];
  lidar_beam out;
  for (int32_t b = 0; b < w->beams; b++) lidar_scan_beam(w, u, t, b, &out, slope, &found);
  return found.count;
}

/* Only which triangle is met: origin and direction (n, 3); distance (n), 1e30 where none is; body and face (n) */
typedef struct { const lidar_world *w; const S *u, *o, *d; S *distance; int32_t *body, *face; } lidar_casts;

static void lidar_cast_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const lidar_casts *c = argument;
  (void)scratch;
  for (int64_t i = first; i < last; i++) {
    const lidar_hit hit = lidar_nearest(c->w, c->u, c->o + 3 * i, c->d + 3 * i, -1, -1, -1);
    c->distance[i] = hit.t, c->body[i] = hit.body, c->face[i] = hit.face;
  }
}

int EXPORT(cast)(const lidar_world *w, const S *u, const S *o, const S *d, S *distance, int32_t *body, int32_t *face, int64_t n,
                 int threads) {
  const lidar_casts casts = {w, u, o, d, distance, body, face};
  return refit_parallel(lidar_cast_slice, &casts, n, threads, 0);
}
