"""The command gate: who may command, what a command may ask for, and what a joint may do."""

from sim_core.gate.command_gate import CommandGate, Lease
from sim_core.gate.motion_bound import JointLimits, MotionBound, power_limit

__all__ = ["CommandGate", "JointLimits", "Lease", "MotionBound", "power_limit"]
