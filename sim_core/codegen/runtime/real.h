/* The number type of emitted kernels and its functions.
 *
 *   S   scalar: double, or float with -DREFIT_FLOAT
 *   R   REFIT_LANES scalars side by side, one robot in each (a GCC vector); S itself for 1,
 *       also inside a CUDA thread (-DREFIT_CUDA)
 *   I   integer of S's size, one per lane: the type of a comparison
 *
 * Rules all functions keep: NaN in gives NaN out (fmin and fmax too, unlike C's and
 * CasADi's, so that a poisoned state is seen and not clipped away); a lane never
 * depends on its neighbours, so a robot's result does not depend on who shares its block.
 */
#ifndef REFIT_REAL_H
#define REFIT_REAL_H

#ifdef REFIT_CUDA
#include "cuda.h"
#else
#include <math.h>
#include <stdint.h>

#define REFIT_RESTRICT restrict
/* Not inlined: every caller would otherwise compile thousands of lines again. */
#define REFIT_FN static __attribute__((noinline, unused))
#define REFIT_INLINE static inline __attribute__((always_inline, unused))
#endif

#ifdef REFIT_FLOAT
typedef float S;
typedef int32_t SI;
#define REFIT_M(name) name##f
#define REFIT_SCALAR_BITS 32
#else
typedef double S;
typedef int64_t SI;
#define REFIT_M(name) name
#define REFIT_SCALAR_BITS 64
#endif

#define K(x) ((S)(x))

/* ---- scalar ------------------------------------------------------------------------ */

#define REFIT_SCALAR_1(name) REFIT_INLINE S s_##name(S x) { return REFIT_M(name)(x); }
#define REFIT_SCALAR_2(name) REFIT_INLINE S s_##name(S x, S y) { return REFIT_M(name)(x, y); }
#define REFIT_LIBM_1(F) F(exp) F(log) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan) \
  F(erf) F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) F(log1p) F(expm1)
#define REFIT_LIBM_2(F) F(pow) F(fmod) F(remainder) F(copysign) F(atan2) F(hypot)
REFIT_LIBM_1(REFIT_SCALAR_1)
REFIT_LIBM_2(REFIT_SCALAR_2)
REFIT_SCALAR_1(sqrt) REFIT_SCALAR_1(floor) REFIT_SCALAR_1(ceil) REFIT_SCALAR_1(fabs)
REFIT_INLINE S s_sign(S x) { return x != x ? x : (S)((x > 0) - (x < 0)); }
REFIT_INLINE S s_fmin(S x, S y) { return x < y || x != x ? x : y; }
REFIT_INLINE S s_fmax(S x, S y) { return x > y || x != x ? x : y; }
REFIT_INLINE S s_lt(S x, S y) { return x < y; }
REFIT_INLINE S s_le(S x, S y) { return x <= y; }
REFIT_INLINE S s_eq(S x, S y) { return x == y; }
REFIT_INLINE S s_ne(S x, S y) { return x != y; }
REFIT_INLINE S s_not(S x) { return x == 0; }
REFIT_INLINE S s_and(S x, S y) { return x != 0 && y != 0; }
REFIT_INLINE S s_or(S x, S y) { return x != 0 || y != 0; }
REFIT_INLINE S s_if_else_zero(S condition, S x) { return condition != 0 ? x : 0; }
REFIT_INLINE void s_sincos(S x, S *s, S *c) { *s = REFIT_M(sin)(x); *c = REFIT_M(cos)(x); }

/* ---- vector ------------------------------------------------------------------------ */

#if REFIT_LANES == 1
typedef S R;
typedef SI I;
#define C(x) K(x)
#define REFIT_ALIAS_1(name) REFIT_INLINE R r_##name(R x) { return s_##name(x); }
#define REFIT_ALIAS_2(name) REFIT_INLINE R r_##name(R x, R y) { return s_##name(x, y); }
REFIT_LIBM_1(REFIT_ALIAS_1)
REFIT_LIBM_2(REFIT_ALIAS_2)
REFIT_ALIAS_1(sqrt) REFIT_ALIAS_1(floor) REFIT_ALIAS_1(ceil) REFIT_ALIAS_1(fabs)
REFIT_ALIAS_1(sign) REFIT_ALIAS_1(not)
REFIT_ALIAS_2(fmin) REFIT_ALIAS_2(fmax) REFIT_ALIAS_2(lt) REFIT_ALIAS_2(le) REFIT_ALIAS_2(eq)
REFIT_ALIAS_2(ne) REFIT_ALIAS_2(and) REFIT_ALIAS_2(or) REFIT_ALIAS_2(if_else_zero)
REFIT_INLINE void r_sincos(R x, R *s, R *c) { s_sincos(x, s, c); }
REFIT_INLINE S r_get(R x, int lane) { (void)lane; return x; }
REFIT_INLINE R r_splat(S x) { return x; }
#else
#include "vector.h"
#endif

#endif
