/* shooting.h on lanes and threads. From REFIT_LANES particles on, the lanes of a block hold one window of as many
 * particles, so that data and controls are read once for all; fewer particles fill the lanes with their windows.
 */
#include "shooting.h"

REFIT_INLINE int64_t particle_blocks(const shooting_job *job) { return refit_blocks(job->particles); }

static void shooting_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const shooting_job *job = argument;
  const int64_t of_particle = job->trajectories * job->windows, batch = job->particles * of_particle;
  const int same_window = REFIT_LANES > 1 && job->particles >= REFIT_LANES;
  for (int64_t block = first; block < last; block++) {
    int64_t robot[REFIT_LANES]; /* a remainder is filled up with copies of the last */
    for (int l = 0; l < REFIT_LANES; l++) {
      const int64_t n = block % particle_blocks(job) * REFIT_LANES + l, b = block * REFIT_LANES + l;
      if (same_window) robot[l] = (n < job->particles ? n : job->particles - 1) * of_particle + block / particle_blocks(job);
      else robot[l] = b < batch ? b : batch - 1;
    }
    shoot(job, robot, same_window, scratch, 1, scratch + (job->steps * SUBSTEPS + 1) * RECORD);
  }
}

#define PLUS_SIZE(name, size) + (size)

int EXPORT(shooting)(const shooting_job *job, int threads) {
  const int64_t of_particle = job->trajectories * job->windows, sums = job->particles * job->trajectories;
  const int64_t blocks = REFIT_LANES > 1 && job->particles >= REFIT_LANES ? particle_blocks(job) * of_particle
                                                                         : refit_blocks(job->particles * of_particle);
  const size_t scratch = (size_t)(job->steps * SUBSTEPS + 1) * RECORD SHOOTING_ARRAYS(PLUS_SIZE);
  const int status = refit_parallel(shooting_slice, job, blocks, threads, scratch);
  if (status) return status;
  for (int64_t i = 0; i < sums; i++) job->misfit[i] = sum_of_windows(job->misfit_each, 1, job->windows, i);
  if (job->gradient)
    for (int64_t i = 0; i < sums * NT * SEEDS; i++)
      job->thetabar[i] = sum_of_windows(job->thetabar_each, NT * SEEDS, job->windows, i);
  return status;
}
