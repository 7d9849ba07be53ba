/* law.h on a GPU: a thread per pair, per body, per sphere. No result depends on which thread comes first: what atomic counters put
 * into an order of chance is sorted before it is used, and sums are by blocks over fixed chunks.
 *
 * The steps of a sequence are enqueued one after the other. A step after which pairs must be listed anew is the last: the kernels of
 * all later ones find `last` before them and return, so that lists are made exactly when the CPU makes them.
 */
#include "thread.h"
#include "block.h"
typedef unsigned char uint8_t;
#include "law.h"
#include "neighbours.h"

#define SEQUENCE 64 /* steps at most */

/* step; step or -1; of a new list where parts begin, and its end; how far tools have gone after each step since pairs were listed */
typedef struct { int64_t last, failed, parts, pairs; S way[SEQUENCE]; } granular_status;

/* What a pair does to one of its two. The fourth numbers are its place: x and y in a's, z in b's. Zeros where it does not touch. */
typedef struct { float4 force, torque; } granular_action;
typedef struct { double of[6]; } granular_wrench;
typedef struct { S low[3], high[3], largest; } granular_region; /* what holds some spheres, and their largest radius */

/* Counts are (n + 2): the begin of k stands at counts[k + 1] when all is in place. */
typedef struct {
  granular_world w;
  granular_pairs pairs, before;
  granular_cells cells;
  granular_status *status;
  int64_t *cell_counts, *starts, *starts_before; /* starts: (2 spheres + 1), first pair of each a with spheres, then with parts */
  int64_t *incident_counts, *incident; /* of bodies: 2 p for side a of pair p, 2 p + 1 for side b */
  granular_action *action;      /* on bodies, as they are in `incident`; then on tools */
  int32_t *slot;                /* (2, room): which is a's and which is b's */
  granular_region *region;      /* of each block that measures */
  granular_wrench *partial;     /* (chunks, tools) */
  int64_t chunks;               /* of the pairs with parts */
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
extern "C" __global__ void place(const granular_job *at) {
  const granular_job job = *at;
  const int64_t i = THREAD;
  if (i < job.w.parts) place_part(&job.w, (int32_t)i, job.w.tool + job.w.part[i].tool);
  if (i < job.w.bodies) place_spheres(&job.w, (int32_t)i);
}

REFIT_INLINE granular_wrench sum_of_two(granular_wrench a, const granular_wrench &b) {
  for (int k = 0; k < 6; k++) a.of[k] += b.of[k];
  return a;
}

/* Sum of the threads' wrenches, to all of a block. */
REFIT_INLINE granular_wrench sum_of_block(const granular_wrench &mine) {
  return block_fold(mine, [](const granular_wrench &a, const granular_wrench &b) { return sum_of_two(a, b); });
}

/* Which action is what pair p, of the last ones, does to a tool: every pair before acts on two bodies, and it on one. */
REFIT_INLINE int64_t slot_of_tool(const granular_job *job, int64_t p) { return job->pairs.count + p; }

/* A block for what the pairs of a chunk do to the tools. */
REFIT_INLINE void sum_chunk_of_parts(const granular_job *job, int64_t chunk) {
  const granular_world *w = &job->w;
  const int64_t begin = job->pairs.parts, n = job->pairs.count - begin, chunks = job->chunks;
  for (int32_t t = 0; t < w->tools; t++) {
    granular_wrench mine = {{0, 0, 0, 0, 0, 0}};
    for (int64_t p = begin + n * chunk / chunks + IN_BLOCK; p < begin + n * (chunk + 1) / chunks; p += blockDim.x)
      if (w->part[job->pairs.b[p] - w->spheres].tool == t) {
        const granular_action action = job->action[slot_of_tool(job, p)];
        mine = sum_of_two(mine, {{action.force.x, action.force.y, action.force.z, action.torque.x, action.torque.y, action.torque.z}});
      }
    mine = sum_of_block(mine);
    if (IN_BLOCK == 0) job->partial[chunk * w->tools + t] = mine;
  }
}

/* A block for the wrench that a tool had in a step, once the step is over. */
REFIT_INLINE void add_wrench_of_step(const granular_job *job, int64_t tool, int64_t step) {
  const granular_world *w = &job->w;
  if (tool >= w->tools || step < 0 || step > job->status->last) return;
  granular_wrench mine = {{0, 0, 0, 0, 0, 0}};
  for (int64_t c = IN_BLOCK; c < job->chunks; c += blockDim.x)
    mine = sum_of_two(mine, job->partial[c * w->tools + tool]);
  mine = sum_of_block(mine);
  if (IN_BLOCK == 0) add_step(w, (int32_t)tool, mine.of);
}

/* A block for a tool: it moves, and its parts with it. */
REFIT_INLINE void advance_with_parts(const granular_world *w, int64_t t) {
  if (t >= w->tools) return;
  granular_tool there = w->tool[t];
  advance_tool(w, &there);
  for (int32_t p = IN_BLOCK; p < w->parts; p += blockDim.x)
    if (w->part[p].tool == t) place_part(w, p, &there);
  __syncthreads(); /* all have read where it was */
  if (IN_BLOCK == 0) w->tool[t] = there;
}

/* The forces of all pairs; and, by blocks behind theirs, the wrenches of the step before. */
extern "C" __global__ void contacts(const granular_job *at, int64_t step) {
  const granular_job job = *at;
  const int64_t p = THREAD, room = job.pairs.room, blocks = BLOCKS(job.pairs.count);
  if (blockIdx.x >= blocks) add_wrench_of_step(&job, blockIdx.x - blocks, step - 1);
  if (p >= job.pairs.count || step > job.status->last) return;
  granular_contacts c;
  c.a[0] = job.pairs.a[p];
  c.b[0] = job.pairs.b[p];
  for (int k = 0; k < 6; k++) c.history[k] = job.pairs.history[k * room + p];
  contact(&job.w, &c, p >= job.pairs.parts, NULL);
  for (int k = 0; k < 6; k++) job.pairs.history[k * room + p] = c.history[k];
  job.pairs.touches[p] = c.touches != 0;
  const S *f = c.force, *a = c.torque_a, *b = c.torque_b;
  granular_action *on_a = job.action + job.slot[p], *on_b = job.action + job.slot[room + p];
  on_a->force = make_float4(-f[0], -f[1], -f[2], c.place[0]);
  on_a->torque = make_float4(a[0], a[1], a[2], c.place[1]);
  on_b->force = make_float4(f[0], f[1], f[2], c.place[2]);
  on_b->torque = make_float4(b[0], b[1], b[2], 0);
}

/* Moves all bodies; by blocks behind theirs, sums what pairs do to tools, and moves the tools. */
extern "C" __global__ void bodies(const granular_job *at, int64_t step) {
  const granular_job job = *at;
  const int64_t i = THREAD;
  const granular_world *w = &job.w;
  if (step > job.status->last) return; /* who writes there now writes this step */
  const int64_t behind = blockIdx.x - BLOCKS(w->bodies);
  if (behind >= job.chunks) advance_with_parts(w, behind - job.chunks);
  else if (behind >= 0) sum_chunk_of_parts(&job, behind);
  if (i >= w->bodies) return;
  const int64_t *first = job.incident_counts + 1;
  S force[3] = {0, 0, 0}, torque[3] = {0, 0, 0};
  for (int64_t e = first[i]; e < first[i + 1]; e++) {
    const granular_action action = job.action[e];
    const S f[3] = {action.force.x, action.force.y, action.force.z}, m[3] = {action.torque.x, action.torque.y, action.torque.z};
    for (int k = 0; k < 3; k++) {
      force[k] += f[k];
      torque[k] += m[k];
    }
  }
  const S speed = move_body(w, (int32_t)i, force, torque), way = place_spheres(w, (int32_t)i);
  const int fast = !(speed <= w->fastest * w->fastest);
  if (fast) job.status->failed = step;
  if (fast || list_is_old(w, way, job.status->way[step])) job.status->last = step; /* who else writes here writes the same */
}

/* A block per tool: the wrenches of a sequence's last step, which no contacts follow. */
extern "C" __global__ void wrenches(const granular_job *at, int64_t step) {
  const granular_job job = *at;
  add_wrench_of_step(&job, blockIdx.x, step);
}

/* ---- sums from the first number to each: of chunks, of what is before each chunk, within chunks -------------------- */

#define CHUNK 1024 /* numbers that a block sums */

REFIT_INLINE int64_t end_of_chunk(int64_t n) {
  const int64_t end = CHUNK * ((int64_t)blockIdx.x + 1);
  return end < n ? end : n;
}

extern "C" __global__ void sum_chunks(const int64_t *numbers, int64_t n, int64_t *sums) {
  int64_t sum = 0;
  for (int64_t k = CHUNK * (int64_t)blockIdx.x + IN_BLOCK; k < end_of_chunk(n); k += blockDim.x) sum += numbers[k];
  sum = block_fold(sum, [](int64_t a, int64_t b) { return a + b; });
  if (IN_BLOCK == 0 && end_of_chunk(n) > CHUNK * (int64_t)blockIdx.x) sums[blockIdx.x] = sum;
}

/* A block: each sum becomes that of all before it. */
extern "C" __global__ void sum_sums(int64_t *sums, int64_t chunks) {
  if (blockIdx.x > 0) return;
  const int64_t from = chunks * IN_BLOCK / blockDim.x, to = chunks * (IN_BLOCK + 1) / blockDim.x;
  int64_t own = 0, all;
  for (int64_t c = from; c < to; c++) own += sums[c];
  int64_t before = block_sum_up_to(own, &all) - own;
  for (int64_t c = from; c < to; c++) {
    const int64_t more = sums[c];
    sums[c] = before;
    before += more;
  }
}

extern "C" __global__ void spread_sums(int64_t *numbers, int64_t n, const int64_t *sums) {
  const int64_t from = CHUNK * (int64_t)blockIdx.x, to = end_of_chunk(n);
  if (from >= to) return;
  int64_t before = sums[blockIdx.x], all;
  for (int64_t row = from; row < to; row += blockDim.x, before += all) {
    const int64_t k = row + IN_BLOCK, sum = block_sum_up_to(k < to ? numbers[k] : (int64_t)0, &all);
    if (k < to) numbers[k] = before + sum;
  }
}

/* ---- lists of pairs ---------------------------------------------------------------------- */

REFIT_INLINE granular_region nowhere(void) { return {{K(1e30), K(1e30), K(1e30)}, {K(-1e30), K(-1e30), K(-1e30)}, 0}; }

REFIT_INLINE granular_region joined(granular_region a, const granular_region &b) {
  for (int k = 0; k < 3; k++) {
    if (b.low[k] < a.low[k]) a.low[k] = b.low[k];
    if (b.high[k] > a.high[k]) a.high[k] = b.high[k];
  }
  if (b.largest > a.largest) a.largest = b.largest;
  return a;
}

REFIT_INLINE granular_region region_of_block(const granular_region &mine) {
  return block_fold(mine, [](const granular_region &a, const granular_region &b) { return joined(a, b); });
}

/* Blocks that share the spheres. */
extern "C" __global__ void measure(const granular_job *at, int64_t blocks) {
  const granular_job job = *at;
  if (blockIdx.x >= blocks) return;
  granular_region mine = nowhere();
  for (int64_t i = THREAD; i < job.w.spheres; i += blocks * blockDim.x)
    hold_sphere(job.w.center + 4 * i, mine.low, mine.high, &mine.largest);
  mine = region_of_block(mine);
  if (IN_BLOCK == 0) job.region[blockIdx.x] = mine;
}

/* A block that makes the grid of what the others measured. */
extern "C" __global__ void fit(const granular_job *at, int64_t blocks) {
  const granular_job job = *at;
  if (blockIdx.x > 0) return;
  granular_region mine = nowhere();
  for (int64_t b = IN_BLOCK; b < blocks; b += blockDim.x) mine = joined(mine, job.region[b]);
  mine = region_of_block(mine);
  if (IN_BLOCK == 0) fit_grid(&job.w, job.cells.grid, mine.low, mine.high, mine.largest);
}

/* All that is counted is 0. */
extern "C" __global__ void clear(const granular_job *at) {
  const granular_job job = *at;
  const int64_t k = THREAD;
  if (k < MOST_CELLS(job.w.spheres) + 2) job.cell_counts[k] = 0;
  if (k < job.w.bodies + 2) job.incident_counts[k] = 0;
  if (k == 0) job.starts[0] = 0;
}

extern "C" __global__ void count_in_cells(const granular_job *at) {
  const granular_job job = *at;
  const int64_t i = THREAD;
  if (i >= job.w.spheres) return;
  job.cells.of[i] = cell_at(job.cells.grid, job.w.center + 4 * i);
  count_one(job.cell_counts + 1 + job.cells.of[i]);
}

extern "C" __global__ void put_in_cells(const granular_job *at) {
  const granular_job job = *at;
  const int64_t i = THREAD;
  if (i < job.w.spheres) job.cells.sorted[take_place(job.cell_counts + 1 + job.cells.of[i])] = (int32_t)i;
}

extern "C" __global__ void sort_cells(const granular_job *at) {
  const granular_job job = *at;
  const int64_t c = THREAD;
  if (c >= MOST_CELLS(job.w.spheres)) return;
  const int64_t from = job.cells.first[c], to = job.cells.first[c + 1];
  sort_few(job.cells.sorted, from, to);
  for (int64_t o = from; o < to; o++)
    for (int k = 0; k < 4; k++) job.cells.center[4 * o + k] = job.w.center[4 * (int64_t)job.cells.sorted[o] + k];
}

/* A thread per sphere for its pairs with spheres, and one for those with parts. */
extern "C" __global__ void count_pairs(const granular_job *at) {
  const granular_job job = *at;
  const int64_t k = THREAD, n = job.w.spheres;
  if (k < n) job.starts[k + 1] = spheres_near(&job.w, &job.cells, (int32_t)k, NULL, 0);
  else if (k < 2 * n) job.starts[k + 1] = parts_near(&job.w, (int32_t)(k - n), NULL, 0);
}

extern "C" __global__ void tell_pairs(const granular_job *at) {
  const granular_job job = *at;
  if (THREAD > 0) return;
  job.status->parts = job.starts[job.w.spheres];
  job.status->pairs = job.starts[2 * (int64_t)job.w.spheres];
}

extern "C" __global__ void put_pairs(const granular_job *at) {
  const granular_job job = *at;
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

extern "C" __global__ void put_incidents(const granular_job *at) {
  const granular_job job = *at;
  const int64_t p = THREAD;
  if (p >= job.pairs.count) return;
  const int32_t a = job.pairs.a[p], b = job.pairs.b[p];
  job.incident[take_place(job.incident_counts + 1 + job.w.body[a])] = 2 * p;
  if (p < job.pairs.parts) job.incident[take_place(job.incident_counts + 1 + job.w.body[b])] = 2 * p + 1;
  else job.slot[job.pairs.room + p] = (int32_t)slot_of_tool(&job, p);
}

extern "C" __global__ void sort_incidents(const granular_job *at) {
  const granular_job job = *at;
  const int64_t i = THREAD, *first = job.incident_counts + 1;
  if (i >= job.w.bodies) return;
  sort_few(job.incident, first[i], first[i + 1]);
  for (int64_t e = first[i]; e < first[i + 1]; e++)
    job.slot[(job.incident[e] & 1) * job.pairs.room + (job.incident[e] >> 1)] = (int32_t)e;
}
