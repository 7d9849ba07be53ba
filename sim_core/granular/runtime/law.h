/* Grains in contact with grains and tools: the equations, for CPU threads (granular.c) and for CUDA (granular.cu).
 *
 * A body (a grain, a rock) is a rigid union of spheres; a part of a tool is a box with rounded edges. A step computes the force of
 * every pair that may touch, then lets every body gather the forces of its pairs, in their order: no sum depends on the number of
 * threads. Contact: spring and dashpot along the normal with adhesion (Derjaguin-Muller-Toporov's pull-off), spring, dashpot and
 * Coulomb's limit along the surface (Cundall and Strack 1979), elastic-plastic spring and dashpot against rolling (Ai et al. 2011).
 */
#ifndef REFIT_GRANULAR_LAW_H
#define REFIT_GRANULAR_LAW_H

/* Of a pair of materials; stiffness is per metre of effective radius, as all times then scale with a grain's size. */
typedef struct { S stiffness, damping, friction, rolling, adhesion, reach, shear, root_shear; } granular_law;

/* A box with half lengths `half`, swept by a sphere of radius `rounding`, in the tool's frame. */
typedef struct { int32_t tool, material; S half[3], rounding, offset[3], quaternion[4]; } granular_part;

/* Where a part is: its middle and its axes as columns; and the box along the world's axes that holds it. */
typedef struct { S middle[3], axes[9], low[3], high[3]; } granular_pose;

typedef struct { double position[3], quaternion[4], velocity[3], spin[3]; } granular_tool;

/* A body's, on one line of the cache; position + lost is where it is, since a slow grain's way in a step is below the rounding of its
 * place. Inverse mass 0: it does not move. */
typedef struct { S position[3], inverse_mass, velocity[3], spare, spin[3], spare_, lost[3], spare__; } granular_motion;

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

/* Pairs that may touch: sphere a with sphere b, or with part b - spheres. */
typedef struct {
  int32_t *a, *b;
  S *history;       /* (pairs, 6): shear of the surfaces, and turn of a against b */
  S *force;         /* (pairs, 9): force on b, moment on b against rolling, place of the contact */
  uint8_t *touches;
  int64_t count, room;
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

/* How far a sphere's middle is outside of a part, and the direction from the part to it. */
REFIT_INLINE S outside_part(const granular_part *part, const granular_pose *pose, const S *center, S *away) {
  S at[3], out[3], square = 0;
  for (int k = 0; k < 3; k++) {
    const S *axis = pose->axes + k;
    at[k] = axis[0] * (center[0] - pose->middle[0]) + axis[3] * (center[1] - pose->middle[1]) +
            axis[6] * (center[2] - pose->middle[2]);
    const S beyond = REFIT_M(fabs)(at[k]) - part->half[k];
    out[k] = beyond > 0 ? (at[k] < 0 ? -beyond : beyond) : 0;
    square += out[k] * out[k];
  }
  S distance;
  if (square > 0) {
    distance = REFIT_M(sqrt)(square);
    for (int k = 0; k < 3; k++) out[k] /= distance;
  } else { /* the middle is in the box: out by the nearest face */
    int face = 0;
    distance = K(-1e30);
    for (int k = 0; k < 3; k++) {
      const S beyond = REFIT_M(fabs)(at[k]) - part->half[k];
      if (beyond > distance) { distance = beyond; face = k; }
    }
    for (int k = 0; k < 3; k++) out[k] = k == face ? (at[k] < 0 ? K(-1) : K(1)) : 0;
  }
  for (int k = 0; k < 3; k++)
    away[k] = pose->axes[3 * k] * out[0] + pose->axes[3 * k + 1] * out[1] + pose->axes[3 * k + 2] * out[2];
  return distance - part->rounding;
}

/* Where the parts of the tools are now. */
REFIT_INLINE void place_part(const granular_world *w, int32_t p) {
  const granular_part *part = w->part + p;
  const granular_tool *tool = w->tool + part->tool;
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
  }
}

REFIT_INLINE void advance_tool(const granular_world *w, int32_t t) {
  granular_tool *tool = w->tool + t;
  if (DOT(tool->velocity, tool->velocity) == 0 && DOT(tool->spin, tool->spin) == 0) return;
  for (int k = 0; k < 3; k++) tool->position[k] += tool->velocity[k] * w->step;
  turn_double(tool->quaternion, tool->spin, (double)w->step);
}

/* Velocity of a body's surface at a place. */
REFIT_INLINE void surface_velocity(S *v, const S *velocity, const S *spin, const S *arm) {
  cross_to(v, spin, arm);
  for (int k = 0; k < 3; k++) v[k] += velocity[k];
}

/* The force of pair p. Returns whether there is one. */
REFIT_INLINE int contact(const granular_world *w, const granular_pairs *pairs, int64_t p) {
  const int32_t a = pairs->a[p], b = pairs->b[p], i = w->body[a], with_part = b >= w->spheres;
  const S *ca = w->center + 4 * a;
  S normal[3], gap, radius, inverse, moving_b[3], turning_b[3], at[3];
  int32_t other;
  if (with_part) {
    const granular_part *part = w->part + (b - w->spheres);
    S away[3];
    gap = outside_part(part, w->pose + (b - w->spheres), ca, away) - ca[3];
    for (int k = 0; k < 3; k++) normal[k] = -away[k];
    radius = ca[3];
    other = part->material;
  } else {
    const S *cb = w->center + 4 * b;
    S square = 0;
    for (int k = 0; k < 3; k++) {
      normal[k] = cb[k] - ca[k];
      square += normal[k] * normal[k];
    }
    const S both = ca[3] + cb[3], reach = both + w->skin;
    if (square > reach * reach) { gap = w->skin; radius = 0; other = 0; } /* far: no root for it */
    else {
      const S distance = REFIT_M(sqrt)(square);
      gap = distance - both;
      const S over = distance > 0 ? 1 / distance : 0;
      for (int k = 0; k < 3; k++) normal[k] *= over;
      radius = ca[3] * cb[3] / both;
      other = w->material[b];
    }
  }
  const granular_law *law = w->law + w->material[a] * w->materials + other;
  S *history = pairs->history + 6 * p;
  const S reach = law->adhesion > 0 ? law->reach * radius : 0;
  if (gap >= reach) {
    if (pairs->touches[p])
      for (int k = 0; k < 6; k++) history[k] = 0;
    return pairs->touches[p] = 0;
  }
  /* what touches */
  for (int k = 0; k < 3; k++) at[k] = ca[k] + normal[k] * (ca[3] + K(0.5) * gap);
  S arm[3], moving[3], shear[3];
  const granular_motion *mine = w->motion + i;
  for (int k = 0; k < 3; k++) arm[k] = at[k] - mine->position[k];
  surface_velocity(moving, mine->velocity, mine->spin, arm);
  inverse = mine->inverse_mass;
  if (with_part) {
    const granular_tool *tool = w->tool + w->part[b - w->spheres].tool;
    S v[3];
    for (int k = 0; k < 3; k++) {
      arm[k] = (S)(at[k] - tool->position[k]);
      v[k] = (S)tool->velocity[k];
      turning_b[k] = (S)tool->spin[k];
    }
    surface_velocity(moving_b, v, turning_b, arm);
  } else {
    const granular_motion *other_ = w->motion + w->body[b];
    for (int k = 0; k < 3; k++) {
      arm[k] = at[k] - other_->position[k];
      turning_b[k] = other_->spin[k];
    }
    surface_velocity(moving_b, other_->velocity, turning_b, arm);
    inverse += other_->inverse_mass;
  }
  for (int k = 0; k < 3; k++) moving[k] = moving_b[k] - moving[k];
  const S parting = DOT(moving, normal);
  /* along the normal: flesh pushes only, adhesion pulls, less so as the gap opens */
  const S stiffness = law->stiffness * radius, mass = inverse > 0 ? 1 / inverse : 0;
  const S root = REFIT_M(sqrt)(stiffness * mass);
  const S elastic = gap < 0 ? -stiffness * gap - law->damping * root * parting : 0, push = elastic > 0 ? elastic : 0;
  const S pull = law->adhesion * radius * (gap > 0 ? 1 - gap / reach : 1);
  /* along the surface */
  const S k_shear = law->shear * stiffness, c_shear = law->damping * law->root_shear * root;
  const S tilt = DOT(history, normal);
  S tangential[3], square = 0;
  for (int k = 0; k < 3; k++) {
    shear[k] = history[k] - tilt * normal[k];
    const S slip = moving[k] - parting * normal[k];
    shear[k] += slip * w->step;
    moving[k] = slip;
    tangential[k] = -k_shear * shear[k] - c_shear * slip;
    square += tangential[k] * tangential[k];
  }
  const S limit = law->friction * push;
  if (square > limit * limit) {
    const S share = limit / REFIT_M(sqrt)(square);
    for (int k = 0; k < 3; k++) {
      tangential[k] *= share;
      shear[k] = -(tangential[k] + c_shear * moving[k]) / k_shear;
    }
  }
  for (int k = 0; k < 3; k++) history[k] = shear[k];
  /* against rolling and twisting */
  S moment[3] = {0, 0, 0};
  const S most = law->rolling * radius * push;
  if (law->rolling > 0) {
    const S k_roll = K(2.25) * law->rolling * law->rolling * radius * radius * stiffness;
    const S c_roll = K(0.9) * law->rolling * radius * radius * root; /* 0.3 of critical, for an inertia of mass radius^2 */
    S size = 0;
    for (int k = 0; k < 3; k++) {
      history[3 + k] += (turning_b[k] - mine->spin[k]) * w->step;
      moment[k] = -k_roll * history[3 + k];
      size += moment[k] * moment[k];
    }
    if (size > most * most) {
      const S share = most / REFIT_M(sqrt)(size);
      for (int k = 0; k < 3; k++) {
        moment[k] *= share;
        history[3 + k] = -moment[k] / k_roll;
      }
    } else
      for (int k = 0; k < 3; k++) moment[k] -= c_roll * (turning_b[k] - mine->spin[k]);
  }
  S *force = pairs->force + 9 * p;
  for (int k = 0; k < 3; k++) {
    force[k] = (push - pull) * normal[k] + tangential[k];
    force[3 + k] = moment[k];
    force[6 + k] = at[k];
  }
  return pairs->touches[p] = 1;
}

/* Adds what pair p does to a body, whose side of it is +1 (b) or -1 (a). */
REFIT_INLINE void gather_pair(const granular_pairs *pairs, int64_t p, S side, const S *position, S *force, S *torque) {
  if (!pairs->touches[p]) return;
  const S *f = pairs->force + 9 * p;
  S arm[3], t[3];
  for (int k = 0; k < 3; k++) arm[k] = f[6 + k] - position[k];
  cross_to(t, arm, f);
  for (int k = 0; k < 3; k++) {
    force[k] += side * f[k];
    torque[k] += side * (t[k] + f[3 + k]);
  }
}

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
REFIT_INLINE void add_wrench(const S *f, const double *origin, double *sum) {
  const double x = f[6] - origin[0], y = f[7] - origin[1], z = f[8] - origin[2];
  for (int k = 0; k < 3; k++) sum[k] += f[k];
  sum[3] += y * f[2] - z * f[1] + f[3];
  sum[4] += z * f[0] - x * f[2] + f[4];
  sum[5] += x * f[1] - y * f[0] + f[5];
}

/* Adds a step's wrench on tool t to the run's. */
REFIT_INLINE void add_step(const granular_world *w, int32_t t, const double *sum) {
  for (int k = 0; k < 6; k++) w->wrench[6 * t + k] += sum[k];
  const double size = sqrt(DOT(sum, sum));
  if (size > w->peak[t]) w->peak[t] = size;
}

/* A step of body i, whose pairs are incident[incident_first[i]] and so on: 2 p for side a of pair p, 2 p + 1 for side b. Returns its
 * speed's square, and the square of the longest way of one of its spheres since pairs were listed. */
REFIT_INLINE S step_body(const granular_world *w, const granular_pairs *pairs, const int64_t *incident_first, const int64_t *incident,
                         int32_t i, S *way) {
  S force[3] = {0, 0, 0}, torque[3] = {0, 0, 0};
  for (int64_t e = incident_first[i]; e < incident_first[i + 1]; e++)
    gather_pair(pairs, incident[e] >> 1, incident[e] & 1 ? K(1) : K(-1), w->motion[i].position, force, torque);
  const S speed = move_body(w, i, force, torque);
  *way = place_spheres(w, i);
  return speed;
}

/* Whether a sphere has gone so far that a pair may touch which is not listed; way: the square of its own, tool_way: of a tool. */
REFIT_INLINE int list_is_old(const granular_world *w, S way, S tool_way) {
  const S gone = REFIT_M(sqrt)(way), others = gone > tool_way ? gone : tool_way;
  return gone + others > K(0.95) * w->skin;
}

#endif
