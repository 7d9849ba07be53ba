/* What the threads of a CUDA block do together, in an order that never changes. A block of one thread (as kernels run on the host in
 * the tests) does the same alone. All threads of a block must call these, so none may have returned before.
 */
#ifndef REFIT_BLOCK_H
#define REFIT_BLOCK_H

/* BLOCK_THREADS: of a block, a power of two; codegen/cuda.py says how many it launches. */
#define IN_BLOCK ((int)threadIdx.x)
#define BLOCKS(threads) (((int64_t)(threads) + blockDim.x - 1) / blockDim.x) /* that hold so many threads */

/* One number of each thread, folded by `both`, to all threads. */
template <typename T, typename F> REFIT_INLINE T block_fold(const T &mine, const F &both) {
  __shared__ T of[BLOCK_THREADS];
  of[IN_BLOCK] = mine;
  __syncthreads();
  for (int half = (int)blockDim.x / 2; half > 0; half /= 2) {
    if (IN_BLOCK < half) of[IN_BLOCK] = both(of[IN_BLOCK], of[IN_BLOCK + half]);
    __syncthreads();
  }
  const T all = of[0];
  __syncthreads();
  return all;
}

/* The sum of the threads' numbers up to this one's; `all`: of all of them. */
template <typename T> REFIT_INLINE T block_sum_up_to(T mine, T *all) {
  __shared__ T of[BLOCK_THREADS];
  of[IN_BLOCK] = mine;
  __syncthreads();
  for (int back = 1; back < (int)blockDim.x; back *= 2) {
    const T more = IN_BLOCK >= back ? of[IN_BLOCK - back] : 0;
    __syncthreads();
    of[IN_BLOCK] += more;
    __syncthreads();
  }
  const T sum = of[IN_BLOCK];
  *all = of[(int)blockDim.x - 1];
  __syncthreads();
  return sum;
}

#endif
