"""One recording that is asked of a microphone's node, which may refuse it, fail, fall silent, or not be there.

sound = SoundRequest(client, order.duration, order.file, patience=5.0)
sound.attend(recorded)                            # some times a second
sound.file, sound.why                             # one of them, as soon as it is known
sound.cancel()
"""

from __future__ import annotations

import time

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from refit_interfaces.action import RecordAudio

__all__ = ["SoundRequest"]


class SoundRequest:
    """See the module's docstring. It waits for nothing and blocks nobody.

    Args:
        client: of the action. name: of the action, in sentences.
        duration: of the recording [s]. file: of the recording.
        patience: [s] of wall time within which the microphone's node accepts; and of both clocks, the wall's and the robot's,
            within which the recording has come after its end.

    Attributes:
        file: of the recording, once it is there; "" before. why: there will be none; "" as long as that is not known.
    """

    def __init__(self, client: ActionClient, name: str, duration: float, file: str, patience: float) -> None:
        self._client, self._name = client, name
        self._goal = RecordAudio.Goal(duration=duration, file=file)
        self._duration, self._patience = duration, patience
        self._began = time.monotonic()
        self._sent = self._cancelled = False
        self._handle = None
        self.file = self.why = ""

    def attend(self, recorded: float) -> None:
        """Ask as soon as somebody is there, and wait no longer than one may.

        Args:
            recorded: [s] of the robot's time since the recording was asked for.
        """
        if self.file or self.why or self._cancelled:
            return
        waited = time.monotonic() - self._began
        if not self._sent and self._client.server_is_ready():
            self._sent = True
            self._client.send_goal_async(self._goal).add_done_callback(self._on_answer)
        elif self._handle is None and waited > self._patience:
            self._give_up(
                f"nobody answered on '{self._name}' within {self._patience:g} s: is the microphone's node running?"
            )
        elif min(recorded - self._duration, waited) > self._patience:
            self._give_up(f"the recording had not come {self._patience:g} s after its end")

    def cancel(self) -> None:
        """The recording is of no use any more."""
        if not self._cancelled:
            self._cancelled = True
            if self._handle is not None and not self.file and not self.why:
                self._handle.cancel_goal_async()

    def _give_up(self, why: str) -> None:
        self.cancel()
        self.why = why

    def _on_answer(self, future) -> None:
        handle = future.result()
        if handle is None or not handle.accepted:
            self.why = self.why or "the microphone's node refused to record, and says why in its log"
            return
        self._handle = handle
        if self._cancelled:
            handle.cancel_goal_async()
        else:
            handle.get_result_async().add_done_callback(self._on_result)

    def _on_result(self, future) -> None:
        answer = future.result()
        if self._cancelled:
            return
        if answer is None or answer.status == GoalStatus.STATUS_UNKNOWN:
            self.why = "the microphone's node has gone"
        elif answer.result.success and answer.status == GoalStatus.STATUS_SUCCEEDED:
            self.file = answer.result.file
        else:
            self.why = f"the microphone recorded nothing of use: {answer.result.message or 'it does not say why'}"
