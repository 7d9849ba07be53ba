"""Parameters of `refit_worker`, which a replay of its rounds needs as well."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.framework.config import setting

__all__ = ["RefitWorkerConfig"]


@dataclass(frozen=True)
class RefitWorkerConfig:
    """Parameters of `refit_worker`."""

    robot: str = setting("panda", description="model in config/robots")
    schedule: str = setting(
        "periodic", choices=("periodic", "episodic"), description="fit every period, or only when the action asks"
    )
    sample_period: float = setting(0.002, "s", (0.0005, 0.2), "time between joint states")
    window: float = setting(1.0, "s", (0.05, 60.0), "longest stretch of data fitted")
    min_window: float = setting(0.3, "s", (0.02, 60.0), "shortest stretch worth fitting")
    period: float = setting(0.25, "s", (0.02, 60.0), "time between periodic fits")
    recipe: str = setting("robust", choices=("robust", "literal"), description="the robust fit, or the published one")
    free: str = setting(
        "",
        description="what may change besides what the hand holds and the gears' friction, separated by commas: "
        "*.friction, *.gear, gravity.tilt, ... (docs/refit.md); the controller needs the same",
    )
    estimate_held: bool = setting(
        True,
        description="what the refit holds is estimated as well, where the data ask for it and `free` names nothing "
        "(docs/refit.md#when-the-model-is-too-small)",
    )
    max_evaluations: int = setting(15, "", (1, 500), "roll-outs with sensitivities per fit")
    segment_length: int = setting(0, "steps", (0, 1000), "of multiple shooting; 0: the robot's own")
    position_noise: float = setting(1e-4, "rad or m", (0.0, 1.0), "sensor noise, for change detection")
    velocity_noise: float = setting(1e-3, "rad/s or m/s", (0.0, 1.0), "sensor noise, for change detection")
    physical_parameters: str = setting(
        "",
        description="parameter file to start from; empty: the model's own values; "
        "start: the published wrong start of a cart-pole",
    )
    blueprint: str = setting(
        "",
        description="trained networks in the model's equations to fit around, weights held; empty: "
        "those of the parameter file, if it names any; see load_blueprint",
    )
    run_directory: str = setting("", description="accepted revisions are written here; empty: nowhere")
