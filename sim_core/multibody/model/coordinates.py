"""Which of a compiled model's positions and velocities the equations have: all but those of joints that follow others.

An equality constraint between two joints, position = polycoef[0] + polycoef[1] * other's, is a rod without elasticity
between them: in the equations the follower has no coordinate of its own (equations/tree.py). MuJoCo holds it by a stiff
constraint.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from sim_core.multibody.model.support import disabled, name_of, refuse

__all__ = ["Coordinates", "Following"]


@dataclass(frozen=True)
class Following:
    """A joint (its index) that another follows: position = ratio * its + shift [-, rad or m]."""

    leader: int
    ratio: float
    shift: float


class Coordinates:
    """From indices into MuJoCo's qpos and qvel to those into the model's q and v.

    Attributes:
        following: by the index of each joint that follows another; leaders follow none.
        positions, velocities: where q (nq,) is in qpos and v (nv,) in qvel.
        q_index, v_index: first entries of every joint in q and v, (njnt,); of a follower, its leader's.

    Raises:
        ModelError: an equality constraint that is not of this kind, or joints that follow each other in a ring.
    """

    def __init__(self, m: mujoco.MjModel) -> None:
        self.following = _following(m)
        q_own, v_own = np.ones(m.nq, dtype=bool), np.ones(m.nv, dtype=bool)
        for j in self.following:
            q_own[m.jnt_qposadr[j]] = v_own[m.jnt_dofadr[j]] = False
        self.positions, self.velocities = np.flatnonzero(q_own), np.flatnonzero(v_own)
        leaders = [self.following[j].leader if j in self.following else j for j in range(m.njnt)]
        self.q_index = np.searchsorted(self.positions, m.jnt_qposadr[leaders])
        self.v_index = np.searchsorted(self.velocities, m.jnt_dofadr[leaders])


def _following(m: mujoco.MjModel) -> dict[int, Following]:
    """Of hinges and slides; MuJoCo's compiler couples no others."""
    direct: dict[int, Following] = {}
    off = mujoco.mjtDisableBit
    if disabled(m, off.mjDSBL_EQUALITY | off.mjDSBL_CONSTRAINT):
        return direct
    for i in np.flatnonzero(m.eq_active0):
        kind, first, second = mujoco.mjtEq(int(m.eq_type[i])), int(m.eq_obj1id[i]), int(m.eq_obj2id[i])
        what = f"equality constraint '{name_of(m, mujoco.mjtObj.mjOBJ_EQUALITY, int(i))}'"
        if kind != mujoco.mjtEq.mjEQ_JOINT:
            refuse(
                f"{what} ({kind.name.removeprefix('mjEQ_').lower()})",
                'Remove it, make the joints it couples fixed, or set active="false".',
            )
        joint, data = f"joint '{name_of(m, mujoco.mjtObj.mjOBJ_JOINT, first)}'", m.eq_data[i]
        if second < 0:
            refuse(f"{what}, which holds {joint} still", "Remove the joint instead.")
        if np.any(data[2:5]):
            refuse(f"{what}, a polynomial of degree {2 + int(np.flatnonzero(data[2:5])[-1])}", "Couple linearly.")
        if first in direct:
            refuse(f"{joint} follows two others", "Keep one of the equality constraints.")
        # MuJoCo couples displacements from the reference: y - y0 = a0 + a1 (x - x0).
        y0, x0 = m.qpos0[m.jnt_qposadr[first]], m.qpos0[m.jnt_qposadr[second]]
        direct[first] = Following(second, float(data[1]), float(y0 + data[0] - data[1] * x0))
        _check_follower(m, first, joint)
    return {j: _resolved(m, j, direct) for j in direct}


def _check_follower(m: mujoco.MjModel, j: int, joint: str) -> None:
    if j in m.actuator_trnid[:, 0]:
        refuse(f"an actuator on {joint}, which follows another", "Drive the joint that it follows.")
    if m.jnt_stiffness[j]:
        refuse(f"a spring on {joint}, which follows another", "Put it on the joint that it follows.")


def _resolved(m: mujoco.MjModel, j: int, direct: dict[int, Following]) -> Following:
    """What a joint follows in the end, through others that follow themselves."""
    total = direct[j]
    for _ in direct:
        if total.leader not in direct:
            return total
        beyond = direct[total.leader]
        total = Following(beyond.leader, total.ratio * beyond.ratio, total.ratio * beyond.shift + total.shift)
    refuse(f"the ring of joints that follow each other at '{name_of(m, mujoco.mjtObj.mjOBJ_JOINT, j)}'", "Open it.")
