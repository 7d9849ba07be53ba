"""The action `calibrate_glove` of the node teleop: fifteen poses, a file, and a hand that follows the glove from then on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
from refit_interfaces.action import CalibrateGlove

from nodes.framework.long_action import LongAction
from sim_core.telepresence.grip import Grip
from sim_core.telepresence.hand.calibration import GloveCalibration
from sim_core.telepresence.hand.poses import CALIBRATION_POSES, for_hand
from sim_core.telepresence.hand.procedure import GloveProcedure
from sim_core.telepresence.hand.retargeting import Retargeting
from sim_core.telepresence.operator_sample import OperatorSample

__all__ = ["GloveCalibrationAction"]

#: [s] since the glove was last heard, after which nobody wears it; wall-clock time without a cycle, after which a goal ends
WORN, STALLED = 1.0, 5.0
#: [s] between two feedbacks of one pose
TOLD_EVERY = 0.5


class GloveCalibrationAction:
    """One goal at a time; it advances with the cycles of the node.

    Args:
        node: with `is_active`, `config.glove_calibration` and diagnostics.
        grip: of the avatar, which shows the poses and gets the retargeting.
        unready: why nothing may be begun now, or "".
        fit: a calibration as a retargeting; it may take a second, and is called in a thread of its own.
    """

    def __init__(
        self, node, grip: Grip, unready: Callable[[], str], fit: Callable[[GloveCalibration], Retargeting]
    ) -> None:
        self._node, self._grip, self._unready, self._fit = node, grip, unready, fit
        self._goal = self._procedure = None
        self._fitting: threading.Thread | None = None
        self._fitted: Retargeting | Exception | None = None
        self._worn = -np.inf
        self._now = self._began = self._told = 0.0
        self._cycle = time.monotonic()
        self._action = LongAction(node, CalibrateGlove, "calibrate_glove", self._begin, self._refusal, self._cancel)

    def destroy(self) -> None:
        """End a goal that there is, and free the server."""
        self.end("The node teleop ends.")
        self._action.destroy()

    def hear(self, sample: OperatorSample | None, now: float) -> None:
        """What came in this cycle.

        Args:
            sample: that has passed its gate since the last cycle, or None. now: [s].
        """
        glove = None if sample is None else sample.glove
        if now < self._now:
            self._worn = -np.inf
        self._now, self._cycle = now, time.monotonic()
        if glove is not None:
            self._worn = now
        procedure = self._procedure
        if self._goal is None or procedure is None:
            return
        if self._fitting is not None:
            self._complete()
            return
        number = procedure.number
        procedure.hear(glove, now)
        if procedure.failure:
            self._finish(False, procedure.failure, "abort")
        elif procedure.calibration is not None:
            self._grip.shown = None
            self._fitting = threading.Thread(target=self._learn, args=(procedure.calibration,), daemon=True)
            self._fitting.start()
        elif procedure.number != number or now - self._told >= TOLD_EVERY:
            self._tell()

    def attend(self) -> None:
        """On the wall clock: a goal whose cycles ceased ends."""
        if self._goal is not None and time.monotonic() - self._cycle > STALLED:
            self.end("The robot's joint states ceased.")

    def end(self, why: str) -> None:
        """End a goal that there is, for this reason."""
        if self._goal is not None:
            self._finish(False, why, "abort")

    # -- the goal ----------------------------------------------------------------------------------

    def _refusal(self, goal: CalibrateGlove.Goal) -> str:
        why = self._unready()
        if why:
            return why
        if self._goal is not None:
            return "another calibration is running"
        if self._grip.hand is None:
            return "the robot has no hand that a glove could lead"
        if self._now - self._worn > WORN:
            return "nobody wears a glove: no sample of the last second has its angles"
        if not self._path(goal):
            return "expected a file to write, found none in the goal nor in the parameter glove_calibration"
        return ""

    def _path(self, goal: CalibrateGlove.Goal) -> str:
        return goal.file or self._node.config.glove_calibration

    def _begin(self, handle) -> None:
        made = datetime.now().astimezone().isoformat(timespec="seconds")
        self._goal, self._began, self._fitting, self._fitted = handle, self._now, None, None
        self._procedure = GloveProcedure(handle.request.wearer or "somebody", self._now, made)
        self._tell()

    def _cancel(self, handle) -> None:
        if self._goal is not None:
            self._finish(False, "The calibration was cancelled.", "canceled")

    def _tell(self) -> None:
        """The pose that is shown now, to the operator and by the hand."""
        procedure, self._told = self._procedure, self._now
        self._grip.shown = for_hand(np.array(procedure.pose.angles), *self._grip.hand_limits)
        self._goal.publish_feedback(
            CalibrateGlove.Feedback(
                pose=procedure.number + 1,
                poses=len(CALIBRATION_POSES),
                prompt=procedure.prompt,
                elapsed=self._now - self._began,
            )
        )

    def _learn(self, calibration: GloveCalibration) -> None:
        """In a thread of its own: the robot is led on meanwhile."""
        try:
            self._fitted = self._fit(calibration)
        except (ValueError, np.linalg.LinAlgError) as error:
            self._fitted = error

    def _complete(self) -> None:
        fitted, calibration = self._fitted, self._procedure.calibration
        if fitted is None:
            return
        if isinstance(fitted, Exception):
            self._finish(False, f"Nothing can be learnt from the glove: {fitted}.", "abort")
            return
        self._grip.retargeting = fitted
        self._grip.forget()
        path = Path(self._path(self._goal.request)).expanduser()
        try:
            calibration.save(path)
        except OSError as error:
            why = error.strerror or error
            self._finish(False, f"The glove leads the hand, but {path} cannot be written: {why}.", "abort")
            return
        self._finish(True, f"The glove of {calibration.operator} leads the hand.", "succeed")

    def _finish(self, success: bool, message: str, outcome: str) -> None:
        goal, self._goal, self._procedure, self._fitting = self._goal, None, None, None
        self._grip.shown = None
        path = str(Path(self._path(goal.request)).expanduser()) if success else ""
        result = CalibrateGlove.Result(
            success=success, message=message, file=path, elapsed=max(0.0, self._now - self._began)
        )
        self._action.finish(goal, result, outcome)
