/* Small dense linear algebra whose sizes are compile-time constants.
 *
 * Matrices are row-major with a leading dimension padded to a multiple of
 * VW doubles; the padding holds zeros. Every routine is inlined with constant
 * sizes, so that one row of a product lives in vector registers.
 * Expects WIDEST, the longest row of any product.
 */
#pragma once
#include <math.h>
#include <string.h>

#define VW 4 /* doubles per vector; GCC lowers it where the CPU has fewer lanes */
#define PAD(n) (((n) + VW - 1) / VW * VW)
#define INLINE static inline __attribute__((always_inline))

typedef double vec __attribute__((vector_size(8 * VW), aligned(8), may_alias));

/* Wider products are formed in column blocks, or their rows would not fit the registers. */
#define BLOCK 32
#define BLOCK_VECS ((WIDEST < BLOCK ? WIDEST : BLOCK) / VW)

INLINE void matmul_block(int n, int m, int k, const double *A, int as_i, int as_k,
                   const double *B, int ldb, const double *C0, double *C, int ldc)
{
    for (int i = 0; i < n; i++) {
        vec acc[BLOCK_VECS];
        const vec *start = (const vec *)(C0 + (C0 ? i * ldc : 0));
#pragma GCC unroll 8
        for (int j = 0; j < PAD(m) / VW; j++)
            acc[j] = C0 ? start[j] : (vec){0};
#pragma GCC unroll 4
        for (int l = 0; l < k; l++) {
            const vec *row = (const vec *)(B + l * ldb);
            const double a = A[i * as_i + l * as_k];
#pragma GCC unroll 8
            for (int j = 0; j < PAD(m) / VW; j++)
                acc[j] += a * row[j];
        }
#pragma GCC unroll 8
        for (int j = 0; j < PAD(m) / VW; j++)
            ((vec *)(C + i * ldc))[j] = acc[j];
    }
}

/* C[n x m] = (C0 ? C0 : 0) + A^T B over k rows, or A B: `as_i` and `as_k` are
 * the strides of A along the result's rows and along the summed index. */
INLINE void matmul(int n, int m, int k, const double *A, int as_i, int as_k,
                   const double *B, int ldb, const double *C0, double *C, int ldc)
{
    int at = 0;
    for (; at + BLOCK <= m; at += BLOCK)
        matmul_block(n, BLOCK, k, A, as_i, as_k, B + at, ldb, C0 ? C0 + at : 0, C + at, ldc);
    if (m % BLOCK)
        matmul_block(n, m % BLOCK, k, A, as_i, as_k, B + at, ldb, C0 ? C0 + at : 0, C + at, ldc);
}

/* y[n] += A^T x, A [k x n] */
INLINE void add_matvec_t(int n, int k, const double *A, int lda, const double *x, double *y)
{
    for (int l = 0; l < k; l++)
        for (int j = 0; j < n; j++)
            y[j] += A[l * lda + j] * x[l];
}

INLINE double dot(int n, const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* In-place lower Cholesky factor of H (lower triangle read); the diagonal of L
 * holds 1/L_ii. Returns 0 when H is not positive definite. */
INLINE int cholesky(int n, double *L, int ld)
{
    for (int j = 0; j < n; j++) {
        const double pivot = L[j * ld + j] - dot(j, L + j * ld, L + j * ld);
        if (!(pivot > 1e-14 * fabs(L[j * ld + j])) || !isfinite(pivot))
            return 0;
        const double inverse = 1.0 / sqrt(pivot);
        for (int i = j + 1; i < n; i++)
            L[i * ld + j] = (L[i * ld + j] - dot(j, L + i * ld, L + j * ld)) * inverse;
        L[j * ld + j] = inverse;
    }
    return 1;
}

/* X[n x m] <- -(L L^T)^-1 X for all columns at once. */
INLINE void cholesky_solve_negative(int n, int m, const double *L, int ld, double *X, int ldx)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            double sum = X[i * ldx + j];
            for (int l = 0; l < i; l++)
                sum -= L[i * ld + l] * X[l * ldx + j];
            X[i * ldx + j] = sum * L[i * ld + i];
        }
    for (int i = n - 1; i >= 0; i--)
        for (int j = 0; j < m; j++) {
            double sum = X[i * ldx + j];
            for (int l = i + 1; l < n; l++)
                sum += L[l * ld + i] * X[l * ldx + j]; /* rows below already carry the minus */
            X[i * ldx + j] = -sum * L[i * ld + i];
        }
}

/* Replace a square matrix by its symmetric part. */
INLINE void symmetrise(int n, double *A, int ld)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            A[i * ld + j] = A[j * ld + i] = 0.5 * (A[i * ld + j] + A[j * ld + i]);
}

static int all_finite(const double *x, long n)
{
    double sum = 0; /* x*0 is 0 for finite x, NaN for NaN and for infinity */
    for (long i = 0; i < n; i++)
        sum += x[i] * 0;
    return sum == 0;
}
