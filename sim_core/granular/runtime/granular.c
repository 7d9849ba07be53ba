/* law.h on CPU threads: which pairs may touch, and the steps of a run. */
#include <sched.h>
#include "law.h"
#include "neighbours.h"

enum { GRANULAR_OK = 0, GRANULAR_NO_MEMORY = 1, GRANULAR_TOO_FAST = 2 };

/* What a world keeps between runs beside the caller's arrays. */
typedef struct {
  granular_pairs pairs, next;
  int64_t *starts, *before;   /* (spheres + 1) first pair of each sphere a: of `pairs` and of the list before */
  int64_t *incident_first;    /* (bodies + 1) */
  int64_t *incident;          /* 2 p for side a of pair p, 2 p + 1 for side b */
  int64_t incident_room;
  granular_grid grid;
  granular_cells cells;
  int64_t *cell_counts;       /* (most cells + 2) */
  int64_t lists;              /* how often pairs were listed */
  int stale;                  /* list before the next step */
  double tool_way;            /* [m] that some tool's point has gone since then at most */
} granular_state;

static int grow(granular_pairs *pairs, int64_t room) {
  if (room <= pairs->room) return GRANULAR_OK;
  room += room / 4 + 1024;
#define GROW(field, n) \
  { void *p = realloc(pairs->field, (size_t)(room * (n)) * sizeof *pairs->field); if (!p) return GRANULAR_NO_MEMORY; pairs->field = p; }
  GROW(a, 1) GROW(b, 1) GROW(history, 6) GROW(force, 9) GROW(touches, 1)
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
  free(s->starts); free(s->before); free(s->incident_first); free(s->incident);
  free(s->cell_counts); free(s->cells.of); free(s->cells.sorted); free(s->cells.center);
  free(s);
}

void EXPORT(free)(granular_state *s) { dispose(s); }

typedef granular_state *granular_handle; /* EXPORT's attribute would else bind to the star */

granular_handle EXPORT(new)(const granular_world *w) {
  granular_state *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  const size_t spheres = (size_t)w->spheres + 1;
  s->starts = calloc(spheres, sizeof *s->starts);
  s->before = calloc(spheres, sizeof *s->before);
  s->incident_first = calloc((size_t)w->bodies + 2, sizeof *s->incident_first);
  s->cell_counts = calloc((size_t)MOST_CELLS(w->spheres) + 2, sizeof *s->cell_counts);
  s->cells = (granular_cells){&s->grid, s->cell_counts + 1, calloc(spheres, sizeof(int32_t)), calloc(spheres, sizeof(int32_t)),
                              calloc(4 * spheres, sizeof(S))};
  s->stale = 1;
  if (!s->starts || !s->before || !s->incident_first || !s->cell_counts || !s->cells.of || !s->cells.sorted || !s->cells.center ||
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

typedef struct {
  const granular_world *w;
  granular_state *s;
  granular_team team;
  int64_t steps;
  int64_t *found;             /* pairs of each thread's spheres */
  S *way, *speed;             /* largest of each thread's bodies */
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

static int list_incidents(const granular_world *w, granular_state *s) {
  const granular_pairs *pairs = &s->pairs;
  if (2 * pairs->count > s->incident_room) {
    void *p = realloc(s->incident, (size_t)(2 * pairs->room) * sizeof *s->incident);
    if (!p) return GRANULAR_NO_MEMORY;
    s->incident = p;
    s->incident_room = 2 * pairs->room;
  }
  int64_t *first = s->incident_first;
  memset(first, 0, ((size_t)w->bodies + 2) * sizeof *first);
  for (int64_t p = 0; p < pairs->count; p++) {
    first[w->body[pairs->a[p]] + 2]++;
    if (pairs->b[p] < w->spheres) first[w->body[pairs->b[p]] + 2]++;
  }
  for (int32_t i = 0; i < w->bodies; i++) first[i + 2] += first[i + 1];
  for (int64_t p = 0; p < pairs->count; p++) {
    s->incident[first[w->body[pairs->a[p]] + 1]++] = 2 * p;
    if (pairs->b[p] < w->spheres) s->incident[first[w->body[pairs->b[p]] + 1]++] = 2 * p + 1;
  }
  return GRANULAR_OK;
}

/* All threads of a team list the pairs anew. */
static void list_pairs(granular_run *run, int thread) {
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
  int64_t n = 0;
  for (int32_t i = from; i < to; i++) {
    const int64_t found = pairs_of(w, &s->cells, i, NULL, NULL);
    s->starts[i + 1] = found;
    n += found;
  }
  run->found[thread] = n;
  meet(&run->team);
  if (thread == 0) {
    int64_t total = 0;
    for (int t = 0; t < size; t++) total += run->found[t];
    s->starts[0] = 0;
    for (int32_t i = 0; i < w->spheres; i++) s->starts[i + 1] += s->starts[i];
    run->status = grow(&s->next, total);
    s->next.count = total;
  }
  meet(&run->team);
  if (run->status) return;
  for (int32_t i = from; i < to; i++) {
    pairs_of(w, &s->cells, i, s->next.a + s->starts[i], s->next.b + s->starts[i]);
    for (int64_t p = s->starts[i]; p < s->starts[i + 1]; p++) remember(&s->pairs, s->before, &s->next, p);
    memcpy(w->reference + 3 * i, w->center + 4 * i, 3 * sizeof(S));
  }
  meet(&run->team);
  if (thread == 0) {
    granular_pairs swap = s->pairs;
    s->pairs = s->next;
    s->next = swap;
    run->status = list_incidents(w, s);
    s->stale = 0;
    s->tool_way = 0;
    s->lists++;
  }
  meet(&run->team);
}

/* ---- steps ---------------------------------------------------------------------------- */

/* What grains do to tools in a step; sums in the order of the pairs, in double. */
static void sum_wrenches(const granular_world *w, const granular_pairs *pairs) {
  double sums[64][6];
  memset(sums, 0, (size_t)w->tools * sizeof *sums);
  for (int64_t p = 0; p < pairs->count; p++) {
    if (pairs->b[p] < w->spheres || !pairs->touches[p]) continue;
    const int32_t t = w->part[pairs->b[p] - w->spheres].tool;
    add_wrench(pairs->force + 9 * p, w->tool[t].position, sums[t]);
  }
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

static void work(granular_run *run, int thread) {
  const granular_world *w = run->w;
  granular_state *s = run->s;
  const int size = run->team.size;
  const double tool_way = farthest_part(w);
  const int32_t from = (int32_t)SHARE(w->bodies, thread, size), to = (int32_t)SHARE(w->bodies, thread + 1, size);
  for (int64_t step = 0; step < run->steps; step++) {
    if (s->stale) list_pairs(run, thread);
    if (run->status) return;
    const granular_pairs *pairs = &s->pairs;
    for (int64_t p = SHARE(pairs->count, thread, size), end = SHARE(pairs->count, thread + 1, size); p < end; p++)
      contact(w, pairs, p);
    meet(&run->team);
    if (thread == 0) {
      sum_wrenches(w, pairs);
      for (int32_t t = 0; t < w->tools; t++) advance_tool(w, t);
      for (int32_t p = 0; p < w->parts; p++) place_part(w, p);
    }
    S way = 0, speed = 0;
    for (int32_t i = from; i < to; i++) {
      S d;
      const S v = step_body(w, pairs, s->incident_first, s->incident, i, &d);
      way = d > way ? d : way;
      speed = v <= speed ? speed : v; /* NaN is kept */
    }
    run->way[thread] = way;
    run->speed[thread] = speed;
    meet(&run->team);
    if (thread == 0) {
      for (int t = 0; t < size; t++) {
        way = run->way[t] > way ? run->way[t] : way;
        speed = run->speed[t] <= speed ? speed : run->speed[t];
      }
      s->tool_way += tool_way;
      if (!(speed <= w->fastest * w->fastest)) {
        run->status = GRANULAR_TOO_FAST;
        run->failed_step = step;
      }
      if (list_is_old(w, way, (S)s->tool_way)) s->stale = 1;
    }
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
  int64_t found[MOST];
  S way[MOST], speed[MOST];
  granular_run run = {.w = w, .s = s, .steps = steps, .found = found, .way = way, .speed = speed, .failed_step = -1};
  granular_member member[MOST];
  pthread_t id[MOST];
  int started = 1;
  if (threads > MOST) threads = MOST;
  for (int32_t p = 0; p < w->parts; p++) place_part(w, p);
  for (int32_t i = 0; i < w->bodies; i++) place_spheres(w, i);
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
  memcpy(history, s->pairs.history, 6 * n * sizeof *history);
  memcpy(touches, s->pairs.touches, n);
  memcpy(force, s->pairs.force, 9 * n * sizeof *force);
}

/* Pairs sorted by a, as they were taken; they are listed anew before the next step. */
int EXPORT(put_pairs)(const granular_world *w, granular_state *s, int64_t n, const int32_t *a, const int32_t *b,
                      const S *history, const uint8_t *touches) {
  if (grow(&s->pairs, n)) return GRANULAR_NO_MEMORY;
  memcpy(s->pairs.a, a, (size_t)n * sizeof *a);
  memcpy(s->pairs.b, b, (size_t)n * sizeof *b);
  memcpy(s->pairs.history, history, 6 * (size_t)n * sizeof *history);
  memcpy(s->pairs.touches, touches, (size_t)n);
  s->pairs.count = n;
  memset(s->starts, 0, ((size_t)w->spheres + 1) * sizeof *s->starts);
  for (int64_t p = 0; p < n; p++) s->starts[a[p] + 1]++;
  for (int32_t i = 0; i < w->spheres; i++) s->starts[i + 1] += s->starts[i];
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
