"""The plant's messages, built once and refilled for every publication.

At 500 Hz building messages anew costs more than the physics; here a tick fills arrays in place.
Quaternions change from MuJoCo's wxyz to ROS's xyzw here and nowhere else.
"""

from __future__ import annotations

import array
from collections.abc import Callable

import mujoco
import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped, WrenchStamped
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from sim_core.plant import Command, MujocoPlant

__all__ = ["PlantMessages", "command_from_message", "seconds", "set_stamp", "to_stamp"]


def set_stamp(stamp: Time, t: float) -> None:
    """Write t [s] into a stamp; times are whole nanoseconds, so equal times give equal stamps."""
    stamp.sec, stamp.nanosec = divmod(round(t * 1e9), 1_000_000_000)


def to_stamp(t: float) -> Time:
    """A stamp of t [s]."""
    stamp = Time()
    set_stamp(stamp, t)
    return stamp


def seconds(stamp) -> float:
    """A stamp as [s]."""
    return stamp.sec + stamp.nanosec * 1e-9


def command_from_message(message) -> Command:
    """A refit_interfaces/JointCommand as the plant takes it; nothing is checked here."""
    return Command(message.mode, seconds(message.header.stamp), message.joint_names,
                   np.asarray(message.effort), np.asarray(message.position),
                   np.asarray(message.velocity), np.asarray(message.gain))


class PlantMessages:
    """Messages of one plant.

    Args:
        plant: it must already exist, for names and sizes.
        frame_prefix: put before every frame name, so that two robots can share /tf.
        now: time of the stamps [s], where it is not the plant's.
    """

    def __init__(self, plant: MujocoPlant, frame_prefix: str = "", now: Callable[[], float] | None = None):
        self._now = now or (lambda: plant.t)
        self.clock = Clock()
        self.joint_state = JointState(name=list(plant.joints))
        n = len(plant.joints)
        for field in ("position", "velocity", "effort"):
            setattr(self.joint_state, field, array.array("d", [0.0] * n))
        # Views on the very memory the message serialises.
        self._q, self._v, self._tau = (np.frombuffer(getattr(self.joint_state, field))
                                       for field in ("position", "velocity", "effort"))
        self.wrench = WrenchStamped()
        self.wrench.header.frame_id = frame_prefix + plant.wrench_site
        self._frames = _frames(plant.world.nominal)
        self.tf, self.tf_static = TFMessage(), TFMessage()
        for parent, child, kind, index, moving in self._frames:
            transform = TransformStamped(child_frame_id=frame_prefix + child)
            transform.header.frame_id = parent if parent == "world" else frame_prefix + parent
            (self.tf if moving else self.tf_static).transforms.append(transform)

    def fill_clock(self, plant: MujocoPlant) -> Clock:
        set_stamp(self.clock.clock, plant.t)
        return self.clock

    def fill_joint_state(self, plant: MujocoPlant) -> JointState:
        set_stamp(self.joint_state.header.stamp, self._now())
        self._q[:], self._v[:], self._tau[:] = plant.q, plant.v, plant.effort
        return self.joint_state

    def fill_wrench(self, plant: MujocoPlant) -> WrenchStamped:
        set_stamp(self.wrench.header.stamp, self._now())
        values = [float(x) for x in plant.wrench()]
        force, torque = self.wrench.wrench.force, self.wrench.wrench.torque
        force.x, force.y, force.z, torque.x, torque.y, torque.z = values
        return self.wrench

    def fill_tf(self, plant: MujocoPlant) -> tuple[TFMessage, TFMessage]:
        """(moving, static) transforms of the robot at the present true state."""
        model, world = plant.world.nominal, plant.world
        data = world.pose_of_nominal()
        moving, static = iter(self.tf.transforms), iter(self.tf_static.transforms)
        for parent, _, kind, index, moves in self._frames:
            transform = next(moving if moves else static)
            if moves:
                set_stamp(transform.header.stamp, self._now())
            parent_body = 0 if parent == "world" else model.body(parent).id
            p, q = _relative(data, parent_body, kind, index)
            t, r = transform.transform.translation, transform.transform.rotation
            t.x, t.y, t.z = (float(x) for x in p)
            r.w, r.x, r.y, r.z = (float(x) for x in q)
        return self.tf, self.tf_static


def _frames(model) -> list[tuple[str, str, str, int, bool]]:
    """(parent, child, "body"|"site", index, moving) of every named body and site of the robot."""
    frames, taken = [], set()
    for b in range(1, model.nbody):
        name, parent = model.body(b).name, model.body(int(model.body_parentid[b])).name
        if name and parent:
            frames.append((parent, name, "body", b, bool(model.body_jntnum[b])))
            taken.add(name)
    for s in range(model.nsite):
        name, parent = model.site(s).name, model.body(int(model.site_bodyid[s])).name
        # One MJCF name may serve a body and a site; TF needs each frame once.
        if name and parent and not name.startswith("refit/") and name not in taken:
            taken.add(name)
            frames.append((parent, name, "site", s, False))
    return frames


def _relative(data, parent: int, kind: str, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Pose of a body or site in a body: position and quaternion wxyz, from world poses."""
    if kind == "body":
        p_W, q_W = data.xpos[index], data.xquat[index]
    else:
        p_W, q_W = data.site_xpos[index], np.zeros(4)
        mujoco.mju_mat2Quat(q_W, data.site_xmat[index])
    inverse, p, q = np.zeros(4), np.zeros(3), np.zeros(4)
    mujoco.mju_negQuat(inverse, data.xquat[parent])
    mujoco.mju_rotVecQuat(p, p_W - data.xpos[parent], inverse)
    mujoco.mju_mulQuat(q, inverse, q_W)
    return p, q
