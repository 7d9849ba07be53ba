"""How hard an object is: builds its surface, has the arm poke it where that tells most, and says what a body pressed into it would feel.

    ros2 service call /poking/build_surface refit_interfaces/srv/BuildSurface "{object: lamb}"
    ros2 action send_goal --feedback /poking/explore refit_interfaces/action/ExploreObject "{pokes: 10}"

The algorithms are `sim_core/elastic` and `sim_core/planning`. Page: docs/nodes/poking.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from refit_interfaces.action import ExploreObject, PokeObject
from refit_interfaces.srv import AddPokes, BuildSurface, PackHeights, PredictPokes, SimulateContact
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

from config.tiers import MissingTierError
from identification.elastic.model_choice import fit_point_model
from nodes.frames.transform_listener import TransformListener
from nodes.frames.transforms import TransformError
from nodes.framework.clouds import cloud_points
from nodes.framework.geometry_messages import wrench_message
from nodes.framework.joint_state_gate import seconds
from nodes.framework.lifecycle import RefitNode, spin_main, turn
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import LATCHED, SENSOR
from nodes.planning.arm_client import ArmClient, ArmRefused, ArmSilent
from nodes.planning.planned_goal import Interrupted, PlannedGoal, Stopped
from nodes.planning.poking_config import PokingConfig
from nodes.planning.poking_messages import (
    FAULTS,
    Fault,
    as_told,
    deformed_message,
    explored,
    finite_points,
    forces_message,
    goal_of,
    poses_of,
    surface_message,
)
from nodes.planning.run_folder import new_folder
from nodes.planning.steps import SideThread, awaited
from sim_core.elastic.bodies import load_body
from sim_core.elastic.cautious import careful_simulator
from sim_core.elastic.contact import Contacts, ContactSimulator
from sim_core.elastic.exploration import CHOICES, Exploration, Place
from sim_core.elastic.kernel import kernel
from sim_core.elastic.packing import Box, HeightMap, height_map
from sim_core.elastic.poke import Poke, downsampled
from sim_core.elastic.rigid_body import sphere
from sim_core.elastic.smoothing import settled
from sim_core.elastic.surface import Surface, load_surface, save_surface
from sim_core.elastic.surface_builder import Cloud, SurfaceQuality, build_surface
from sim_core.planning.candidates import NoCandidate
from sim_core.planning.checkpoint import load, save

__all__ = ["Poking", "main"]

Outcome = PokeObject.Result
#: pokes in a row that tell nothing of their places, and that did not find the object, after which an exploration ends
REPEATS, MISSES = 2, 4
#: what a checkpoint holds of a goal besides the exploration
SAID = ("left", "failed", "deviation", "deviations")
#: [m] by which a point of a request may be off the surface
AWAY = 0.02
#: poses of a body, and cells of a map, in one request
MOST_POSES, MOST_CELLS = 10_000, 100_000


class Poking(RefitNode):
    """See the module's docstring."""

    name = "poking"
    Config = PokingConfig
    coroutines = True
    live_parameters = True
    goal: PlannedGoal | None = None
    _made: Sequence = ()  # subscriptions, publishers, services and timers; none: it is not configured
    surface: Surface | None = None
    exploration: Exploration | None = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        fit_point_model(self.config.model)  # now, or a sentence why not
        kernel()  # likewise
        self.surface = self.exploration = None
        self._object, self._model, self._file, self._said, self._phase = "", self.config.model, None, {}, ""
        self._frames = TransformListener(self)
        self._thread = SideThread("elastic")  # one: nothing is learnt while something is computed from it
        self.arm = ArmClient(self, PokeObject, "poke_arm/poke", "poke_arm", self.config.patience)
        self._surfaces = self.create_publisher(PointCloud2, "poking/surface", LATCHED)
        self._deformed = self.create_publisher(PointCloud2, "poking/deformed", LATCHED)
        self._forces = self.create_publisher(MarkerArray, "poking/contact_forces", LATCHED)
        self._told = self.create_publisher(String, "poking/exploration", LATCHED)
        self._made = [
            self.create_service(BuildSurface, "poking/build_surface", self._on_build),
            self.create_service(PredictPokes, "poking/predict", self._on_predict),
            self.create_service(AddPokes, "poking/add_pokes", self._on_add),
            self.create_service(SimulateContact, "poking/simulate_contact", self._on_simulate),
            self.create_service(PackHeights, "poking/pack", self._on_pack),
        ]
        self.goal = PlannedGoal(
            self, ExploreObject, "poking/explore", "an exploration", self._begin, self._refusal, period=0.02
        )

    def stop(self) -> None:
        if self.goal is not None and self.goal.under_way:
            self._end(False, f"the node is not active any more; {self._goes_on()}", "abort")

    def cleanup(self) -> None:
        if not self._made:
            return
        for made in (self.goal, self.arm, self._frames, self._thread):
            made.destroy()
        self.discard(*self._made, self._surfaces, self._deformed, self._forces, self._told)
        self._made = []

    def time_jumped_back(self) -> None:
        if self._made:
            self._frames.clear()

    def diagnose(self) -> None:
        if not self._made:
            return
        say, found = self.diagnostics.set, self.exploration
        say("surface", "none" if self.surface is None else f"{self._object}: {len(self.surface)} points")
        say("exploration", self.goal.doing(self._phase))
        if found is not None:
            say("pokes", len(found.pokes))
            say("places_left", int(found.candidates.open.sum()))

    # -- services ----------------------------------------------------------------------------------

    async def _answered(self, response: Any, deed: Callable) -> Any:
        """A service's response, with the sentence why it is none where that is so."""
        try:
            if not self.is_active:
                raise ValueError("the node is not active; activate it first")
            response.message = await deed(response) or "done"
            response.success = True
        except (ValueError, OSError, TransformError, RuntimeError, MemoryError, MissingTierError) as error:
            response.message = str(error)
            self.get_logger().warning(response.message)
        return response

    async def _computed(self, deed: Callable[[], Any]) -> Any:
        """What a function returns, computed beside the node's other business."""
        return await awaited(self._thread.waited(deed))

    def _require_idle(self) -> None:
        if self.goal.under_way:
            raise ValueError("an exploration is under way; cancel it first")

    def _require_model(self) -> Exploration:
        if self.exploration is None:
            raise ValueError("there is no surface; call build_surface first")
        if self.exploration.model is None:
            raise ValueError("nothing was learnt yet; poke the object (explore), or bring pokes (add_pokes)")
        return self.exploration

    async def _on_build(self, request: BuildSurface.Request, response: BuildSurface.Response):
        return await self._answered(response, lambda answer: self._build(request, answer))

    async def _build(self, request: BuildSurface.Request, response: BuildSurface.Response) -> str:
        self._require_idle()
        messages = [one for one in request.clouds if len(one.data)]
        if len(messages) < len(request.clouds):
            raise ValueError("a cloud without points was given; leave it out, or give none to look anew")
        clouds = [self._cloud(message) for message in messages or await self._scanned()]
        config = self.config

        def built() -> tuple[Surface, SurfaceQuality]:
            found, quality = build_surface(clouds, config.surface())
            return as_told(settled(found, config.neighbours, config.voxel)), quality

        surface, quality = await self._computed(built)
        response.points, response.outward, response.holes = len(surface), quality.outward, quality.holes
        if quality.outward < config.least_outward:
            raise ValueError(
                f"{100 * quality.outward:.0f} % of the normals point to the camera that saw them, at least "
                f"{100 * config.least_outward:.0f} % are wanted: is the camera where its transform says?"
            )
        if quality.holes > config.most_holes:
            raise ValueError(
                f"{100 * quality.holes:.0f} % of the outline has no points, at most {100 * config.most_holes:.0f} % are "
                "taken: look from more places, or where less is in the way"
            )
        self._require_idle()  # one may have begun meanwhile
        exploration = Exploration(surface, fit_point_model(config.model, surface, config.seed), config.exploration())
        self._file = self._folder(request.object) / "exploration.json"
        self._file.parent.mkdir(parents=True)
        save_surface(self._file.with_name("surface.npz"), surface)
        self.surface, self.exploration = surface, exploration
        self._object, self._model = request.object, config.model
        self._said = {"left": 0, "failed": 0, "deviation": 0.0, "deviations": []}
        self._keep()
        response.surface = await self._computed(self._painted)
        self._surfaces.publish(response.surface)
        return f"the surface has {len(surface)} points"

    def _cloud(self, message: PointCloud2) -> Cloud:
        """A camera's cloud in the base frame, as far as it is in the object's box."""
        points, colours = cloud_points(message)
        X = self._frames.lookup(self.config.base_frame, message.header.frame_id)
        points = points.astype(float) @ X[:3, :3].T + X[:3, 3]
        low, high = np.array(self.config.object_low), np.array(self.config.object_high)
        inside = ((points >= low) & (points <= high)).all(axis=1)
        if not inside.any():
            raise ValueError(
                f"none of {len(points)} points of the cloud in frame '{message.header.frame_id}' is in the object's box, from "
                f"{low.tolist()} to {high.tolist()}: set object_low and object_high, or look elsewhere"
            )
        return Cloud(points[inside], colours[inside] / 255.0, X[:3, 3])

    async def _scanned(self) -> list[PointCloud2]:
        """The newest cloud of each camera, asked for now: a camera computes one only while somebody listens."""
        reader = create_polled_subscription(self, PointCloud2, "camera/depth/color/points", SENSOR)
        began, now = time.monotonic(), self.get_clock().now().nanoseconds
        config, newest = self.config, {}
        try:
            while len(newest) < config.cameras:
                if time.monotonic() - began > config.scan_patience:
                    raise ValueError(
                        f"clouds of {len(newest)} of {config.cameras} cameras came on {reader.topic_name} within "
                        f"{config.scan_patience:g} s{''.join(f', {name}' for name in newest)}: are the cameras running, and do "
                        "they send clouds?"
                    )
                newest |= {m.header.frame_id: m for m, _ in take(reader) if 1e9 * seconds(m.header.stamp) >= now}
                await turn()
        finally:
            self.destroy_subscription(reader)
        return list(newest.values())

    def _folder(self, name: str) -> Path:
        word = "".join(letter if letter.isalnum() else "_" for letter in name) or "object"
        return new_folder(self.config.directory, word)

    async def _on_predict(self, request: PredictPokes.Request, response: PredictPokes.Response):
        return await self._answered(response, lambda answer: self._predict(request, answer))

    async def _predict(self, request: PredictPokes.Request, response: PredictPokes.Response) -> str:
        known = self._require_model()
        points, d = finite_points(request.points), np.array(request.displacement, float)
        if len(d) != len(points) or not np.isfinite(d).all():
            raise ValueError(f"expected a finite displacement for each of {len(points)} points, found {len(d)}")
        rows = self.surface.nearest(points)
        away = np.linalg.norm(self.surface.points[rows] - points, axis=1) if len(points) else np.zeros(0)
        if np.any(away > AWAY):
            raise ValueError(
                f"point {int(np.argmax(away))} is {1e3 * away.max():.0f} mm off the surface, at most {1e3 * AWAY:.0f} mm are taken"
            )
        features, model = self.surface.features[rows], known.model
        mean, deviation = await self._computed(lambda: model.predict_with_deviation(features, d))
        response.mean, response.deviation = mean.tolist(), deviation.tolist()
        response.beyond = (d > model.deepest).tolist()
        return ""

    async def _on_add(self, request: AddPokes.Request, response: AddPokes.Response):
        return await self._answered(response, lambda answer: self._add(request, answer))

    async def _add(self, request: AddPokes.Request, response: AddPokes.Response) -> str:
        self._require_idle()
        if self.exploration is None:
            raise ValueError("there is no surface; call build_surface first")
        exploration, surface, samples = self.exploration, self.surface, self.config.samples

        def added() -> int:
            from identification.elastic.poke_files import read_pokes  # bags, and the robot's model that is in them

            pokes = [poke for file in request.files for poke in read_pokes(Path(file).expanduser(), surface, samples)]
            exploration.add(pokes, request.forget)
            return len(pokes)

        response.added = await self._computed(added)
        response.pokes = len(exploration.pokes)
        self._keep()
        self._surfaces.publish(await self._computed(self._painted))
        return f"{response.added} pokes were added, {response.pokes} are known"

    async def _on_simulate(self, request: SimulateContact.Request, response: SimulateContact.Response):
        return await self._answered(response, lambda answer: self._simulate(request, answer))

    async def _simulate(self, request: SimulateContact.Request, response: SimulateContact.Response) -> str:
        known = self._require_model()
        poses = poses_of(request.poses)
        if not 0 < len(poses) <= MOST_POSES:
            raise ValueError(f"expected 1 to {MOST_POSES} poses, found {len(poses)}")
        (approach,), (about,) = finite_points([request.approach], "approach"), finite_points([request.about], "about")
        surface, model, coupling, onset = self.surface, known.model, self.config.coupling, known.onset

        def simulated() -> tuple[Contacts, np.ndarray, float]:
            body = load_body(request.body)
            simulator = ContactSimulator(surface, model, coupling, onset=onset)
            began = time.perf_counter()
            found = simulator.queries(body, poses, approach, about)
            return found, simulator.deformed(found[-1]), time.perf_counter() - began

        found, moved_by, response.duration = await self._computed(simulated)
        response.wrenches = [wrench_message(force, torque) for force, torque in zip(found.force, found.torque)]
        response.contacts, response.beyond = found.active.tolist(), found.beyond.tolist()
        stamp, frame, last = self.stamp_now(), self.config.base_frame, found[-1]
        moved = deformed_message(surface, moved_by, stamp, frame)
        self._deformed.publish(moved)
        self._forces.publish(forces_message(last, stamp, frame))
        if request.surface:
            response.deformed = moved
        return ""

    async def _on_pack(self, request: PackHeights.Request, response: PackHeights.Response):
        return await self._answered(response, lambda answer: self._pack(request, answer))

    async def _pack(self, request: PackHeights.Request, response: PackHeights.Response) -> str:
        known = self._require_model()
        (corner,), (size,) = finite_points([request.corner], "corner"), finite_points([request.size], "size")
        ball, box = sphere(request.diameter), Box(tuple(corner.tolist()), tuple(size.tolist()))
        if not request.spacing > 0.0 or np.prod(size[:2] / request.spacing) > MOST_CELLS:
            raise ValueError(
                f"spacing: expected at most {MOST_CELLS} cells of the box, found a spacing of {request.spacing} m"
            )
        surface, model, config, onset = self.surface, known.model, self.config, known.onset

        def packed() -> tuple[HeightMap, float]:
            simulator = careful_simulator(surface, model, config.coupling, config.caution, onset)
            began = time.perf_counter()
            found = height_map(simulator, ball, box, request.spacing, request.limit, clearance=config.clearance)
            return found, time.perf_counter() - began

        found, response.duration = await self._computed(packed)
        response.rows, response.columns = found.heights.shape
        response.heights, response.forces = found.heights.ravel().tolist(), found.forces.ravel().tolist()
        fits = np.isfinite(found.heights)
        told = f"the ball fits at {fits.sum()} of {fits.size} places"
        deep = int(found.beyond.sum())
        return f"{told}; at {deep} of them the model was asked deeper than it has learnt from" if deep else told

    # -- an exploration ----------------------------------------------------------------------------

    def _refusal(self, goal: ExploreObject.Goal) -> str:
        if self.exploration is None and not goal.resume:
            return "there is no surface; call build_surface first"
        if goal.choice and goal.choice not in CHOICES:
            return f"there is no choice '{goal.choice}'; there are {', '.join(CHOICES)}"
        if not (np.isfinite(goal.deviation) and goal.deviation >= 0.0):
            return f"deviation: expected a force of 0 or more [N], found {goal.deviation}"
        return ""

    def _begin(self, goal: ExploreObject.Goal) -> None:
        self.goal.go_on_with(self._whole_exploration(goal))

    def _whole_exploration(self, goal: ExploreObject.Goal) -> Iterator[None]:
        """All of it, which pauses wherever it waits for somebody; it comes to a declared end whatever happens."""
        try:
            yield from self._set_up(goal)
            message = yield from self._explore()
        except Stopped:
            self._end(False, f"cancelled; {self._goes_on()}", "canceled")
        except OSError as error:
            self._end(False, f"the exploration's state cannot be kept: {error.strerror or error}", "abort")
        except (Interrupted, ArmRefused, ArmSilent, ValueError, MissingTierError) as error:
            self._end(False, f"{error}; {self._goes_on()}", "abort")
        else:
            page = yield from self._report()
            self._end(True, message, "succeed", page)

    def _set_up(self, goal: ExploreObject.Goal) -> Iterator[None]:
        """The exploration that is asked for: the one that is here goes on, or another is taken from its file."""
        if goal.resume:
            yield from self._resume(Path(goal.resume).expanduser())
            self._said["left"] = goal.pokes or self._said["left"]
        else:
            choice = goal.choice or self.config.choice
            self.exploration.settings = replace(self.exploration.settings, choice=choice)
            self._said |= {"left": goal.pokes or self.config.pokes, "deviation": goal.deviation, "failed": 0}
        self._keep()

    def _resume(self, file: Path) -> Iterator[None]:
        state = load(file)
        if not {"object", "model", *SAID, "exploration"} <= set(state):
            raise ValueError(
                f"{file} holds no exploration of this node; name the file checkpoint of an exploration's result"
            )

        def resumed() -> tuple[Surface, Exploration]:
            surface = load_surface(file.with_name("surface.npz"))
            fit = fit_point_model(state["model"], surface, self.config.seed)
            return surface, Exploration.resume(state["exploration"], surface, fit)

        self.surface, self.exploration = yield from self._thread.waited(resumed)
        self._file, self._object, self._model = file, state["object"], state["model"]
        self._said = {word: state[word] for word in SAID}
        self._surfaces.publish((yield from self._thread.waited(self._painted)))

    def _explore(self) -> Iterator[None]:
        """Poke after poke; returns in a sentence why it ended."""
        known, said, repeats, misses = self.exploration, self._said, 0, 0
        while said["left"] > 0:
            if self.goal.cancelled:
                raise Stopped
            if known.model is not None and known.mean_deviation() < said["deviation"]:
                return f"the predicted force is known to {known.mean_deviation():.2f} N"
            try:
                place = yield from self._thread.waited(known.ask)
            except NoCandidate as error:
                return f"no place is left: {error}"
            answer = yield from self._poke(place)
            if self.goal.cancelled and answer.outcome == Outcome.CANCELLED:
                raise Stopped  # nothing was tried
            fault = FAULTS.get(answer.outcome)
            why = answer.message.rstrip(".")
            if fault is None:
                repeats = misses = 0
                poke = self._poke_of(answer, place)
                yield from self._thread.waited(lambda: known.tell(place.index, poke))
                said["left"] -= 1
                said["deviations"].append(known.mean_deviation())
                self.diagnostics.tick("pokes_made")
            else:
                said["failed"] += 1
                self.diagnostics.tick("pokes_failed")
                self.get_logger().warning(f"place {place.index}: {why}")
                repeats = repeats + 1 if fault is Fault.EQUIPMENT else 0
                misses = misses + 1 if fault is Fault.BODY else 0
                if fault in (Fault.PLACE, Fault.BODY):
                    known.fail(place.index, REASONS[answer.outcome])
            self._keep()
            if fault is None:
                self._surfaces.publish((yield from self._thread.waited(self._painted)))
            if fault is Fault.STOPPED:
                raise Interrupted(why)
            if repeats == REPEATS:
                raise Interrupted(f"{REPEATS} pokes in a row told nothing, the last: {why}")
            if misses == MISSES:
                raise Interrupted(
                    f"{MISSES} pokes in a row did not find the object where it was seen; build its surface anew"
                )
        return f"{len(known.pokes)} pokes are known"

    def _poke(self, place: Place) -> Iterator[None]:
        number, config = len(self.exploration.tried) + 1, self.config

        def heard(told: PokeObject.Feedback) -> None:
            self._phase = f"poke {number}, place {place.index}: {told.phase}"
            if self.goal.under_way:
                feedback = ExploreObject.Feedback(poke=number, deviation=place.deviation, phase=self._phase)
                feedback.point.x, feedback.point.y, feedback.point.z = place.point.tolist()
                self.goal.tell(feedback)

        heard(PokeObject.Feedback(phase="asking the arm"))
        goal = goal_of(place, config.probe, config.force_limit, config.speed, config.deepest)
        return (yield from self.arm.call(goal, heard, lambda: self.goal.cancelled, f"poke {number}"))

    def _poke_of(self, answer: PokeObject.Result, place: Place) -> Poke:
        """What the arm felt, thinned out evenly. Raises ValueError: nothing."""
        d, f = np.array(answer.displacement, float), np.array(answer.force, float)
        whole = Poke(feature=place.feature, displacement=d, force=f, probe=self.config.probe or "point")
        return downsampled(whole, self.config.samples)

    def _report(self) -> Iterator[None]:
        """The page's file; "": it could not be written, which is no reason to fail."""
        self._phase, file = "drawing", self._file.with_name("report.html")
        if not self.config.report or self.exploration.model is None:
            return ""
        known, said = self.exploration, self._said

        def drawn() -> None:
            from identification.elastic.exploration_report import write_exploration_report  # it draws

            write_exploration_report(file, known, self._object, said["deviations"])

        try:
            yield from self._thread.waited(drawn)
        except (OSError, ValueError) as error:
            self.get_logger().warning(f"no report was written: {error}")
            return ""
        return str(file)

    # -- what others are told ----------------------------------------------------------------------

    def _keep(self) -> None:
        """Write the exploration's state, and say it."""
        known = self.exploration
        state = {"object": self._object, "frame": self.config.base_frame, "model": self._model, **self._said}
        state["exploration"] = known.checkpoint()
        save(state, self._file)
        self._told.publish(String(data=json.dumps(state)))

    def _painted(self) -> PointCloud2:
        """The surface with what is believed of it; on the thread, since a large one takes a second."""
        return surface_message(self.surface, self.exploration, self.stamp_now(), self.config.base_frame)

    def _goes_on(self) -> str:
        if self._file is not None and self._file.is_file():
            return f"the exploration can be resumed from {self._file}"
        return "nothing was begun"

    def _end(self, success: bool, message: str, outcome: str, page: str = "") -> None:
        self.arm.let_go()
        failed, file = self._said.get("failed", 0), str(self._file or "")
        self.goal.end(explored(self.exploration, failed, success, message, file, page), outcome)


#: outcome of a poke -> why its place is out
REASONS = {
    Outcome.NO_CONTACT: "not touched",
    Outcome.OUT_OF_REACH: "out of reach",
    Outcome.TOO_FORCEFUL: "too forceful",
    Outcome.SENSOR_SATURATED: "beyond the sensor's range",
    Outcome.SENSOR_DRIFTED: "the sensor drifted",
}


def main(args=None) -> int:
    return spin_main(Poking, args)
