"""A robot finds out how hard a soft object is: it looks, pokes where that tells most, and says what other bodies would feel."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Pose, Quaternion, Vector3
from refit_interfaces.action import ExploreObject
from refit_interfaces.srv import BuildSurface, SimulateContact
from scipy.spatial.transform import Rotation

from cli.demo.graph import IN_STEP, begin_goal, demo_graph, end_goal
from cli.demo.live import NO_VIEW, LiveView
from cli.demo.page import warn_of_misses
from config.description import PokeDemo, Robot
from config.robot import load_robot
from identification.elastic.exploration_report import draw_curves, draw_stiffness
from identification.elastic.model_choice import fit_point_model
from identification.elastic.poke_files import read_pokes
from nodes.planning.poking_config import PokingConfig
from nodes.planning.poking_messages import surface_of
from recording import BagReader
from reporting import PALETTE, Report, Result, figure
from reporting.progress import SilentProgress
from scripting import GraphError
from scripting.client import GraphClient
from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.exploration import Exploration
from sim_core.elastic.objects.soft_object import SoftObject
from sim_core.elastic.rigid_body import line_probe, probe_pose
from sim_core.elastic.surface import Surface
from sim_core.plant.soft_object import POSITION, soft_object

__all__ = ["PokeStory", "check", "page", "record", "tell"]

#: what is done after the run, for people
READING = "reading the bag and asking the simulated object"
SOURCE = "Zhu, PhD thesis (University of Illinois 2023), sections 4.3 to 4.5"
CAMERAS = ("sim_camera", "sim_camera_left", "sim_camera_right")
NODES = ("sim_plant", "poke_arm", "supervisor", *CAMERAS, "poking", "recorder")
START_TIMEOUT, SCAN_TIMEOUT, POKE_TIMEOUT = 180.0, 300.0, 600.0  # [s], wall time; the last of each poke
#: pokes, and places at which a line is pressed
POKES, LINES = {"quick": 2, "full": 10}, {"quick": 2, "full": 8}
#: of a line into the surface where it was seen [m]
DEPTHS = (0.002, 0.004, 0.006, 0.008)
#: at most for a poke's error at places that were not poked [N], a line's force [N], and a poke's force over its limit [N]
POINT, LINE, OVER = 0.49, 1.5, 0.5
#: g's length, the node's own [m]
COUPLING = PokingConfig().coupling
ANSWERS = "answers.json"


@dataclass(frozen=True, eq=False)
class PokeStory:
    """A run as its bag tells it, beside the simulated object.

    Attributes:
        exploration: all that was learnt. deviations: of the predicted force after each poke [N]. failed: pokes that told nothing.
        lines: force that the node said, that the offline function says, and that the object gives on a line (n, 3) each [N].
        torques: likewise of the node and of the object, about the tip (n, 3) [N m]. depths: of each (n,) [m].
        missed: predicted less true force of a point at places that were not poked (m,) [N]; forces: the true ones [N].
        curves: displacement and true force at each poke. same: pokes that the bag tells to the bit. over: largest force over a limit [N].
    """

    exploration: Exploration
    deviations: list[float]
    failed: int
    lines: tuple[np.ndarray, np.ndarray, np.ndarray]
    torques: tuple[np.ndarray, np.ndarray]
    depths: np.ndarray
    missed: np.ndarray
    forces: np.ndarray
    curves: list[tuple[np.ndarray, np.ndarray]]
    same: int
    over: float


def record(robot: str, folder: Path, seed: int, quick: bool, progress=SilentProgress(), view: LiveView = NO_VIEW):
    """Run the graph; leaves the bag in `folder`/bag, and what services answered in `folder`/answers.json.

    Raises:
        scripting.ScriptError: the graph failed, there is no surface, or the exploration was interrupted.
    """
    scene, size = load_robot(robot).demo_as(PokeDemo), "quick" if quick else "full"
    arguments = dict(robot=robot, object=scene.object, seed=seed, **IN_STEP)
    with demo_graph(scene.launch, arguments, NODES, folder, START_TIMEOUT, progress, view) as client:
        with progress.stage("looking at the object", None):
            request = BuildSurface.Request(object=scene.object)
            seen = client.call(BuildSurface, "poking/build_surface", request, SCAN_TIMEOUT)
            if not seen.success:
                raise client.error(f"the object's surface was not built: {seen.message}")
        with progress.stage(f"poking it {POKES[size]} times", None):
            _explore(client, POKES[size])
        with progress.stage("pressing a line into it, in thought", None):
            answers = [_line(client, pose, normal) for pose, normal in _places(surface_of(seen.surface), LINES[size])]
            (folder / ANSWERS).write_text(json.dumps(answers))


def _explore(client: GraphClient, pokes: int) -> None:
    goal, what = ExploreObject.Goal(pokes=pokes), "the exploration"
    handle = begin_goal(client, ExploreObject, "poking/explore", goal, what, START_TIMEOUT)
    answer = end_goal(client, handle, what, POKE_TIMEOUT * pokes, "while the robot poked")
    if not answer.result.success:
        raise GraphError(f"the exploration was interrupted: {answer.result.message}")


def _places(surface: Surface, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Poses (k, 4, 4) of a line at the depths, and the normal (3,), at places far from each other that lie on top."""
    rows = np.flatnonzero(surface.normals[:, 2] > 0.85)
    points = surface.points[rows]
    chosen = [int(np.argmin(np.linalg.norm(points - points.mean(axis=0), axis=1)))]
    while len(chosen) < count:
        chosen.append(int(np.linalg.norm(points[:, None] - points[chosen], axis=2).min(axis=1).argmax()))
    found = []
    for k, row in enumerate(rows[chosen]):
        normal = surface.normals[row]
        poses = np.tile(probe_pose(surface.points[row], normal, roll=0.7 * k), (len(DEPTHS), 1, 1))
        poses[:, :3, 3] -= np.array(DEPTHS)[:, None] * normal
        found.append((poses, normal))
    return found


def _line(client: GraphClient, poses: np.ndarray, normal: np.ndarray) -> dict[str, Any]:
    """What the node says that a line feels."""
    turn = Rotation.from_matrix(poses[0, :3, :3]).as_quat()
    request = SimulateContact.Request(body="line", approach=Vector3(**dict(zip("xyz", (-normal).tolist()))))
    request.poses = [
        Pose(position=Point(**dict(zip("xyz", place))), orientation=Quaternion(**dict(zip("xyzw", turn.tolist()))))
        for place in poses[:, :3, 3].tolist()
    ]
    answer = client.call(SimulateContact, "poking/simulate_contact", request, SCAN_TIMEOUT)
    if not answer.success:
        raise client.error(f"the line was not simulated: {answer.message}")
    forces = [[w.force.x, w.force.y, w.force.z] for w in answer.wrenches]
    torques = [[w.torque.x, w.torque.y, w.torque.z] for w in answer.wrenches]
    return {
        "turn": turn.tolist(),
        "places": poses[:, :3, 3].tolist(),
        "normal": normal.tolist(),
        "force": forces,
        "torque": torques,
    }


def tell(robot: str, folder: Path) -> PokeStory:
    """What the bag in `folder` says, learnt anew, beside the simulated object."""
    bag = BagReader(folder / "bag")
    surface = surface_of([message for _, message in bag.messages("poking/surface")][-1])
    state = json.loads([message for _, message in bag.messages("poking/exploration")][-1].data)
    known = Exploration.resume(state["exploration"], surface, fit_point_model(state["model"], surface))
    it = soft_object(load_robot(robot).demo_as(PokeDemo).object)
    told = read_pokes(folder / "bag", surface, len(known.pokes[0]))
    told_curves = [(poke.displacement.tolist(), poke.force.tolist()) for poke in told]
    same = sum((poke.displacement.tolist(), poke.force.tolist()) in told_curves for poke in known.pokes)
    answers = json.loads((folder / ANSWERS).read_text())
    said, offline, true, torques, true_torques = _lines(it, known, answers)
    missed, forces = _elsewhere(it, known)
    curves = [(poke.displacement, _pressed(it, poke.feature, poke.displacement)) for poke in known.pokes]
    over = max(float(poke.force.max()) for poke in known.pokes) - FORCE_LIMIT
    return PokeStory(
        exploration=known,
        deviations=state["deviations"],
        failed=state["failed"],
        lines=(said, offline, true),
        torques=(torques, true_torques),
        depths=np.tile(DEPTHS, len(answers)),
        missed=missed,
        forces=forces,
        curves=curves,
        same=same,
        over=over,
    )


#: of a poke whose goal names none [N]
FORCE_LIMIT = 5.0


def _pressed(it: SoftObject, feature: np.ndarray, displacement: np.ndarray) -> np.ndarray:
    """Force on the point probe, pressed in at a seen point by displacements (k,) [m], along the outward normal (k,) [N]."""
    body = it.tip @ probe_pose(feature[:3], feature[6:])[:3, :3].T + feature[:3] - POSITION
    return np.array([float(it.truth.press(body - d * feature[6:]).force @ feature[6:]) for d in displacement])


def _elsewhere(it: SoftObject, known: Exploration) -> tuple[np.ndarray, np.ndarray]:
    """Error of the predicted force at open places, up to the force limit or 10 mm, and the true forces, each (m,) [N]."""
    d = np.linspace(-0.002, 0.01, 13)
    errors, forces = [np.zeros(0)], [np.zeros(0)]
    for number in np.flatnonzero(known.candidates.open):
        feature = known.place(int(number)).feature
        true = _pressed(it, feature, d)
        within = true <= FORCE_LIMIT
        errors.append(known.model.predict(np.tile(feature, (within.sum(), 1)), d[within]) - true[within])
        forces.append(true[within])
    return np.concatenate(errors), np.concatenate(forces)


def _lines(it: SoftObject, known: Exploration, answers: list[dict[str, Any]]) -> tuple[np.ndarray, ...]:
    """Forces on a line as the node said, as the offline function says, and as the object gives; torques of the first and the last."""
    simulator, body = ContactSimulator(known.surface, known.model, COUPLING, onset=known.onset), line_probe()
    offline, true, true_torques = [], [], []
    for answer in answers:
        poses = np.tile(np.eye(4), (len(answer["places"]), 1, 1))
        poses[:, :3, :3], poses[:, :3, 3] = Rotation.from_quat(answer["turn"]).as_matrix(), answer["places"]
        offline.append(simulator.queries(body, poses, -np.array(answer["normal"])).force)
        for pose in poses:
            press = it.truth.press(body.placed(pose) - POSITION)
            true.append(press.force)
            true_torques.append(press.torque - np.cross(pose[:3, 3] - POSITION, press.force))
    said = np.concatenate([np.array(answer["force"]) for answer in answers])
    torques = np.concatenate([np.array(answer["torque"]) for answer in answers])
    return said, np.concatenate(offline), np.array(true), torques, np.array(true_torques)


def check(story: PokeStory, seed: int, quick: bool) -> Result:
    """The checks of the demonstration."""
    result = Result("demo poking", seed=seed, size="quick" if quick else "full")
    said, offline, true = story.lines
    result.check("pokes that told something", len(story.exploration.pokes), POKES[result.size], "==", "", SOURCE)
    result.check(
        "of these, told by the bag to the bit", story.same, len(story.exploration.pokes), "==", "", "own limit"
    )
    result.check(
        "answers that differ from the offline function", int((said != offline).sum()), 0, "==", "", "own limit"
    )
    result.check("largest force over a poke's limit", story.over, OVER, "<=", "N", "own limit")
    point, line = _rms(story.missed), _rms(np.linalg.norm(said - true, axis=1))
    if not quick:
        result.check("error of a point's force at places that were not poked", point, POINT, "<=", "N", SOURCE)
        result.check("error of the force on a line", line, LINE, "<=", "N", SOURCE)
    result.detail(
        "errors",
        {
            "point, root mean square [N]": point,
            "largest true force of these [N]": float(story.forces.max(initial=0.0)),
            "line, root mean square [N]": line,
            "largest true force of these [N] ": float(np.linalg.norm(true, axis=1).max(initial=0.0)),
            "line's torque, root mean square [N m]": _rms(np.linalg.norm(np.subtract(*story.torques), axis=1)),
            "pokes that failed": story.failed,
            "deviation of the predicted force [N]": story.deviations,
        },
    )
    return result


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else float("nan")


def page(story: PokeStory, result: Result, description: Robot) -> Report:
    """What a person reads."""
    report = Report("A robot finds out how hard a soft object is", f"{description.title}, three depth cameras.")
    warn_of_misses(report, result)
    report.section("Targets").checks(result)
    depth = 1e3 * story.exploration.settings.depth
    report.section("Where it is hard, and where that is not known")
    caption = f"From above: the force that a point would feel {depth:g} mm deep, and its standard deviation. Crosses are pokes, rings places that failed."
    report.figure(draw_stiffness(story.exploration), caption)
    report.section("What the pokes felt, beside the truth")
    shown = story.curves[-9:]
    report.figure(
        draw_curves(story.exploration, shown),
        "Dots: measured. Lines: believed, with two standard deviations. Dashed: the simulated object itself, which stands a few millimetres "
        "from where the cameras saw it.",
    )
    report.section("A line, which was never pressed")
    report.figure(
        _draw_lines(story), "Force on a line as it was foretold from pokes of a point, beside the simulated object's."
    )
    if len(story.deviations) > 1:
        report.section("How sure it became")
        fig, axis = figure()
        axis.plot(np.arange(1, len(story.deviations) + 1), story.deviations, ".-")
        axis.set_xlabel("pokes")
        axis.set_ylabel("standard deviation [N]")
        axis.set_ylim(0.0)
        report.figure(fig, f"Of the predicted force {depth:g} mm deep, mean over all places that can be poked.")
    return report


def _draw_lines(story: PokeStory) -> Any:
    said, _, true = (np.linalg.norm(forces, axis=1).reshape(-1, len(DEPTHS)) for forces in story.lines)
    fig, axes = figure(1, 2, size=(9.0, 3.4))
    for k, (foretold, felt) in enumerate(zip(said, true)):
        colour = PALETTE[k % len(PALETTE)]
        axes[0].plot(1e3 * np.array(DEPTHS), foretold, ".-", color=colour, label="foretold" if k == 0 else None)
        axes[0].plot(1e3 * np.array(DEPTHS), felt, "--", color=colour, label="true" if k == 0 else None)
    axes[0].set_xlabel("displacement from the seen surface [mm]")
    axes[0].set_ylabel("force on the line [N]")
    axes[0].legend()
    most = max(float(said.max()), float(true.max()), 1.0)
    axes[1].plot([0.0, most], [0.0, most], color="0.6")
    axes[1].plot(true.ravel(), said.ravel(), ".")
    axes[1].set_xlabel("true [N]")
    axes[1].set_ylabel("foretold [N]")
    return fig
