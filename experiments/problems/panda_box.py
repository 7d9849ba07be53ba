"""An acrylic box that hangs from a Panda's hand by a universal joint: the model that is fitted, and the robot.

Both move joints 6 and 7 in turn under a PD controller with feed-forward. The robot is MuJoCo with 1 ms steps,
whose box hangs from a lid that bends (two stiff hinges that the model does not have); its pose is tracked with noise.
The model is the engine at 4 ms with a rigid box.

Source: Heiden et al., Probabilistic Inference of Simulation Parameters via Parallel Differentiable Simulation (2022),
section V-C and appendix.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.signal import savgol_filter

from config.robot import robot_file
from sim_core.multibody import load_model
from sim_core.multibody.model import build

__all__ = [
    "BOX_LIMITS",
    "BOX_MASS",
    "MARKERS",
    "MARKER_NOISE",
    "PERIOD",
    "STEPS",
    "WEIGHTS",
    "WEIGHT_LIMITS",
    "WEIGHT_MASS",
    "Recording",
    "box_model",
    "box_robot",
    "empty_box",
    "motion",
    "record",
]

PERIOD = 0.004  # [s] between samples, and the model's step
STEPS = 1800  # samples of one recording
BOX_MASS = 0.920  # [kg] box and lid, weighed
WEIGHT_MASS = 0.500  # [kg] each
#: outer size [m], z down; the universal joint is HANG above the lid
SIZE, HANG = (0.36, 0.24, 0.30), 0.08
#: where the weights stand [m], known to the robot alone
WEIGHTS = ((0.10, 0.0), (-0.10, 0.0))
WEIGHT_LIMITS = {
    f"weight_{i}.pos.{axis}": limit for i in (1, 2) for axis, limit in (("x", (-0.14, 0.14)), ("y", (-0.08, 0.08)))
}
#: published limits. Inertia about the universal joint [kg m^2]: about the COM, 0.05 is more than a box of 0.92 kg can
#: have that is as long as the COM's limits allow. COM [m], damping of the universal joint [N m s/rad].
BOX_LIMITS = {
    **{f"box.I.{ij}": (0.05, 0.1) for ij in ("xx", "yy", "zz")},
    **{f"box.I.{ij}": (-0.01, 0.01) for ij in ("xy", "xz", "yz")},
    "box.com.x": (-0.005, 0.005),
    "box.com.y": (-0.005, 0.005),
    "box.com.z": (0.1, 0.4),
    "universal_x.damping": (0.0, 0.15),
    "universal_y.damping": (0.0, 0.15),
}
#: markers in the box's frame [m]: its origin and a point on each axis, as the tracker reports a pose
MARKERS = {"marker_o": (0, 0, 0), "marker_x": (0.2, 0, 0), "marker_y": (0, 0.2, 0), "marker_z": (0, 0, 0.2)}
MARKER_NOISE = 5e-4  # [m]
#: PD gains of the arm's seven joints
KP, KD = np.array([600.0] * 4 + [250.0, 150.0, 50.0]), np.array([50.0] * 4 + [30.0, 25.0, 15.0])
UNIVERSAL_DAMPING = (0.03, 0.05)  # [N m s/rad] of the robot's universal joint
LID_STIFFNESS, LID_DAMPING = 400.0, 0.2  # [N m/rad], [N m s/rad]: how the robot's lid bends
STILL = 0.2  # [s] at the beginning of every motion


@dataclass(frozen=True)
class Recording:
    """What was recorded: t (T+1,) [s]; q, v (T+1, 9) joints of arm and universal joint; u (T, 7) controls;
    markers (T+1, 12) [m], world."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    markers: np.ndarray

    @property
    def x(self):
        return np.concatenate([self.q, self.v], axis=1)


def box_model(weights: bool = False, values=None):
    """RobotModel of arm, universal joint and rigid box; with `weights`, two point masses whose place is free.

    Args:
        values: entries of the physical vector found before, by name.
    """
    spec = _arm()
    box = _universal_joint(spec, damping=(0.05, 0.05))
    # Starting values only: mass is known, the rest is what is to be found.
    _inertial(box, BOX_MASS, (0, 0, 0.2), (0.03, 0.03, 0.03))
    _add_markers(box)
    if weights:
        for i in (1, 2):
            weight = box.add_body(name=f"weight_{i}", pos=(0, 0, HANG + SIZE[2]))
            _inertial(weight, WEIGHT_MASS, (0, 0, -0.02), (1e-4, 1e-4, 1e-4))
    spec.option.timestep = PERIOD
    spec.compile()
    geometry = ("weight_1", "weight_2") if weights else ()
    model = load_model(spec.to_xml(), geometry=geometry)
    for name, value in (values or {}).items():
        model.parameters.nominal[model.parameters.index(name)] = value
    return model


def box_robot(weights=()) -> mujoco.MjModel:
    """The robot: as `box_model`, but with the lid's hinges, walls for the box, and weights at (x, y) on its floor."""
    spec = _arm()
    lid = _universal_joint(spec, UNIVERSAL_DAMPING, name="lid")
    a, b, c = SIZE
    _inertial(lid, 0.2, (0, 0, HANG), tuple(0.2 / 12 * np.array([b * b, a * a, a * a + b * b])))
    box = lid.add_body(name="box", pos=(0, 0, HANG))
    for axis, name in zip(np.eye(3)[:2], "xy"):
        box.add_joint(
            name=f"lid_{name}",
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=axis,
            armature=0,
            limited=mujoco.mjtLimited.mjLIMITED_FALSE,
            stiffness=_poly(LID_STIFFNESS),
            damping=_poly(LID_DAMPING),
        )
    # Four walls and a floor of even thickness.
    walls = [
        ((0, 0, c), (a, b, 0)),
        ((a / 2, 0, c / 2), (0, b, c)),
        ((-a / 2, 0, c / 2), (0, b, c)),
        ((0, b / 2, c / 2), (a, 0, c)),
        ((0, -b / 2, c / 2), (a, 0, c)),
    ]
    area = [max(s[0] * s[1], s[0] * s[2], s[1] * s[2]) for _, s in walls]
    for (pos, size), share in zip(walls, np.array(area) / sum(area)):
        box.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=pos,
            size=[max(s / 2, 0.0015) for s in size],
            mass=(BOX_MASS - 0.2) * share,
            contype=0,
            conaffinity=0,
        )
    for i, (x, y) in enumerate(weights):
        box.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER,
            pos=(x, y, c - 0.02),
            size=[0.02, 0.02, 0],
            mass=WEIGHT_MASS,
            contype=0,
            conaffinity=0,
            name=f"weight_{i + 1}",
        )
    _add_markers(box, (0, 0, -HANG))
    spec.option.timestep = PERIOD / 4
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec.compile()


def empty_box() -> dict[str, float]:
    """True parameters of the robot's box were it rigid, for comparison only, named as in BOX_LIMITS.

    The inertia about the vertical lies below its limit; nothing but the arm's stiff last joint turns the box that way.
    """
    m = box_robot()
    data = mujoco.MjData(m)
    mujoco.mj_kinematics(m, data)
    mujoco.mj_comPos(m, data)
    origin, R = data.xpos[m.body("lid").id], data.xmat[m.body("lid").id].reshape(3, 3)
    total, first, inertia = 0.0, np.zeros(3), np.zeros((3, 3))
    for name in ("lid", "box"):
        i = m.body(name).id
        c = R.T @ (data.xipos[i] - origin)
        turn = R.T @ data.ximat[i].reshape(3, 3)
        total, first = total + m.body_mass[i], first + m.body_mass[i] * c
        inertia += turn @ np.diag(m.body_inertia[i]) @ turn.T + m.body_mass[i] * (c @ c * np.eye(3) - np.outer(c, c))
    found = {f"box.com.{a}": first[k] / total for k, a in enumerate("xyz")}
    return (
        found
        | {
            f"box.I.{n}": inertia[i, j]
            for n, i, j in (("xx", 0, 0), ("yy", 1, 1), ("zz", 2, 2), ("xy", 0, 1), ("xz", 0, 2), ("yz", 1, 2))
        }
        | {f"universal_{axis}.damping": d for axis, d in zip("xy", UNIVERSAL_DAMPING)}
    )


def motion(kind: str = "training", steps: int = STEPS):
    """Targets q_d, v_d (T+1, 7) [rad], [rad/s]: joints 6 and 7 one after the other to +0.1 and -0.1 rad and back.

    "held out" moves both at once, to other offsets and in another rhythm.
    """
    t = np.arange(steps + 1) * PERIOD
    q = np.tile(load_model("panda").q_home, (steps + 1, 1))
    v = np.zeros_like(q)
    legs = {
        "training": [(5, 0.3, 0.1), (5, 1.1, -0.2), (5, 2.3, 0.1), (6, 3.6, 0.1), (6, 4.4, -0.2), (6, 5.6, 0.1)],
        "held out": [
            (5, STILL, -0.08),
            (6, STILL, 0.12),
            (5, 1.4, 0.18),
            (6, 1.9, -0.2),
            (5, 3.2, -0.14),
            (6, 4.0, 0.15),
        ],
    }[kind]
    for joint, start, distance in legs:
        s, rate = _parabolic_blend(t - start, abs(distance), speed=0.261, acceleration=1.5)
        q[:, joint] += np.sign(distance) * s
        v[:, joint] += np.sign(distance) * rate
    return q, v


def _parabolic_blend(t, distance, speed, acceleration):
    """Position and rate of a trapezoidal velocity profile that starts at t = 0."""
    speed = min(speed, np.sqrt(distance * acceleration))
    ramp = speed / acceleration
    end = distance / speed + ramp
    t = np.clip(t, 0, end)
    rate = np.minimum(np.minimum(acceleration * t, speed), acceleration * (end - t))
    up, down = np.minimum(t, ramp), np.maximum(t - (end - ramp), 0)
    s = acceleration * up**2 / 2 + speed * np.maximum(np.minimum(t, end - ramp) - ramp, 0)
    return s + speed * down - acceleration * down**2 / 2, rate


def controls(q_d, v_d, load: float):
    """Controls u (T, 7) of the servos: PD targets and the torque that holds arm and load [kg] at rest in q_d."""
    model = load_model("panda")
    layout, p = model.parameters, model.parameters.nominal.copy()
    hand = layout.inertia_slice("hand").start
    tool = np.array([0, 0, 0.1034])
    p[hand] += load
    p[hand + 1 : hand + 4] += load * tool
    gravity = build.inverse_dynamics(model).map(len(q_d) - 1)
    zero = np.zeros((7, len(q_d) - 1))
    hold = np.array(gravity(q_d[:-1].T, zero, zero, np.repeat(p[:, None], len(q_d) - 1, 1))).T
    return KP * q_d[:-1] + KD * v_d[:-1] + hold


def record(weights=(), kind: str = "training", seed: int = 0, steps: int = STEPS) -> Recording:
    """Move the robot; markers carry noise, joints are those of encoders (universal joint from the markers' pose)."""
    m, rng = box_robot(weights), np.random.default_rng(seed)
    data = mujoco.MjData(m)
    q_d, v_d = motion(kind, steps)
    u = controls(q_d, v_d, BOX_MASS + WEIGHT_MASS * len(weights))
    sites = [m.site(name).id for name in MARKERS]
    data.qpos[:7], data.ctrl[:] = q_d[0], u[0]
    _settle(m, data)
    q, v, markers = np.empty((steps + 1, 9)), np.empty((steps + 1, 9)), np.empty((steps + 1, 12))
    for k in range(steps + 1):
        mujoco.mj_kinematics(m, data)
        markers[k] = data.site_xpos[sites].ravel()
        q[k, :7], v[k, :7] = data.qpos[:7], data.qvel[:7]
        if k < steps:
            data.ctrl[:] = u[k]
            mujoco.mj_step(m, data, 4)
    markers += MARKER_NOISE * rng.standard_normal(markers.shape)
    q[:, 7:], v[:, 7:] = _smooth(_universal_angles(q[:, :7], markers))
    return Recording(np.arange(steps + 1) * PERIOD, q, v, u, markers)


def _settle(m, data):
    """Hang at rest: ten seconds under the first controls with strong damping of what is passive."""
    damping = m.dof_damping.copy()
    m.dof_damping[7:] += 0.5
    mujoco.mj_step(m, data, round(10.0 / m.opt.timestep))
    m.dof_damping[:] = damping
    data.qvel[:], data.time = 0, 0


def _universal_angles(q_arm, markers):
    """Angles (T, 2) of the universal joint that the tracked axes of the box imply: R_hand' R_box = R_x(a) R_y(b)."""
    model = load_model("panda")
    pose = build.frame_pose(model, "hand").map(len(q_arm))
    R_hand = np.array(pose(q_arm.T, np.repeat(model.parameters.nominal[:, None], len(q_arm), 1))[1])
    R_hand = R_hand.reshape(3, len(q_arm), 3).transpose(1, 0, 2)
    axes = (markers.reshape(-1, 4, 3)[:, 1:] - markers.reshape(-1, 4, 3)[:, :1]) / 0.2  # rows: the box's axes
    R = np.einsum("tij,tki->tjk", R_hand, axes)  # columns: the box's axes in the hand
    return np.stack([np.arctan2(-R[:, 1, 2], R[:, 2, 2]), np.arctan2(R[:, 0, 2], R[:, 0, 0])], axis=1)


def _smooth(q):
    """Angles and rates by a cubic fit over a quarter of a second: the tracker's noise is 4 mrad, the box swings at 1 Hz.

    At the beginning, where a fit sees one side only, the box is known to hang at rest.
    """
    still = round(STILL / PERIOD)
    angles, rates = savgol_filter(q, 61, 3, axis=0), savgol_filter(q, 61, 3, deriv=1, delta=PERIOD, axis=0)
    angles[:still], rates[:still] = q[:still].mean(0), 0.0
    return angles, rates


# -- MJCF --------------------------------------------------------------------------------------------------------------


def _arm():
    """The Panda with a position servo on every joint: force = u - KP q - KD v."""
    spec = mujoco.MjSpec.from_file(str(robot_file("panda")))
    # What speaks of seven joints: home pose and velocity limits.
    for element in [*spec.keys, *spec.numerics]:
        spec.delete(element)
    for actuator, kp, kd in zip(spec.actuators, KP, KD):
        actuator.ctrllimited = False
        actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
        bias = np.zeros(len(actuator.biasprm))
        bias[1:3] = -kp, -kd
        actuator.biasprm = bias
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec


def _universal_joint(spec, damping, name="box"):
    body = spec.body("hand").add_body(name=name, pos=(0, 0, 0.1034))
    for axis, joint, d in zip(np.eye(3)[:2], "xy", damping):
        body.add_joint(
            name=f"universal_{joint}",
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=axis,
            damping=_poly(d),
            armature=0,
            limited=mujoco.mjtLimited.mjLIMITED_FALSE,
        )
    return body


def _poly(value):
    """A coefficient as MuJoCo's polynomial attributes take it: linear term alone."""
    return [value, 0.0, 0.0]


def _inertial(body, mass, com, moments):
    body.explicitinertial, body.mass, body.ipos, body.inertia = True, mass, com, moments


def _add_markers(body, offset=(0, 0, 0)):
    for name, pos in MARKERS.items():
        body.add_site(name=name, pos=np.add(pos, offset))
