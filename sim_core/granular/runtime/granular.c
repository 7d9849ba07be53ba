/* law.h on CPU threads: which pairs may touch, and the steps of a run.
 *
 * Pairs are sorted by their body a, and a < b. When the pairs of one body after the other are computed, all pairs of a body are done
 * once its own are: it can move at once, and no pair's force need be kept. A pair whose b belongs to another thread is computed before
 * any body moves. What pairs do to a body is summed in their order in either case.
 */
#include <sched.h>
#include "law.h"
#include "neighbours.h"

enum { GRANULAR_OK = 0, GRANULAR_NO_MEMORY = 1, GRANULAR_TOO_FAST = 2 };

/* What a world keeps between runs beside the caller's arrays. */
typedef struct {
  granular_pairs pairs, next;
  int64_t *starts, *before;   /* (2 spheres + 1) of `pairs` and of the list before: first pair of each a with spheres, then with parts */
  S *sums;                    /* (bodies, 8): force and torque of a step so far */
  granular_grid grid;
  granular_cells cells;
  int64_t *cell_counts;       /* (most cells + 2) */
  int64_t lists;              /* how often pairs were listed */
  int rolls;                  /* whether some pair of materials resists rolling */
  const granular_law *same;   /* of all spheres with each other, where they are of one material */
  int stale;                  /* list before the next step */
  double tool_way;            /* [m] that some tool's point has gone since then at most */
} granular_state;

static int grow(granular_pairs *pairs, int64_t room) {
  if (room <= pairs->room) return GRANULAR_OK;
  room += room / 4 + 1024;
#define GROW(field, n) \
  { void *p = realloc(pairs->field, (size_t)(room * (n)) * sizeof *pairs->field); if (!p) return GRANULAR_NO_MEMORY; pairs->field = p; }
  GROW(a, 1) GROW(b, 1) GROW(history, 6) GROW(force, 12) GROW(touches, 1)
#undef GROW
  pairs->room = room;
  return GRANULAR_OK;
}

static void release(granular_pairs *pairs) {
  free(pairs->a); free(pairs->b); free(pairs->history); free(pairs->force); free(pairs->touches);
}

static void dispose(granular_state *s) {
  if (!s) return;
  release(&s->pairs);
  release(&s->next);
  free(s->starts); free(s->before); free(s->sums);
  free(s->cell_counts); free(s->cells.of); free(s->cells.sorted); free(s->cells.center);
  free(s);
}

void EXPORT(free)(granular_state *s) { dispose(s); }

typedef granular_state *granular_handle; /* EXPORT's attribute would else bind to the star */

granular_handle EXPORT(new)(const granular_world *w) {
  granular_state *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  const size_t spheres = (size_t)w->spheres + 1;
  s->starts = calloc(2 * spheres, sizeof *s->starts);
  s->before = calloc(2 * spheres, sizeof *s->before);
  s->sums = calloc(8 * (size_t)w->bodies, sizeof *s->sums);
  s->cell_counts = calloc((size_t)MOST_CELLS(w->spheres) + 2, sizeof *s->cell_counts);
  s->cells = (granular_cells){&s->grid, s->cell_counts + 1, calloc(spheres, sizeof(int32_t)), calloc(spheres, sizeof(int32_t)),
                              calloc(4 * spheres, sizeof(S))};
  s->stale = 1;
  if (!s->starts || !s->before || !s->sums || !s->cell_counts || !s->cells.of || !s->cells.sorted || !s->cells.center ||
      grow(&s->pairs, 8 * w->spheres) || grow(&s->next, 8 * w->spheres)) {
    dispose(s);
    return NULL;
  }
  return s;
}

/* ---- threads: a team that meets after every phase ------------------------------------ */

typedef struct { int size; int arrived; int phase; } granular_team;

static void meet(granular_team *team) {
  if (team->size == 1) return;
  const int phase = __atomic_load_n(&team->phase, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) == team->size) {
    __atomic_store_n(&team->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&team->phase, phase + 1, __ATOMIC_RELEASE);
    return;
  }
  for (int spins = 0; __atomic_load_n(&team->phase, __ATOMIC_ACQUIRE) == phase; spins++)
    if (spins > 4000) sched_yield();
}

/* ---- which pairs may touch ------------------------------------------------------------ */

/* A pair whose sides belong to different threads, and what it does: forces, torques, place. */
typedef struct { int64_t p; S says[16]; } granular_crossing;

/* A thread's bodies, the pairs of which they are side a, and what came of a step. */
typedef struct {
  int32_t from, to;
  granular_crossing *crossing;
  int64_t crossings, room;
  S way, speed;
} granular_share;

typedef struct {
  const granular_world *w;
  granular_state *s;
  granular_team team;
  granular_share *share;
  int64_t steps;
  int status;
  int64_t failed_step;
} granular_run;

#define SHARE(n, t, size) ((int64_t)(n) * (t) / (size))

/* Spheres by cells, those of a cell in their order. */
static void sort_into_cells(const granular_world *w, granular_state *s) {
  granular_cells *cells = &s->cells;
  int64_t *counts = s->cell_counts;
  S low[3] = {K(1e30), K(1e30), K(1e30)}, high[3] = {K(-1e30), K(-1e30), K(-1e30)}, largest = 0;
  for (int32_t i = 0; i < w->spheres; i++) hold_sphere(w->center + 4 * i, low, high, &largest);
  fit_grid(w, &s->grid, low, high, largest);
  const int64_t n = (int64_t)s->grid.n[0] * s->grid.n[1] * s->grid.n[2];
  memset(counts, 0, (size_t)(n + 1) * sizeof *counts);
  for (int32_t i = 0; i < w->spheres; i++) counts[1 + (cells->of[i] = cell_at(&s->grid, w->center + 4 * i))]++;
  for (int64_t c = 0; c < n; c++) counts[c + 1] += counts[c];
  for (int32_t i = w->spheres - 1; i >= 0; i--) {
    /* from the back, so that the end of a cell becomes its begin and order stays */
    const int64_t at = --counts[1 + cells->of[i]];
    cells->sorted[at] = i;
    memcpy(cells->center + 4 * at, w->center + 4 * i, 4 * sizeof(S));
  }
  counts[n + 1] = w->spheres;
}

#define IS_OWN(w, b, to) ((w)->body[b] < (to)) /* a pair's side b belongs to bodies before `to` */

static int list_crossings(const granular_run *run, granular_share *mine) {
  const granular_world *w = run->w;
  const granular_state *s = run->s;
  mine->crossings = 0;
  if (mine->to == w->bodies) return GRANULAR_OK;
  for (int64_t p = s->starts[w->first[mine->from]]; p < s->starts[w->first[mine->to]]; p++) {
    if (IS_OWN(w, s->pairs.b[p], mine->to)) continue;
    if (mine->crossings == mine->room) {
      const int64_t room = 2 * mine->room + 1024;
      void *more = realloc(mine->crossing, (size_t)room * sizeof *mine->crossing);
      if (!more) return GRANULAR_NO_MEMORY;
      mine->crossing = more;
      mine->room = room;
    }
    mine->crossing[mine->crossings++].p = p;
  }
  return GRANULAR_OK;
}

/* All threads of a team list the pairs anew. Returns the run's status, the same to all of them. */
static int list_pairs(granular_run *run, int thread) {
  const granular_world *w = run->w;
  granular_state *s = run->s;
  const int size = run->team.size;
  const int32_t from = (int32_t)SHARE(w->spheres, thread, size), to = (int32_t)SHARE(w->spheres, thread + 1, size);
  if (thread == 0) {
    int64_t *swap = s->before;
    s->before = s->starts;
    s->starts = swap;
    sort_into_cells(w, s);
  }
  meet(&run->team);
  int32_t *found = NULL;
  int64_t n = 0, room = 0;
  for (int32_t i = from; i < to && !run->status; i++) {
    for (;;) { /* all are searched once, but for those for which room must be made */
      const int64_t near = spheres_near(w, &s->cells, i, found + n, room - n), parts = parts_near(w, i, NULL, 0);
      s->starts[1 + i] = near;
      s->starts[1 + w->spheres + i] = parts;
      if (n + near <= room) { n += near; break; }
      room = 2 * (n + near) + 8 * (to - from);
      void *more = realloc(found, (size_t)room * sizeof *found);
      if (!more) { __atomic_store_n(&run->status, GRANULAR_NO_MEMORY, __ATOMIC_RELAXED); break; }
      found = more;
    }
  }
  meet(&run->team);
  if (thread == 0) {
    s->starts[0] = 0;
    for (int64_t i = 0; i < 2 * (int64_t)w->spheres; i++) s->starts[i + 1] += s->starts[i];
    s->next.parts = s->starts[w->spheres];
    s->next.count = s->starts[2 * (int64_t)w->spheres];
    if (grow(&s->next, s->next.count + REFIT_LANES)) run->status = GRANULAR_NO_MEMORY;
  }
  meet(&run->team);
  if (run->status) { free(found); return run->status; }
  const granular_pairs *next = &s->next;
  if (n) memcpy(next->b + s->starts[from], found, (size_t)n * sizeof *found);
  free(found);
  for (int32_t i = from; i < to; i++) {
    for (int kind = 0; kind < 2; kind++) { /* with spheres, with parts */
      const int64_t k = i + kind * (int64_t)w->spheres, p = s->starts[k], end = s->starts[k + 1];
      if (kind) parts_near(w, i, next->b + p, end - p);
      for (int64_t q = p; q < end; q++) {
        next->a[q] = i;
        remember(&s->pairs, s->before + k, next, q);
      }
    }
    memcpy(w->reference + 3 * i, w->center + 4 * i, 3 * sizeof(S));
  }
  meet(&run->team);
  if (thread == 0) {
    granular_pairs swap = s->pairs;
    s->pairs = s->next;
    s->next = swap;
    s->stale = 0;
    s->tool_way = 0;
    s->lists++;
  }
  meet(&run->team);
  return GRANULAR_OK;
}

/* ---- steps ---------------------------------------------------------------------------- */

/* What pairs side by side say, pair by pair: force, torque on a, torque on b, place. */
typedef struct { int64_t begin, end; S says[REFIT_LANES][16]; SI touches[REFIT_LANES]; } granular_batch;

typedef S four __attribute__((vector_size(4 * sizeof(S)), aligned(sizeof(S)), may_alias));
#define FOUR(x) (*(four *)(x))
#define GIVEN(x) (*(const four *)(x))

static void write_down(const granular_contacts *c, granular_batch *batch) {
  out_of_lanes(batch->says[0], 16, c->force);
  out_of_lanes(batch->says[0] + 4, 16, c->torque_a);
  out_of_lanes(batch->says[0] + 8, 16, c->torque_b);
  out_of_lanes(batch->says[0] + 12, 16, c->place);
  memcpy(batch->touches, &c->touches, sizeof c->touches);
}

static void keep_pair(const granular_pairs *pairs, int64_t p, const granular_batch *batch) {
  const S *says = batch->says[p - batch->begin];
  for (int k = 0; k < 12; k++) pairs->force[12 * p + k] = says[4 * (k / 3) + k % 3];
  pairs->touches[p] = batch->touches[p - batch->begin] != 0;
}

/* The pairs from `begin` on, before `last`; those that cross over from bodies before `to` are computed for nothing. */
REFIT_INLINE void compute(const granular_world *w, const granular_state *s, int64_t begin, int64_t last, int32_t to, int with_parts,
                          granular_batch *batch) {
  const granular_pairs *pairs = &s->pairs;
  granular_contacts c;
  const int n = last - begin < REFIT_LANES ? (int)(last - begin) : REFIT_LANES, numbers = s->rolls ? 6 : 3;
  int all = n == REFIT_LANES;
  const int32_t *a = pairs->a + begin, *b = pairs->b + begin;
  for (int l = 0; l < REFIT_LANES; l++) {
    c.a[l] = a[l < n ? l : n - 1];
    c.b[l] = b[l < n ? l : n - 1];
    if (!with_parts) __builtin_prefetch(s->sums + 8 * (int64_t)w->body[c.b[l]], 1); /* written to when all lanes are computed */
  }
  if (!with_parts && to < w->bodies) for (int l = 0; l < n; l++) all &= IS_OWN(w, b[l], to);
  for (int k = 0; k < 6; k++) c.history[k] = k < numbers ? load_lanes(pairs->history + k * pairs->room + begin) : C(0);
  if (with_parts || !s->same) contact(w, &c, with_parts, NULL);
  else contact(w, &c, 0, s->same);
  write_down(&c, batch);
  batch->begin = begin;
  batch->end = begin + n;
  for (int k = 0; k < numbers; k++) {
    S *history = pairs->history + k * pairs->room + begin;
    if (all) store_lanes(history, c.history[k]);
    else for (int l = 0; l < n; l++) if (with_parts || IS_OWN(w, b[l], to)) history[l] = ((const S *)&c.history[k])[l];
  }
}

/* Pairs between threads, before any body moves. */
static void compute_crossings(const granular_run *run, const granular_share *mine) {
  const granular_pairs *pairs = &run->s->pairs;
  for (int64_t from = 0; from < mine->crossings; from += REFIT_LANES) {
    granular_contacts c;
    granular_batch batch;
    S history[6][REFIT_LANES];
    const int64_t rest = mine->crossings - from, n = rest < REFIT_LANES ? rest : REFIT_LANES;
    for (int l = 0; l < REFIT_LANES; l++) {
      const int64_t p = mine->crossing[from + (l < n ? l : n - 1)].p;
      c.a[l] = pairs->a[p];
      c.b[l] = pairs->b[p];
      for (int k = 0; k < 6; k++) history[k][l] = pairs->history[k * pairs->room + p];
    }
    memcpy(c.history, history, sizeof history);
    contact(run->w, &c, 0, run->s->same);
    memcpy(history, c.history, sizeof history);
    write_down(&c, &batch);
    for (int l = 0; l < n; l++) {
      granular_crossing *one = mine->crossing + from + l;
      batch.begin = one->p - l;
      memcpy(one->says, batch.says[l], sizeof one->says);
      keep_pair(pairs, one->p, &batch);
      for (int k = 0; k < 6; k++) pairs->history[k * pairs->room + one->p] = history[k][l];
    }
  }
}

/* What the threads before this one have for its bodies. */
static void take_crossings(const granular_run *run, int thread) {
  const granular_share *mine = run->share + thread;
  for (const granular_share *other = run->share; other < mine; other++)
    for (int64_t e = 0; e < other->crossings; e++) {
      const int32_t i = run->w->body[run->s->pairs.b[other->crossing[e].p]];
      S *sum = run->s->sums + 8 * (int64_t)i;
      const S *says = other->crossing[e].says;
      if (i < mine->from || i >= mine->to) continue;
      FOUR(sum) += GIVEN(says);
      FOUR(sum + 4) += GIVEN(says + 8);
    }
}

/* Lets a thread's bodies move, one after the other; `keep`: what its pairs say is asked for later. */
static void move_bodies(const granular_run *run, granular_share *mine, int keep) {
  const granular_world *w = run->w;
  const granular_state *s = run->s;
  const granular_pairs *pairs = &s->pairs;
  const int32_t *first = w->first, to = mine->to, *body = w->body, *side_b = pairs->b;
  const int64_t *starts = s->starts, *parts = s->starts + w->spheres;
  const int64_t last = starts[first[to]], last_part = parts[first[to]];
  const granular_crossing *crossing = mine->crossing;
  granular_batch batch = {.end = starts[first[mine->from]]}, of_parts = {.end = parts[first[mine->from]]};
  S most = 0, fastest = 0, *sums = s->sums;
  for (int32_t i = mine->from; i < to; i++) {
    S *sum = sums + 8 * (int64_t)i;
    four force = FOUR(sum), torque = FOUR(sum + 4);
    FOUR(sum) = FOUR(sum + 4) = (four){0};
    for (int64_t p = starts[first[i]], end = starts[first[i + 1]]; p < end; p++) {
      if (p == batch.end) compute(w, s, p, last, to, 0, &batch);
      const int32_t j = body[side_b[p]];
      const S *says = batch.says[p - batch.begin];
      if (j >= to) says = crossing++->says;
      else {
        FOUR(sums + 8 * (int64_t)j) += GIVEN(says);
        FOUR(sums + 8 * (int64_t)j + 4) += GIVEN(says + 8);
        if (keep) keep_pair(pairs, p, &batch);
      }
      force -= GIVEN(says);
      torque += GIVEN(says + 4);
    }
    for (int64_t p = parts[first[i]], end = parts[first[i + 1]]; p < end; p++) {
      if (p == of_parts.end) compute(w, s, p, last_part, to, 1, &of_parts);
      const S *says = of_parts.says[p - of_parts.begin];
      force -= GIVEN(says);
      torque += GIVEN(says + 4);
      keep_pair(pairs, p, &of_parts);
    }
    const S speed = move_body(w, i, (const S *)&force, (const S *)&torque), way = place_spheres(w, i);
    most = way > most ? way : most;
    fastest = fastest <= speed || speed != speed ? speed : fastest; /* NaN is kept */
  }
  mine->way = most;
  mine->speed = fastest;
}

/* What grains do to tools in a step; sums in the order of the pairs, in double. */
static void sum_wrenches(const granular_world *w, const granular_pairs *pairs) {
  double sums[64][6];
  memset(sums, 0, (size_t)w->tools * sizeof *sums);
  for (int64_t p = pairs->parts; p < pairs->count; p++)
    if (pairs->touches[p]) add_wrench(pairs->force + 12 * p, sums[w->part[pairs->b[p] - w->spheres].tool]);
  for (int32_t t = 0; t < w->tools; t++) add_step(w, t, sums[t]);
}

static double farthest_part(const granular_world *w) {
  double most = 0;
  for (int32_t t = 0; t < w->tools; t++) {
    const granular_tool *tool = w->tool + t;
    double reach = 0;
    const double spin = sqrt(DOT(tool->spin, tool->spin));
    if (spin > 0) for (int32_t p = 0; p < w->parts; p++) {
      const granular_part *part = w->part + p;
      if (part->tool != t) continue;
      const double r = sqrt((double)DOT(part->offset, part->offset)) + sqrt((double)DOT(part->half, part->half)) + part->rounding;
      if (r > reach) reach = r;
    }
    const double way = (sqrt(DOT(tool->velocity, tool->velocity)) + spin * reach) * w->step;
    if (way > most) most = way;
  }
  return most;
}

/* Numbers below 1e-38 count as 0: a contact that has come to rest would else cost a hundred times as much. */
static void flush_denormals(void) {
#ifdef __SSE__
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
}

/* After a step, by one thread: tools go on, and it is seen what came of the step. */
static void finish_step(granular_run *run, int64_t step, double tool_way) {
  const granular_world *w = run->w;
  granular_state *s = run->s;
  S way = 0, speed = 0;
  for (int t = 0; t < run->team.size; t++) {
    const granular_share *share = run->share + t;
    way = share->way > way ? share->way : way;
    speed = speed <= share->speed || share->speed != share->speed ? share->speed : speed;
  }
  sum_wrenches(w, &s->pairs);
  for (int32_t t = 0; t < w->tools; t++) advance_tool(w, w->tool + t);
  for (int32_t p = 0; p < w->parts; p++) place_part(w, p, w->tool + w->part[p].tool);
  s->tool_way += tool_way;
  if (!(speed <= w->fastest * w->fastest)) {
    run->status = GRANULAR_TOO_FAST;
    run->failed_step = step;
  }
  if (list_is_old(w, way, (S)s->tool_way)) s->stale = 1;
}

static void work(granular_run *run, int thread) {
  const granular_world *w = run->w;
  granular_share *mine = run->share + thread;
  const double tool_way = farthest_part(w);
  mine->from = (int32_t)SHARE(w->bodies, thread, run->team.size);
  mine->to = (int32_t)SHARE(w->bodies, thread + 1, run->team.size);
  for (int64_t step = 0; step < run->steps; step++) {
    const int stale = run->s->stale;
    if (stale && list_pairs(run, thread)) return;
    if (stale || step == 0) {
      if (list_crossings(run, mine)) __atomic_store_n(&run->status, GRANULAR_NO_MEMORY, __ATOMIC_RELAXED);
      meet(&run->team);
      if (run->status) return;
    }
    if (run->team.size > 1) {
      compute_crossings(run, mine);
      meet(&run->team);
      take_crossings(run, thread);
    }
    move_bodies(run, mine, step == run->steps - 1);
    meet(&run->team);
    if (thread == 0) finish_step(run, step, tool_way);
    meet(&run->team);
    if (run->status) return;
  }
}

typedef struct { granular_run *run; int thread; } granular_member;

static void *work_as(void *argument) {
  const granular_member *member = argument;
  /* the team's size is told when all members that could be had are there */
  while (!__atomic_load_n(&member->run->team.size, __ATOMIC_ACQUIRE)) sched_yield();
  flush_denormals();
  if (member->thread < member->run->team.size) work(member->run, member->thread);
  return NULL;
}

/* Steps of a world. Returns GRANULAR_OK, or why it ended; `failed` then says at which step. */
int EXPORT(run)(const granular_world *w, granular_state *s, int64_t steps, int threads, int64_t *failed) {
  enum { MOST = 64 };
  granular_share share[MOST] = {{0}};
  granular_run run = {.w = w, .s = s, .steps = steps, .share = share, .failed_step = -1};
  granular_member member[MOST];
  pthread_t id[MOST];
  int started = 1;
  if (threads > MOST) threads = MOST;
  for (int32_t p = 0; p < w->parts; p++) place_part(w, p, w->tool + w->part[p].tool);
  for (int32_t i = 0; i < w->bodies; i++) place_spheres(w, i);
  s->same = w->law + w->material[0] * (w->materials + 1);
  for (int32_t i = 1; i < w->spheres; i++) if (w->material[i] != w->material[0]) { s->same = NULL; break; }
  s->rolls = 0;
  for (int32_t k = 0; k < w->materials * w->materials; k++) s->rolls |= w->law[k].rolling > 0;
  for (int t = 1; t < threads; t++) {
    member[t] = (granular_member){&run, t};
    if (pthread_create(&id[t], NULL, work_as, &member[t])) break;
    started++;
  }
  __atomic_store_n(&run.team.size, started, __ATOMIC_RELEASE);
#ifdef __SSE__
  const unsigned int rounding = __builtin_ia32_stmxcsr();
#endif
  flush_denormals();
  work(&run, 0);
#ifdef __SSE__
  __builtin_ia32_ldmxcsr(rounding);
#endif
  for (int t = 1; t < started; t++) pthread_join(id[t], NULL);
  for (int t = 0; t < started; t++) free(share[t].crossing);
  *failed = run.failed_step;
  return run.status;
}

/* ---- what a world remembers, to be saved ------------------------------------------------ */

int64_t EXPORT(pair_count)(const granular_state *s) { return s->pairs.count; }
int64_t EXPORT(list_count)(const granular_state *s) { return s->lists; }
void EXPORT(forget)(granular_state *s) { s->stale = 1; }

void EXPORT(take_pairs)(const granular_state *s, int32_t *a, int32_t *b, S *history, uint8_t *touches, S *force) {
  const size_t n = (size_t)s->pairs.count;
  memcpy(a, s->pairs.a, n * sizeof *a);
  memcpy(b, s->pairs.b, n * sizeof *b);
  for (size_t p = 0; p < n; p++)
    for (size_t k = 0; k < 6; k++) history[6 * p + k] = s->pairs.history[k * (size_t)s->pairs.room + p];
  memcpy(touches, s->pairs.touches, n);
  memcpy(force, s->pairs.force, 12 * n * sizeof *force);
}

/* Pairs as they were taken: with spheres, then with parts, sorted by a. They are listed anew before the next step. */
int EXPORT(put_pairs)(const granular_world *w, granular_state *s, int64_t n, const int32_t *a, const int32_t *b,
                      const S *history, const uint8_t *touches) {
  if (grow(&s->pairs, n + REFIT_LANES)) return GRANULAR_NO_MEMORY;
  memcpy(s->pairs.a, a, (size_t)n * sizeof *a);
  memcpy(s->pairs.b, b, (size_t)n * sizeof *b);
  for (int64_t p = 0; p < n; p++)
    for (int64_t k = 0; k < 6; k++) s->pairs.history[k * s->pairs.room + p] = history[6 * p + k];
  memcpy(s->pairs.touches, touches, (size_t)n);
  s->pairs.count = n;
  memset(s->starts, 0, (2 * (size_t)w->spheres + 1) * sizeof *s->starts);
  for (int64_t p = 0; p < n; p++) s->starts[1 + a[p] + (b[p] >= w->spheres ? w->spheres : 0)]++;
  for (int64_t i = 0; i < 2 * (int64_t)w->spheres; i++) s->starts[i + 1] += s->starts[i];
  s->pairs.parts = s->starts[w->spheres];
  s->stale = 1;
  return GRANULAR_OK;
}

/* ---- what a camera sees ----------------------------------------------------------------- */

/* Height of the highest sphere over each point of a grid [m] and its body; `bottom` and -1 where none is. */
void EXPORT(heights)(const granular_world *w, S x0, S y0, S cell, int32_t nx, int32_t ny, S bottom, S *height, int32_t *body) {
  for (int64_t i = 0; i < (int64_t)nx * ny; i++) { height[i] = bottom; body[i] = -1; }
  for (int32_t s = 0; s < w->spheres; s++) {
    const S *c = w->center + 4 * s, r = c[3];
    const int32_t i0 = (int32_t)REFIT_M(ceil)((c[0] - r - x0) / cell), i1 = (int32_t)REFIT_M(floor)((c[0] + r - x0) / cell);
    const int32_t j0 = (int32_t)REFIT_M(ceil)((c[1] - r - y0) / cell), j1 = (int32_t)REFIT_M(floor)((c[1] + r - y0) / cell);
    for (int32_t i = i0 < 0 ? 0 : i0; i <= i1 && i < nx; i++)
      for (int32_t j = j0 < 0 ? 0 : j0; j <= j1 && j < ny; j++) {
        const S u = x0 + i * cell - c[0], v = y0 + j * cell - c[1], rest = r * r - u * u - v * v;
        if (rest < 0) continue;
        const S z = c[2] + REFIT_M(sqrt)(rest);
        const int64_t at = (int64_t)i * ny + j;
        if (z > height[at]) { height[at] = z; body[at] = w->body[s]; }
      }
  }
}

/* Depth along the optical axis [m] of what a pinhole camera sees, the body there, and the surface's normal in the world.
 * camera = position (3), axes (9, columns: right, down, forward), fx, fy, cx, cy. Only what is nearer than `depth` is drawn over it. */
void EXPORT(draw)(const granular_world *w, const S *camera, int32_t width, int32_t height, S *depth, int32_t *body, S *normal) {
  const S *eye = camera, *axes = camera + 3, fx = camera[12], fy = camera[13], cx = camera[14], cy = camera[15];
  for (int32_t s = 0; s < w->spheres; s++) {
    const S *c = w->center + 4 * s, r = c[3], d[3] = {c[0] - eye[0], c[1] - eye[1], c[2] - eye[2]};
    S p[3];
    for (int k = 0; k < 3; k++) p[k] = axes[k] * d[0] + axes[3 + k] * d[1] + axes[6 + k] * d[2];
    if (p[2] <= r * K(1.01)) continue;
    /* the picture of a sphere is an ellipse within this box */
    const S near = REFIT_M(sqrt)(p[2] * p[2] - r * r), wide = r / near * p[2] / near;
    const S spread_x = fx * (wide * (1 + REFIT_M(fabs)(p[0]) / near)), spread_y = fy * (wide * (1 + REFIT_M(fabs)(p[1]) / near));
    const S u = fx * p[0] / p[2] + cx, v = fy * p[1] / p[2] + cy;
    const int32_t u0 = (int32_t)(u - spread_x - 1), u1 = (int32_t)(u + spread_x + 1);
    const int32_t v0 = (int32_t)(v - spread_y - 1), v1 = (int32_t)(v + spread_y + 1);
    for (int32_t row = v0 < 0 ? 0 : v0; row <= v1 && row < height; row++)
      for (int32_t column = u0 < 0 ? 0 : u0; column <= u1 && column < width; column++) {
        const S ray[3] = {(column - cx) / fx, (row - cy) / fy, 1};
        const S aa = DOT(ray, ray), ab = DOT(ray, p), rest = ab * ab - aa * (DOT(p, p) - r * r);
        if (rest < 0) continue;
        const S t = (ab - REFIT_M(sqrt)(rest)) / aa;
        const int64_t at = (int64_t)row * width + column;
        if (!(t < depth[at]) || t <= 0) continue;
        depth[at] = t;
        body[at] = w->body[s];
        for (int k = 0; k < 3; k++) {
          S n = 0;
          for (int m = 0; m < 3; m++) n += axes[3 * k + m] * (t * ray[m] - p[m]) / r;
          normal[3 * at + k] = n;
        }
      }
  }
}
