"""From a robot's description and its model to what controller and refit work on: task, free parameters, configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from config.description import Refit, Robot, RobotError, SwingUp, Track
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.refit_worker_config import RefitWorkerConfig
from sim_core.control.change_detection import ChangeConfig
from sim_core.control.refit import RefitConfig
from sim_core.control.refit_online import OnlineConfig
from sim_core.control.tasks import (
    SwingUpWeights,
    Task,
    cartpole_swing_up,
    figure_eight,
    frame_tracking,
    swing_up_reward,
)
from sim_core.inference.fit.considered import Considered
from sim_core.multibody import RobotModel, load_model
from sim_core.multibody.model import build
from sim_core.multibody.model.cartpole_parameters import cartpole_spec, point_mass_equivalent
from sim_core.multibody.model.options import ModelOptions
from sim_core.multibody.model.parameter_blocks import (
    Block,
    BodyDensity,
    BodyInertia,
    Gear,
    GravityTilt,
    JointArmature,
    JointDamping,
    JointFriction,
)
from sim_core.multibody.model.parameter_file import ParameterFile
from sim_core.multibody.model.parameters import FreeParameters

__all__ = [
    "blueprint_of",
    "control_task",
    "free_parameters",
    "considered_parameters",
    "initial_coordinates",
    "online_config",
    "own_hash",
    "physical_vector",
    "quantities",
    "reward_of",
    "robot_model",
    "tool_path",
    "upright",
]

UPRIGHT = 0.95
#: how far a gear's friction is believed to differ from the model's [ln]
FRICTION_STD = 0.3


def _refit(robot: Robot) -> Refit:
    if robot.refit is None:
        raise RobotError(f"{robot.file}: refit is missing; refit_worker needs it")
    return robot.refit


def tool_path(robot: Robot, model: RobotModel, config: AdaptiveMpcConfig) -> Callable[[float], np.ndarray]:
    """The figure eight that the tool follows, starting where it is at home; t [s] -> (3,) [m] in the world.

    Raises:
        RobotError: the robot follows no path.
    """
    task = robot.task_as(Track)
    position, _ = build.frame_pose(model, task.frame)(model.q_home, model.parameters.nominal)
    return figure_eight(np.asarray(position, float).ravel(), config.path_width, config.path_height, config.path_period)


def control_task(robot: Robot, model: RobotModel, config: AdaptiveMpcConfig, horizon: int = 0) -> Task:
    """The task of `adaptive_mpc`, with what the configuration changes.

    Args:
        horizon: [control periods]; 0: the task's own.

    Raises:
        RobotError: the robot's description holds no task for this controller.
    """
    changes: dict[str, Any] = {
        name: value for name, value in (("horizon", horizon), ("max_iterations", config.max_iterations)) if value
    }
    task = robot.task_as(Track, SwingUp)
    weights = asdict(task.weights)
    if isinstance(task, SwingUp):
        if config.recipe == "literal":
            changes |= dict(integrator="semi_implicit_euler", substeps=1)
        return cartpole_swing_up(model, SwingUpWeights(**weights), dt=config.control_period, **changes)
    path = tool_path(robot, model, config)
    return frame_tracking(model, path, task.frame, dt=config.control_period, **weights, **changes)


def reward_of(robot: Robot) -> Callable[[np.ndarray], np.ndarray] | None:
    """States (..., nx) -> rewards (...,) in [0, 1], or None where the task has none."""
    return swing_up_reward if isinstance(robot.task, SwingUp) else None


def upright(robot: Robot, model: RobotModel) -> Callable[[np.ndarray], bool]:
    """State (nx,) -> are all poles up (cos > 0.95); never, for robots without poles."""
    if not isinstance(robot.task, SwingUp):
        return lambda x: False
    return lambda x: bool(np.all(np.cos(np.cumsum(x[1 : model.nq])) > UPRIGHT))


def robot_model(robot: str, free: str = "", physical_parameters: str = "") -> RobotModel:
    """The robot's model, with friction where it is refitted or where the parameter file has it, though its own file has none.

    Args:
        robot: name in config/robots, or path. free: as for `free_parameters`. physical_parameters: as for `physical_vector`.

    Raises:
        ValueError: an unusable parameter file, or a name in `free` that matches nothing.
    """
    model = load_model(robot)
    names = _names(free)
    if physical_parameters not in ("", "start"):
        rubbing = [n for n in ParameterFile.load(physical_parameters).parameters if n.endswith(".frictionloss")]
        names += [name for name in rubbing if name.removesuffix(".frictionloss") in model.joint_names]
    if not names:
        return model
    from sim_core.inference.fit.free_names import model_with  # imports much that nobody else needs

    found = model_with(robot, names)
    # Friction that was there anyway makes no other model.
    return model if found.parameters.names == model.parameters.names else found


def own_hash(robot: Robot, model: RobotModel) -> str:
    """Hash of the model as the robot's file has it: what parameter files name, whatever friction was loaded besides."""
    return model.hash if model.options == ModelOptions() else load_model(robot.folder).hash


def _names(free: str) -> list[str]:
    return [name.strip() for name in free.split(",") if name.strip()]


def free_parameters(robot: Robot, model: RobotModel, recipe: str = "robust", free: str = "") -> FreeParameters:
    """What the refit may change: the inertia of the hand and what it holds, and the friction of joints that have it; or the
    published 9 or 14 of a cart-pole.

    Args:
        model: with the friction that `free` asks for, see `robot_model`.
        free: what else may change, names as for `sim_core.inference.fit.free_names` separated by commas. What is named
            there for the hand, or for a joint's friction, stands in place of the above.

    Ten coordinates rather than a point mass: a held object has an inertia of its own, and an interval that leaves it
    out is too narrow when the arm moves fast (docs/refit.md). Friction that is 20 % off its file would otherwise be
    explained by an inertia that no hand has, with which the arm is not stable.

    Raises:
        RobotError: as for `control_task`.
        ValueError: `free` names what there is not, or belongs to a cart-pole, whose parameters are the published.
    """
    task = robot.task_as(Track, SwingUp)
    if isinstance(task, SwingUp):
        if free:
            raise ValueError(f"free: {robot.name} refits the published parameters of a cart-pole; leave it out")
        return cartpole_spec(model, task.start, "raw" if recipe == "literal" else "log")
    blocks: list[Block] = [BodyInertia(task.payload_body)]
    blocks += [
        JointFriction(joint, FRICTION_STD) for joint in model.joint_names if f"{joint}.frictionloss" in model.parameters
    ]
    if not free:
        return FreeParameters(model, blocks)
    from sim_core.inference.fit.free_names import blocks_of  # imports much that nobody else needs

    named = blocks_of(model, _names(free))
    taken = FreeParameters(model, named).written
    return FreeParameters(
        model, [*(b for b in blocks if not set(FreeParameters(model, [b]).written) & set(taken)), *named]
    )


def considered_parameters(robot: Robot, model: RobotModel, spec: FreeParameters) -> Considered | None:
    """What the refit of `spec` holds and may be off: links' masses, joints' friction, damping and rotor inertia, motors' strength, and
    the base's tilt, as far as the model has them and `spec` does not free them.

    None for a cart-pole, all of whose parameters are refitted.
    """
    if not isinstance(robot.task, Track):
        return None
    layout, taken = model.parameters, set(spec.written)
    value = lambda name: float(layout.nominal[layout.index(name)]) if name in layout else 0.0
    has = lambda names, field: [name for name in names if value(f"{name}.{field}") > 0.0]
    joints = model.joint_names
    upright = value("gravity.x") == value("gravity.y") == 0.0 > value("gravity.z")
    suspected: dict[str, list[Block]] = {
        "motors' strength": [Gear(actuator) for actuator in model.actuator_names if f"{actuator}.gear" in layout],
        "masses of links": [BodyDensity(body) for body in has(model.body_names, "mass")],
        "friction of joints": [JointFriction(joint, FRICTION_STD) for joint in has(joints, "frictionloss")],
        "damping of joints": [JointDamping(joint) for joint in has(joints, "damping")],
        "rotor inertia": [JointArmature(joint) for joint in has(joints, "armature")],
        "tilt of the base": [GravityTilt()] if upright else [],
    }
    kinds, more = {}, []
    for kind, blocks in suspected.items():
        free = [b for b in blocks if not taken & set(FreeParameters(model, [b]).written)]
        if free:
            kinds[kind], more = FreeParameters(model, free).names, [*more, *free]
    if not kinds:
        return None
    here = spec.to_physical(spec.prior_mean)
    whole = FreeParameters(model, [*spec.blocks, *more]).with_base(here)
    at = whole.clip(whole.from_physical(here))
    # What is held is believed to be where it is held, a parameter file's values too; what is free keeps its prior.
    return Considered(whole.believed(np.concatenate([spec.prior_mean, at[spec.n :]])), at, kinds)


def quantities(robot: Robot, spec: FreeParameters, xi: np.ndarray, covariance: np.ndarray) -> list:
    """NamedEstimates for people: every free quantity, and for an arm what the hand holds.

    Args:
        xi, covariance: coordinates (n,) of `spec` and their covariance (n, n).
    """
    task = robot.task_as(Track, SwingUp)
    held = spec.payload(task.payload_body, xi, covariance) if isinstance(task, Track) else []
    return [*spec.report(xi, covariance), *held]


def physical_vector(robot: Robot, model: RobotModel, source: str) -> np.ndarray:
    """The physical vector (np_,) to start from.

    Args:
        source: "" (the model's own values), "start" (the published experiment's wrong start), or a
            parameter file.

    Raises:
        ValueError: unusable file, or "start" for a robot that has no published start.
    """
    if not source:
        return np.array(model.parameters.nominal, float)
    if source == "start":
        if not isinstance(robot.task, SwingUp):
            raise ValueError(
                f"physical_parameters: 'start' is for cart-poles, this is {robot.name}; give a file or nothing"
            )
        spec = free_parameters(robot, model)
        return spec.to_physical(spec.prior_mean)
    file = ParameterFile.load(source)
    return file.vector(model, check_hash=file.model_hash != own_hash(robot, model))


class _Started(Protocol):
    """Configuration of a node that starts from a parameter file or networks."""

    @property
    def blueprint(self) -> str: ...
    @property
    def physical_parameters(self) -> str: ...


def blueprint_of(config: _Started) -> str:
    """Path of the networks to start with: the node's parameter `blueprint`, else what its parameter file names; "" for none.

    Raises:
        ValueError: an unusable parameter file.
    """
    if config.blueprint or config.physical_parameters in ("", "start"):
        return config.blueprint
    return ParameterFile.load(config.physical_parameters).networks


def initial_coordinates(robot: Robot, model: RobotModel, spec: FreeParameters, p: np.ndarray) -> np.ndarray:
    """Coordinates (n,) of p (np_,); a cart-pole's capsules become the point masses that move alike."""
    return spec.clip(spec.from_physical(point_mass_equivalent(model, p) if isinstance(robot.task, SwingUp) else p))


#: a round that comes again soon hands out what it has: the next goes on from there, with more data
PERIODIC_EXTENSION = 3


def online_config(robot: Robot, config: RefitWorkerConfig) -> OnlineConfig:
    """Window, rhythm and fit of `refit_worker`.

    A fit is bounded by evaluations, not by time: the same bag must give the same parameters on any machine.

    Raises:
        RobotError: the robot's description does not say what the refit needs.
    """
    own = _refit(robot)
    refit: dict[str, Any] = dict(max_evaluations=config.max_evaluations, time_budget=np.inf)
    if config.schedule == "periodic":
        refit["extension"] = PERIODIC_EXTENSION
    if config.recipe == "literal":
        # As published there is no gate: every fit is used.
        refit |= dict(recipe="literal", held_out=0.0, max_unexplained=np.inf)
    else:
        refit |= dict(
            segment_length=config.segment_length or own.segment_length,
            initial_state=own.initial_state,
            scale_floor=own.resolution,
        )
    return OnlineConfig(
        window=config.window,
        min_window=min(config.min_window, config.window),
        period=config.period,
        bridge=own.bridge,
        estimate_held=config.estimate_held and not config.free,  # whoever names what is free gets that
        change=ChangeConfig(noise=(config.position_noise, config.velocity_noise), factor=own.change_factor),
        refit=RefitConfig(**refit),
    )
