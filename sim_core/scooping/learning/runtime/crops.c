/* Squares of a picture of four channels, turned and between its pixels: `crops.py` says what for.
 *
 * layers (h, w, 4); place (n, 2) of the start in pixels, from the corner of the first; turn (n, 2) cosine and sine; level (n) that is
 * taken from the last channel; out (n, 4, size, size). A square is `width` pixels wide, its start at shares across and down of it.
 */
typedef S four __attribute__((vector_size(4 * sizeof(S)), aligned(sizeof(S))));

typedef struct {
  const S *layers, *place, *turn, *level;
  S *out;
  int64_t n;
  int32_t h, w, size;
  S width, across, down;
} crops_job;

static void crops_slice(const void *argument, int64_t first, int64_t last, R *scratch) {
  const crops_job *job = argument;
  const int32_t size = job->size, area = size * size, h = job->h, w = job->w;
  const S right = (S)w - K(1.001), below = (S)h - K(1.001), pitch = job->width / (S)size;
  (void)scratch;
  for (int64_t k = first; k < last; k++) {
    const S c = job->turn[2 * k], s = job->turn[2 * k + 1];
    S *out = job->out + k * 4 * area;
    for (int32_t row = 0; row < size; row++) {
      const S v = ((S)row + K(0.5)) * pitch - job->down * job->width;
      for (int32_t column = 0; column < size; column++) {
        const S u = ((S)column + K(0.5)) * pitch - job->across * job->width;
        S x = job->place[2 * k] - K(0.5) + u * c - v * s, y = job->place[2 * k + 1] - K(0.5) + u * s + v * c;
        x = x < 0 ? 0 : x > right ? right : x; /* beyond the picture is as its edge */
        y = y < 0 ? 0 : y > below ? below : y;
        const int32_t j = (int32_t)x, i = (int32_t)y;
        const S a = x - (S)j, b = y - (S)i;
        const four *at = (const four *)(job->layers + 4 * ((int64_t)i * w + j)), *under = at + w;
        const four upper = at[0] + a * (at[1] - at[0]), lower = under[0] + a * (under[1] - under[0]);
        const four found = upper + b * (lower - upper);
        S *pixel = out + row * size + column;
        for (int channel = 0; channel < 3; channel++) pixel[channel * area] = found[channel];
        pixel[3 * area] = found[3] - job->level[k];
      }
    }
  }
}

int EXPORT(crops)(const S *layers, const S *place, const S *turn, const S *level, S *out, int64_t n, int32_t h, int32_t w,
                  int32_t size, S width, S across, S down, int threads) {
  const crops_job job = {layers, place, turn, level, out, n, h, w, size, width, across, down};
  return refit_parallel(crops_slice, &job, n, threads, 0);
}
