/* shooting.h on a GPU: a thread per window, neighbouring threads on the same window of neighbouring particles; then a
 * thread per number that is summed over windows, always in the same order.
 */
#include "thread.h"
#include "shooting.h"

extern "C" __global__ void shooting(const shooting_job job) {
  const int64_t of_particle = job.trajectories * job.windows, batch = job.particles * of_particle, thread = THREAD;
  if (thread >= batch) return;
  const int64_t robot = thread % job.particles * of_particle + thread / job.particles;
  shoot(&job, &robot, 1, job.records + thread, batch, NULL);
}

extern "C" __global__ void sums(const shooting_job job) {
  const int64_t trajectories = job.particles * job.trajectories, i = THREAD;
  if (i < trajectories) job.misfit[i] = sum_of_windows(job.misfit_each, 1, job.windows, i);
  if (job.gradient && i < trajectories * NT * SEEDS)
    job.thetabar[i] = sum_of_windows(job.thetabar_each, NT * SEEDS, job.windows, i);
}
