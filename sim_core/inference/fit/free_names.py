"""Free parameters by name, as a command line or a YAML file spells them.

    hand.inertia          ten log-Cholesky coordinates: mass, COM, inertia
    hand.mass_com         mass and COM, inertia about the COM as in the model
    hand.payload          a point mass on top of the model's body
    link4.density         one factor on the body's mass and inertia
    joint*.damping        one coordinate per joint; also friction, armature, stiffness
    joint4.gear           strength of an actuator, by the actuator's name
    pole2.pos.z           a position in the parent body; pole2.pos for all three
    gravity               gravity vector; gravity.xy for a base that is not level
    gravity.tilt          a base that is not level, under gravity of the model's strength: two angles
    sensor.delay          y(t) = x(t - delay)

Names may hold wildcards.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from config.description import RobotError
from config.robot import load_robot
from sim_core.multibody import FreeParameters, load_model
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.model.parameter_blocks import (
    Block,
    BodyDensity,
    BodyInertia,
    BodyPosition,
    Gear,
    Gravity,
    GravityTilt,
    JointArmature,
    JointDamping,
    JointFriction,
    JointStiffness,
)
from sim_core.multibody.model.parameters import is_positive

__all__ = [
    "DELAY",
    "FreeNameError",
    "blocks_of",
    "default_names",
    "free_parameters",
    "model_with",
    "names_that_free",
    "natural_limits",
]

_INERTIA = {"inertia": "log_cholesky", "mass_com": "mass_com", "point_mass": "point_mass", "payload": "payload"}
_JOINT = {"damping": JointDamping, "friction": JointFriction, "armature": JointArmature, "stiffness": JointStiffness}
DELAY = "sensor.delay"
# Draws from a prior that tell its limits, as a power of two.
DRAWS = 8

#: free by default on a robot whose robot.yaml does not say, or that nobody knows by name
DEFAULTS = ("*.mass_com", "*.damping")


class FreeNameError(ValueError):
    """A name of a free parameter that the model does not have."""


def free_parameters(
    source: str | Path, names: list[str], attach: Callable[[RobotModel], RobotModel] | None = None
) -> tuple[RobotModel, FreeParameters, bool]:
    """Model, free parameters and whether the sensor delay is free.

    Args:
        source: as for load_model. The model is loaded with friction and geometry where names need it.
        names: see the module's description.
        attach: RobotModel -> RobotModel, applied after loading: how networks come into the equations; their weights are held.

    Returns:
        (RobotModel, FreeParameters, bool).

    Raises:
        FreeNameError: a name matches nothing; the message lists what there is.
    """
    model = model_with(source, names, attach)
    blocks = blocks_of(model, [name for name in names if name != DELAY])
    if not blocks:
        raise FreeNameError("nothing is free; name at least one parameter, such as 'hand.inertia'")
    return model, FreeParameters(model, blocks), DELAY in names


def default_names(robot: str | Path) -> list[str]:
    """Names of the parameters that are free unless somebody says otherwise.

    Args:
        robot: name of a model, or path of a robot's folder.

    Raises:
        FreeNameError: the robot's robot.yaml cannot be used.
    """
    try:
        identify = load_robot(robot).identify
    except FileNotFoundError:  # a recording of a model that has no folder here
        identify = None
    except RobotError as error:
        raise FreeNameError(str(error)) from None
    return list(identify.free if identify else DEFAULTS)


def model_with(
    source: str | Path, names: Iterable[str], attach: Callable[[RobotModel], RobotModel] | None = None
) -> RobotModel:
    """The model, loaded with the friction and geometry that the names ask for, and with what `attach` adds to it."""
    attach = attach or (lambda model: model)
    model = attach(load_model(source))
    rubbing = [n.partition(".")[0] for n in names if n.endswith((".friction", ".frictionloss"))]
    friction = _matching(rubbing, model.joint_names, "joint")
    frames = model.body_names + model.frame_names
    geometry = _matching([n.split(".pos")[0] for n in names if ".pos" in n], frames, "body or site")
    options: dict[str, tuple[str, ...]] = {}
    if friction:
        already = [n[: -len(".frictionloss")] for n in model.parameters.names if n.endswith(".frictionloss")]
        options["friction"] = tuple(dict.fromkeys(already + friction))
    if geometry:
        options["geometry"] = tuple(geometry)
    if options:
        model = attach(load_model(source, **options))
    return model


def natural_limits(source: str | Path, names: list[str]) -> tuple[RobotModel, dict[str, tuple[float, float]]]:
    """Model, and limits of the natural quantities (mass, COM, inertia, damping, ...) that the names stand for.

    The limits are those of the middle 99 % of the prior, a little rounded up.

    Returns:
        (RobotModel, {name: (lower, upper)}), SI; names as for `LimitedParameters`.

    Raises:
        FreeNameError: as for `free_parameters`, or a name that has no natural quantity (sensor.delay).
    """
    from scipy.stats import qmc  # slow to load, and only asked for here

    if DELAY in names:
        raise FreeNameError(
            f"'{DELAY}' is no quantity of the simulator; particles are over those (gauss-newton knows the delay)"
        )
    model, spec, _ = free_parameters(source, names)
    draws = ndtri(qmc.Sobol(spec.n, seed=0).random_base2(DRAWS))
    draws = spec.clip(spec.prior_mean + spec.prior_std * draws)
    none = np.zeros((spec.n, spec.n))
    rows = spec.report(spec.prior_mean, none)
    values = np.array([[row.value for row in spec.report(xi, none)] for xi in draws])
    low, high = np.quantile(values, [0.005, 0.995], axis=0)
    more = 0.01 * (high - low)
    positive = np.array([is_positive(row.name) for row in rows])
    low, high = np.where(positive, low, low - more), high + more
    return model, {row.name: (float(a), float(b)) for row, a, b in zip(rows, low, high)}


def names_that_free(quantities: Iterable[str]) -> list[str]:
    """Names, as for `free_parameters`, of what the natural quantities belong to: hand.mass_com of hand.mass and of hand.com.x."""
    found: dict[str, None] = {}
    for quantity in quantities:
        owner, _, kind = quantity.partition(".")
        if owner == "gravity":
            name = "gravity"
        elif kind.startswith(("I_com.", "I.")):
            name = f"{owner}.inertia"
        elif kind == "mass" or kind.startswith("com."):
            name = f"{owner}.mass_com"
        else:
            name = f"{owner}.friction" if kind == "frictionloss" else quantity
        found[name] = None
    whole = {name.partition(".")[0] for name in found if name.endswith(".inertia")}
    return [name for name in found if not (name.endswith(".mass_com") and name.partition(".")[0] in whole)]


def blocks_of(model: RobotModel, names: Iterable[str]) -> list[Block]:
    """The parameter blocks that names stand for, of a model that was loaded with what they need.

    Raises:
        FreeNameError: a name matches nothing; the message lists what there is.
    """
    return [block for name in names for block in _blocks(model, name)]


def _blocks(model: RobotModel, name: str) -> list[Block]:
    """The parameter blocks one name stands for."""
    owner, _, kind = name.partition(".")
    if owner == "gravity":
        return [GravityTilt() if kind == "tilt" else Gravity(kind or "xyz")]
    if kind in _INERTIA or kind == "density":
        bodies = _matching([owner], [body.name for body in model.bodies if body.has_inertia], "body with mass")
        return [BodyDensity(body) if kind == "density" else BodyInertia(body, kind=_INERTIA[kind]) for body in bodies]
    if kind in _JOINT:
        return [_JOINT[kind](joint) for joint in _matching([owner], model.joint_names, "joint")]
    if kind == "gear":
        return [Gear(actuator) for actuator in _matching([owner], model.actuator_names, "actuator")]
    if kind.split(".")[0] == "pos":
        axes = kind.partition(".")[2] or "xyz"
        return [BodyPosition(b, axes) for b in _matching([owner], model.body_names + model.frame_names, "body or site")]
    kinds = [*_INERTIA, "density", *_JOINT, "gear", "pos"]
    near = difflib.get_close_matches(kind, kinds, 1)
    hint = f"did you mean '{owner}.{near[0]}'?" if near else f"kinds: {', '.join(kinds)}"
    raise FreeNameError(f"'{name}' names no kind of parameter; {hint}")


def _matching(patterns: list[str], known: Sequence[str], what: str) -> list[str]:
    found: list[str] = []
    for pattern in patterns:
        hits = fnmatch.filter(known, pattern)
        if not hits:
            raise FreeNameError(f"no {what} matches '{pattern}'; there are {', '.join(known)}")
        found += [hit for hit in hits if hit not in found]
    return found
