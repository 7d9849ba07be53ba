"""Messages made of plain fields."""

from types import SimpleNamespace

import numpy as np

__all__ = ["fields", "header", "parameter", "parameter_set", "vector"]


def fields(**values):
    return SimpleNamespace(**values)


def header(frame="world", sec=1):
    return fields(frame_id=frame, stamp=fields(sec=sec, nanosec=0))


def vector(x, y, z):
    return fields(x=x, y=y, z=z)


def parameter(name, value, half, unit="kg", free=True, excited=True):
    return fields(
        name=name, unit=unit, value=value, std=half / 2, lower=value - half, upper=value + half,
        free=free, excited=excited, at_bound=False,
    )  # fmt: skip


def parameter_set(revision, *parameters, accepted=True, message=""):
    return fields(
        header=header(), robot="panda", revision=revision, accepted=accepted, message=message, parameters=list(parameters),
        window_start=1.0, window_end=2.0, vector=np.zeros(3),
    )  # fmt: skip
