/* What a continuous-wave LIDAR measures of triangles: rays, surfaces, waves.
 *
 * All that a scan depends on smoothly is one row of inputs, each with its derivatives by LIDAR_P parameters: the sensor's rotation (9) and
 * place (3) in the world, the same of every body, LIDAR_MATERIAL numbers of every material, the diode's three. What is discrete (which
 * triangle, which side, which of the phases' integers) is held.
 */
#ifndef LIDAR_H
#define LIDAR_H
#include "dual.h"

enum { LIDAR_POSE = 12, LIDAR_MATERIAL = 6, LIDAR_SAMPLES = 30, LIDAR_DEEPEST = 16, LIDAR_EDGE = 19, LIDAR_STACK = 64 };
/* of a material, in this order */
enum { M_ALBEDO, M_ROUGHNESS, M_REFLECTIVITY, M_INDEX, M_TRANSMISSION, M_EMISSION };
#define LIDAR_C K(299792458.0)
#define LIDAR_PI K(3.14159265358979323846)
/* a ray starts this far from the surface that it leaves [m] */
#define LIDAR_OFF K(1e-9)
/* light that has lost so much is not followed */
#define LIDAR_FAINT K(1e-9)

/* Children of a node are the next one and `right`, split along `axis`; a leaf has `count` triangles from `first`. */
typedef struct { S low[3], high[3]; int32_t right, first, count, axis; } lidar_node;

typedef struct {
  const lidar_node *nodes;
  const int32_t *root;      /* (bodies) first node */
  const S *sphere;          /* (bodies, 4) middle and radius around a body, in its frame */
  const S *triangle;        /* (triangles, 9) corners, in the body's frame, in the order of the leaves */
  const S *normal;          /* (triangles, 3) */
  const int32_t *material;  /* (triangles) */
  const int32_t *thin;      /* (materials) */
  const S *edge;            /* (edges, LIDAR_EDGE) ends; third corner and normal of either face; whether there are two faces */
  const int32_t *edges;     /* (bodies, 2) first and count of those that are softened */
  const S *direction;       /* (beams, rays, 3) unit, in the sensor's frame */
  const S *weight;          /* (rays) */
  const S *time;            /* (LIDAR_SAMPLES) of a sample, in periods */
  int32_t bodies, materials, beams, rays, depth, inputs;
  int32_t per_return, sampled, mean, optical; /* switches */
  S frequency[2], gain, glint, glint_epsilon, softness, lowest, nearest, farthest;
} lidar_world;

/* What comes out of a beam. */
typedef struct { S range, phase[2], amplitude, offset, apart; int32_t integer[2]; int32_t valid; } lidar_beam;
/* One return, where they are asked for. */
typedef struct { S path, radiance; int32_t beam, ray, depth, material, body, face; } lidar_return;
typedef struct { lidar_return *list; int64_t room, count; } lidar_list;

typedef struct {
  const lidar_world *w;
  const S *u, *t;           /* inputs; derivatives (inputs, LIDAR_P) */
  dual re[2], im[2];        /* sum of the waves at either frequency */
  S sample[2][LIDAR_SAMPLES];
  S offset;                 /* light that is not modulated */
  lidar_list *list;
  int32_t beam, ray;
} lidar_job;

typedef struct { dual o[3], d[3], path, share; int32_t depth, body, face, inside; } lidar_ray;
typedef struct { S t; int32_t body, face; } lidar_hit;

REFIT_INLINE dual lidar_input(const lidar_job *j, int64_t i) {
  dual r;
  r.v = j->u[i];
  LIDAR_EACH r.d[k] = j->t[i * LIDAR_P + k];
  return r;
}
REFIT_INLINE int64_t lidar_material_at(const lidar_world *w, int32_t m) {
  return LIDAR_POSE * (1 + (int64_t)w->bodies) + LIDAR_MATERIAL * (int64_t)m;
}
REFIT_INLINE int64_t lidar_diode_at(const lidar_world *w) { return lidar_material_at(w, w->materials); }

/* ---- which triangle ------------------------------------------------------------------ */

/* a b - c d with the right sign always (Kahan), without which rays slip between triangles */
REFIT_INLINE S lidar_area(S a, S b, S c, S d) {
  const S w = c * d, e = REFIT_M(fma)(-c, d, w), f = REFIT_M(fma)(a, b, -w);
  return f + e;
}

/* Woop, Benthin, Wald (JCGT 2, 2013): the ray becomes the third axis. */
typedef struct { int x, y, z; S sx, sy, sz; S o[3]; } lidar_shear;

REFIT_INLINE lidar_shear lidar_sheared(const S *o, const S *d, const S *inverse) {
  lidar_shear s;
  const S a = s_fabs(d[0]), b = s_fabs(d[1]), c = s_fabs(d[2]);
  s.z = a > b ? (a > c ? 0 : 2) : (b > c ? 1 : 2);
  s.x = (s.z + 1) % 3;
  s.y = (s.z + 2) % 3;
  s.sz = inverse[s.z];
  s.sx = d[s.x] * s.sz;
  s.sy = d[s.y] * s.sz;
  for (int i = 0; i < 3; i++) s.o[i] = o[i];
  return s;
}

REFIT_INLINE int lidar_meets(const lidar_shear *s, const S *corner, S *t) {
  S x[3], y[3], z[3];
  for (int i = 0; i < 3; i++) {
    const S *p = corner + 3 * i;
    z[i] = p[s->z] - s->o[s->z];
    x[i] = p[s->x] - s->o[s->x] - s->sx * z[i];
    y[i] = p[s->y] - s->o[s->y] - s->sy * z[i];
  }
  const S u = lidar_area(x[2], y[1], y[2], x[1]), v = lidar_area(x[0], y[2], y[0], x[2]), q = lidar_area(x[1], y[0], y[1], x[0]);
  if ((u < 0 || v < 0 || q < 0) && (u > 0 || v > 0 || q > 0)) return 0;
  const S sum = u + v + q;
  if (sum == 0) return 0;
  *t = s->sz * (u * z[0] + v * z[1] + q * z[2]) / sum;
  return 1;
}

REFIT_INLINE int lidar_in_box(const lidar_node *n, const S *o, const S *inverse, S most) {
  S near = 0, far = most;
  for (int i = 0; i < 3; i++) {
    const S a = (n->low[i] - o[i]) * inverse[i], b = (n->high[i] - o[i]) * inverse[i];
    const S first = a < b ? a : b, last = a < b ? b : a;
    /* NaN, of a ray in the plane of a side, limits nothing */
    if (first > near) near = first;
    if (last < far) far = last;
  }
  return near <= far * (1 + K(1e-12)) + K(1e-12);
}

/* The nearest triangle of all bodies but `without`; where the ray starts on one, not that one. */
REFIT_FN lidar_hit lidar_nearest(const lidar_world *w, const S *u, const S *o, const S *d, int32_t without, int32_t body, int32_t face) {
  lidar_hit hit = {K(1e30), -1, -1};
  int32_t stack[LIDAR_STACK];
  for (int32_t b = 0; b < w->bodies; b++) {
    if (b == without) continue;
    const S *pose = u + LIDAR_POSE * (1 + b), *ball = w->sphere + 4 * b;
    S e[3], here[3], there[3], inverse[3], along = 0, square = 0;
    for (int i = 0; i < 3; i++) e[i] = o[i] - pose[9 + i];
    for (int i = 0; i < 3; i++) {
      here[i] = pose[i] * e[0] + pose[3 + i] * e[1] + pose[6 + i] * e[2];
      there[i] = pose[i] * d[0] + pose[3 + i] * d[1] + pose[6 + i] * d[2];
      const S to = ball[i] - here[i];
      along += to * there[i];
      square += to * to;
    }
    const S reach = ball[3] * (1 + K(1e-9)) + K(1e-9);
    if (square > reach * reach && (along < 0 || along - reach > hit.t || square - along * along > reach * reach)) continue;
    for (int i = 0; i < 3; i++) inverse[i] = 1 / there[i];
    const lidar_shear shear = lidar_sheared(here, there, inverse);
    int top = 0;
    stack[top++] = w->root[b];
    while (top) {
      const int32_t at = stack[--top];
      const lidar_node *n = w->nodes + at;
      if (!lidar_in_box(n, here, inverse, hit.t)) continue;
      if (!n->count) { /* the nearer child first */
        const int back = there[n->axis] < 0;
        stack[top++] = back ? at + 1 : n->right;
        stack[top++] = back ? n->right : at + 1;
        continue;
      }
      for (int32_t f = n->first; f < n->first + n->count; f++) {
        S t;
        if (b == body && f == face) continue;
        if (lidar_meets(&shear, w->triangle + 9 * (int64_t)f, &t) && t > LIDAR_OFF && t < hit.t) hit.t = t, hit.body = b, hit.face = f;
      }
    }
  }
  return hit;
}

/* ---- waves --------------------------------------------------------------------------- */

REFIT_INLINE dual lidar_diode(const lidar_job *j, dual radiance) {
  const int64_t at = lidar_diode_at(j->w);
  const dual a = lidar_input(j, at), b = lidar_input(j, at + 1), c = lidar_input(j, at + 2);
  return d_add(d_mul(d_add(d_mul(a, radiance), b), radiance), c);
}

REFIT_FN void lidar_receive(lidar_job *j, const lidar_ray *ray, dual radiance, dual part, int32_t material) {
  const lidar_world *w = j->w;
  const dual amplitude = d_mul(part, radiance), shift = w->per_return ? lidar_diode(j, radiance) : d_of(0);
  for (int f = 0; f < 2; f++) {
    const dual phase = d_sub(d_scale(ray->path, 4 * LIDAR_PI * w->frequency[f] / LIDAR_C), shift);
    S sine, cosine;
    s_sincos(phase.v, &sine, &cosine);
    j->re[f] = d_add(j->re[f], d_chain2(amplitude, phase, amplitude.v * cosine, cosine, -amplitude.v * sine));
    j->im[f] = d_add(j->im[f], d_chain2(amplitude, phase, amplitude.v * sine, sine, amplitude.v * cosine));
    if (w->sampled)
      for (int i = 0; i < LIDAR_SAMPLES; i++)
        j->sample[f][i] += amplitude.v * s_sin(2 * LIDAR_PI * w->time[i] - phase.v - (f ? LIDAR_PI / 2 : 0));
  }
  if (j->list && j->list->count < j->list->room) {
    lidar_return *one = j->list->list + j->list->count++;
    one->path = ray->path.v, one->radiance = radiance.v;
    one->beam = j->beam, one->ray = j->ray, one->depth = ray->depth;
    one->material = material, one->body = ray->body, one->face = ray->face;
  }
}

/* ---- surfaces ------------------------------------------------------------------------ */

/* Of unpolarised light (Fresnel) at an angle of cosine c from index 1 to 1 / ratio; *through: cosine behind, or -1 where all is reflected. */
REFIT_INLINE dual lidar_fresnel(dual c, dual ratio, dual *through) {
  const dual sine = d_mul(d_square(ratio), d_shift(d_scale(d_square(c), -1), 1));
  if (sine.v >= 1) {
    *through = d_of(-1);
    return d_of(1);
  }
  const dual t = d_sqrt(d_shift(d_scale(sine, -1), 1));
  const dual a = d_mul(ratio, t), b = d_mul(ratio, c);
  const dual parallel = d_div(d_sub(c, a), d_add(c, a)), across = d_div(d_sub(b, t), d_add(b, t));
  *through = t;
  return d_scale(d_add(d_square(parallel), d_square(across)), K(0.5));
}

/* Oren and Nayar (1994) for light that comes from where it is seen, over k_R / pi. */
REFIT_INLINE dual lidar_rough(dual c, dual sigma) {
  if (sigma.v <= 0) return d_of(1);
  const dual s = d_square(sigma);
  const dual a = d_shift(d_div(s, d_scale(d_shift(s, K(0.33)), -2)), 1), b = d_div(d_scale(s, K(0.45)), d_shift(s, K(0.09)));
  /* sin theta tan theta */
  return d_add(a, d_mul(b, d_div(d_shift(d_scale(d_square(c), -1), 1), c)));
}

/* Follows a ray through all that it meets (Whitted 1980); part: of the beam that it stands for. */
REFIT_FN void lidar_trace(lidar_job *j, const lidar_ray *first, dual part, int32_t without) {
  const lidar_world *w = j->w;
  lidar_ray stack[LIDAR_DEEPEST + 1];
  int top = 0;
  stack[top++] = *first;
  while (top) {
    lidar_ray ray = stack[--top];
    S o[3], d[3];
    for (int i = 0; i < 3; i++) o[i] = ray.o[i].v, d[i] = ray.d[i].v;
    const lidar_hit hit = lidar_nearest(w, j->u, o, d, ray.depth ? -1 : without, ray.body, ray.face);
    if (hit.body < 0) continue;
    /* the same hit with derivatives: the ray in the body's frame meets the triangle's plane */
    const int64_t pose = LIDAR_POSE * (1 + (int64_t)hit.body);
    const S *flat = w->normal + 3 * (int64_t)hit.face, *corner = w->triangle + 9 * (int64_t)hit.face;
    dual normal[3], from[3];
    for (int i = 0; i < 3; i++) {
      normal[i] = d_of(0);
      for (int k = 0; k < 3; k++) normal[i] = d_add(normal[i], d_scale(lidar_input(j, pose + 3 * i + k), flat[k]));
      from[i] = d_sub(lidar_input(j, pose + 9 + i), ray.o[i]);
    }
    const S offset = flat[0] * corner[0] + flat[1] * corner[1] + flat[2] * corner[2];
    const dual slope = d_dot(normal, ray.d);
    if (slope.v == 0) continue;
    const dual length = d_div(d_shift(d_dot(normal, from), offset), slope);
    const int32_t kind = w->material[hit.face];
    const int64_t m = lidar_material_at(w, kind);
    const int enters = slope.v < 0;
    /* what a surface emits comes back once along the way, and its radiance does not fall with the distance */
    j->offset += part.v * ray.share.v * j->u[m + M_EMISSION];
    dual c = slope;
    if (enters) {
      c = d_scale(slope, -1);
    } else {
      for (int i = 0; i < 3; i++) normal[i] = d_scale(normal[i], -1);
    }
    const dual optical = w->optical && ray.inside >= 0 ? lidar_input(j, lidar_material_at(w, ray.inside) + M_INDEX) : d_of(1);
    ray.path = d_add(ray.path, d_mul(length, optical));
    ray.body = hit.body;
    ray.face = hit.face;
    const dual intensity = d_div(d_scale(d_square(ray.share), w->gain), d_square(ray.path));
    /* reflected and transmitted shares */
    dual reflected, passed = lidar_input(j, m + M_TRANSMISSION), behind = c, ratio = d_of(1);
    const dual index = lidar_input(j, m + M_INDEX);
    const int thin = w->thin[kind];
    if (index.v > 0) {
      ratio = enters || thin ? d_div(d_of(1), index) : index;
      reflected = lidar_fresnel(c, ratio, &behind);
      if (thin) reflected = d_div(d_scale(reflected, 2), d_shift(reflected, 1)); /* both faces, back and forth */
    } else {
      reflected = lidar_input(j, m + M_REFLECTIVITY);
    }
    const dual rest = d_shift(d_scale(reflected, -1), 1);
    const dual albedo = lidar_input(j, m + M_ALBEDO);
    if (albedo.v > 0) {
      const dual scattered = d_mul(d_scale(d_mul(albedo, rest), 1 / LIDAR_PI), d_mul(c, lidar_rough(c, lidar_input(j, m + M_ROUGHNESS))));
      lidar_receive(j, &ray, d_mul(intensity, scattered), part, kind);
    }
    if (reflected.v > 0 && w->glint > 0 && c.v > 1 - w->glint_epsilon) {
      const dual window = d_shift(d_scale(c, 1 / w->glint_epsilon), 1 - 1 / w->glint_epsilon);
      lidar_receive(j, &ray, d_mul(intensity, d_scale(d_mul(reflected, d_square(window)), w->glint)), part, kind);
    }
    if (++ray.depth >= w->depth) continue;
    dual place[3];
    d_along(place, ray.o, length, ray.d);
    lidar_ray next = ray;
    for (int i = 0; i < 3; i++) next.o[i] = place[i];
    next.share = d_mul(ray.share, reflected);
    if (next.share.v * next.share.v > LIDAR_FAINT) {
      d_along(next.d, ray.d, d_scale(c, 2), normal);
      stack[top++] = next;
    }
    next.share = d_mul(ray.share, d_mul(rest, passed));
    if (passed.v > 0 && behind.v >= 0 && next.share.v * next.share.v > LIDAR_FAINT) {
      const dual turn = d_sub(d_mul(ratio, c), behind);
      for (int i = 0; i < 3; i++)
        next.d[i] = thin || index.v <= 0 ? ray.d[i] : d_add(d_mul(ratio, ray.d[i]), d_mul(turn, normal[i]));
      if (!thin && index.v > 0) next.inside = enters ? kind : -1;
      stack[top++] = next;
    }
  }
}

/* ---- soft silhouettes ---------------------------------------------------------------- */

/* Share of a round cone of half angle 1 on the inner side of a line at distance x from its middle. */
REFIT_INLINE dual lidar_covered(dual x) {
  if (x.v >= 1) return d_of(1);
  if (x.v <= -1) return d_of(0);
  const S root = s_sqrt(1 - x.v * x.v);
  return d_chain(x, 1 - (s_acos(x.v) - x.v * root) / LIDAR_PI, 2 * root / LIDAR_PI);
}

/* The outline within `softness` of a ray that is nearest to it: body, or -1; side: unit normal of the plane through the sensor and the
 * edge, towards the body; away: sine of the angle to it. */
REFIT_FN int32_t lidar_outline(const lidar_job *j, const lidar_ray *ray, dual *side, dual *away) {
  const lidar_world *w = j->w;
  int32_t found = -1;
  S least = w->softness;
  for (int32_t b = 0; b < w->bodies; b++) {
    if (!w->edges[2 * b + 1]) continue;
    const S *pose = j->u + LIDAR_POSE * (1 + b), *ball = w->sphere + 4 * b;
    S here[3], there[3], shift[3], along = 0, square = 0;
    for (int i = 0; i < 3; i++) shift[i] = ray->o[i].v - pose[9 + i];
    for (int i = 0; i < 3; i++) {
      here[i] = pose[i] * shift[0] + pose[3 + i] * shift[1] + pose[6 + i] * shift[2];
      there[i] = pose[i] * ray->d[0].v + pose[3 + i] * ray->d[1].v + pose[6 + i] * ray->d[2].v;
      const S to = ball[i] - here[i];
      along += to * there[i];
      square += to * to;
    }
    /* a body out of reach; the sine of the angle to it is below its distance from the ray over that from the sensor */
    const S reach = ball[3] + w->softness * s_sqrt(square);
    if (square > reach * reach && (along < 0 || square - along * along > reach * reach)) continue;
    for (int32_t e = w->edges[2 * b]; e < w->edges[2 * b] + w->edges[2 * b + 1]; e++) {
      const S *edge = w->edge + LIDAR_EDGE * (int64_t)e;
      S a[3], c[3], n[3];
      /* of two faces one is seen from in front and one is not */
      S front[2];
      for (int f = 0; f < 2; f++) {
        const S *third = edge + 6 + 6 * f, *normal = third + 3;
        front[f] = 0;
        for (int i = 0; i < 3; i++) front[f] += normal[i] * (here[i] - third[i]);
      }
      if (edge[18] != 0 && (front[0] > 0) == (front[1] > 0)) continue;
      const S *inner = edge + (edge[18] != 0 && front[1] > 0 ? 12 : 6);
      S length = 0, inward = 0, distance = 0, after = 0, before = 0, ahead = 0;
      for (int i = 0; i < 3; i++) a[i] = edge[i] - here[i], c[i] = edge[3 + i] - here[i];
      for (int i = 0; i < 3; i++) {
        const int p = (i + 1) % 3, q = (i + 2) % 3;
        n[i] = a[p] * c[q] - a[q] * c[p];
        length += n[i] * n[i];
        inward += n[i] * (inner[i] - here[i]);
        distance += n[i] * there[i];
        ahead += (a[i] + c[i]) * there[i];
      }
      if (length == 0 || ahead <= 0) continue;
      for (int i = 0; i < 3; i++) {
        const int p = (i + 1) % 3, q = (i + 2) % 3;
        after += (n[p] * a[q] - n[q] * a[p]) * there[i];
        before += (c[p] * n[q] - c[q] * n[p]) * there[i];
      }
      if (after < 0 || before < 0 || s_fabs(distance) >= least * s_sqrt(length)) continue;
      least = s_fabs(distance) / s_sqrt(length);
      found = b;
      dual ends[2][3];
      for (int end = 0; end < 2; end++)
        for (int i = 0; i < 3; i++) {
          ends[end][i] = d_sub(lidar_input(j, LIDAR_POSE * (1 + b) + 9 + i), ray->o[i]);
          for (int k = 0; k < 3; k++)
            ends[end][i] = d_add(ends[end][i], d_scale(lidar_input(j, LIDAR_POSE * (1 + b) + 3 * i + k), edge[3 * end + k]));
        }
      d_cross(side, ends[0], ends[1]);
      d_unit(side);
      if (inward < 0)
        for (int i = 0; i < 3; i++) side[i] = d_scale(side[i], -1);
      *away = d_dot(side, ray->d);
    }
  }
  return found;
}

/* ---- a beam -------------------------------------------------------------------------- */

/* Phases give the range: the pair of whole periods whose ranges agree best. */
REFIT_INLINE void lidar_resolve(const lidar_world *w, const S *phase, lidar_beam *out) {
  S best = K(1e30);
  const int most[2] = {7, 8}; /* periods until both phases are 0 again, at 7 : 8 */
  for (int n = 0; n < most[0]; n++)
    for (int m = 0; m < most[1]; m++) {
      const S a = LIDAR_C * (phase[0] + 2 * LIDAR_PI * n) / (4 * LIDAR_PI * w->frequency[0]);
      const S b = LIDAR_C * (phase[1] + 2 * LIDAR_PI * m) / (4 * LIDAR_PI * w->frequency[1]);
      if (s_fabs(a - b) < best) {
        best = out->apart = s_fabs(a - b);
        out->integer[0] = n;
        out->integer[1] = m;
        out->range = w->mean ? (a + b) / 2 : a;
      }
    }
}

REFIT_FN void lidar_scan_beam(const lidar_world *w, const S *u, const S *t, int32_t beam, lidar_beam *out, S *slope, lidar_list *list) {
  lidar_job job;
  job.w = w, job.u = u, job.t = t, job.list = list, job.beam = beam, job.offset = 0;
  for (int f = 0; f < 2; f++) {
    job.re[f] = job.im[f] = d_of(0);
    for (int i = 0; i < LIDAR_SAMPLES; i++) job.sample[f][i] = 0;
  }
  for (int32_t r = 0; r < w->rays; r++) {
    const S *aim = w->direction + 3 * ((int64_t)beam * w->rays + r);
    lidar_ray ray;
    ray.path = d_of(0), ray.share = d_of(1), ray.depth = 0, ray.body = ray.face = ray.inside = -1;
    for (int i = 0; i < 3; i++) {
      dual row[3];
      for (int k = 0; k < 3; k++) row[k] = lidar_input(&job, 3 * i + k);
      ray.d[i] = d_dot_fixed(row, aim);
      ray.o[i] = lidar_input(&job, 9 + i);
    }
    job.ray = r;
    dual side[3], away;
    const int32_t body = w->softness > 0 ? lidar_outline(&job, &ray, side, &away) : -1;
    lidar_ray near = ray;
    if (body >= 0 && away.v <= 0) { /* the ray passes the body: the near one is led to its rim */
      const dual back = d_shift(d_scale(away, -1), K(1e-7));
      d_along(near.d, ray.d, back, side);
      d_unit(near.d);
    }
    S o[3], d[3];
    for (int i = 0; i < 3; i++) o[i] = near.o[i].v, d[i] = near.d[i].v;
    if (body < 0 || lidar_nearest(w, u, o, d, -1, -1, -1).body != body) { /* no outline, or a hidden one */
      lidar_trace(&job, &ray, d_of(w->weight[r]), -1);
      continue;
    }
    const dual covered = lidar_covered(d_scale(away, 1 / w->softness));
    lidar_trace(&job, &near, d_scale(covered, w->weight[r]), -1);
    lidar_trace(&job, &ray, d_scale(d_shift(d_scale(covered, -1), 1), w->weight[r]), body);
  }
  dual phase[2];
  S measured[2];
  for (int f = 0; f < 2; f++) {
    const S square = job.re[f].v * job.re[f].v + job.im[f].v * job.im[f].v;
    phase[f] = square > 0 ? d_chain2(job.re[f], job.im[f], s_atan2(job.im[f].v, job.re[f].v), -job.im[f].v / square, job.re[f].v / square)
                          : d_of(0);
    if (w->sampled) {
      /* first Fourier sums of the samples and of the wave that was sent, sin(2 pi f t) */
      S c = 0, s = 0, c0 = 0, s0 = 0;
      for (int i = 0; i < LIDAR_SAMPLES; i++) {
        S sine, cosine;
        s_sincos(2 * LIDAR_PI * w->time[i], &sine, &cosine);
        const S received = job.sample[f][i] + job.offset;
        c += received * cosine, s += received * sine;
        c0 += sine * cosine, s0 += sine * sine;
      }
      phase[f].v = s_atan2(c0, s0) - s_atan2(c, s) - (f ? LIDAR_PI / 2 : 0);
    }
    if (!w->per_return) {
      const dual total = d_sqrt(d_add(d_square(job.re[f]), d_square(job.im[f])));
      phase[f] = d_sub(phase[f], lidar_diode(&job, total));
    }
    measured[f] = phase[f].v - 2 * LIDAR_PI * s_floor(phase[f].v / (2 * LIDAR_PI));
    out->phase[f] = measured[f];
  }
  out->amplitude = s_hypot(job.re[0].v, job.im[0].v);
  out->offset = job.offset;
  out->range = 0;
  out->integer[0] = out->integer[1] = 0;
  lidar_resolve(w, measured, out);
  out->valid = out->amplitude > w->lowest && out->range >= w->nearest && out->range <= w->farthest;
  for (int k = 0; k < LIDAR_P; k++) {
    const S a = LIDAR_C * phase[0].d[k] / (4 * LIDAR_PI * w->frequency[0]), b = LIDAR_C * phase[1].d[k] / (4 * LIDAR_PI * w->frequency[1]);
    slope[k] = w->mean ? (a + b) / 2 : a;
  }
}
#endif
