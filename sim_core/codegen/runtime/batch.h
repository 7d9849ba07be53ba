/* From numpy's rows (one robot after the other) to lane blocks, and threads over blocks.
 *
 * A batch of n robots is cut into blocks of REFIT_LANES. The last block is filled up with
 * copies of the last robot, whose results are computed and dropped; so a remainder takes
 * the same path as a full block. Blocks do not depend on the number of threads, hence
 * neither do the results, to the bit.
 */
#ifndef REFIT_BATCH_H
#define REFIT_BATCH_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "real.h"

#define REFIT_JOIN_(a, b) a##_##b
#define REFIT_JOIN(a, b) REFIT_JOIN_(a, b)
/* The one way out of the shared object: names carry the library's prefix, because short
 * names such as step collide with other libraries in the process. */
#define EXPORT(name) __attribute__((visibility("default"))) REFIT_JOIN(REFIT_PREFIX, name)

enum { REFIT_OK = 0, REFIT_NO_MEMORY = 1 };

/* An array with one row of scalars per robot; stride 0: one row shared by all. */
typedef struct { const S *data; int64_t stride; } Rows;

REFIT_INLINE int64_t refit_blocks(int64_t batch) { return (batch + REFIT_LANES - 1) / REFIT_LANES; }

/* r[i] = element i of the rows of this block's robots */
REFIT_INLINE void gather(R *REFIT_RESTRICT r, Rows a, int64_t n, int64_t block, int64_t batch) {
#if REFIT_LANES == 1
  (void)batch;
  memcpy(r, a.data + block * a.stride, (size_t)n * sizeof(S));
#else
  const S *row[REFIT_LANES];
  for (int l = 0; l < REFIT_LANES; l++) {
    const int64_t robot = block * REFIT_LANES + l;
    row[l] = a.data + (robot < batch ? robot : batch - 1) * a.stride;
  }
  for (int64_t i = 0; i < n; i++) {
    R v;
#pragma GCC unroll 16
    for (int l = 0; l < REFIT_LANES; l++) v[l] = row[l][i];
    r[i] = v;
  }
#endif
}

REFIT_INLINE void scatter(const R *REFIT_RESTRICT r, S *data, int64_t stride, int64_t n,
                          int64_t block, int64_t batch) {
#if REFIT_LANES == 1
  (void)batch;
  memcpy(data + block * stride, r, (size_t)n * sizeof(S));
#else
  const int64_t first = block * REFIT_LANES;
  S *const y = data + first * stride;
  if (first + REFIT_LANES <= batch) {
    for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 16
      for (int l = 0; l < REFIT_LANES; l++) y[l * stride + i] = r[i][l];
  } else {
    for (int64_t i = 0; i < n; i++)
      for (int64_t l = 0; l < batch - first; l++) y[l * stride + i] = r[i][l];
  }
#endif
}

/* ---- threads ----------------------------------------------------------------------- */

/* Works on blocks first .. last-1 of a job, with scratch of its own. */
typedef void (*refit_slice)(const void *job, int64_t first, int64_t last, R *scratch);
typedef struct { refit_slice work; const void *job; int64_t first, last; R *scratch; } refit_share;

static void *refit_run_share(void *argument) {
  const refit_share *share = argument;
  share->work(share->job, share->first, share->last, share->scratch);
  return NULL;
}

/* Threads are started per call: ~15 us each, against milliseconds of work, and nothing that
 * a fork or an interpreter's end could leave behind. The caller is one of them; where a
 * thread cannot be had, its share is done by the caller. */
static int refit_parallel(refit_slice work, const void *job, int64_t blocks, int threads,
                          size_t scratch) {
  if (threads > blocks) threads = (int)blocks;
  if (threads < 1) threads = 1;
  enum { MOST = 256 };
  if (threads > MOST) threads = MOST;
  refit_share share[MOST];
  pthread_t id[MOST];
  int started[MOST] = {0};
  const size_t bytes = ((scratch ? scratch : 1) * sizeof(R) + 127) / 64 * 64;
  char *memory = NULL;
  if (posix_memalign((void **)&memory, 64, bytes * (size_t)threads)) return REFIT_NO_MEMORY;
  for (int t = 0; t < threads; t++)
    share[t] = (refit_share){work, job, blocks * t / threads, blocks * (t + 1) / threads,
                             (R *)(memory + bytes * (size_t)t)};
  for (int t = 1; t < threads; t++)
    started[t] = !pthread_create(&id[t], NULL, refit_run_share, &share[t]);
  refit_run_share(&share[0]);
  for (int t = 1; t < threads; t++) {
    if (started[t]) pthread_join(id[t], NULL);
    else refit_run_share(&share[t]);
  }
  free(memory);
  return REFIT_OK;
}

/* ---- one emitted function over a batch ---------------------------------------------- */

typedef void (*refit_kernel)(const R *const *in, R *const *out, R *w);
enum { REFIT_MAX_ARGUMENTS = 32 };
typedef struct {
  refit_kernel f;
  int n_in, n_out;
  const int64_t *in_size, *out_size;
  const Rows *in;
  S *const *out;
  int64_t batch;
} refit_call_job;

static void refit_call_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const refit_call_job *job = argument;
  R *in[REFIT_MAX_ARGUMENTS], *out[REFIT_MAX_ARGUMENTS], *w = scratch;
  for (int i = 0; i < job->n_in; w += job->in_size[i++]) in[i] = w;
  for (int j = 0; j < job->n_out; w += job->out_size[j++]) out[j] = w;
  for (int64_t b = first; b < last; b++) {
    for (int i = 0; i < job->n_in; i++)
      if (job->in[i].stride || b == first) gather(in[i], job->in[i], job->in_size[i], b, job->batch);
    job->f((const R *const *)in, out, w);
    for (int j = 0; j < job->n_out; j++)
      scatter(out[j], job->out[j], job->out_size[j], job->out_size[j], b, job->batch);
  }
}

__attribute__((unused)) static int refit_call(refit_kernel f, int n_in, const int64_t *in_size, int n_out,
                      const int64_t *out_size, int64_t w, const Rows *in, S *const *out,
                      int64_t batch, int threads) {
  const refit_call_job job = {f, n_in, n_out, in_size, out_size, in, out, batch};
  size_t scratch = (size_t)w;
  for (int i = 0; i < n_in; i++) scratch += (size_t)in_size[i];
  for (int j = 0; j < n_out; j++) scratch += (size_t)out_size[j];
  return refit_parallel(refit_call_slice, &job, refit_blocks(batch), threads, scratch);
}

/* The same for a function printed over S: one robot at a time, straight from the rows. */
typedef void (*refit_scalar_kernel)(const S *const *in, S *const *out, S *w);
typedef struct { refit_scalar_kernel f; refit_call_job job; } refit_scalar_job;

static void refit_scalar_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const refit_scalar_job *s = argument;
  const refit_call_job *job = &s->job;
  for (int64_t b = first * REFIT_LANES; b < last * REFIT_LANES && b < job->batch; b++) {
    const S *in[REFIT_MAX_ARGUMENTS];
    S *out[REFIT_MAX_ARGUMENTS];
    for (int i = 0; i < job->n_in; i++) in[i] = job->in[i].data + b * job->in[i].stride;
    for (int j = 0; j < job->n_out; j++) out[j] = job->out[j] + b * job->out_size[j];
    s->f(in, out, (S *)scratch);
  }
}

__attribute__((unused)) static int refit_call_scalar(refit_scalar_kernel f, int n_in, const int64_t *in_size, int n_out,
                             const int64_t *out_size, int64_t w, const Rows *in, S *const *out,
                             int64_t batch, int threads) {
  const refit_scalar_job job = {f, {NULL, n_in, n_out, in_size, out_size, in, out, batch}};
  return refit_parallel(refit_scalar_slice, &job, refit_blocks(batch), threads, (size_t)w);
}

/* call_NAME(in, out, batch, threads): what Library.call calls */
#define REFIT_CALLABLE_BY(CALL, NAME)                                                   \
  int EXPORT(call_##NAME)(const Rows *in, S *const *out, int64_t batch, int threads) {  \
    static const int64_t in_size[] = NAME##_IN_SIZES, out_size[] = NAME##_OUT_SIZES;    \
    return CALL(NAME, NAME##_N_IN, in_size, NAME##_N_OUT, out_size, NAME##_W,           \
                in, out, batch, threads);                                               \
  }
#define REFIT_CALLABLE(NAME) REFIT_CALLABLE_BY(refit_call, NAME)
#define REFIT_CALLABLE_SCALAR(NAME) REFIT_CALLABLE_BY(refit_call_scalar, NAME)

#endif
