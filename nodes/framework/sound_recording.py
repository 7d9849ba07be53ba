"""The action `~/record` of a node that has sound: WAV files of what it hears.

recording = SoundRecording(node, form, config.record_directory, time.monotonic)   # configure
recording.add(data, clipped)                                                      # each chunk, from any thread
recording.end("the node was deactivated")                                         # stop
recording.destroy()                                                               # cleanup
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from refit_interfaces.action import RecordAudio

from hardware.audio.sources import StreamFormat
from hardware.audio.wav import WavRecording
from nodes.framework.long_action import LongAction

__all__ = ["SoundRecording"]

LONGEST_RECORDING = 3600.0  # [s]
PATIENCE = 5.0  # [s] that a recording waits for sound beyond its own length
FEEDBACK_PERIOD = 0.1  # [s]


class SoundRecording:
    """See the module's docstring. One recording at a time, and only while the node is active.

    Args:
        node: a RefitNode. form: of the sound. directory: where recordings without a path go.
        now: the time in which the sound comes [s], the wall's for a device, simulated time in simulation; None: not known yet.

    Attributes:
        file: that is being written, or None.
    """

    def __init__(self, node, form: StreamFormat, directory: str, now: Callable[[], float | None]) -> None:
        self._node, self._form, self._directory, self._now = node, form, directory, now
        self._lock, self._failure = threading.Lock(), ""
        self._goal, self._deadline = None, None
        self.file: WavRecording | None = None
        self._action = LongAction(
            node, RecordAudio, "~/record", self._begin, self._refusal, lambda _: self.end("cancelled", "canceled")
        )
        self._clerk = node.create_timer(FEEDBACK_PERIOD, self.attend, clock=node.steady_clock)

    def add(self, data: bytes, clipped: int, gap: int = 0, overrun: bool = False) -> None:
        """The next chunk, as `WavRecording.add` takes it; it is nobody's if nothing is being recorded."""
        with self._lock:
            if self.file is not None and not self.file.complete and not self._failure:
                try:
                    self.file.add(data, clipped, gap, overrun)
                except OSError as error:
                    self._failure = f"{self.file.path} cannot be written: {error.strerror or error}"

    def attend(self) -> None:
        """Feedback, and the end of a recording; the executor's thread alone."""
        file = self.file
        if self._goal is None or file is None:
            return
        # First: whoever is asked for the time may hear what has come by then, even that time has gone back.
        late = self._late()
        if self.file is not file:
            return
        self._goal.publish_feedback(RecordAudio.Feedback(elapsed=file.written / self._form.rate))
        if file.complete:
            self.end("", "succeed")
        elif self._failure:
            self.end(self._failure)
        elif late:
            self.end(f"sound stayed away: {file.written / self._form.rate:.2f} s came")

    def end(self, message: str, outcome: str = "abort") -> None:
        """Complete the file and give the goal its result; nothing if nothing is being recorded."""
        with self._lock:
            file, self.file = self.file, None
        if file is None:  # it had ended by itself
            return
        try:
            file.close()
        except OSError as error:
            message, outcome = f"{file.path} cannot be written: {error.strerror or error}", "abort"
        if file.overruns:
            lost = f"{file.overruns} overruns, {file.missing} samples missing and written as silence"
            message = f"{message}; {lost}" if message else lost
        self._finish(
            RecordAudio.Result(
                success=outcome == "succeed",
                message=message,
                file=str(file.path),
                samples=file.written,
                overruns=file.overruns,
                clipping_ratio=file.clipping,
            ),
            outcome,
        )

    def destroy(self) -> None:
        """Free server and timer."""
        self._action.destroy()
        self._node.destroy_timer(self._clerk)

    def _refusal(self, goal) -> str:
        if not self._node.is_active:
            return "the node is not active; activate it first"
        if self._goal is not None:
            return f"{self.file.path} is being recorded; wait for its end or cancel it"
        if not 0.0 < goal.duration <= LONGEST_RECORDING:
            return f"duration is {goal.duration:g} s; expected more than 0 and at most {LONGEST_RECORDING:g} s"
        return ""

    def _begin(self, handle) -> None:
        goal, form = handle.request, self._form
        path = Path(
            goal.file or Path(self._directory) / time.strftime("%Y%m%dT%H%M%SZ.wav", time.gmtime())
        ).expanduser()
        self._goal, self._failure, self._deadline = handle, "", None
        try:
            file = WavRecording(path, form.rate, form.channels, form.sample, round(goal.duration * form.rate))
        except OSError as error:
            self._finish(
                RecordAudio.Result(message=f"{path} cannot be written: {error.strerror or error}", file=str(path)),
                "abort",
            )
            return
        self._late()
        with self._lock:
            self.file = file

    def _late(self) -> bool:
        """Whether the sound should have come by now; the time for it begins as soon as a time is known."""
        now = self._now()
        if now is None or self._goal is None:
            return False
        if self._deadline is None:
            self._deadline = now + self._goal.request.duration + PATIENCE
        return now > self._deadline

    def _finish(self, result, outcome: str) -> None:
        goal, self._goal = self._goal, None
        self._action.finish(goal, result, outcome)
