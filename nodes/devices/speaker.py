"""A loudspeaker: plays what a topic says, as the voice of who acts through the robot.

    speaker --ros-args -p device:=USB

Page: docs/nodes/speaker.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from audio_common_msgs.msg import AudioDataStamped, AudioInfo

from hardware.audio.sources import StreamFormat
from hardware.audio.speaker import Limiter, SpeakerDevice
from hardware.link import State
from nodes.devices.device_node import WARN, DeviceConfig, DeviceNode
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main
from nodes.framework.messages import seconds
from nodes.framework.qos import LATCHED
from nodes.framework.sound_messages import SOUND, samples_of, stream_format

__all__ = ["Speaker", "SpeakerConfig", "main"]

LOOK_PERIOD = 0.2  # [s] between two looks whether the loudspeaker is there


@dataclass(frozen=True)
class SpeakerConfig(DeviceConfig):
    """Parameters of `speaker`."""

    sound: str = setting(
        "operator/voice", description="what is played, by its topics audio_stamped and audio_info", read_only=True
    )
    device: str = setting("default", description="output: default, its number, or a part of its name", read_only=True)
    server: str = setting(
        "",
        description="PulseAudio server whose sinks count, unix:/path or host; empty: the machine's sound system",
        read_only=True,
    )
    sample_rate: int = setting(48000, "Hz", (8000, 96000), "that the sound has; another one is refused", read_only=True)
    channels: int = setting(1, "", (1, 2), "of the output; one is the mean of two", read_only=True)
    gain_db: float = setting(0.0, "dB", (-60.0, 30.0), "applied to every sample, within limit_dbfs", read_only=True)
    limit_dbfs: float = setting(-6.0, "dB", (-60.0, 0.0), "no sample is played louder than this", read_only=True)
    buffer: float = setting(0.08, "s", (0.0, 0.4), "sound that waits before it begins", read_only=True)
    age_limit: float = setting(
        0.5, "s", (0.1, 5.0), "sound older than this is not played, and as much waits at most", read_only=True
    )
    stale_timeout: float = setting(
        1.0, "s", (0.1, 60.0), "silence of the driver after which it is opened anew", read_only=True
    )

    def __post_init__(self):
        if self.buffer >= self.age_limit:
            raise ValueError(f"buffer is {self.buffer:g} s, but age_limit only {self.age_limit:g} s: let less wait")


class Speaker(DeviceNode):
    """See the module's docstring."""

    name = "speaker"
    Config = SpeakerConfig
    _listening: tuple[Any, ...] = ()
    _format: StreamFormat | None = None
    _timer: Any = None
    _refusal = ""

    def make_device(self) -> SpeakerDevice:
        c = self.config
        limiter = Limiter(c.gain_db, c.limit_dbfs)
        form = (c.sample_rate, c.channels, c.buffer, c.age_limit)
        return SpeakerDevice(c.device, c.server, *form, limiter, **self.link_options())

    def activate(self) -> None:
        super().activate()
        self._refusal = ""
        self._timer = self.create_timer(LOOK_PERIOD, self._attend, clock=self.steady_clock)

    def stop(self) -> None:
        super().stop()
        self.discard(*self._listening, *([] if self._timer is None else [self._timer]))
        self._listening, self._timer, self._format = (), None, None

    def _attend(self) -> None:
        """Listen while there is a loudspeaker, and only then: who speaks is told where nobody would hear it."""
        name, can_play = self.config.sound, self.device.state in (State.STREAMING, State.STALE)
        if can_play and not self._listening:
            self._listening = (
                self.create_subscription(AudioInfo, f"{name}/audio_info", self._on_info, LATCHED),
                self.create_subscription(AudioDataStamped, f"{name}/audio_stamped", self._on_sound, SOUND),
            )
        elif not can_play and self._listening:
            self.discard(*self._listening)
            self._listening, self._format = (), None

    # -- what is to be played ------------------------------------------------------------------------

    def _on_info(self, info: AudioInfo) -> None:
        wanted, self._format = self.config.sample_rate, None
        try:
            form = stream_format(info)
            if form.rate != wanted:
                raise ValueError(f"expected {wanted} samples a second, as sample_rate says, found {form.rate}")
        except ValueError as error:
            self._refuse(str(error))
        else:
            self._format = form

    def _on_sound(self, message: AudioDataStamped) -> None:
        if self._format is None:
            self._refuse(
                self._refusal or f"nothing usable on '{self.config.sound}/audio_info' says what it consists of"
            )
            return
        age = 1e-9 * self.get_clock().now().nanoseconds - seconds(message.header.stamp)
        if age > self.config.age_limit:
            self.diagnostics.tick("too_old")
            return
        try:
            samples = samples_of(message.audio.data, self._format)
        except ValueError as error:
            self._refuse(str(error))
            return
        self._refusal = ""
        self.diagnostics.tick("played")
        self.device.push(samples)

    def _refuse(self, why: str) -> None:
        self.diagnostics.tick("refused")
        if why != self._refusal:
            self.get_logger().warning(f"The sound of '{self.config.sound}' is not played: {why}.")
        self._refusal = why

    def judge(self) -> tuple[bytes, str] | None:
        if not self._refusal:
            return None
        return WARN, f"the sound of '{self.config.sound}' is not played: {self._refusal}"

    def diagnose_device(self) -> None:
        self.diagnostics.set("is_playing", self.device.is_playing)
        self.diagnostics.set("waiting_ms", 1e3 * self.device.waiting)


def main(args=None) -> int:
    """The console script."""
    return spin_main(Speaker, args)
