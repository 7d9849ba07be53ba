"""The controller of an arm that digs: moves its bucket as it is told, motion by motion, and stops itself where the pile holds it.

A joint state arrives, the newest wrenches are taken, and one command for all joints leaves. The algorithms are
`sim_core/excavation`: the arm (`bucket_arm.py`) and one motion of it (`bucket_motion.py`).

Page: docs/nodes/bucket_arm.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from refit_interfaces.action import MoveBucket
from refit_interfaces.msg import BucketJam, BucketState
from std_msgs.msg import String

from config.description import Dig
from config.robot import load_robot
from nodes.control.arm_controller import WRIST, ArmController, ArmControllerConfig
from nodes.control.bucket_messages import jam_message, order_of, result_of, state_message
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main
from nodes.framework.long_action import LongAction
from nodes.framework.qos import LATCHED, LEDGER, STATE
from sim_core.excavation.bucket_arm import BucketArm, DigSite, Move, Ways
from sim_core.excavation.bucket_motion import BucketMotion, JamLimits, MotionOutcome
from sim_core.excavation.pile import PileSettings
from sim_core.excavation.primitives import PrimitiveSettings
from sim_core.multibody import load_model
from sim_core.scooping.arm.felt_wrench import FeltWrench

__all__ = ["BucketArmController", "BucketArmControllerConfig", "main"]

#: what a shipped model of digs knows
PILE = PileSettings()


@dataclass(frozen=True)
class BucketArmControllerConfig(ArmControllerConfig):
    """Parameters of `bucket_arm`."""

    robot: str = setting("panda_bucket", description="model in config/robots, whose task is dig", read_only=True)
    force_limit: float = setting(
        PILE.force_limit, "N", (5.0, 120.0), "of the pile on the bucket that is a jam, where it lasts", read_only=True
    )
    force_patience: float = setting(PILE.patience, "s", (0.008, 0.5), "for which it has to last", read_only=True)
    force_relief: float = setting(
        50.0,
        "N",
        (5.0, 120.0),
        "of the pile on the bucket at which a motion among the blocks goes no farther; beyond the limit: none does",
        read_only=True,
    )
    torque_limit: float = setting(
        PILE.torque_limit,
        "N m",
        (1.0, 87.0),
        "that the pile puts on a joint and that is a jam, at once",
        read_only=True,
    )
    cutoff: float = setting(60.0, "Hz", (5.0, 200.0), "of the low pass of the wrench", read_only=True)
    speed: float = setting(
        PILE.primitives.speed, "m/s", (0.005, 0.2), "of the bucket in a translation among the blocks", read_only=True
    )
    turning: float = setting(PILE.primitives.turning, "rad/s", (0.05, 2.0), "in a rotation among them", read_only=True)
    wiggle_frequency: float = setting(PILE.primitives.frequency, "Hz", (0.2, 3.0), "of a wiggle", read_only=True)
    wiggle_time: float = setting(PILE.primitives.time, "s", (0.2, 20.0), "that a wiggle lasts", read_only=True)
    transit: float = setting(0.2, "m/s", (0.02, 0.4), "in the air, at most", read_only=True)

    @property
    def limits(self) -> JamLimits:
        """When the arm stops itself."""
        return JamLimits(self.force_limit, self.force_patience, self.torque_limit, relief=self.force_relief)

    @property
    def primitives(self) -> PrimitiveSettings:
        """Sizes and speeds of the nine motions."""
        return PrimitiveSettings(
            speed=self.speed, turning=self.turning, frequency=self.wiggle_frequency, time=self.wiggle_time
        )


class BucketArmController(ArmController):
    """See the module's docstring."""

    name = "bucket_arm"
    Config = BucketArmControllerConfig
    deed_word, tool_word = "motion", "the bucket"
    outcomes, unreachable = MotionOutcome, MotionOutcome.OUT_OF_REACH

    def configure(self) -> None:
        config = self.config
        task = load_robot(config.robot).task_as(Dig)
        model = load_model(config.robot)
        self.arm = BucketArm(
            model,
            DigSite(task.pile, task.bin),
            config.limits,
            config.primitives,
            ways=Ways(speed=config.transit),
            period=config.control_period,
            frame=task.frame,
        )
        self.felt = FeltWrench(model, WRIST, task.frame, config.cutoff, config.wrench_age_limit)
        self._said, self._move = "", Move.HOME
        self.control(model.joint_names)
        self.states = self.create_lifecycle_publisher(BucketState, "bucket/state", STATE)
        self.jams = self.create_lifecycle_publisher(BucketJam, "bucket/jam", LEDGER)
        self.places = self.create_lifecycle_publisher(String, "bucket/where", LATCHED)
        self.serve(LongAction(self, MoveBucket, "bucket/move", self.begin, self.refusal, self.cancel))
        self.keep(self.states, self.jams, self.places)

    def forget(self) -> None:
        super().forget()
        self._said = ""

    def start_over(self) -> None:
        super().start_over()
        self.arm.jammed = False  # the pile is another one

    # -- the goal ----------------------------------------------------------------------------------

    def order_of(self, goal: MoveBucket.Goal) -> tuple[Move, tuple[float, ...]]:
        return order_of(goal)

    def start_deed(self, order: tuple[Move, tuple[float, ...]]) -> BucketMotion | str:
        self._move, pose = order
        return self.arm.begin(self._move, pose)

    def result_of(self, outcome: MotionOutcome, why: str, deed: BucketMotion | None) -> tuple[MoveBucket.Result, bool]:
        stamp = self.stamp_now()
        if deed is not None and deed.jam is not None:
            self.jams.publish(jam_message(self._move, deed.jam, deed.why, stamp))
        state = self._state(stamp)
        self.states.publish(state)
        self._say_where()  # before the result, whose hearer may ask for the next motion at once
        result = result_of(outcome, why, deed, state)
        return result, result.outcome == MoveBucket.Result.DONE

    def feedback_of(self, phase: str, deed: BucketMotion | None) -> MoveBucket.Feedback:
        return MoveBucket.Feedback(done=0.0 if deed is None else deed.share, force=self.force(), phase=phase)

    # -- what it says ------------------------------------------------------------------------------

    def attend(self) -> None:
        super().attend()
        self._say_where()

    def tell(self, stamp) -> None:
        self.states.publish(self._state(stamp))

    def _state(self, stamp) -> BucketState:
        pose = np.full(4, np.nan) if self.position is None else self.arm.state(self.position)
        return state_message(pose, self.arm.commanded, self.arm.force, stamp)

    def _say_where(self) -> None:
        said = "halted" if self.halt_reason else self.doing()
        if said != self._said:
            self._said = said
            self.places.publish(String(data=said))

    def phase_of(self, deed: BucketMotion) -> str:
        return deed.phase

    def force(self) -> float:
        return float(np.linalg.norm(self.felt.at(self.beat.stamp)[:3]))

    def doing(self) -> str:
        if self.arm.busy:
            return self.arm.motion.phase
        return self.arm.where if self.started else "waiting for joint states"


def main(args=None) -> int:
    return spin_main(BucketArmController, args)
