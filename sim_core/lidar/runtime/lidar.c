/* lidar.h on CPU threads, and the trees of boxes over triangles that it looks through. */
#include "lidar.h"

/* ---- trees --------------------------------------------------------------------------- */

typedef struct { const S *corner; const S *middle; int32_t *order; lidar_node *nodes; int32_t count, axis; } lidar_tree;

/* Puts the middle of order[first .. last) where it belongs by its middle along an axis (Hoare's selection). */
static void lidar_halve(const lidar_tree *tree, int32_t first, int32_t last) {
  const int32_t wanted = first + (last - first) / 2;
  int32_t low = first, high = last - 1;
  while (low < high) {
    const S pivot = tree->middle[3 * (int64_t)tree->order[low + (high - low) / 2] + tree->axis];
    int32_t i = low, j = high;
    while (i <= j) {
      while (tree->middle[3 * (int64_t)tree->order[i] + tree->axis] < pivot) i++;
      while (tree->middle[3 * (int64_t)tree->order[j] + tree->axis] > pivot) j--;
      if (i <= j) {
        const int32_t swap = tree->order[i];
        tree->order[i++] = tree->order[j];
        tree->order[j--] = swap;
      }
    }
    if (wanted <= j) high = j;
    else if (wanted >= i) low = i;
    else return;
  }
}

static void lidar_grow(lidar_tree *tree, int32_t first, int32_t last) {
  lidar_node *node = tree->nodes + tree->count++;
  S low[3] = {K(1e300), K(1e300), K(1e300)}, high[3] = {-K(1e300), -K(1e300), -K(1e300)};
  for (int i = 0; i < 3; i++) node->low[i] = K(1e300), node->high[i] = -K(1e300);
  for (int32_t f = first; f < last; f++)
    for (int i = 0; i < 3; i++) {
      const S at = tree->middle[3 * (int64_t)tree->order[f] + i];
      if (at < low[i]) low[i] = at;
      if (at > high[i]) high[i] = at;
      for (int k = 0; k < 3; k++) {
        const S x = tree->corner[9 * (int64_t)tree->order[f] + 3 * k + i];
        if (x < node->low[i]) node->low[i] = x;
        if (x > node->high[i]) node->high[i] = x;
      }
    }
  int axis = 0;
  for (int i = 1; i < 3; i++)
    if (high[i] - low[i] > high[axis] - low[axis]) axis = i;
  node->first = first, node->count = last - first, node->right = 0, node->unused = 0;
  if (last - first <= 4 || high[axis] <= low[axis]) return;
  node->count = 0;
  tree->axis = axis;
  lidar_halve(tree, first, last);
  const int32_t half = first + (last - first) / 2;
  lidar_grow(tree, first, half);
  node->right = tree->count;
  lidar_grow(tree, half, last);
}

/* corner (n, 9), middle (n, 3); order (n) comes in as 0 .. n - 1; nodes: room for 2 n. Returns their number. */
int32_t EXPORT(tree)(const S *corner, const S *middle, int32_t *order, lidar_node *nodes, int32_t n) {
  lidar_tree tree = {corner, middle, order, nodes, 0, 0};
  lidar_grow(&tree, 0, n);
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
