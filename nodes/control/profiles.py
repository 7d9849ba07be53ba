"""What each robot does and what of its physics is refitted: the one place that knows robots by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_core.control.change_detection import ChangeConfig
from sim_core.control.refit import RefitConfig
from sim_core.control.refit_online import OnlineConfig
from sim_core.control.tasks import Task, cartpole_swing_up, figure_eight, frame_tracking, swing_up_reward
from sim_core.multibody import RobotModel
from sim_core.multibody.model import build
from sim_core.multibody.model.cartpole_parameters import cartpole_spec, point_mass_equivalent
from sim_core.multibody.model.parameter_file import ParameterFile
from sim_core.multibody.model.parameters import BodyInertia, FreeParameters, JointFriction

__all__ = [
    "START",
    "blueprint_of",
    "control_task",
    "free_parameters",
    "hand_path",
    "initial_coordinates",
    "is_cartpole",
    "online_config",
    "physical_vector",
    "quantities",
    "reward_of",
    "upright",
]

#: the one number that every mass, length and COM coordinate of a cart-pole starts from in the published experiment
START = 2.0
UPRIGHT = 0.95
#: the body of the arm whose inertia the refit corrects
HAND = "hand"
#: how far a gear's friction is believed to differ from the model's [ln]
FRICTION_STD = 0.3


@dataclass(frozen=True)
class Arm:
    """What an arm's size and its sensors ask for.

    Attributes:
        weights: of `frame_tracking`.
        resolution: standard deviation of (positions, velocities) below which the sensors say nothing [rad, rad/s].
        bridge: longest pause between two joint states that the refit interpolates over [sample periods].
        change_factor: rise of the prediction error that counts as a change of the robot.
    """

    weights: dict[str, float]
    resolution: tuple[float, float] = RefitConfig.scale_floor
    bridge: float = OnlineConfig.bridge
    change_factor: float = ChangeConfig.factor


ARMS = {
    # Softer on position and calmer in speed than the library's defaults: after an outage of 0.2 s the arm returns at
    # 0.7 instead of 1.2 rad/s. The price is 4.6 instead of 3.1 mm under an unknown 2 kg.
    "panda": Arm(dict(position=5e3, rate=0.3)),
    # A newton metre is much here, and at the home pose the two rolls are not far from parallel: what keeps the hand level
    # at any price sends them around. Smooth torques bear late ones: stable with 40 ms between a reading and what it leads
    # to, where a smoothness of 0.01 fails beyond 20 ms; an unknown 0.2 kg costs 13 in place of 3 mm, until it is known.
    # Steps of 2 pi / 4096 and 0.229 rev/min look free of noise where a joint is slow, and servos smooth their velocities:
    # believed to one step. A bus read by software comes late now and then. Gears that stick at a reversal raise the
    # prediction error four times, a payload of 0.15 kg fifteen times.
    "dxl_arm": Arm(
        dict(position=1e4, rotation=10.0, rate=0.3, control=1e-2, smoothness=3.0),
        resolution=(4.4e-4, 2e-2),
        bridge=3.5,
        change_factor=6.0,
    ),
}


def _arm(model: RobotModel) -> Arm:
    return ARMS.get(model.name, ARMS["panda"])


def is_cartpole(model: RobotModel) -> bool:
    """One or two poles on a cart."""
    return "cart" in model.body_names


def hand_path(model: RobotModel, config) -> Callable[[float], np.ndarray]:
    """The figure eight that the hand follows, starting where the hand is at home; t [s] -> (3,) [m]."""
    position, _ = build.frame_pose(model, "hand_site")(model.q_home, model.parameters.nominal)
    return figure_eight(np.asarray(position, float).ravel(), config.path_width, config.path_height, config.path_period)


def control_task(model: RobotModel, config, horizon: int = 0) -> Task:
    """The task of `adaptive_mpc`, with what the configuration changes."""
    changes = {
        name: value for name, value in (("horizon", horizon), ("max_iterations", config.max_iterations)) if value
    }
    if is_cartpole(model):
        if config.recipe == "literal":
            changes |= dict(integrator="semi_implicit_euler", substeps=1)
        return cartpole_swing_up(model, dt=config.control_period, **changes)
    return frame_tracking(model, hand_path(model, config), dt=config.control_period, **_arm(model).weights, **changes)


def reward_of(model: RobotModel):
    """State -> reward in [0, 1], or None where the task has none."""
    return swing_up_reward if is_cartpole(model) else None


def upright(model: RobotModel) -> Callable[[np.ndarray], bool]:
    """State -> are all poles up (cos > 0.95); never, for robots without poles."""
    if not is_cartpole(model):
        return lambda x: False
    return lambda x: bool(np.all(np.cos(np.cumsum(x[1 : model.nq])) > UPRIGHT))


def free_parameters(model: RobotModel, recipe: str = "robust") -> FreeParameters:
    """What the refit may change: the inertia of the hand and what it holds, and the friction of joints that have it; or the
    published 9 or 14 of a cart-pole.

    Ten coordinates rather than a point mass: a held object has an inertia of its own, and an interval that leaves it
    out is too narrow when the arm moves fast (docs/refit.md). Friction that is 20 % off its file would otherwise be
    explained by an inertia that no hand has, with which the arm is not stable.
    """
    if is_cartpole(model):
        return cartpole_spec(model, START, "raw" if recipe == "literal" else "log")
    friction = [
        JointFriction(joint, FRICTION_STD) for joint in model.joint_names if f"{joint}.frictionloss" in model.parameters
    ]
    return FreeParameters(model, [BodyInertia(HAND), *friction])


def quantities(spec: FreeParameters, xi: np.ndarray, covariance: np.ndarray) -> list:
    """NamedEstimates for people: every free quantity, and for an arm what the hand holds."""
    held = [] if is_cartpole(spec.model) else spec.payload(HAND, xi, covariance)
    return [*spec.report(xi, covariance), *held]


def physical_vector(model: RobotModel, source: str) -> np.ndarray:
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
        if not is_cartpole(model):
            raise ValueError(
                f"physical_parameters: 'start' is for cart-poles, this is {model.name}; give a file or nothing"
            )
        spec = free_parameters(model)
        return spec.to_physical(spec.prior_mean)
    return ParameterFile.load(source).vector(model)


def blueprint_of(config) -> str:
    """Path of the networks to start with: the node's parameter `blueprint`, else what its parameter file names; "" for none.

    Raises:
        ValueError: an unusable parameter file.
    """
    if config.blueprint or config.physical_parameters in ("", "start"):
        return config.blueprint
    return ParameterFile.load(config.physical_parameters).networks


def initial_coordinates(model: RobotModel, spec: FreeParameters, p: np.ndarray) -> np.ndarray:
    """Coordinates of p; a cart-pole's capsules become the point masses that move alike."""
    return spec.clip(spec.from_physical(point_mass_equivalent(model, p) if is_cartpole(model) else p))


def online_config(model: RobotModel, config) -> OnlineConfig:
    """Window, rhythm and fit of `refit_worker`.

    A fit is bounded by evaluations, not by time: the same bag must give the same parameters on any machine.
    """
    refit = dict(max_evaluations=config.max_evaluations, time_budget=np.inf)
    if config.recipe == "literal":
        # As published there is no gate: every fit is used.
        refit |= dict(recipe="literal", held_out=0.0, max_unexplained=np.inf)
    elif is_cartpole(model):
        # Whole states without noise: one-step segments from the measured state.
        refit |= dict(segment_length=config.segment_length or 1, initial_state="measured")
    else:
        refit |= dict(segment_length=config.segment_length or 25, scale_floor=_arm(model).resolution)
    arm, noise = _arm(model), (config.position_noise, config.velocity_noise)
    return OnlineConfig(
        window=config.window,
        min_window=min(config.min_window, config.window),
        period=config.period,
        bridge=arm.bridge,
        change=ChangeConfig(noise=noise, factor=arm.change_factor),
        refit=RefitConfig(**refit),
    )
