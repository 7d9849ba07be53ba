"""Free parameters by name, as a command line or a YAML file spells them.

    hand.inertia          ten log-Cholesky coordinates: mass, COM, inertia
    hand.mass_com         mass and COM, inertia about the COM as in the model
    hand.payload          a point mass on top of the model's body
    joint*.damping        one coordinate per joint; also friction, armature, stiffness
    joint4.gear           strength of an actuator, by the actuator's name
    pole2.pos.z           a position in the parent body; pole2.pos for all three
    gravity               gravity vector; gravity.xy for a base that is not level
    sensor.delay          y(t) = x(t - delay)

Names may hold wildcards.
"""

import difflib
import fnmatch

from sim_core.articulated import FreeParameters, load_model
from sim_core.articulated.parameter_blocks import (
    BodyInertia,
    BodyPosition,
    Gear,
    Gravity,
    JointArmature,
    JointDamping,
    JointFriction,
    JointStiffness,
)

__all__ = ["FreeNameError", "free_parameters"]

_INERTIA = {"inertia": "log_cholesky", "mass_com": "mass_com", "point_mass": "point_mass", "payload": "payload"}
_JOINT = {"damping": JointDamping, "friction": JointFriction, "armature": JointArmature, "stiffness": JointStiffness}
DELAY = "sensor.delay"


class FreeNameError(ValueError):
    """A name of a free parameter that the model does not have."""


def free_parameters(source, names: list[str]):
    """Model, free parameters and whether the sensor delay is free.

    Args:
        source: as for load_model. The model is loaded with friction and geometry where names need it.
        names: see the module's description.

    Returns:
        (RobotModel, FreeParameters, bool).

    Raises:
        FreeNameError: a name matches nothing; the message lists what there is.
    """
    model = load_model(source)
    friction = _matching([n[: -len(".friction")] for n in names if n.endswith(".friction")], model.joint_names, "joint")
    frames = model.body_names + model.frame_names
    geometry = _matching([n.split(".pos")[0] for n in names if ".pos" in n], frames, "body or site")
    options = {}
    if friction:
        already = [n[: -len(".frictionloss")] for n in model.parameters.names if n.endswith(".frictionloss")]
        options["friction"] = tuple(dict.fromkeys(already + friction))
    if geometry:
        options["geometry"] = tuple(geometry)
    if options:
        model = load_model(source, **options)
    blocks = [block for name in names if name != DELAY for block in _blocks(model, name)]
    if not blocks:
        raise FreeNameError("nothing is free; name at least one parameter, such as 'hand.inertia'")
    return model, FreeParameters(model, blocks), DELAY in names


def _blocks(model, name: str) -> list:
    """The parameter blocks one name stands for."""
    owner, _, kind = name.partition(".")
    if owner == "gravity":
        return [Gravity(kind or "xyz")]
    if kind in _INERTIA:
        bodies = [body.name for body in model.bodies if body.has_inertia]
        return [BodyInertia(body, kind=_INERTIA[kind]) for body in _matching([owner], bodies, "body with mass")]
    if kind in _JOINT:
        return [_JOINT[kind](joint) for joint in _matching([owner], model.joint_names, "joint")]
    if kind == "gear":
        return [Gear(actuator) for actuator in _matching([owner], model.actuator_names, "actuator")]
    if kind.split(".")[0] == "pos":
        axes = kind.partition(".")[2] or "xyz"
        return [BodyPosition(b, axes) for b in _matching([owner], model.body_names + model.frame_names, "body or site")]
    kinds = [*_INERTIA, *_JOINT, "gear", "pos"]
    near = difflib.get_close_matches(kind, kinds, 1)
    hint = f"did you mean '{owner}.{near[0]}'?" if near else f"kinds: {', '.join(kinds)}"
    raise FreeNameError(f"'{name}' names no kind of parameter; {hint}")


def _matching(patterns: list[str], known, what: str) -> list[str]:
    found = []
    for pattern in patterns:
        hits = fnmatch.filter(known, pattern)
        if not hits:
            raise FreeNameError(f"no {what} matches '{pattern}'; there are {', '.join(known)}")
        found += [hit for hit in hits if hit not in found]
    return found
