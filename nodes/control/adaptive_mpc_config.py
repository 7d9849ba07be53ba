"""Parameters of the node adaptive_mpc."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.framework.config import setting
from sim_core.control.path_follower import BEYOND

__all__ = ["AdaptiveMpcConfig"]


@dataclass(frozen=True)
class AdaptiveMpcConfig:
    """Parameters of `adaptive_mpc`."""

    robot: str = setting("panda", description="model in config/robots")
    mode: str = setting(
        "track", choices=("track", "episode"), description="track a path from activation on, or wait for run_episode"
    )
    command_mode: str = setting(
        "feedback",
        choices=("feedback", "effort"),
        description="send the feedback law with every command, or the effort alone",
    )
    lockstep: bool = setting(False, description="the plant waits for every command; ages are not checked")
    control_period: float = setting(0.02, "s", (0.001, 0.2), "time between commands")
    horizon: int = setting(0, "steps", (0, 200), "lookahead; 0: the task's own")
    max_iterations: int = setting(0, "", (0, 100), "solver iterations per cycle; 0: the task's own")
    time_budget: float = setting(0.0, "s", (0.0, 1.0), "per solve; 0: none")
    delay_steps: int = setting(0, "periods", (0, 10), "known delay between command and effect")
    state_age_limit: float = setting(
        0.1, "s", (0.005, 5.0), "joint states older than this are refused; silence beyond it stops control"
    )
    future_limit: float = setting(0.5, "s", (0.0, 10.0), "stamps further ahead than this are refused")
    refit: str = setting(
        "periodic",
        choices=("off", "periodic", "episodic"),
        description="who starts refits: nobody, the worker's own period, or this node's episodes",
    )
    free: str = setting(
        "",
        description="what the refit may change besides its usual, as the worker's `free`: the model then has an entry for it",
    )
    refit_silence_limit: float = setting(2.0, "s", (0.0, 60.0), "a periodic refit silent for longer is lost; 0: never")
    nominal_after: float = setting(10.0, "s", (0.1, 3600.0), "silence after which nominal parameters return")
    recipe: str = setting(
        "robust",
        choices=("robust", "literal"),
        description="for cart-poles: the published recipe plans with semi-implicit Euler and detects no changes",
    )
    refit_wait: float = setting(10.0, "s", (0.1, 120.0), "wall time an episodic refit is waited for in lock-step")
    refit_every: int = setting(50, "steps", (0, 10000), "refit rhythm within the first episode; 0: none")
    particles: int = setting(
        1,
        "",
        (1, 16),
        "hypotheses about the physics that are planned on at once, their mean cost counts; see set_particles",
    )
    physical_parameters: str = setting(
        "",
        description="parameter file to start from; "
        "empty: the model's own values; start: the published wrong start of a cart-pole",
    )
    blueprint: str = setting(
        "", description="trained networks in the model's equations to start with; empty: none; see load_blueprint"
    )
    episode_steps: int = setting(140, "steps", (1, 100000), "length of an episode whose goal does not say")
    plan_period: float = setting(0.1, "s", (0.0, 10.0), "time between published plans; 0: none")
    path_width: float = setting(0.15, "m", (0.0, 0.4), "half width of the tracked figure eight, along y")
    path_height: float = setting(0.1, "m", (0.0, 0.3), "half height of the tracked figure eight, along z")
    path_period: float = setting(4.0, "s", (0.5, 60.0), "time of one round")
    path_tolerance: float = setting(0.03, "m", (0.001, 1.0), "distance of the tool from its path that is none")
    turn_tolerance: float = setting(
        0.5, "rad", (0.01, 3.2), "turn of the tool beyond which control begins by leading back"
    )
    path_tolerance_time: float = setting(
        1.0, "s", (0.0, 60.0), "how long the tool may be further away than the tolerance"
    )
    path_beyond: str = setting(
        "report",
        choices=BEYOND,
        description="what then happens: a warning; the path waits and the arm is led back; commands cease",
    )
    approach_speed: float = setting(
        0.3, "", (0.01, 0.4), "speed at which the arm is led back to its path, over the joints' velocity limits"
    )
