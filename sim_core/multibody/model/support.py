"""Checks of a compiled model: an error for what the engine does not support, a note for what acts in the plant only."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

import mujoco
import numpy as np

from sim_core.multibody.model.compile_model import ModelError
from sim_core.multibody.model.options import ModelOptions

__all__ = ["check_supported"]

_J, _D, _G, _B, _T = mujoco.mjtJoint, mujoco.mjtDyn, mujoco.mjtGain, mujoco.mjtBias, mujoco.mjtTrn


def name_of(mj_model: mujoco.MjModel, kind: mujoco.mjtObj, index: int) -> str:
    """Name of an element; "#<index>" where it has none."""
    return mujoco.mj_id2name(mj_model, kind, index) or f"#{index}"


def refuse(what: str, remedy: str) -> NoReturn:
    """Say in one sentence what the engine does not support, and in another what to do.

    Raises:
        ModelError: always.
    """
    raise ModelError(f"Not supported: {what}. {remedy}")


def disabled(mj_model: mujoco.MjModel, flag: int) -> bool:
    """Whether the model switches one of these features of MuJoCo off."""
    return bool(int(mj_model.opt.disableflags) & int(flag))


def check_supported(mj_model: mujoco.MjModel, friction: Collection[str], options: ModelOptions) -> list[str]:
    """Notes on what the model's plant does beyond the engine's equations.

    Args:
        friction: names of the joints with friction in the equations.   options: ModelOptions.

    Raises:
        ModelError: names the first element without support, and what to do about it.
    """
    m = mj_model
    _check_joints(m, options.joint_limits)
    _check_actuators(m)
    for i in range(m.nbody):
        body = f"body '{name_of(m, mujoco.mjtObj.mjOBJ_BODY, i)}'"
        if m.body_gravcomp[i] != 0:
            refuse(f"gravity compensation of {body}", "Remove 'gravcomp' and let the controller compensate.")
        if m.body_mocapid[i] >= 0:
            refuse(f"mocap {body}", "Remove 'mocap' from the robot's model; keep such bodies in the plant's scene.")
        if m.body_plugin[i] >= 0:
            refuse(f"plugin of {body}", "Remove the plugin.")
    if m.ntendon:
        refuse(f"tendon '{name_of(m, mujoco.mjtObj.mjOBJ_TENDON, 0)}'", "Remove it, or drive the joints directly.")
    if m.nflex:
        refuse(f"flex '{name_of(m, mujoco.mjtObj.mjOBJ_FLEX, 0)}'", "Remove deformable bodies.")
    if m.opt.density > 0 or m.opt.viscosity > 0 or options.fluid is True:
        _check_fluid(m)
    return _notes(m, friction, options)


def _check_joints(m: mujoco.MjModel, joint_limits: bool) -> None:
    for i in range(m.njnt):
        joint = f"joint '{name_of(m, mujoco.mjtObj.mjOBJ_JOINT, i)}'"
        kind = _J(int(m.jnt_type[i]))
        if kind == _J.mjJNT_BALL and m.jnt_limited[i] and joint_limits:
            refuse(f"the angle limit of ball {joint} with joint_limits=True", "Remove 'range', or use three hinges.")
        dof = m.jnt_dofadr[i]
        if np.any(m.jnt_stiffnesspoly[i]) or np.any(m.dof_dampingpoly[dof]):
            refuse(f"nonlinear stiffness or damping of {joint}", "Give one coefficient: the linear one.")
        if m.jnt_plasticadr[i] >= 0:
            refuse(f"plastic spring of {joint}", "Remove 'springyield'.")
        if m.jnt_actgravcomp[i]:
            refuse(f"gravity compensation through actuators of {joint}", "Remove 'actuatorgravcomp'.")


def _check_fluid(m: mujoco.MjModel) -> None:
    if np.any(m.opt.wind):
        refuse(f"wind {m.opt.wind.tolist()}", "Set it to 0 in <option>: the medium is at rest in the equations.")
    for i in range(m.ngeom):
        if m.geom_fluid[i, 0] > 0:
            refuse(
                f"the ellipsoid fluid model of geom '{name_of(m, mujoco.mjtObj.mjOBJ_GEOM, i)}'",
                "Remove 'fluidshape'; the inertia-box model acts on every body without it.",
            )


def _check_actuators(m: mujoco.MjModel) -> None:
    for i in range(m.nactuator):
        actuator = f"actuator '{name_of(m, mujoco.mjtObj.mjOBJ_ACTUATOR, i)}'"
        if _T(int(m.actuator_trntype[i])) not in (_T.mjTRN_JOINT, _T.mjTRN_JOINTINPARENT):
            kind = _T(int(m.actuator_trntype[i])).name.removeprefix("mjTRN_").lower()
            refuse(f"{kind} transmission of {actuator}", 'Drive a joint: joint="...".')
        if _J(int(m.jnt_type[m.actuator_trnid[i, 0]])) in (_J.mjJNT_FREE, _J.mjJNT_BALL):
            joint = name_of(m, mujoco.mjtObj.mjOBJ_JOINT, m.actuator_trnid[i, 0])
            refuse(f"{actuator} on '{joint}', a free or ball joint", "Drive hinges and slides.")
        if _D(int(m.actuator_dyntype[i])) != _D.mjDYN_NONE:
            kind = _D(int(m.actuator_dyntype[i])).name.removeprefix("mjDYN_").lower()
            refuse(f"{kind} dynamics of {actuator}", 'Set dyntype="none" (motor, position or velocity without filter).')
        if _G(int(m.actuator_gaintype[i])) not in (_G.mjGAIN_FIXED, _G.mjGAIN_AFFINE):
            kind = _G(int(m.actuator_gaintype[i])).name.removeprefix("mjGAIN_").lower()
            refuse(f"{kind} gain of {actuator}", "Use a fixed or affine gain.")
        if _B(int(m.actuator_biastype[i])) not in (_B.mjBIAS_NONE, _B.mjBIAS_AFFINE):
            kind = _B(int(m.actuator_biastype[i])).name.removeprefix("mjBIAS_").lower()
            refuse(f"{kind} bias of {actuator}", "Use no bias or an affine one.")
        if m.actuator_ctrlnum[i] != 1:
            refuse(f"{m.actuator_ctrlnum[i]} controls of {actuator}", "Use an actuator with one control.")
        if m.actuator_delay[i] != 0:
            refuse(f"the delay of {actuator}", "Remove 'delay' here; the plant can delay commands by its scenario.")
        if np.any(m.actuator_damping[i]) or np.any(m.actuator_dampingpoly[i]) or m.actuator_armature[i] != 0:
            refuse(f"damping or armature of {actuator}", "Write them on the joint, where they can be estimated.")
        if m.actuator_plugin[i] >= 0:
            refuse(f"plugin of {actuator}", "Remove the plugin.")


def _notes(m: mujoco.MjModel, friction: Collection[str], options: ModelOptions) -> list[str]:
    off = mujoco.mjtDisableBit
    notes = []
    constraints = not disabled(m, off.mjDSBL_CONSTRAINT)
    if constraints and not disabled(m, off.mjDSBL_LIMIT):
        limited = [name_of(m, mujoco.mjtObj.mjOBJ_JOINT, i) for i in range(m.njnt) if m.jnt_limited[i]]
        if limited:
            notes.append(f"Joint limits act in the plant only, unless joint_limits=True: joints {', '.join(limited)}.")
    if constraints and not disabled(m, off.mjDSBL_FRICTIONLOSS) and np.any(m.dof_frictionloss > 0):
        rubbing = dict.fromkeys(m.dof_jntid[i] for i in np.flatnonzero(m.dof_frictionloss))
        joints = [name_of(m, mujoco.mjtObj.mjOBJ_JOINT, j) for j in rubbing]
        alone = [joint for joint in joints if joint not in friction]
        if alone:
            notes.append(f"Friction loss acts in the plant only, not in the equations: joints {', '.join(alone)}.")
        if options.friction_law == "smooth" and len(alone) < len(joints):
            both = [joint for joint in joints if joint in friction]
            notes.append(
                f"Friction loss is a constraint in the plant, tanh-smoothed in the equations: joints {', '.join(both)}."
            )
    if (m.opt.density > 0 or m.opt.viscosity > 0) and options.fluid is False:
        notes.append("The medium drags in the plant only, not in the equations.")
    if mujoco.mjtIntegrator(int(m.opt.integrator)) == mujoco.mjtIntegrator.mjINT_IMPLICIT:
        notes.append("The plant's 'implicit' integrator also differentiates Coriolis forces; 'implicitfast' is used.")
    elif mujoco.mjtIntegrator(int(m.opt.integrator)) == mujoco.mjtIntegrator.mjINT_IMPLICITFAST:
        lone = [name_of(m, mujoco.mjtObj.mjOBJ_JOINT, j) for j in range(m.njnt) if _stands_alone(m, j)]
        if lone:
            notes.append(
                "The plant's 'implicitfast' also damps the tumbling of free bodies that stand alone, the equations do not; "
                f"with Euler or RK4 they agree: joints {', '.join(lone)}."
            )
    return notes


def _stands_alone(m: mujoco.MjModel, j: int) -> bool:
    """Whether j is a free joint whose body carries no other joint."""
    body = m.jnt_bodyid[j]
    return _J(int(m.jnt_type[j])) == _J.mjJNT_FREE and m.dof_treeid.tolist().count(m.body_treeid[body]) == 6
