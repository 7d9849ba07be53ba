"""Between the messages of a search for a sample and what `sim_core.scooping` computes with."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import PoseStamped
from refit_interfaces.action import CollectSample, ExecuteScoop
from refit_interfaces.msg import ScoopScores
from scipy.spatial.transform import Rotation

from nodes.framework.geometry_messages import point_message
from sim_core.scooping.arm.tray import Tray
from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.rendering import Picture
from sim_core.scooping.bed.swept import Field
from sim_core.scooping.planning.search import Search
from sim_core.telepresence.clutch import Pose

__all__ = ["actions_of", "goal_of", "pose_of", "result_of", "scores_of", "start_of"]

NAN = float("nan")


def pose_of(message: PoseStamped) -> Pose:
    """The pose that a message tells."""
    p, q = message.pose.position, message.pose.orientation
    return Pose(np.array([p.x, p.y, p.z]), Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix())


def start_of(place: np.ndarray, picture: Picture, tray: Tray) -> np.ndarray:
    """Where scoops that begin at places (n, 2) of the tray's frame meet its surface, (n, 3) in the world [m]."""
    surface = Field(picture.height.astype(float), picture.origin, picture.pitch)
    height = surface.at(place[:, 0], place[:, 1])
    return tray.to_world(np.column_stack([place, height]))


def goal_of(action: np.ndarray, picture: Picture, tray: Tray, frame: str) -> ExecuteScoop.Goal:
    """What the arm is asked for.

    Args:
        action: x, y in the tray's frame [m], yaw there [rad], depth [m], 1 for hard (5,).
    """
    turn = np.arctan2(tray.pose.rotation[1, 0], tray.pose.rotation[0, 0])
    goal = ExecuteScoop.Goal(
        point=point_message(start_of(action[None, :2], picture, tray)[0]),
        yaw=float(action[2] + turn),
        depth=float(action[3]),
        hard=bool(action[4] > 0.5),
    )
    goal.header.frame_id = frame
    return goal


def actions_of(numbers: np.ndarray, tray: Tray) -> Actions:
    """Actions in the tray's frame of five numbers each, in the base's.

    Raises:
        ValueError: the numbers are no whole actions, or not finite.
    """
    if len(numbers) % 5 or not len(numbers) or not np.isfinite(numbers).all():
        raise ValueError(
            f"actions: expected five finite numbers for each, found {len(numbers)} or numbers that are not finite"
        )
    rows = np.array(numbers, float).reshape(-1, 5)
    turn = np.arctan2(tray.pose.rotation[1, 0], tray.pose.rotation[0, 0])
    flat = tray.to_tray(np.column_stack([rows[:, :2], np.zeros(len(rows))]))
    return Actions.of(np.column_stack([flat[:, :2], rows[:, 2] - turn, rows[:, 3:]]))


def scores_of(search: Search, picture: Picture, tray: Tray, frame: str) -> ScoopScores:
    """What is believed of the best scoop at each place, and where scoops were made."""
    planner = search.planner
    mean, deviation = planner.belief_of_all()
    worth = np.where(planner.candidates.open, planner.worth(), -np.inf)
    place, which = np.unique(planner.actions.place, axis=0, return_inverse=True)
    order = np.lexsort((worth, which.ravel()))
    best = order[np.flatnonzero(np.diff(np.append(which.ravel()[order], len(place))))]
    known = np.isfinite(worth[best])
    message = ScoopScores(
        points=[point_message(point) for point in start_of(place, picture, tray)],
        score=np.where(known, worth[best], NAN).tolist(),
        mean=np.where(known, mean[best], NAN).tolist(),
        deviation=np.where(known, deviation[best], NAN).tolist(),
        volumes=[NAN if attempt.volume is None else attempt.volume for attempt in search.attempts],
    )
    if search.attempts:
        tried = np.array([attempt.action[:2] for attempt in search.attempts])
        message.tried = [point_message(point) for point in start_of(tried, picture, tray)]
    message.header.frame_id = frame
    return message


def result_of(search: Search | None, success: bool, message: str, checkpoint: str) -> CollectSample.Result:
    """What came of a search."""
    attempts = search.attempts if search is not None else []
    return CollectSample.Result(
        success=success,
        message=message,
        checkpoint=checkpoint,
        attempts=len(attempts),
        volumes=[NAN if attempt.volume is None else attempt.volume for attempt in attempts],
        means=[attempt.mean for attempt in attempts],
        deviations=[attempt.deviation for attempt in attempts],
    )
