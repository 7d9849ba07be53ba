"""Between the messages of telepresence and what `sim_core.telepresence` computes with."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import Pose as PoseMessage
from refit_interfaces.msg import OperatorSample as SampleMessage
from refit_interfaces.msg import TeleopStatus
from scipy.spatial.transform import Rotation

from nodes.control.arm_messages import pose_message
from nodes.framework.joint_state_gate import seconds
from sim_core.telepresence.avatar import Avatar
from sim_core.telepresence.clutch import OPENXR, UNITY, Pose
from sim_core.telepresence.effector_wrench import CueLimits
from sim_core.telepresence.operator_sample import OperatorSample

__all__ = ["sample_of", "status_of"]

AXES = {SampleMessage.AXES_OPENXR: OPENXR, SampleMessage.AXES_UNITY: UNITY}
#: by which the norm of a quaternion may differ from one
UNIT = 1e-3


def sample_of(message: SampleMessage) -> OperatorSample:
    """The operator's sample.

    Raises:
        ValueError: a number, a quaternion or the axes are none; the sentence names them.
    """
    if message.axes not in AXES:
        raise ValueError(f"expected axes {' or '.join(map(str, AXES))}, found {message.axes}")
    hands = tuple(
        _pose(pose, f"{side} hand") if tracked else None
        for side, tracked, pose in zip(("right", "left"), message.hand_tracked, message.hands)
    )
    return OperatorSample(
        stamp=seconds(message.header.stamp),
        sequence=message.sequence,
        session=message.session,
        head=_pose(message.head, "head") if message.head_tracked else None,
        hands=(hands[0], hands[1]),
        clutch=(bool(message.clutch[0]), bool(message.clutch[1])),
        trigger=(float(message.trigger[0]), float(message.trigger[1])),
        stick=(float(message.stick[0]), float(message.stick[1]), float(message.stick[2])),
        glove=np.asarray(message.glove, float) if len(message.glove) else None,
        axes=AXES[message.axes],
    )


def _pose(message: PoseMessage, what: str) -> Pose:
    p, q = message.position, message.orientation
    quaternion = np.array([q.x, q.y, q.z, q.w])
    norm = float(np.linalg.norm(quaternion))
    if not abs(norm - 1.0) < UNIT:
        raise ValueError(f"expected a unit quaternion of the {what}, found the norm {norm:.3g}")
    return Pose(np.array([p.x, p.y, p.z]), Rotation.from_quat(quaternion).as_matrix())


def status_of(avatar: Avatar, q: np.ndarray, why: str, cues: CueLimits = CueLimits()) -> TeleopStatus:
    """What the operator is shown.

    Args:
        q: joint positions as measured (n,). why: what was last wrong with a sample; "" for nothing.
        cues: how strongly forces are shown.
    """
    session = avatar.session
    message = TeleopStatus(
        state=int(session.state), code=session.code, message=why or session.sentence, session=session.name
    )
    message.header.frame_id = "base"
    effectors, targets, modes, notes, clutched = [], [], [], [], []
    forces = [wrench.force for wrench in avatar.wrenches]
    for arm, index in avatar.arms_with_joints():
        effector = arm.effector(q[index])
        effectors.append(pose_message(effector))
        targets.append(pose_message(arm.target if arm.target is not None else effector))
        modes.append(arm.mode.value)
        notes.append(arm.message)
        clutched.append(arm.clutch.pressed)
    while len(modes) < 2:  # a robot of one arm
        effectors.append(PoseMessage())
        targets.append(PoseMessage())
        modes.append("absent")
        notes.append("")
        clutched.append(False)
        forces.append(float("nan"))
    message.force, message.cue = forces, [cues.cue(force) for force in forces]
    message.effectors, message.targets = effectors, targets
    message.arm_mode, message.arm_message, message.clutched = modes, notes, clutched
    message.precision = float(avatar.arms[0].clutch.sensitivity)
    if avatar.base is not None:
        message.base_velocity = [float(x) for x in avatar.base.velocity]
        if avatar.base.obstacle and not why:
            message.message = avatar.base.obstacle
    return message
