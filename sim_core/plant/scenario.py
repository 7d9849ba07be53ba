"""Hidden changes of the plant: what happens to the robot, and when, in simulated time.

    - {time: 5.0, action: attach, frame: hand, mass: 2.0, com: [0.03, 0.0, 0.06]}
    - {time: 8.0, action: detach, name: payload}
    - {time: 3.0, action: scale, target: pole1.mass, factor: 10}
    - {time: 3.0, action: set, target: joint4.damping, value: 2.0}
    - {time: 6.0, action: actuator_gain, factor: 0.6, joints: [slider]}
    - {time: 0.0, action: delay, sensor: 0.002, command: 0.001}
    - {time: 9.0, action: patient, shift: [0.0, 0.0, 0.02], speed: 0.1}

No message ever tells the controller of them.
"""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import mujoco
import numpy as np
import yaml

from sim_core.plant.errors import EntityError, PlantError
from sim_core.plant.scene import shape_content

__all__ = ["PATIENT_SPEED", "Change", "Event", "Scenario", "parse_scenario"]

# field -> (what carries it, MuJoCo's array). Mass scales inertia too: the body grows denser.
_BODY = {"mass": ("body_mass", "body_inertia"), "inertia": ("body_inertia",)}
_DOF = {"damping": "dof_damping", "armature": "dof_armature", "frictionloss": "dof_frictionloss"}
_AXES = {"x": 0, "y": 1, "z": 2}

_KEYS: dict[str, dict[str, type]] = {
    "attach": {
        "frame": str,
        "mass": float,
        "com": list,
        "shape": str,
        "size": list,
        "name": str,
        "position": list,
        "quaternion": list,
    },
    "detach": {"name": str},
    "scale": {"target": str, "factor": float},
    "set": {"target": str, "value": float},
    "actuator_gain": {"factor": float, "joints": list},
    "delay": {"sensor": float, "command": float, "seconds": float},
    "patient": {"shift": list, "speed": float},
}
_REQUIRED: dict[str, set[str]] = {
    "attach": {"frame", "mass"},
    "detach": {"name"},
    "scale": {"target", "factor"},
    "set": {"target", "value"},
    "actuator_gain": {"factor"},
    "delay": set(),
    "patient": {"shift"},
}
#: [m/s] at which a person moves, unless somebody says otherwise; [m/s], [m] at most
PATIENT_SPEED = 0.1
FASTEST, FARTHEST = 2.0, 1.0


@dataclasses.dataclass(frozen=True)
class Change:
    """One physical number of the compiled model, scaled or set.

    `target` is "<name>.<field>": body.mass, body.inertia, joint.damping, joint.armature,
    joint.frictionloss, joint.gain, or gravity.x|y|z; the name may hold wildcards.
    """

    target: str
    factor: float | None = None
    value: float | None = None

    def apply(self, model: mujoco.MjModel) -> None:
        """Change `model` in place; derived constants are the caller's (mj_setConst).

        Raises:
            PlantError: no such body, joint or field.
        """
        name, _, field = self.target.rpartition(".")
        if name == "gravity" and field in _AXES:
            self._write(model.opt.gravity, _AXES[field])
        elif field in _BODY:
            for i in _matching(model, mujoco.mjtObj.mjOBJ_BODY, name, self.target):
                self._write_body(model, i, field)
        elif field in _DOF:
            for i in _matching(model, mujoco.mjtObj.mjOBJ_JOINT, name, self.target):
                self._write(getattr(model, _DOF[field]), model.jnt_dofadr[i])
        elif field == "gain":
            joints = set(_matching(model, mujoco.mjtObj.mjOBJ_JOINT, name, self.target))
            drives = [a for a in range(model.nu) if model.actuator_trnid[a, 0] in joints]
            if not drives:
                raise PlantError(f"'{self.target}': no actuator drives that joint.")
            for a in drives:
                self._write(model.actuator_gainprm, (a, 0))
        else:
            raise PlantError(
                f"'{self.target}' is no physical property; use body.mass, body.inertia, "
                f"joint.{'|'.join(_DOF)}|gain or gravity.x|y|z."
            )

    def _write_body(self, model: mujoco.MjModel, i: int, field: str) -> None:
        if self.value is not None and field == "inertia":
            raise PlantError(f"'{self.target}': inertia has three principal values; scale it.")
        factor = self.factor if self.factor is not None else self.value / model.body_mass[i]
        for array in _BODY[field]:
            getattr(model, array)[i] *= factor

    def _write(self, array: np.ndarray, index: int | tuple[int, ...]) -> None:
        array[index] = self.value if self.factor is None else array[index] * self.factor


def _matching(model: mujoco.MjModel, kind: mujoco.mjtObj, pattern: str, target: str) -> list[int]:
    count = model.nbody if kind == mujoco.mjtObj.mjOBJ_BODY else model.njnt
    names = [mujoco.mj_id2name(model, kind, i) or "" for i in range(count)]
    found = [i for i, name in enumerate(names) if name and fnmatch.fnmatchcase(name, pattern)]
    if not found:
        word = "body" if kind == mujoco.mjtObj.mjOBJ_BODY else "joint"
        near = difflib.get_close_matches(pattern, names, 1)
        raise PlantError(
            f"'{target}': no {word} '{pattern}'. "
            + (f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(filter(None, names))}.")
        )
    return found


@dataclasses.dataclass(frozen=True)
class Event:
    """A change at a time [s]; time None: now, and for good (a reset does not undo it)."""

    action: str
    arguments: Mapping[str, Any]
    time: float | None = None

    @property
    def due(self) -> float:
        """When it happens [s]; minus infinity for an event without a time."""
        return -math.inf if self.time is None else self.time


#: What a scenario is written as: YAML text, a file's path, one event or several.
Scenario = str | Path | Event | Mapping[str, Any] | Iterable[Event | Mapping[str, Any]]


def parse_scenario(source: Scenario) -> tuple[Event, ...]:
    """Events in order of time, from YAML text, a file's path, or a list of mappings or Events.

    Raises:
        PlantError: unknown action or key, missing or senseless value; the text names the entry.
    """
    if isinstance(source, (str, Path)):
        source = _read(source)
    if isinstance(source, (Event, Mapping)):
        source = [source]
    if not isinstance(source, Iterable):
        raise PlantError(f"A scenario is a list of events, found {type(source).__name__}.")
    events = [e if isinstance(e, Event) else _parse_event(i, e) for i, e in enumerate(source)]
    return tuple(sorted(events, key=lambda e: e.due))


def _read(source: str | Path) -> Any:
    text = str(source)
    if not text.strip():
        return []
    if "\n" not in text and not text.lstrip().startswith(("[", "{", "-")):
        try:
            text = Path(text).expanduser().read_text()
        except OSError as error:
            raise PlantError(f"Cannot read the scenario file '{source}': {error.strerror}.") from error
    try:
        return yaml.safe_load(text) or []
    except yaml.YAMLError as error:
        raise PlantError(f"The scenario is not YAML: {error}") from error


def _parse_event(index: int, entry: Any) -> Event:
    def fail(text: str) -> NoReturn:
        raise PlantError(f"Scenario event {index + 1} ({entry}): {text}")

    if not isinstance(entry, Mapping):
        fail("expected a mapping {time, action, ...}.")
    arguments = dict(entry)
    time, action = arguments.pop("time", None), arguments.pop("action", None)
    if action not in _KEYS:
        fail(f"unknown action; known: {', '.join(_KEYS)}.")
    if time is not None and not (isinstance(time, (int, float)) and math.isfinite(time) and time >= 0):
        fail("time must be a number of seconds, zero or more.")
    missing = _REQUIRED[action] - set(arguments)
    if missing:
        fail(f"'{action}' also needs {', '.join(sorted(missing))}.")
    for key, value in arguments.items():
        kind = _KEYS[action].get(key)
        if kind is None:
            near = difflib.get_close_matches(key, _KEYS[action], 1)
            fail(
                f"unknown key '{key}'; "
                + (f"did you mean '{near[0]}'?" if near else f"known: {', '.join(_KEYS[action])}.")
            )
        if kind is float and not (isinstance(value, (int, float)) and math.isfinite(value)):
            fail(f"'{key}' must be a number.")
        if kind is str and not isinstance(value, str):
            fail(f"'{key}' must be text.")
        if kind is list and not isinstance(value, (list, tuple)):
            fail(f"'{key}' must be a list.")
    if action == "delay":
        if not arguments:
            fail("'delay' needs sensor, command or seconds (the sensor's) [s].")
        if "seconds" in arguments:
            arguments["sensor"] = arguments.pop("seconds")
        if any(not 0 <= value <= 0.5 for value in arguments.values()):
            fail("a delay lies between 0 and 0.5 s.")
    if action == "patient":
        shift, speed = arguments["shift"], arguments.get("speed", PATIENT_SPEED)
        if len(shift) != 3 or not all(isinstance(x, (int, float)) and abs(x) <= FARTHEST for x in shift):
            fail(f"shift is three numbers of at most {FARTHEST:g} m.")
        if not 0.0 < speed <= FASTEST:
            fail(f"speed is above 0 and at most {FASTEST:g} m/s.")
    if action == "attach":
        try:
            shape_content(**{k: arguments[k] for k in ("shape", "mass", "size", "com") if k in arguments})
        except EntityError as error:
            fail(str(error))
    return Event(action, arguments, None if time is None else float(time))
