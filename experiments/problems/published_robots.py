"""Published robots as their authors' URDFs have them, loaded here and by Pinocchio.

The files are those of the package example-robot-data. Pinocchio reads each on its own, without couplings: with all its
joints s = C q + d and tau_s = ID(s, s', s''), dynamics in the coordinates q of the project are

    tau = C' ID(C q + d, C v, C a),    M = C' M_s C,    a = M^-1 (tau - tau at a = 0),

and their derivatives follow by the chain rule (`Pinocchio`). A floating base is a translation and a ball there as here.
"""

from __future__ import annotations

import importlib.metadata
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from config.tiers import require
from sim_core.multibody import Dynamics, ModelError, RobotModel, build, load_model

__all__ = ["Comparison", "compared", "compiled_error", "published_urdfs"]

#: of one robot's quantities, in this order
QUANTITIES = (
    "inverse dynamics",
    "gradients of inverse dynamics",
    "forward dynamics",
    "gradients of forward dynamics",
    "forces of the accelerations found",
)


def published_urdfs() -> dict[str, Path]:
    """Every URDF of example-robot-data by its path below the package's folder, without its suffix.

    Raises:
        MissingTierError: the tier 'robots' is not installed.
    """
    require("robots", "the comparison on published robots")
    files = importlib.metadata.distribution("example-robot-data").files or []
    paths = sorted(Path(str(file.locate())).resolve() for file in files if file.suffix == ".urdf")
    folder = "example-robot-data/robots/"
    return {str(path).partition(folder)[2].removesuffix(".urdf"): path for path in paths}


@dataclass
class Comparison:
    """What became of one URDF with a fixed or a floating base.

    Attributes:
        refused: why it was not loaded; "" if it was.
        notes: what was said on loading.
        nv, followers: velocities, and joints that follow others.
        load_time: [s].
        errors: worst error by quantity, see `error`.
    """

    name: str
    floating: bool
    refused: str = ""
    notes: tuple[str, ...] = ()
    nv: int = 0
    followers: int = 0
    load_time: float = 0.0
    errors: dict[str, float] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        """Largest of the errors; 0 where nothing was compared."""
        return max(self.errors.values(), default=0.0)


def compared(name: str, path: Path, floating: bool, states: int, seed: int) -> Comparison:
    """Load one URDF and compare it at random states."""
    start = time.perf_counter()
    try:
        model = load_model(path, floating_base=floating)
    except ModelError as why:
        return Comparison(name, floating, refused=str(why))
    loaded = time.perf_counter() - start
    said = tuple(
        note for note in model.notes if not note.startswith(("URDF names no", "Joint limits act", "Friction loss"))
    )
    result = Comparison(name, floating, "", said, model.nv, len(model.followers), loaded)
    own, oracle = _Own(model), _Pinocchio(path, model, floating)
    rng = np.random.default_rng(seed)
    for _ in range(states):
        q, v, a = _random_position(model, rng), rng.normal(size=model.nv), rng.normal(size=model.nv)
        tau, d_tau = oracle.inverse(q, v, a)
        expected = (tau, d_tau, *oracle.forward(q, v, tau), tau)
        scales = (1.0, 1.0, *oracle.sizes(q, v, tau), 1.0)
        found_a, found_da = own.forward(q, v, tau)
        found = (*own.inverse(q, v, a), found_a, found_da, oracle.inverse(q, v, found_a)[0])
        for quantity, ours, theirs, scale in zip(QUANTITIES, found, expected, scales):
            result.errors[quantity] = max(result.errors.get(quantity, 0.0), error(ours, theirs, scale))
    return result


def compiled_error(path: Path, seed: int) -> float:
    """How far the compiled step of a robot with a fixed base is from CasADi's evaluation of the same graph."""
    model = load_model(path)
    rng, dynamics = np.random.default_rng(seed), Dynamics(model)
    x = np.concatenate([_random_position(model, rng), rng.normal(size=model.nv)])
    u, p = np.clip(rng.normal(size=model.nu), model.u_lower, model.u_upper), model.parameters.nominal
    return error(dynamics.step(x, u, p), build.step(model, dynamics.dt)(x, u, p).full()[:, 0])


def error(found: np.ndarray, expected: np.ndarray, scale: float = 1.0) -> float:
    """Largest difference, relative to the largest expected entry and to a scale, whichever is more (SI units)."""
    return float(np.abs(found - expected).max() / max(scale, np.abs(expected).max()))


def _random_position(model: RobotModel, rng: np.random.Generator) -> np.ndarray:
    """Positions (nq,) with random orientations, uniform in the joints' limits or two half turns where there are none."""
    low, high = np.maximum(model.q_lower, -np.pi), np.minimum(model.q_upper, np.pi)
    low, high = np.minimum(low, high), np.maximum(low, high)
    q = rng.uniform(low, high)
    for link in model.links:
        if link.kind == "ball":
            q[link.positions] = (quat := rng.normal(size=4)) / np.linalg.norm(quat)
    return q


class _Own:
    """The project's equations on CasADi's virtual machine."""

    def __init__(self, model: RobotModel) -> None:
        self.model, self.p = model, model.parameters.nominal
        self._inverse, self._forward = build.inverse_dynamics(model), build.forward_dynamics(model)
        self._along = {f.name(): f.forward(1) for f in (self._inverse, self._forward)}

    def inverse(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """tau (nv,) and its derivatives (nv, 3 nv) by displacements of q, by v and by a."""
        return self._with_gradients(self._inverse, q, v, a)

    def forward(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """a (nv,) and its derivatives (nv, 3 nv) by displacements of q, by v and by tau."""
        return self._with_gradients(self._forward, q, v, tau)

    def _with_gradients(self, f: ca.Function, *at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, value = self.model.nv, f(*at, self.p).full()
        I, O = np.eye(n), np.zeros((n, n))
        directions = (
            np.hstack([self._displacements(at[0]), np.zeros((self.model.nq, 2 * n))]),
            np.hstack([O, I, O]),
            np.hstack([O, O, I]),
            np.zeros((len(self.p), 3 * n)),
        )
        return value[:, 0], self._along[f.name()](*at, self.p, value, *directions).full()

    def _displacements(self, q: np.ndarray) -> np.ndarray:
        """dq (nq, nv) per rate: a quaternion's changes are half of itself times the rotation vector in body axes."""
        N = np.zeros((self.model.nq, self.model.nv))
        for link in self.model.links:
            if link.kind == "ball":
                w, x, y, z = q[link.positions] / 2
                N[link.positions, link.dofs] = [[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]]
            elif not link.follows:
                N[link.q_index, link.v_index] = 1.0
        return N


class _Pinocchio:
    """Pinocchio's algorithms on the URDF, seen in the project's coordinates."""

    def __init__(self, path: Path, model: RobotModel, floating: bool) -> None:
        import pinocchio

        self.pin: Any = pinocchio
        self.model = model
        fixed = pinocchio.buildModelFromUrdf(str(path))
        self.robot = self._floating(fixed) if floating else fixed
        self.limits = {
            name: (fixed.lowerPositionLimit[joint.idx_q], fixed.upperPositionLimit[joint.idx_q])
            for name, joint in list(zip(fixed.names, fixed.joints))[1:]
            if joint.nq == 1
        }
        self.data = self.robot.createData()
        names = list(self.robot.names)
        self.C = np.zeros((self.robot.nv, model.nv))
        self.place: list[tuple[Any, Any]] = []
        for link in model.links:
            if link.joint not in names:  # those of the base
                continue
            joint = self.robot.joints[self.robot.getJointId(link.joint)]
            self.C[joint.idx_v, link.v_index] = link.ratio
            self.place.append((joint, link))
        self.floating = floating
        if floating:
            self.C[:6, :6] = np.eye(6)

    def _floating(self, fixed: Any) -> Any:
        """The same robot on a translation and a ball.

        Pinocchio's own free joint moves by velocities in the base's axes, and of composite joints its derivatives are wrong.
        """
        pin, straight = self.pin, self.pin.SE3.Identity()
        robot = pin.Model()
        slides = robot.addJoint(0, pin.JointModelTranslation(), straight, "base_xyz")
        above = {0: robot.addJoint(slides, pin.JointModelSpherical(), straight, "base_ball")}
        for i, joint in enumerate(fixed.joints):
            if i:
                parent = above[fixed.parents[i]]
                above[i] = robot.addJoint(parent, joint, fixed.jointPlacements[i], fixed.names[i])
            robot.appendBodyToJoint(above[i], fixed.inertias[i], straight)
        return robot

    def _all(self, q: np.ndarray) -> np.ndarray:
        """Positions of all of Pinocchio's joints; those that are fixed here at zero or the nearest that they reach."""
        s = self.pin.neutral(self.robot)
        for name, limits in self.limits.items():
            s[self.robot.joints[self.robot.getJointId(name)].idx_q] = np.clip(0.0, *limits)
        if self.floating:
            s[:3], s[3:7] = q[:3], np.roll(q[3:7], -1)
        for joint, link in self.place:
            angle = link.ratio * q[link.q_index] + link.shift
            s[joint.idx_q : joint.idx_q + joint.nq] = angle if joint.nq == 1 else (np.cos(angle), np.sin(angle))
        return s

    def inverse(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        s, C = self._all(q), self.C
        tau = self.pin.rnea(self.robot, self.data, s, C @ v, C @ a)
        dq, dv, M = self.pin.computeRNEADerivatives(self.robot, self.data, s, C @ v, C @ a)
        M = np.triu(M) + np.triu(M, 1).T
        return C.T @ tau, C.T @ np.hstack([dq @ C, dv @ C, M @ C])

    def forward(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where no joint follows another, by Pinocchio's articulated bodies; else from inverse dynamics."""
        n, C = len(v), self.C
        if C.shape[0] == n:
            at = self.robot, self.data, self._all(q), C @ v, C @ tau
            a = C.T @ self.pin.aba(*at)
            dq, dv, inverse = (np.array(part) for part in self.pin.computeABADerivatives(*at)[:3])
            inverse = np.triu(inverse) + np.triu(inverse, 1).T
            return a, np.hstack([C.T @ part @ C for part in (dq, dv, inverse)])
        bias, gradients = self.inverse(q, v, np.zeros(n))
        M = gradients[:, 2 * n :]
        a = np.linalg.solve(M, tau - bias)
        _, gradients = self.inverse(q, v, a)
        return a, np.linalg.solve(M, np.hstack([-gradients[:, : 2 * n], np.eye(n)]))

    def sizes(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> tuple[float, float]:
        """Scales of a = M^-1 (tau - b) and of its gradient -M^-1 d(M a + b): what they came to if nothing cancelled.

        Rounding changes forces in their last places and accelerations by s = |M^-1| (|tau| + |b|) times as much, which is
        their scale. The gradient's is |M^-1| |d(M s + b)|. For a robot whose M is well conditioned these are the largest
        entries, or a few times them; links of a gram behind links of many kilograms make them large.
        """
        n = len(v)
        bias, gradients = self.inverse(q, v, np.zeros(n))
        inverse = np.abs(np.linalg.inv(gradients[:, 2 * n :]))
        size = inverse @ (np.abs(tau) + np.abs(bias))
        _, gradients = self.inverse(q, v, size)
        d_tau = np.hstack([np.abs(gradients[:, : 2 * n]), np.eye(n)])
        return float(size.max()), float((inverse @ d_tau).max())
