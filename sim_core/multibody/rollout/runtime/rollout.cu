/* Roll-out and reverse sweep on a GPU: one thread per robot. The CUDA twin of rollout.c and
 * reverse.c, around the same emitted functions step and step_vjp.
 *
 * Arrays have the batch as last dimension, so that neighbouring threads read neighbouring
 * numbers: x0 (NX, B), U (H, NU, B), X (H+1, NX, B). p is (NP, B), or (NP) when shared.
 */
#include "thread.h"

#define NX step_IN0_SIZE
#define NU step_IN1_SIZE
#define NP step_IN2_SIZE

REFIT_INLINE void advance(S *x, const S *u, const S *p) {
  S next[NX];
  const S *in[] = {x, u, p};
  S *out[] = {next};
  step(in, out, NULL);
  copy(x, next, NX);
}

/* The robot's parameters: the shared ones in place, else a copy. */
REFIT_INLINE const S *parameters(const S *p, int shared, S *own, int64_t robot, int64_t batch) {
  if (shared) return p;
  load(own, p + robot, NP, batch);
  return own;
}

extern "C" __global__ void rollout(const S *x0, const S *U, const S *p, int shared, S *X,
                                   int64_t batch, int64_t steps, int substeps) {
  const int64_t robot = THREAD;
  if (robot >= batch) return;
  S x[NX], u[AT_LEAST_1(NU)], own[AT_LEAST_1(NP)];
  const S *const pr = parameters(p, shared, own, robot, batch);
  load(x, x0 + robot, NX, batch);
  store(X + robot, x, NX, batch);
  for (int64_t k = 0; k < steps; k++) {
    load(u, U + k * NU * batch + robot, NU, batch);
    for (int s = 0; s < substeps; s++) advance(x, u, pr);
    store(X + (k + 1) * NX * batch + robot, x, NX, batch);
  }
}

/* pbar (NP, B) must come in as zeros: the sum over time is kept in memory. */
extern "C" __global__ void reverse(const S *U, const S *p, int shared, const S *X, const S *Xbar,
                                   S *x0bar, S *Ubar, S *pbar, int64_t batch, int64_t steps, int substeps) {
  const int64_t robot = THREAD;
  if (robot >= batch) return;
  S lambda[NX], before[NX], x[NX], u[AT_LEAST_1(NU)], ubar[AT_LEAST_1(NU)], usum[AT_LEAST_1(NU)];
  S own[AT_LEAST_1(NP)], sum[AT_LEAST_1(NP)], sum_before[AT_LEAST_1(NP)];
  const S *const pr = parameters(p, shared, own, robot, batch);
  load(sum, pbar + robot, NP, batch);
  load(lambda, Xbar + steps * NX * batch + robot, NX, batch);
  for (int64_t k = steps - 1; k >= 0; k--) {
    load(u, U + k * NU * batch + robot, NU, batch);
    for (int i = 0; i < NU; i++) usum[i] = 0;
    for (int s = substeps - 1; s >= 0; s--) {
      load(x, X + k * NX * batch + robot, NX, batch);
      for (int i = 0; i < s; i++) advance(x, u, pr); /* registers are scarcer than time */
      const S *in[] = {x, u, pr, lambda, sum};
      S *out[] = {before, ubar, sum_before};
      step_vjp(in, out, NULL);
      copy(lambda, before, NX);
      copy(sum, sum_before, NP);
      for (int i = 0; i < NU; i++) usum[i] += ubar[i];
    }
    store(Ubar + k * NU * batch + robot, usum, NU, batch);
    load(before, Xbar + k * NX * batch + robot, NX, batch);
    for (int i = 0; i < NX; i++) lambda[i] += before[i];
  }
  store(x0bar + robot, lambda, NX, batch);
  store(pbar + robot, sum, NP, batch);
}
