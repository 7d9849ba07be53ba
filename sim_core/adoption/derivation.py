"""What a model file does not say of a robot, from what it says: docs/robots.md lists each rule.

All numbers come from the robot's own kinematics, masses and limits, none from another robot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

__all__ = ["Anatomy", "DerivationError", "Demonstration", "anatomy_of", "armature_of", "demonstration_of", "home_of"]

_HINGE, _SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)

#: [s] in which a motor's own rotor takes a joint to its speed limit at full effort, at least: files leave rotors out
ROTOR_TIME = 0.005
#: share of the robot's mass up to which a link is a frame
TOKEN = 1e-4
#: a slide with less stroke [m] moves a finger, and so does a joint whose name says so
FINGER = 0.15
FINGER_NAMES = re.compile("grip|finger|jaw|knuckle|thumb", re.IGNORECASE)
#: postures tried, and those of them along whose path the arm's reach is tried [1]
POSTURES, TRIED = 3000, 12
#: share of a joint's range at each end in which no home is looked for; of its effort that gravity may take there
MARGIN, GRAVITY = 0.15, 0.6
#: the path's half width and height over the reach [1]
WIDTH, HEIGHT = 0.15, 0.1
#: share of the velocity limits that following the path takes, at most; share of the effort that a payload may take
SPEED, LOAD = 0.3, 0.25
#: [s] of one round, at least and at most
PERIOD, SLOWEST = 4.0, 60.0


class DerivationError(ValueError):
    """A robot for which something cannot be derived; one sentence says what, and which key says it instead."""


@dataclass(frozen=True)
class Anatomy:
    """The arm within a robot.

    Attributes:
        joints: ids of the arm's joints from the base to the tool, (n,).
        tool_body: id of the body that carries the tool centre point; position: of that point in its frame, (3,) [m].
        payload_body: id of the body with mass that carries the tool.
    """

    joints: np.ndarray
    tool_body: int
    position: np.ndarray
    payload_body: int


@dataclass(frozen=True)
class Demonstration:
    """Attributes: width, height [m], period [s] of the path; mass [kg], com (3,) [m] of the payload; reach [m] of the arm."""

    width: float
    height: float
    period: float
    mass: float
    com: np.ndarray
    reach: float


# -- which joints are the arm's, and where its tool is -----------------------------------------------------------


def anatomy_of(
    m: mujoco.MjModel, tool: str = "", position: Sequence[float] = (0.0, 0.0, 0.0), payload: str = ""
) -> Anatomy:
    """The longest chain of driven joints, without the fingers at its end.

    Args:
        tool, payload: names of bodies that somebody named; "": they are derived. position: of the tool in its body [m].

    Raises:
        DerivationError: no joint is driven, or a body is not there.
    """
    driven = {int(m.actuator_trnid[a, 0]) for a in range(m.nu)}
    if not driven:
        raise DerivationError("expected at least one driven joint with an effort limit, found none")
    body = _body(m, tool, "tool.body") if tool else _hand(m, driven)
    above = _joints_above(m, body, driven)
    if not above:
        raise DerivationError(f"expected a tool that joints move, found '{_name(m, body)}'; name another as tool.body")
    if tool:
        point = np.asarray(position, float)
    else:
        body, point = _tip(m, body)
    held = _body(m, payload, "payload_body") if payload else _heavy(m, body)
    return Anatomy(np.array(above), body, point, held)


def _hand(m: mujoco.MjModel, driven: set[int]) -> int:
    """The body at the end of the arm: the last of the longest chain before it branches into fingers or ends in one."""
    depth = [len(_joints_above(m, body, driven)) for body in range(m.nbody)]
    body = int(np.argmax(depth))
    chain = [body]
    while chain[-1]:
        chain.append(int(m.body_parentid[chain[-1]]))
    chain.reverse()  # from the world
    for below, here in zip(chain, chain[1:]):
        fingers = [b for b in range(m.nbody) if m.body_parentid[b] == below and _moves(m, b)]
        if depth[below] >= 2 and (len(fingers) > 1 or _is_finger(m, here)):
            return below
    return body


def _moves(m: mujoco.MjModel, body: int) -> bool:
    """Whether a body or one beyond it has a joint."""
    if m.body_jntnum[body]:
        return True
    return any(_moves(m, b) for b in range(1, m.nbody) if m.body_parentid[b] == body)


def _is_finger(m: mujoco.MjModel, body: int) -> bool:
    joints = range(m.body_jntadr[body], m.body_jntadr[body] + m.body_jntnum[body])
    return any(
        FINGER_NAMES.search(m.joint(j).name)
        or (m.jnt_type[j] == _SLIDE and m.jnt_limited[j] and float(np.ptp(m.jnt_range[j])) < FINGER)
        for j in joints
    )


def _joints_above(m: mujoco.MjModel, body: int, driven: set[int]) -> list[int]:
    found: list[int] = []
    while body:
        first = m.body_jntadr[body]
        found += [j for j in reversed(range(first, first + m.body_jntnum[body])) if j in driven]
        body = int(m.body_parentid[body])
    return found[::-1]


def _fixed_to(m: mujoco.MjModel, body: int) -> list[int]:
    """The body and all that are fixed to it further out."""
    found = [body]
    for b in range(body + 1, m.nbody):
        if int(m.body_parentid[b]) in found and not m.body_jntnum[b]:
            found.append(b)
    return found


def _tip(m: mujoco.MjModel, body: int) -> tuple[int, np.ndarray]:
    """The frame farthest out that is fixed to a body; where there is none, the body's own centre of mass."""
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    fixed = _fixed_to(m, body)
    distances = [float(np.linalg.norm(data.xpos[b] - data.xpos[body])) for b in fixed]
    farthest = int(np.argmax(distances))
    if distances[farthest] > 1e-3:
        return fixed[farthest], np.zeros(3)
    return body, np.array(m.body_ipos[body])


def _heavy(m: mujoco.MjModel, body: int) -> int:
    """The nearest body with mass from here inwards, across no joint; else whatever the last joint moves.

    Frames carry a token mass in many files, which is none.
    """
    least = TOKEN * float(m.body_mass.sum())
    while not m.body_mass[body] > least and body and not m.body_jntnum[body]:
        body = int(m.body_parentid[body])
    return body


def _body(m: mujoco.MjModel, name: str, key: str) -> int:
    body = mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_BODY, name)
    if body < 0:
        known = ", ".join(_name(m, b) for b in range(1, m.nbody))
        raise DerivationError(f"{key}: expected one of {known}, found '{name}'")
    return body


def _name(m: mujoco.MjModel, body: int) -> str:
    return m.body(body).name


# -- what files leave out ------------------------------------------------------------------------------------------


def armature_of(m: mujoco.MjModel, velocity: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """Rotor inertia behind each joint's gear where the file has none, (njnt,) [kg m^2 or kg].

    What a joint moves by itself, the others free, is made up to ROTOR_TIME effort / velocity.

    Args:
        velocity, effort: limits, (njnt,); infinite where nothing limits.
    """
    data, found = mujoco.MjData(m), np.zeros(m.njnt)
    mujoco.mj_forward(m, data)
    M = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, M)
    free = 1.0 / np.diag(np.linalg.pinv(M))
    for j in range(m.njnt):
        dof = m.jnt_dofadr[j]
        if m.jnt_type[j] in (_HINGE, _SLIDE) and m.dof_armature[dof] == 0.0 and np.isfinite(velocity[j] + effort[j]):
            found[j] = max(0.0, ROTOR_TIME * effort[j] / velocity[j] - free[dof])
        else:
            found[j] = m.dof_armature[dof]
    return found


# -- home ------------------------------------------------------------------------------------------------------------


def home_of(m: mujoco.MjModel, arm: Anatomy, effort: np.ndarray, seed: int = 0) -> np.ndarray:
    """Positions qpos (nq,) from which the tool moves freely in every direction, and a figure eight can be followed.

    Among random postures away from the ends of the ranges, in which gravity takes no more than GRAVITY of any effort and
    nothing is below the base: the one whose tool is farthest from a singularity and whose path can be followed.

    Args:
        effort: limits, (njnt,) [N m or N].

    Raises:
        DerivationError: there is none.
    """
    data, rng = mujoco.MjData(m), np.random.default_rng(seed)
    reach = reach_of(m, arm)
    best: list[tuple[float, np.ndarray]] = []
    for _ in range(POSTURES):
        q = _neutral(m)
        for j in arm.joints:
            low, high = _range(m, j)
            q[m.jnt_qposadr[j]] = rng.uniform(low + MARGIN * (high - low), high - MARGIN * (high - low))
        if (score := _score(m, data, arm, q, effort, reach)) > 0.0:
            best.append((score, q))
    best.sort(key=lambda entry: -entry[0])
    for _, q in best[:TRIED]:
        if _follows(m, data, arm, q, WIDTH * reach, HEIGHT * reach):
            return q
    raise DerivationError(
        f"no posture was found from which the tool '{_name(m, arm.tool_body)}' can follow a figure eight of "
        f"{2 * WIDTH * reach:.2g} by {2 * HEIGHT * reach:.2g} m; give one as home, or another tool"
    )


def _neutral(m: mujoco.MjModel) -> np.ndarray:
    """Every joint at zero, or as near to it as its range lets it."""
    q = m.key_qpos[0].copy() if m.nkey else m.qpos0.copy()
    for j in range(m.njnt):
        if m.jnt_limited[j] and m.jnt_type[j] in (_HINGE, _SLIDE):
            q[m.jnt_qposadr[j]] = np.clip(q[m.jnt_qposadr[j]], *m.jnt_range[j])
    return q


def _range(m: mujoco.MjModel, j: int) -> tuple[float, float]:
    """A joint's range, within half a turn where it has none or a larger one."""
    low, high = m.jnt_range[j] if m.jnt_limited[j] else (-np.inf, np.inf)
    most = np.pi / 2 if m.jnt_type[j] == _HINGE else 1.0
    return max(float(low), -2.0 * most), min(float(high), 2.0 * most)


def reach_of(m: mujoco.MjModel, arm: Anatomy) -> float:
    """Length of the arm from its first joint to the tool, along its joints [m]."""
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    points = [data.xanchor[j] for j in arm.joints]
    points.append(data.xpos[arm.tool_body] + data.xmat[arm.tool_body].reshape(3, 3) @ arm.position)
    strokes = sum(float(np.ptp(_range(m, j))) for j in arm.joints if m.jnt_type[j] == _SLIDE)
    return float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum()) + strokes


def _score(
    m: mujoco.MjModel, data: mujoco.MjData, arm: Anatomy, q: np.ndarray, effort: np.ndarray, reach: float
) -> float:
    """How well the tool can be moved here [1]; not positive where the arm cannot be."""
    data.qpos[:] = q
    data.qvel[:] = 0.0
    mujoco.mj_forward(m, data)
    base = data.xanchor[arm.joints[0]]
    tool = _point(data, arm)
    moving = [b for b in range(1, m.nbody) if m.body_weldid[b]]
    if min(float(data.xpos[b][2]) for b in moving) < min(float(base[2]), 0.0) - 1e-3 or tool[2] < 0.1 * reach:
        return 0.0
    gravity = max(abs(data.qfrc_bias[m.jnt_dofadr[j]]) / effort[j] for j in arm.joints)
    if gravity > GRAVITY:
        return 0.0
    J = _jacobian(m, data, arm)
    J[:3] /= reach
    used = J if len(arm.joints) >= 6 else J[:3]
    rank = min(used.shape)
    ahead = (tool - base)[0] / max(float(np.linalg.norm((tool - base)[:2])), 1e-9)  # the path lies across x
    return float(np.linalg.svd(used, compute_uv=False)[rank - 1]) * (1.0 - gravity) * max(ahead, 0.1)


def _point(data: mujoco.MjData, arm: Anatomy) -> np.ndarray:
    return data.xpos[arm.tool_body] + data.xmat[arm.tool_body].reshape(3, 3) @ arm.position


def _jacobian(m: mujoco.MjModel, data: mujoco.MjData, arm: Anatomy) -> np.ndarray:
    """Of the tool's position and rotation by the arm's joints, (6, n)."""
    Jp, Jr = np.zeros((3, m.nv)), np.zeros((3, m.nv))
    mujoco.mj_jac(m, data, Jp, Jr, _point(data, arm), arm.tool_body)
    return np.vstack([Jp, Jr])[:, m.jnt_dofadr[arm.joints]]


def _eight(width: float, height: float, n: int = 24) -> np.ndarray:
    """Points of the figure eight about its middle, (n, 3) [m]."""
    phase = 2.0 * np.pi * np.arange(n) / n
    return np.column_stack([np.zeros(n), width * np.sin(phase), 0.5 * height * np.sin(2.0 * phase)])


def _follows(
    m: mujoco.MjModel, data: mujoco.MjData, arm: Anatomy, home: np.ndarray, width: float, height: float
) -> bool:
    """Whether the tool reaches every point of the path within the joints' ranges."""
    data.qpos[:] = home
    mujoco.mj_forward(m, data)
    middle, at = _point(data, arm).copy(), m.jnt_qposadr[arm.joints]
    low, high = np.array([_range(m, j) for j in arm.joints]).T
    for offset in _eight(width, height):
        for _ in range(20):
            error = middle + offset - _point(data, arm)
            J = _jacobian(m, data, arm)[:3]
            step = J.T @ np.linalg.solve(J @ J.T + 1e-6 * np.eye(3), error)
            data.qpos[at] = np.clip(data.qpos[at] + step, low, high)
            mujoco.mj_forward(m, data)
            if np.linalg.norm(error) < 1e-4:
                break
        else:
            return False
    return True


# -- what it shows -----------------------------------------------------------------------------------------------------


def demonstration_of(
    m: mujoco.MjModel, arm: Anatomy, home: np.ndarray, velocity: np.ndarray, effort: np.ndarray
) -> Demonstration:
    """Path and payload that suit the arm at its home.

    Args:
        velocity, effort: limits, (njnt,).
    """
    data = mujoco.MjData(m)
    data.qpos[:] = home
    mujoco.mj_forward(m, data)
    reach = reach_of(m, arm)
    width, height = min(WIDTH * reach, 0.4), min(HEIGHT * reach, 0.3)
    J = _jacobian(m, data, arm)
    scaled = J[:3] * velocity[arm.joints]  # slow joints leave the work to the fast ones
    turn = (
        np.gradient(_eight(width, height, 200), 1.0 / 200.0, axis=0) @ np.linalg.pinv(scaled).T * velocity[arm.joints]
    )
    period = min(max(PERIOD, float((np.abs(turn).max(axis=0) / (SPEED * velocity[arm.joints])).max())), SLOWEST)
    dofs = m.jnt_dofadr[arm.joints]
    per_kilogram = np.abs(9.81 * J[2])
    left = effort[arm.joints] - np.abs(data.qfrc_bias[dofs])
    mass = LOAD * float((left / np.maximum(per_kilogram, 1e-6)).min())
    body = arm.payload_body
    R = data.xmat[body].reshape(3, 3)
    com = R.T @ (_point(data, arm) - data.xpos[body]) + reach * np.array([0.03, 0.02, 0.0])
    return Demonstration(width, height, period, _rounded(mass), np.round(com, 4), reach)


def _rounded(x: float) -> float:
    """Two significant digits."""
    return float(f"{x:.2g}")
