"""The robot in a bag: its model, where it stood still, and the poses of its frames there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identification.errors import UnusableInput
from recording import BagReader
from sim_core.multibody import ModelError, RobotModel, load_model
from sim_core.multibody.model import build
from sim_core.perception.still_stretches import Rest, still_stretches

__all__ = ["RestingPoses", "frame_poses", "in_stretch", "resting_poses", "robot_model"]

SURROUNDINGS = 0.1  # [s] to either side: counts of an encoder average out, creeping is followed


def robot_model(reader: BagReader, robot: str | None) -> RobotModel:
    """The model of the bag, or the one named.

    Raises:
        UnusableInput: no such robot, or no usable description.
        BagError: the bag holds no description.
    """
    source = robot or reader.robot_description()
    try:
        return load_model(source)
    except ModelError as error:
        raise UnusableInput(
            f"--robot: {error}" if robot else f"robot_description in the bag is no usable model: {error}"
        ) from None


@dataclass(frozen=True)
class RestingPoses:
    """A robot that stood still now and then: stretches at rest, and joint positions q (T, n) at t (T,) [s]."""

    rests: list[Rest]
    t: np.ndarray
    q: np.ndarray

    def mean_q(self, rest: Rest, stamps: np.ndarray) -> np.ndarray:
        """Joint positions in a stretch at the times of some samples, each averaged over its surroundings; their mean, (n,)."""
        first = np.searchsorted(self.t, np.maximum(stamps - SURROUNDINGS, rest.begin))
        last = np.searchsorted(self.t, np.minimum(stamps + SURROUNDINGS, rest.end), side="right")
        return np.mean([self.q[a:b].mean(axis=0) for a, b in zip(first, last)], axis=0)


def resting_poses(reader: BagReader, model: RobotModel, speed: float, duration: float) -> RestingPoses:
    """Stretches of the bag in which the robot stood still.

    Args:
        speed: it is still while no joint is faster [rad/s or m/s]. duration: shortest stretch that counts [s].

    Raises:
        UnusableInput: there is none.
    """
    series = reader.joint_states(joints=model.joint_names)
    try:
        found = still_stretches(series.t, series.q, speed, duration)
    except ValueError as error:
        raise UnusableInput(f"joint_states in '{reader.path}': {error}") from None
    if not found:
        raise UnusableInput(
            f"the robot never stands still for {duration:g} s in the {np.ptp(series.t):.1f} s of '{reader.path}': "
            "record poses at rest, or raise --still-speed"
        )
    return RestingPoses(found, series.t, series.q)


def in_stretch(rest: Rest, t: np.ndarray, least: int) -> np.ndarray | None:
    """Indices of the samples t that fall into a stretch, None if fewer than `least`."""
    index = np.flatnonzero(rest.covers(t))
    return index if len(index) >= least else None


def frame_poses(model: RobotModel, frame: str, q: np.ndarray) -> np.ndarray:
    """Poses of a site or body in the world at joint positions q (n, nq), shape (n, 4, 4).

    Raises:
        UnusableInput: the model has no such frame.
    """
    try:
        function = build.frame_pose(model, frame)
    except KeyError as error:
        raise UnusableInput(str(error.args[0])) from None
    X = np.tile(np.eye(4), (len(q), 1, 1))
    for pose, at in zip(X, q):
        r, R = function(at, model.parameters.nominal)
        pose[:3, 3], pose[:3, :3] = np.array(r).ravel(), np.array(R)
    return X
