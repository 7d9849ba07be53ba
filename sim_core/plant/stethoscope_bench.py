"""An arm with a stethoscope before a chest that gives way and breathes: what a placement does to a body.

    bench = StethoscopeBench(point, normal, ChestConfig())
    trace = bench.place(told_point, told_normal)      # of a Placement that is led there through the arm's own law

The chest is a dome on a slide along the normal: a spring and a damper between it and a rib cage that breathes. Its force is felt
by a sensor at the wrist, with noise. The arm is led as on a robot (`ListeningArm`); its servos follow each command until the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from config.description import Track
from config.robot import load_robot, robot_file
from sim_core.auscultation.listening_arm import ListeningArm
from sim_core.auscultation.placement import Phase, Placement, PlacementConfig, facing
from sim_core.auscultation.pressing_force import PressingForce, WristLoad
from sim_core.multibody import load_model
from sim_core.telepresence.arm_ik import PERIOD
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.model_forces import ModelForces

__all__ = ["ChestConfig", "PlacementTrace", "StethoscopeBench"]

TICK, LOOP = 0.001, round(PERIOD / 0.001)  # [s]; ticks between two steps of the placement
SETTLING = 800  # ticks
RADIUS, LENGTH, MASS = 0.02, 0.03, 0.12  # of the stethoscope [m], [m], [kg]
DOME = 0.15  # radius of the chest's surface [m]
#: share of their stiffness with which joints hold where the arm is stopped: a body that breathes against it is not crushed
YIELDING = 0.1


@dataclass(frozen=True)
class ChestConfig:
    """A chest.

    Attributes:
        stiffness, damping: of skin and flesh [N/m], [N s/m]. mass: that moves with the skin [kg].
        breath: amplitude [m]; breath_rate: [Hz]; phase: of the breath at the begin [rad]. noise: standard deviation of the force sensor [N].
    """

    stiffness: float = 1500.0
    damping: float = 40.0
    mass: float = 0.4
    breath: float = 0.0025
    breath_rate: float = 0.25
    phase: float = 0.0
    noise: float = 0.05


@dataclass
class PlacementTrace:
    """What happened, sampled at every tick of a millisecond.

    Attributes:
        placement: the placement, ended. phase: name by tick. force: true contact force [N]. speed: of the membrane [m/s].
        position: of the membrane (ticks, 3) [m].
    """

    placement: Placement
    phase: list[str] = field(default_factory=list)
    force: list[float] = field(default_factory=list)
    speed: list[float] = field(default_factory=list)
    position: list[np.ndarray] = field(default_factory=list)

    def during(self, *phases: Phase) -> np.ndarray:
        """Which ticks are of some phases (ticks,)."""
        return np.isin(self.phase, [phase.name for phase in phases])


class StethoscopeBench:
    """See the module's docstring.

    Args:
        point, normal: of the chest where it is (3,) [m] and out of it, in the axes of the arm's base.
        chest: how it gives way. seed: of the sensor's noise. robot: an arm that is controlled by torques, by name.

    Attributes:
        model, data: MuJoCo's. time: [s]. interfere: called at each tick with the bench, to play what goes wrong; `hold` stops
            the arm, whose joints hold softly where they are (its declared stop state); `deaf` makes the sensor say nothing; `shift` moves the rib cage [m] along the normal.
    """

    def __init__(
        self,
        point: np.ndarray,
        normal: np.ndarray,
        chest: ChestConfig = ChestConfig(),
        seed: int = 0,
        robot: str = "panda",
    ) -> None:
        self.chest, self._rng = chest, np.random.default_rng(seed)
        task = load_robot(robot).task
        if not isinstance(task, Track):
            raise ValueError(f"{robot} is no arm whose task names the frame of its tool")
        frame = task.frame
        self.model = _spec(robot, frame, chest).compile()
        self.data = mujoco.MjData(self.model)
        self.move_chest(point, normal)
        alone = load_model(robot)
        self.arm = ListeningArm(alone, frame, tool=Pose(np.array([0.0, 0.0, LENGTH]), np.eye(3)))
        self.kinematics = self.arm.kinematics
        # The sensor sits on the membrane's own axes. The arm's model does not know the stethoscope.
        self._force = PressingForce(WristLoad(MASS * self.model.opt.gravity, np.array([0.0, 0.0, 1.0]), np.eye(3)))
        self._forces = ModelForces(alone)
        joints = [self.model.joint(name).id for name in self.kinematics.joints]
        self._q, self._v = self.model.jnt_qposadr[joints], self.model.jnt_dofadr[joints]
        self._slide = int(self.model.joint("chest").dofadr[0])
        self._slide_q = int(self.model.joint("chest").qposadr[0])
        self.data.qpos[self._q] = self.kinematics.home
        mujoco.mj_forward(self.model, self.data)
        self.hold, self.deaf, self.shift = False, False, 0.0
        self._held: np.ndarray | None = None  # where the joints are held (n,)
        self.interfere: Callable[[StethoscopeBench], None] = lambda bench: None
        self._cycle()
        for _ in range(SETTLING):  # until the weight that the arm's model does not know is borne
            self._tick()

    @property
    def time(self) -> float:
        """[s]."""
        return float(self.data.time)

    def move_chest(self, point: np.ndarray, normal: np.ndarray) -> None:
        """Put another place of a body before the arm, which has to be in the air: (3,) [m], and out of it (3,)."""
        self.point, self.normal = np.asarray(point, float), np.asarray(normal, float) / np.linalg.norm(normal)
        body = self.model.body("chest").id
        turn = Rotation.from_matrix(facing(self.normal, np.eye(3))).as_quat(scalar_first=True)
        self.model.body_pos[body], self.model.body_quat[body] = self.point - DOME * self.normal, turn
        mujoco.mj_forward(self.model, self.data)

    def pose(self) -> Pose:
        """Of the membrane."""
        return self.kinematics.at(self.data.qpos[self._q]).pose

    def place(
        self,
        point: np.ndarray,
        normal: np.ndarray,
        config: PlacementConfig = PlacementConfig(),
        watch: Callable[[Placement], None] = lambda placement: None,
        longest: float = 60.0,
    ) -> PlacementTrace:
        """Lead a placement to its end.

        Args:
            point, normal: that it is told, with whatever error. watch: called after each of its steps. longest: [s].

        Raises:
            RuntimeError: it did not end in time.
        """
        placement = self.arm.place(point, normal, config)
        trace = PlacementTrace(placement)
        end = self.time + longest
        while not placement.ended:
            if self.time > end:
                raise RuntimeError(f"the placement did not end within {longest:g} s: it is {placement.phase.value}")
            self._cycle()
            watch(placement)
            for _ in range(LOOP):
                self._tick()
                trace.phase.append(placement.phase.name)
                trace.force.append(self.contact_force())
                trace.position.append(self.data.site("membrane").xpos.copy())
                trace.speed.append(self._speed())
        return trace

    def _cycle(self) -> None:
        """One command of the arm, which its servos follow from now on."""
        q, v = self.data.qpos[self._q], self.data.qvel[self._v]
        force = np.nan if self.deaf else self._force.at(self.time)
        self._motion, self._since = self.arm.cycle(q, v, force, PERIOD), self.time

    def contact_force(self) -> float:
        """True force between stethoscope and chest [N]."""
        total, wrench = 0.0, np.zeros(6)
        for k in range(self.data.ncon):
            mujoco.mj_contactForce(self.model, self.data, k, wrench)
            total += wrench[0]
        return float(total)

    def _tick(self) -> None:
        model, data, chest = self.model, self.data, self.chest
        self.interfere(self)
        q, v = data.qpos[self._q], data.qvel[self._v]
        if self.hold and self._held is None:
            self._held = q.copy()
        elif self._held is not None and not self.hold:
            self._held = None
            self.arm.start_at(q)
            self._cycle()
        data.qfrc_applied[self._v] = self._torque(q, v)
        ribs = chest.breath * np.sin(2.0 * np.pi * chest.breath_rate * data.time + chest.phase) + self.shift
        skin, rate = data.qpos[self._slide_q], data.qvel[self._slide]
        data.qfrc_applied[self._slide] = -chest.stiffness * (skin - ribs) - chest.damping * rate
        mujoco.mj_step(model, data)
        self._feel()

    def _torque(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Of the joints (n,) [N m], as servos exert them: the command's law, or that of the stop state."""
        arm, told = self.arm, self._motion
        if self._held is None:
            ahead = told.velocity * (self.time - self._since)
            tau = told.torque(q - ahead, v)
        else:
            tau = YIELDING * arm.kp * (self._held - q) - arm.kd * v + self._forces(q, v, np.zeros_like(q))
        return np.clip(tau, -arm.effort, arm.effort)

    def _feel(self) -> None:
        # MuJoCo tells with what the hand holds the stethoscope, which is the reaction of what a sensor tells.
        wrench = -np.r_[self.data.sensor("wrist").data, np.zeros(3)]
        wrench[2] -= self.chest.noise * self._rng.standard_normal()
        self._force.feel(wrench, self.data.site("wrist").xmat.reshape(3, 3), self.time)

    def _speed(self) -> float:
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(
            self.model, self.data, mujoco.mjtObj.mjOBJ_SITE, self.data.site("membrane").id, velocity, 0
        )
        return float(np.linalg.norm(velocity[3:]))


def _spec(robot: str, frame: str, chest: ChestConfig) -> mujoco.MjSpec:
    spec = mujoco.MjSpec.from_file(str(robot_file(robot)))
    spec.option.timestep, spec.option.integrator = TICK, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    site = spec.site(frame)
    piece = site.parent.add_body(name="stethoscope", pos=site.pos, quat=site.quat)
    piece.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[RADIUS, LENGTH / 2, 0.0], pos=[0.0, 0.0, LENGTH / 2], mass=MASS,
        contype=2, conaffinity=2, condim=3, friction=[0.5, 0.005, 0.0001], solref=[0.004, 1.0],
    )  # fmt: skip
    piece.add_site(name="wrist", pos=[0.0, 0.0, 0.0])
    piece.add_site(name="membrane", pos=[0.0, 0.0, LENGTH])
    spec.add_sensor(name="wrist", type=mujoco.mjtSensor.mjSENS_FORCE, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="wrist")
    body = spec.worldbody.add_body(name="chest", gravcomp=1.0)
    body.add_joint(name="chest", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0.0, 0.0, 1.0])
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[DOME, 0.0, 0.0], mass=chest.mass,
        contype=2, conaffinity=2, condim=3, friction=[0.5, 0.005, 0.0001], solref=[0.004, 1.0],
    )  # fmt: skip
    return spec
