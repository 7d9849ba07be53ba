"""A simulated stethoscope: what is heard where it touches a simulated person, with the interface of the node `audio`.

    sim_stethoscope --ros-args -r __node:=stethoscope -p use_sim_time:=true -p patient:=3
    ros2 action send_goal /stethoscope/record refit_interfaces/action/RecordAudio '{duration: 10.0}'
    ros2 param set /stethoscope fault silent

All of it happens in simulated time. The sound is `sim_core/auscultation`. Page: docs/nodes/sim_stethoscope.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from audio_common_msgs.msg import AudioData, AudioDataStamped, AudioInfo
from diagnostic_msgs.msg import DiagnosticStatus
from refit_interfaces.msg import StethoscopeContact
from rosgraph_msgs.msg import Clock

from hardware.audio.device import CLIPPING_LIMIT, QUIET_LIMIT
from hardware.audio.pcm import LevelMeter, clipped, from_float
from hardware.audio.sources import StreamFormat
from nodes.framework.config import setting
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.messages import seconds, to_stamp
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import CLOCK, LATCHED, STATE
from nodes.framework.sound_messages import SOUND, audio_info, stamped_audio
from nodes.framework.sound_recording import SoundRecording
from sim_core.auscultation.acoustic_field import AcousticField
from sim_core.auscultation.contact_sound import Chunk, ContactSound, Touch
from sim_core.auscultation.microphone_faults import FAULTS, dropped, faulty
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.auscultation.sound_stream import SoundStream
from sim_core.auscultation.stethoscope_contact import ContactConditions

__all__ = ["SimStethoscope", "SimStethoscopeConfig", "main"]

OK, WARN, ERROR, STALE = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR, DiagnosticStatus.STALE
TURN = 0.05  # [s] of wall time between two looks for what has arrived
AWAY = 1.0  # [s] of wall time without contact messages, while simulated time runs, that the diagnostics tell


@dataclass(frozen=True)
class SimStethoscopeConfig:
    """Parameters of `sim_stethoscope`."""

    patient: int = setting(-1, "", (-1, 2**31 - 1), "number of the simulated person; -1: nobody", read_only=True)
    patient_side: str = setting(
        "front", choices=("front", "back"), description="of the person that is up", read_only=True
    )
    sample_rate: int = setting(44100, "Hz", (8000, 96000), "samples per second", read_only=True)
    chunk_ms: int = setting(100, "ms", (10, 200), "sound per message, simulated time", read_only=True)
    gain_db: float = setting(0.0, "dB", (-60.0, 60.0), "of the microphone before it clips", read_only=True)
    room_noise: float = setting(
        0.034, "", (0.0, 1.0), "RMS of the room at an open membrane, of full scale", read_only=True
    )
    electronics: float = setting(
        5e-4, "", (0.0, 1.0), "RMS of the converter's own noise, of full scale", read_only=True
    )
    hum: float = setting(1e-3, "", (0.0, 1.0), "RMS of the motors' hum, of full scale", read_only=True)
    hum_frequency: float = setting(130.0, "Hz", (10.0, 1000.0), "of its lowest tone", read_only=True)
    bump_rate: float = setting(0.02, "1/s", (0.0, 100.0), "of bumps against the stethoscope", read_only=True)
    floor_dbfs: float = setting(
        -80.0, "dB", (-200.0, 0.0), "level below which a microphone counts as dead", read_only=True
    )
    frame_id: str = setting("membrane", description="frame in the headers", read_only=True)
    record_directory: str = setting("runs/audio", description="where recordings without a path go", read_only=True)
    patience: float = setting(
        20.0, "s", (0.5, 600.0), "without contact messages after which a recording ends, wall time", read_only=True
    )
    seed: int = setting(0, "", (0, 2**31 - 1), "of rhythm and noise", read_only=True)
    fault: str = setting("", choices=FAULTS, description="of the microphone; empty: none")

    def field(self) -> AcousticField:
        """What is heard at each place."""
        if self.patient < 0:
            return AcousticField(loudness={"heart": 0.0, "lung": 0.0})
        return SimulatedPatient(self.patient).field["back" if self.patient_side == "back" else "front"]

    def conditions(self) -> ContactConditions:
        """What is heard beside the body."""
        return ContactConditions(
            room=self.room_noise,
            electronics=self.electronics,
            hum=self.hum,
            hum_frequency=self.hum_frequency,
            bump_rate=self.bump_rate,
            gain=10.0 ** (self.gain_db / 20.0),
        )


class SimStethoscope(RefitNode):
    """See the module's docstring."""

    name = "sim_stethoscope"
    Config = SimStethoscopeConfig
    live_parameters = True
    _recording: SoundRecording | None = None
    _made: tuple = ()
    _level = STALE

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        field, conditions = config.field(), config.conditions()
        self._form = StreamFormat(config.sample_rate, 1, "S16LE", config.chunk_ms)
        self._sound = ContactSound(
            lambda: SoundStream(field, conditions, config.sample_rate, config.seed),
            config.sample_rate,
            self._form.frames,
        )
        self._audio = self.create_publisher(AudioData, "~/audio", SOUND)
        self._stamped = self.create_publisher(AudioDataStamped, "~/audio_stamped", SOUND)
        self._info = self.create_publisher(AudioInfo, "~/audio_info", LATCHED)
        self._info.publish(audio_info(self._form))
        self._contact_reader = create_polled_subscription(self, StethoscopeContact, "sim_plant/stethoscope", STATE)
        self._clock_reader = create_polled_subscription(self, Clock, "/clock", CLOCK)
        self._turning = self.create_timer(TURN, self._turn, clock=self.steady_clock)
        self._recording = SoundRecording(self, self._form, config.record_directory, self._heard_until)
        self._made = (self._audio, self._stamped, self._info, self._contact_reader, self._clock_reader, self._turning)
        self._overruns = self._lost_samples = 0
        self._begin()

    def activate(self) -> None:
        take(self._contact_reader)
        self._begin()

    def stop(self) -> None:
        if self._recording is not None:
            self._recording.end("the node was deactivated")

    def cleanup(self) -> None:
        if self._recording is not None:
            self._recording.destroy()
        for made in self._made:
            for destroy in (self.destroy_publisher, self.destroy_subscription, self.destroy_timer):
                if destroy(made):
                    break
        self._recording, self._made = None, ()

    def time_jumped_back(self) -> None:
        if self._recording is not None:
            take(self._contact_reader)  # they are of the time that is over
            self._end_of_time()

    # -- sound -------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Nothing was heard yet."""
        self._sound.forget()
        self._meter = LevelMeter(self.config.floor_dbfs)
        self._dead_noise = np.random.default_rng([self.config.seed, 8])
        self._missed = 0  # samples since the last chunk
        self._wrong = ""  # why contacts are not heard
        self._told = (
            time.monotonic()
        )  # wall time of the newest contact that was heard, or at which simulated time stood still
        self._standing = False
        self._clock_time: float | None = None

    def _end_of_time(self) -> None:
        file = self._recording.file
        if file is not None:
            self._recording.end(f"simulated time went back after {file.written / self._form.rate:.2f} s of sound")
        self._begin()

    def _turn(self) -> None:
        """Some times a second: what has arrived becomes sound, and whoever waits for it is told."""
        if self.is_active:
            self._hear_contacts()
            self._look_at_clock()
            waited, file = time.monotonic() - self._told, self._recording.file
            if file is not None and file.complete:
                self._recording.attend()
            elif file is not None and waited > self.config.patience:
                why = self._wrong or f"no contact on '{self._contact_reader.topic_name}' for {waited:.0f} s"
                self._recording.end(f"sound stayed away: {file.written / self._form.rate:.2f} s came; {why}")
        self._judge()

    def _heard_until(self) -> float | None:
        """Simulated time [s]. What has arrived is heard first, so that it is no part of a recording that begins now."""
        self._hear_contacts()
        return self._sound.now

    def _hear_contacts(self) -> None:
        for message, _ in take(self._contact_reader):
            t = seconds(message.header.stamp)
            if self._sound.now is not None and t < self._sound.now:
                self._end_of_time()
            try:
                touch = self._touch_of(message)
            except ValueError as error:
                self._wrong = str(error)
                continue
            self._told, self._standing, self._wrong = time.monotonic(), False, ""
            for chunk in self._sound.touch(t, touch):
                self._hear(chunk)

    def _touch_of(self, message: StethoscopeContact) -> Touch:
        if message.side != self.config.patient_side:
            raise ValueError(
                f"expected a contact with the {self.config.patient_side}, found one with the '{message.side}': give plant and "
                "stethoscope the same 'patient_side'"
            )
        return Touch(message.place, message.force, message.slip)

    def _hear(self, chunk: Chunk) -> None:
        fault, form, recording = self.config.fault, self._form, self._recording
        if fault == "gone":
            self._missed += chunk.gap + len(chunk.samples)
            return
        gap, self._missed = chunk.gap + self._missed, 0
        sound, file = faulty(chunk.samples, fault, self._dead_noise), recording.file
        if file is not None and file.written == 0:
            gap = 0  # what was lost before it began
        if file is not None and fault == "dropout":
            sound = dropped(sound, file.written + gap, file.frames, form.rate)
        samples = from_float(sound, form.sample)
        n_clipped = clipped(samples, form.sample)
        self._meter.add(samples, form.sample, form.chunk_seconds, n_clipped)
        self._lost_samples += gap
        self._overruns += gap > 0
        message = stamped_audio(samples.tobytes(), to_stamp(chunk.t), self.config.frame_id)
        self._stamped.publish(message)
        self._audio.publish(message.audio)
        recording.add(samples.tobytes(), n_clipped, gap, gap > 0)

    def _look_at_clock(self) -> None:
        """A plant whose time stands still says the same time again and again, and no contacts."""
        for message, _ in take(self._clock_reader):
            t = seconds(message.clock)
            if t == self._clock_time:
                self._told, self._standing = time.monotonic(), True
            self._clock_time = t

    # -- health ------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Say what stands, at once if its level has changed."""
        level, sentence = self._health()
        self.diagnostics.stand(level, sentence)
        if level != self._level:
            self._level = level
            self.diagnose()
            self.diagnostics.beat(force=True)

    def _health(self) -> tuple[bytes, str]:
        meter, waited = self._meter, time.monotonic() - self._told
        if not self.is_active:
            return STALE, "inactive"
        if self._wrong:
            return ERROR, self._wrong
        if self._standing:
            return OK, "simulated time stands still"
        if waited > AWAY:
            return (
                ERROR,
                f"no contact on '{self._contact_reader.topic_name}' for {waited:.0f} s: is there a plant with a person?",
            )
        if self.config.fault == "gone":
            return ERROR, "no sound: the microphone is gone"
        if meter.clipping > CLIPPING_LIMIT:
            return WARN, f"{100 * meter.clipping:.1f} % of the samples are clipped: lower the gain"
        if meter.quiet > QUIET_LIMIT:
            return WARN, (
                f"level {meter.rms_dbfs:.0f} dBFS for {meter.quiet:.0f} s, a living microphone stays above "
                f"{meter.floor_dbfs:g}: is it muted or unplugged from its codec?"
            )
        return OK, "streaming"

    def diagnose(self) -> None:
        if self._recording is None:
            return
        file = self._recording.file
        self.diagnostics.set("level_dbfs", self._meter.rms_dbfs)
        self.diagnostics.set("clipping_ratio", self._meter.clipping)
        self.diagnostics.set("overruns", self._overruns)
        self.diagnostics.set("lost_samples", self._lost_samples)
        self.diagnostics.set("recording", str(file.path) if file else "")


def main(args=None) -> int:
    """The console script."""
    return spin_main(SimStethoscope, args)
