"""The avatar's hand alone, with an object in it, on a wrist that shakes: what a grasp is worth.

    bench = HandBench(OBJECTS["small ball"])
    bench.close(angles)                          # the object is held for the hand until the fingers have come to it
    rounds = bench.shake(targets)                # how many rounds it survives, 0 to 5

The wrist moves along a square in the vertical plane before the operator, side after side, once in each round; every round is
faster than the one before it. What falls, or slides by more than `LOST` in the hand, is lost.

Source of the test: Zhu, PhD thesis, University of Illinois (2023), section 8.5: "shaking in a square with rising intensity",
at most five rounds. Size, speeds and objects are ours: the thesis does not state them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import mujoco
import numpy as np

from sim_core.plant.avatar.end_effectors import FINGERS, add_hand

__all__ = ["MOTORS", "OBJECTS", "ROUNDS", "GraspedObject", "HandBench", "square"]

SIDE = "left"
#: the hand's motors, in the order in which a task's `hand` names them
MOTORS = (*(name for name, *_ in FINGERS), "thumb_flexion", "thumb_rotation")
ROUNDS = 5
#: [m] side of the square; [m/s^2] greatest acceleration along a side, round by round
SQUARE_SIDE, ACCELERATION = 0.10, (4.0, 8.0, 12.0, 16.0, 20.0)
#: [m] by which an object may shift in the hand before it counts as lost
LOST = 0.035
#: share of their way to which the fingers are open before they close about the object
OPEN = 0.3
#: of the palm in the world
PALM = (0.5, 0.5, 0.5, 0.5)
TICK, COMMAND_EVERY = 0.002, 8  # [s]; ticks between two targets: 62.5 Hz
#: [s] of closing about the held object, of settling once nothing else holds it, of rest between rounds
CLOSING, SETTLING, REST = 0.8, 0.6, 0.1
#: [rad/s] bandwidth of the fingers' position loops, as the teleoperation sets it; [rad/s], [kg] of the wrist's carriage
FINGER_BANDWIDTH, WRIST_BANDWIDTH, CARRIAGE = 40.0, 150.0, 20.0


@dataclass(frozen=True)
class GraspedObject:
    """What is held.

    Attributes:
        name: in words. shape: sphere, box or cylinder.
        size: as MuJoCo has it: radius; half lengths; radius and half length [m].
        mass: [kg].
        position: of its centre in the palm's axes [m]. z_axis: of a cylinder, in the palm's axes.
        friction: of its surface, sliding [1]; a pair of surfaces has the larger one of the two.
    """

    name: str
    shape: str
    size: tuple[float, ...]
    mass: float
    position: tuple[float, float, float]
    z_axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    friction: float = 0.8


OBJECTS = {
    "Pinch 1": GraspedObject("small ball", "sphere", (0.011,), 0.03, (-0.076, 0.03, 0.119)),
    "Pinch 2": GraspedObject("pen", "cylinder", (0.006, 0.06), 0.03, (-0.077, 0.02, 0.119), (0.0, 1.0, 0.0)),
    "Cube": GraspedObject("cube", "box", (0.02, 0.02, 0.02), 0.10, (-0.065, 0.012, 0.118)),
    "Power": GraspedObject("cylinder", "cylinder", (0.018, 0.05), 0.25, (-0.033, 0.0, 0.098), (0.0, 1.0, 0.0)),
}


class HandBench:
    """See the module's docstring.

    Args:
        grasped: what is held.

    Attributes:
        lower, upper: limits of the motors' joints (6,) [rad].
        model, data: MuJoCo's, for whoever draws them.
    """

    def __init__(self, grasped: GraspedObject) -> None:
        self.grasped = grasped
        self.model = _spec(grasped).compile()
        self.data = mujoco.MjData(self.model)
        model = self.model
        joints = [model.joint(f"{SIDE}_{name}").id for name in MOTORS]
        self._q, self._v = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        self.lower, self.upper = model.jnt_range[joints, 0].copy(), model.jnt_range[joints, 1].copy()
        self._wrist = [int(model.joint(name).dofadr[0]) for name in ("across", "up")]
        mujoco.mj_forward(model, self.data)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, self.data, M)
        inertia = np.diag(M)[self._v]
        self._kp, self._kd = FINGER_BANDWIDTH**2 * inertia, 2.0 * FINGER_BANDWIDTH * inertia
        self._effort = model.actuator_ctrlrange[[model.actuator(f"{SIDE}_{name}").id for name in MOTORS], 1]
        self._actuators = [model.actuator(f"{SIDE}_{name}").id for name in MOTORS]

    def close(self, angles: np.ndarray) -> bool:
        """Close the hand about the held object, then let go of the object; whether it stays.

        Args:
            angles: of the motors' joints (6,) [rad].
        """
        mujoco.mj_resetData(self.model, self.data)
        goal = np.clip(angles, self.lower, self.upper)
        self.data.eq_active[self._support] = 1
        start = np.minimum(goal, OPEN * self.upper)
        start[-1] = goal[-1]  # the thumb stands where it will be, and bends
        self._place(start)
        steps = round(CLOSING / TICK)
        for k in range(steps):
            share = min(1.0, 1.6 * k / steps)
            self._tick(start + share * (goal - start), np.zeros(2), np.zeros(2), np.zeros(2))
        self.data.eq_active[self._support] = 0
        for _ in range(round(SETTLING / TICK)):
            self._tick(goal, np.zeros(2), np.zeros(2), np.zeros(2))
        self._held_at = self.place()
        return not self.lost(np.array(self.grasped.position))

    def shake(self, targets: np.ndarray) -> int:
        """Rounds that the object survives, 0 to `ROUNDS`.

        Args:
            targets: angles of the motors' joints (6,), or one set after the other (m, 6) at 62.5 Hz, again from the first when
                they have ended [rad].
        """
        targets = np.clip(np.atleast_2d(targets), self.lower, self.upper)
        if self.lost(np.array(self.grasped.position)):
            return 0
        tick = 0
        for number, most in enumerate(ACCELERATION):
            for way, speed, acceleration in square(most, TICK):
                self._tick(targets[tick // COMMAND_EVERY % len(targets)], way, speed, acceleration)
                tick += 1
                if tick % 10 == 0 and self.lost(self._held_at):
                    return number
        return ROUNDS

    def place(self) -> np.ndarray:
        """Of the object in the palm's axes (3,) [m]."""
        palm = self.data.body(f"{SIDE}_palm")
        return palm.xmat.reshape(3, 3).T @ (self.data.body("object").xpos - palm.xpos)

    def lost(self, was: np.ndarray) -> bool:
        """Whether the object is too far from where it was in the palm's axes (3,) [m]."""
        place = self.place()
        return not np.isfinite(place).all() or float(np.linalg.norm(place - was)) > LOST

    # -- within ------------------------------------------------------------------------------------

    @property
    def _support(self) -> int:
        return int(self.model.equality("support").id)

    def _place(self, angles: np.ndarray) -> None:
        """The hand's joints, followers too, before anything moves."""
        model, data = self.model, self.data
        data.qpos[self._q] = angles
        for e in range(model.neq):
            if model.eq_type[e] == mujoco.mjtEq.mjEQ_JOINT:
                follower, leader = model.jnt_qposadr[[model.eq_obj1id[e], model.eq_obj2id[e]]]
                data.qpos[follower] = model.eq_data[e, 1] * data.qpos[leader]
        mujoco.mj_forward(model, data)

    def _tick(self, angles: np.ndarray, way: np.ndarray, speed: np.ndarray, acceleration: np.ndarray) -> None:
        model, data, wrist = self.model, self.data, self._wrist
        tau = self._kp * (angles - data.qpos[self._q]) - self._kd * data.qvel[self._v]
        data.ctrl[self._actuators] = np.clip(tau, -self._effort, self._effort)
        # The carriage is heavy and stiff, so that the wrist goes where it shall, whatever the hand weighs.
        w, error = WRIST_BANDWIDTH, way - data.qpos[wrist]
        data.qfrc_applied[wrist] = CARRIAGE * (acceleration + w * w * error + 2.0 * w * (speed - data.qvel[wrist]))
        mujoco.mj_step(model, data)


def square(most: float, tick: float) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Place [m], speed [m/s] and acceleration [m/s^2] of the wrist, (2,) each, tick by tick, once around and a rest.

    A side is s(x) = 10 x^3 - 15 x^4 + 6 x^5, whose acceleration is at most 10 / sqrt(3) of a side over its time squared.

    Args:
        most: acceleration [m/s^2]. tick: [s].
    """
    duration = float(np.sqrt(10.0 / np.sqrt(3.0) * SQUARE_SIDE / most))
    steps = max(2, round(duration / tick))
    duration = steps * tick
    corners = SQUARE_SIDE * np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    for side in range(4):
        start, end = corners[side], corners[(side + 1) % 4]
        for k in range(1, steps + 1):
            x = k / steps
            s, v = x**3 * (10.0 - 15.0 * x + 6.0 * x * x), 30.0 * x * x * (1.0 - x) ** 2
            a = 60.0 * x * (1.0 - x) * (1.0 - 2.0 * x)
            yield start + s * (end - start), v * (end - start) / duration, a * (end - start) / duration**2
    for _ in range(round(REST / tick)):
        yield corners[0], np.zeros(2), np.zeros(2)


def _spec(grasped: GraspedObject) -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.compiler.degree, spec.compiler.autolimits = False, True
    # as the whole robot's (builder.py)
    spec.option.timestep, spec.option.integrator = TICK, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0
    for name, grey in (("shell", 0.93), ("dark", 0.22)):
        spec.add_material(name=name, rgba=(grey, grey, grey, 1.0))
    carriage = spec.worldbody.add_body(
        name="carriage", mass=1e-3, ipos=(0.0, 0.0, 0.0), inertia=(1e-6,) * 3, gravcomp=1.0, explicitinertial=True
    )
    for name, axis in (("across", (0.0, 1.0, 0.0)), ("up", (0.0, 0.0, 1.0))):
        joint = carriage.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis, armature=CARRIAGE)
        joint.limited = mujoco.mjtLimited.mjLIMITED_FALSE
    # fingers forward along the world's x, the thumb's side up, the palm's -x to the right: a left hand held out
    palm = carriage.add_body(name=f"{SIDE}_palm", quat=PALM)
    add_hand(spec, palm, SIDE)
    R = _matrix(PALM)
    thing = spec.worldbody.add_body(name="object", pos=R @ grasped.position, quat=_turned(R, grasped.z_axis))
    thing.add_freejoint()
    kind = {"sphere": mujoco.mjtGeom.mjGEOM_SPHERE, "box": mujoco.mjtGeom.mjGEOM_BOX}.get(
        grasped.shape, mujoco.mjtGeom.mjGEOM_CYLINDER
    )
    thing.add_geom(
        name="object",
        type=kind,
        size=(*grasped.size, 0.0, 0.0)[:3],
        mass=grasped.mass,
        condim=4,
        friction=(grasped.friction, 0.01, 0.0005),
        rgba=(0.8, 0.35, 0.25, 1.0),
    )
    support = spec.add_equality(
        type=mujoco.mjtEq.mjEQ_WELD,
        objtype=mujoco.mjtObj.mjOBJ_BODY,
        name="support",
        name1="object",
        name2=f"{SIDE}_palm",
    )
    support.solref[:2], support.solimp[:2] = (0.005, 1.0), (0.99, 0.999)
    return spec


def _matrix(quaternion: tuple[float, float, float, float]) -> np.ndarray:
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, np.asarray(quaternion, float))
    return R.reshape(3, 3)


def _turned(R: np.ndarray, z_axis: tuple[float, float, float]) -> np.ndarray:
    """Quaternion of a body whose z axis is that of the palm's axes."""
    quaternion = np.zeros(4)
    mujoco.mju_quatZ2Vec(quaternion, R @ np.asarray(z_axis, float))
    return quaternion
