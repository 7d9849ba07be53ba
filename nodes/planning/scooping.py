"""Where to scoop: looks at the tray, has the arm scoop where most is expected, measures, learns, and again, until a sample is large enough.

    ros2 action send_goal --feedback /scoop/collect_sample refit_interfaces/action/CollectSample "{threshold: 6.0e-5}"

The algorithms are `sim_core/scooping`, `sim_core/meta` and `sim_core/planning`. Page: docs/nodes/scooping.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from geometry_msgs.msg import PoseStamped
from rclpy.duration import Duration
from refit_interfaces.action import CollectSample, ExecuteScoop
from refit_interfaces.msg import ScoopScores
from refit_interfaces.srv import MeasureVolume, PredictScoops
from std_msgs.msg import String
from std_srvs.srv import Trigger

from config.tiers import MissingTierError
from nodes.frames.transforms import TransformError
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.qos import LATCHED, LEDGER, STATE
from nodes.planning.arm_client import ArmClient, ArmRefused, ArmSilent
from nodes.planning.planned_goal import PlannedGoal
from nodes.planning.run_folder import new_folder
from nodes.planning.scooping_config import ScoopingConfig
from nodes.planning.scooping_messages import actions_of, goal_of, pose_of, result_of, scores_of
from nodes.planning.steps import awaited
from nodes.planning.tray_camera import Seen, TrayCamera
from sim_core.multibody import load_model
from sim_core.planning.checkpoint import load, save
from sim_core.scooping.arm.tray import Tray
from sim_core.scooping.arm.volume import LoadMeter, depth_points, load_points
from sim_core.scooping.bed.actions import Actions, grid
from sim_core.scooping.bed.rendering import Picture
from sim_core.scooping.bed.swept import Field
from sim_core.scooping.learning.crops import crops
from sim_core.scooping.planning.policies import Observation
from sim_core.scooping.planning.rectified import rectified
from sim_core.scooping.planning.scoop_planner import ScoopPlanner
from sim_core.scooping.planning.search import Search
from sim_core.scooping.planning.shipped_beliefs import POLICIES, shipped_belief
from sim_core.scooping.planning.tray_room import has_room
from sim_core.telepresence.clutch import Pose

__all__ = ["Scooping", "main"]

NAN = float("nan")
Outcome = ExecuteScoop.Result
#: outcomes of a scoop that the ground stopped: it brought nothing, and that is known
STOPPED = (Outcome.TOO_MUCH_FORCE, Outcome.STUCK)
#: what the arm says of itself where it rests below the camera with the scoop, and out of the camera's way
MEASURING, AWAY = "at the measuring pose", "at home"
#: what it says as long as it does not know where it is, and takes no way
WAITING = "waiting for joint states"
#: states in which the arm goes nowhere, and how long it is in one of them before it stays there [s]: on arrival it comes to rest first
STANDING = (MEASURING, AWAY, "at rest", "halted")
STAYS = 5.0


class Scooping(RefitNode):
    """See the module's docstring."""

    name = "scooping"
    Config = ScoopingConfig
    coroutines = True
    live_parameters = True
    goal: PlannedGoal | None = None
    _made: Sequence = ()  # subscriptions, publishers, services and timers; none: it is not configured
    search: Search | None = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        shipped_belief(config.policy)  # now, or a sentence why not
        self.search, self._picture = None, None
        self._arm, self._blade, self._phase = "", None, ""
        self._arm_since = self.get_clock().now()
        self.tray, self.meter = Tray.of(load_model(config.robot)), LoadMeter()
        self.camera = TrayCamera(self, config.picture_patience, config.base_frame)
        self._scores = self.create_publisher(ScoopScores, "scoop/scores", LEDGER)
        self._told = self.create_publisher(String, "scoop/search", LATCHED)
        self._made = [
            self.create_subscription(String, "scoop/state", self._on_arm, LATCHED),
            self.create_subscription(PoseStamped, "scoop/blade", self._on_blade, STATE),
            self.create_service(PredictScoops, "scoop/predict", self._on_predict),
            self.create_service(MeasureVolume, "scoop/measure_volume", self._on_measure),
        ]
        self._ways = {
            "measure_pose": self.create_client(Trigger, "scoop/measure_pose"),
            "empty": self.create_client(Trigger, "scoop/empty"),
            "home": self.create_client(Trigger, "scoop/home"),
        }
        self.arm = ArmClient(self, ExecuteScoop, "scoop/execute", "scoop_arm", config.patience)
        self.goal = PlannedGoal(
            self, CollectSample, "scoop/collect_sample", "a search", self._begin, self._refusal, period=0.05
        )

    def stop(self) -> None:
        if self.goal is not None and self.goal.under_way:
            self._end(False, "the node is not active any more; the search can be resumed", "abort")

    def cleanup(self) -> None:
        if not self._made:
            return
        for made in (self.goal, self.arm, self.camera):
            made.destroy()
        for client in self._ways.values():
            self.destroy_client(client)
        self.discard(*self._made, self._scores, self._told)
        self._made = []

    def time_jumped_back(self) -> None:
        if self._made:
            self.camera.time_jumped_back()

    def diagnose(self) -> None:
        if not self._made:
            return
        say = self.diagnostics.set
        say("search", self.goal.doing(self._phase))
        say("empty scoop", "not measured yet" if self.meter.empty is None else "known")
        if self.search is not None:
            say("attempts", len(self.search.attempts))
            say("out of reach", len(self.search.refused))

    def _on_arm(self, message: String) -> None:
        self._arm, self._arm_since = message.data, self.get_clock().now()

    def _on_blade(self, message: PoseStamped) -> None:
        self._blade = pose_of(message)

    # -- what is seen ------------------------------------------------------------------------------

    def _rectified(self, seen: Seen) -> Picture:
        """Raises ValueError."""
        return rectified(seen.colour, seen.depth, seen.K, _pose_of(seen), self.tray)

    def _load(self, seen: Seen) -> np.ndarray:
        """Points of a picture in the blade's frame. Raises ValueError."""
        if self._blade is None:
            raise ValueError("the arm has not said where its scoop is: is the node scoop_arm active?")
        return load_points(depth_points(seen.depth, seen.K, _pose_of(seen)), self._blade)

    async def _on_predict(self, request: PredictScoops.Request, response: PredictScoops.Response):
        try:
            if not self.is_active:
                raise ValueError("the node is not active; activate it first")
            if self._arm not in (AWAY, ""):  # silent: an arm that something else drives may well be out of view
                raise ValueError(f"the arm is {self._arm}, where it may hide the tray: call scoop/home first")
            actions = actions_of(np.array(request.actions), self.tray)
            picture = self._rectified(await awaited(self.camera.look()))
            belief, size = shipped_belief(self.config.policy)
            trials = self.search.planner.trials if self.search is not None else None
            planner = ScoopPlanner(actions, belief, size=size)
            planner.trials = trials or planner.trials
            planner.see(Observation(crops(picture, actions, size), actions, picture))
            mean, deviation = planner.belief_of_all()
            mean = np.where(self._room(actions, picture), mean, NAN)
        except (ValueError, OSError, TransformError, MissingTierError) as error:
            response.message = str(error)
            return response
        response.success, response.mean, response.deviation = True, mean.tolist(), deviation.tolist()
        return response

    async def _on_measure(self, request: MeasureVolume.Request, response: MeasureVolume.Response):
        try:
            if self._arm != MEASURING:
                raise ValueError(
                    f"the scoop is not {MEASURING}, the arm is {self._arm or 'silent'}: call scoop/measure_pose first"
                )
            response.volume = self.meter.volume(self._load(await awaited(self.camera.look())))
            response.success = True
        except (ValueError, TransformError, RuntimeError) as error:
            response.message = str(error)
        return response

    # -- a search ----------------------------------------------------------------------------------

    def _refusal(self, goal: CollectSample.Goal) -> str:
        if goal.policy and goal.policy not in POLICIES:
            return f"there is no policy '{goal.policy}'; there are {', '.join(POLICIES)}"
        if not goal.resume and not (np.isfinite(goal.threshold) and goal.threshold > 0.0):
            return f"threshold: expected a volume above 0 [m^3], found {goal.threshold}"
        if not np.isfinite(goal.gamma):
            return f"gamma: expected a finite number, found {goal.gamma}"
        return ""

    def _begin(self, goal: CollectSample.Goal) -> None:
        try:
            self.search, self._file = self._search_of(goal)
            self._file.parent.mkdir(parents=True, exist_ok=True)
        except (ValueError, OSError, MissingTierError) as error:
            self.goal.fail(result_of(None, False, str(error), ""))
            return
        self.goal.go_on_with(self._whole_search())

    def _search_of(self, goal: CollectSample.Goal) -> tuple[Search, Path]:
        """The search that is asked for, and the file of its state."""
        config = self.config
        belief, size = shipped_belief(goal.policy or config.policy)
        if goal.resume:
            file = Path(goal.resume).expanduser()
            return Search.resume(load(file), grid(), belief), file
        gamma = config.gamma if goal.gamma < 0.0 else goal.gamma
        planner = ScoopPlanner(grid(), belief, size=size, beta=gamma, threshold=goal.threshold, seed=config.seed)
        search = Search(planner, goal.threshold, goal.budget or config.budget)
        return search, new_folder(config.directory, "search") / "search.json"

    def _whole_search(self) -> Iterator[None]:
        """The whole search, which pauses wherever it waits for somebody; it comes to a declared end whatever happens."""
        search = self.search
        try:
            yield from self._scoops(search)
        except (ArmRefused, ArmSilent, ValueError, TransformError) as error:
            self._end(False, f"{error}. The search can be resumed from {self._file}.", "abort")
        except OSError as error:
            self._end(False, f"the search's state cannot be kept: {error.strerror or error}", "abort")
        else:
            if self.goal.cancelled:
                self._end(False, f"cancelled; the search can be resumed from {self._file}", "canceled")
            else:
                self._end(search.success, search.ended, "succeed" if search.success else "abort")

    def _scoops(self, search: Search) -> Iterator[None]:
        """Scoop after scoop, until one was enough, or no more may be made."""
        if self.meter.empty is None:
            yield from self._go("measure_pose", MEASURING, "measuring the empty scoop")
            seen = yield from self.camera.look()
            self.meter.calibrate(self._load(seen))
        while not (search.ended or self.goal.cancelled):
            yield from self._go("home", AWAY, "looking at the tray")
            seen = yield from self.camera.look()
            self._picture = self._rectified(seen)
            search.observe(self._picture, self._room(search.planner.actions, self._picture))
            yield from self._attempt(search)
            self._keep()
            if not (search.success or self.goal.cancelled) and self._arm == MEASURING:
                yield from self._go("empty", MEASURING, "emptying the scoop")

    def _room(self, actions: Actions, picture: Picture) -> np.ndarray:
        """Which scoops would meet neither floor nor walls, which the arm would refuse one by one (n,)."""
        surface = Field(picture.height.astype(float), picture.origin, picture.pitch)
        return has_room(actions, surface.at(*actions.place.T), self.tray.size)

    def _attempt(self, search: Search) -> Iterator[None]:
        """One scoop that can be made, and what it brought."""
        while not self.goal.cancelled and (suggestion := search.ask()) is not None:
            self._show(search)
            self._feedback(suggestion, "asking the arm")
            answer = yield from self._scoop(suggestion)
            if answer.outcome == Outcome.OUT_OF_REACH:
                search.refuse(suggestion, answer.message)
                self.diagnostics.tick("out_of_reach")
                continue
            if answer.outcome == Outcome.CANCELLED and self.goal.cancelled:
                return
            if answer.outcome == Outcome.SCOOPED:
                try:
                    seen = yield from self.camera.look()
                    volume = self.meter.volume(self._load(seen))
                    search.settle(suggestion, volume, peak=answer.peak)
                    self.get_logger().info(f"scoop {len(search.attempts)}: {1e6 * volume:.0f} cm3")
                except (ValueError, TransformError) as error:
                    search.lose(suggestion, f"the volume was not measured: {error}")
            elif answer.outcome in STOPPED:
                search.settle(suggestion, 0.0, answer.message, answer.peak)
            else:
                search.lose(suggestion, answer.message)
            self.diagnostics.tick("attempts")
            self._show(search)
            return

    def _scoop(self, suggestion) -> Iterator[None]:
        """The arm's answer to one scoop. Raises ArmRefused, ArmSilent."""
        goal = goal_of(np.array(suggestion.place), self._picture, self.tray, self.config.base_frame)
        heard = lambda told: self._feedback(suggestion, told.phase)
        return (yield from self.arm.call(goal, heard, lambda: self.goal.cancelled, "to scoop"))

    def _go(self, way: str, there: str, phase: str) -> Iterator[None]:
        """Have the arm go somewhere, and wait until it is there. Raises ArmRefused: it stays elsewhere; ArmSilent."""
        self._feedback(None, phase)
        yield from self.arm.until(
            lambda: self._arm not in ("", WAITING), "the node scoop_arm does not say where the arm is"
        )
        client = self._ways[way]
        yield from self.arm.until(client.service_is_ready, f"the node scoop_arm serves no scoop/{way}")
        before, self._arm = self._arm, ""
        asked = client.call_async(Trigger.Request())
        yield from self.arm.until(asked.done, f"the node scoop_arm does not answer scoop/{way}")
        if not (answer := asked.result()).success:
            self._arm = self._arm or before
            raise ArmRefused(answer.message)
        yield from self.arm.until(lambda: self._arm == there or self._stays(), f"the arm did not come to be {there}")
        if self._arm != there:
            raise ArmRefused(f"the arm is {self._arm} and not {there}; the node scoop_arm says why")

    def _stays(self) -> bool:
        """Whether the arm has gone nowhere for a while, on the robot's clock."""
        return self._arm in STANDING and self.get_clock().now() - self._arm_since > Duration(seconds=STAYS)

    # -- what others are told ----------------------------------------------------------------------

    def _keep(self) -> None:
        state = self.search.state()
        save(state, self._file)
        told = {name: state[name] for name in ("threshold", "budget", "attempts", "refused")}
        self._told.publish(String(data=json.dumps(told)))

    def _show(self, search: Search) -> None:
        message = scores_of(search, self._picture, self.tray, self.config.base_frame)
        message.header.stamp = self.stamp_now()
        self._scores.publish(message)

    def _feedback(self, suggestion, phase: str) -> None:
        self._phase = phase
        if not self.goal.under_way:
            return
        attempts = self.search.attempts
        told = CollectSample.Feedback(attempt=len(attempts) + 1, phase=phase, volume=NAN)
        if attempts and attempts[-1].volume is not None:
            told.volume = attempts[-1].volume
        if suggestion is not None:
            told.action = [float(number) for number in suggestion.place]
            told.mean, told.deviation = suggestion.mean, suggestion.deviation
        self.goal.tell(told)

    def _end(self, success: bool, message: str, outcome: str) -> None:
        self.arm.let_go()
        self.goal.end(result_of(self.search, success, message, str(self._file)), outcome)


def _pose_of(seen: Seen) -> Pose:
    return Pose(seen.pose[:3, 3], seen.pose[:3, :3])


def main(args=None) -> int:
    return spin_main(Scooping, args)
