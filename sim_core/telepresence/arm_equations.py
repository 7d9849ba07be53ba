"""An arm's kinematics as symbols, and what its inverse kinematics make of them, to be compiled as one function each.

arm = arm_equations(model, "hand_site", joints)
step = OneCall("refit_arm", ca.Function("step", [ca.vertcat(arm.q, more)], [ca.vertcat(arm.position, ...)]))
numbers = step(numbers)                     # 5 microseconds for the Panda, most of which are Python's
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from sim_core.codegen import compile_library
from sim_core.codegen.library import Rows, check
from sim_core.multibody import RobotModel
from sim_core.multibody.equations.kinematics import frame_pose, frame_velocity
from sim_core.multibody.equations.tree import Link
from sim_core.telepresence.clutch import Pose

__all__ = [
    "ArmEquations",
    "OneCall",
    "arm_equations",
    "cholesky",
    "pose_difference",
    "pose_symbols",
    "shortened",
    "solve_cholesky",
]

#: pivot below which a product of a Jacobian with itself counts as singular
SMALLEST = 1e-24


@dataclass(frozen=True, eq=False)
class ArmEquations:
    """An arm with n joints.

    Attributes:
        q: joint positions (n, 1) [rad].
        position, rotation: of the frame (3, 1) [m], (3, 3).
        J: (6, n), linear [m/rad] over angular velocity [rad/rad] of the frame.
        S: J with lengths measured in the arm's own unit.
        manipulability: sqrt(det(S S')).
        gradient: of the manipulability over joint positions (n, 1) [1/rad].
    """

    q: ca.SX
    position: ca.SX
    rotation: ca.SX
    J: ca.SX
    S: ca.SX
    manipulability: ca.SX
    gradient: ca.SX


def arm_equations(
    model: RobotModel, frame: str, joints: Sequence[str], length: float, base: Pose, tool: Pose
) -> ArmEquations:
    """The equations of an arm; the robot's other joints stay where they are at home.

    Args:
        frame: site or body.
        joints: names of the arm's, hinges or slides, from the base to the frame.
        length: [m] that counts as much as a radian.
        base: of the model's world in the axes in which everything is told.
        tool: of what is moved in the frame.

    Raises:
        ValueError: a joint is not there, or is neither hinge nor slide.

    Source: Yoshikawa, Manipulability of Robotic Mechanisms (1985); its gradient is M tr(dJ/dq_i J^+).
    """
    links = [_link(model, name) for name in joints]
    q, v = ca.SX.sym("q", len(links)), ca.SX.sym("v", len(links))
    all_q, all_v = ca.SX(ca.DM(model.q_home)), ca.SX.zeros(model.nv)
    for k, link in enumerate(links):
        all_q[link.q_index], all_v[link.v_index] = q[k], v[k]
    p = ca.SX(ca.DM(model.parameters.nominal))
    r, R = frame_pose(model, frame, all_q, p)
    angular, linear = frame_velocity(model, frame, all_q, all_v, p)
    B, offset = ca.SX(ca.DM(base.rotation)), R @ ca.DM(tool.position)
    linear = linear + ca.cross(angular, offset)
    J = ca.densify(ca.jacobian(ca.vertcat(B @ linear, B @ angular), v))
    S = ca.vertcat(J[:3, :] / length, J[3:, :])
    factor = cholesky(S @ S.T)
    manipulability = ca.SX(1.0)
    for k in range(6):
        manipulability *= factor[k, k]
    # M tr(dS/dq_i S^+), every i in one sweep back through the kinematics
    gradient = manipulability * ca.jtimes(ca.vec(S), q, ca.vec(solve_cholesky(factor, S)), True)
    position, rotation = ca.DM(base.position) + B @ (r + offset), B @ R @ ca.DM(tool.rotation)
    return ArmEquations(q, position, rotation, J, S, manipulability, ca.densify(gradient))


def _link(model: RobotModel, joint: str) -> Link:
    for link in model.links:
        if link.joint == joint and not link.follows and link.kind != "ball":
            return link
    raise ValueError(
        f"expected a hinge or slide of the model '{model.name}', found '{joint}'; "
        f"its joints are {', '.join(model.joint_names)}"
    )


def cholesky(A: ca.SX) -> ca.SX:
    """Lower triangle L with L L' = A (k, k); where A is singular, pivots that are nearly nothing."""
    n = A.shape[0]
    L = ca.SX.zeros(n, n)
    for j in range(n):
        L[j, j] = ca.sqrt(ca.fmax(A[j, j] - ca.sumsqr(L[j, :j]), SMALLEST))
        for i in range(j + 1, n):
            L[i, j] = (A[i, j] - ca.dot(L[i, :j], L[j, :j])) / L[j, j]
    return L


def solve_cholesky(L: ca.SX, b: ca.SX) -> ca.SX:
    """(L L')^-1 b."""
    n, rows = L.shape[0], [b[i, :] for i in range(L.shape[0])]
    for i in range(n):
        for k in range(i):
            rows[i] = rows[i] - L[i, k] * rows[k]
        rows[i] = rows[i] / L[i, i]
    for i in reversed(range(n)):
        for k in range(i + 1, n):
            rows[i] = rows[i] - L[k, i] * rows[k]
        rows[i] = rows[i] / L[i, i]
    return ca.vertcat(*rows)


def pose_symbols(name: str) -> tuple[ca.SX, tuple[ca.SX, ca.SX]]:
    """Twelve numbers, position and then the rotation row after row, and the pose that they are."""
    numbers = ca.SX.sym(name, 12)
    return numbers, (numbers[:3], ca.reshape(numbers[3:], 3, 3).T)


def pose_difference(target: tuple[ca.SX, ca.SX], now: tuple[ca.SX, ca.SX]) -> ca.SX:
    """What takes a pose to its target: (6, 1) [m, rad], the rotation as a vector in world axes."""
    return ca.vertcat(target[0] - now[0], _rotation_vector(target[1] @ now[1].T))


def _rotation_vector(R: ca.SX) -> ca.SX:
    """Axis times angle of a rotation, the angle at most a half turn.

    By the largest entry of the quaternion, which neither a small nor a half turn makes vanish (Shepperd 1978).
    """
    w, x, y, z = (1.0 + R[0, 0] * a + R[1, 1] * b + R[2, 2] * c for a, b, c in _SIGNS)
    a, b, c = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    d, e, f = R[1, 0] + R[0, 1], R[0, 2] + R[2, 0], R[2, 1] + R[1, 2]
    quaternions = [ca.vertcat(w, a, b, c), ca.vertcat(a, x, d, e), ca.vertcat(b, d, y, f), ca.vertcat(c, e, f, z)]
    best, most = quaternions[0], w
    for entry, quaternion in zip((x, y, z), quaternions[1:]):
        best, most = ca.if_else(entry > most, quaternion, best), ca.fmax(entry, most)
    best = ca.if_else(best[0] < 0.0, -best, best)
    sine = ca.sqrt(ca.sumsqr(best[1:]))
    angle = 2.0 * ca.atan2(sine, best[0])
    return best[1:] * ca.if_else(sine > 1e-12 * best[0], angle / ca.fmax(sine, 1e-300), 2.0 / best[0])


_SIGNS = ((1.0, 1.0, 1.0), (1.0, -1.0, -1.0), (-1.0, 1.0, -1.0), (-1.0, -1.0, 1.0))


def shortened(error: ca.SX, reach: tuple[float, float]) -> ca.SX:
    """An error (6, 1) whose two halves are no longer than the reach [m], [rad]."""
    parts = [error[:3], error[3:]]
    for k, part in enumerate(parts):
        size = ca.sqrt(ca.sumsqr(part))
        parts[k] = part * ca.if_else(size > reach[k], reach[k] / size, 1.0)
    return ca.vertcat(*parts)


class OneCall:
    """A function of one vector, compiled where a compiler is, for one point at a time.

    It may be called from several threads at once.

    Args:
        name: of the library: a C identifier.
        function: from (a,) to (b,), numbers without unit of their own.
    """

    def __init__(self, name: str, function: ca.Function) -> None:
        self._library = compile_library(name, {"evaluate": function}, lanes=1)
        self._size = function.size1_out(0)
        if self._library.compiled:
            self._call = self._library.symbol(
                "call_evaluate", [ctypes.POINTER(Rows), ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64, ctypes.c_int]
            )

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        """At numbers (a,): (b,)."""
        if not self._library.compiled:
            return self._library.call("evaluate", numbers)[0]
        out = np.empty(self._size)
        rows = Rows(numbers.ctypes.data, 0)
        check(self._call(rows, ctypes.c_void_p(out.ctypes.data), 1, 1))
        return out
