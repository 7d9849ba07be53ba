"""The physics of a recorded robot, from the bag alone: the most likely parameters and their intervals.

    outcome = identify("runs/today/bag", ["hand.payload", "joint*.damping"])
    print(outcome.found.after)                   # estimates with 95 % intervals, see NamedEstimate
    folder = write_identification(outcome, "runs/today/bag")  # identification/identify_results.py

Reads joint states, the nominal robot and the run's description from the bag, looks for changes of the robot, fits the
free parameters of every stretch between them from many starts, and judges them on the last part of the stretch. What the
robot is now is the last stretch.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from identification.bag_data import BagData, read_description, read_windows
from identification.errors import UnusableInput, unusable_input
from recording import BagError, BagReader
from reporting import Progress, Result
from sim_core.augmentation import AugmentationError, BlueprintFileError, attaching, load_blueprints
from sim_core.inference.fit.change_point import ChangeConfig
from sim_core.inference.fit.free_names import FreeNameError, default_names, free_parameters
from sim_core.inference.fit.identify import Identification, IdentificationError, IdentifyConfig
from sim_core.inference.fit.stretches import History, Stretch, identify_stretches
from sim_core.inference.shooting.shooting import DelayPrior
from sim_core.multibody import RobotModel
from sim_core.multibody.model.parameter_file import ParameterFile, ParameterValue

__all__ = ["BagIdentification", "identify", "parameter_file"]


@dataclass(frozen=True)
class BagIdentification:
    """What a bag said.

    Attributes:
        history: the fits of all stretches. model: that they belong to, with its networks.
        model_hash: of the robot without networks, as the bag names it.
        data: the windows that were read. result: the checks.
        truncated: why the bag ends early, "" if it does not. blueprint: file of the networks, "" for none.
    """

    history: History
    model: RobotModel
    model_hash: str
    data: BagData
    result: Result
    truncated: str
    blueprint: str = ""

    @property
    def found(self) -> Identification:
        """What the robot is now: the last stretch."""
        return self.history.found


def identify(
    bag: str | Path,
    free: Sequence[str] | None = None,
    robot: str | None = None,
    begin: float = 0.0,
    end: float = float("inf"),
    config: IdentifyConfig = IdentifyConfig(),
    allow_truncated: bool = False,
    progress: Progress | None = None,
    detect: ChangeConfig | None = ChangeConfig(),
    blueprint: str | Path | None = None,
) -> BagIdentification:
    """Fit the free parameters of a bag's robot to its joint states, on every stretch between changes of the robot.

    Args:
        bag: bag directory or .mcap file.
        free: names as for `free_parameters` (hand.inertia, joint*.damping, sensor.delay, ...); None: the robot's own list
            (robot.yaml).
        robot: name that the bag must have been recorded with; None: any.
        begin, end: stretch of the recording to use [s].
        allow_truncated: use what a bag that was cut off still holds.
        detect: when a change is believed; None for one set of parameters throughout.
        blueprint: path of networks in the equations (docs/augmentation.md).

    Raises:
        UnusableInput: the bag or the blueprint cannot be used.
    """
    with unusable_input(BagError, FreeNameError, IdentificationError, AugmentationError, BlueprintFileError):
        reader = BagReader(bag)
        if reader.truncated and not allow_truncated:
            raise UnusableInput(f"{reader.truncated} Use --allow-truncated to identify from that part.")
        reader.require("joint_states", "robot_description", "run_info")
        nominal, source = read_description(reader, robot)
        data = read_windows(reader, nominal, begin, end)
        networks = load_blueprints(blueprint, trained=True) if blueprint else None
        model, spec, with_delay = free_parameters(
            source, list(free or default_names(nominal.name)), attaching(networks)
        )
        config = replace(config, delay=DelayPrior() if with_delay else None)
        history = identify_stretches(model, spec, data.windows, config, detect, progress)
    return BagIdentification(
        history,
        model,
        nominal.hash,
        data,
        _checks(history, nominal.name, config),
        reader.truncated,
        str(blueprint or ""),
    )


def _checks(history: History, robot: str, config: IdentifyConfig) -> Result:
    """The last stretch decides; the others are details."""
    found = history.found
    result = Result("identify", seed=config.seed, size=robot)
    result.check("held-out prediction error, after / before", found.error_ratio, 1.0, "<", unit="1")
    result.check("fit ended", found.solution.ending.name.lower(), ("converged",), "in")
    result.detail("parameters", _estimates(found))
    result.detail(
        "changes",
        [
            {
                "time": c.time,
                "lower": c.lower,
                "upper": c.upper,
                "held_out_cost_one_set_over_two": c.factor,
                "gain_in_standard_errors": c.errors,
                "changed": history.changed(i),
            }
            for i, c in enumerate(history.changes)
        ],
    )
    result.detail("stretches", [_stretch(s) for s in history.stretches])
    result.detail("unexcited", list(found.unexcited))
    result.detail("at_bound", list(found.at_bound))
    result.detail("rank", found.posterior.rank)
    result.detail("singular_values", found.posterior.singular_values)
    result.detail("starts_that_agree", found.agreeing)
    result.detail("held_out_rmse_before", found.forecast_before.rmse)
    result.detail("held_out_rmse_after", found.forecast_after.rmse)
    return result


def _estimates(found: Identification) -> list[dict]:
    return [
        {
            "name": b.name,
            "unit": b.unit,
            "before": a.value,
            "value": b.value,
            "std": b.std,
            "lower": b.lower,
            "upper": b.upper,
        }
        for a, b in zip(found.before, found.after)
    ]


def _stretch(stretch: Stretch) -> dict:
    row = {"begin": stretch.begin, "end": stretch.end}
    if stretch.found is None:
        return {**row, "not_identified": stretch.reason}
    found = stretch.found
    return {
        **row,
        "ended": found.solution.ending.name.lower(),
        "held_out_error_ratio": found.error_ratio,
        "unexcited": list(found.unexcited),
        "parameters": _estimates(found),
    }


def parameter_file(outcome: BagIdentification, leave_out: str = "") -> ParameterFile:
    """The identified values as plant and controller load them, without names that match the pattern `leave_out`."""
    found, sensor = outcome.found, {}
    if "sensor.delay" in found.names:
        delay = found.after[-1]
        sensor["delay"] = ParameterValue(delay.value, delay.std, "s")
    names = [name for name in _written_names(outcome) if not fnmatch.fnmatch(name, leave_out)]
    return ParameterFile.from_vector(
        outcome.model, found.p, found.physical_covariance, names, sensor, outcome.model_hash
    )


def _written_names(outcome: BagIdentification) -> list[str]:
    """Physical entries that the free coordinates set, in the order of the physical vector."""
    moved = outcome.found.physical_covariance.diagonal() > 0.0
    return [name for name, yes in zip(outcome.model.parameters.names, moved) if yes]
