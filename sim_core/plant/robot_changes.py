"""Hidden changes of a robot as a person says them; what a refit has to free for them, and what is true after them.

    payload:1.5@0.06,0,0.1     1.5 kg in the hand, centred there in the hand's frame [m]; without @: at the usual place
    friction:joint4=2.5        Coulomb friction of a joint [N m or N]; x1.5: that multiple of the model's
    damping:joint4=x3          its viscous damping [N m s/rad or N s/m], or a multiple of the model's
    armature:joint4=x2         its drive's reflected inertia [kg m^2 or kg], or a multiple of the model's
    gain:joint4=0.8            its actuator delivers this share of what it is told
    mass:link4=1.3             a link is this many times as heavy, and its inertia with it
    tilt:3@y                   the base is turned by three degrees about its axis x or y

Names of joints and links may hold wildcards. A change becomes events of a scenario (`scenario`), and everything else is read
from those, so that a recorded scenario says the same. MuJoCo is not needed.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim_core.multibody import RobotModel

__all__ = ["FORMS", "ChangeError", "events_of", "free_for", "scenario_of", "truth_after"]

#: forms of a change that a robot may be given, for help and for errors
FORMS = (
    "payload:MASS[@X,Y,Z], friction:JOINT=VALUE or xFACTOR, damping:JOINT=..., armature:JOINT=..., gain:JOINT=FACTOR, "
    "mass:LINK=FACTOR, tilt:DEGREES@AXIS"
)
FARTHEST = 0.5  # [m] of a payload's centre from the hand, along each axis
FACTORS = (0.05, 20.0)
STEEPEST = 30.0  # [deg]
GRAVITY = ("gravity.x", "gravity.y", "gravity.z")

# what is said -> the plant's and the model's name for it
_JOINT = {"friction": "frictionloss", "damping": "damping", "armature": "armature"}
# what a recorded event changes -> what a refit frees, of every joint or link: nobody tells it which
_FREE = {"frictionloss": "*.friction", "damping": "*.damping", "armature": "*.armature"}
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"

Event = dict[str, Any]


class ChangeError(ValueError):
    """A change that cannot be made; the text says what was expected."""


def scenario_of(
    texts: Sequence[str], model: RobotModel, hand: str, centre: Sequence[float] = (0.0, 0.0, 0.0)
) -> list[Event]:
    """The events of several changes that happen together, without their time; see `events_of`.

    Raises:
        ChangeError: one of them cannot be made, or two of them cannot be told apart.
    """
    for kind in ("payload", "tilt"):
        if sum(text.startswith(f"{kind}:") for text in texts) > 1:
            raise ChangeError(f"{', '.join(texts)}: expected one {kind} at most.")
    events = [event for text in texts for event in events_of(text, model, hand, centre)]
    if any(e["action"] == "attach" for e in events) and any(e.get("target") == f"{hand}.mass" for e in events):
        raise ChangeError(f"{', '.join(texts)}: {hand} and what it holds move as one; change one of them.")
    return events


def events_of(text: str, model: RobotModel, hand: str, centre: Sequence[float] = (0.0, 0.0, 0.0)) -> list[Event]:
    """The scenario's events of one change, without their time.

    Args:
        text: see the module's description.
        model: of the robot. hand: body that carries the payload. centre: of a payload that names none, in its frame [m].

    Raises:
        ChangeError: not of these forms, a name that the robot does not have, or a value that makes no sense.
    """
    kind, _, rest = text.partition(":")
    if kind == "payload":
        return [_payload(text, rest, hand, centre)]
    if kind == "tilt":
        return _tilt(text, rest, model)
    match = re.fullmatch(rf"([^=]+)=(x?)({_NUMBER})", rest)
    if kind not in (*_JOINT, "gain", "mass") or match is None:
        raise ChangeError(f"{text}: expected one of {FORMS}.")
    who, times, value = match[1], bool(match[2]), float(match[3])
    if kind in _JOINT:
        return _joint(text, model, who, _JOINT[kind], value, times)
    low, high = FACTORS
    if not low <= value <= high:
        raise ChangeError(f"{text}: expected a factor from {low:g} to {high:g}.")
    if kind == "gain":
        return [
            {
                "action": "actuator_gain",
                "factor": value,
                "joints": _named(text, who, model.actuator_joints, "driven joint"),
            }
        ]
    heavy = [body for body in model.body_names if f"{body}.mass" in model.parameters]
    return [
        {"action": "scale", "target": f"{body}.mass", "factor": value}
        for body in _named(text, who, heavy, "moving link")
    ]


def free_for(events: Iterable[Mapping[str, Any]], model: RobotModel, hand: str) -> list[str]:
    """What a refit frees, besides what the hand holds, so that it can learn the events.

    It is told the kind of a change and nothing else: the friction of every joint, the mass of every link. Names as for
    `sim_core.inference.fit.free_names`.
    """
    free: list[str] = []
    for event in events:
        if event["action"] == "actuator_gain":
            free.append("*.gear")
        elif event["action"] in ("scale", "set"):
            owner, _, field = event["target"].rpartition(".")
            if owner == "gravity":
                free.append("gravity.tilt")
            elif field in _FREE:
                free.append(_FREE[field])
            elif field == "mass" and owner != hand:
                links = [body for body in model.body_names if f"{body}.mass" in model.parameters and body != hand]
                free += [f"{body}.density" for body in links]
    return list(dict.fromkeys(free))


def truth_after(events: Iterable[Mapping[str, Any]], model: RobotModel) -> dict[str, float]:
    """What is true after events that happened to the robot of the model's own values, by the names of a refit's estimates, SI.

    A payload is `<frame>.payload.mass` and `.com.x`, what a joint or link has `<name>.<field>`, an actuator's strength
    `<actuator>.gear`, and a base that is not level `gravity.tilt.x` and `.y` [rad]. What no estimate is called by is left out.
    """
    layout = model.parameters
    now = dict(zip(layout.names, map(float, layout.nominal)))
    found: dict[str, float] = {}
    tilted = False
    for event in events:
        if event["action"] == "attach":
            payload = f"{event['frame']}.payload"
            found[f"{payload}.mass"] = float(event["mass"])
            found |= {f"{payload}.com.{axis}": float(c) for axis, c in zip("xyz", event.get("com", (0.0, 0.0, 0.0)))}
        elif event["action"] == "actuator_gain":
            joints = event.get("joints") or model.actuator_joints
            for actuator, joint in zip(model.actuator_names, model.actuator_joints):
                name = f"{actuator}.gear"
                if joint in joints and name in now:
                    found[name] = now[name] = now[name] * float(event["factor"])
        elif event["action"] in ("scale", "set"):
            names = fnmatch.filter(now, event["target"])
            if not names and event["target"].endswith(".frictionloss"):  # of a joint whose model has none
                names = [f"{joint}.frictionloss" for joint in fnmatch.filter(model.joint_names, event["target"][:-13])]
            for name in names:
                value = float(event["value"]) if "value" in event else now.get(name, 0.0) * float(event["factor"])
                now[name] = value
                tilted = tilted or name in GRAVITY
                if name not in GRAVITY:
                    found[name] = value
    if tilted:
        x, y, z = (now[name] for name in GRAVITY)
        found |= {"gravity.tilt.x": math.atan2(0.0 - y, -z), "gravity.tilt.y": math.atan2(x, math.hypot(y, z))}
    return found


def _payload(text: str, rest: str, hand: str, centre: Sequence[float]) -> Event:
    match = re.fullmatch(rf"({_NUMBER})(?:@({_NUMBER}),({_NUMBER}),({_NUMBER}))?", rest)
    if match is None:
        raise ChangeError(
            f"{text}: expected payload:MASS or payload:MASS@X,Y,Z, e.g. payload:1.5@0.06,0,0.1 [kg, m in the hand's frame]."
        )
    mass = float(match[1])
    com = [float(c) for c in match.groups()[1:]] if match[2] else [float(c) for c in centre]
    if not mass > 0.0:
        raise ChangeError(f"{text}: expected a mass above 0 kg.")
    if max(map(abs, com)) > FARTHEST:
        raise ChangeError(f"{text}: the centre lies at most {FARTHEST:g} m from the hand along each axis.")
    return {"action": "attach", "frame": hand, "name": "payload", "mass": mass, "com": com}


def _tilt(text: str, rest: str, model: RobotModel) -> list[Event]:
    match = re.fullmatch(rf"({_NUMBER})@([xy])", rest)
    if match is None or abs(float(match[1])) > STEEPEST:
        raise ChangeError(
            f"{text}: expected tilt:DEGREES@AXIS of at most {STEEPEST:g} degrees about x or y, e.g. tilt:3@y."
        )
    x, y, z = (float(model.parameters.nominal[model.parameters.index(name)]) for name in GRAVITY)
    if x or y or not z < 0.0:
        raise ChangeError(
            f"{text}: the model's gravity is ({x:g}, {y:g}, {z:g}); only a base under gravity along -z is tilted."
        )
    sine, cosine = math.sin(math.radians(float(match[1]))), math.cos(math.radians(float(match[1])))
    # Gravity in the axes of a base that was turned by a: R_x(a)' g or R_y(a)' g.
    turned = (0.0, z * sine, z * cosine) if match[2] == "x" else (-z * sine, 0.0, z * cosine)
    return [{"action": "set", "target": name, "value": value} for name, value in zip(GRAVITY, turned)]


def _joint(text: str, model: RobotModel, who: str, field: str, value: float, times: bool) -> list[Event]:
    joints = _named(text, who, model.joint_names, "joint")
    if not times:
        if value < 0.0:
            raise ChangeError(f"{text}: expected a value of at least 0.")
        return [{"action": "set", "target": f"{joint}.{field}", "value": value} for joint in joints]
    low, high = FACTORS
    if not low <= value <= high:
        raise ChangeError(f"{text}: expected a factor from x{low:g} to x{high:g}.")
    layout = model.parameters
    for joint in joints:
        name = f"{joint}.{field}"
        if name not in layout or not layout.nominal[layout.index(name)] > 0.0:
            raise ChangeError(
                f"{text}: {joint} has none in the model, of which no multiple is more; give a value, e.g. {joint}=0.5."
            )
    return [{"action": "scale", "target": f"{joint}.{field}", "factor": value} for joint in joints]


def _named(text: str, pattern: str, known: Sequence[str], what: str) -> list[str]:
    found = fnmatch.filter(known, pattern)
    if not found:
        near = difflib.get_close_matches(pattern, known, 1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise ChangeError(f"{text}: no {what} '{pattern}'. {hint}There are: {', '.join(known)}.")
    return found
