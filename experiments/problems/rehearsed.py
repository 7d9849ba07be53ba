"""A task rehearsed by a scripted operator over a link, in lock-step and without ROS.

outcome = attempted(Attempt("canisters", seed=3))
outcome.progress.done
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.problems.scripted_operator import ScriptedOperator
from experiments.problems.task_scripts import SCRIPTS
from experiments.problems.teleop_drive import model
from experiments.problems.teleoperation import Operator, Teleoperation, operated_plant
from experiments.problems.wrist_scan import PERIOD, WristScan
from sim_core.plant.rehearsal.rehearsal import Rehearsal
from sim_core.plant.rehearsal.task import Progress
from sim_core.plant.rehearsal.tasks import rehearse
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.operator_link import LinkConditions
from sim_core.telepresence.standing_box import standing_boxes
from sim_core.telepresence.texture.height_map import ScanError

__all__ = ["LINK", "Attempt", "Outcome", "RehearsedTeleoperation", "Snapshot", "attempted"]

#: of either direction: what a good connection between two towns does
LINK = LinkConditions(delay=0.05, jitter=0.005, loss=0.01)
#: [s] after which nobody goes on, and between two snapshots; so many of these are kept
LIMIT, BETWEEN, PICTURES = 150.0, 0.5, 4


class RehearsedTeleoperation(Teleoperation):
    """`Teleoperation` before a task, whose things the cameras show.

    Args:
        operator: who drives. rehearsal: what stands there. link: of either direction. seed: of the link's chance and the sensors' noise.

    Attributes:
        scan_errors: why scans of a texture came to nothing.
    """

    def __init__(self, operator: Operator, rehearsal: Rehearsal, link: LinkConditions = LINK, seed: int = 0) -> None:
        self.rehearsal = rehearsal
        self.scan_errors: list[str] = []
        self._scan: WristScan | None = None
        self._scans, self._scan_due = 1000 * seed, 0.0
        plant = operated_plant(seed=seed, rehearsal=rehearsal)
        super().__init__(operator, link, link, seed, model=model(), plant=plant)
        self.avatar.boxes = standing_boxes(rehearsal.task.boxes)

    def cycle(self) -> None:
        if self._scan is not None and self.now >= self._scan_due - 1e-9:
            self._scan.look(self.plant.world.data)
            self._scan_due += PERIOD
            if self._scan.complete:
                try:
                    self.words["texture_scan"] = self._scan.texture().roughness
                except ScanError as error:
                    self.scan_errors.append(str(error))
                self._scan = None
        super().cycle()

    def _press(self, button: str) -> None:
        if button == "texture_scan" and self.rehearsal.task.faces and self._scan is None:
            self._scans += 1
            self._scan, self._scan_due = WristScan(self.rehearsal.task.faces, self._scans), self.now
        else:
            super()._press(button)

    def picture(self) -> dict[str, Pose]:
        data = self.plant.world.data
        base = data.body("base")
        R, p = base.xmat.reshape(3, 3), base.xpos
        shown = {}
        for name in self.rehearsal.task.shown:
            body = data.body(name)
            shown[name] = Pose(R.T @ (body.xpos - p), R.T @ body.xmat.reshape(3, 3))
        return shown


@dataclass(frozen=True)
class Attempt:
    """A task of a seed, which is the operator's and the link's as well; `pictured`: snapshots are kept."""

    task: str
    seed: int
    pictured: bool = False


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Of the world at a time [s]: every coordinate of MuJoCo's (nq,), of robot and scenery."""

    time: float
    posture: np.ndarray


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of it.

    Attributes:
        progress: by the judge. stops: protective stops and faults that the operator read, in order. seconds: until it ended.
        force: greatest at the right end effector, as the robot feels it [N]. speed: greatest of the base, truly [m/s].
        refused: commands that the gate refused. snapshots: some, evenly spread, if they were wanted.
    """

    attempt: Attempt
    progress: Progress
    stops: tuple[str, ...]
    seconds: float
    force: float
    speed: float
    refused: int
    snapshots: tuple[Snapshot, ...]


def attempted(attempt: Attempt, limit: float = LIMIT) -> Outcome:
    """One task from its beginning to where it is done, failed, or the script has ended."""
    operator = ScriptedOperator(SCRIPTS[attempt.task], attempt.seed)
    run = RehearsedTeleoperation(operator, rehearse(attempt.task, attempt.seed), seed=attempt.seed)
    stops: list[str] = []
    snapshots: list[Snapshot] = []
    force = speed = 0.0
    base = [run.plant.joints.index(name) for name in ("base_x", "base_y")]
    while run.now < limit and not operator.ended:
        run.cycle()
        progress = run.rehearsal.progress
        if progress.done or progress.failed:
            break
        if attempt.pictured and run.now >= len(snapshots) * BETWEEN:
            snapshots.append(_snapshot(run))
        speed = max(speed, float(np.hypot(*run.plant.true_v[base])))
        felt = run.avatar.wrenches[0].force
        force = max(force, felt) if np.isfinite(felt) else force
        for arm in run.avatar.arms:
            if "protective" in arm.mode.value and arm.message not in stops:
                stops.append(arm.message)
    if attempt.pictured:
        snapshots.append(_snapshot(run))
    few = np.linspace(0, len(snapshots) - 1, min(PICTURES, len(snapshots))).round().astype(int)
    return Outcome(
        attempt,
        run.rehearsal.progress,
        tuple(stops),
        run.now,
        force,
        speed,
        run.refused,
        tuple(snapshots[k] for k in few),
    )


def _snapshot(run: RehearsedTeleoperation) -> Snapshot:
    return Snapshot(run.now, run.plant.world.data.qpos.copy())
