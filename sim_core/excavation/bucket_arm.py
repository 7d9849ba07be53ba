"""An arm that moves a bucket under joint impedance: from its joints and the wrench that it feels to what its joints shall do.

    arm = BucketArm(load_model("panda_bucket"), site)
    arm.start_at(q)
    motion = arm.begin(Move.DOWN)                       # or the sentence why not
    joints = arm.cycle(q, v, wrench, dt)                # 125 times a second

Each of the nine primitives begins at the pose that was last commanded, so that a bucket that does not follow builds up force. Over the pile
the joints' springs of 100 N m/rad are led so that the bucket meets the stiffness of the simulated pile's arm, whatever the posture: planners
learnt with it, and left alone, springs of a folded arm are three times as stiff, and those led to the joints of a pose far below a held bucket
twist it. The joints' damping is critical. A jam leaves the arm where it is, without the force; then it only goes up and away.

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.3; ways through the air, their speeds and the weighing are ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.excavation.arm_spring import COORDINATES, JOINT_STIFFNESS, SEVEN_JOINTS, critical_damping
from sim_core.excavation.bucket_motion import BucketMotion, JamLimits, MotionOutcome, Stretch
from sim_core.excavation.costs import Workspace
from sim_core.excavation.primitives import NAMES, PrimitiveSettings, displacements, duration, offset
from sim_core.multibody import RobotModel
from sim_core.telepresence.arm_ik import PERIOD, QpIk
from sim_core.telepresence.arm_joints import greatest_torques, step_time, unhurried
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.avatar import Motion
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.model_forces import ModelForces

__all__ = ["BucketArm", "DigSite", "Move", "Ways"]

#: [rad/s^2] of the joints that are made up for at most
SUDDEN = 30.0
#: by which inverse kinematics may miss a pose that counts as reached [m], [rad]
NEAR = (1e-3, 1e-2)
#: by which a bucket may be turned away [rad] and stand beside the middle of the pile [m] and still be over it; joints at home [rad]
ALIGNED, NEIGHBOURHOOD, AT_HOME = 0.15, 0.3, 0.05
#: [s] over which the force at the end of a motion is averaged
FELT = 0.05
#: where a bucket may be told to be: where planners may foretell it, and around that as far as one lags behind that blocks hold
TOLD = Workspace(lower=(0.15, -0.1, -0.3, -1.6), upper=(0.8, 0.1, 0.12, 1.4))
#: of the inverse of the Jacobian, whose least singular value over a pile is 0.2 [m^2]
DAMPING = 1e-6
#: by which a bucket may be lower than travelling while the arm unwinds [m]
CLEAR = 0.03
#: angles at which a bucket may be emptied, the first that the arm reaches [rad] without carrying it farther away from the bin [m]
TIPPED, DETOUR = (-1.9, -1.7, -1.5, -1.3, -1.1), 0.1


class Move(IntEnum):
    """The nine primitives, and the ways between the places of the arm."""

    FORWARD = 0
    BACK = 1
    LEFT = 2
    RIGHT = 3
    UP = 4
    DOWN = 5
    CLOSE = 6
    OPEN = 7
    WIGGLE = 8
    PLACE = 10
    LIFT = 11
    EMPTY = 12
    HOME = 13


@dataclass(frozen=True)
class DigSite:
    """Where things are, in the world.

    Attributes:
        pile: origin of the pile's frame, whose axes are the world's and whose z = 0 is the surface (3,) [m].
        bin: of the bucket's middle where it is emptied (3,) [m].
    """

    pile: tuple[float, float, float]
    bin: tuple[float, float, float]


@dataclass(frozen=True)
class Ways:
    """Through the air.

    Attributes:
        safe: height of the bucket's middle over the surface at which it travels [m]. lift: it is lifted by at least that [m].
        speed [m/s], turning [rad/s]: of the bucket. joints: share of their greatest velocities.
        still: for which a load is held before it is weighed, and as long again [s]. pouring: for which the bucket stays tipped [s].
    """

    safe: float = 0.12
    lift: float = 0.15
    speed: float = 0.2
    turning: float = 1.0
    joints: float = 0.25
    still: float = 0.8
    pouring: float = 1.0


class BucketArm:
    """See the module's docstring.

    Args:
        model: of the robot, whose joints are all hinges and are all driven, with a site `bucket` in the bucket's middle.
        site: see there. limits: at which it stops itself. primitives: their sizes and speeds. workspace: of what it may be told.
        ways: see there. period: between two cycles [s]. frame: name of that site.

    Attributes:
        kinematics: of the bucket. kp, kd: of the joints (n,) [N m/rad], [N m s/rad].
        stiffness: that the bucket meets over the pile, in the world's axes (6, 6) [N/m, N, N m/rad]: that of the simulated pile's arm in
            x, y, z and alpha. told: positions that they were told last (n,) [rad].
        commanded: pose that the bucket was told last, in the pile's frame (4,) [m, m, m, rad]; of no meaning where it is not over the pile.
        motion: under way, or the last one; None: none yet. jammed: it has not been lifted since it jammed.

    Raises:
        ValueError: a joint has no motor, or one without a limit, or one of the places is out of reach.
    """

    def __init__(
        self,
        model: RobotModel,
        site: DigSite,
        limits: JamLimits = JamLimits(),
        primitives: PrimitiveSettings = PrimitiveSettings(),
        workspace: Workspace = TOLD,
        ways: Ways = Ways(),
        period: float = PERIOD,
        frame: str = "bucket",
    ) -> None:
        self.kinematics = k = ArmKinematics(model, frame)
        self.site, self.limits, self.primitives, self.workspace, self.ways = site, limits, primitives, workspace, ways
        self.period, self._origin = period, np.array(site.pile)
        self.effort, self._speed = greatest_torques(model), np.asarray(model.v_limit, float)
        self._forces = ModelForces(model)
        self._ik = QpIk(k, damping=1e-4, pull=1e-5, period=period)
        self._at_leisure = QpIk(k, damping=1e-4, pull=1e-5, period=np.inf)
        middle = 0.5 * (np.array(workspace.lower) + np.array(workspace.upper))
        above = np.array([middle[0], middle[1], ways.safe, 0.0])
        home = k.home.copy()
        facing = home.copy()
        turned = k.at(home).rotation
        # turned as over the pile, about the arm's first joint
        facing[0] -= float(np.arctan2(turned[1, 0], turned[0, 0]))
        self.above = self._solved(self._world(above), facing, facing, "over the middle of the pile")
        self._bias, self._above = self.above, above
        self.kp = np.full(len(home), JOINT_STIFFNESS)
        self.stiffness = JOINT_STIFFNESS * np.eye(6)
        self.stiffness[np.ix_(COORDINATES, COORDINATES)] = SEVEN_JOINTS.K
        # critical in every mode, over the pile
        J = k.at(self.above).J
        free = np.eye(len(home)) - _inverse(J) @ J
        D = critical_damping(J.T @ self.stiffness @ J + JOINT_STIFFNESS * free, self.inertia(self.above))
        self.kd = np.diag(D).copy()
        self._across = D - np.diag(self.kd)  # which commands have no gains for
        self._bin, self._tipped = self._over_bin()
        self._sprung = False
        self.told, self._velocity = home, np.zeros_like(home)
        self.commanded, self.over_pile = np.full(4, np.nan), False
        self.motion: BucketMotion | None = None
        # of the last motion: whether it is known where it led, what it was, and where in the pile it was to lead
        self._settled, self._move = True, Move.HOME
        self._end: np.ndarray | None = None
        self.jammed, self._lifted = False, False
        self._recent: deque[np.ndarray] = deque(maxlen=max(1, round(FELT / period)))

    def inertia(self, q: np.ndarray) -> np.ndarray:
        """Of the joints (n, n) [kg m^2], at positions (n,) [rad]."""
        still = np.zeros_like(q)
        held = self._forces(q, still, still)
        return np.column_stack([self._forces(q, still, row) - held for row in np.eye(len(q))])

    # -- what is known of it -----------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a motion is under way."""
        return self.motion is not None and not self.motion.ended

    @property
    def target(self) -> Pose:
        """Where the bucket was told to be, in the world."""
        return self.kinematics.at(self.told).pose

    def pose(self, q: np.ndarray) -> Pose:
        """Of the bucket in the world, at joint positions (n,) [rad]."""
        return self.kinematics.at(q).pose

    def state(self, q: np.ndarray) -> np.ndarray:
        """Of the bucket in the pile's frame (4,) [m, m, m, rad]: x, y, z and the turn about y."""
        here = self.pose(q)
        return np.r_[here.position - self._origin, _turn(here.rotation)]

    @property
    def force(self) -> np.ndarray:
        """Of the pile on the bucket, mean over the last moment (3,) [N]; NaN: it is not known."""
        return np.mean(self._recent, axis=0) if self._recent else np.full(3, np.nan)

    @property
    def where(self) -> str:
        """In words, where it rests."""
        if self.jammed:
            return "jammed"
        if np.abs(self.told - self.kinematics.home).max() < AT_HOME:
            return "at home"
        if not self.over_pile:
            return "at rest"
        return "lifted" if self._lifted else "in the pile" if self.commanded[2] < self.ways.safe - 1e-6 else "at rest"

    # -- what it is asked for ----------------------------------------------------------------------

    def start_at(self, q: np.ndarray, why: str = "") -> None:
        """It is there (n,) [rad], without having been led; a motion under way ends, for a reason."""
        self.told = np.clip(np.array(q, float), self.kinematics.lower, self.kinematics.upper)
        self._velocity = np.zeros_like(self.told)
        if self.motion is not None:
            self.motion.stop(why or "the arm was stopped")
        self._settled = True
        self._stand()

    def stop(self, why: str) -> None:
        """Nothing moves the joints any more, for this reason; `start_at` follows when something does."""
        if self.motion is not None:
            self.motion.stop(why)

    def begin(self, move: Move, pose: Sequence[float] | None = None) -> BucketMotion | str:
        """Begin a motion, or say in a sentence why it cannot be.

        Args:
            pose: of the bucket in the pile's frame (4,) [m, m, m, rad], for PLACE.

        Raises:
            RuntimeError: another one is under way.
        """
        if self.busy:
            raise RuntimeError("a motion of the bucket is under way: cancel it, or wait for its end")
        self._settle()
        if move in (Move.PLACE, Move.LIFT, Move.EMPTY, Move.HOME):
            stretches, end = self._way(move, pose)
        else:
            stretches, end = self._primitive(move)
        if isinstance(stretches, str):
            return stretches
        if why := self._unreachable(stretches):
            return why
        self._end, self._move, self._settled = end, move, False
        limits = self.limits if move <= Move.WIGGLE else replace(self.limits, relief=np.inf)
        self.motion = BucketMotion(move.name.lower(), stretches, limits)
        return self.motion

    def _primitive(self, move: Move) -> tuple[list[Stretch] | str, np.ndarray | None]:
        if self.jammed:
            return "the arm stopped itself in the pile: lift the bucket first", None
        if not self.over_pile:
            return f"the bucket is {self.where}, not over the pile: place it first", None
        begin, settings = self.commanded.copy(), self.primitives
        way = displacements(settings)[move]
        ends = [begin + way]
        if move == Move.WIGGLE:
            aside = np.array([settings.amplitude, 0.0, 0.0, 0.0])
            ends = [begin + aside, begin - aside]
        for end in ends:
            if not (self.workspace.contains(end) or self._nearer(begin, end)):
                return self._outside(end), None
            if why := self._missed(self._world(end), self.told.copy(), NAMES[move])[1]:
                return why, None
        lasts = duration(int(move), settings)
        at = lambda t: self._world(begin + offset(int(move), min(t, lasts), settings)[0])
        return [Stretch(lasts, at, NAMES[move])], begin + way

    def _outside(self, pose: np.ndarray) -> str:
        """What is said of a pose (4,) that is not in the workspace."""
        return f"{_said(pose)} is not in the workspace, {_said(self.workspace.lower)} to {_said(self.workspace.upper)}"

    def _nearer(self, begin: np.ndarray, end: np.ndarray) -> bool:
        """Whether a motion leads back towards the workspace."""
        lower, upper = np.array(self.workspace.lower), np.array(self.workspace.upper)
        beyond = lambda pose: np.maximum(np.maximum(lower - pose, pose - upper), 0.0).sum()
        return bool(beyond(end) < beyond(begin))

    def _way(self, move: Move, pose: Sequence[float] | None) -> tuple[list[Stretch] | str, np.ndarray | None]:
        ways, at, here = self.ways, self.commanded.copy(), self.told.copy()
        if move == Move.LIFT:
            if not self.over_pile:  # whoever retreats need not know where the bucket is
                return [Stretch(self.period, lambda t: here, "resting")], None
            high = at[2] if self._lifted else max(at[2] + ways.lift, ways.safe)
            # An arm that a jam left wound up may not come that high with its bucket turned as it is, and does with a level one.
            tried = [np.r_[at[:2], high, share * at[3]] for share in (1.0, 0.5, 0.0)]
            up = next((one for one in tried if not self._missed(self._world(one), here, "lifting")[1]), tried[0])
            still = Stretch(2.0 * ways.still, lambda t: self._world(up), "holding the load still", rests=True)
            return [self._line(at, up, "lifting"), still], up
        way: list[Stretch] = []
        if self.over_pile and at[2] < ways.safe - 1e-6:
            up = np.r_[at[:2], ways.safe, at[3]]
            way.append(self._line(at, up, "going up"))
            at = up
        if move == Move.PLACE:
            goal = np.asarray(pose, float)
            if goal.shape != (4,) or not np.isfinite(goal).all():
                return f"pose: expected four finite numbers x, y, z, alpha, found {pose}", None
            if goal[2] < ways.safe and not self.workspace.contains(
                np.r_[goal[:2], min(goal[2], self.workspace.upper[2]), goal[3]]
            ):
                return self._outside(goal), None
            if not self.over_pile:
                way.append(self._joints(here, self.above, "going over the pile"))
                at = self._above
            over = np.r_[goal[:2], max(ways.safe, goal[2]), goal[3]]
            way += [self._line(at, over, "going over the place"), self._line(over, goal, "going down")]
            return way, goal
        if self.over_pile:
            way.append(self._back(at, self._ended(way)))
            here = self.above
        if move == Move.EMPTY:
            way += [
                self._joints(here, self._bin, "going over the bin"),
                self._joints(self._bin, self._tipped, "tipping the bucket"),
                Stretch(ways.pouring, lambda t: self._tipped, "tipping the bucket"),
                self._joints(self._tipped, self._bin, "turning the bucket back"),
            ]
            return way, None
        return [*way, self._joints(here, self.kinematics.home, "on the way home")], None

    def _ended(self, stretches: Sequence[Stretch]) -> np.ndarray:
        """Joints (n,) [rad] at the end of stretches from where it was told to be."""
        q = self.told.copy()
        for stretch in stretches:
            goal = stretch.at(stretch.lasts)
            q = self._come(goal, q)[0] if isinstance(goal, Pose) else np.array(goal, float)
        return q

    def _back(self, at: np.ndarray, q: np.ndarray) -> Stretch:
        """From a pose over the pile (4,), with joints (n,) [rad], to over its middle: straight, or joint by joint where that does not lead there.

        A jam may leave an arm wound up, so that no straight way leads out of it; joint by joint it has to stay as high as it is.
        """
        if self._missed(self._world(self._above), q, "")[1]:
            there = [
                self.kinematics.at(q + share * (self.above - q)).position[2] for share in np.linspace(0.0, 1.0, 21)
            ]
            if min(there) > self._origin[2] + self.ways.safe - CLEAR:
                return self._joints(q, self.above, "unwinding the arm over the pile")
        return self._line(at, self._above, "going over the pile")

    def _unreachable(self, stretches: Sequence[Stretch]) -> str:
        """Why a motion cannot be led to its end; "": it can."""
        q = self.told.copy()
        for stretch in stretches:
            goal = stretch.at(stretch.lasts)
            if not isinstance(goal, Pose):
                q = np.array(goal, float)
                continue
            q, why = self._missed(goal, q, stretch.phase)
            if why:
                return why
        return ""

    def _missed(self, goal: Pose, q: np.ndarray, phase: str) -> tuple[np.ndarray, str]:
        """Joints nearest to a pose, from others (n,) [rad], and by how much they miss it; "": they do not."""
        q, apart = self._come(goal, q)
        if apart[0] <= NEAR[0] and apart[1] <= NEAR[1]:
            return q, ""
        place = np.r_[goal.position - self._origin, _turn(goal.rotation)]
        return (
            q,
            f"the arm comes no nearer to {_said(place)} than {1e3 * apart[0]:.0f} mm and {apart[1]:.2f} rad, {phase}",
        )

    # -- the cycle ---------------------------------------------------------------------------------

    def cycle(self, q: np.ndarray, v: np.ndarray, wrench: np.ndarray, dt: float) -> Motion:
        """What the joints shall do until the next cycle.

        Args:
            q, v: as measured (n,) [rad], [rad/s]. wrench: of the pile on the bucket about its middle (6,) [N], [N m], in the world's axes;
                not finite: it is not known. dt: since the last cycle [s].
        """
        dt = step_time(dt, self.period)
        if np.isfinite(wrench).all():
            self._recent.append(np.array(wrench[:3]))
        else:
            self._recent.clear()
        self._settle()
        motion = self.motion
        if motion is None or motion.ended or dt == 0.0:
            return self._hold(np.zeros_like(q), q, v, dt)
        stretch = motion.step(wrench[:3], self.kinematics.at(q).J.T @ wrench, dt)
        if (
            motion.outcome is MotionOutcome.JAMMED
        ):  # it stays where it is, without the force that its command has built up
            self.told = np.clip(np.array(q, float), self.kinematics.lower, self.kinematics.upper)
        self._settle()
        if stretch is None:
            return self._hold(np.zeros_like(q), q, v, dt)
        goal = stretch.at(motion.time)
        aim = self._ik.step(goal, self.told, self._bias) if isinstance(goal, Pose) else np.asarray(goal, float)
        step = unhurried(aim - self.told, self._speed, dt)
        self.told = self.told + step
        self._sprung = isinstance(goal, Pose)
        if isinstance(goal, Pose):
            self.commanded = np.r_[goal.position - self._origin, _turn(goal.rotation)]
        return self._hold(step / dt, q, v, dt)

    def _settle(self) -> None:
        """Know where it stands after a motion, which may also end between two cycles: somebody calls it back."""
        motion = self.motion
        if self._settled or motion is None or not motion.ended:
            return
        self._settled = True
        if motion.outcome is not MotionOutcome.DONE:
            self._stand()
            self.jammed |= motion.outcome is MotionOutcome.JAMMED
            return
        self.jammed, self._lifted, self.over_pile = False, self._move == Move.LIFT, self._end is not None
        if self._end is not None and not motion.relieved:
            self.commanded = self._end.copy()

    def _stand(self) -> None:
        """It rests where it was told to be, wherever that is."""
        here = self.target
        self.commanded = self.state(self.told)
        upright = Rotation.from_rotvec([0.0, self.commanded[3], 0.0]).as_matrix()
        away = np.linalg.norm(self.commanded[:2] - self._above[:2])
        turned = np.linalg.norm(pose_error(Pose(here.position, upright), here)[3:])
        self.over_pile = self._sprung = bool(turned < ALIGNED and away < NEIGHBOURHOOD)
        self._lifted = False

    def _hold(self, velocity: np.ndarray, q: np.ndarray, v: np.ndarray, dt: float) -> Motion:
        """At `told`, through the joints' springs; what the commanded motion itself needs is fed forward."""
        position = self.told.copy()
        if self._sprung:
            position, velocity = self._led(q, velocity)
        faster = (velocity - self._velocity) / dt if dt > 0.0 else np.zeros_like(velocity)
        self._velocity = velocity
        effort = self._forces(q, v, np.clip(faster, -SUDDEN, SUDDEN)) + self._across @ (velocity - v)
        return Motion(position, velocity, np.clip(effort, -self.effort, self.effort), self.kp, self.kd)

    def _led(self, q: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Joints' targets [rad], [rad/s] at which their springs pull the bucket from joints q (n,) to where `told` has it.

        With `stiffness`, and without a force in the null space but for one that leads the joints to where they are over the pile's middle.
        """
        k = self.kinematics
        here, there = k.at(q), k.at(self.told)
        inverse = _inverse(here.J)
        away = self.above - q
        position = (
            q
            + here.J.T @ self.stiffness @ pose_error(there.pose, here.pose) / self.kp
            + away
            - inverse @ (here.J @ away)
        )
        velocity = inverse @ (there.J @ velocity)
        return np.clip(position, k.lower, k.upper), np.clip(velocity, -k.speed, k.speed)

    # -- the stretches of a way --------------------------------------------------------------------

    def _world(self, pose: np.ndarray) -> Pose:
        """A pose in the pile's frame (4,), in the world."""
        return Pose(self._origin + pose[:3], Rotation.from_rotvec([0.0, pose[3], 0.0]).as_matrix())

    def _line(self, begin: np.ndarray, end: np.ndarray, phase: str) -> Stretch:
        ways, way = self.ways, end - begin
        lasts = 1.5 * max(float(np.linalg.norm(way[:3])) / ways.speed, abs(float(way[3])) / ways.turning)
        return Stretch(lasts, _eased(lasts, lambda share: self._world(begin + share * way)), phase)

    def _joints(self, begin: np.ndarray, end: np.ndarray, phase: str) -> Stretch:
        way = end - begin
        lasts = 1.5 * float(np.max(np.abs(way) / (self.ways.joints * self._speed)))
        return Stretch(lasts, _eased(lasts, lambda share: begin + share * way), phase)

    def _come(self, goal: Pose, q: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
        """Joints that bring the bucket nearest to a pose, and by how much they miss it [m], [rad]."""
        for _ in range(100):
            step = self._at_leisure.step(goal, q, self._bias) - q
            q = q + step
            if np.abs(step).max() < 1e-6:
                break
        error = pose_error(goal, self.kinematics.at(q).pose)
        return q, (float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:])))

    def _solved(self, goal: Pose, begin: np.ndarray, bias: np.ndarray, what: str) -> np.ndarray:
        self._bias = bias
        q, apart = self._come(goal, begin.copy())
        if apart[0] > NEAR[0] or apart[1] > NEAR[1]:
            raise ValueError(
                f"the arm does not reach {what}: it comes no nearer than {1e3 * apart[0]:.0f} mm, {apart[1]:.2f} rad"
            )
        return q

    def _over_bin(self) -> tuple[np.ndarray, np.ndarray]:
        """Joints with the bucket over the bin, and tipped there."""
        place, facing = np.array(self.site.bin), self.above.copy()
        yaw = float(np.arctan2(place[1], place[0]))
        facing[0] += yaw
        turned = Rotation.from_rotvec([0.0, 0.0, yaw])
        level = self._solved(Pose(place, turned.as_matrix()), facing, facing, "the bin")
        for angle in TIPPED:
            goal = Pose(place, (turned * Rotation.from_rotvec([0.0, angle, 0.0])).as_matrix())
            tipped, apart = self._come(goal, level.copy())
            way = [self.kinematics.at(level + share * (tipped - level)).position for share in np.linspace(0.0, 1.0, 9)]
            detour = np.linalg.norm(np.array(way) - place, axis=1).max()
            if apart[0] < NEAR[0] and apart[1] < NEAR[1] and detour < DETOUR:
                self._bias = self.above
                return level, tipped
        raise ValueError(
            f"the arm cannot tip its bucket over the bin by {abs(TIPPED[-1]):g} rad: choose another place for it"
        )


def _inverse(J: np.ndarray) -> np.ndarray:
    """Damped, of a Jacobian (6, n)."""
    return J.T @ np.linalg.inv(J @ J.T + DAMPING * np.eye(6))


def _turn(rotation: np.ndarray) -> float:
    """About y [rad]."""
    return float(np.arctan2(rotation[0, 2] - rotation[2, 0], rotation[0, 0] + rotation[2, 2]))


def _eased(lasts: float, at: Callable[[float], Pose | np.ndarray]) -> Callable[[float], Pose | np.ndarray]:
    """Along a way with no jump of its speed."""

    def eased(t: float) -> Pose | np.ndarray:
        s = 1.0 if lasts == 0.0 else min(1.0, t / lasts)
        return at(s * s * (3.0 - 2.0 * s))

    return eased


def _said(pose: Sequence[float] | np.ndarray) -> str:
    x, y, z, alpha = pose
    return f"({x:.3f}, {y:.3f}, {z:.3f} m, {alpha:.2f} rad)"
