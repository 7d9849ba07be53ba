"""The controller of an arm that pokes: presses a probe into an object where it is told to, until a force is felt, and comes back.

A joint state arrives, the newest wrenches are taken, and one command for all joints leaves. The algorithms are
`sim_core/elastic`: the arm (`poking_arm.py`) and one poke of it (`poke_motion.py`).

Page: docs/nodes/poke_arm.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from refit_interfaces.action import PokeObject
from refit_interfaces.msg import PokeMeta, PokeSample
from std_srvs.srv import Trigger

from config.description import Poke
from config.robot import load_robot
from nodes.control.arm_controller import WRIST, ArmController, ArmControllerConfig
from nodes.control.poke_messages import DEEPEST, FORCES, meta_message, order_of, result_of, sample_message, told_phase
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main
from nodes.framework.long_action import LongAction
from nodes.framework.qos import LEDGER, STATE
from sim_core.elastic.poke_motion import PokeMotion, PokeOrder, PokeOutcome, PokeSettings
from sim_core.elastic.poking_arm import PERIOD, PokeReach, PokingArm
from sim_core.elastic.probe_reading import HeardWrenches
from sim_core.multibody import load_model

__all__ = ["PokeArmController", "PokeArmControllerConfig", "main"]

PROBES = ("point", "line", "cylinder")
#: those that look alike from all sides, so that their roll is the arm's to choose
SYMMETRIC = ("point", "cylinder")
OWN = PokeSettings()


@dataclass(frozen=True)
class PokeArmControllerConfig(ArmControllerConfig):
    """Parameters of `poke_arm`."""

    robot: str = setting("panda_poker", description="model in config/robots, whose task is poke", read_only=True)
    control_period: float = setting(
        PERIOD, "s", (0.002, 0.02), "time between commands, and between looks at the force", read_only=True
    )
    object: str = setting("", description="name of what is poked, for whoever reads a bag of it", read_only=True)
    probe: str = setting("point", choices=PROBES, description="that the arm holds", read_only=True)
    force_limit: float = setting(5.0, "N", FORCES, "at which a poke ends whose goal names none", read_only=True)
    deepest: float = setting(
        0.02, "m", DEEPEST, "displacement at which a poke ends whose goal names none", read_only=True
    )
    standoff: float = setting(
        OWN.standoff, "m", (0.002, 0.05), "before the point, from where the probe advances", read_only=True
    )
    clearance: float = setting(
        OWN.clearance, "m", (0.02, 0.2), "before the point, to where it comes through the air", read_only=True
    )
    travel: float = setting(0.45, "m", (0.05, 0.8), "height at which it goes from place to place", read_only=True)
    transit: float = setting(OWN.transit, "m/s", (0.01, 0.3), "in the air, at most", read_only=True)
    turning: float = setting(OWN.turning, "rad/s", (0.05, 1.5), "in the air, at most", read_only=True)
    approach: float = setting(
        OWN.approach, "m/s", (0.002, 0.05), "between clearance and stand-off, and back", read_only=True
    )
    touch: float = setting(OWN.touch, "N", (0.01, 2.0), "that counts as contact", read_only=True)
    margin: float = setting(OWN.margin, "N", (0.2, 10.0), "over a poke's limit that is too forceful", read_only=True)
    abort: float = setting(OWN.abort, "N", (2.0, 50.0), "in the air, at which it goes back", read_only=True)
    sensor_range: float = setting(
        OWN.range, "N", (1.0, 1000.0), "of one axis of the sensor, from which on it is saturated", read_only=True
    )
    drift_limit: float = setting(
        OWN.drift, "N", (0.01, 10.0), "of the force in the air between begin and end that is too much", read_only=True
    )

    def __post_init__(self) -> None:
        self.settings()

    def settings(self) -> PokeSettings:
        """Of all pokes."""
        same = ("standoff", "clearance", "transit", "turning", "approach", "touch", "margin", "abort")
        return PokeSettings(
            range=self.sensor_range,
            drift=self.drift_limit,
            silent=self.wrench_age_limit,
            **{name: getattr(self, name) for name in same},
        )


class PokeArmController(ArmController):
    """See the module's docstring."""

    name = "poke_arm"
    Config = PokeArmControllerConfig
    deed_word, tool_word = "poke", "the probe"
    outcomes, unreachable = PokeOutcome, PokeOutcome.OUT_OF_REACH

    def configure(self) -> None:
        config = self.config
        frame, model = load_robot(config.robot).task_as(Poke).frame, load_model(config.robot)
        reach = PokeReach(travel=config.travel)
        self.arm = PokingArm(model, frame, WRIST, config.settings(), reach, config.control_period)
        self.felt = HeardWrenches()
        self._pokes = self._samples_told = 0
        self._phase_told: int | None = None
        self.control(model.joint_names)
        self.samples = self.create_lifecycle_publisher(PokeSample, "poke_arm/sample", STATE)
        self.metas = self.create_lifecycle_publisher(PokeMeta, "poke_arm/meta", LEDGER)
        self.serve(LongAction(self, PokeObject, "poke_arm/poke", self.begin, self.refusal, self.cancel))
        self.keep(self.samples, self.metas, self.create_service(Trigger, "poke_arm/home", self._on_home))

    def start_over(self) -> None:
        super().start_over()
        self.arm.motion = None

    def _on_home(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self.answer(self.arm.go_home, "The arm goes home.", response)

    # -- the goal ----------------------------------------------------------------------------------

    def order_of(self, goal: PokeObject.Goal) -> PokeOrder:
        return order_of(goal, self.config.probe, self.config.force_limit, self.config.deepest)

    def start_deed(self, order: PokeOrder) -> PokeMotion:
        self._pokes += 1
        self._samples_told, self._phase_told = 0, None
        return self.arm.poke(order, self.config.probe in SYMMETRIC)

    def look_after(self, deed: PokeMotion) -> None:
        """Say what is new of it: the phase, and each reading while it presses."""
        told, log = told_phase(deed.phase), deed.log
        if self._phase_told in (None, PokeMeta.APPROACH) and log.air is not None:
            self._tell_phase(deed, PokeMeta.PRESS, log.begun)
        for k in range(self._samples_told, len(log.stamp)):
            self.samples.publish(sample_message(log, k, self._pokes))
        self._samples_told = len(log.stamp)
        if told != self._phase_told:
            pressed = told == PokeMeta.RETRACT and log.air is not None
            self._tell_phase(deed, told, log.ended if pressed else self.beat.stamp)

    def _tell_phase(self, deed: PokeMotion, told: int, stamp: float) -> None:
        self._phase_told = told
        config = self.config
        self.metas.publish(meta_message(deed, self._pokes, told, stamp, config.probe, config.object))

    def result_of(self, outcome: PokeOutcome, why: str, deed: PokeMotion | None) -> tuple[PokeObject.Result, bool]:
        if deed is not None and self.is_active:
            self.look_after(deed)
        return result_of(outcome, why, deed, self._pokes), outcome in (PokeOutcome.DONE, PokeOutcome.DEEPEST)

    def feedback_of(self, phase: str, deed: PokeMotion | None) -> PokeObject.Feedback:
        log = deed.log if deed is not None and deed.log.stamp else None
        return PokeObject.Feedback(
            phase=phase,
            displacement=float("nan") if log is None else log.displacement[-1],
            force=self.force() if log is None else log.force[-1],
        )

    # -- what it says ------------------------------------------------------------------------------

    def phase_of(self, deed: PokeMotion) -> str:
        return deed.phase.value

    def force(self) -> float:
        return float(np.linalg.norm(self.arm.force))

    def doing(self) -> str:
        if self.arm.busy:
            return self.arm.motion.phase.value
        return "on the way home" if self.arm.homing else "waiting"


def main(args=None) -> int:
    return spin_main(PokeArmController, args)
