"""Stamps and commands as messages say them: what the plant and the drivers share, free of MuJoCo."""

from __future__ import annotations

import importlib

import numpy as np
from builtin_interfaces.msg import Time
from refit_interfaces.msg import JointCommand

from sim_core.command import Command

__all__ = ["command_from_message", "message_class", "seconds", "set_stamp", "to_stamp"]


def set_stamp(stamp: Time, t: float) -> None:
    """Write t [s] into a stamp; times are whole nanoseconds, so equal times give equal stamps."""
    stamp.sec, stamp.nanosec = divmod(round(t * 1e9), 1_000_000_000)


def to_stamp(t: float) -> Time:
    """A stamp of t [s]."""
    stamp = Time()
    set_stamp(stamp, t)
    return stamp


def seconds(stamp: Time) -> float:
    """A stamp as [s]."""
    return stamp.sec + stamp.nanosec * 1e-9


def message_class(kind: str) -> type:
    """The Python class of "package/msg/Type".

    Raises:
        ImportError, AttributeError: there is none here.
    """
    package, _, name = kind.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)


def command_from_message(message: JointCommand) -> Command:
    """A refit_interfaces/JointCommand as plant and drivers take it; nothing is checked here."""
    return Command(
        message.mode,
        seconds(message.header.stamp),
        message.joint_names,
        np.asarray(message.effort),
        np.asarray(message.position),
        np.asarray(message.velocity),
        np.asarray(message.gain),
        message.commander,
    )
