"""A robot as plain arrays, and its step written for an array library (jax.numpy or torch).

The equations, parameters and integrator are those of `sim_core.multibody`: bodies mounted on a link are merged from
the physical vector, joint damping is implicit as in MuJoCo's Euler or implicitfast. Of the forms tried in JAX on a CPU this is the
fastest by three to five times: 3-vectors and 3x3 blocks rather than 6x6 matrices, products as broadcast sums rather
than matmul (XLA then fuses them), the batch as the last dimension (vectorised).

Source: Featherstone, Rigid Body Dynamics Algorithms (2008), table 7.1.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Position:
    """A position that may depend on the physical vector: constant (3,) + sum of A (3, 3) p[index (3,)]."""

    constant: np.ndarray
    terms: list

    @staticmethod
    def of(model, offset):
        return Position(offset.constant, [(A, _range(model.parameters.vector_slice(name))) for A, name in offset.terms])


@dataclass(frozen=True)
class Mount:
    """A body's inertial parameters p[index (10,)], turned by `transfer` (10, 10) and moved by `position` into a link."""

    link: int
    index: np.ndarray
    transfer: np.ndarray
    position: Position


@dataclass(frozen=True)
class Tree:
    """Constants of a tree of revolute joints, some with a servo: torque = gear (u - kp gear q - kd gear v).

    parent (n,); axis (n,): coordinate axis of each joint; R (n, 3, 3), r: pose of a link in its parent at q = 0.
    mounts: bodies.   damping, armature (n,) and gravity (3,): indices into p.   h: step [s].
    joint, gear (nu,): each servo's joint, and index of its gear into p.   kp, kd (nu,).
    implicit_servo: the servos' damping is implicit too, as in MuJoCo's implicitfast.
    """

    parent: list
    axis: list
    R: np.ndarray
    r: list
    mounts: list
    damping: np.ndarray
    armature: np.ndarray
    joint: np.ndarray
    gear: np.ndarray
    kp: np.ndarray
    kd: np.ndarray
    implicit_servo: bool
    gravity: np.ndarray
    h: float

    @property
    def n(self):
        return len(self.parent)


def tree(model) -> Tree:
    """Arrays of a RobotModel.

    Raises:
        ValueError: other joints than revolute ones, actuators that are no servos, springs, friction, or an integrator of
            several stages.
    """
    fixed_gain = all(a.gain == (1.0, 0.0, 0.0) and not a.bias[0] and a.force_range is None for a in model.actuators)
    plain = all(link.kind == "revolute" and not link.q_ref for link in model.links) and model.friction is None
    springs = any(name.endswith(".stiffness") for name in model.parameters.names)
    if not (plain and fixed_gain) or springs or model.integrator not in ("mujoco_euler", "implicitfast"):
        raise ValueError(
            f"{model.name}: expected revolute joints, motors or servos, and MuJoCo's Euler or implicitfast"
        )
    index = model.parameters.index
    mounts = []
    for body in model.bodies:
        if body.has_inertia:
            turned = np.stack([_moved(e, body.R, np.zeros(3)) for e in np.eye(10)], axis=1)
            where = _range(model.parameters.inertia_slice(body.name))
            mounts.append(Mount(body.link, where, turned, Position.of(model, body.r)))
    return Tree(
        parent=[link.parent for link in model.links],
        axis=[link.axis for link in model.links],
        R=np.stack([link.R for link in model.links]),
        r=[Position.of(model, link.r) for link in model.links],
        mounts=mounts,
        damping=np.array([index(f"{j}.damping") for j in model.joint_names]),
        armature=np.array([index(f"{j}.armature") for j in model.joint_names]),
        joint=np.array([a.v_index for a in model.actuators], int),
        gear=np.array([index(f"{a}.gear") for a in model.actuator_names], int),
        kp=-np.array([a.bias[1] for a in model.actuators]),
        kd=-np.array([a.bias[2] for a in model.actuators]),
        implicit_servo=model.integrator == "implicitfast",
        gravity=np.array([index(f"gravity.{c}") for c in "xyz"]),
        h=model.timestep,
    )


def _range(part: slice) -> np.ndarray:
    return np.arange(part.start, part.stop)


def make_step(t: Tree, xp, constant):
    """Functions of arrays with the batch as last dimension.

    Args:
        xp: the library, for sin, cos, stack, concatenate and zeros_like.
        constant: numpy array -> the library's.

    Returns:
        step(x (2n, B), u (nu, B), p (np_, B), inertia) -> x' (2n, B), and inertias(p) -> inertia, which does not
        change with the state and is taken out of the time loop.
    """
    n = t.n
    drive = constant(np.eye(n)[:, t.joint][..., None])  # (n, nu, 1): servo to joint
    kp, kd = constant(t.kp[:, None]), constant(t.kd[:, None])
    poses = [constant(R.T[..., None]) for R in t.R]
    units = [constant(np.eye(3)[:, [k]]) for k in t.axis]
    turns = [[constant(part[..., None]) for part in _turn(k)] for k in t.axis]
    transfers = [constant(mount.transfer[..., None]) for mount in t.mounts]
    identity = constant(np.eye(3)[..., None])

    def times(A, x):
        return (A * x[None]).sum(1)

    def product(A, B):
        return (A[:, :, None] * B[None]).sum(1)

    def outer(a, b):
        return a[:, None] * b[None]

    def cross(a, b):
        return xp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])

    def matrix(rows):
        return xp.stack([xp.stack(row) for row in rows])

    def skew(a):
        zero = xp.zeros_like(a[0])
        return matrix([[zero, -a[2], a[1]], [a[2], zero, -a[0]], [-a[1], a[0], zero]])

    def turned(A):
        return A.swapaxes(0, 1)

    def position(where, p):
        r = constant(where.constant[:, None]) + xp.zeros_like(p[0])
        for A, index in where.terms:
            r = r + times(constant(A[..., None]), p[index])
        return r

    def moved(m, r):
        """The ten inertial parameters m seen from a frame in which their own has the position r."""
        h = m[1:4]
        I = matrix([[m[4], m[7], m[8]], [m[7], m[5], m[9]], [m[8], m[9], m[6]]])
        a = outer(r, h) + outer(h, r) + m[0] * outer(r, r)
        trace = a[0, 0] + a[1, 1] + a[2, 2]
        I = I + trace * identity - a
        return m[0], h + m[0] * r, I

    def inertias(p):
        merged = [None] * n
        for mount, transfer in zip(t.mounts, transfers):
            part = moved(times(transfer, p[mount.index]), position(mount.position, p))
            before = merged[mount.link]
            merged[mount.link] = part if before is None else tuple(a + b for a, b in zip(before, part))
        zero = xp.zeros_like(p[0])
        nothing = (zero, xp.stack([zero] * 3), zero * identity)
        bodies = [(I, skew(h), m * identity) for m, h, I in (part or nothing for part in merged)]
        return bodies, [position(r, p) for r in t.r]

    def acceleration(q, v, tau, armature, inertia, gravity):
        spread = xp.zeros_like(q[0])
        inertia, r = inertia
        E, velocity, bias, force, I = [], [], [], [], list(inertia)
        for i in range(n):
            A, B, C = turns[i]
            E.append(product(turned(A + xp.cos(q[i]) * B + xp.sin(q[i]) * C), poses[i] + spread))
            own = units[i] * v[i]
            if t.parent[i] < 0:
                w, l = own, xp.zeros_like(own)
                bias.append((l, l))
            else:
                pw, pl = velocity[t.parent[i]]
                w, l = times(E[i], pw), times(E[i], pl + cross(pw, r[i]))
                bias.append((cross(w, own), cross(l, own)))
                w = w + own
            velocity.append((w, l))
            J, H, M = I[i]
            n_i, f_i = times(J, w) + times(H, l), times(turned(H), w) + times(M, l)
            force.append((cross(w, n_i) + cross(l, f_i), cross(w, f_i)))
        U, D, rest = [None] * n, [None] * n, [None] * n
        for i in reversed(range(n)):
            k, parent = t.axis[i], t.parent[i]
            J, H, M = I[i]
            ua, ul = U[i] = J[:, k], H[k]
            D[i] = ua[k] + armature[i]
            rest[i] = tau[i] - force[i][0][k]
            if parent < 0:
                continue
            sa, sl = ua / D[i], ul / D[i]
            J, H, M = J - outer(ua, sa), H - outer(ua, sl), M - outer(ul, sl)
            ca, cl = bias[i]
            n_i = force[i][0] + times(J, ca) + times(H, cl) + sa * rest[i]
            f_i = force[i][1] + times(turned(H), ca) + times(M, cl) + sl * rest[i]
            back = turned(E[i])
            J, H, M = (product(product(back, part), E[i]) for part in (J, H, M))
            rx = skew(r[i])
            H_moved = H + product(rx, M)
            J = J - product(H, rx) + product(rx, turned(H_moved))
            I[parent] = tuple(a + b for a, b in zip(I[parent], (J, H_moved, M)))
            f_i = times(back, f_i)
            n_i = times(back, n_i) + cross(r[i], f_i)
            force[parent] = (force[parent][0] + n_i, force[parent][1] + f_i)
        accelerations, qdd = [], []
        base = (xp.zeros_like(gravity), -gravity)
        for i in range(n):
            pw, pl = base if t.parent[i] < 0 else accelerations[t.parent[i]]
            w = times(E[i], pw) + bias[i][0]
            l = times(E[i], pl + cross(pw, r[i])) + bias[i][1]
            qdd.append((rest[i] - (U[i][0] * w).sum(0) - (U[i][1] * l).sum(0)) / D[i])
            accelerations.append((w + units[i] * qdd[i], l))
        return xp.stack(qdd)

    def step(x, u, p, inertia):
        q, v, damping = x[:n], x[n:], p[t.damping]
        tau, implicit = -damping * v, damping
        if len(t.joint):
            gear = p[t.gear]
            tau = tau + times(drive, gear * (u - gear * (kp * q[t.joint] + kd * v[t.joint])))
            if t.implicit_servo:
                implicit = implicit + times(drive, gear**2 * kd)
        v = v + t.h * acceleration(q, v, tau, p[t.armature] + t.h * implicit, inertia, p[t.gravity])
        return xp.concatenate([q + t.h * v, v])

    return step, inertias


def _skew(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def _turn(axis):
    """A, B, C with R(q) = A + cos q B + sin q C about a coordinate axis."""
    e = np.eye(3)[axis]
    return np.outer(e, e), np.eye(3) - np.outer(e, e), _skew(e)


def _moved(pi, R, r):
    """(m, h, Ixx, Iyy, Izz, Ixy, Ixz, Iyz) seen from a frame in which the body's own frame has pose (R, r)."""
    m, h = pi[0], R @ pi[1:4]
    xx, yy, zz, xy, xz, yz = pi[4:]
    I = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    I = I - _skew(r) @ _skew(h) - _skew(h) @ _skew(r) - m * _skew(r) @ _skew(r)
    return np.concatenate([[m], h + m * r, np.diag(I), [I[0, 1], I[0, 2], I[1, 2]]])
