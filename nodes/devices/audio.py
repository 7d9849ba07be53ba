"""A microphone or electronic stethoscope: its sound as messages, and recordings of it.

    audio --ros-args -p device:=Thinklabs -r __node:=stethoscope
    audio --ros-args -p source:=synth

The interface is audio_capture's (audio_common). Page: docs/nodes/audio.md.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from audio_common_msgs.msg import AudioData, AudioDataStamped, AudioInfo

from hardware.audio.device import AudioDevice, Sound
from hardware.audio.pcm import FORMATS
from hardware.audio.sources import FileSource, PortAudioSource, Source, StreamFormat, SynthesisedSource
from hardware.audio.synthesiser import StethoscopeConfig
from nodes.devices.device_node import DeviceConfig, DeviceNode
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main
from nodes.framework.qos import LATCHED
from nodes.framework.sound_messages import SOUND, audio_info, stamped_audio
from nodes.framework.sound_recording import SoundRecording

__all__ = ["Audio", "AudioConfig", "main"]


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
    _recording: SoundRecording | None = None

    # -- device ------------------------------------------------------------------------------------
    def make_device(self) -> AudioDevice:
        config = self.config
        self._form = StreamFormat(config.sample_rate, config.channels, config.sample_format, config.chunk_ms)
        self._audio = self.publisher(AudioData, "~/audio", SOUND)
        self._stamped = self.publisher(AudioDataStamped, "~/audio_stamped", SOUND)
        self.publisher(AudioInfo, "~/audio_info", LATCHED).publish(audio_info(self._form))
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
        stamped = stamped_audio(sound.data, self.stamp(t), self.config.frame_id)
        self._stamped.publish(stamped)
        self._audio.publish(stamped.audio)
        if (recording := self._recording) is not None:
            recording.add(sound.data, sound.clipped, sound.gap, sound.overrun)

    def diagnose_device(self) -> None:
        level = self.device.level
        self.diagnostics.set("level_dbfs", level.rms_dbfs)
        self.diagnostics.set("clipping_ratio", level.clipping)
        file = self._recording.file if self._recording else None
        self.diagnostics.set("recording", str(file.path) if file else "")

    # -- lifecycle ---------------------------------------------------------------------------------
    def configure(self) -> None:
        super().configure()
        self._recording = SoundRecording(self, self._form, self.config.record_directory, time.monotonic)

    def stop(self) -> None:
        if self._recording is not None:
            self._recording.end("the node was deactivated")
        super().stop()
        self._tell_truth()

    def cleanup(self) -> None:
        if self._recording is not None:
            self._recording.destroy()
            self._recording = None
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


def main(args=None) -> int:
    """The console script."""
    return spin_main(Audio, args)
