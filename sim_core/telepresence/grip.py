"""A gripper that closes with the right trigger, and a hand that closes with the left one or with a glove.

grip = Grip(gripper, hand, lower, upper)
grip.follow(position, sample, most)                 # moves the fingers among the robot's joint positions
grip.retargeting = fit_hand(calibration, ...)        # how a glove leads the hand from now on
"""

from __future__ import annotations

import numpy as np

from sim_core.telepresence.fingers import Fingers
from sim_core.telepresence.hand.retargeting import NominalHand, Retargeting
from sim_core.telepresence.operator_sample import OperatorSample

__all__ = ["Grip"]


class Grip:
    """See the module's docstring.

    Args:
        gripper, hand: places of their joints among the robot's (1,), (6,); None where it has none.
        lower, upper: limits of the robot's joints (n,) [rad or m].

    Attributes:
        hand: places of its joints, or None.
        retargeting: from a glove to the hand; None where there is no hand.
        shown: angles of the hand's motors that it shows whoever leads it (6,) [rad]; None: it follows.
    """

    def __init__(
        self, gripper: np.ndarray | None, hand: np.ndarray | None, lower: np.ndarray, upper: np.ndarray
    ) -> None:
        self.hand = hand
        self._index = (gripper, hand)
        self._fingers = [None if index is None else Fingers(lower[index], upper[index]) for index in self._index]
        self.retargeting: Retargeting | None = None if hand is None else NominalHand(lower[hand], upper[hand])
        self.shown: np.ndarray | None = None
        self._led: tuple[OperatorSample, Retargeting, np.ndarray] | None = None

    @property
    def hand_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the hand's motors (6,), (6,) [rad].

        Raises:
            ValueError: there is no hand.
        """
        fingers = self._fingers[1]
        if fingers is None:
            raise ValueError("expected a robot with a hand, found one without")
        return fingers.lower, fingers.upper

    def forget(self) -> None:
        """Whoever leads the fingers has to be where they are before they follow."""
        for fingers in self._fingers:
            if fingers is not None:
                fingers.forget()

    def follow(self, position: np.ndarray, heard: OperatorSample | None, most: float) -> None:
        """Fingers go on. Who lets go of the link keeps what he holds, also when he comes back.

        Args:
            position: where the robot's joints are told to be (n,) [rad or m]; changed in place.
            heard: what the operator does; None: nobody is there.
            most: share of its way that a finger may go.
        """
        if heard is None:
            self.forget()
            return
        for k, (index, fingers) in enumerate(zip(self._index, self._fingers)):
            if index is None or fingers is None:
                continue
            at, is_hand = position[index], k == 1
            if is_hand and self.shown is not None:
                position[index] = fingers.show(at, self.shown, most)
            elif is_hand and self.retargeting is not None and heard.glove is not None:
                goal = self._goal(heard, self.retargeting, heard.glove)
                position[index] = fingers.follow(at, goal, together=False, most=most)
            else:
                goal = fingers.lower + heard.trigger[k] * (fingers.upper - fingers.lower)
                position[index] = fingers.follow(at, goal, together=True, most=most)

    def _goal(self, heard: OperatorSample, retargeting: Retargeting, glove: np.ndarray) -> np.ndarray:
        """What a glove asks of the hand (6,) [rad], computed once for a sample and a retargeting."""
        if self._led is None or self._led[0] is not heard or self._led[1] is not retargeting:
            self._led = heard, retargeting, retargeting(np.asarray(glove, float))
        return self._led[2]
