"""A microphone or electronic stethoscope: its sound as messages, and recordings of it.

    audio --ros-args -p device:=Thinklabs -r __node:=stethoscope
    audio --ros-args -p source:=synth

The interface is audio_capture's (audio_common). Page: docs/nodes/audio.md.
"""

from __future__ import annotations

import json
import threading
import time
from array import array
from dataclasses import dataclass
from pathlib import Path

from audio_common_msgs.msg import AudioData, AudioDataStamped, AudioInfo
from rclpy.qos import QoSProfile
from refit_interfaces.action import RecordAudio

from hardware.audio.device import AudioDevice, Sound
from hardware.audio.pcm import FORMATS
from hardware.audio.sources import FileSource, PortAudioSource, Source, StreamFormat, SynthesisedSource
from hardware.audio.synthesiser import StethoscopeConfig
from hardware.audio.wav import WavRecording
from nodes.devices.device_node import DeviceConfig, DeviceNode
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main
from nodes.framework.long_action import LongAction
from nodes.framework.qos import LATCHED

__all__ = ["Audio", "AudioConfig", "main"]

# 0.4 s of chunks of 20 ms for a reader that is held up; reliable, since a lost chunk is a click.
SOUND = QoSProfile(depth=20)
LONGEST_RECORDING = 3600.0  # [s]
PATIENCE = 5.0  # [s] that a recording waits for sound beyond its own length
FEEDBACK_PERIOD = 0.1  # [s]


@dataclass(frozen=True)
class AudioConfig(DeviceConfig):
    """Parameters of `audio`."""

    device: str = setting("default", description="input: default, its number, or a part of its name", read_only=True)
    server: str = setting(
        "",
        description="PulseAudio server whose sources count, unix:/path or host; empty: the machine's sound system",
        read_only=True,
    )
    sample_rate: int = setting(44100, "Hz", (8000, 96000), "samples per second", read_only=True)
    channels: int = setting(1, "", (1, 32), "channels, interleaved", read_only=True)
    sample_format: str = setting("S16LE", description="how a sample is stored", choices=FORMATS, read_only=True)
    chunk_ms: int = setting(20, "ms", (5, 200), "sound per message", read_only=True)
    gain_db: float = setting(0.0, "dB", (-60.0, 60.0), "applied to every sample", read_only=True)
    source: str = setting(
        "device", description="where the sound comes from", choices=("device", "file", "synth"), read_only=True
    )
    stale_timeout: float = setting(
        0.5, "s", (0.1, 60.0), "silence of the driver after which it is opened anew", read_only=True
    )
    floor_dbfs: float = setting(
        -80.0, "dB", (-200.0, 0.0), "level below which a microphone counts as dead, before the gain", read_only=True
    )
    frame_id: str = setting("microphone", description="frame in the headers", read_only=True)
    record_directory: str = setting("runs/audio", description="where recordings without a path go", read_only=True)
    file: str = setting("", description="WAV file of source file", read_only=True)
    file_loop: bool = setting(
        True, description="begin anew at its end; else silence follows", name="file.loop", read_only=True
    )
    synth_seed: int = setting(0, "", (0, 2**31 - 1), "of source synth", name="synth.seed", read_only=True)
    synth_heart_rate: float = setting(
        72.0, "1/min", (30.0, 150.0), "of source synth", name="synth.heart_rate", read_only=True
    )
    synth_heart_gain: float = setting(
        1.0, "", (0.0, 3.0), "loudness of the heart at the place listened to", name="synth.heart_gain", read_only=True
    )
    synth_lung_gain: float = setting(
        1.0, "", (0.0, 10.0), "loudness of the breath there", name="synth.lung_gain", read_only=True
    )
    synth_truth: str = setting(
        "",
        description="JSON file for the truth about the synthesised sound, written at deactivation",
        name="synth.truth",
        read_only=True,
    )

    def __post_init__(self):
        if self.source == "file" and not self.file:
            raise ValueError("source is 'file', but no 'file' is given: set it to a WAV file")


class Audio(DeviceNode):
    """See the module's docstring."""

    name = "audio"
    Config = AudioConfig
    _recording: WavRecording | None = None
    _goal = None
    _action: LongAction | None = None

    # -- device ------------------------------------------------------------------------------------
    def make_device(self) -> AudioDevice:
        config = self.config
        self._form = StreamFormat(config.sample_rate, config.channels, config.sample_format, config.chunk_ms)
        self._audio = self.publisher(AudioData, "~/audio", SOUND)
        self._stamped = self.publisher(AudioDataStamped, "~/audio_stamped", SOUND)
        bits = 8 * self._form.frame_bytes
        self.publisher(AudioInfo, "~/audio_info", LATCHED).publish(
            AudioInfo(
                channels=config.channels,
                sample_rate=config.sample_rate,
                sample_format=config.sample_format,
                bitrate=round(bits * config.sample_rate / 1000),
                coding_format="wave",
            )
        )
        return AudioDevice(self._make_source(), config.gain_db, config.floor_dbfs, **self.link_options())

    def _make_source(self) -> Source:
        config = self.config
        if config.source == "device":
            return PortAudioSource(self._form, config.device, config.server)
        if config.source == "file":
            return FileSource(self._form, Path(config.file).expanduser(), config.file_loop)
        return SynthesisedSource(
            self._form,
            StethoscopeConfig(
                heart_rate=config.synth_heart_rate, heart_gain=config.synth_heart_gain, lung_gain=config.synth_lung_gain
            ),
            config.synth_seed,
        )

    @property
    def expected_rate(self) -> float:
        config = self.config
        return (
            1.0 / StreamFormat(config.sample_rate, config.channels, config.sample_format, config.chunk_ms).chunk_seconds
        )

    def on_sample(self, sound: Sound, t: float) -> None:
        audio = AudioData()
        audio.data = array("B", sound.data)
        stamped = AudioDataStamped(audio=audio)
        stamped.header.stamp, stamped.header.frame_id = self.stamp(t), self.config.frame_id
        self._stamped.publish(stamped)
        self._audio.publish(audio)
        with self._lock:
            if self._recording is not None and not self._recording.complete and not self._failure:
                try:
                    self._recording.add(sound.data, sound.clipped, sound.gap, sound.overrun)
                except OSError as error:
                    self._failure = f"{self._recording.path} cannot be written: {error.strerror or error}"

    def diagnose_device(self) -> None:
        level = self.device.level
        self.diagnostics.set("level_dbfs", level.rms_dbfs)
        self.diagnostics.set("clipping_ratio", level.clipping)
        self.diagnostics.set("recording", str(self._recording.path) if self._recording else "")

    # -- lifecycle ---------------------------------------------------------------------------------
    def configure(self) -> None:
        self._lock, self._failure = threading.Lock(), ""
        super().configure()
        self._action = LongAction(
            self, RecordAudio, "~/record", self._begin, self._refusal, lambda _: self._end("cancelled", "canceled")
        )
        self._clerk = self.create_timer(FEEDBACK_PERIOD, self._attend, clock=self.steady_clock)

    def stop(self) -> None:
        if self._goal is not None:
            self._end("the node was deactivated", "abort")
        super().stop()
        self._tell_truth()

    def cleanup(self) -> None:
        if self._action is not None:
            self._action.destroy()
            self.destroy_timer(self._clerk)
            self._action = None
        super().cleanup()

    def _tell_truth(self) -> None:
        """Write what was synthesised, if it is wanted."""
        source = getattr(self.device, "source", None)
        if self.config.synth_truth and isinstance(source, SynthesisedSource) and source.stethoscope is not None:
            path = Path(self.config.synth_truth).expanduser()
            path.parent.mkdir(parents=True, exist_ok=True)
            first = self.stamp(source.began)
            path.write_text(
                json.dumps(
                    {
                        **source.stethoscope.truth(),
                        "first_sample": first.sec + 1e-9 * first.nanosec,
                        "events": [
                            {"t": event.t, "kind": event.kind, "duration": event.duration}
                            for event in source.stethoscope.events
                        ],
                    },
                    indent=1,
                )
                + "\n"
            )

    # -- recording ---------------------------------------------------------------------------------
    def _refusal(self, goal) -> str:
        if not self.is_active:
            return "the node is not active; activate it first"
        if self._goal is not None:
            return f"{self._recording.path} is being recorded; wait for its end or cancel it"
        if not 0.0 < goal.duration <= LONGEST_RECORDING:
            return f"duration is {goal.duration:g} s; expected more than 0 and at most {LONGEST_RECORDING:g} s"
        return ""

    def _begin(self, handle) -> None:
        goal, form = handle.request, self._form
        path = Path(
            goal.file or Path(self.config.record_directory) / time.strftime("%Y%m%dT%H%M%SZ.wav", time.gmtime())
        ).expanduser()
        self._goal, self._failure = handle, ""
        self._deadline = time.monotonic() + goal.duration + PATIENCE
        try:
            recording = WavRecording(path, form.rate, form.channels, form.sample, round(goal.duration * form.rate))
        except OSError as error:
            self._finish(
                RecordAudio.Result(message=f"{path} cannot be written: {error.strerror or error}", file=str(path)),
                "abort",
            )
            return
        with self._lock:
            self._recording = recording

    def _attend(self) -> None:
        """Feedback, and the end of a recording."""
        recording = self._recording
        if self._goal is None or recording is None:
            return
        self._goal.publish_feedback(RecordAudio.Feedback(elapsed=recording.written / self._form.rate))
        if recording.complete:
            self._end("", "succeed")
        elif self._failure:
            self._end(self._failure, "abort")
        elif time.monotonic() > self._deadline:
            self._end(f"sound stayed away: {recording.written / self._form.rate:.2f} s came", "abort")

    def _end(self, message: str, outcome: str) -> None:
        """Complete the file and give the goal its result."""
        with self._lock:
            recording, self._recording = self._recording, None
        if recording is None:  # it had ended by itself
            return
        try:
            recording.close()
        except OSError as error:
            message, outcome = f"{recording.path} cannot be written: {error.strerror or error}", "abort"
        if recording.overruns:
            lost = f"{recording.overruns} overruns, {recording.missing} samples missing and written as silence"
            message = f"{message}; {lost}" if message else lost
        self._finish(
            RecordAudio.Result(
                success=outcome == "succeed",
                message=message,
                file=str(recording.path),
                samples=recording.written,
                overruns=recording.overruns,
                clipping_ratio=recording.clipping,
            ),
            outcome,
        )

    def _finish(self, result, outcome: str) -> None:
        goal, self._goal = self._goal, None
        self._action.finish(goal, result, outcome)


def main(args=None) -> int:
    """The console script."""
    return spin_main(Audio, args)
