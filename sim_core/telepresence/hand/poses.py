"""What the robot's hand shows an operator, who imitates it: fifteen poses to calibrate a glove with.

The hand has six motors: one for each finger, which bends both of its joints, and two for the thumb. A pose is told as angles of
a hand that closes by `REACH`; of another hand, `for_hand` stretches them.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.5: fifteen poses that cover the workspace and grasps, of which
each counts for the fingers that matter in it. The thesis names two of them; the others are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["CALIBRATION_POSES", "FINGERS", "MOTORS", "MOTORS_OF", "REACH", "HandPose", "for_hand", "over_closed"]

FINGERS = ("index", "middle", "ring", "pinky", "thumb")
#: in the order of a task's `hand` (config/description.py)
MOTORS = ("index", "middle", "ring", "pinky", "thumb_flexion", "thumb_rotation")
#: finger -> places of its motors
MOTORS_OF = {"index": (0,), "middle": (1,), "ring": (2,), "pinky": (3,), "thumb": (4, 5)}
#: of the motor with which a finger presses
PRESSES_WITH = {"index": 0, "middle": 1, "ring": 2, "pinky": 3, "thumb": 4}
#: angles by which the hand closes for which the poses are told [rad]
REACH = np.array([1.6, 1.6, 1.6, 1.6, 1.2, 1.9])


@dataclass(frozen=True)
class HandPose:
    """One pose of the robot's hand.

    Attributes:
        name: as it stands in a calibration's file.
        prompt: what the operator is told.
        angles: of the motors (6,) [rad].
        counts: fingers that the operator has to imitate; what the others do is not learnt from.
        contact: fingers that touch something in it.
    """

    name: str
    prompt: str
    angles: tuple[float, ...]
    counts: tuple[str, ...] = FINGERS
    contact: tuple[str, ...] = ()


def for_hand(angles: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """A pose's angles (..., 6) for a hand whose motors close from `lower` to `upper` (6,) [rad]."""
    return lower + np.asarray(angles) / REACH * (upper - lower)


def over_closed(pose: HandPose, angle: float) -> np.ndarray:
    """The pose's angles (6,) [rad] with every finger that touches something closed by `angle` [rad] more.

    A glove cannot feel how firmly its wearer wants to hold: once his fingers touch, they stop. A robot that learnt poses like
    this one squeezes where he touches.

    Source: the thesis' biased targets, section 8.5; by how much it over-closes is not stated.
    """
    angles = np.array(pose.angles)
    angles[[PRESSES_WITH[finger] for finger in pose.contact]] += angle
    return angles


INDEX_THUMB, MIDDLE_THUMB = ("index", "thumb"), ("middle", "thumb")
CALIBRATION_POSES = (
    HandPose("open", "Open your hand, the thumb out to the side.", (0.05, 0.05, 0.05, 0.05, 0.05, 0.3)),
    HandPose("relaxed", "Let your hand hang half open.", (0.4, 0.45, 0.5, 0.55, 0.2, 0.9)),
    HandPose("hook", "Bend your fingers to a hook, the thumb beside the hand.", (0.8, 0.8, 0.8, 0.8, 0.3, 0.2)),
    HandPose("fist", "Make a fist, the thumb over the fingers.", (1.5, 1.5, 1.5, 1.5, 0.9, 1.85)),
    HandPose(
        "key", "Hold a key between thumb and bent index finger.", (1.3, 1.35, 1.4, 1.4, 0.7, 0.6), contact=("thumb",)
    ),
    HandPose("large power", "Grasp a bottle with all fingers.", (0.8, 0.8, 0.8, 0.8, 0.35, 1.6), contact=FINGERS),
    HandPose(
        "small power", "Grasp a broom stick with all fingers.", (1.15, 1.15, 1.15, 1.15, 0.65, 1.8), contact=FINGERS
    ),
    HandPose(
        "index pinch",
        "Touch your thumb with the index finger.",
        (1.06, 0.25, 0.25, 0.25, 0.45, 1.75),
        INDEX_THUMB,
        INDEX_THUMB,
    ),
    HandPose(
        "middle pinch",
        "Touch your thumb with the middle finger.",
        (0.25, 1.08, 0.25, 0.25, 0.45, 1.9),
        MIDDLE_THUMB,
        MIDDLE_THUMB,
    ),
    HandPose(
        "tripod",
        "Touch your thumb with index and middle finger.",
        (1.04, 1.06, 0.3, 0.3, 0.42, 1.85),
        ("index", "middle", "thumb"),
        ("index", "middle", "thumb"),
    ),
    HandPose(
        "disc", "Hold the lid of a jar with all finger tips.", (0.65, 0.65, 0.65, 0.65, 0.12, 1.8), contact=FINGERS
    ),
    HandPose("point", "Point with the index finger.", (0.05, 1.4, 1.4, 1.4, 0.8, 1.6)),
    HandPose("thumb up", "Hold the thumb up, the fingers bent.", (1.4, 1.4, 1.4, 1.4, 0.0, 0.1)),
    HandPose("thumb across", "Hold the fingers straight, the thumb across the palm.", (0.1, 0.1, 0.1, 0.1, 0.7, 1.8)),
    HandPose("scissors", "Stretch index and middle finger, bend the others.", (0.1, 0.1, 1.4, 1.4, 0.75, 1.7)),
)
