/* Windows of many particles: simulated, held against the data, and differentiated, in one pass.
 *
 * Robot b of the batch is window b % windows of particle b / windows. Per robot the states of one
 * window live in scratch; nothing of the trajectory is written to memory.
 *
 *   x[0] = start;  x[k+1] = step(x[k], u[k], theta), `substeps` times;
 *   misfit = sum over k >= 1 of rho(x[k], theta, y[k]);
 *   d = (start of the next window - x[H]) per_defect,  pull = its force from multipliers;
 *   gradients of misfit and of pull'd by a reverse sweep, in SEEDS = 2 columns apart from each
 *   other or, with SEEDS = 1, as one sum.
 *
 * Compiled with step(x, u, theta), step_vjp(x, u, theta, lambda', thetabar) over SEEDS columns,
 * misfit(x, theta, y, per_sigma) -> rho, xbar, thetabar and
 * defect(end, next, per_defect, multipliers, damping) -> d, seed of the reverse sweep at x[H].
 */
#define NX step_IN0_SIZE
#define NU step_IN1_SIZE
#define NT step_IN2_SIZE
#define NY misfit_IN2_SIZE
#define NL defect_IN3_SIZE
#define LAST (SEEDS - 1)

typedef struct {
  const S *start;            /* (NX) per robot, or per window */
  const S *theta;            /* (NT) per particle */
  const S *U, *y, *per_defect; /* per window: (steps, NU), (steps+1, NY), (NX) */
  const S *per_sigma;        /* (NY) */
  const S *multipliers;      /* (NL) per robot */
  S damping;
  S *misfit, *d;             /* per robot: (1), (NX) */
  S *startbar, *thetabar;    /* per robot: (NX, SEEDS), (NT, SEEDS) */
  int64_t batch, windows, steps;
  int substeps, own_starts, gradient;
} shooting_job;

/* First element of each lane's row. */
typedef struct { const S *row[REFIT_LANES]; } Lanes;

enum { OF_ROBOT, OF_PARTICLE, OF_WINDOW };

REFIT_INLINE Lanes lanes(const S *data, int64_t size, int of, int64_t block, const shooting_job *job, int64_t shift) {
  Lanes a;
  for (int l = 0; l < REFIT_LANES; l++) {
    int64_t b = block * REFIT_LANES + l;
    if (b >= job->batch) b = job->batch - 1;
    if (shift && (b + 1) % job->windows) b++;
    a.row[l] = data + size * (of == OF_PARTICLE ? b / job->windows : of == OF_WINDOW ? b % job->windows : b);
  }
  return a;
}

REFIT_INLINE void take(R *r, const Lanes *a, int64_t offset, int64_t n) {
#if REFIT_LANES == 1
  memcpy(r, a->row[0] + offset, (size_t)n * sizeof(S));
#else
  for (int64_t i = 0; i < n; i++) {
    R v;
#pragma GCC unroll 16
    for (int l = 0; l < REFIT_LANES; l++) v[l] = a->row[l][offset + i];
    r[i] = v;
  }
#endif
}

/* x[1..substeps] from x[0] under one control. */
REFIT_INLINE void advance(R *x, const R *u, const R *theta, int substeps) {
  for (int s = 0; s < substeps; s++)
    step((const R *[]){x + s * NX, u, theta}, (R *[]){x + (s + 1) * NX}, NULL);
}

static void shooting_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const shooting_job *job = argument;
  const int64_t H = job->steps;
  const int substeps = job->substeps;
  R *r = scratch;
#define ROOM(name, size) R *name = r; r += (size)
  ROOM(x, (H + 1) * NX); ROOM(inner, ((int64_t)substeps + 1) * NX);
  ROOM(theta, NT); ROOM(u, NU); ROOM(y, NY); ROOM(per_sigma, NY); ROOM(rho, 1); ROOM(misfit_sum, 1);
  ROOM(next, NX); ROOM(per, NX); ROOM(multipliers, NL); ROOM(damping, 1); ROOM(d, NX); ROOM(seed, NX);
  ROOM(xbar, NX); ROOM(tbar, NT);
  ROOM(lambda, NX * SEEDS); ROOM(before, NX * SEEDS); ROOM(sum, NT * SEEDS); ROOM(sum_before, NT * SEEDS);
#undef ROOM
  for (int64_t i = 0; i < NY; i++) per_sigma[i] = C(0.0) + job->per_sigma[i];
  damping[0] = C(0.0) + job->damping;
  for (int64_t b = first; b < last; b++) {
    const int start_of = job->own_starts ? OF_ROBOT : OF_WINDOW;
    const Lanes start = lanes(job->start, NX, start_of, b, job, 0), after = lanes(job->start, NX, start_of, b, job, 1);
    const Lanes of_theta = lanes(job->theta, NT, OF_PARTICLE, b, job, 0), of_u = lanes(job->U, H * NU, OF_WINDOW, b, job, 0);
    const Lanes of_y = lanes(job->y, (H + 1) * NY, OF_WINDOW, b, job, 0), of_per = lanes(job->per_defect, NX, OF_WINDOW, b, job, 0);
    const Lanes of_multipliers = lanes(job->multipliers, NL, OF_ROBOT, b, job, 0);
    take(theta, &of_theta, 0, NT), take(x, &start, 0, NX), take(next, &after, 0, NX);
    take(per, &of_per, 0, NX), take(multipliers, &of_multipliers, 0, NL);
    for (int64_t k = 0; k < H; k++) {
      take(u, &of_u, k * NU, NU);
      memcpy(inner, x + k * NX, NX * sizeof(R));
      advance(inner, u, theta, substeps);
      memcpy(x + (k + 1) * NX, inner + substeps * NX, NX * sizeof(R));
    }
    defect((const R *[]){x + H * NX, next, per, multipliers, damping}, (R *[]){d, seed}, NULL);
    misfit_sum[0] = C(0.0);
    for (int64_t i = 0; i < NX * SEEDS; i++) lambda[i] = C(0.0);
    for (int64_t i = 0; i < NT * SEEDS; i++) sum[i] = C(0.0);
    for (int64_t i = 0; i < NX; i++) lambda[i * SEEDS + LAST] = seed[i];
    for (int64_t k = H; k > 0; k--) {
      take(y, &of_y, k * NY, NY);
      misfit((const R *[]){x + k * NX, theta, y, per_sigma}, (R *[]){rho, xbar, tbar}, NULL);
      misfit_sum[0] += rho[0];
      if (!job->gradient) continue;
      for (int64_t i = 0; i < NX; i++) lambda[i * SEEDS] += xbar[i];
      for (int64_t i = 0; i < NT; i++) sum[i * SEEDS] += tbar[i];
      take(u, &of_u, (k - 1) * NU, NU);
      memcpy(inner, x + (k - 1) * NX, NX * sizeof(R));
      advance(inner, u, theta, substeps - 1);
      for (int s = substeps - 1; s >= 0; s--) {
        step_vjp((const R *[]){inner + s * NX, u, theta, lambda, sum}, (R *[]){before, sum_before}, NULL);
        R *swap = lambda;
        lambda = before, before = swap;
        swap = sum, sum = sum_before, sum_before = swap;
      }
    }
    scatter(misfit_sum, job->misfit, 1, 1, b, job->batch);
    scatter(d, job->d, NX, NX, b, job->batch);
    scatter(lambda, job->startbar, NX * SEEDS, NX * SEEDS, b, job->batch);
    scatter(sum, job->thetabar, NT * SEEDS, NT * SEEDS, b, job->batch);
  }
}

/* in: start, theta, U, y, per_defect, per_sigma, multipliers; out: misfit, d, startbar, thetabar */
int EXPORT(shooting)(const S *const *in, S *const *out, double damping, int64_t particles, int64_t windows, int64_t steps,
                     int substeps, int own_starts, int gradient, int threads) {
  const shooting_job job = {in[0], in[1], in[2], in[3], in[4], in[5], in[6], (S)damping, out[0], out[1], out[2], out[3],
                            particles * windows, windows, steps, substeps, own_starts, gradient};
  const size_t scratch = (size_t)(steps + 1) * NX + ((size_t)substeps + 1) * NX + NT + NU + 2 * NY + 3 + 5 * NX + NL
                         + NX + NT + 2 * SEEDS * (NX + NT);
  return refit_parallel(shooting_slice, &job, refit_blocks(job.batch), threads, scratch);
}
