/* lidar.h on a GPU: a thread per beam of a scan. */
#include "thread.h"
#include "lidar.h"

/* As lidar_slice of lidar.c: u (n, inputs), t (n, inputs, LIDAR_P), out (n, beams), slope (n, beams, LIDAR_P) */
extern "C" __global__ void scans(const lidar_world w, const S *u, const S *t, lidar_beam *out, S *slope, int64_t n) {
  const int64_t at = THREAD, inputs = w.inputs;
  if (at >= n * w.beams) return;
  const int64_t scan = at / w.beams;
  lidar_scan_beam(&w, u + scan * inputs, t + scan * inputs * LIDAR_P, (int32_t)(at % w.beams), out + at, slope + at * LIDAR_P, NULL);
}
