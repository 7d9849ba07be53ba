/* Reverse sweep of a roll-out: the gradient of a scalar L(X) from Xbar = dL/dX.
 *
 * lambda[H] = Xbar[H];  lambda[k] = Xbar[k] + (dx[k+1]/dx[k])' lambda[k+1];
 * ubar[k] = (dx[k+1]/du[k])' lambda[k+1];  pbar = sum over k of (dx[k+1]/dp)' lambda[k+1].
 *
 * Compiled with step(x, u, p) -> x' and
 * step_vjp(x, u, p, lambda', pbar) -> lambda, ubar, pbar + this step's share. The states are
 * those stored by the roll-out; those between substeps are computed again.
 *
 * With SUMMED, p is one row for all, and pbar has a row per block of robots: its sum over them, weights of networks summed
 * where they arise.
 */
#define NX step_IN0_SIZE
#define NU step_IN1_SIZE
#define NP step_IN2_SIZE

typedef struct {
  Rows U, p, X, Xbar;       /* per robot: (steps, NU), (NP), (steps+1, NX) twice */
  S *x0bar, *Ubar, *pbar;   /* per robot: (NX), (steps, NU), (NP); SUMMED: pbar per block */
  int64_t batch, steps;
  int substeps;
} reverse_job;

static void exchange(R **a, R **b) {
  R *const c = *a;
  *a = *b, *b = c;
}

/* Xbar[k]; zero in the lanes that fill up the last block where they would count in a sum. */
static void cotangent(R *r, const reverse_job *job, int64_t k, int64_t block) {
  gather(r, (Rows){job->Xbar.data + k * NX, job->Xbar.stride}, NX, block, job->batch);
#ifdef SUMMED
  for (int64_t l = job->batch - block * REFIT_LANES; l < REFIT_LANES; l++)
    for (int i = 0; i < NX; i++) r[i][l] = 0;
#endif
}

static void reverse_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const reverse_job *job = argument;
  R *lambda = scratch, *before = lambda + NX;
  R *const u = before + NX, *const ubar = u + NU, *const usum = ubar + NU, *const p = usum + NU;
  R *pbar = p + NP, *pbar_before = pbar + NP, *const x = pbar_before + NP; /* x: (substeps, NX) */
  for (int64_t b = first; b < last; b++) {
    if (job->p.stride || b == first) gather(p, job->p, NP, b, job->batch);
    for (int i = 0; i < NP; i++) pbar[i] = pbar_before[i] = C(0.0);
    S *const total = job->pbar + b * NP;
    cotangent(lambda, job, job->steps, b);
#ifdef SUMMED
    for (int i = 0; i < NP; i++) total[i] = 0;
#endif
    for (int64_t k = job->steps - 1; k >= 0; k--) {
      gather(x, (Rows){job->X.data + k * NX, job->X.stride}, NX, b, job->batch);
      gather(u, (Rows){job->U.data + k * NU, job->U.stride}, NU, b, job->batch);
      for (int s = 1; s < job->substeps; s++)
        step((const R *[]){x + (s - 1) * NX, u, p, (const R *)job->p.data}, (R *[]){x + s * NX}, NULL);
      for (int i = 0; i < NU; i++) usum[i] = C(0.0);
      for (int s = job->substeps - 1; s >= 0; s--) {
        step_vjp((const R *[]){x + s * NX, u, p, lambda, pbar, (const R *)job->p.data},
                 (R *[]){before, ubar, pbar_before, (R *)total}, NULL);
        exchange(&lambda, &before);
        exchange(&pbar, &pbar_before);
        for (int i = 0; i < NU; i++) usum[i] += ubar[i];
      }
      scatter(usum, job->Ubar + k * NU, job->steps * NU, NU, b, job->batch);
      cotangent(before, job, k, b);
      for (int i = 0; i < NX; i++) lambda[i] += before[i];
    }
    scatter(lambda, job->x0bar, NX, NX, b, job->batch);
#ifdef SUMMED
    for (int i = 0; i < NP; i++)
      for (int l = 0; l < REFIT_LANES; l++) total[i] += pbar[i][l];
#else
    scatter(pbar, job->pbar, NP, NP, b, job->batch);
#endif
  }
}

/* in: U, p, X, Xbar; out: x0bar, Ubar, pbar */
int EXPORT(reverse)(const Rows *in, S *const *out, int64_t batch, int64_t steps, int substeps,
                    int threads) {
  const reverse_job job = {in[0], in[1], in[2], in[3], out[0], out[1], out[2], batch, steps, substeps};
  const size_t scratch = (2 + (size_t)substeps) * NX + 3 * NU + 3 * NP;
  return refit_parallel(reverse_slice, &job, refit_blocks(batch), threads, scratch);
}
