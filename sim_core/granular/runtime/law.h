/* Grains in contact with grains and tools: the equations, for CPU threads (granular.c) and for CUDA (granular.cu).
 *
 * A body (a grain, a rock) is a rigid union of spheres; a part of a tool is a box with rounded edges. A step computes the force of
 * every pair that may touch, REFIT_LANES pairs side by side, and sums what pairs do to a body in their order: no sum depends on the
 * number of threads. Contact: spring and dashpot along the normal with adhesion (Derjaguin-Muller-Toporov's pull-off), spring, dashpot and
 * Coulomb's limit along the surface (Cundall and Strack 1979), elastic-plastic spring and dashpot against rolling (Ai et al. 2011).
 */
#ifndef REFIT_GRANULAR_LAW_H
#define REFIT_GRANULAR_LAW_H

#include "lanes.h"

/* Structures whose numbers are read four at a time. */
#ifdef REFIT_CUDA
#define IN_FOURS __align__(16)
#else
#define IN_FOURS
#endif

/* Of a pair of materials; stiffness is per metre of effective radius, as all times then scale with a grain's size. */
typedef struct IN_FOURS { S stiffness, damping, friction, rolling, adhesion, reach, shear, root_shear; } granular_law;

/* A box with half lengths `half`, swept by a sphere of radius `rounding`, in the tool's frame. */
typedef struct { int32_t tool, material; S half[3], rounding, offset[3], quaternion[4]; } granular_part;

/* Where a part is: its middle, its axes as columns, its size; how its tool moves; and the box along the world's axes that holds it. */
typedef struct IN_FOURS {
  S middle[3], rounding, axes[9], half[3];
  S position[3], inverse_mass, velocity[3], spare, spin[3], spare_;
  S low[3], high[3], spare__[2];
} granular_pose;

typedef struct { double position[3], quaternion[4], velocity[3], spin[3]; } granular_tool;

/* A body's, on one line of the cache; position + lost is where it is, since a slow grain's way in a step is below the rounding of its
 * place. Inverse mass 0: it does not move. */
typedef struct IN_FOURS { S position[3], inverse_mass, velocity[3], spare, spin[3], spare_, lost[3], spare__; } granular_motion;

typedef struct {
  /* bodies */
  granular_motion *motion;
  S *quaternion;
  const S *inertia;
  const int32_t *first;            /* (bodies + 1) of its spheres */
  /* spheres: center = (x, y, z, radius) */
  const int32_t *body, *material;
  const S *offset;
  S *center, *reference;
  /* tools */
  const granular_part *part;
  granular_pose *pose;
  granular_tool *tool;
  double *wrench, *peak; /* (tools, 6) summed over the steps of a run, and (tools) the largest force in a step */
  const granular_law *law;
  int32_t bodies, spheres, tools, parts, materials;
  S gravity[3], step, skin, fastest, drag;
} granular_world;

/* Pairs that may touch: sphere a with sphere b; then, from `parts` on, sphere a with part b - spheres. Both are sorted by a. */
typedef struct {
  int32_t *a, *b;
  S *history;       /* (6, room): shear of the surfaces, and turn of a against b */
  S *force;         /* (pairs, 12): force on b, torque on a, torque on b, place of the contact */
  uint8_t *touches;
  int64_t parts, count, room;
} granular_pairs;

#define DOT(u, v) ((u)[0] * (v)[0] + (u)[1] * (v)[1] + (u)[2] * (v)[2])

REFIT_INLINE void cross_to(S *to, const S *u, const S *v) {
  to[0] = u[1] * v[2] - u[2] * v[1];
  to[1] = u[2] * v[0] - u[0] * v[2];
  to[2] = u[0] * v[1] - u[1] * v[0];
}

/* Axes (row-major, columns are the body's axes) of a unit quaternion. */
#define AXES_OF(name, T)                                                                     \
  REFIT_INLINE void name(T *r, const T *q) {                                                 \
    const T w = q[0], x = q[1], y = q[2], z = q[3];                                          \
    r[0] = 1 - 2 * (y * y + z * z); r[1] = 2 * (x * y - w * z); r[2] = 2 * (x * z + w * y);   \
    r[3] = 2 * (x * y + w * z); r[4] = 1 - 2 * (x * x + z * z); r[5] = 2 * (y * z - w * x);   \
    r[6] = 2 * (x * z - w * y); r[7] = 2 * (y * z + w * x); r[8] = 1 - 2 * (x * x + y * y);   \
  }
AXES_OF(axes_of, S)
AXES_OF(axes_of_double, double)

/* A quaternion after a turn with a spin [rad/s] in the world's axes for a time; exact for a spin that stays. */
#define TURN(name, T, SQRT, SIN, COS)                                                        \
  REFIT_INLINE void name(T *q, const T *spin, T time) {                                      \
    const T rate = SQRT(DOT(spin, spin)), half = rate * time / 2;                            \
    const T s = half < (T)1e-4 ? time / 2 : SIN(half) / rate;                                \
    const T w = half < (T)1e-4 ? 1 - half * half / 2 : COS(half);                            \
    const T x = s * spin[0], y = s * spin[1], z = s * spin[2], *p = q;                       \
    const T n[4] = {w * p[0] - x * p[1] - y * p[2] - z * p[3], w * p[1] + x * p[0] + y * p[3] - z * p[2], \
                    w * p[2] - x * p[3] + y * p[0] + z * p[1], w * p[3] + x * p[2] - y * p[1] + z * p[0]}; \
    const T length = SQRT(n[0] * n[0] + n[1] * n[1] + n[2] * n[2] + n[3] * n[3]);            \
    for (int k = 0; k < 4; k++) q[k] = n[k] / length;                                        \
  }
TURN(turn, S, REFIT_M(sqrt), REFIT_M(sin), REFIT_M(cos))
TURN(turn_double, double, sqrt, sin, cos)

/* Whether a sphere's middle is less than `reach` outside of a part. */
REFIT_INLINE int is_near_part(const granular_pose *pose, const S *center, S reach) {
  S square = 0;
  for (int k = 0; k < 3; k++)
    if (center[k] + reach < pose->low[k] || center[k] - reach > pose->high[k]) return 0;
  for (int k = 0; k < 3; k++) {
    const S *axis = pose->axes + k;
    const S at = axis[0] * (center[0] - pose->middle[0]) + axis[3] * (center[1] - pose->middle[1]) +
                 axis[6] * (center[2] - pose->middle[2]);
    const S beyond = REFIT_M(fabs)(at) - pose->half[k];
    if (beyond > 0) square += beyond * beyond;
  }
  const S most = reach + pose->rounding;
  return square < most * most;
}

/* Where a part is when its tool is there. */
REFIT_INLINE void place_part(const granular_world *w, int32_t p, const granular_tool *tool) {
  const granular_part *part = w->part + p;
  granular_pose *pose = w->pose + p;
  double r[9], mine[9], q[4];
  axes_of_double(r, tool->quaternion);
  for (int k = 0; k < 4; k++) q[k] = part->quaternion[k];
  axes_of_double(mine, q);
  for (int i = 0; i < 3; i++) {
    pose->middle[i] = (S)(tool->position[i] + r[3 * i] * part->offset[0] + r[3 * i + 1] * part->offset[1] +
                          r[3 * i + 2] * part->offset[2]);
    S reach = part->rounding;
    for (int j = 0; j < 3; j++) {
      pose->axes[3 * i + j] = (S)(r[3 * i] * mine[j] + r[3 * i + 1] * mine[3 + j] + r[3 * i + 2] * mine[6 + j]);
      reach += REFIT_M(fabs)(pose->axes[3 * i + j]) * part->half[j];
    }
    pose->low[i] = pose->middle[i] - reach;
    pose->high[i] = pose->middle[i] + reach;
    pose->half[i] = part->half[i];
    pose->position[i] = (S)tool->position[i];
    pose->velocity[i] = (S)tool->velocity[i];
    pose->spin[i] = (S)tool->spin[i];
  }
  pose->rounding = part->rounding;
  pose->inverse_mass = pose->spare = pose->spare_ = 0;
}

REFIT_INLINE void advance_tool(const granular_world *w, granular_tool *tool) {
  if (DOT(tool->velocity, tool->velocity) == 0 && DOT(tool->spin, tool->spin) == 0) return;
  for (int k = 0; k < 3; k++) tool->position[k] += tool->velocity[k] * w->step;
  turn_double(tool->quaternion, tool->spin, (double)w->step);
}

/* ---- contact: pairs side by side ----------------------------------------------------------- */

/* What contacts are told (a, b, history) and say (history, force, torques, place, touches). */
typedef struct {
  int32_t a[REFIT_LANES], b[REFIT_LANES];
  R history[6], force[4], torque_a[4], torque_b[4], place[4]; /* the fourth of each: 0 */
  I touches;
} granular_contacts;

REFIT_INLINE R r_dot(const R *u, const R *v) { return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]; }
REFIT_INLINE void r_cross(R *to, const R *u, const R *v) {
  to[0] = u[1] * v[2] - u[2] * v[1];
  to[1] = u[2] * v[0] - u[0] * v[2];
  to[2] = u[0] * v[1] - u[1] * v[0];
}

/* The direction from spheres' middles to parts, and how far these are from there. */
REFIT_INLINE R toward_parts(const R *center, const S *const *pose, R *normal) {
  R about[4], axes[12], at[3], out[3], beyond[3], square = C(0), distance; /* about: middle, rounding; axes end with the half lengths */
  into_lanes(about, pose, 0);
  for (int k = 0; k < 3; k++) into_lanes(axes + 4 * k, pose, 4 + 4 * k);
  for (int k = 0; k < 3; k++) {
    at[k] = axes[k] * (center[0] - about[0]) + axes[3 + k] * (center[1] - about[1]) + axes[6 + k] * (center[2] - about[2]);
    beyond[k] = r_fabs(at[k]) - axes[9 + k];
    out[k] = r_select(beyond[k] > 0, r_select(at[k] < 0, -beyond[k], beyond[k]), C(0));
    square += out[k] * out[k];
  }
  const I inside = square == 0;
  distance = sqrt_lanes(square);
  if (any_lane(inside)) { /* the middle is in the box: out by the nearest face */
    const I by[3] = {(beyond[0] >= beyond[1]) & (beyond[0] >= beyond[2]), (beyond[1] > beyond[0]) & (beyond[1] >= beyond[2]),
                     (beyond[2] > beyond[0]) & (beyond[2] > beyond[1])};
    for (int k = 0; k < 3; k++) {
      out[k] = r_select(inside, r_select(by[k], r_select(at[k] < 0, C(-1), C(1)), C(0)), out[k]);
      distance = r_select(inside & by[k], beyond[k], distance);
    }
  }
  const R over = K(-1) / r_select(inside, C(1), distance);
  for (int k = 0; k < 3; k++) normal[k] = (axes[3 * k] * out[0] + axes[3 * k + 1] * out[1] + axes[3 * k + 2] * out[2]) * over;
  return distance - about[3];
}

/* The forces of pairs: of spheres with spheres, or of spheres with parts; `same`: the law of all of them, or none. */
REFIT_INLINE void contact(const granular_world *w, granular_contacts *c, int with_parts, const granular_law *same) {
  const S *of_a[REFIT_LANES], *of_b[REFIT_LANES], *motion_a[REFIT_LANES], *motion_b[REFIT_LANES], *of_law[REFIT_LANES];
  for (int l = 0; l < REFIT_LANES; l++) {
    const int32_t a = c->a[l], b = with_parts ? c->b[l] - w->spheres : c->b[l];
    of_a[l] = w->center + 4 * (int64_t)a;
    motion_a[l] = w->motion[w->body[a]].position;
    of_b[l] = with_parts ? w->pose[b].middle : w->center + 4 * (int64_t)b;
    motion_b[l] = with_parts ? w->pose[b].position : w->motion[w->body[b]].position;
    if (!same) of_law[l] = &w->law[w->material[a] * w->materials + (with_parts ? w->part[b].material : w->material[b])].stiffness;
  }
  R center_a[4], position_a[4], position_b[4], law[8], normal[3], arm_a[3], arm_b[3], gap, radius, square = C(0);
  into_lanes(center_a, of_a, 0);
  into_lanes(position_a, motion_a, 0);
  into_lanes(position_b, motion_b, 0);
  if (same) for (int k = 0; k < 8; k++) law[k] = C((&same->stiffness)[k]);
  else {
    into_lanes(law, of_law, 0);
    into_lanes(law + 4, of_law, 4);
  }
  const R own = center_a[3];
  if (with_parts) {
    gap = toward_parts(center_a, of_b, normal) - own;
    radius = own;
  } else {
    R center_b[4];
    into_lanes(center_b, of_b, 0);
    for (int k = 0; k < 3; k++) {
      normal[k] = center_b[k] - center_a[k];
      square += normal[k] * normal[k];
    }
    const R both = own + center_b[3], distance = sqrt_lanes(square), over = r_select(distance > 0, K(1) / distance, C(0));
    for (int k = 0; k < 3; k++) normal[k] *= over;
    gap = distance - both;
    radius = own * center_b[3] / both;
  }
  const R adhesion = law[4];
  const I sticks = adhesion > 0;
  const R reach = r_select(sticks, law[5] * radius, C(0));
  c->touches = gap < reach;
  if (!any_lane(c->touches)) {
    for (int k = 0; k < 6; k++) c->history[k] = C(0);
    for (int k = 0; k < 4; k++) c->force[k] = c->torque_a[k] = c->torque_b[k] = c->place[k] = C(0);
    return;
  }
  c->force[3] = c->torque_a[3] = c->torque_b[3] = c->place[3] = C(0);
  R moving[3], turning[3], velocity_a[4], velocity_b[4], spin_a[4], spin_b[4], by_spin_a[3], by_spin_b[3];
  into_lanes(velocity_a, motion_a, 4);
  into_lanes(velocity_b, motion_b, 4);
  into_lanes(spin_a, motion_a, 8);
  into_lanes(spin_b, motion_b, 8);
  const R half = own + K(0.5) * gap;
  for (int k = 0; k < 3; k++) {
    c->place[k] = center_a[k] + normal[k] * half;
    arm_a[k] = c->place[k] - position_a[k];
    arm_b[k] = c->place[k] - position_b[k];
    turning[k] = spin_b[k] - spin_a[k];
  }
  r_cross(by_spin_a, spin_a, arm_a);
  r_cross(by_spin_b, spin_b, arm_b);
  for (int k = 0; k < 3; k++) moving[k] = (by_spin_b[k] + velocity_b[k]) - (by_spin_a[k] + velocity_a[k]);
  /* along the normal: flesh pushes only, adhesion pulls, less so as the gap opens */
  const R parting = r_dot(moving, normal), inverse = position_a[3] + position_b[3];
  const R stiffness = law[0] * radius, damping = law[1];
  const R root = sqrt_lanes(r_select(inverse > 0, stiffness / inverse, C(0)));
  const R elastic = -stiffness * gap - damping * root * parting;
  const R push = r_select((gap < 0) & (elastic > 0), elastic, C(0));
  R pull = C(0);
  if (any_lane(sticks)) pull = r_select(sticks, adhesion * radius * r_select(gap > 0, K(1) - gap / reach, C(1)), C(0));
  /* along the surface */
  const R k_shear = law[6] * stiffness, c_shear = damping * law[7] * root;
  const R tilt = r_dot(c->history, normal), limit = law[2] * push;
  R tangential[3], slip[3], shear[3];
  square = C(0);
  for (int k = 0; k < 3; k++) {
    slip[k] = moving[k] - parting * normal[k];
    shear[k] = c->history[k] - tilt * normal[k] + slip[k] * w->step;
    tangential[k] = -k_shear * shear[k] - c_shear * slip[k];
    square += tangential[k] * tangential[k];
  }
  const I slides = square > limit * limit;
  if (any_lane(slides & c->touches)) {
    const R share = r_select(slides, limit / sqrt_lanes(square), C(1)), over = K(1) / k_shear;
    for (int k = 0; k < 3; k++) {
      tangential[k] *= share;
      shear[k] = r_select(slides, -(tangential[k] + c_shear * slip[k]) * over, shear[k]);
    }
  }
  for (int k = 0; k < 3; k++) {
    c->history[k] = r_select(c->touches, shear[k], C(0));
    c->force[k] = r_select(c->touches, (push - pull) * normal[k] + tangential[k], C(0));
  }
  r_cross(c->torque_b, arm_b, c->force);
  r_cross(c->torque_a, c->force, arm_a);
  /* against rolling and twisting */
  const R rolling = law[3];
  const I rolls = c->touches & (rolling > 0);
  for (int k = 3; k < 6; k++) c->history[k] = r_select(rolls, c->history[k], C(0));
  if (!any_lane(rolls)) return;
  const R most = rolling * radius * push;
  const R k_roll = K(2.25) * rolling * rolling * radius * radius * stiffness;
  const R c_roll = K(0.9) * rolling * radius * radius * root; /* 0.3 of critical, for an inertia of mass radius^2 */
  R moment[3], size = C(0);
  for (int k = 0; k < 3; k++) {
    c->history[3 + k] += turning[k] * w->step;
    moment[k] = -k_roll * c->history[3 + k];
    size += moment[k] * moment[k];
  }
  const I yields = size > most * most;
  const R part_of = r_select(yields, most / sqrt_lanes(size), C(1));
  for (int k = 0; k < 3; k++) {
    moment[k] *= part_of;
    c->history[3 + k] = r_select(yields & rolls, -moment[k] / k_roll, r_select(rolls, c->history[3 + k], C(0)));
    moment[k] = r_select(rolls, r_select(yields, moment[k], moment[k] - c_roll * turning[k]), C(0));
    c->torque_a[k] -= moment[k];
    c->torque_b[k] += moment[k];
  }
}

/* ---- bodies -------------------------------------------------------------------------------- */

/* Where the spheres of a body are; returns the square of the longest way of one since the pairs were listed. */
REFIT_INLINE S place_spheres(const granular_world *w, int32_t i) {
  const int32_t first = w->first[i], last = w->first[i + 1];
  const S *x = w->motion[i].position;
  S r[9], most = 0;
  const int single = last - first == 1;
  if (!single) axes_of(r, w->quaternion + 4 * i);
  for (int32_t s = first; s < last; s++) {
    S *c = w->center + 4 * s, way = 0;
    const S *o = w->offset + 3 * s;
    for (int k = 0; k < 3; k++) {
      c[k] = single ? x[k] : x[k] + r[3 * k] * o[0] + r[3 * k + 1] * o[1] + r[3 * k + 2] * o[2];
      const S d = c[k] - w->reference[3 * s + k];
      way += d * d;
    }
    most = way > most ? way : most;
  }
  return most;
}

/* A body's motion under a force and a torque for a step: velocities first (semi-implicit). Returns its speed's square. */
REFIT_INLINE S move_body(const granular_world *w, int32_t i, const S *force, const S *torque) {
  const S dt = w->step, keep = 1 - w->drag * dt;
  granular_motion *m = w->motion + i;
  S *v = m->velocity, *omega = m->spin, *x = m->position, *lost = m->lost, speed = 0;
  if (m->inverse_mass == 0) return 0;
  for (int k = 0; k < 3; k++) {
    v[k] = (v[k] + dt * (force[k] * m->inverse_mass + w->gravity[k])) * keep;
    speed += v[k] * v[k];
    const S way = v[k] * dt + lost[k], there = x[k] + way;
    lost[k] = way - (there - x[k]);
    x[k] = there;
  }
  const S *inertia = w->inertia + 3 * i;
  S *q = w->quaternion + 4 * i;
  if (inertia[0] == inertia[1] && inertia[1] == inertia[2]) {
    for (int k = 0; k < 3; k++) omega[k] = (omega[k] + dt * torque[k] / inertia[0]) * keep;
    if (w->first[i + 1] - w->first[i] > 1) turn(q, omega, dt);
  } else { /* angular momentum is what a free body keeps */
    S r[9], momentum[3], mine[3];
    axes_of(r, q);
    for (int k = 0; k < 3; k++) mine[k] = inertia[k] * (r[k] * omega[0] + r[3 + k] * omega[1] + r[6 + k] * omega[2]);
    for (int k = 0; k < 3; k++)
      momentum[k] = (DOT(r + 3 * k, mine) + dt * torque[k]) * keep;
    for (int k = 0; k < 3; k++) mine[k] = (r[k] * momentum[0] + r[3 + k] * momentum[1] + r[6 + k] * momentum[2]) / inertia[k];
    for (int k = 0; k < 3; k++) omega[k] = DOT(r + 3 * k, mine);
    turn(q, omega, dt);
    axes_of(r, q);
    for (int k = 0; k < 3; k++) mine[k] = (r[k] * momentum[0] + r[3 + k] * momentum[1] + r[6 + k] * momentum[2]) / inertia[k];
    for (int k = 0; k < 3; k++) omega[k] = DOT(r + 3 * k, mine);
  }
  return speed;
}

/* Adds what a pair with a part does to its tool: force, and torque about its origin, in double. */
REFIT_INLINE void add_wrench(const S *f, double *sum) {
  for (int k = 0; k < 3; k++) {
    sum[k] += f[k];
    sum[3 + k] += f[6 + k];
  }
}

/* Adds a step's wrench on tool t to the run's. */
REFIT_INLINE void add_step(const granular_world *w, int32_t t, const double *sum) {
  for (int k = 0; k < 6; k++) w->wrench[6 * t + k] += sum[k];
  const double size = sqrt(DOT(sum, sum));
  if (size > w->peak[t]) w->peak[t] = size;
}

/* Whether a sphere has gone so far that a pair may touch which is not listed; way: the square of its own, tool_way: of a tool. */
REFIT_INLINE int list_is_old(const granular_world *w, S way, S tool_way) {
  const S gone = REFIT_M(sqrt)(way), others = gone > tool_way ? gone : tool_way;
  return gone + others > K(0.95) * w->skin;
}

#endif
