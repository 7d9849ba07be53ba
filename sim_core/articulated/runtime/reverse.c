/* Reverse sweep of a roll-out: the gradient of a scalar L(X) from Xbar = dL/dX.
 *
 * lambda[H] = Xbar[H];  lambda[k] = Xbar[k] + (dx[k+1]/dx[k])' lambda[k+1];
 * ubar[k] = (dx[k+1]/du[k])' lambda[k+1];  pbar = sum over k of (dx[k+1]/dp)' lambda[k+1].
 *
 * Compiled with step(x, u, p) -> x' and
 * step_vjp(x, u, p, lambda', pbar) -> lambda, ubar, pbar + this step's share. The states are
 * those stored by the roll-out; those between substeps are computed again.
 */
#define NX step_IN0_SIZE
#define NU step_IN1_SIZE
#define NP step_IN2_SIZE

typedef struct {
  Rows U, p, X, Xbar;       /* per robot: (steps, NU), (NP), (steps+1, NX) twice */
  S *x0bar, *Ubar, *pbar;   /* per robot: (NX), (steps, NU), (NP) */
  int64_t batch, steps;
  int substeps;
} reverse_job;

static void exchange(R **a, R **b) {
  R *const c = *a;
  *a = *b, *b = c;
}

static void reverse_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const reverse_job *job = argument;
  R *lambda = scratch, *before = lambda + NX;
  R *const u = before + NX, *const ubar = u + NU, *const usum = ubar + NU, *const p = usum + NU;
  R *pbar = p + NP, *pbar_before = pbar + NP, *const x = pbar_before + NP; /* x: (substeps, NX) */
  for (int64_t b = first; b < last; b++) {
    if (job->p.stride || b == first) gather(p, job->p, NP, b, job->batch);
    for (int i = 0; i < NP; i++) pbar[i] = C(0.0);
    gather(lambda, (Rows){job->Xbar.data + job->steps * NX, job->Xbar.stride}, NX, b, job->batch);
    for (int64_t k = job->steps - 1; k >= 0; k--) {
      gather(x, (Rows){job->X.data + k * NX, job->X.stride}, NX, b, job->batch);
      gather(u, (Rows){job->U.data + k * NU, job->U.stride}, NU, b, job->batch);
      for (int s = 1; s < job->substeps; s++)
        step((const R *[]){x + (s - 1) * NX, u, p}, (R *[]){x + s * NX}, NULL);
      for (int i = 0; i < NU; i++) usum[i] = C(0.0);
      for (int s = job->substeps - 1; s >= 0; s--) {
        step_vjp((const R *[]){x + s * NX, u, p, lambda, pbar},
                 (R *[]){before, ubar, pbar_before}, NULL);
        exchange(&lambda, &before);
        exchange(&pbar, &pbar_before);
        for (int i = 0; i < NU; i++) usum[i] += ubar[i];
      }
      scatter(usum, job->Ubar + k * NU, job->steps * NU, NU, b, job->batch);
      gather(before, (Rows){job->Xbar.data + k * NX, job->Xbar.stride}, NX, b, job->batch);
      for (int i = 0; i < NX; i++) lambda[i] += before[i];
    }
    scatter(lambda, job->x0bar, NX, NX, b, job->batch);
    scatter(pbar, job->pbar, NP, NP, b, job->batch);
  }
}

/* in: U, p, X, Xbar; out: x0bar, Ubar, pbar */
int EXPORT(reverse)(const Rows *in, S *const *out, int64_t batch, int64_t steps, int substeps,
                    int threads) {
  const reverse_job job = {in[0], in[1], in[2], in[3], out[0], out[1], out[2], batch, steps, substeps};
  const size_t scratch = (2 + (size_t)substeps) * NX + 3 * NU + 3 * NP;
  return refit_parallel(reverse_slice, &job, refit_blocks(batch), threads, scratch);
}
