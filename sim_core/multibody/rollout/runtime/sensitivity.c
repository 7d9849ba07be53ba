/* Roll-out with forward sensitivities: S[k] = dx[k] / d[x0, xi] where p = p(xi).
 *
 * S[0] = [1, 0];  S[k+1] = (dx[k+1]/dx[k]) S[k] + [0, (dx[k+1]/dp) (dp/dxi)].
 *
 * Compiled with step_jac(x, u, p) -> x', dx'/dx (NX, NX), dx'/dp (NX, NA), for the NA
 * parameters that xi moves; behind p the first robot's row, whose weights may be everyone's.
 */
#define NX step_jac_IN0_SIZE
#define NU step_jac_IN1_SIZE
#define NP step_jac_IN2_SIZE
#define NA (step_jac_OUT2_SIZE / NX)

typedef struct {
  Rows x0, U, p, D; /* per robot: (NX), (steps, NU), (NP), dp/dxi (NA, n) */
  S *X, *Z;         /* per robot: (steps+1, NX), (steps+1, NX, NX+n) */
  int64_t n, batch, steps;
  int substeps;
} sensitivity_job;

enum { WIDE = 4 };

/* Y (rows, m)[:, at:at+n] += A (rows, inner) B (inner, n), a stripe of WIDE columns at a time */
static void add_product(R *REFIT_RESTRICT Y, int64_t m, int64_t at, const R *REFIT_RESTRICT A,
                        const R *REFIT_RESTRICT B, int rows, int inner, int64_t n) {
  for (int64_t j = 0; j < n; j += WIDE) {
    const int wide = n - j < WIDE ? (int)(n - j) : WIDE;
    for (int i = 0; i < rows; i++) {
      R *const y = Y + i * m + at + j;
      if (wide == WIDE) {
        R sum[WIDE];
#pragma GCC unroll 4
        for (int c = 0; c < WIDE; c++) sum[c] = y[c];
        for (int k = 0; k < inner; k++)
#pragma GCC unroll 4
          for (int c = 0; c < WIDE; c++) sum[c] += A[i * inner + k] * B[k * n + j + c];
#pragma GCC unroll 4
        for (int c = 0; c < WIDE; c++) y[c] = sum[c];
      } else {
        for (int c = 0; c < wide; c++)
          for (int k = 0; k < inner; k++) y[c] += A[i * inner + k] * B[k * n + j + c];
      }
    }
  }
}

static void sensitivity_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const sensitivity_job *job = argument;
  const int64_t n = job->n, m = NX + n, x_row = (job->steps + 1) * NX, z_row = x_row * m;
  R *x = scratch, *x_next = x + NX, *Z = x_next + NX, *Z_next = Z + NX * m;
  R *const A = Z_next + NX * m, *const Cp = A + NX * NX, *const u = Cp + NX * NA;
  R *const p = u + NU, *const D = p + NP;
  for (int64_t b = first; b < last; b++) {
    gather(x, job->x0, NX, b, job->batch);
    if (job->p.stride || b == first) gather(p, job->p, NP, b, job->batch);
    if (job->D.stride || b == first) gather(D, job->D, NA * n, b, job->batch);
    for (int64_t i = 0; i < NX * m; i++) Z[i] = C(0.0);
    for (int i = 0; i < NX; i++) Z[i * m + i] = C(1.0);
    scatter(x, job->X, x_row, NX, b, job->batch);
    scatter(Z, job->Z, z_row, NX * m, b, job->batch);
    for (int64_t k = 0; k < job->steps; k++) {
      gather(u, (Rows){job->U.data + k * NU, job->U.stride}, NU, b, job->batch);
      for (int s = 0; s < job->substeps; s++) {
        step_jac((const R *[]){x, u, p, (const R *)job->p.data}, (R *[]){x_next, A, Cp}, NULL);
        for (int64_t i = 0; i < NX * m; i++) Z_next[i] = C(0.0);
        add_product(Z_next, m, 0, A, Z, NX, NX, m);
        add_product(Z_next, m, NX, Cp, D, NX, NA, n);
        R *swap = x;
        x = x_next, x_next = swap;
        swap = Z, Z = Z_next, Z_next = swap;
      }
      scatter(x, job->X + (k + 1) * NX, x_row, NX, b, job->batch);
      scatter(Z, job->Z + (k + 1) * NX * m, z_row, NX * m, b, job->batch);
    }
  }
}

/* in: x0, U, p, D; out: X, Z; n: columns of D */
int EXPORT(sensitivity)(const Rows *in, S *const *out, int64_t n, int64_t batch, int64_t steps,
                        int substeps, int threads) {
  const sensitivity_job job = {in[0], in[1], in[2], in[3], out[0], out[1], n, batch, steps, substeps};
  const int64_t scratch = 2 * NX + 2 * NX * (NX + n) + NX * NX + NX * NA + NU + NP + NA * n;
  return refit_parallel(sensitivity_slice, &job, refit_blocks(batch), threads, (size_t)scratch);
}
