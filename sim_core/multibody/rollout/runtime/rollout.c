/* Roll-out of a batch: x[k+1] = step(x[k], u[k], p), `substeps` times per k with u held.
 *
 * Compiled with the emitted function step(x, u, p) -> x'; behind p the first robot's row, whose weights may be everyone's.
 */
#define NX step_IN0_SIZE
#define NU step_IN1_SIZE
#define NP step_IN2_SIZE

typedef struct {
  Rows x0, U, p; /* per robot: (NX), (steps, NU), (NP) */
  S *X;          /* per robot: (steps+1, NX) */
  int64_t batch, steps;
  int substeps;
} rollout_job;

static void rollout_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const rollout_job *job = argument;
  const int64_t row = (job->steps + 1) * NX;
  R *x = scratch, *next = x + NX, *const u = next + NX, *const p = u + NU;
  for (int64_t b = first; b < last; b++) {
    gather(x, job->x0, NX, b, job->batch);
    if (job->p.stride || b == first) gather(p, job->p, NP, b, job->batch);
    scatter(x, job->X, row, NX, b, job->batch);
    for (int64_t k = 0; k < job->steps; k++) {
      gather(u, (Rows){job->U.data + k * NU, job->U.stride}, NU, b, job->batch);
      for (int s = 0; s < job->substeps; s++) {
        step((const R *[]){x, u, p, (const R *)job->p.data}, (R *[]){next}, NULL);
        R *const swap = x;
        x = next, next = swap;
      }
      scatter(x, job->X + (k + 1) * NX, row, NX, b, job->batch);
    }
  }
}

/* in: x0, U, p */
int EXPORT(rollout)(const Rows *in, S *X, int64_t batch, int64_t steps, int substeps, int threads) {
  const rollout_job job = {in[0], in[1], in[2], X, batch, steps, substeps};
  return refit_parallel(rollout_slice, &job, refit_blocks(batch), threads, 2 * NX + NU + NP);
}
