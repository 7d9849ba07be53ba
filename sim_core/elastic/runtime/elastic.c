/* elastic.h over many poses on CPU threads; room grows with the largest contact. */
#include "elastic.h"

typedef struct { S *memory, *g, *u, *x, *w, *z, *d; int32_t *active; int32_t room; } elastic_room;

static int elastic_reserve(elastic_room *r, int32_t n) {
  if (n <= r->room) return 1;
  free(r->memory);
  const int64_t stride = ((n + 7) / 8 | 1) * 8; /* no power of two, by which rows would fall upon each other in the cache */
  r->memory = NULL, r->room = 0;
  if (posix_memalign((void **)&r->memory, 64, (size_t)(2 * stride * stride + 5 * stride) * sizeof(S))) return 0;
  r->room = (int32_t)stride;
  r->g = r->memory, r->u = r->g + stride * stride, r->x = r->u + stride * stride, r->w = r->x + stride;
  r->z = r->w + stride, r->d = r->z + stride, r->active = (int32_t *)(r->d + stride);
  return 1;
}

/* ---- many poses -------------------------------------------------------------------------- */

typedef struct {
  const elastic_sight *sight;
  const S *body, *pose;
  elastic_pair *pair;
  elastic_outcome *outcome;
  S coupling, onset;
  int32_t points, kind;
} elastic_batch;

static void elastic_couple(S *g, const elastic_pair *pair, int32_t n, int64_t stride, S coupling, S *x, S *y, S *z) {
  for (int32_t i = 0; i < n; i++) x[i] = pair[i].feature[0], y[i] = pair[i].feature[1], z[i] = pair[i].feature[2];
  for (int32_t i = 0; i < n; i++) {
    S *row = g + i * stride;
    for (int32_t j = 0; j < n; j++) {
      const S dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
      row[j] = coupling / (coupling + s_sqrt(dx * dx + dy * dy + dz * dz));
    }
  }
}

static void elastic_pose(const elastic_batch *b, int64_t at, elastic_room *room, int32_t *tied) {
  const S *pose = b->pose + 16 * at;
  elastic_pair *pair = b->pair + at * b->points;
  elastic_outcome *out = b->outcome + at;
  *out = (elastic_outcome){0};
  int32_t count = 0;
  for (int32_t m = 0; m < b->points; m++) {
    const S *p = b->body + 3 * (int64_t)m;
    S rigid[3], x = 0, y = 0;
    for (int i = 0; i < 3; i++) {
      rigid[i] = pose[4 * i] * p[0] + pose[4 * i + 1] * p[1] + pose[4 * i + 2] * p[2] + pose[4 * i + 3];
      x += b->sight->u[i] * rigid[i], y += b->sight->v[i] * rigid[i];
    }
    elastic_near near;
    if (!elastic_nearest(b->sight, x, y, &near)) {
      out->beside++;
      continue;
    }
    if (!elastic_average(b->sight, &near, rigid, pair + count) || !(pair[count].nominal > b->onset)) continue;
    out->undercut += b->sight->covers[near.at[0]];
    count++;
  }
  count = elastic_merge(pair, count, tied);
  out->count = count;
  if (!count) return;
  if (!elastic_reserve(room, count)) {
    out->failed = 1;
    return;
  }
  elastic_problem p = {room->g, room->u, room->x, room->w, room->active, room->room, count, 0};
  elastic_couple(p.g, pair, count, p.stride, b->coupling, room->x, room->w, room->z);
  for (int32_t i = 0; i < count; i++) room->d[i] = pair[i].nominal - b->onset;
  if (!elastic_solve(&p, room->d, room->z, b->kind, &out->penetration)) out->failed = 2;
  for (int32_t i = 0; i < count; i++) pair[i].displacement = room->z[i];
}

static void elastic_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const elastic_batch *b = argument;
  elastic_room room = {0};
  for (int64_t at = first; at < last; at++) elastic_pose(b, at, &room, (int32_t *)scratch);
  free(room.memory);
}

/* body (points, 3), pose (n, 4, 4); pair (n, points), of which the first `count` are filled; outcome (n) */
int EXPORT(touch)(const elastic_sight *sight, const S *body, const S *pose, elastic_pair *pair, elastic_outcome *outcome, S coupling,
                  S onset, int32_t points, int32_t kind, int64_t n, int threads) {
  const elastic_batch batch = {sight, body, pose, pair, outcome, coupling, onset, points, kind};
  return refit_parallel(elastic_slice, &batch, n, threads, (size_t)points);
}

/* ---- one problem by itself --------------------------------------------------------------- */

/* matrix (n, n), nominal (n), z (n); returns 0, or why not: 1 no memory, 2 not solved */
int EXPORT(solve)(const S *matrix, const S *nominal, S *z, S *penetration, int32_t n, int32_t kind) {
  elastic_room room = {0};
  if (!elastic_reserve(&room, n)) return 1;
  elastic_problem p = {room.g, room.u, room.x, room.w, room.active, room.room, n, 0};
  for (int32_t i = 0; i < n; i++) memcpy(p.g + i * p.stride, matrix + (int64_t)i * n, (size_t)n * sizeof(S));
  const int solved = elastic_solve(&p, nominal, z, kind, penetration);
  free(room.memory);
  return solved ? 0 : 2;
}

/* ---- the surface as it is pressed --------------------------------------------------------- */

/* sum over contacts of g(|s - q|) z at places s (n, 3); q (m, 3), z (m), out (n) */
int EXPORT(deform)(const S *place, const S *q, const S *z, S *out, S coupling, int64_t n, int64_t m) {
  for (int64_t i = 0; i < n; i++) {
    S sum = 0;
    for (int64_t j = 0; j < m; j++) {
      const S dx = place[3 * i] - q[3 * j], dy = place[3 * i + 1] - q[3 * j + 1], dz = place[3 * i + 2] - q[3 * j + 2];
      sum += z[j] * coupling / (coupling + s_sqrt(dx * dx + dy * dy + dz * dz));
    }
    out[i] = sum;
  }
  return REFIT_OK;
}
