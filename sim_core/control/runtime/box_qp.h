/* min 1/2 d'H d + g'd  subject to  lower <= d <= upper, by projected Newton.
 *
 * The free block is factorised at full, fixed size: rows and columns of
 * clamped coordinates are those of the identity. That costs a few multiply-adds
 * more than compacting the block and keeps every loop bound constant.
 * H and L are (NU, LDU); expects NU and LDU = PAD(NU) as macros.
 *
 * Source: Tassa, Mansard, Todorov, Control-Limited Differential Dynamic
 * Programming (ICRA 2014), algorithm 1; Bertsekas 1982.
 */
#pragma once
#include "linalg.h"

#define QP_ITERATIONS 50
#define QP_ARMIJO 0.1

INLINE double clamp(double x, double lower, double upper)
{
    return fmin(fmax(x, lower), upper);
}

INLINE double box_qp_value(const double *H, const double *g, const double *d)
{
    double value = 0;
    for (int i = 0; i < NU; i++)
        value += d[i] * (g[i] + 0.5 * dot(NU, H + i * LDU, d));
    return value;
}

/* Returns 0 when the free block of H is not positive definite, else 1 with the
 * minimiser in d (in: starting guess), the factor L of the masked H and is_free. */
static int box_qp(const double *H, const double *g, const double *lower, const double *upper,
                  double *d, double *L, int *is_free)
{
    double gradient[NU], newton[NU], trial[NU], scale = 0;
    int factorised = 0;
    for (int i = 0; i < NU; i++) {
        d[i] = clamp(d[i], lower[i], upper[i]);
        scale = fmax(scale, fabs(g[i]));
        is_free[i] = 1;
    }
    for (int iteration = 0; iteration < QP_ITERATIONS; iteration++) {
        double largest = 0;
        int changed = !factorised;
        for (int i = 0; i < NU; i++) {
            gradient[i] = g[i] + dot(NU, H + i * LDU, d);
            const int at_bound = (d[i] <= lower[i] && gradient[i] > 0) ||
                                 (d[i] >= upper[i] && gradient[i] < 0);
            changed |= is_free[i] != !at_bound;
            is_free[i] = !at_bound;
            if (is_free[i])
                largest = fmax(largest, fabs(gradient[i]));
        }
        if (changed) {
            for (int i = 0; i < NU; i++)
                for (int j = 0; j <= i; j++)
                    L[i * LDU + j] = is_free[i] && is_free[j] ? H[i * LDU + j] : (i == j);
            if (!cholesky(NU, L, LDU))
                return 0;
            factorised = 1;
        }
        if (largest <= 1e-12 * scale)
            return 1;
        for (int i = 0; i < NU; i++)
            newton[i] = is_free[i] ? gradient[i] : 0;
        cholesky_solve_negative(NU, 1, L, LDU, newton, 1);

        const double value = box_qp_value(H, g, d);
        double length = 1, slope, trial_value;
        for (;; length *= 0.5) {
            slope = 0;
            for (int i = 0; i < NU; i++) {
                trial[i] = clamp(d[i] + length * newton[i], lower[i], upper[i]);
                slope += gradient[i] * (trial[i] - d[i]);
            }
            trial_value = box_qp_value(H, g, trial);
            if (trial_value <= value + QP_ARMIJO * slope || length < 1e-8)
                break;
        }
        if (trial_value >= value)
            return 1; /* rounding is all that is left to gain */
        for (int i = 0; i < NU; i++)
            d[i] = trial[i];
    }
    return 1;
}
