/* real.h inside a CUDA thread: R and S are one number, the math is the device's. NVRTC has no
 * host headers, so the few names taken from them are given here. */
typedef int int32_t;
typedef long long int64_t;
#ifndef NAN
#define NAN __longlong_as_double(0x7ff8000000000000LL)
#define INFINITY __longlong_as_double(0x7ff0000000000000LL)
#endif
#ifndef NULL
#define NULL 0
#endif

#define REFIT_RESTRICT __restrict__
/* Inlined: arrays indexed by constants then live in registers. */
#define REFIT_FN static __device__ __forceinline__
#define REFIT_INLINE static __device__ __forceinline__
