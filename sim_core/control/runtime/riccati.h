/* One backward sweep of box-constrained differential dynamic programming.
 *
 * PARTICLES hypotheses about the robot share the controls; each has states of
 * its own, and x = [x^1; x^2; ...] stacks them. Their dynamics are block
 * diagonal, A = diag(A^i), B = [B^1; B^2; ...], and so is the cost's Hessian;
 * the value function's is not. B_z' V A_z comes from V B_z, by symmetry. One particle: the plain recursion.
 *
 * State of the value function: z = [x; u_previous] when control changes are
 * penalised (SMOOTH), else z = x. The augmentation is exact, and only the
 * products that are not identically zero are formed: with A_z = [A 0; 0 0]
 * and B_z = [B; I], A_z' V A_z needs V_xx alone, B_z' V A_z and B_z' V B_z a
 * few rows more.
 *
 * Expects NX (of one particle), NU, SMOOTH, PARTICLES as macros.
 * Source: Tassa, Erez, Todorov (IROS 2012) for the improved value update with
 * the unregularised Q_uu; Tassa, Mansard, Todorov (ICRA 2014) for the box.
 */
#pragma once

#define NXS (PARTICLES * NX)
#define NZ (NXS + SMOOTH * NU)
#define LDX PAD(NX)
#define LDU PAD(NU)
#define LDZ PAD(NZ)
#define WIDEST (LDZ > LDU ? LDZ : LDU)
#include "box_qp.h"
#include "linalg.h"

/* Quadratic model of one knot of one particle: dynamics A, B and its share of the cost l. */
typedef struct {
    double A[NX * LDX], B[NX * LDU];
    double lxx[NX * LDX], lux[NU * LDX], luu[NU * LDU];
    double lx[LDX], lu[LDU];
} knot;

/* The same without padding: A, B, lxx, lux, luu, lx, lu one after the other. */
enum { KNOT_SIZE = 2 * NX * NX + 2 * NX * NU + NU * NU + NX + NU };
#define KNOT_BLOCKS(F)                                                   \
    F(A, NX, NX, LDX) F(B, NX, NU, LDU) F(lxx, NX, NX, LDX) F(lux, NU, NX, LDX) \
    F(luu, NU, NU, LDU) F(lx, 1, NX, LDX) F(lu, 1, NU, LDU)

INLINE void pack(const double *from, knot *to)
{
#define PACK(field, rows, columns, ld)                                       \
    for (int i = 0; i < rows; i++, from += columns)                          \
        memcpy(to->field + i * ld, from, (columns) * sizeof(double));
    KNOT_BLOCKS(PACK)
#undef PACK
}

INLINE void unpack(const knot *from, double *to)
{
#define UNPACK(field, rows, columns, ld)                                     \
    for (int i = 0; i < rows; i++, to += columns)                            \
        memcpy(to, from->field + i * ld, (columns) * sizeof(double));
    KNOT_BLOCKS(UNPACK)
#undef UNPACK
}

/* A block [n x m] of a larger matrix, from a padded one. */
INLINE void put(int n, int m, const double *from, int ld_from, double *to, int ld)
{
    for (int i = 0; i < n; i++)
        memcpy(to + i * ld, from + i * ld_from, m * sizeof(double));
}

INLINE void put_transposed(int n, int m, const double *from, int ld_from, double *to, int ld)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            to[j * ld + i] = from[i * ld_from + j];
}

/* Smoothness term of one knot, (u - u_previous)' diag(s) (u - u_previous). */
INLINE void add_smoothness(const double *s, const double *u, const double *u_previous,
                           double *Qz, double *Qu, double *Qzz, double *Quz, double *Quu)
{
    for (int i = 0; i < SMOOTH * NU; i++) {
        const double gradient = 2 * s[i] * (u[i] - u_previous[i]);
        Qu[i] += gradient;
        Qz[NXS + i] -= gradient;
        Quu[i * LDU + i] += 2 * s[i];
        Quz[i * LDZ + NXS + i] -= 2 * s[i];
        Qzz[(NXS + i) * LDZ + NXS + i] += 2 * s[i];
    }
}

/* Sweep from knot H to 0.
 *
 * knots: H stages and one terminal entry (lx, lxx only), PARTICLES each; U (H, NU) nominal
 * controls; u_previous (NU) the control before knot 0; mu added to diag(Q_uu).
 * Out: k (H, NU) with u_lower <= U + k <= u_upper (in: starting guess), K
 * (H, NU, NZ); expected[0..1] the linear and quadratic part of the predicted
 * cost change, for step length a: a*expected[0] + a^2*expected[1]; *gradient
 * the largest |k| relative to its box or, unbounded, to 1 + |u|.
 * Returns -1, or the knot at which Q_uu was not positive definite.
 */
static int backward_sweep(int H, const knot *knots, const double *U, const double *u_previous,
                          const double *u_lower, const double *u_upper, const double *s, double mu,
                          double *K, double *k, double expected[2], double *gradient)
{
    double V[NZ * LDZ] = {0}, v[LDZ] = {0}; /* Hessian and gradient of the value */
    for (int m = 0; m < PARTICLES; m++) {
        const knot *c = knots + H * PARTICLES + m;
        put(NX, NX, c->lxx, LDX, V + m * NX * (LDZ + 1), LDZ);
        memcpy(v + m * NX, c->lx, NX * sizeof(double));
    }
    expected[0] = expected[1] = *gradient = 0;

    for (int t = H - 1; t >= 0; t--) {
        const double *u = U + t * NU;
        double VA[PARTICLES][NXS * LDX], VB[NZ * LDU];
        double Qz[LDZ] = {0}, Qu[LDU] = {0}, Quz[NU * LDZ] = {0}, Quu[NU * LDU], *Qzz = V;

        for (int m = 0; m < PARTICLES; m++) { /* of the symmetric A'VA only the blocks (n, m), n <= m */
            const knot *c = knots + t * PARTICLES + m;
            matmul((m + 1) * NX, NX, NX, V + m * NX, LDZ, 1, c->A, LDX, 0, VA[m], LDX);
            matmul(NZ, NU, NX, V + m * NX, LDZ, 1, c->B, LDU, m ? VB : 0, VB, LDU);
        }
        for (int i = 0; i < SMOOTH * NZ; i++)
            for (int j = 0; j < NU; j++)
                VB[i * LDU + j] += V[i * LDZ + NXS + j];

        memset(Qzz, 0, sizeof V); /* V is used up */
        for (int m = 0; m < PARTICLES; m++) {
            const knot *c = knots + t * PARTICLES + m;
            const double *VB_m = VB + m * NX * LDU;
            double Qxx[NX * LDX], Qux[NU * LDX];
            for (int n = 0; n <= m; n++) {
                matmul(NX, NX, NX, knots[t * PARTICLES + n].A, 1, LDX, VA[m] + n * NX * LDX, LDX,
                       n == m ? c->lxx : 0, Qxx, LDX);
                put(NX, NX, Qxx, LDX, Qzz + n * NX * LDZ + m * NX, LDZ);
                if (n < m)
                    put_transposed(NX, NX, Qxx, LDX, Qzz + m * NX * LDZ + n * NX, LDZ);
            }
            matmul(NU, NX, NX, VB_m, 1, LDU, c->A, LDX, c->lux, Qux, LDX);
            put(NU, NX, Qux, LDX, Quz + m * NX, LDZ);
            matmul(NU, NU, NX, c->B, 1, LDU, VB_m, LDU, m ? Quu : c->luu, Quu, LDU);
            for (int i = 0; m && i < NU * LDU; i++)
                Quu[i] += c->luu[i];
            for (int i = 0; i < NX; i++)
                Qz[m * NX + i] = c->lx[i];
            for (int i = 0; i < NU; i++)
                Qu[i] += c->lu[i];
            add_matvec_t(NX, NX, c->A, LDX, v + m * NX, Qz + m * NX);
            add_matvec_t(NU, NX, c->B, LDU, v + m * NX, Qu);
        }
        for (int i = 0; i < SMOOTH * NU; i++) {
            Qu[i] += v[NXS + i];
            for (int j = 0; j < NU; j++)
                Quu[i * LDU + j] += VB[(NXS + i) * LDU + j];
        }
        add_smoothness(s, u, t ? u - NU : u_previous, Qz, Qu, Qzz, Quz, Quu);

        /* feed-forward step k inside the box */
        double Hq[NU * LDU], L[NU * LDU], lower[NU], upper[NU], *d = k + t * NU;
        int is_free[NU];
        memcpy(Hq, Quu, sizeof Hq);
        for (int i = 0; i < NU; i++) {
            Hq[i * LDU + i] += mu;
            lower[i] = u_lower[i] - u[i];
            upper[i] = u_upper[i] - u[i];
        }
        if (!box_qp(Hq, Qu, lower, upper, d, L, is_free))
            return t;

        /* feedback K = -Hq_ff^-1 Q_fz on the free controls, 0 on clamped ones */
        double gain[NU * LDZ], T[NU * LDZ], half[LDU];
        for (int i = 0; i < NU; i++)
            for (int j = 0; j < LDZ; j++)
                gain[i * LDZ + j] = is_free[i] ? Quz[i * LDZ + j] : 0;
        cholesky_solve_negative(NU, LDZ, L, LDU, gain, LDZ);

        /* v = Qz + K'(Quu k + Qu) + Quz' k;  V = Qzz + sym(K'(Quu K + 2 Quz)) */
        for (int i = 0; i < NU; i++)
            half[i] = dot(NU, Quu + i * LDU, d);
        expected[0] += dot(NU, d, Qu);
        expected[1] += 0.5 * dot(NU, d, half);
        for (int i = 0; i < NU; i++) {
            const double range = upper[i] - lower[i];
            const double size = isfinite(range) ? range : 1 + fabs(u[i]);
            *gradient = fmax(*gradient, fabs(d[i]) / size);
            half[i] += Qu[i];
        }
        add_matvec_t(NZ, NU, gain, LDZ, half, Qz);
        add_matvec_t(NZ, NU, Quz, LDZ, d, Qz);
        for (int i = 0; i < NU * LDZ; i++)
            T[i] = 2 * Quz[i];
        matmul(NU, NZ, NU, Quu, LDU, 1, gain, LDZ, T, T, LDZ);
        matmul(NZ, NZ, NU, gain, 1, LDZ, T, LDZ, V, V, LDZ);
        symmetrise(NZ, V, LDZ);
        memcpy(v, Qz, sizeof v);
        for (int i = 0; i < NU; i++)
            memcpy(K + (t * NU + i) * NZ, gain + i * LDZ, NZ * sizeof(double));
    }
    return -1;
}
