"""A feedback law for all joints as a command."""

from __future__ import annotations

import numpy as np
from refit_interfaces.msg import JointCommand

from sim_core.telepresence.avatar import Motion

__all__ = ["command_of"]


def command_of(motion: Motion, joints: list[str], commander: str) -> JointCommand:
    """The law that the servos follow until the next command."""
    n = len(joints)
    gain = np.zeros((n, 2 * n))
    rows = np.arange(n)
    gain[rows, rows], gain[rows, n + rows] = motion.kp, motion.kd
    return JointCommand(
        mode=JointCommand.MODE_FEEDBACK,
        joint_names=joints,
        effort=motion.effort.tolist(),
        position=motion.position.tolist(),
        velocity=motion.velocity.tolist(),
        gain=gain.ravel().tolist(),
        commander=commander,
    )
