"""From a recorded run to windows: what a bag must hold, and a sentence for everything it may lack.

Knows recordings only by the methods of `Table` and `Bag`, so that it stays free of file formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from identification.errors import UnusableInput
from recording import JointSeries
from sim_core.inference.data.window import Window, contiguous_windows
from sim_core.multibody import ModelError, RobotModel, load_model

__all__ = ["Bag", "BagData", "Table", "controls_from_effort", "read_description", "read_windows"]

# Stretches shorter than this hold no information worth their two start states [s].
SHORTEST = 0.25
# At least this share of the samples must lie in usable stretches.
USABLE = 0.5

# Times given in milliseconds still name the sample they mean [s].
ROUNDING = 6e-4

# Beyond this no joint of any robot is, moves or is driven [rad or m, .../s, N m or N].
LARGEST = 1e6


class Table(Protocol):
    """A recording of joints and nothing else: recording.CsvRecording."""

    def joint_states(self, *, joints: Sequence[str]) -> JointSeries: ...


@runtime_checkable
class Bag(Table, Protocol):
    """A recording that says which robot it is of: recording.BagReader."""

    def robot_description(self) -> str: ...

    def run_info(self) -> dict: ...


@dataclass(frozen=True)
class BagData:
    """Usable stretches of a recording.

    windows: in order of time. notes: sentences about what was left out. dt: sample period [s].
    """

    windows: list[Window]
    notes: list[str]
    dt: float


def read_description(bag: Bag, robot: str | None = None) -> tuple[RobotModel, str]:
    """The nominal robot a bag was recorded with, loaded as a model.

    Args:
        robot: expected name, or None.

    Returns:
        (model, source): the model, and what load_model took to make it.

    Raises:
        UnusableInput: no such robot, or the description does not belong to the recorded run.
    """
    name, recorded = _recorded_robot(bag.run_info())
    if robot and name != robot:
        raise UnusableInput(
            f"the bag was recorded with robot {name!r:.60}, expected '{robot}'; name the right bag or leave out --robot"
        )
    source = bag.robot_description()
    if not source.lstrip().startswith("<"):  # a name or a path would load whatever lies there now
        raise UnusableInput(
            f"robot_description in the bag begins with {source[:20]!r}, expected the text of an MJCF or URDF file; "
            "record with sim_plant, robot_state or a driver that publishes it"
        )
    try:
        model = load_model(source)
        model.require_scalar_joints("Identification from joint states")
    except ModelError as error:
        told = " ".join(str(error).split())  # MuJoCo's compiler takes several lines
        raise UnusableInput(f"robot_description in the bag is no usable model: {told}") from None
    if name and name != model.name:
        raise UnusableInput(
            f"run_info says robot {name!r:.60}, robot_description is of '{model.name}': "
            "the bag mixes two robots or two versions of one"
        )
    if recorded and recorded != model.hash:
        raise UnusableInput(
            f"robot_description has model hash {model.hash[:12]}, run_info says {recorded[:12]}: "
            "the bag mixes two robots or two versions of one"
        )
    return model, source


def _recorded_robot(info: dict) -> tuple[str, str]:
    """(robot, model_hash) of a run_info; each is "" where the recorder did not come to know it.

    Raises:
        UnusableInput: the keys that every recorder writes are missing, or hold something else.
    """
    if missing := [key for key in ("robot", "model_hash") if key not in info]:
        raise UnusableInput(
            f"run_info has no '{missing[0]}', only {list(info)!r:.100}: it is not what the recorder "
            "writes (docs/bags.md); record again, or add the key"
        )
    for key, kind, form in (("robot", str, "text"), ("model_hash", str, "text"), ("parameters", dict, "an object")):
        if not isinstance(info.get(key, kind()), kind):
            raise UnusableInput(f"run_info says {key} {info[key]!r:.60}, expected {form} (docs/bags.md); record again")
    return info["robot"], info["model_hash"]


def controls_from_effort(model: RobotModel, effort: np.ndarray) -> np.ndarray:
    """Controls u (T, nu) behind joint efforts (T, nv): u = effort / (gear gain), for plain motors.

    Raises:
        UnusableInput: several actuators share a joint, or one is no plain motor, so that its control
            cannot be told from the joint's effort.
    """
    u = np.empty((len(effort), model.nu))
    driven = [a.v_index for a in model.actuators]
    for i, actuator in enumerate(model.actuators):
        joint = model.joint_names[actuator.v_index]
        if driven.count(actuator.v_index) > 1:
            raise UnusableInput(f"joint '{joint}' has several actuators; their shares of its effort are unknown")
        if any(actuator.gain[1:]) or any(actuator.bias):
            raise UnusableInput(
                f"actuator '{actuator.name}' is no plain motor; its control does not follow from the effort"
            )
        gear = model.parameters.nominal[model.parameters.index(f"{actuator.name}.gear")]
        u[:, i] = effort[:, actuator.v_index] / (gear * actuator.gain[0])
    return u


def read_windows(bag: Table, model: RobotModel, begin: float = -np.inf, end: float = np.inf) -> BagData:
    """Windows of a bag's joint states.

    `effort` at stamp t was applied over the tick that ended at t, so u[k] = u(effort[k+1]).

    Args:
        begin, end: seconds since the first sample; the stretch to use.

    Raises:
        UnusableInput: NaN or numbers that no robot has, no motion, time standing still or running backwards, too slow
            or uneven samples, nothing left.
        BagError (of the reader): topic or joint missing.
    """
    series = bag.joint_states(joints=model.joint_names)
    t = series.t - series.t[0]
    jumps = series.time_jumps()
    inside = (t >= begin - ROUNDING) & (t <= end + ROUNDING)
    if jumps.size:
        # Seconds since the start mean the part before the first jump; beyond it they are ambiguous.
        k = int(jumps[0])
        if end > t[k - 1] + ROUNDING:
            raise UnusableInput(
                f"time jumps back at sample {k}: from {t[k - 1]:.3f} s to {t[k]:.3f} s (a reset); "
                f"use the part before it with --to {t[k - 1]:.3f}, or record without resets"
            )
        inside[k:] = False
    if inside.sum() < 3:
        raise UnusableInput(
            f"{int(inside.sum())} joint states between {begin:g} s and {end:g} s; "
            f"the bag spans {t[0]:g} to {t.max():.3f} s"
        )
    t, q, v, effort = (a[inside] for a in (t, series.q, series.v, series.effort))
    for name, values in (("position", q), ("velocity", v), ("effort", effort)):
        if not np.isfinite(values).all():
            k, j = np.argwhere(~np.isfinite(values))[0]
            count = int((~np.isfinite(values)).any(1).sum())
            raise UnusableInput(
                f"{name} of {model.joint_names[j]} is not finite at {t[k]:.3f} s ({count} of {len(t)} samples); "
                "repair the driver or choose a stretch with --from and --to"
            )
        if np.abs(values).max() > LARGEST:
            k, j = np.argwhere(np.abs(values) > LARGEST)[0]
            raise UnusableInput(
                f"{name} of {model.joint_names[j]} is {values[k, j]:.3g} at {t[k]:.3f} s, expected at most {LARGEST:g} "
                "[SI]; repair the driver or choose a stretch with --from and --to"
            )
    if not np.ptp(q, axis=0).any():
        raise UnusableInput(
            f"no joint moves: all {len(t)} positions of {', '.join(model.joint_names)} are the same; "
            "record while the robot moves, or choose another stretch with --from and --to"
        )
    notes = []
    fresh = np.concatenate([[True], np.diff(t) > 1e-9])
    if fresh.sum() < 3:
        raise UnusableInput(
            f"time stands still: {len(t)} joint states have {int(fresh.sum())} different stamps between "
            f"{series.t[0]:g} s and {series.t[-1]:g} s; let the driver stamp every joint state"
        )
    if not fresh.all():
        notes.append(f"{int((~fresh).sum())} repeated samples dropped")
        t, q, v, effort = (a[fresh] for a in (t, q, v, effort))
    dt = _period(t, model)
    u = controls_from_effort(model, effort)[1:]
    windows = contiguous_windows(t, q, v, u, dt, min_transitions=max(2, round(SHORTEST / dt)))
    used = sum(w.transitions for w in windows) / max(len(t) - 1, 1)
    if used < USABLE:
        gaps = int((np.abs(np.diff(t) - dt) > 0.05 * dt).sum())
        raise UnusableInput(
            f"only {100 * used:.0f} % of the samples lie in even stretches of {SHORTEST:g} s at {dt * 1e3:g} ms "
            f"({gaps} gaps or uneven stamps); record with all samples and hardware stamps"
        )
    if len(windows) > 1 or used < 1.0:
        notes.append(f"{len(windows)} stretches without gaps, {100 * used:.1f} % of the samples used")
    return BagData(windows, notes, dt)


def _period(t: np.ndarray, model: RobotModel) -> float:
    """Sample period, rounded to a whole number of the model's time steps.

    Raises:
        UnusableInput: samples are not spaced by whole time steps.
    """
    dt = float(np.median(np.diff(t)))
    steps = round(dt / model.timestep)
    if steps < 1 or abs(dt - steps * model.timestep) > 0.02 * dt:
        raise UnusableInput(
            f"joint states come every {dt * 1e3:.3f} ms, which is no multiple of the model's time step of "
            f"{model.timestep * 1e3:g} ms; set the model's timestep or record at servo rate"
        )
    return steps * model.timestep
