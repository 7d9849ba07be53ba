"""An arm that carries a probe: from its joints and the wrenches at its wrist to what its joints shall do.

    arm = PokingArm(load_model("panda_poker"), "probe_tip", "wrist")
    arm.start_at(q)
    motion = arm.poke(order)
    joints = arm.cycle(q, v, heard, dt)                 # 250 times a second

Whether it reaches a place it finds out step by step while it stands still: no cycle takes longer for it. Between pokes it travels above everything: up, over, down. While the tip advances, what the object pushes with is fed forward to the joints,
up to little more than the poke's limit, so that the speed is the one asked for; the springs of the joints add no more than the leash
of the tip's target gives them. An arm whose sensor says nothing, or always the same, thus pushes with a bounded force.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.auscultation.placement import facing
from sim_core.elastic.poke_motion import PokeMotion, PokeOrder, PokePhase, PokeSettings
from sim_core.elastic.probe_reading import Heard, JointTrace, ProbeReading, ProbeReadings
from sim_core.elastic.rigid_body import probe_pose
from sim_core.multibody import RobotModel
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_joints import greatest_torques, joint_springs, step_time, turned_posture, unhurried
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.avatar import Motion
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.model_forces import ModelForces

__all__ = ["PERIOD", "PokeReach", "PokingArm"]

Found = TypeVar("Found")

#: [s] between two cycles, that of the published log
PERIOD = 0.004
#: [Hz] of the low pass of what is fed forward; [s] without a reading after which it fades
CUTOFF, FADES = 25.0, 0.02
#: steps of the inverse kinematics that bring the tip no nearer, after which it comes no nearer; steps in a cycle
STUCK, LOOKS = 8, 1
#: rolls of a probe that looks alike from all sides, which are tried one after the other [rad]
ROLLS = (0.0, 1.0, -1.0, 2.0, -2.0, 3.0)


@dataclass(frozen=True)
class PokeReach:
    """What a place has to be like to be poked.

    Attributes:
        position, turn: by which the tip may miss a goal [m], [rad]. travel: height of the tip at which the arm goes from one place to another [m].
        lowest: height of the tip and of the wrist over the arm's foot [m]. hand: from the tip back to what must not come lower than that [m].
        aside: distance of the tip from the base's axis [m].
    """

    position: float = 0.002
    turn: float = 0.02
    travel: float = 0.45
    lowest: float = 0.02
    hand: float = 0.2
    aside: float = 0.2


class PokingArm:
    """See the module's docstring.

    Args:
        model: of the robot, whose joints are all hinges and are all driven. frame, wrist: sites of the probe's tip (z back to the wrist) and of
            the force-torque sensor. settings, reach: see there. period: [s] between two cycles.

    Attributes:
        kinematics: of the tip. kp, kd: of the joints (n,) [N m/rad], [N m s/rad]. told: joint positions that they were told last (n,) [rad].
        motion: the poke under way, or the last one; None: none yet. force: on the probe in the world's axes, low-passed (3,) [N], what the
            sensor says in the air included; NaN: unknown. new: readings of the last cycle.

    Raises:
        ValueError: a joint has no motor, or one without a limit. KeyError: a site is missing.
    """

    def __init__(
        self,
        model: RobotModel,
        frame: str,
        wrist: str,
        settings: PokeSettings = PokeSettings(),
        reach: PokeReach = PokeReach(),
        period: float = PERIOD,
    ) -> None:
        self.kinematics = k = ArmKinematics(model, frame)
        self.settings, self.reach, self.period = settings, reach, period
        self.readings, self._trace = ProbeReadings(model, frame, wrist), JointTrace()
        self._waiting: list[tuple[float, np.ndarray]] = []
        self._ik = QpIk(k, damping=1e-4, pull=1e-5, period=period)
        self._at_leisure = QpIk(k, damping=1e-4, pull=1e-5, period=np.inf)
        self._forces = ModelForces(model)
        self.effort, self._speed = greatest_torques(model), np.asarray(model.v_limit, float)
        self.kp, self.kd = joint_springs(self.effort)
        self.told = k.home.copy()
        self.motion: PokeMotion | None = None
        self._homing: list[np.ndarray] = []
        self._search: Generator[None, None, list[Pose] | str] | None = None
        self._bias = k.home
        self._felt, self._felt_at, self._now = np.zeros(3), -np.inf, -np.inf
        self.new: list[ProbeReading] = []

    # -- what is known of it -----------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a poke is under way, its way back included."""
        return self.motion is not None and not self.motion.ended

    @property
    def homing(self) -> bool:
        """Whether it is on its way home."""
        return bool(self._homing)

    @property
    def target(self) -> Pose:
        """Where the tip was told to be."""
        return self.kinematics.at(self.told).pose

    @property
    def force(self) -> np.ndarray:
        """See the class."""
        known = abs(self._now - self._felt_at) <= self.settings.silent
        return self._felt.copy() if known else np.full(3, np.nan)

    def pose(self, q: np.ndarray) -> Pose:
        """Of the tip at joint positions q (n,) [rad]."""
        return self.kinematics.at(q).pose

    # -- what it is asked for ----------------------------------------------------------------------

    def start_at(self, q: np.ndarray, why: str = "the arm was stopped") -> None:
        """The joints are there (n,) [rad]: everything goes on from it, without a jump.

        A poke that is under way has failed, for the reason given, and what is left of it is the way back.
        """
        # Measured at its stop, a joint may lie beyond its limit by its noise; a command may not.
        self.told = np.clip(np.array(q, float), self.kinematics.lower, self.kinematics.upper)
        self._homing = []
        self._trace.forget()
        self._waiting.clear()
        self._felt_at = -np.inf
        if self.motion is not None and self.busy:
            self.motion.stop(why)
            self.motion.go_on(self.target)

    def stop(self, why: str) -> None:
        """Nothing moves the joints any more, for this reason; `start_at` follows when something does."""
        self._homing = []
        if self.motion is not None:
            self.motion.stop(why)

    def poke(self, order: PokeOrder, symmetric: bool = True) -> PokeMotion:
        """Begin a poke from where the arm is.

        Args:
            symmetric: the probe looks alike from all sides, so that the roll is the arm's to choose.

        Raises:
            RuntimeError: another one is under way.
        """
        if self.busy:
            raise RuntimeError("a poke is under way")
        self._homing = []
        self.motion = PokeMotion(order, self.target, self.settings)
        self._search = self._find_way(order, symmetric)
        return self.motion

    def go_home(self) -> str:
        """Begin to go home; "" or the sentence why not."""
        if self.busy:
            return "A poke is under way: cancel it, or wait for its end."
        here, travel = self.target, self.reach.travel
        up, _ = _found(
            self._come(Pose(np.r_[here.position[:2], max(here.position[2], travel)], here.rotation), self.told)
        )
        self._homing = [up, self.kinematics.home.copy()]
        return ""

    # -- the cycle ---------------------------------------------------------------------------------

    def cycle(self, q: np.ndarray, v: np.ndarray, heard: Heard, dt: float) -> Motion:
        """What the joints shall do until the next cycle.

        Args:
            q, v: as measured (n,) [rad], [rad/s]. heard: what the sensor said since the last cycle. dt: since that [s].
        """
        dt, before = step_time(dt, self.period), self.told
        self._hear(q, heard)
        motion = self.motion
        if motion is not None and motion.phase is PokePhase.REACH:
            self._look(motion)
        if motion is not None and self.busy and dt > 0.0:
            target = motion.step(self.pose(q), dt)
            step = self._ik.step(target, self.told, self._preferred(self.told)) - self.told
            self.told = self.told + unhurried(step, self._speed, dt)
        elif self._homing and dt > 0.0:
            self._home(dt)
        velocity = (self.told - before) / dt if dt > 0.0 else np.zeros_like(before)
        effort = self._forces(q, v, np.zeros_like(q)) - self.kinematics.at(q).J[:3].T @ self._pushed()
        return Motion(self.told.copy(), velocity, np.clip(effort, -self.effort, self.effort), self.kp, self.kd)

    def _hear(self, q: np.ndarray, heard: Heard) -> None:
        """Bring each word of the sensor together with where the joints were then; those whose moment is still to come wait."""
        now = heard.now
        if now < self._now:
            self._felt_at = -np.inf
        self._now, self.new = now, []
        self._trace.add(now, q)
        self._waiting += heard.words
        later = []
        for stamp, wrench in self._waiting:
            joints = self._trace.at(stamp)
            if joints is None:
                if now < stamp <= now + 10.0 * self.period:
                    later.append((stamp, wrench))
                continue
            if not np.isfinite(wrench).all():
                continue
            reading = self.readings.at(stamp, joints, wrench)
            since = stamp - self._felt_at
            gain = 1.0 - float(np.exp(-2.0 * np.pi * CUTOFF * since)) if since > 0.0 else 0.0
            self._felt = self._felt + gain * (reading.wrench[:3] - self._felt)
            self._felt_at = max(self._felt_at, stamp)
            self.new.append(reading)
            if self.motion is not None:
                self.motion.feel(reading)
        self._waiting = later

    def _pushed(self) -> np.ndarray:
        """What the object pushes with, to be fed forward (3,) [N]: only while the tip is at it, and only as much as may be."""
        motion = self.motion
        if motion is None or motion.phase not in (PokePhase.PRESS, PokePhase.RETRACT) or motion.log.air is None:
            return np.zeros(3)
        if self._now - self._felt_at > FADES:
            return np.zeros(3)
        pushed = self._felt - motion.log.air[:3]
        size = float(np.linalg.norm(pushed))
        return pushed * min(1.0, (motion.order.force_limit + self.settings.margin) / max(size, 1e-9))

    def _preferred(self, q: np.ndarray) -> np.ndarray:
        """The posture that the inverse kinematics prefer at joint positions q (n,) [rad]: that of home, less what would move the tip."""
        return turned_posture(self._bias, q, self.kinematics.at(q).J)

    def _home(self, dt: float) -> None:
        """Evenly to one posture after the other."""
        away = self._homing[0] - self.told
        most = float(np.max(np.abs(away) / (0.25 * self._speed * dt)))
        if most <= 1.0:
            self.told = self._homing.pop(0)
        else:
            self.told = self.told + away / most

    # -- ways and what is in reach -----------------------------------------------------------------

    def _look(self, motion: PokeMotion) -> None:
        """A few steps of the search for a way; what it finds begins the poke or ends it."""
        assert self._search is not None
        for _ in range(LOOKS):
            try:
                next(self._search)
            except StopIteration as found:
                if isinstance(found.value, str):
                    motion.refuse(found.value)
                else:
                    motion.begin(found.value)
                return

    def _find_way(self, order: PokeOrder, symmetric: bool) -> Generator[None, None, list[Pose] | str]:
        """Poses from where the arm is to the clearance before the point; the sentence why not, where it cannot be done."""
        why = ""
        for rotation in self._rotations(order, symmetric):
            way = self._way(order, rotation)
            if not (why := (yield from self._missed(order, way))):
                return way
        return why

    def _rotations(self, order: PokeOrder, symmetric: bool) -> list[np.ndarray]:
        """Of the probe, that are tried one after the other."""
        if not symmetric:
            return [probe_pose(order.point, order.normal, order.roll)[:3, :3]]
        # that of the home posture with the least turn, as the arm reaches the place: turned about its first joint
        yaw = float(np.arctan2(order.point[1], order.point[0]))
        home = self.kinematics.home.copy()
        at_home = self.kinematics.at(home)
        home[0] += yaw - float(np.arctan2(at_home.position[1], at_home.position[0]))
        home = np.clip(home, self.kinematics.lower, self.kinematics.upper)
        nearest = facing(order.normal, self.kinematics.at(home).rotation)
        return [
            np.stack(
                [c * nearest[:, 0] + s * nearest[:, 1], c * nearest[:, 1] - s * nearest[:, 0], nearest[:, 2]], axis=1
            )
            for c, s in ((np.cos(roll), np.sin(roll)) for roll in ROLLS)
        ]

    def _way(self, order: PokeOrder, rotation: np.ndarray) -> list[Pose]:
        """From where the arm is up, over, and down to the clearance before the point."""
        here, goal = self.target, order.at(-self.settings.clearance, rotation)
        level = max(self.reach.travel, float(goal.position[2]))
        up = Pose(np.r_[here.position[:2], max(level, here.position[2])], here.rotation)
        over = Pose(np.r_[goal.position[:2], max(level, goal.position[2])], rotation)
        return [up, over, goal]

    def _missed(self, order: PokeOrder, way: Sequence[Pose]) -> Generator[None, None, str]:
        """By how much the arm misses a pose of the way, or of the poke, as a sentence; "": it does not."""
        reach, rotation, q = self.reach, way[-1].rotation, self.told
        deepest = order.at(order.deepest, rotation)
        for place, what in ((way[-1], "before the point"), (deepest, "in the object")):
            low = float(min(place.position[2], place.position[2] + reach.hand * order.normal[2]))
            near = float(np.linalg.norm(place.position[:2]))
            if low < reach.lowest:
                return f"{what.capitalize()} the hand would come down to {1e3 * low:.0f} mm (at least {1e3 * reach.lowest:.0f} mm)."
            if near < reach.aside:
                return f"{what.capitalize()} the tip would come within {near:.2f} m of the base's axis (at least {reach.aside:g} m)."
        begin = self.target
        words = (
            "above where it is",
            "above the point",
            "before the point",
            "the stand-off",
            "the deepest displacement",
        )
        for goal, where in zip([*way, order.at(-self.settings.standoff, rotation), deepest], words):
            # Step by step, as the arm goes: another branch of the inverse kinematics is no use.
            for share in (0.25, 0.5, 0.75, 1.0):
                between = _between(begin, goal, share)
                q, (off, turn) = yield from self._come(between, q)
                if off > reach.position or turn > reach.turn:
                    return (
                        f"The arm comes no nearer to {where} than {1e3 * off:.0f} mm and {turn:.2f} rad "
                        f"(at most {1e3 * reach.position:.0f} mm and {reach.turn:g} rad)."
                    )
            begin = goal
        return ""

    def _come(self, goal: Pose, q: np.ndarray) -> Generator[None, None, tuple[np.ndarray, tuple[float, float]]]:
        """Joints that bring the tip nearest to a pose, from others (n,) [rad], and by how much they miss it [m], [rad]."""
        best, stuck = np.inf, 0
        while True:
            error = pose_error(goal, self.pose(q))
            off, turn = float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:]))
            if off < 1e-4 and turn < 1e-3:
                return q, (off, turn)
            weighed = off / self.reach.position + turn / self.reach.turn
            stuck = 0 if weighed < 0.98 * best else stuck + 1
            best = min(best, weighed)
            if stuck == STUCK:
                return q, (off, turn)
            q = self._at_leisure.step(goal, q, self._preferred(q))
            yield


def _found(search: Generator[None, None, Found]) -> Found:
    """What a search finds, at once."""
    try:
        while True:
            next(search)
    except StopIteration as found:
        return found.value


def _between(begin: Pose, end: Pose, share: float) -> Pose:
    """On the straight way from one pose to another."""
    off = pose_error(end, begin)
    turn = Rotation.from_rotvec(share * off[3:]).as_matrix()
    return Pose(begin.position + share * off[:3], turn @ begin.rotation)
