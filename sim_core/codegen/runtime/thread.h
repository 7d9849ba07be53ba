/* What kernels around emitted functions share: a robot's arrays in a GPU thread's registers. */
#ifndef REFIT_THREAD_H
#define REFIT_THREAD_H

#define AT_LEAST_1(n) ((n) > 0 ? (n) : 1)
#define THREAD ((int64_t)blockIdx.x * blockDim.x + threadIdx.x)

/* a[0], a[stride], ...: with the batch as last dimension neighbouring threads read neighbouring numbers. */
REFIT_INLINE void load(S *r, const S *a, int n, int64_t stride) {
#pragma unroll
  for (int i = 0; i < n; i++) r[i] = a[i * stride];
}

REFIT_INLINE void store(S *a, const S *r, int n, int64_t stride) {
#pragma unroll
  for (int i = 0; i < n; i++) a[i * stride] = r[i];
}

REFIT_INLINE void copy(S *to, const S *from, int n) {
#pragma unroll
  for (int i = 0; i < n; i++) to[i] = from[i];
}

#endif
