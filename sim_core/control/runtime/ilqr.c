/* Box-constrained iLQR: the whole solve.
 *
 * Compiled together with the emitted functions
 *     step(x, u, p)              -> x'                 one integration substep
 *     step_jac(x, u, p)          -> x', dx'/dx, dx'/du
 *     stage(x, u, p, r, w)       -> l                  cost of one knot
 *     stage_quad(x, u, p, r, w)  -> l_x, l_u, l_xx, l_ux, l_uu   (Gauss-Newton)
 *     final(x, p, r, w)          -> l
 *     final_quad(x, p, r, w)     -> l_x, l_xx
 * over the scalar type R of LANES doubles. Lanes hold neighbouring knots while
 * linearising, and candidate step lengths in the line search: one vectorised
 * roll-out tries LANES of them at once, and the longest acceptable one wins,
 * so that the answer does not depend on the number of lanes.
 *
 * PARTICLES hypotheses p^i about the robot share the controls, and the mean of
 * their costs counts. Everything that has a state has it for each of them.
 *
 * No allocation, no global state: everything lives in the caller's `task`.
 * Source: Tassa, Erez, Todorov (IROS 2012); Tassa, Mansard, Todorov (ICRA 2014).
 */
#define NX step_IN0_SIZE
#define NU step_IN1_SIZE
#include "riccati.h"
#include <stdint.h>
#include <time.h>

#define NP step_IN2_SIZE
#define NR stage_IN3_SIZE
#define SHARE (1.0 / PARTICLES) /* of a particle in the mean cost */
#define NW stage_IN4_SIZE
#define NWF final_IN3_SIZE
#define AT_LEAST_1(n) ((n) > 0 ? (n) : 1)

enum status { CONVERGED, ITERATION_LIMIT, TIME_LIMIT, STALLED, BAD_INPUT, DIVERGED, NOT_CONVEX };

static const double STEP_LENGTHS[8] = {1, .5, .25, .1, .03, .01, .003, .001};
#define ARMIJO 1e-4 /* share of the predicted decrease that a step must deliver */

typedef struct {
    /* options */
    int32_t horizon, substeps, max_iterations, warm_gains;
    double tolerance, mu_min, mu_max, time_budget;
    /* problem: row-major arrays named with their shapes */
    const double *x0, *u_previous, *p; /* (PARTICLES, NX), (NU), (PARTICLES, NP) */
    const double *reference;           /* (H+1, NR) */
    const double *stage_weights, *final_weights, *smoothness; /* (NW), (NWF), (NU) */
    const double *u_lower, *u_upper;   /* (NU) */
    /* plan, in and out */
    double *X, *U, *K, *k; /* (H+1, PARTICLES, NX), (H, NU), (H, NU, NZ), (H, NU) */
    void *scratch;         /* scratch_bytes(H), zeroed once, 64-byte aligned */
    /* regularisation in and out, then the report */
    double mu, cost, expected, gradient, seconds;
    int32_t status, iterations;
} ilqr_task;

/* A lane's view of an array of R: element i of lane l sits at [i * LANES + l]. */
typedef double lane __attribute__((may_alias));
#define LANES REFIT_LANES

typedef struct {
    knot *knots;     /* (H+1, PARTICLES) */
    R *X, *U;        /* (H+1, PARTICLES, NX), (H, NU): one candidate roll-out per lane */
    R *p, *w, *wf;   /* the same in every lane; p (PARTICLES, NP) */
} buffers;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

INLINE void every_lane(int n, const double *from, R *to)
{
    for (int i = 0; i < n; i++)
        to[i] = r_splat(from[i]);
}

INLINE void to_lane(int n, const double *from, int m, R *to)
{
    for (int i = 0; i < n; i++)
        ((lane *)to)[i * LANES + m] = from[i];
}

INLINE void from_lane(int n, const R *from, int m, double *to)
{
    for (int i = 0; i < n; i++)
        to[i] = ((const lane *)from)[i * LANES + m];
}

#define ROUND64(bytes) (((bytes) + 63) / 64 * 64)

static int64_t layout(int64_t H, char *base, buffers *b)
{
    int64_t at = 0;
#define PLACE(field, count)                                             \
    do {                                                                \
        if (b)                                                          \
            b->field = (void *)(base + at);                             \
        at += ROUND64((count) * (int64_t)sizeof *((buffers *)0)->field); \
    } while (0)
    PLACE(knots, (H + 1) * PARTICLES);
    PLACE(X, (H + 1) * NXS);
    PLACE(U, H * NU);
    PLACE(p, PARTICLES * NP);
    PLACE(w, AT_LEAST_1(NW));
    PLACE(wf, AT_LEAST_1(NWF));
#undef PLACE
    return at;
}

/* The emitted functions need no scratch (NAME_W is 0). */
#define CALL(name, ...) name((const R *const[]){__VA_ARGS__}, out, 0)

/* Parameters of particle i in every lane, and behind them as a row, from which networks' weights are read. */
#define PARAMETERS(i) b->p + (i) * NP, (const R *)(t->p + (i) * NP)

/* next = x after all substeps of one control period, every lane. */
INLINE void advance(const ilqr_task *t, const buffers *b, int i, const R *x, const R *u, R *next)
{
    R from[NX];
    R *out[] = {next};
    CALL(step, x, u, PARAMETERS(i));
    for (int s = 1; s < t->substeps; s++) {
        memcpy(from, next, sizeof from);
        CALL(step, from, u, PARAMETERS(i));
    }
}

/* u = clip(U + alpha k + gain K (z - Z)) at knot n, every lane. */
INLINE void policy(const ilqr_task *t, int n, const R *x_, R *u_, const double *alpha, const double *gain)
{
    const lane *x = (const lane *)x_;
    lane *u = (lane *)u_;
    for (int i = 0; i < NU; i++) {
        const double *K = t->K + (n * NU + i) * NZ;
        double feedback[LANES] = {0};
        for (int j = 0; j < NXS; j++)
            for (int m = 0; m < LANES; m++)
                feedback[m] += K[j] * (x[j * LANES + m] - t->X[n * NXS + j]);
        for (int j = 0; j < SMOOTH * NU && n > 0; j++)
            for (int m = 0; m < LANES; m++)
                feedback[m] += K[NXS + j] * (u[(j - NU) * LANES + m] - t->U[(n - 1) * NU + j]);
        for (int m = 0; m < LANES; m++) {
            double v = t->U[n * NU + i] + alpha[m] * t->k[n * NU + i];
            if (gain[m] != 0)
                v += gain[m] * feedback[m];
            u[i * LANES + m] = clamp(v, t->u_lower[i], t->u_upper[i]);
        }
    }
}

/* Roll the policy out in every lane; J (LANES) is its cost. */
static void roll_out(const ilqr_task *t, const buffers *b, const double *alpha, const double *gain, double *J)
{
    const int H = t->horizon;
    R r[AT_LEAST_1(NR)], l[1], total = r_splat(0);
    R *out[] = {l};
    every_lane(NXS, t->x0, b->X);
    for (int n = 0; n < H; n++) {
        R *x = b->X + n * NXS, *u = b->U + n * NU;
        policy(t, n, x, u, alpha, gain);
        every_lane(NR, t->reference + n * NR, r);
        for (int i = 0; i < PARTICLES; i++, x += NX) {
            const R *p = b->p + i * NP;
            CALL(stage, x, u, p, r, b->w);
            total += SHARE * l[0];
            advance(t, b, i, x, u, x + NXS);
        }
        for (int i = 0; i < SMOOTH * NU; i++) {
            const R change = u[i] - (n ? u[i - NU] : r_splat(t->u_previous[i]));
            total += t->smoothness[i] * change * change;
        }
    }
    every_lane(NR, t->reference + H * NR, r);
    for (int i = 0; i < PARTICLES; i++) {
        CALL(final, b->X + H * NXS + i * NX, b->p + i * NP, r, b->wf);
        total += SHARE * l[0];
    }
    for (int m = 0; m < LANES; m++)
        J[m] = r_get(total, m);
}

/* The candidate of one lane becomes the plan. */
static void adopt(const ilqr_task *t, const buffers *b, int lane)
{
    from_lane((t->horizon + 1) * NXS, b->X, lane, t->X);
    from_lane(t->horizon * NU, b->U, lane, t->U);
}

static int cheaper(double J, double than)
{
    return isfinite(J) && !(J >= than);
}

/* First roll-out: the warm start's controls with and without its feedback
 * about its old states; the cheaper one is kept. Feedback follows a moved
 * state, and open loop survives gains that no longer fit. */
static double start(const ilqr_task *t, const buffers *b)
{
    double alpha[LANES] = {0}, gain[LANES] = {0}, J[LANES];
    int winner = 0;
    gain[LANES - 1] = t->warm_gains; /* the last lane follows the gains, the others do not */
    roll_out(t, b, alpha, gain, J);
    if (LANES > 1) {
        winner = cheaper(J[LANES - 1], J[0]) ? LANES - 1 : 0;
    } else if (t->warm_gains) {
        const double with_gains = J[0];
        gain[0] = 0;
        roll_out(t, b, alpha, gain, J);
        if (cheaper(with_gains, J[0])) {
            gain[0] = 1;
            roll_out(t, b, alpha, gain, J);
        }
    }
    if (isfinite(J[winner]))
        adopt(t, b, winner);
    return J[winner];
}

/* A <- A_s A, B <- A_s B + B_s: the Jacobians of one more substep. */
INLINE void chain(const R *A_s, const R *B_s, R *A, R *B)
{
    R product[NX * NX + NX * NU], *AA = product, *AB = product + NX * NX;
    for (int i = 0; i < NX; i++) {
        for (int j = 0; j < NX; j++) {
            R sum = A_s[i * NX] * A[j];
            for (int l = 1; l < NX; l++)
                sum += A_s[i * NX + l] * A[l * NX + j];
            AA[i * NX + j] = sum;
        }
        for (int j = 0; j < NU; j++) {
            R sum = B_s[i * NU + j];
            for (int l = 0; l < NX; l++)
                sum += A_s[i * NX + l] * B[l * NU + j];
            AB[i * NU + j] = sum;
        }
    }
    memcpy(A, AA, NX * NX * sizeof(R));
    memcpy(B, AB, NX * NU * sizeof(R));
}

/* Jacobians of the control period at x, u in every lane; x is overwritten. */
INLINE void jacobians(const ilqr_task *t, const buffers *b, int i, R *x, const R *u, R *A, R *B)
{
    R next[NX], A_s[NX * NX], B_s[NX * NU];
    {
        R *out[] = {next, A, B};
        CALL(step_jac, x, u, PARAMETERS(i));
    }
    for (int s = 1; s < t->substeps; s++) {
        R *out[] = {next, A_s, B_s};
        memcpy(x, next, sizeof next);
        CALL(step_jac, x, u, PARAMETERS(i));
        chain(A_s, B_s, A, B);
    }
}

/* to = SHARE from: a particle's part of a cost's derivative. */
INLINE void share_from_lane(int n, const R *from, int m, double *to)
{
    from_lane(n, from, m, to);
    for (int i = 0; i < n; i++)
        to[i] *= SHARE;
}

/* Quadratic models of all knots of particle q about (X, U), LANES knots at a time. */
static void linearise_particle(const ilqr_task *t, const buffers *b, int q)
{
    const int H = t->horizon;
    const R *p = b->p + q * NP;
    R x[NX], u[NU], r[AT_LEAST_1(NR)], A[NX * NX], B[NX * NU];
    R lx[NX], lu[NU], lxx[NX * NX], lux[NU * NX], luu[NU * NU];

    for (int first = 0; first < H; first += LANES) {
        for (int m = 0; m < LANES; m++) {
            const int n = first + m < H ? first + m : H - 1;
            to_lane(NX, t->X + n * NXS + q * NX, m, x);
            to_lane(NU, t->U + n * NU, m, u);
            to_lane(NR, t->reference + n * NR, m, r);
        }
        R *out[] = {lx, lu, lxx, lux, luu};
        CALL(stage_quad, x, u, p, r, b->w);
        jacobians(t, b, q, x, u, A, B);
        for (int m = 0; m < LANES && first + m < H; m++) {
            knot *c = b->knots + (first + m) * PARTICLES + q;
            for (int i = 0; i < NX; i++) {
                from_lane(NX, A + i * NX, m, c->A + i * LDX);
                from_lane(NU, B + i * NU, m, c->B + i * LDU);
                share_from_lane(NX, lxx + i * NX, m, c->lxx + i * LDX);
            }
            for (int i = 0; i < NU; i++) {
                share_from_lane(NX, lux + i * NX, m, c->lux + i * LDX);
                share_from_lane(NU, luu + i * NU, m, c->luu + i * LDU);
            }
            share_from_lane(NX, lx, m, c->lx);
            share_from_lane(NU, lu, m, c->lu);
        }
    }
    knot *end = b->knots + H * PARTICLES + q;
    R *out[] = {lx, lxx};
    every_lane(NX, t->X + H * NXS + q * NX, x);
    every_lane(NR, t->reference + H * NR, r);
    CALL(final_quad, x, p, r, b->wf);
    share_from_lane(NX, lx, 0, end->lx);
    for (int i = 0; i < NX; i++)
        share_from_lane(NX, lxx + i * NX, 0, end->lxx + i * LDX);
}

static void linearise(const ilqr_task *t, const buffers *b)
{
    for (int q = 0; q < PARTICLES; q++)
        linearise_particle(t, b, q);
}

/* Longest step that delivers its share of the predicted decrease, or 0. */
static double line_search(ilqr_task *t, const buffers *b, const double expected[2])
{
    for (int first = 0; first < 8; first += LANES) {
        double alpha[LANES], gain[LANES], J[LANES];
        for (int m = 0; m < LANES; m++) {
            alpha[m] = STEP_LENGTHS[first + m < 8 ? first + m : 7];
            gain[m] = 1;
        }
        roll_out(t, b, alpha, gain, J);
        for (int m = 0; m < LANES; m++) {
            const double predicted = alpha[m] * (expected[0] + alpha[m] * expected[1]);
            if (predicted < 0 && J[m] - t->cost <= ARMIJO * predicted) {
                adopt(t, b, m);
                t->cost = J[m];
                return alpha[m];
            }
        }
    }
    return 0;
}

static int regularise_more(ilqr_task *t)
{
    t->mu = fmax(t->mu * 10, t->mu_min);
    return t->mu <= t->mu_max;
}

/* Buffers of the task, and what stays the same during a solve in every lane. */
static void prepare(const ilqr_task *t, buffers *b)
{
    layout(t->horizon, t->scratch, b);
    every_lane(PARTICLES * NP, t->p, b->p);
    every_lane(NW, t->stage_weights, b->w);
    every_lane(NWF, t->final_weights, b->wf);
}

static enum status optimise(ilqr_task *t, const buffers *b, double deadline)
{
    const int64_t H = t->horizon;
    if (!all_finite(t->x0, NXS) || !all_finite(t->p, PARTICLES * NP) || !all_finite(t->u_previous, NU) ||
        !all_finite(t->reference, (H + 1) * NR) || !all_finite(t->U, H * NU))
        return BAD_INPUT;

    t->cost = start(t, b);
    if (!isfinite(t->cost))
        return DIVERGED;
    int moved = 1;
    while (t->iterations < t->max_iterations) {
        double expected[2];
        t->iterations++;
        if (moved)
            linearise(t, b);
        while (backward_sweep(t->horizon, b->knots, t->U, t->u_previous, t->u_lower, t->u_upper,
                              t->smoothness, t->mu, t->K, t->k, expected, &t->gradient) >= 0)
            if (!regularise_more(t))
                return NOT_CONVEX;
        t->expected = -(expected[0] + expected[1]);
        if (!isfinite(t->expected))
            return NOT_CONVEX;
        const double worth = t->tolerance * (1 + fabs(t->cost));
        if (t->expected <= worth * 1e-3 || t->gradient <= 1e-10)
            return CONVERGED;
        const double before = t->cost;
        const double length = line_search(t, b, expected);
        moved = length > 0;
        if (!moved && !regularise_more(t))
            return STALLED;
        if (moved) {
            t->mu = t->mu * 0.2 < t->mu_min ? 0 : t->mu * 0.2;
            if (before - t->cost <= worth)
                return CONVERGED;
        }
        if (deadline > 0 && now() >= deadline)
            return TIME_LIMIT;
    }
    return ITERATION_LIMIT;
}

/* ------------------------------------------------------------- exported -- */

int64_t EXPORT(scratch_bytes)(int64_t horizon)
{
    return layout(horizon, 0, 0);
}

void EXPORT(solve)(ilqr_task *t)
{
    const double begin = now();
    buffers b;
    prepare(t, &b);
    t->iterations = 0;
    t->cost = t->expected = t->gradient = NAN;
    t->status = optimise(t, &b, t->time_budget > 0 ? begin + t->time_budget : 0);
    t->seconds = now() - begin;
}

/* The pieces on their own, for tests against independent implementations. */

int EXPORT(box_qp)(const double *H, const double *g, const double *lower, const double *upper,
                   double *d, int *is_free)
{
    double padded[NU * LDU] = {0}, L[NU * LDU];
    for (int i = 0; i < NU; i++)
        memcpy(padded + i * LDU, H + i * NU, NU * sizeof(double));
    return box_qp(padded, g, lower, upper, d, L, is_free);
}

/* Quadratic models about the plan (X, U) of the task, unpadded: per knot
 * and particle A, B, lxx, lux, luu, lx, lu; knots (H+1, PARTICLES, NX*NX + NX*NU + NX*NX + NU*NX + NU*NU + NX + NU). */
void EXPORT(linearise)(ilqr_task *t, double *knots)
{
    buffers b;
    prepare(t, &b);
    linearise(t, &b);
    for (int n = 0; n < (t->horizon + 1) * PARTICLES; n++)
        unpack(b.knots + n, knots + (int64_t)n * KNOT_SIZE);
}

/* One sweep over given quadratic models, in the same layout. */
int EXPORT(sweep)(ilqr_task *t, const double *knots, double expected[2])
{
    buffers b;
    prepare(t, &b);
    for (int n = 0; n < (t->horizon + 1) * PARTICLES; n++)
        pack(knots + (int64_t)n * KNOT_SIZE, b.knots + n);
    return backward_sweep(t->horizon, b.knots, t->U, t->u_previous, t->u_lower, t->u_upper, t->smoothness,
                          t->mu, t->K, t->k, expected, &t->gradient);
}
