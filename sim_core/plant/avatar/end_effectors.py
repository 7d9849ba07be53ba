"""What the avatar's arms end in: a parallel-jaw gripper of a Robotiq 2F-85's size, and a hand with six motors.

The palm's z axis points to what is grasped, its y axis is the one along which the gripper opens; the site <side>_hand_site
lies between the finger tips.

Sources: Robotiq, 2F-85 instruction manual (stroke 85 mm, 0.9 kg, 20 to 235 N); Psyonic, Ability Hand (six motors, of which each
finger's bends both of its joints, 0.49 kg).
"""

from __future__ import annotations

import mujoco

__all__ = ["FINGERS", "add_gripper", "add_hand"]

#: the hand's fingers from the thumb's side: name, place across the palm [m], length of the proximal and distal part [m]
FINGERS = (
    ("index", 0.03, 0.045, 0.04),
    ("middle", 0.01, 0.05, 0.043),
    ("ring", -0.01, 0.045, 0.04),
    ("pinky", -0.03, 0.038, 0.033),
)
#: by which a distal joint turns for each radian of its proximal one
COUPLING = 1.0
STROKE = 0.0425  # of either finger of the gripper [m]
PAD = dict(friction=(1.0, 0.02, 0.0005), condim=4, solref=(0.005, 1.0))
TOUCH = {"right": dict(contype=2, conaffinity=1 | 4), "left": dict(contype=4, conaffinity=1 | 2)}


def add_gripper(spec: mujoco.MjSpec, palm: mujoco.MjsBody, side: str) -> None:
    """Two fingers on slides; the joint <side>_gripper is 0 open and 0.0425 m closed, and the second finger follows it."""
    _inertia(palm, 0.75, (0.0, 0.0, 0.045), (1.1e-3, 1.1e-3, 8e-4))
    look = dict(mass=0.0, group=2, **TOUCH[side])
    palm.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER, pos=(0, 0, 0.02), size=(0.038, 0.022, 0), material="dark", **look
    )
    palm.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, pos=(0, 0, 0.065), size=(0.03, 0.06, 0.024), material="dark", **look)
    for name, way in (("", 1.0), ("_follower", -1.0)):
        finger = palm.add_body(name=f"{side}_finger{name}", pos=(0.0, way * STROKE, 0.09))
        _inertia(finger, 0.06, (0.0, way * 0.012, 0.03), (3e-5, 3e-5, 1e-5))
        made = finger.add_joint(
            name=f"{side}_gripper{name}",
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=(0, -way, 0),
            armature=0.5,
            damping=40.0,
        )
        made.range = (0.0, STROKE)
        finger.add_geom(
            name=f"{side}_pad{name}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=(0, way * 0.005, 0.034),
            size=(0.011, 0.005, 0.034),
            material="shell",
            **PAD,
            **look,
        )
    _follow(spec, f"{side}_gripper_follower", f"{side}_gripper", 1.0)
    _motor(spec, f"{side}_gripper", 60.0)
    palm.add_site(name=f"{side}_hand_site", pos=(0, 0, 0.14), size=(0.008, 0.008, 0.008), group=4)
    _camera(palm, side)


def add_hand(spec: mujoco.MjSpec, palm: mujoco.MjsBody, side: str) -> None:
    """Four fingers with two coupled joints and a thumb with two motors: <side>_index, ..., <side>_thumb_rotation.

    A left hand: it closes towards the palm's -x, where the thumb comes to stand before it. Of a right hand, x is mirrored.
    """
    _inertia(palm, 0.35, (0.0, 0.0, 0.05), (6e-4, 5e-4, 3e-4))
    look = dict(mass=0.0, group=2, **TOUCH[side])
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    palm.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER, pos=(0, 0, 0.015), size=(0.03, 0.016, 0), material="dark", **look
    )
    palm.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, pos=(0, 0, 0.075), size=(0.013, 0.042, 0.042), material="dark", **look
    )
    for name, y, proximal, distal in FINGERS:
        first = palm.add_body(name=f"{side}_{name}_proximal", pos=(0.0, y, 0.12))
        _inertia(first, 0.02, (0.0, 0.0, 0.5 * proximal), (6e-6, 6e-6, 1.5e-6))
        _finger_joint(first, f"{side}_{name}", 1.6)
        first.add_geom(
            type=capsule, fromto=(0, 0, 0, 0, 0, proximal), size=(0.009, 0, 0), material="shell", **PAD, **look
        )
        second = first.add_body(name=f"{side}_{name}_distal", pos=(0.0, 0.0, proximal))
        _inertia(second, 0.012, (0.0, 0.0, 0.5 * distal), (3e-6, 3e-6, 8e-7))
        _finger_joint(second, f"{side}_{name}_follower", 1.6)
        second.add_geom(
            type=capsule, fromto=(0, 0, 0, 0, 0, distal), size=(0.008, 0, 0), material="shell", **PAD, **look
        )
        _follow(spec, f"{side}_{name}_follower", f"{side}_{name}", COUPLING)
        _motor(spec, f"{side}_{name}", 1.2)
    # The thumb turns about the palm's length, from beside the palm to before it, where it stands off the palm and bends
    # up to the tips of the fingers.
    root = palm.add_body(name=f"{side}_thumb_root", pos=(-0.012, 0.042, 0.05))
    _inertia(root, 0.02, (0.0, 0.01, 0.01), (6e-6, 6e-6, 3e-6))
    _finger_joint(root, f"{side}_thumb_rotation", 1.9, axis=(0, 0, 1))
    root.add_geom(type=capsule, fromto=(0, 0, 0, 0.0, 0.018, 0.012), size=(0.011, 0, 0), material="dark", **look)
    thumb = root.add_body(name=f"{side}_thumb", pos=(0.0, 0.018, 0.012))
    _inertia(thumb, 0.025, (0.0, 0.03, 0.012), (1e-5, 2e-6, 1e-5))
    _finger_joint(thumb, f"{side}_thumb_flexion", 1.2, axis=(1, 0, 0))
    thumb.add_geom(type=capsule, fromto=(0, 0, 0, 0, 0.06, 0.02), size=(0.0095, 0, 0), material="shell", **PAD, **look)
    _motor(spec, f"{side}_thumb_flexion", 1.2)
    _motor(spec, f"{side}_thumb_rotation", 1.2)
    palm.add_site(name=f"{side}_hand_site", pos=(-0.03, 0.0, 0.14), size=(0.008, 0.008, 0.008), group=4)
    _camera(palm, side)


def _inertia(
    body: mujoco.MjsBody, mass: float, centre: tuple[float, float, float], moments: tuple[float, float, float]
) -> None:
    body.mass, body.ipos, body.inertia, body.explicitinertial = mass, centre, moments, True


def _finger_joint(
    body: mujoco.MjsBody, name: str, upper: float, axis: tuple[float, float, float] = (0.0, -1.0, 0.0)
) -> None:
    made = body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=axis, armature=1e-3, damping=0.03)
    made.range = (0.0, upper)


def _follow(spec: mujoco.MjSpec, follower: str, leader: str, ratio: float) -> None:
    made = spec.add_equality(
        type=mujoco.mjtEq.mjEQ_JOINT, objtype=mujoco.mjtObj.mjOBJ_JOINT, name1=follower, name2=leader
    )
    made.data[:5] = (0.0, ratio, 0.0, 0.0, 0.0)


def _motor(spec: mujoco.MjSpec, joint: str, effort: float) -> None:
    spec.add_actuator(
        name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT, ctrlrange=(-effort, effort)
    ).set_to_motor()


def _camera(palm: mujoco.MjsBody, side: str) -> None:
    """On the wrist, looking along the palm's z."""
    palm.add_camera(
        name=f"{side}_wrist",
        pos=(-0.06, 0.0, 0.02),
        quat=(0.0, 0.7071067811865476, -0.7071067811865476, 0.0),
        fovy=58.0,
    )
