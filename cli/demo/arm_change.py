"""From the options of an arm's demonstration to what happens to the arm, and what its refit may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cli.errors import CommandError
from config.description import PayloadDemo, Track
from config.robot import load_robot
from nodes.control.robot_task import free_parameters, robot_model
from sim_core.multibody import load_model
from sim_core.plant.robot_changes import ChangeError, free_for, scenario_of

__all__ = ["ArmChange", "arm_change"]

#: the word with which --free asks for nothing beyond the usual
NOTHING = "none"


@dataclass(frozen=True)
class ArmChange:
    """What changes, and what the refit may change for it.

    Attributes:
        events: of a scenario, without their time.
        free: besides what the hand holds and the gears' friction, see `nodes.control.robot_task.free_parameters`.
    """

    events: tuple[dict[str, Any], ...]
    free: str = ""

    def scenario(self, time: float) -> list[dict[str, Any]]:
        """The events, all at a time [s]."""
        return [{"time": time, **event} for event in self.events]


def arm_change(robot: str, changes: Sequence[str], payload: float | None, free: str | None) -> ArmChange:
    """What happens to an arm.

    Args:
        robot: name in config/robots, or path of its folder.
        changes: as `sim_core.plant.robot_changes` reads them. Without any, and with `payload`, the usual payload appears.
        payload: its mass [kg]; None: what the robot's file says.
        free: what the refit may change besides its usual, "none" for nothing; None: what the kinds of the changes ask for.

    Raises:
        CommandError: a change that cannot be made, or a name that matches nothing.
    """
    description, model = load_robot(robot), load_model(robot)
    demo, hand = description.demo_as(PayloadDemo), description.task_as(Track).payload_body
    texts = list(changes)
    if payload is not None and any(text.startswith("payload:") for text in texts):
        raise CommandError("--change payload:... and --payload both give the mass; leave one out.")
    if payload is not None or not texts:
        texts.insert(0, f"payload:{demo.mass if payload is None else payload}")
    try:
        events = scenario_of(texts, model, hand, demo.com)
    except ChangeError as error:
        raise CommandError(f"--change {error}") from None
    for event in events:
        if event["action"] == "attach":
            lightest, heaviest = demo.mass_range
            if not lightest <= event["mass"] <= heaviest:
                raise CommandError(
                    f"--change payload:{event['mass']:g}: {description.name} takes {lightest:g} to {heaviest:g} kg."
                )
    chosen = ",".join(free_for(events, model, hand)) if free is None else "" if free.strip() == NOTHING else free
    try:
        free_parameters(description, robot_model(robot, chosen), free=chosen)
    except (ValueError, KeyError) as error:
        raise CommandError(f"--free {chosen}: {error}") from None
    return ArmChange(tuple(events), chosen)
