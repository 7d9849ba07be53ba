"""An arm with a scoop before a tray of grains under a camera: what one scoop brings, and a search that goes on until one is enough.

    bench = ScoopBench(TrayFill(count=3000))
    picture = bench.observe()                          # the tray from above
    execution = bench.scoop(action)
    bench.measure()                                    # volume in the scoop, from depth [m^3]
    bench.empty()

    attempts = collect(bench, actions, threshold=60e-6, budget=5)

Servos, gate, sensors and camera are those of the graph, without it: commands come 125 times a second, joints and depth have noise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from sim_core.command import Command, Mode
from sim_core.gate import CommandGate
from sim_core.multibody import load_model
from sim_core.plant.granular_tray import GranularTray, TrayFill
from sim_core.plant.limits import joint_limits
from sim_core.plant.plant import MujocoPlant
from sim_core.plant.rendered_camera import RenderedCamera, View
from sim_core.scooping.arm.execution import ExecutionConfig, Outcome, ScoopExecution
from sim_core.scooping.arm.felt_wrench import FeltWrench
from sim_core.scooping.arm.primitive import ScoopAction
from sim_core.scooping.arm.scoop_arm import BLADE, WRIST, ScoopArm
from sim_core.scooping.arm.tray import Tray
from sim_core.scooping.arm.volume import LoadMeter, depth_points, load_points
from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.rendering import Picture
from sim_core.scooping.bed.swept import Blade, Field, swept_volume
from sim_core.scooping.planning.rectified import rectified
from sim_core.telepresence.arm_ik import PERIOD
from sim_core.telepresence.clutch import Pose

__all__ = ["CAMERA", "Attempt", "ScoopBench", "collect"]

#: camera of a robot's model that looks down on the tray, and its picture [pixel]
CAMERA, PIXELS = "overhead", (640, 480)
#: servo period [s]; standard deviations of the encoders [rad], [rad/s]
TICK, ENCODERS = 0.002, (1e-5, 1e-3)
#: [s] for which the scoop is held still before it is looked into; [s] that a way takes at most
STILL, LONGEST = 0.5, 60.0


class ScoopBench:
    """See the module's docstring.

    Args:
        fill: of the tray. robot: name in config/robots, or path. config: of scoops. seed: of the noise. threads: for the grains.

    Attributes:
        plant, tray, arm, felt, camera: of which it is made. meter: of the load; calibrated when something is measured first, and the
            scoop has to be empty by then.

    Raises:
        PlantError: nothing can be drawn here, or the robot has no camera.
    """

    def __init__(
        self,
        fill: TrayFill,
        robot: str = "ur5e_scoop",
        config: ExecutionConfig = ExecutionConfig(),
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        model = load_model(robot)
        self.tray = GranularTray(fill, Tray.of(model), threads=threads)
        self.plant = MujocoPlant(
            robot,
            seed=seed,
            tick=TICK,
            stop_state="hold",
            position_noise=ENCODERS[0],
            velocity_noise=ENCODERS[1],
            wrench_site=WRIST,
            tray=self.tray,
        )
        self.plant.gate = CommandGate(joint_limits(self.plant.world), TICK, supervised=False)
        self.arm = ScoopArm(model, config, tray=self.tray.patch)
        self.arm.start_at(self.plant.q)
        self.camera = RenderedCamera(robot, CAMERA, *PIXELS, entities=[self.tray.entity], seed=seed)
        self.meter = LoadMeter(self.tray.shape)
        self.felt = FeltWrench(model, WRIST, BLADE)

    def __enter__(self) -> ScoopBench:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.camera.close()

    def cycle(self) -> None:
        """One period of the arm's controller."""
        plant, arm = self.plant, self.arm
        self.felt.feel(plant.wrench(), arm.pose(plant.q).rotation, plant.t)
        m = arm.cycle(plant.q, plant.v, self.felt.at(plant.t), PERIOD)
        gain = np.hstack([np.diag(m.kp), np.diag(m.kd)])
        plant.command(Command(Mode.FEEDBACK, plant.t, plant.joints, m.effort, m.position, m.velocity, gain))
        for _ in range(round(PERIOD / TICK)):
            plant.tick()

    def _until(self, done: Callable[[], bool]) -> None:
        end = self.plant.t + LONGEST
        while not done():
            if self.plant.t > end:
                raise RuntimeError(f"the arm is still under way after {LONGEST:g} s")
            self.cycle()

    def _look(self) -> View:
        return self.camera.render(dict(zip(self.plant.joints, self.plant.q)), grains=self.tray.seen())

    # -- what is asked for -------------------------------------------------------------------------

    def observe(self) -> Picture:
        """Go home, and see the tray from above."""
        self.arm.go_home()
        self._until(lambda: not self.arm.moving)
        view = self._look()
        return rectified(view.colour, view.depth, self.camera.K, _pose(view), self.tray.tray)

    def scoop(self, action: ScoopAction) -> ScoopExecution:
        """One scoop, to its end, which is at the measuring pose."""
        execution = self.arm.scoop(action)
        self._until(lambda: execution.ended)
        return execution

    def measure(self) -> float:
        """Volume in the scoop [m^3], which is brought to the measuring pose if it is not there.

        Raises:
            ValueError: the camera does not see into it.
        """
        return self.meter.volume(self._inside())

    def calibrate(self) -> None:
        """Remember the empty scoop at the measuring pose."""
        self.meter.calibrate(self._inside())

    def _inside(self) -> np.ndarray:
        self.arm.measure()
        self._until(lambda: not self.arm.moving)
        end = self.plant.t + STILL
        self._until(lambda: self.plant.t >= end)
        view = self._look()
        return load_points(depth_points(view.depth, self.camera.K, _pose(view)), self.arm.pose(self.plant.q))

    def empty(self) -> None:
        """Pour out into the bin what is in the scoop."""
        self.arm.empty()
        self._until(lambda: not self.arm.moving)


def _pose(view: View) -> Pose:
    return Pose(view.pose[:3, 3], view.pose[:3, :3])


@dataclass(frozen=True, eq=False)
class Attempt:
    """One scoop of a search.

    Attributes:
        action: in the world. score: swept volume that it was chosen for [m^3]. passed: why better ones were not tried, and how many, by reason.
        outcome: of the execution. volume: as measured [m^3]. heap, load: of the grains that are in the scoop, with and without air [m^3].
        peak: force of the ground [N].
    """

    action: ScoopAction
    score: float
    passed: dict[str, int]
    outcome: Outcome
    volume: float
    heap: float
    load: float
    peak: float


def collect(
    bench: ScoopBench,
    actions: Actions,
    threshold: float,
    budget: int,
    told: Callable[[Attempt], None] = lambda attempt: None,
) -> list[Attempt]:
    """Observe, choose the largest swept volume in reach, scoop and measure, until a scoop holds enough.

    Args:
        actions: candidates in the tray's frame. threshold: volume that is enough [m^3]. budget: scoops at most. told: of each attempt.

    Raises:
        RuntimeError: no candidate can be reached.
    """
    attempts: list[Attempt] = []
    bench.calibrate()
    while len(attempts) < budget and not (attempts and attempts[-1].volume >= threshold):
        if attempts:
            bench.empty()
        picture = bench.observe()
        ground = Field(picture.height, picture.origin, picture.pitch)
        scores = swept_volume(ground, actions, Blade(width=bench.tray.shape.width))
        action, score, passed = _choose(bench, actions, ground, scores)
        execution = bench.scoop(action)
        assert execution.outcome is not None
        volume, tray = bench.measure(), bench.tray
        attempts.append(Attempt(action, score, passed, execution.outcome, volume, tray.heap, tray.load, execution.peak))
        told(attempts[-1])
    return attempts


def _choose(
    bench: ScoopBench, actions: Actions, ground: Field, scores: np.ndarray
) -> tuple[ScoopAction, float, dict[str, int]]:
    """The best action that the arm can do, its score, and how often better ones were out for which reason."""
    tray, passed = bench.tray.tray, dict[str, int]()

    def heights(places: np.ndarray) -> np.ndarray:
        x, y, _ = tray.to_tray(np.column_stack([places, np.zeros(len(places))])).T
        return ground.at(x, y) + tray.pose.position[2]

    for k in np.argsort(-scores, kind="stable"):
        x, y = actions.place[k]
        point = tray.to_world(np.array([x, y, float(ground.at(np.array(x), np.array(y)))]))
        yaw = (actions.yaw[k] + tray.yaw + np.pi) % (2.0 * np.pi) - np.pi
        action = ScoopAction(point, yaw, float(actions.depth[k]), "hard" if actions.stiff[k] else "soft")
        why = bench.arm.out_of_reach(action, heights)
        if not why:
            return action, float(scores[k]), passed
        kind = re.sub(r"-?\d+(\.\d+)?", "#", why)
        passed[kind] = passed.get(kind, 0) + 1
    raise RuntimeError(f"none of {len(actions)} scoops can be reached: {passed}")
