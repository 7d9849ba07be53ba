"""Torque constant, friction and damping of every joint's servo, from an arm in motion under current control.

found = calibrate_servos(open_bag("runs/today/bag"), ServoSettings(free=("*.armature",)))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardware.dynamixel.tables import MODELS
from identification.bag_data import read_description
from identification.calibrate.calibration import Calibration
from identification.calibrate.page import start_page
from identification.calibrate.parameter_files import ros_parameters
from identification.errors import UnusableInput, unusable_input
from identification.identify_bag import BagIdentification, identify, parameter_file
from identification.identify_report import residuals
from recording import BagError, BagReader
from reporting import PALETTE, Progress, Report, Result, figure
from sim_core.inference.fit.identify import Identification, IdentifyConfig
from sim_core.inference.fit.repetition import autocorrelation
from sim_core.multibody.model.parameters import NamedEstimate

__all__ = ["ServoSettings", "assumed_constants", "calibrate_servos"]

OWN_PAGE, IDENTIFY_PAGE = "docs/calibration.md", "docs/identify.md"
MAX_LAG = 20


@dataclass(frozen=True)
class ServoSettings:
    """What is free besides the servos, and which part of the recording is used.

    Attributes:
        free: names besides gear, friction, damping and sensor.delay, as for `identify`.
        robot: name that the bag must have been recorded with; None: any.
        begin, end: stretch of the recording to use [s].
        starts, seed: number of starting points, and what they are drawn from.
    """

    free: tuple[str, ...] = ()
    robot: str | None = None
    begin: float = 0.0
    end: float = float("inf")
    starts: int = 3
    seed: int = 0


@unusable_input(BagError)
def calibrate_servos(
    reader: BagReader, settings: ServoSettings = ServoSettings(), progress: Progress | None = None
) -> Calibration:
    """Torque constant, friction and damping of the servos of a robot in current control.

    Efforts are measured current times the torque constant that the driver assumed; the factor that makes them explain the
    motion corrects it. Masses and inertias count as known. Files: <driver>.yaml with joints.<name>.torque_constant
    [N m/A], and parameters.yaml with friction and damping.

    Raises:
        UnusableInput: the bag cannot be used.
    """
    reader.require("joint_states", "robot_description", "run_info")
    config = IdentifyConfig(starts=settings.starts, seed=settings.seed)
    model, _ = read_description(reader, settings.robot)
    node, assumed = assumed_constants(reader.run_info(), model.actuator_joints)
    names = [f"{actuator}.gear" for actuator in model.actuator_names]
    names += [f"{joint}.{kind}" for kind in ("friction", "damping") for joint in model.actuator_joints]
    # A bus tells of a joint some milliseconds late; taken as punctual, strengths come out some percent wrong.
    names.append("sensor.delay")
    outcome = identify(
        reader.path,
        [*names, *settings.free],
        settings.robot,
        settings.begin,
        settings.end,
        config,
        bool(reader.truncated),
        progress,
        detect=None,
    )
    return _result(reader, outcome, node, assumed, config)


def assumed_constants(run_info: Mapping, joints: Sequence[str]) -> tuple[str, dict[str, float]]:
    """The servo driver's name and the torque constant it took for each joint [N m/A], from the parameters a run's description holds.

    Raises:
        UnusableInput: no node's parameters name the servos of all joints.
    """
    best: list[str] = list(joints)
    for path, values in run_info.get("parameters", {}).items():
        missing = [joint for joint in joints if values.get(f"joints.{joint}.model") not in MODELS]
        if not missing:
            constants = {
                joint: values.get(f"joints.{joint}.torque_constant")
                or MODELS[values[f"joints.{joint}.model"]].motor.torque_constant
                for joint in joints
            }
            return path.rsplit("/", 1)[-1], constants
        best = min(best, missing, key=len)
    raise UnusableInput(
        f"run_info of the bag has no parameters joints.<name>.model of a servo driver for {', '.join(best)}: "
        "record with the recorder while the node dynamixel runs in the same namespace, or use refit identify"
    )


def _result(
    reader: BagReader, outcome: BagIdentification, node: str, assumed: Mapping[str, float], config: IdentifyConfig
) -> Calibration:
    found, model = outcome.found, outcome.model
    before = {e.name: e.value for e in found.before}
    estimates, taken = [], {}
    gears = {f"{a.name}.gear": model.joint_names[a.v_index] for a in model.actuators}
    for e in found.after:
        if e.name in gears:
            constant = _torque_constant(e, gears[e.name], assumed, before[e.name])
            estimates.append(constant)
            taken[constant.name] = assumed[gears[e.name]]
        else:
            estimates.append(e)
            taken[e.name] = before[e.name]
    constants = estimates[: len(gears)]
    result = Result("calibrate_servos", seed=config.seed, size=model.name)
    result.check("held-out prediction error, after / before", found.error_ratio, 1.0, "<", "1", IDENTIFY_PAGE)
    # Stalled: no step lowers the cost, as where Coulomb friction makes a kink. A minimum if several starts end there.
    result.check("fit ended", found.solution.ending.name.lower(), ("converged", "stalled"), "in", source=OWN_PAGE)
    result.check("starts that end there", found.agreeing, 0.5, ">", "1", OWN_PAGE)
    result.check(
        "torque constants, widest half 95 % interval",
        max((e.upper - e.value) / e.value for e in constants),
        0.05,
        "<=",
        "1",
        OWN_PAGE,
    )
    result.check("parameters not excited", len(found.unexcited), 0, "==", "", IDENTIFY_PAGE)
    result.detail("unexcited", list(found.unexcited))
    result.detail("at_bound", list(found.at_bound))
    result.detail("starts_that_agree", found.agreeing)
    result.detail("factors", {joint: e.value / assumed[joint] for joint, e in zip(gears.values(), constants)})
    warnings = []
    if found.unexcited:
        warnings.append(
            f"Not excited: {', '.join(found.unexcited)}. Move these joints more, faster, and against gravity."
        )
    if found.at_bound:
        warnings.append(
            f"At a bound: {', '.join(found.at_bound)}. The data ask for more; is the model the robot that was recorded?"
        )
    report = start_page(
        f"Servos of {model.name}",
        reader,
        result,
        estimates,
        {
            "torque constants": f"{min(e.value for e in constants):.3g} to {max(e.value for e in constants):.3g} N m/A",
            "largest correction": f"{100 * max((e.value / taken[e.name] - 1 for e in constants), key=abs):+.1f} %",
            "held-out error, after / before": found.error_ratio,
        },
        warnings,
        taken,
    )
    for note in outcome.data.notes:
        report.text(note)
    report.text(
        "Assumed torque constants are the driver's parameters in the recording, or where those were 0 the data sheet's "
        "stall torque over stall current. Friction is MuJoCo's (Coulomb), damping viscous, both at the joint."
    )
    _interval_figures(report, constants, taken, estimates[len(gears) :])
    _forecast_figure(report, found, model.joint_names)
    _residual_figure(report, found, model.joint_names)
    text = ros_parameters(
        node,
        {f"joints.{joint}.torque_constant": e.value for joint, e in zip(gears.values(), constants)},
        f"Torque constants [N m/A] of the servos, calibrated from {reader.path.name}.",
    )
    # Not the gears: with the torque constants corrected, efforts are what the model's own gears make them.
    physical = parameter_file(outcome, leave_out="*.gear").text()
    return Calibration(
        result,
        estimates,
        report,
        {f"{node}.yaml": text, "parameters.yaml": physical},
        taken,
        (*outcome.data.notes, *warnings),
    )


def _torque_constant(gear: NamedEstimate, joint: str, assumed: Mapping[str, float], nominal: float) -> NamedEstimate:
    """An actuator's strength, in units of what the model has, as the constant behind it [N m/A]."""
    k = assumed[joint] / nominal
    return replace(
        gear,
        name=f"{joint}.torque_constant",
        unit="N m/A",
        value=k * gear.value,
        std=k * gear.std,
        lower=k * gear.lower,
        upper=k * gear.upper,
    )


def _interval_figures(
    report: Report, constants: Sequence[NamedEstimate], assumed: Mapping[str, float], others: Sequence[NamedEstimate]
) -> None:
    report.section(
        "Intervals", "95 % intervals of the torque constants over what was assumed, and of what else was free."
    )
    fig, axis = figure(size=(8.4, 0.34 * len(constants) + 1.1))
    y = np.arange(len(constants))[::-1]
    for row, e in zip(y, constants):
        a = assumed[e.name]
        axis.errorbar(
            e.value / a,
            row,
            xerr=[[(e.value - e.lower) / a], [(e.upper - e.value) / a]],
            fmt="o",
            ms=4.5,
            color=PALETTE[0],
            capsize=3,
        )
    axis.axvline(1.0, color=PALETTE[1], ls="--", lw=1.2)
    axis.set_yticks(y, [e.name.rpartition(".")[0] for e in constants])
    axis.set_ylim(-0.6, len(constants) - 0.4)
    axis.set_title("torque constant / assumed")
    report.figure(fig)
    kinds = [("frictionloss", "friction [N m]"), ("damping", "damping [N m s/rad]")]
    fig, axes = figure(1, 2, size=(8.4, 0.34 * len(constants) + 1.1))
    for axis, (kind, title) in zip(axes, kinds):
        rows = [e for e in others if e.name.endswith(f".{kind}")]
        for row, e in zip(np.arange(len(rows))[::-1], rows):
            axis.errorbar(
                e.value,
                row,
                xerr=[[e.value - e.lower], [e.upper - e.value]],
                fmt="o",
                ms=4.5,
                color=PALETTE[0],
                capsize=3,
            )
            axis.plot(assumed[e.name], row, "|", ms=13, color=PALETTE[1])
        axis.set_yticks(np.arange(len(rows))[::-1], [e.name.rpartition(".")[0] for e in rows])
        axis.set_ylim(-0.6, len(rows) - 0.4)
        axis.locator_params(axis="x", nbins=5)
        axis.set_title(title)
    report.figure(fig, "Upright marks: what the model had.")


def _forecast_figure(report: Report, found: Identification, joints: Sequence[str]) -> None:
    """One stretch of the held-out part, predicted open loop."""
    before, after, n = found.forecast_before, found.forecast_after, len(joints)
    s = len(after.t) // 2
    report.section(
        "Prediction of the held-out part",
        f"Velocities [rad/s] over time [s], open loop from a state fitted to the "
        f"samples just before; the middle one of {len(after.t)} stretches, none used in the fit.",
    )
    fig, axes = figure((n + 1) // 2, 2, size=(8.4, 1.35 * ((n + 1) // 2) + 0.5), sharex=True, squeeze=False)
    for j, axis in enumerate(axes.ravel()):
        if j >= n:
            axis.set_visible(False)
            continue
        axis.plot(after.t[s], after.measured[s, :, n + j], color="#444444", lw=2.5, alpha=0.5, label="measured")
        axis.plot(before.t[s], before.predicted[s, :, n + j], color=PALETTE[1], ls="--", label="as assumed")
        axis.plot(after.t[s], after.predicted[s, :, n + j], color=PALETTE[0], label="calibrated")
        axis.set_title(joints[j])
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    report.figure(fig)


def _residual_figure(report: Report, found: Identification, joints: Sequence[str]) -> None:
    (r, _), problem, n = residuals(found), found.problem, len(joints)
    report.section(
        "Residuals",
        "Autocorrelation of the velocities' residuals: what stays above the band is unmodelled, such as "
        "backlash, or friction that follows another law.",
    )
    fig, axis = figure(size=(8.4, 2.8))
    lags = np.arange(min(MAX_LAG, r.shape[1] - 1) + 1)
    for j, joint in enumerate(joints):
        axis.plot(
            lags * problem.dt * 1e3, autocorrelation(r[..., n + j], lags), color=PALETTE[j % len(PALETTE)], label=joint
        )
    bound = 1.96 / np.sqrt(r.shape[0] * r.shape[1])
    axis.axhspan(-bound, bound, color="#cccccc", alpha=0.6)
    axis.set_xlabel("lag [ms]")
    axis.set_title("autocorrelation; band: white noise")
    axis.legend(ncols=3)
    report.figure(fig)
