/* Windows of many particles: simulated, held against the data, and differentiated, in one pass. The body that shooting.c
 * runs on lanes and threads of a CPU, shooting.cu in one GPU thread per window.
 *
 *   x[0] = start + offset scale;  x[k+1] = step(x[k], u[k], theta), SUBSTEPS times;
 *   misfit = sum over k >= 1 of rho(x[k], theta, y[k]);
 *   d = (start of the next window - x[H]) per_defect,  pull = its force from multipliers;
 *   gradients of misfit and of pull'd by a reverse sweep, in SEEDS = 2 columns apart from each
 *   other or, with SEEDS = 1, as one sum.
 *
 * Compiled with prepare(theta) -> what of a step depends on theta alone, step(x, u, theta, prepared) -> x', kept: what is
 * dear to compute again, step_vjp(x, u, theta, prepared, kept, lambda', thetabar) over SEEDS columns (codegen/stages.py),
 * misfit(x, theta, y, per_sigma) -> rho, xbar, thetabar and
 * defect(end, next, per_defect, multipliers, damping) -> d, seed of the reverse sweep at x[H].
 */
#define NX step_IN0_SIZE
#define NU step_IN1_SIZE
#define NT step_IN2_SIZE
#define NY misfit_IN2_SIZE
#define NL defect_IN3_SIZE
#define LAST (SEEDS - 1)
#define PREPARED step_IN3_SIZE
#define RECORD (NX + step_OUT1_SIZE) /* a state, and what is kept of the step from it */

/* `windows` to a trajectory; robot b is window b % (trajectories windows) of particle b / (trajectories windows). A
 * trajectory's last window has no defect, its first one no offset: rows of those arrays are per joint between windows. */
typedef struct {
  const S *start, *U, *y;                  /* per window: (NX), (steps, NU), (steps+1, NY) */
  const S *per_sigma, *scale, *per_defect; /* (NY), (NX), (NX) */
  const S *theta;                          /* per particle: (NT) */
  const S *offsets, *multipliers;          /* per joint: (NX), (NL); NULL: zeros */
  S *misfit_each, *thetabar_each;          /* per robot: (1), (NT, SEEDS) */
  S *misfit, *d, *offsetbar, *thetabar;    /* per trajectory, joint, joint, trajectory: (1), (NX), (NX, SEEDS), (NT, SEEDS) */
  S *records;                              /* GPU: (steps SUBSTEPS + 1, RECORD, robots) */
  int64_t particles, trajectories, windows, steps;
  double damping;
  int64_t gradient;
} shooting_job;

#ifdef REFIT_CUDA
#define UNROLL _Pragma("unroll")
#define LANE(v, l) (v)
/* arrays of their own stay in registers; a pointer that changes sides would put them into memory */
#define SHOOTING_ARRAY(name, size) S name[AT_LEAST_1(size)];
#define HAND_OVER(to, from, size) copy(to, from, size)
/* what lies in records, and what goes there: copied to and from registers */
#define RECALL(name, from, size) S name[AT_LEAST_1(size)]; load(name, from, size, stride)
#define ROOM_FOR(name, to, size) S name[AT_LEAST_1(size)]
#define RECORDED(name, to, size) store(to, name, size, stride)
#else
#define UNROLL
#if REFIT_LANES == 1
#define LANE(v, l) (v)
#else
#define LANE(v, l) (v)[l]
#endif
#define SHOOTING_ARRAY(name, size) R *name = work; work += (size);
#define RECALL(name, from, size) const R *const name = from
#define ROOM_FOR(name, to, size) R *const name = to
#define RECORDED(name, to, size)
#define HAND_OVER(to, from, size) do { R *swap = to; to = from; from = swap; } while (0)
#endif

#define SHOOTING_ARRAYS(A) \
  A(theta, NT) A(prepared, PREPARED) A(u, NU) A(y, NY) A(per_sigma, NY) A(rho, 1) A(misfit_sum, 1) \
  A(next, NX) A(per, NX) A(multipliers, NL) A(damping, 1) A(d, NX) A(seed, NX) A(xbar, NX) A(tbar, misfit_OUT2_SIZE) \
  A(lambda, NX * SEEDS) A(before, NX * SEEDS) A(sum, NT * SEEDS) A(sum_before, NT * SEEDS)

/* First element of each lane's row; where all lanes work on one window its data are one row. */
typedef struct { const S *row[REFIT_LANES]; int same; } Lanes;

REFIT_INLINE void take(R *r, const Lanes *a, int64_t offset, int n) {
  if (a->same) {
    UNROLL for (int i = 0; i < n; i++) r[i] = r_splat(a->row[0][offset + i]);
    return;
  }
  UNROLL for (int i = 0; i < n; i++) {
    R v = C(0.0);
    for (int l = 0; l < REFIT_LANES; l++) LANE(v, l) = a->row[l][offset + i];
    r[i] = v;
  }
}

REFIT_INLINE void put(const R *r, S *data, int64_t row, int l, int n) {
  UNROLL for (int i = 0; i < n; i++) data[row * n + i] = LANE(r[i], l);
}

/* Where the window of lane l, or the one `ahead` of it, starts. */
REFIT_INLINE void starts(const shooting_job *job, int64_t robot, int ahead, R *x, int l) {
  const int64_t b = robot + ahead, of_particle = job->trajectories * job->windows;
  const S *const measured = job->start + b % of_particle * NX;
  const S *const offset = job->offsets && b % job->windows ? job->offsets + (b - b / job->windows - 1) * NX : NULL;
  UNROLL for (int i = 0; i < NX; i++) LANE(x[i], l) = measured[i] + (offset ? offset[i] * job->scale[i] : K(0.0));
}

/* Element i of the sums over windows of arrays with `size` elements per robot, size elements per trajectory. */
REFIT_INLINE S sum_of_windows(const S *each, int64_t size, int64_t windows, int64_t i) {
  const S *const first = each + i / size * windows * size + i % size;
  S sum = first[0];
  for (int64_t s = 1; s < windows; s++) sum += first[s * size];
  return sum;
}

/* The lanes' robots; records: room for those of steps SUBSTEPS + 1, elements `stride` apart. */
REFIT_INLINE void shoot(const shooting_job *job, const int64_t *robot, int same_window, R *records, int64_t stride, R *work) {
  (void)work, (void)stride;
  SHOOTING_ARRAYS(SHOOTING_ARRAY)
  const int64_t H = job->steps, of_particle = job->trajectories * job->windows;
  Lanes of_theta, of_u, of_y;
  of_theta.same = 0, of_u.same = of_y.same = same_window;
  for (int l = 0; l < REFIT_LANES; l++) {
    const int64_t b = robot[l], window = b % of_particle;
    const int last = (b + 1) % job->windows == 0;
    const S *const lambdas = job->multipliers && !last ? job->multipliers + (b - b / job->windows) * NL : NULL;
    of_theta.row[l] = job->theta + b / of_particle * NT;
    of_u.row[l] = job->U + window * H * NU;
    of_y.row[l] = job->y + window * (H + 1) * NY;
    starts(job, b, 0, before, l);
    starts(job, b, !last, next, l);
    UNROLL for (int i = 0; i < NX; i++) LANE(per[i], l) = last ? K(0.0) : job->per_defect[i];
    UNROLL for (int i = 0; i < NL; i++) LANE(multipliers[i], l) = lambdas ? lambdas[i] : K(0.0);
  }
  take(theta, &of_theta, 0, NT);
  UNROLL for (int i = 0; i < NY; i++) per_sigma[i] = r_splat(job->per_sigma[i]);
  damping[0] = r_splat((S)job->damping);
  {
    const R *const in[] = {theta};
    R *const out[] = {prepared};
    prepare(in, out, NULL);
  }
  UNROLL for (int i = 0; i < NX; i++) records[i * stride] = before[i];
  for (int64_t k = 0; k < H * SUBSTEPS; k++) {
    R *const now = records + k * RECORD * stride, *const then = now + RECORD * stride, *const beside = now + NX * stride;
    if (k % SUBSTEPS == 0) take(u, &of_u, k / SUBSTEPS * NU, NU);
    RECALL(x, now, NX);
    ROOM_FOR(after, then, NX);
    ROOM_FOR(kept, beside, RECORD - NX);
    const R *const in[] = {x, u, theta, prepared};
    R *const out[] = {after, kept};
    step(in, out, NULL);
    RECORDED(after, then, NX);
    RECORDED(kept, beside, RECORD - NX);
  }
  {
    RECALL(end, records + H * SUBSTEPS * RECORD * stride, NX);
    const R *const in[] = {end, next, per, multipliers, damping};
    R *const out[] = {d, seed};
    defect(in, out, NULL);
  }
  misfit_sum[0] = C(0.0);
  UNROLL for (int i = 0; i < NX * SEEDS; i++) lambda[i] = C(0.0);
  UNROLL for (int i = 0; i < NT * SEEDS; i++) sum[i] = C(0.0);
  UNROLL for (int i = 0; i < NX; i++) lambda[i * SEEDS + LAST] = seed[i];
  for (int64_t k = H * SUBSTEPS; k > 0; k--) {
    if (k % SUBSTEPS == 0) {
      RECALL(x, records + k * RECORD * stride, NX);
      take(y, &of_y, k / SUBSTEPS * NY, NY);
      const R *const in[] = {x, theta, y, per_sigma};
      R *const out[] = {rho, xbar, tbar};
      misfit(in, out, NULL);
      misfit_sum[0] += rho[0];
      if (!job->gradient) continue;
      UNROLL for (int i = 0; i < NX; i++) lambda[i * SEEDS] += xbar[i];
      UNROLL for (int i = 0; i < misfit_OUT2_SIZE; i++) sum[i * SEEDS] += tbar[i];
      take(u, &of_u, (k / SUBSTEPS - 1) * NU, NU);
    }
    if (!job->gradient) continue;
    RECALL(x, records + (k - 1) * RECORD * stride, NX);
    RECALL(kept, records + ((k - 1) * RECORD + NX) * stride, RECORD - NX);
    const R *const in[] = {x, u, theta, prepared, kept, lambda, sum};
    R *const out[] = {before, sum_before};
    step_vjp(in, out, NULL);
    HAND_OVER(lambda, before, NX * SEEDS);
    HAND_OVER(sum, sum_before, NT * SEEDS);
  }
  for (int l = 0; l < REFIT_LANES; l++) {
    const int64_t b = robot[l], joint = b - b / job->windows;
    put(misfit_sum, job->misfit_each, b, l, 1);
    put(sum, job->thetabar_each, b, l, NT * SEEDS);
    if ((b + 1) % job->windows) put(d, job->d, joint, l, NX);
    if (b % job->windows)
      UNROLL for (int i = 0; i < NX * SEEDS; i++)
        job->offsetbar[(joint - 1) * NX * SEEDS + i] = LANE(lambda[i], l) * job->scale[i / SEEDS];
  }
}
