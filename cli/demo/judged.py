"""What an arm's demonstration judges: the quantities that changed, and how far the estimates are from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.multibody import RobotModel
from sim_core.plant.robot_changes import truth_after

__all__ = ["Judged", "judged", "owner"]

#: error allowed for, over what changed: of a payload, of anything else
PAYLOAD_ERROR, OTHER_ERROR = 0.05, 0.1

#: end of an estimate's name -> whose it is, and what people call it
_OWNERS = {"gear": "motors", "mass": "links"} | dict.fromkeys(("frictionloss", "damping", "armature"), "joints")
_CALLED = {
    "frictionloss": "friction",
    "damping": "damping",
    "armature": "rotor inertia",
    "gear": "motor strength",
    "mass": "mass",
}


@dataclass(frozen=True)
class Judged:
    """Estimates of one kind that are judged together.

    Attributes:
        called: what people call them. unit: of all.
        before, truth: by name of the estimate, before and after the change, SI.
        scale: by how much each changed; errors are shares of it. tolerance: allowed of them.
    """

    called: str
    unit: str
    before: Mapping[str, float]
    truth: Mapping[str, float]
    scale: Mapping[str, float]
    tolerance: float

    def error(self, estimates: Iterable[Any]) -> float:
        """The worst error of messages refit_interfaces/Parameter, over what changed; inf where one is missing."""
        found = {e.name: e.value for e in estimates}
        return max(abs(found.get(name, np.inf) - true) / self.scale[name] for name, true in self.truth.items())

    def inside(self, estimates: Iterable[Any]) -> float:
        """Share of the truths that lie inside their 95 % intervals."""
        found = {e.name: e for e in estimates}
        return float(np.mean([n in found and found[n].lower <= x <= found[n].upper for n, x in self.truth.items()]))

    @property
    def said(self) -> str:
        """What is true after the change, as a person would say it."""
        scale, unit = (180.0 / np.pi, "degrees") if self.unit == "rad" else (1.0, self.unit.replace("-", ""))
        first, *more = self.truth
        if not more:
            return (
                f"{self.called} {scale * self.before[first]:.4g} becomes {scale * self.truth[first]:.4g} {unit}".strip()
            )
        values = {round(scale * x, 9) for x in self.truth.values()}
        if len(values) == 1:
            return f"{self.called} becomes {values.pop():.4g} {unit}".strip()
        return (
            f"{self.called} becomes "
            + ", ".join(f"{owner(n)} {scale * x:.3g}" for n, x in self.truth.items())
            + f" {unit}"
        )


def owner(name: str) -> str:
    """What an estimate is of: the joint or link, or the axis of a tilt."""
    return name[-1] if name.startswith("gravity.tilt.") else name.partition(".")[0]


def judged(model: RobotModel, events: Iterable[Mapping[str, Any]], reported: Iterable[str]) -> list[Judged]:
    """What events changed, in groups of one kind.

    Args:
        model: that is fitted, with the robot's own values. events: of a recorded scenario.
        reported: names of the estimates that the refit gives; of others it is not asked.
    """
    reported, layout = set(reported), model.parameters
    truth = {
        name: x for name, x in truth_after(events, model).items() if name in reported and ".payload.com." not in name
    }
    kinds: dict[str, list[str]] = {}
    for name in truth:
        payload, tilt = name.endswith(".payload.mass"), name.startswith("gravity.tilt.")
        kinds.setdefault("payload" if payload else "tilt" if tilt else name.rpartition(".")[2], []).append(name)
    found = []
    for kind, names in kinds.items():
        before = {n: float(layout.nominal[layout.index(n)]) if n in layout else 0.0 for n in names}
        after = {n: truth[n] for n in names}
        change = {n: abs(after[n] - before[n]) for n in names}
        if kind == "tilt":  # two components of one thing
            change = dict.fromkeys(names, float(np.hypot(*change.values())))
        change = {n: x or 1.0 for n, x in change.items()}
        unit = {"payload": "kg", "tilt": "rad"}.get(kind) or layout.units[layout.index(names[0])]
        tolerance = PAYLOAD_ERROR if kind == "payload" else OTHER_ERROR
        found.append(Judged(_called(kind, names), unit, before, after, change, tolerance))
    return found


def _called(kind: str, names: list[str]) -> str:
    if kind == "payload":
        return "payload mass"
    if kind == "tilt":
        return "tilt of the base"
    return f"{_CALLED[kind]} of {owner(names[0]) if len(names) == 1 else f'{len(names)} {_OWNERS[kind]}'}"
