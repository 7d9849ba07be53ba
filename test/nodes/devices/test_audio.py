"""The audio node: the same topics from every source, recordings, health."""

import importlib.util
import json
import time
import wave
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from audio_common_msgs.msg import AudioData, AudioDataStamped, AudioInfo
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.action import ActionClient
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from refit_interfaces.action import RecordAudio

from hardware.audio.pcm import FORMATS, from_float
from hardware.audio.sources import StreamFormat
from hardware.audio.synthesiser import Stethoscope
from hardware.audio.wav import WavRecording
from nodes.devices.audio import SOUND, AudioConfig
from nodes.framework.qos import LATCHED

OK, WARN, ERROR, STALE = range(4)


def _shared(module):
    """A helper module beside the device's tests."""
    path = Path(__file__).parents[2] / "hardware" / "audio" / f"{module}.py"
    spec = importlib.util.spec_from_file_location(f"audio_{module}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def microphone():
    if why := _shared("conftest").missing():
        pytest.skip(why)
    from hardware.emulation.process import EmulatorProcess

    with EmulatorProcess("audio", "--sound", "tone", "--frequency", 100, "--level", 0.9, seed=1) as emulator:
        yield emulator


class Ear:
    """Subscriptions to all that the node says."""

    def __init__(self, ros, name="audio"):
        self.ros = ros
        deep = QoSProfile(depth=2000)
        self.plain = ros.listen(AudioData, f"{name}/audio", deep)
        self.stamped = ros.listen(AudioDataStamped, f"{name}/audio_stamped", deep)
        self.info = ros.listen(AudioInfo, f"{name}/audio_info", LATCHED)
        self.health = ros.diagnostics(f"/{name}")
        self.levels = []  # of health, all that were said
        ros.node.create_subscription(DiagnosticArray, "diagnostics", lambda message: self._note(name, message), 100)
        self.client = ActionClient(ros.node, RecordAudio, f"{name}/record")

    def _note(self, name, message):
        self.levels += [status.level[0] for status in message.status if status.name == name]

    @property
    def stamps(self):
        return np.array([m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in self.stamped])

    def click_errors(self, microphone, begin, end):
        """By how much each click of the messages from `begin` to before `end` is stamped later than it was [s]."""
        messages, stamps = self.stamped[begin:end], self.stamps[begin:end]
        sound = np.frombuffer(b"".join(message.audio.data.tobytes() for message in messages), "<i2")
        to_ros = max(time.time() - time.monotonic() for _ in range(20))  # the one that was not held up in between
        clicks = np.array(microphone.stats()["clicks"]) + to_ros
        return _shared("test_audio_device").click_errors(sound, stamps, StreamFormat(), clicks)[1]

    def record(self, duration, file=""):
        """(result, feedback), or (None, []) if refused."""
        feedback = []
        self.ros.until(self.client.server_is_ready, what="the action server")
        sent = self.client.send_goal_async(
            RecordAudio.Goal(duration=duration, file=str(file)),
            lambda message: feedback.append(message.feedback.elapsed),
        )
        self.ros.until(sent.done, what="the answer to a goal")
        if not sent.result().accepted:
            return None, []
        self.handle = sent.result()
        result = self.handle.get_result_async()
        self.ros.until(result.done, duration + 30, "the recording")
        return result.result().result, feedback


def test_tone_recording_and_stall_on_the_emulated_card(ros, microphone, tmp_path):
    """A1, A2 and A4 through the whole node."""
    ear = Ear(ros)
    node = ros.start("audio", server=f"unix:{microphone.link}", record_directory=str(tmp_path), floor_dbfs=-70.0)
    ros.transition("audio", "configure")
    ros.until(lambda: ear.health()[0] == STALE, what="STALE while inactive")
    assert ear.record(1.0) == (None, [])  # not active
    ros.transition("audio", "activate")
    ros.until(lambda: ear.health()[0] == OK and len(ear.stamped) > 20, what="OK")

    result, feedback = ear.record(10.0)
    assert result.success and result.message == "" and result.overruns == 0 and result.clipping_ratio == 0.0
    assert result.samples == 441_000  # A2
    assert feedback == sorted(feedback) and 1.0 < feedback[-1] <= 10.0 and len(feedback) > 20
    with wave.open(result.file) as file:
        assert (file.getnframes(), file.getframerate(), file.getnchannels(), file.getsampwidth()) == (
            441_000,
            44100,
            1,
            2,
        )
        x = np.frombuffer(file.readframes(441_000), "<i2") / 2.0**15
    frequency, snr = _shared("test_audio_device").tone_fit(x, 44100)
    assert frequency == pytest.approx(100.0, abs=0.1) and snr >= 80.0  # A1
    assert np.abs(np.diff(ear.stamps) - 0.02).max() <= 1e-3
    level, _, values = ear.health()
    assert level == OK and {
        "state",
        "rate",
        "samples",
        "dropped",
        "crc_errors",
        "timeouts",
        "resyncs",
        "reconnects",
        "last_error",
        "latency_p95_ms",
        "clock_offset_ms",
        "level_dbfs",
        "clipping_ratio",
    } <= set(values)
    assert float(values["rate"]) == pytest.approx(50.0, rel=0.05)
    assert float(values["level_dbfs"]) == pytest.approx(20 * np.log10(0.9 / 2**0.5), abs=0.1)

    assert ear.record(-1.0) == (None, [])
    microphone.inject("clip", by=20.0)
    ros.until(lambda: ear.health()[0] == WARN and "clipped" in ear.health()[1], what="the warning of clipping")
    result, _ = ear.record(0.5, tmp_path / "loud.wav")
    assert result.success and result.clipping_ratio > 0.5 and result.file == str(tmp_path / "loud.wav")
    microphone.clear()

    microphone.set(sound="clicks", click_period=0.1)
    began = len(ear.stamped)
    ros.until(lambda: len(ear.stamped) > began + 150, what="three seconds of clicks")
    stalled = len(ear.stamped) - 1  # the newest may be the last before the silence
    microphone.inject("stall")
    ros.until(
        lambda: ear.health()[0] == ERROR and ("no data" in ear.health()[1] or "no sound" in ear.health()[1]),
        what="ERROR in the stall",
    )

    def silence():
        """The emulator's newest loss: from, to [host time]."""
        return microphone.stats()["lost"][-1]

    ros.until(lambda: np.subtract(*reversed(silence())) > 1.0, what="a second of silence")
    microphone.clear("stall")
    length = np.subtract(*reversed(silence()))
    ros.until(lambda: np.diff(ear.stamps[stalled:]).max(initial=0.0) > 0.5, what="sound after the stall")
    heard = len(ear.stamped)
    ros.until(lambda: len(ear.stamped) > heard + 100, what="two seconds of clicks")
    back = stalled + 1 + int(np.argmax(np.diff(ear.stamps[stalled:])))
    assert ear.stamps[back] - ear.stamps[back - 1] - 0.02 > length - 5e-3  # the stall, and what its ends cost
    # The first stamp after the stall is as true as the last ones before it; at the begin a tone may still have been on its way.
    before, after = ear.click_errors(microphone, began, stalled)[-20:], ear.click_errors(microphone, back, None)
    assert len(before) == 20 and len(after) > 15 and np.abs(after - np.median(before)).max() <= 8e-3, (before, after)
    assert np.diff(ear.stamps).min() > 0.0  # nothing is said twice
    code, _, output = ros.finish(node)
    assert code == 0 and "Traceback" not in output


def test_every_source_gives_the_same_topics(ros, microphone, tmp_path):
    """A5; the sound itself where it is known."""
    truth = Stethoscope(seed=7).read(60 * 44100)  # longer than the nodes take to start: silence after it is a fault
    recording = WavRecording(tmp_path / "sound.wav", 44100, 1, FORMATS["S16LE"], len(truth))
    recording.add(from_float(truth, FORMATS["S16LE"]).tobytes(), 0)
    recording.close()
    ears = {name: Ear(ros, name) for name in ("device", "file", "synth")}
    began = ros.node.get_clock().now().nanoseconds * 1e-9
    ros.start("audio", "-r", "__node:=device", source="device", server=f"unix:{microphone.link}")
    ros.start(
        "audio", "-r", "__node:=file", **{"source": "file", "file": str(tmp_path / "sound.wav"), "file.loop": False}
    )
    synth = ros.start(
        "audio",
        "-r",
        "__node:=synth",
        **{"source": "synth", "synth.seed": 7, "synth.truth": str(tmp_path / "truth.json")},
    )
    for name in ears:
        ros.up(name)
    for name, ear in ears.items():
        ros.until(lambda ear=ear: len(ear.stamped) >= 75 and OK in ear.levels, what=f"1.5 s of sound of {name}")
    for name, ear in ears.items():
        (info,) = ear.info
        assert (info.channels, info.sample_rate, info.sample_format, info.coding_format, info.bitrate) == (
            1,
            44100,
            "S16LE",
            "wave",
            706,
        )
        assert (
            {len(message.data) for message in ear.plain}
            == {len(message.audio.data) for message in ear.stamped}
            == {2 * 882}
        )
        assert {message.header.frame_id for message in ear.stamped} == {"microphone"}
        assert np.abs(np.diff(ear.stamps) - 0.02).max() <= 1e-3, name
        now = ros.node.get_clock().now().nanoseconds * 1e-9
        assert began < ear.stamps[0] < ear.stamps[-1] < now
        for topic, durability in (
            ("audio", DurabilityPolicy.VOLATILE),
            ("audio_stamped", DurabilityPolicy.VOLATILE),
            ("audio_info", DurabilityPolicy.TRANSIENT_LOCAL),
        ):
            (publisher,) = ros.node.get_publishers_info_by_topic(f"/{name}/{topic}")
            assert (
                publisher.qos_profile.reliability == ReliabilityPolicy.RELIABLE
                and publisher.qos_profile.durability == durability
            )
    expected = from_float(truth, FORMATS["S16LE"]).tobytes()
    for name in ("file", "synth"):
        said = b"".join(message.data.tobytes() for message in ears[name].plain[:40])
        assert said in expected, name  # a message before the subscription was there may be missing
    ros.transition("synth", "deactivate")
    told = json.loads((tmp_path / "truth.json").read_text())
    assert told["events"][0]["kind"] == "S1" and told["events"][0]["t"] == pytest.approx(0.3)
    assert told["first_sample"] == pytest.approx(ears["synth"].stamps[0], abs=0.5)
    ros.finish(synth)


def test_one_recording_at_a_time_and_cancelled_ones_keep_what_they_have(ros, tmp_path):
    ear = Ear(ros)
    ros.start("audio", source="synth", record_directory=str(tmp_path), sample_rate=8000)
    ros.up("audio")
    ros.until(ear.client.server_is_ready)
    first = ear.client.send_goal_async(RecordAudio.Goal(duration=60.0, file=str(tmp_path / "long.wav")))
    ros.until(first.done)
    handle = first.result()
    assert handle.accepted and ear.record(1.0) == (None, [])
    heard = len(ear.stamped)
    ros.until(lambda: len(ear.stamped) > heard + 25, what="half a second of sound")
    cancelled, result = handle.cancel_goal_async(), handle.get_result_async()
    ros.until(result.done, what="the cancelled recording")
    assert cancelled.done() and not result.result().result.success and result.result().result.message == "cancelled"
    with wave.open(str(tmp_path / "long.wav")) as file:
        assert file.getnframes() == result.result().result.samples > 0
    bad, _ = ear.record(1.0, "/proc/no/such.wav")
    assert not bad.success and "cannot be written" in bad.message
    good, _ = ear.record(0.2)
    assert good.success and good.samples == 1600 and Path(good.file).parent == tmp_path

    begun = ear.client.send_goal_async(RecordAudio.Goal(duration=60.0, file=str(tmp_path / "cut.wav")))
    ros.until(begun.done)
    result = begun.result().get_result_async()
    ros.transition("audio", "deactivate")
    ros.until(result.done, what="the recording that deactivation ends")
    assert "deactivated" in result.result().result.message
    assert ros.try_transition("audio", "cleanup") and ros.try_transition("audio", "configure")


def test_parameters_that_do_not_fit_are_refused(ros):
    process = ros.start("audio", source="file")
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 2 and "set it to a WAV file" in output
    ros.processes.remove(process)


def test_the_page_names_everything(documentation):
    assert documentation.missing("audio.md", AudioConfig, "nodes/devices/audio.py") == []
    assert SOUND.reliability == ReliabilityPolicy.RELIABLE
