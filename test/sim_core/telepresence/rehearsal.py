"""An operator at the whole robot in MuJoCo, without ROS."""

import numpy as np
from scipy.spatial.transform import Rotation

from config.robot import load_robot
from sim_core.command import Command, Mode
from sim_core.plant import MujocoPlant
from sim_core.telepresence.avatar import Avatar
from sim_core.telepresence.clutch import OPENXR, Pose
from sim_core.telepresence.operator_sample import OperatorSample

ROBOT, DT, TICKS = "avatar", 0.008, 4
REST = np.array([0.0, -0.2, 1.0]), np.array([0.0, 0.2, 1.0])  # of the hands, in the robot's axes


class Rehearsal:
    """An operator at the robot in MuJoCo, cycle by cycle; poses are said in the robot's axes.

    Attributes:
        now: [s]. hands, turns: of both hands: places (3,) and turns as vectors (3,). clutch, trigger, stick: as in a sample.
    """

    def __init__(self, model, **plant):
        self.model, self.plant = model, MujocoPlant(ROBOT, tick=0.002, stop_state="hold", **plant)
        self.avatar = Avatar(load_robot(ROBOT), model)
        self._order = [self.plant.joints.index(name) for name in model.joint_names]
        self.avatar.start_at(self.q)
        self.hands, self.turns = [place.copy() for place in REST], [np.zeros(3), np.zeros(3)]
        self.clutch, self.trigger, self.stick = [False, False], [0.0, 0.0], [0.0, 0.0, 0.0]
        self.look, self.session, self.number = np.zeros(3), "one", 0
        self.ranges, self.denied = {}, ""
        self.glove = None
        self.push = None  # (body, force) of somebody who pushes

    q = property(lambda self: self.plant.q[self._order])
    v = property(lambda self: self.plant.v[self._order])
    effort = property(lambda self: self.plant.effort[self._order])
    now = property(lambda self: self.plant.t)

    def sample(self):
        C = OPENXR
        hands = tuple(
            Pose(C.T @ place, C.T @ Rotation.from_rotvec(turn).as_matrix() @ C)
            for place, turn in zip(self.hands, self.turns)
        )
        head = Pose(np.zeros(3), C.T @ Rotation.from_euler("ZYX", self.look).as_matrix() @ C)
        self.number += 1
        return OperatorSample(
            self.now,
            self.number,
            self.session,
            head,
            hands,
            tuple(self.clutch),
            tuple(self.trigger),
            tuple(self.stick),
            self.glove,
        )

    def run(self, seconds, heard=True, move=None):
        """`move(t)` sets what the operator does t [s] after the begin."""
        begin = self.now
        while self.now - begin < seconds - 1e-9:
            if move is not None:
                move(self.now - begin)
            motion = self.avatar.cycle(
                self.sample() if heard else None, self.q, self.v, self.ranges, self.now, self.denied, self.effort
            )
            n = len(motion.position)
            gain = np.hstack([np.diag(motion.kp), np.diag(motion.kd)])
            assert np.isfinite(motion.effort).all() and n == self.model.nv
            self.plant.command(
                Command(
                    Mode.FEEDBACK,
                    self.now,
                    self.model.joint_names,
                    motion.effort,
                    motion.position,
                    motion.velocity,
                    gain,
                )
            )
            for _ in range(TICKS):
                if self.push is not None:
                    body, force = self.push
                    self.plant.world.data.body(body).xfrc_applied[:3] = force
                self.plant.tick()
        return self

    def effector(self, side):
        arm, index = self.avatar.arms_with_joints()[("right", "left").index(side)]
        return arm.effector(self.q[index])
