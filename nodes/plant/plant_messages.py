"""The plant's messages, built once and refilled for every publication.

At 500 Hz building messages anew costs more than the physics; here a tick fills arrays in place.
Quaternions change from MuJoCo's wxyz to ROS's xyzw here and nowhere else.
"""

from __future__ import annotations

import array
from collections.abc import Callable

import numpy as np
from geometry_msgs.msg import WrenchStamped
from refit_interfaces.msg import FootContacts, RehearsalStatus, StethoscopeContact
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState, PointCloud2, Range
from tf2_msgs.msg import TFMessage

from nodes.frames.robot_frames import RobotFrames
from nodes.framework.clouds import cloud_message
from nodes.framework.messages import set_stamp, to_stamp
from nodes.plant.scenery_messages import scenery_message
from sim_core.motion.quadruped.gait import CONTACT_FORCE
from sim_core.plant import MujocoPlant

__all__ = ["PlantMessages"]


class PlantMessages:
    """Messages of one plant.

    Args:
        plant: it must already exist, for names and sizes.
        frame_prefix: put before every frame name, so that two robots can share /tf.
        now: time of the stamps [s], where it is not the plant's.
    """

    def __init__(self, plant: MujocoPlant, frame_prefix: str = "", now: Callable[[], float] | None = None) -> None:
        self._now = now or (lambda: plant.t)
        self.clock = Clock()
        self.joint_state = JointState(name=list(plant.joints))
        n = len(plant.joints)
        for field in ("position", "velocity", "effort"):
            setattr(self.joint_state, field, array.array("d", [0.0] * n))
        # Views on the very memory the message serialises.
        self._q, self._v, self._tau = (
            np.frombuffer(getattr(self.joint_state, field)) for field in ("position", "velocity", "effort")
        )
        self.wrench = WrenchStamped()
        self.wrench.header.frame_id = frame_prefix + plant.wrench_site
        self.imu = Imu()
        self.imu.header.frame_id = frame_prefix + "imu"
        self.foot_contacts = FootContacts(names=plant.feet)
        self.stethoscope = StethoscopeContact(side=plant.patient.side if plant.patient else "")
        self._ranges = {
            one.site: Range(
                radiation_type=Range.ULTRASOUND,
                field_of_view=one.field_of_view,
                min_range=one.minimum,
                max_range=one.maximum,
            )
            for one in plant.rangefinders.sites
        }
        for site, message in self._ranges.items():
            message.header.frame_id = frame_prefix + site
        self._world_frame = self.stethoscope.header.frame_id = frame_prefix + "world"
        self._frames = RobotFrames(plant.world.nominal, frame_prefix)

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

    def fill_imu(self, plant: MujocoPlant) -> Imu:
        set_stamp(self.imu.header.stamp, self._now())
        reading = plant.imu()
        q, w, a = self.imu.orientation, self.imu.angular_velocity, self.imu.linear_acceleration
        q.w, q.x, q.y, q.z = reading.quaternion.tolist()
        w.x, w.y, w.z = reading.angular_velocity.tolist()
        a.x, a.y, a.z = reading.linear_acceleration.tolist()
        return self.imu

    def fill_foot_contacts(self, plant: MujocoPlant) -> FootContacts:
        set_stamp(self.foot_contacts.header.stamp, self._now())
        forces = plant.foot_forces()
        self.foot_contacts.force = forces.tolist()
        self.foot_contacts.contact = (forces > CONTACT_FORCE).tolist()
        return self.foot_contacts

    def fill_stethoscope(self, plant: MujocoPlant) -> StethoscopeContact:
        contact, message = plant.patient.contact, self.stethoscope
        set_stamp(message.header.stamp, self._now())
        message.place = contact.place
        p, n = message.position, message.normal
        p.x, p.y, p.z = contact.position.tolist()
        n.x, n.y, n.z = contact.normal.tolist()
        message.depth, message.force, message.slip = contact.depth, contact.force, contact.slip
        return message

    def ranges(self, plant: MujocoPlant) -> list[Range]:
        """Readings that were made at the present tick, one message for each rangefinder."""
        made = [reading for reading in plant.ranges() if reading.stamp == plant.t]
        for reading in made:
            message = self._ranges[reading.site]
            set_stamp(message.header.stamp, self._now())
            message.range = reading.range
        return [self._ranges[reading.site] for reading in made]

    def scenery(self, plant: MujocoPlant) -> JointState:
        """Where a rehearsed task's things are."""
        made = scenery_message(plant.world.scenery_joints())
        set_stamp(made.header.stamp, self._now())
        return made

    def rehearsal(self, plant: MujocoPlant) -> RehearsalStatus:
        """How far the task is."""
        progress = plant.rehearsal.progress
        made = RehearsalStatus(task=plant.rehearsal.task.name, sentence=progress.sentence, progress=progress.share)
        made.done, made.failed, made.elapsed = progress.done, progress.failed, progress.elapsed
        set_stamp(made.header.stamp, self._now())
        return made

    def grains(self, plant: MujocoPlant) -> PointCloud2:
        """Every sphere of the grains, with its radius and colour."""
        spheres, colours = plant.tray.seen()
        return cloud_message(spheres[:, :3], to_stamp(self._now()), self._world_frame, colours, spheres[:, 3])

    def fill_tf(self, plant: MujocoPlant) -> tuple[TFMessage, TFMessage]:
        """(moving, static) transforms of the robot at the present true state."""
        return self._frames.fill(plant.world.pose_of_nominal(), to_stamp(self._now()))
