"""How to dig: has a bucket dragged along a path through a pile, motion by motion as a policy chooses, lifted, weighed and emptied.

    ros2 action send_goal --feedback /excavation/run_trial refit_interfaces/action/RunExcavation "{path: medium}"

The algorithms are `sim_core/excavation`. Page: docs/nodes/excavation.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from nav_msgs.msg import Path as PathMessage
from refit_interfaces.action import MoveBucket, RunExcavation
from refit_interfaces.msg import ExcavationPlan
from std_msgs.msg import String

from nodes.frames.transforms import TransformError
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.qos import LATCHED, LEDGER
from nodes.planning.arm_client import ArmRefused, ArmSilent
from nodes.planning.bucket_client import BucketClient
from nodes.planning.excavation_config import ExcavationConfig
from nodes.planning.excavation_messages import (
    FRAME,
    outcome_of,
    path_message,
    plan_message,
    result_of,
    state_of,
    told_of,
)
from nodes.planning.planned_goal import Interrupted, PlannedGoal, Stopped
from nodes.planning.run_folder import new_folder
from nodes.planning.steps import SideThread
from nodes.planning.tray_camera import TrayCamera
from sim_core.excavation.mpc import Mpc
from sim_core.excavation.pile_eye import PileEye
from sim_core.excavation.primitives import NAMES
from sim_core.excavation.reference_path import DEPTHS, PathSettings, make_reference_path
from sim_core.excavation.shipped_policies import POLICIES, needs_pictures, shipped_policy
from sim_core.excavation.trial_run import TrialRun, path_of
from sim_core.planning.checkpoint import load, save

__all__ = ["Excavation", "main"]

Motion, Outcome = MoveBucket.Goal, MoveBucket.Result
#: what the arm says where its bucket is among the blocks
IN_PILE = "in the pile"
#: by which the bucket's command may differ from where a trial left it, in m and rad
SAME = 1e-3
#: how a motion among the blocks may end in a trial that goes its way
MOTION = (Outcome.DONE, Outcome.JAMMED, Outcome.OUT_OF_REACH)
#: plans in a row that do not exist, after which a trial ends
LOST = 3


class Excavation(RefitNode):
    """See the module's docstring."""

    name = "excavation"
    Config = ExcavationConfig
    live_parameters = True
    goal: PlannedGoal | None = None
    _made: Sequence = ()  # subscriptions, publishers, services and timers; none: it is not configured
    run: TrialRun | None = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        shipped_policy(config.policy, make_reference_path())  # now, or a sentence why not
        self.run, self._phase, self._force = None, "", 0.0
        self._times: list[float] = []
        self.arm, self._thread = BucketClient(self, config.patience), SideThread("decision")
        self.camera = TrayCamera(self, config.picture_patience, FRAME)
        self._plans = self.create_publisher(ExcavationPlan, "excavation/plan", LEDGER)
        self._paths = self.create_publisher(PathMessage, "excavation/reference_path", LATCHED)
        self._told = self.create_publisher(String, "excavation/state", LATCHED)
        self._made = [self._plans, self._paths, self._told]
        self.goal = PlannedGoal(
            self, RunExcavation, "excavation/run_trial", "a trial", self._begin, self._refusal, period=0.02
        )

    def stop(self) -> None:
        if self.goal is not None and self.goal.under_way:
            self._end(False, f"the node is not active any more; {self._goes_on()}", "abort")

    def cleanup(self) -> None:
        if not self._made:
            return
        for made in (self.goal, self.arm, self.camera, self._thread):
            made.destroy()
        self.discard(*self._made)
        self._made = []

    def time_jumped_back(self) -> None:
        if self._made:
            self.camera.time_jumped_back()

    def diagnose(self) -> None:
        if not self._made:
            return
        say = self.diagnostics.set
        say("trial", self.goal.doing(self._phase))
        say("bucket", self.arm.where or "the arm has not said")
        self.diagnostics.set_percentiles("decision", self._times)
        if self.run is not None:
            say("motions", len(self.run.actions))

    # -- a trial -----------------------------------------------------------------------------------

    def _refusal(self, goal: RunExcavation.Goal) -> str:
        if goal.policy and goal.policy not in POLICIES:
            return f"there is no policy '{goal.policy}'; there are {', '.join(POLICIES)}"
        if not goal.resume and goal.path not in DEPTHS:
            return f"there is no path '{goal.path}'; there are {', '.join(DEPTHS)}"
        return ""

    def _begin(self, goal: RunExcavation.Goal) -> None:
        self.run = None
        try:
            self._set_up(goal)
            self._file.parent.mkdir(parents=True, exist_ok=True)
        except (ValueError, OSError) as error:
            self.goal.fail(result_of(None, False, str(error), ""))
            return
        self._paths.publish(path_message(self.run.path, self.stamp_now()))
        self.goal.go_on_with(self._whole_trial())

    def _set_up(self, goal: RunExcavation.Goal) -> None:
        """The trial that is asked for, what it is called, and the file of its state."""
        config = self.config
        if goal.resume:
            self._file = Path(goal.resume).expanduser()
            self._said = load(self._file)
            if not {"trial", "policy", "path", "seed", "commanded"} <= set(self._said):
                raise ValueError(
                    f"{self._file} holds no trial of this node; name the file checkpoint of a trial's result"
                )
            trial, name = self._said["trial"], self._said["policy"]
            policy = shipped_policy(name, path_of(trial), seed=int(self._said["seed"]))
            self.run = TrialRun.resume(trial, policy)
            if self.run.ended or self._said["lifted"]:
                raise ValueError(f"the trial in {self._file} has ended: {self.run.ended}")
            return
        name, seed = goal.policy or config.policy, goal.seed or config.seed
        path = make_reference_path(PathSettings(depth=DEPTHS[goal.path]))
        self.run = TrialRun(shipped_policy(name, path, seed=seed), path, goal.longest or config.longest)
        self._said = {"policy": name, "path": goal.path, "seed": seed, "commanded": [], "lifted": None}
        self._file = new_folder(config.directory, "trial") / "trial.json"

    def _whole_trial(self) -> Iterator[None]:
        """The whole trial, which pauses wherever it waits for somebody; it comes to a declared end whatever happens."""
        try:
            yield from self._dig()
            yield from self._bring_out()
        except Stopped:
            if self._said["lifted"] is None:
                yield from self._retreat()
                self._end(False, f"cancelled; {self._goes_on()}", "canceled")
                return
        except ArmSilent as error:
            self._end(False, f"{error}; {self._goes_on()}", "abort")
            return
        except OSError as error:
            yield from self._retreat()
            self._end(False, f"the trial's state cannot be kept: {error.strerror or error}", "abort")
            return
        except (Interrupted, ArmRefused, ValueError, TransformError) as error:
            yield from self._retreat()
            self._end(False, f"{error}; {self._goes_on()}", "abort")
            return
        jammed, mass = self._said["lifted"]["jammed"], self._said["lifted"]["mass"]
        success = self.run.finished and not jammed
        if jammed:
            brought = "nothing was lifted" if self.run.jammed else "the bucket jammed while it was lifted"
        else:
            brought = "the load was not weighed" if mass is None else f"{1e3 * mass:.0f} g were lifted"
        outcome = "canceled" if self.goal.cancelled else "succeed" if success else "abort"
        self._end(success, f"{self.run.ended}; {brought}", outcome)

    def _dig(self) -> Iterator[None]:
        """From the start of the path, or from where it was left, to the last motion."""
        run, looks, eye = self.run, needs_pictures(self.run.policy), PileEye()
        if run.states:
            if looks and run.states[-1].image is not None:
                eye.remember(run.states[-1].image)
            yield from self._place_again()
        else:
            yield from self._move(Motion.HOME, "leaving the camera's view")
            if looks:
                yield from self._look(eye, None)
            answer = yield from self._move(Motion.PLACE, "going to where the path starts", pose=run.path.poses[0])
            run.begin(state_of(answer, eye.picture(np.array(answer.state.pose)) if looks else None))
            self._keep(answer)
        lost = 0
        while (motion := (yield from self._ask())) is not None:
            self._show(motion)
            lost = lost + 1 if isinstance(run.policy, Mpc) and run.policy.plans[-1] is None else 0
            if lost == LOST:
                raise Interrupted(f"{LOST} times in a row no sequence of motions stays inside of the workspace")
            answer = yield from self._move(motion, f"motion {len(run.actions) + 1}, {NAMES[motion]}", MOTION)
            if answer.outcome == Outcome.OUT_OF_REACH:
                self.get_logger().info(f"the arm cannot make {NAMES[motion]} here: {answer.message}")
                run.refuse(answer.message.rstrip("."))
                continue
            jammed, image = answer.outcome == Outcome.JAMMED, None
            if looks and not jammed:
                pose = np.array(answer.state.pose)
                yield from self._look(eye, pose)
                image = eye.picture(pose)
            run.settle(outcome_of(answer, run.states[-1], image))
            self.diagnostics.tick("motions")
            self._keep(answer)
        self._keep()

    def _ask(self) -> Iterator[None]:
        """The policy's choice, which may take a second or two and is made beside the node's other business."""
        self._phase, began = "deciding", time.perf_counter()
        asked = self._thread.submit(self.run.ask)
        while not asked.done():
            yield
        if self.goal.cancelled:
            raise Stopped
        self._times = [*self._times[-199:], time.perf_counter() - began]
        return asked.result()

    def _place_again(self) -> Iterator[None]:
        """Bring the bucket to where an interrupted trial left it."""
        commanded = np.array(self._said["commanded"], float)
        there = self.arm.state
        if self.arm.where == IN_PILE and there is not None and np.allclose(there.commanded, commanded, atol=SAME):
            return
        yield from self._move(Motion.PLACE, "going to where the trial was interrupted", pose=commanded)

    def _bring_out(self) -> Iterator[None]:
        """Lift, weigh, empty, and leave; after a jam the bucket comes out, and what is in it does not count."""
        jammed = self.run.jammed
        if jammed:
            self.get_logger().warning(self.run.ended)
        answer = yield from self._move(Motion.LIFT, "lifting", (Outcome.DONE, Outcome.JAMMED))
        stuck = answer.outcome == Outcome.JAMMED
        load = 0.0 if jammed or stuck else float(answer.load)
        mass = max(0.0, load) if np.isfinite(load) else None
        self._said["lifted"] = {"mass": mass, "jammed": jammed or stuck}
        self._keep()
        if stuck:
            yield from self._retreat()
            return
        yield from self._move(Motion.EMPTY, "emptying the bucket")
        yield from self._move(Motion.HOME, "leaving the camera's view")

    def _retreat(self) -> Iterator[None]:
        """Out of the pile, wherever the arm can still move."""
        try:
            answer = yield from self.arm.move(Motion.LIFT, say=self._say("leaving the pile"))
        except (ArmRefused, ArmSilent) as error:
            self.get_logger().warning(f"the bucket was not lifted out: {error}")
            return
        if answer.outcome != Outcome.DONE:
            self.get_logger().warning(f"the bucket was not lifted out: {answer.message}")

    def _move(self, motion: int, phase: str, known=(Outcome.DONE,), pose=(0.0, 0.0, 0.0, 0.0)) -> Iterator[None]:
        """The arm's answer to a motion, if it is among those that are known what to do with.

        Raises:
            Interrupted: it is not. Stopped: the trial was cancelled meanwhile.
        """
        say = self._say(phase)
        say(self._force, "")
        answer = yield from self.arm.move(motion, pose, say, lambda: self.goal.cancelled)
        self._force = float(np.linalg.norm(answer.state.force))
        if self.goal.cancelled and answer.outcome == Outcome.CANCELLED:
            raise Stopped
        if answer.outcome in known:
            return answer
        raise Interrupted(f"{phase}: {answer.message.rstrip('.')}")

    # -- what is seen ------------------------------------------------------------------------------

    def _look(self, eye: PileEye, pose: np.ndarray | None) -> Iterator[None]:
        """A picture from now on. Raises ValueError, TransformError."""
        self._phase = "looking at the pile"
        seen = yield from self.camera.look()
        eye.look(seen.colour, seen.depth, seen.K, seen.pose, pose)

    # -- what others are told ----------------------------------------------------------------------

    def _keep(self, answer: MoveBucket.Result | None = None) -> None:
        """Write the trial's state, and say it."""
        if answer is not None:
            self._said["commanded"] = [float(number) for number in answer.state.commanded]
        self._said["trial"] = self.run.state()
        self._said["progress"], self._said["ended"] = self.run.progress, self.run.ended
        save(self._said, self._file)
        self._told.publish(String(data=json.dumps(told_of(self._said))))

    def _show(self, motion: int) -> None:
        run, name, stamp = self.run, self._said["policy"], self.stamp_now()
        self._plans.publish(plan_message(name, len(run.actions), motion, run.policy, self._times[-1], stamp))

    def _say(self, phase: str):
        def say(force: float, detail: str) -> None:
            self._phase, self._force = f"{phase}: {detail}" if detail else phase, force
            if not self.goal.under_way:
                return
            told = RunExcavation.Feedback(step=len(self.run.actions), phase=self._phase, force=float(force))
            told.progress = self.run.progress
            self.goal.tell(told)

        return say

    def _goes_on(self) -> str:
        if self.run.ended:
            return f"before that {self.run.ended}"
        return f"the trial can be resumed from {self._file}" if self._file.is_file() else "nothing was dug yet"

    def _end(self, success: bool, message: str, outcome: str) -> None:
        self.arm.let_go()
        self.goal.end(result_of(self.run, success, message, str(self._file), self._said["lifted"]), outcome)


def main(args=None) -> int:
    return spin_main(Excavation, args)
