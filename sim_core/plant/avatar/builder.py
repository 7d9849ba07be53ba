"""The avatar's model from its parameters: torso on an omnidirectional base, head, two arms, a gripper and a hand.

    spec = build(AvatarDesign())
    model = spec.compile()

`python -m sim_core.plant.avatar` writes config/robots/avatar/avatar.xml from the design that was chosen.

Masses and sizes are those of the thesis where it has them (1.0 x 0.68 x 1.75 m, 157 kg with two Pandas, a Waypoint Vector
base, a Robotiq 2F gripper on the right, a six-motor hand on the left); shapes are primitives.

Source: Zhu, PhD thesis, University of Illinois (2023), chapter 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np

from config.robot import load_robot
from sim_core.plant.avatar.end_effectors import add_gripper, add_hand
from sim_core.plant.avatar.home import HOME
from sim_core.plant.avatar.mounts import ARM_MOUNTS, GRIPPER_MOUNTS, Mount, mirrored

__all__ = ["NAME", "SIDES", "AvatarDesign", "build"]

SIDES = ("right", "left")
#: of the model, and of the folder in config/robots that holds it: this folder's
NAME = Path(__file__).resolve().parent.name
#: [N m] of each of the neck's joints: what a Dynamixel MX-28 holds at 12 V (hardware/dynamixel/tables.py), whose 5.8 rad/s without a
#: load are above HEAD_SPEED. The servos turn all the way round; that the neck stops before is chosen, about as far as a person's goes.
NECK_EFFORT = 2.5
NECK_RANGES = {"yaw": (-1.4, 1.4), "pitch": (-0.7, 1.0), "roll": (-0.5, 0.5)}
#: [rad/s or m/s] base forward and left, base turning, head, gripper and hand; the arms' own are the Panda's
POWER_SHARE, UNLIMITED_POWER = 0.8, 1e6  # of an arm's joint at its strongest [1], and of what is not limited [W]
BASE_SPEED, TURN_SPEED, HEAD_SPEED, FINGER_SPEED, HAND_SPEED = 0.25, 0.5, 4.0, 0.2, 6.0
#: contact classes: the world touches everything, an arm the other one and the torso, which its own base stands in
WORLD, RIGHT, LEFT, TORSO = 1, 2, 4, 8
TOUCHES = {"right": (RIGHT, WORLD | LEFT), "left": (LEFT, WORLD | RIGHT), "torso": (TORSO, WORLD)}


@dataclass(frozen=True)
class AvatarDesign:
    """What of the avatar is chosen.

    Attributes:
        robot: that either arm is, by its name in config/robots.
        arm_mount: of the right arm on the torso; the left one is mirrored.
        gripper_mount: of the gripper on the right arm and of the hand on the left one, by side.
        baseline: distance of the eyes [m].
    """

    robot: str = "panda"
    arm_mount: Mount = field(default_factory=lambda: ARM_MOUNTS["45 down"])
    gripper_mount: tuple[Mount, Mount] = field(default_factory=lambda: (GRIPPER_MOUNTS["low"], GRIPPER_MOUNTS["low"]))
    baseline: float = 0.064


def build(design: AvatarDesign = AvatarDesign(), home: dict[str, float] | None = None) -> mujoco.MjSpec:
    """The robot on a floor, without a task's scene.

    Args:
        design: what is chosen.
        home: joint positions of its key frame "home" by name [rad or m]; what is not named is zero. None: `HOME`.
    """
    spec = mujoco.MjSpec()
    spec.modelname = NAME
    spec.compiler.degree, spec.compiler.autolimits = False, True
    spec.option.timestep, spec.option.integrator = 0.002, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    # What is gripped does not creep out of the fingers.
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 960
    spec.visual.map.shadowclip, spec.visual.quality.shadowsize = 2.0, 4096
    spec.stat.center, spec.stat.extent = (0.2, 0.0, 0.9), 2.0
    _materials(spec)
    _room(spec)
    torso = _base(spec, abs(float(design.arm_mount.position[1])))
    _head(spec, torso, design.baseline)
    arms = {}
    for side, mount in zip(SIDES, (design.arm_mount, mirrored(design.arm_mount))):
        arms[side] = _arm(torso, side, mount, design.robot)
    for side, mount, add in zip(SIDES, design.gripper_mount, (add_gripper, add_hand)):
        flange = spec.site(f"{side}_flange")
        palm = spec.body(f"{side}_link7").add_body(
            name=f"{side}_palm",
            pos=np.asarray(flange.pos) + mount.position,
            quat=mount.quaternion,
        )
        add(spec, palm, side)
    for side in SIDES:
        for geom in _geoms(arms[side]):
            geom.contype, geom.conaffinity = TOUCHES[side]
    compiled = spec.compile()
    speeds = _speeds(compiled, design.robot)
    spec.add_numeric(name="velocity_limits", data=speeds)
    spec.add_numeric(name="power_limits", data=_powers(compiled, speeds))
    key = spec.add_key(name="home")
    key.qpos = _posture(compiled, HOME if home is None else home)
    return spec


def _materials(spec: mujoco.MjSpec) -> None:
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=(0.72, 0.8, 0.88),
        rgb2=(0.96, 0.97, 1.0),
        width=64,
        height=384,
    )
    for name, colour in (("shell", 0.93), ("dark", 0.22), ("ground", 0.76), ("wood", 0.6)):
        rgba = (0.72, 0.56, 0.4, 1.0) if name == "wood" else (colour, colour, colour, 1.0)
        spec.add_material(name=name, rgba=rgba, specular=0.3, shininess=0.3)


def _room(spec: mujoco.MjSpec) -> None:
    world = spec.worldbody
    world.add_light(pos=(1.0, -1.5, 3.0), dir=(-0.3, 0.4, -1.0), type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
    world.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=(8, 8, 0.05), material="ground", group=0)
    for number, (place, target) in enumerate(
        (((0.7, 1.7, 2.3), (0.4, 0, 0.9)), ((0.7, -1.7, 2.3), (0.4, 0, 0.9)), ((-1.6, 0, 2.5), (0.6, 0, 0.8))), 1
    ):
        world.add_camera(name=f"birds_eye_{number}", pos=place, quat=_looking(place, target), fovy=60.0)
    place = (2.5, -2.0, 1.9)
    world.add_camera(name="overview", pos=place, quat=_looking(place, (0.2, 0.0, 0.9)), fovy=42.0)


def _looking(place: Sequence[float], target: Sequence[float]) -> np.ndarray:
    """Quaternion of a camera there, which looks along its own -z, its x axis level."""
    z = np.subtract(place, target)
    z = z / np.linalg.norm(z)
    x = np.cross((0.0, 0.0, 1.0), z)
    x /= np.linalg.norm(x)
    return Mount(np.zeros(3), np.column_stack([x, np.cross(z, x), z])).quaternion


def _joint(
    spec: mujoco.MjSpec,
    body: mujoco.MjsBody,
    name: str,
    axis: Sequence[float],
    span: tuple[float, float] | None,
    effort: float,
    armature: float,
    damping: float,
    slide: bool = False,
) -> None:
    """A joint with a motor of the same name."""
    made = body.add_joint(
        name=name,
        type=mujoco.mjtJoint.mjJNT_SLIDE if slide else mujoco.mjtJoint.mjJNT_HINGE,
        axis=axis,
        armature=armature,
        damping=damping,
    )
    if span is not None:
        made.range = span
    motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, ctrlrange=(-effort, effort))
    motor.set_to_motor()


def _base(spec: mujoco.MjSpec, shoulder: float) -> mujoco.MjsBody:
    """The body that carries everything else; its origin is on the floor, the arms stand `shoulder` [m] off its middle."""
    body = spec.worldbody.add_body(name="base", mass=92.0, ipos=(0.0, 0.0, 0.25), inertia=(6.0, 8.0, 9.0))
    body.explicitinertial = True
    _joint(spec, body, "base_x", (1, 0, 0), (-20.0, 20.0), 400.0, 0.0, 20.0, slide=True)
    _joint(spec, body, "base_y", (0, 1, 0), (-20.0, 20.0), 400.0, 0.0, 20.0, slide=True)
    _joint(spec, body, "base_yaw", (0, 0, 1), None, 150.0, 0.0, 10.0)
    contype, conaffinity = TOUCHES["torso"]
    look = dict(mass=0.0, group=2, contype=contype, conaffinity=conaffinity)
    box, cylinder = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER
    body.add_geom(type=box, pos=(-0.12, 0, 0.2), size=(0.38, 0.29, 0.14), material="dark", **look)
    body.add_geom(type=box, pos=(-0.12, 0, 0.36), size=(0.34, 0.26, 0.02), material="shell", **look)
    drawn = dict(mass=0.0, group=2, contype=0, conaffinity=0)
    for x in (-0.38, 0.14):
        for y in (-0.27, 0.27):
            body.add_geom(
                type=cylinder, pos=(x, y, 0.1), size=(0.1, 0.03, 0), quat=(1, 1, 0, 0), material="dark", **drawn
            )
    body.add_geom(type=box, pos=(-0.08, 0, 0.72), size=(0.07, 0.09, 0.36), material="shell", **look)
    # the block that carries the arms reaches to where their bases begin
    between = min(0.12, max(0.03, shoulder - 0.08))
    body.add_geom(type=box, pos=(-0.04, 0, 1.16), size=(0.08, between, 0.12), material="shell", **look)
    for name, place, bearing in rangefinder_places():
        body.add_site(
            name=f"range_{name}",
            pos=(*place, 0.22),
            zaxis=(float(np.cos(bearing)), float(np.sin(bearing)), 0.0),
            size=(0.01, 0.01, 0.01),
            group=4,
        )
    return body


def rangefinder_places() -> list[tuple[str, tuple[float, float], float]]:
    """(name, forward and left of the base's middle [m], bearing from straight ahead [rad]) of each rangefinder.

    Three look ahead and three behind. The outer ones of them look inwards, so that one edge of their cones goes along the base's
    side: all of the base's width is covered from its edge on, and the walls of a passage that the base fits through are in no cone.
    One at each corner looks from 10 degrees off straight ahead (or behind) to the side. Four on each side sit 4 cm within the
    wheels' outer edge, so that their cones meet before anything 10 cm wide could be between them at the distance that is kept.
    """
    found: list[tuple[str, tuple[float, float], float]] = []
    for end, x, corner, ahead in (("front", 0.27, 0.26, True), ("rear", -0.51, -0.50, False)):
        found.append((end, (x, 0.0), 0.0 if ahead else np.pi))
        for side, y in (("right", -1.0), ("left", 1.0)):
            inwards, outwards = -0.17 * y, 0.873 * y
            found.append((f"{end}_{side}", (x, 0.29 * y), inwards if ahead else np.pi - inwards))
            found.append((f"{end}_{side}_corner", (corner, 0.30 * y), outwards if ahead else np.pi - outwards))
    for side, y in (("right", -1.0), ("left", 1.0)):
        for number, x in enumerate((0.16, -0.03, -0.22, -0.41), 1):
            found.append((f"{side}_{number}", (x, 0.26 * y), 0.5 * np.pi * y))
    return found


def _head(spec: mujoco.MjSpec, torso: mujoco.MjsBody, baseline: float) -> None:
    """Yaw, pitch and roll; the eyes look along the head's x axis."""
    small = dict(mass=0.3, ipos=(0.0, 0.0, 0.0), inertia=(4e-4, 4e-4, 4e-4), explicitinertial=True)
    torso.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        pos=(-0.02, 0, 1.36),
        size=(0.035, 0.09, 0),
        material="dark",
        mass=0.0,
        group=2,
        contype=0,
        conaffinity=0,
    )
    yaw = torso.add_body(name="neck_yaw", pos=(-0.02, 0, 1.45), **small)
    _joint(spec, yaw, "head_yaw", (0, 0, 1), NECK_RANGES["yaw"], NECK_EFFORT, 0.02, 0.3)
    pitch = yaw.add_body(name="neck_pitch", pos=(0, 0, 0.05), **small)
    _joint(spec, pitch, "head_pitch", (0, 1, 0), NECK_RANGES["pitch"], NECK_EFFORT, 0.02, 0.3)
    head = pitch.add_body(name="head", mass=0.9, ipos=(0.03, 0, 0.06), inertia=(4e-3, 3e-3, 3e-3))
    head.explicitinertial = True
    _joint(spec, head, "head_roll", (1, 0, 0), NECK_RANGES["roll"], NECK_EFFORT, 0.02, 0.3)
    look = dict(mass=0.0, group=2, contype=0, conaffinity=0)
    head.add_geom(
        type=mujoco.mjtGeom.mjGEOM_ELLIPSOID, pos=(0.02, 0, 0.08), size=(0.08, 0.1, 0.11), material="shell", **look
    )
    head.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, pos=(0.085, 0, 0.08), size=(0.02, 0.07, 0.035), material="dark", **look
    )
    # a camera looks along its -z: x right, y up
    forward = Mount(np.zeros(3), np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])).quaternion
    for name, y in (("right_eye", -0.5 * baseline), ("left_eye", 0.5 * baseline)):
        head.add_camera(name=name, pos=(0.108, y, 0.08), quat=forward, fovy=70.0)


def _arm(torso: mujoco.MjsBody, side: str, mount: Mount, robot: str) -> mujoco.MjsBody:
    """The arm without its hand; its names get the side before them."""
    source = mujoco.MjSpec.from_file(str(load_robot(robot).model))
    source.delete(source.body("hand"))
    room = [source.texture("sky"), source.material("grid"), source.texture("grid")]
    for element in (*source.keys, *source.numerics, *room):
        source.delete(element)
    for name in {geom.classname.name for geom in _geoms(source.body("link0"))}:
        source.find_default(name).geom.material = ""  # the arm's own name of it, which nothing in this model has
    source.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    source.option.cone, source.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0
    root = torso.add_frame(pos=mount.position, quat=mount.quaternion).attach_body(source.body("link0"), f"{side}_", "")
    return root


def _geoms(body: mujoco.MjsBody) -> list[mujoco.MjsGeom]:
    return [*body.geoms, *(geom for child in body.bodies for geom in _geoms(child))]


def _speeds(model: mujoco.MjModel, robot: str) -> list[float]:
    """Limit of each joint that has a motor or follows none, in the model's order [rad/s or m/s]."""
    panda = mujoco.MjModel.from_xml_path(str(load_robot(robot).model)).numeric("velocity_limits").data
    own = {"base_x": BASE_SPEED, "base_y": BASE_SPEED, "base_yaw": TURN_SPEED, "right_gripper": FINGER_SPEED}
    speeds = []
    for j in range(model.njnt):
        name = model.joint(j).name
        if name.startswith("head_"):
            speeds.append(HEAD_SPEED)
        elif "_joint" in name:
            speeds.append(float(panda[int(name[-1]) - 1]))
        else:
            speeds.append(own.get(name.removesuffix("_follower"), HAND_SPEED))
    return speeds


def _powers(model: mujoco.MjModel, speeds: list[float]) -> list[float]:
    """Limit of each joint in the model's order [W]: of the arms' joints a share of what their motors can do at most.

    A motor whose torque falls linearly with its speed is strongest at half of both, with a quarter of their product.
    """
    powers = [UNLIMITED_POWER] * model.njnt
    for i in range(model.nu):
        joint = model.joint(model.actuator_trnid[i, 0])
        if "_joint" in joint.name and not joint.name.startswith("head_"):
            effort = abs(model.actuator_gear[i, 0]) * model.actuator_ctrlrange[i, 1]
            powers[joint.id] = round(float(POWER_SHARE * effort * speeds[joint.id] / 4.0), 2)
    return powers


def _posture(model: mujoco.MjModel, home: dict[str, float]) -> np.ndarray:
    """qpos of a posture; followers follow."""
    qpos = model.qpos0.copy()
    for name, value in home.items():
        qpos[model.joint(name).qposadr[0]] = value
    for e in range(model.neq):
        follower, leader = model.eq_obj1id[e], model.eq_obj2id[e]
        shift, ratio = model.eq_data[e, :2]
        qpos[model.jnt_qposadr[follower]] = shift + ratio * qpos[model.jnt_qposadr[leader]]
    return qpos
