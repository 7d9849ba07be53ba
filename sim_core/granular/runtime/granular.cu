/* law.h on a GPU: a thread per pair, per body, per sphere. No result depends on which thread comes first: what atomic counters put
 * into an order of chance is sorted before it is used, and sums are over fixed chunks in their order.
 *
 * The steps of a sequence are enqueued one after the other. A step after which pairs must be listed anew is the last: the kernels of
 * all later ones find `last` before them and return, so that lists are made exactly when the CPU makes them.
 */
#include "thread.h"
typedef unsigned char uint8_t;
#include "law.h"
#include "neighbours.h"

typedef struct { int64_t last, failed, parts, pairs; } granular_status; /* step; step or -1; of a new list where parts begin, and its end */

/* Counts are (n + 2): the begin of k stands at counts[k + 1] when all is in place. */
typedef struct {
  granular_world w;
  granular_pairs pairs, before;
  granular_cells cells;
  granular_status *status;
  int64_t *cell_counts, *starts, *starts_before; /* starts: (2 spheres + 1), first pair of each a with spheres, then with parts */
  int64_t *incident_counts, *incident; /* of bodies: 2 p for side a of pair p, 2 p + 1 for side b */
  S *region;                    /* (chunks, 7) */
  double *partial;              /* (chunks, tools, 6) */
} granular_job;

typedef unsigned long long counter;

/* Takes a place in a bin, of which `end` is the end of what is not taken yet. */
REFIT_INLINE int64_t take_place(int64_t *end) { return (int64_t)atomicAdd((counter *)end, ~(counter)0) - 1; }
REFIT_INLINE void count_one(int64_t *count) { atomicAdd((counter *)count, (counter)1); }

template <typename T> REFIT_INLINE void sort_few(T *x, int64_t from, int64_t to) {
  for (int64_t i = from + 1; i < to; i++) {
    const T one = x[i];
    int64_t k = i;
    for (; k > from && x[k - 1] > one; k--) x[k] = x[k - 1];
    x[k] = one;
  }
}

/* ---- steps ------------------------------------------------------------------------------ */

/* Where all spheres and parts are. */
extern "C" __global__ void place(const granular_job job) {
  const int64_t i = THREAD;
  if (i < job.w.parts) place_part(&job.w, (int32_t)i);
  if (i < job.w.bodies) place_spheres(&job.w, (int32_t)i);
}

extern "C" __global__ void contacts(const granular_job job, int64_t step) {
  const int64_t p = THREAD, room = job.pairs.room;
  if (p >= job.pairs.count || step > job.status->last) return;
  granular_contacts c;
  c.a[0] = job.pairs.a[p];
  c.b[0] = job.pairs.b[p];
  for (int k = 0; k < 6; k++) c.history[k] = job.pairs.history[k * room + p];
  contact(&job.w, &c, p >= job.pairs.parts, NULL);
  for (int k = 0; k < 6; k++) job.pairs.history[k * room + p] = c.history[k];
  job.pairs.touches[p] = c.touches != 0;
  if (!c.touches) return;
  S *to = job.pairs.force + 12 * p;
  for (int k = 0; k < 3; k++) {
    to[k] = c.force[k];
    to[3 + k] = c.torque_a[k];
    to[6 + k] = c.torque_b[k];
    to[9 + k] = c.place[k];
  }
}

/* What the pairs of one chunk do to the tools. */
REFIT_INLINE void sum_chunk_of_parts(const granular_job *job, int64_t chunk, int64_t chunks) {
  const granular_world *w = &job->w;
  const int64_t begin = job->pairs.parts, n = job->pairs.count - begin;
  double *sums = job->partial + 6 * chunk * w->tools;
  for (int32_t k = 0; k < 6 * w->tools; k++) sums[k] = 0;
  for (int64_t p = begin + n * chunk / chunks; p < begin + n * (chunk + 1) / chunks; p++)
    if (job->pairs.touches[p]) add_wrench(job->pairs.force + 12 * p, sums + 6 * w->part[job->pairs.b[p] - w->spheres].tool);
}

extern "C" __global__ void bodies(const granular_job job, int64_t step, S tool_way, int64_t chunks) {
  const int64_t i = THREAD;
  const granular_world *w = &job.w;
  if (step > job.status->last) return;
  if (i < chunks) sum_chunk_of_parts(&job, i, chunks);
  if (i >= w->bodies) return;
  const int64_t *first = job.incident_counts + 1;
  S force[3] = {0, 0, 0}, torque[3] = {0, 0, 0};
  for (int64_t e = first[i]; e < first[i + 1]; e++) {
    const int64_t p = job.incident[e] >> 1, is_b = job.incident[e] & 1;
    if (!job.pairs.touches[p]) continue;
    const S *from = job.pairs.force + 12 * p, *turns = from + (is_b ? 6 : 3);
    for (int k = 0; k < 3; k++) {
      force[k] += is_b ? from[k] : -from[k];
      torque[k] += turns[k];
    }
  }
  const S speed = move_body(w, (int32_t)i, force, torque), way = place_spheres(w, (int32_t)i);
  const int fast = !(speed <= w->fastest * w->fastest);
  if (fast) job.status->failed = step;
  if (fast || list_is_old(w, way, tool_way)) job.status->last = step; /* who else writes here writes the same */
}

/* Sums the wrench on a tool, moves it and places its parts. */
extern "C" __global__ void tools(const granular_job job, int64_t step, int64_t chunks) {
  const int64_t t = THREAD;
  const granular_world *w = &job.w;
  if (t >= w->tools || step > job.status->last) return;
  double sum[6] = {0, 0, 0, 0, 0, 0};
  for (int64_t c = 0; c < chunks; c++)
    for (int k = 0; k < 6; k++) sum[k] += job.partial[6 * (c * w->tools + t) + k];
  add_step(w, (int32_t)t, sum);
  advance_tool(w, (int32_t)t);
  for (int32_t p = 0; p < w->parts; p++)
    if (w->part[p].tool == t) place_part(w, p);
}

/* ---- sums from the first number to each: chunks, their sums, within chunks ---------------- */

extern "C" __global__ void sum_chunks(const int64_t *numbers, int64_t n, int64_t chunks, int64_t *sums) {
  const int64_t c = THREAD;
  if (c >= chunks) return;
  int64_t sum = 0;
  for (int64_t k = n * c / chunks; k < n * (c + 1) / chunks; k++) sum += numbers[k];
  sums[c] = sum;
}

extern "C" __global__ void sum_sums(int64_t *sums, int64_t chunks) {
  if (THREAD > 0) return;
  int64_t sum = 0;
  for (int64_t c = 0; c < chunks; c++) {
    const int64_t more = sums[c];
    sums[c] = sum;
    sum += more;
  }
}

extern "C" __global__ void spread_sums(int64_t *numbers, int64_t n, int64_t chunks, const int64_t *sums) {
  const int64_t c = THREAD;
  if (c >= chunks) return;
  int64_t sum = sums[c];
  for (int64_t k = n * c / chunks; k < n * (c + 1) / chunks; k++) numbers[k] = sum += numbers[k];
}

/* ---- lists of pairs ---------------------------------------------------------------------- */

extern "C" __global__ void measure(const granular_job job, int64_t chunks) {
  const int64_t c = THREAD;
  if (c >= chunks) return;
  S low[3] = {K(1e30), K(1e30), K(1e30)}, high[3] = {K(-1e30), K(-1e30), K(-1e30)}, largest = 0;
  for (int64_t i = c; i < job.w.spheres; i += chunks) hold_sphere(job.w.center + 4 * i, low, high, &largest);
  S *region = job.region + 7 * c;
  for (int k = 0; k < 3; k++) { region[k] = low[k]; region[3 + k] = high[k]; }
  region[6] = largest;
}

extern "C" __global__ void fit(const granular_job job, int64_t chunks) {
  if (THREAD > 0) return;
  S low[3] = {K(1e30), K(1e30), K(1e30)}, high[3] = {K(-1e30), K(-1e30), K(-1e30)}, largest = 0;
  for (int64_t c = 0; c < chunks; c++) {
    const S *region = job.region + 7 * c;
    for (int k = 0; k < 3; k++) {
      if (region[k] < low[k]) low[k] = region[k];
      if (region[3 + k] > high[k]) high[k] = region[3 + k];
    }
    if (region[6] > largest) largest = region[6];
  }
  fit_grid(&job.w, job.cells.grid, low, high, largest);
}

/* All that is counted is 0. */
extern "C" __global__ void clear(const granular_job job) {
  const int64_t k = THREAD;
  if (k < MOST_CELLS(job.w.spheres) + 2) job.cell_counts[k] = 0;
  if (k < job.w.bodies + 2) job.incident_counts[k] = 0;
  if (k == 0) job.starts[0] = 0;
}

extern "C" __global__ void count_in_cells(const granular_job job) {
  const int64_t i = THREAD;
  if (i >= job.w.spheres) return;
  job.cells.of[i] = cell_at(job.cells.grid, job.w.center + 4 * i);
  count_one(job.cell_counts + 1 + job.cells.of[i]);
}

extern "C" __global__ void put_in_cells(const granular_job job) {
  const int64_t i = THREAD;
  if (i < job.w.spheres) job.cells.sorted[take_place(job.cell_counts + 1 + job.cells.of[i])] = (int32_t)i;
}

extern "C" __global__ void sort_cells(const granular_job job) {
  const int64_t c = THREAD;
  if (c >= MOST_CELLS(job.w.spheres)) return;
  const int64_t from = job.cells.first[c], to = job.cells.first[c + 1];
  sort_few(job.cells.sorted, from, to);
  for (int64_t o = from; o < to; o++)
    for (int k = 0; k < 4; k++) job.cells.center[4 * o + k] = job.w.center[4 * (int64_t)job.cells.sorted[o] + k];
}

/* A thread per sphere for its pairs with spheres, and one for those with parts. */
extern "C" __global__ void count_pairs(const granular_job job) {
  const int64_t k = THREAD, n = job.w.spheres;
  if (k < n) job.starts[k + 1] = spheres_near(&job.w, &job.cells, (int32_t)k, NULL, 0);
  else if (k < 2 * n) job.starts[k + 1] = parts_near(&job.w, (int32_t)(k - n), NULL, 0);
}

extern "C" __global__ void tell_pairs(const granular_job job) {
  if (THREAD > 0) return;
  job.status->parts = job.starts[job.w.spheres];
  job.status->pairs = job.starts[2 * (int64_t)job.w.spheres];
}

extern "C" __global__ void put_pairs(const granular_job job) {
  const int64_t k = THREAD, n = job.w.spheres;
  const granular_world *w = &job.w;
  if (k >= 2 * n) return;
  const int32_t i = (int32_t)(k < n ? k : k - n);
  const int64_t from = job.starts[k], to = job.starts[k + 1];
  if (k < n) spheres_near(w, &job.cells, i, job.pairs.b + from, to - from);
  else parts_near(w, i, job.pairs.b + from, to - from);
  for (int64_t p = from; p < to; p++) {
    job.pairs.a[p] = i;
    remember(&job.before, job.starts_before + k, &job.pairs, p);
    count_one(job.incident_counts + 1 + w->body[i]);
    if (k < n) count_one(job.incident_counts + 1 + w->body[job.pairs.b[p]]);
  }
  if (k < n) for (int c = 0; c < 3; c++) w->reference[3 * k + c] = w->center[4 * k + c];
}

extern "C" __global__ void put_incidents(const granular_job job) {
  const int64_t p = THREAD;
  if (p >= job.pairs.count) return;
  const int32_t a = job.pairs.a[p], b = job.pairs.b[p];
  job.incident[take_place(job.incident_counts + 1 + job.w.body[a])] = 2 * p;
  if (p < job.pairs.parts) job.incident[take_place(job.incident_counts + 1 + job.w.body[b])] = 2 * p + 1;
}

extern "C" __global__ void sort_incidents(const granular_job job) {
  const int64_t i = THREAD, *first = job.incident_counts + 1;
  if (i < job.w.bodies) sort_few(job.incident, first[i], first[i + 1]);
}
