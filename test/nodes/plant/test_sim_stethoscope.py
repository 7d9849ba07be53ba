"""The simulated stethoscope through its topics: sound and recordings in simulated time, faults, bad contacts, endings.

The plant is played by the test, which tells contacts at simulated stamps as fast as they are heard.
"""

import time
import wave
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytestmark = pytest.mark.graph

from audio_common_msgs.msg import AudioData, AudioDataStamped, AudioInfo
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile
from refit_interfaces.action import RecordAudio
from refit_interfaces.msg import StethoscopeContact
from rosgraph_msgs.msg import Clock

from hardware.audio.wav import read_wav
from nodes.framework.messages import seconds, to_stamp
from nodes.framework.qos import CLOCK, LATCHED, STATE
from nodes.plant.sim_stethoscope import SimStethoscopeConfig
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.auscultation.usability import Verdict, usable

OK, WARN, ERROR, STALE = range(4)
RATE = 8000
MITRAL = SimulatedPatient(3).field["front"].landmarks["heart"]["mitral"]
DEEP = QoSProfile(depth=5000)


class Body:
    """Plays the plant, and records as whoever holds the stethoscope does."""

    def __init__(self, ros, name="stethoscope"):
        self.ros, self.t, self.told = ros, 0.0, 0.0
        self.contacts = ros.node.create_publisher(StethoscopeContact, "sim_plant/stethoscope", STATE)
        self.clock = ros.node.create_publisher(Clock, "clock", CLOCK)
        self.plain = ros.listen(AudioData, f"{name}/audio", DEEP)
        self.stamped = ros.listen(AudioDataStamped, f"{name}/audio_stamped", DEEP)
        self.info = ros.listen(AudioInfo, f"{name}/audio_info", LATCHED)
        self.health = ros.diagnostics(f"/{name}")
        self.client = ActionClient(ros.node, RecordAudio, f"{name}/record")
        self.name = name

    def tell(self, force=7.0, side="front", place=MITRAL):
        """One contact, 10 ms after the last."""
        self.t += 0.01
        message = StethoscopeContact(side=side, place=np.asarray(place, float), force=force, slip=2e-4)
        message.header.stamp = to_stamp(self.t)
        self.contacts.publish(message)

    def run(self, condition, what, **contact):
        """Simulated time goes on, a fifth of a second at a time, until something holds: as fast as it is heard, and no slower than
        twice as fast as the wall's where nothing is.
        """

        def going_on():
            if condition():
                return True
            heard = self.stamped and self.t - seconds(self.stamped[-1].header.stamp) < 0.5
            if self.contacts.get_subscription_count() and (heard or time.monotonic() - self.told > 0.1):
                self.told = time.monotonic()
                for _ in range(20):
                    self.tell(**contact)
            return False

        self.ros.until(going_on, what=what)

    def goal(self, duration, file=""):
        """An accepted recording's handle, or None."""
        self.ros.until(self.client.server_is_ready, what="the action server")
        sent = self.client.send_goal_async(RecordAudio.Goal(duration=duration, file=str(file)))
        self.ros.until(sent.done, what="the answer to a goal")
        return sent.result() if sent.result().accepted else None

    def record(self, duration, file="", **contact):
        """The result of a recording while time goes on."""
        result = self.goal(duration, file).get_result_async()
        self.run(result.done, "the recording", **contact)
        return result.result().result

    def set(self, fault):
        assert self.ros.set_parameter(self.name, "fault", fault).successful


@pytest.fixture(scope="module")
def body(shared_ros, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    shared_ros.start(
        "sim_stethoscope",
        *("-r", "__node:=stethoscope"),
        **dict(patient=3, sample_rate=RATE, record_directory=str(folder), patience=2.0),
    )
    body = Body(shared_ros)
    shared_ros.transition("stethoscope", "configure")
    assert body.goal(1.0) is None  # not active
    shared_ros.transition("stethoscope", "activate")
    body.run(lambda: len(body.stamped) > 10, "a second of sound")
    return body


def test_sound_comes_in_simulated_time_as_from_the_audio_node(body):
    (info,) = body.info
    assert (info.channels, info.sample_rate, info.sample_format, info.coding_format, info.bitrate) == (
        *(1, RATE, "S16LE", "wave"),
        128,
    )
    body.run(lambda: len(body.stamped) > 40 and len(body.plain) > 40, "four seconds of sound")
    assert {len(message.data) for message in body.plain} == {2 * 800}
    assert {message.header.frame_id for message in body.stamped} == {"membrane"}
    stamps = np.array([seconds(message.header.stamp) for message in body.stamped])
    np.testing.assert_allclose(np.diff(stamps), 0.1, atol=1e-9)
    assert stamps[-1] + 0.1 <= body.t + 1e-9
    assert stamps[0] * 10.0 == pytest.approx(np.round(stamps[0] * 10.0))  # multiples, whenever it began
    said = b"".join(message.audio.data.tobytes() for message in body.stamped)
    assert b"".join(message.data.tobytes() for message in body.plain[-20:]) in said


def test_a_recording_has_exactly_its_samples_however_fast_time_goes(body, tmp_path):
    feedback, file = [], tmp_path / "one.wav"
    sent = body.client.send_goal_async(
        RecordAudio.Goal(duration=10.0, file=str(file)), lambda message: feedback.append(message.feedback.elapsed)
    )
    body.ros.until(sent.done, what="the answer to a goal")
    begun, result = body.t, sent.result().get_result_async()
    body.run(result.done, "the recording")
    found = result.result().result
    assert found.success and found.message == "" and found.file == str(file)
    assert found.samples == 10 * RATE and found.overruns == 0 and found.clipping_ratio == 0.0
    sound, rate = read_wav(file)
    assert sound.shape == (10 * RATE, 1) and rate == RATE and usable(sound, rate, "heart")
    assert feedback == sorted(feedback) and feedback[-1] <= 10.0
    # It is what was heard from the goal on, and nothing of before.
    said = b"".join(message.audio.data.tobytes() for message in body.stamped)
    with wave.open(str(file)) as recorded:
        at = said.index(recorded.readframes(10 * RATE))
    assert at % 1600 == 0 and seconds(body.stamped[at // 1600].header.stamp) >= begun - 0.1 - 1e-9
    odd = body.record(0.33)
    assert odd.success and odd.samples == round(0.33 * RATE) and Path(odd.file).suffix == ".wav"


def test_what_is_heard_follows_the_contact(body, tmp_path):
    quiet = read_wav(body.record(5.0, tmp_path / "air.wav", force=0.0).file)[0]
    pressed = read_wav(body.record(5.0, tmp_path / "skin.wav", force=7.0).file)[0]
    air, skin = (np.abs(np.fft.rfft(sound[:, 0]))[100:400] for sound in (quiet, pressed))  # 20 to 80 Hz
    assert np.sum(skin**2) > 10.0 * np.sum(air**2)


@pytest.mark.parametrize("fault, verdict", [("silent", "SILENT"), ("clipped", "CLIPPED"), ("dropout", "GONE")])
def test_each_fault_is_found_on_its_recording(body, tmp_path, fault, verdict):
    body.set(fault)
    try:
        found = body.record(8.0, tmp_path / "bad.wav")
        assert found.success and found.samples == 8 * RATE  # the microphone does not know it
        sound, rate = read_wav(tmp_path / "bad.wav")
        assert usable(sound, rate, "heart").verdict is Verdict[verdict]
        assert (found.clipping_ratio > 0.01) == (fault == "clipped")
        if fault != "dropout":
            word = {"silent": "muted or unplugged", "clipped": "lower the gain"}[fault]
            body.run(lambda: body.health()[0] == WARN and word in body.health()[1], f"the warning of {fault}")
    finally:
        body.set("")
    body.run(lambda: body.health()[0] == OK, "an end of the warning")
    sound, rate = read_wav(body.record(6.0, tmp_path / "good.wav").file)
    assert usable(sound, rate, "heart")


def test_a_microphone_that_is_gone_says_nothing_and_its_recording_fails(body):
    body.set("gone")
    try:
        gone, begun = body.t, len(body.stamped)
        found = body.record(1.0)
        assert not found.success and found.samples == 0 and "sound stayed away: 0.00 s came" in found.message
        # What was said before may still be on its way.
        assert body.t > gone + 1.0 and all(seconds(each.header.stamp) <= gone for each in body.stamped[begun:])
        body.ros.until(lambda: body.health()[0] == ERROR and "gone" in body.health()[1], what="ERROR")
        result = body.goal(2.0).get_result_async()
        body.run(lambda: body.t > 0.0 and body.health()[2]["recording"] != "", "the recording's begin")
    finally:
        body.set("")
    body.run(result.done, "the recording of a microphone that is back")
    assert result.result().result.success and result.result().result.samples == 2 * RATE
    assert result.result().result.overruns == 0  # nothing was lost since its first sample


def test_sound_that_is_lost_within_a_recording_is_written_as_silence(body, tmp_path):
    result = body.goal(6.0, tmp_path / "gap.wav").get_result_async()
    begun = len(body.stamped)
    body.run(lambda: len(body.stamped) > begun + 10, "a second of the recording")
    body.t += 2.0  # nobody told of contacts meanwhile
    body.run(result.done, "the recording")
    found = result.result().result
    assert found.success and found.samples == 6 * RATE and found.overruns == 1 and "missing" in found.message
    sound, rate = read_wav(tmp_path / "gap.wav")
    assert usable(sound, rate, "heart").verdict is Verdict.GONE


def test_one_recording_at_a_time_and_a_cancelled_one_keeps_what_it_has(body, tmp_path):
    handle = body.goal(3600.0, tmp_path / "long.wav")
    assert body.goal(1.0) is None and body.goal(1.0) is None
    begun = len(body.stamped)
    body.run(lambda: len(body.stamped) > begun + 20, "two seconds of it")
    cancelled, result = handle.cancel_goal_async(), handle.get_result_async()
    body.ros.until(result.done, what="the cancelled recording")
    found = result.result().result
    assert cancelled.done() and not found.success and found.message == "cancelled" and found.samples > RATE
    with wave.open(str(tmp_path / "long.wav")) as file:
        assert file.getnframes() == found.samples
    for duration in (0.0, -1.0, 3601.0, float("nan")):
        assert body.goal(duration) is None
    assert "cannot be written" in body.record(1.0, "/proc/no/such.wav").message


def test_time_that_stands_still_is_waited_for_and_one_that_goes_on_without_contacts_is_not(body):
    """`patience` is 2 s of wall time here."""
    result = body.goal(5.0).get_result_async()

    def clock(step, turns):
        for _ in range(turns):
            clock.t += step
            body.clock.publish(Clock(clock=to_stamp(clock.t)))
            body.ros.spin(0.1)

    clock.t = body.t
    clock(0.0, 40)  # a paused plant says its time ten times a second
    assert not result.done()
    body.ros.until(lambda: body.health()[1] == "simulated time stands still" and body.health()[0] == OK, what="OK")
    body.run(result.done, "the recording after the pause")
    assert result.result().result.success and result.result().result.samples == 5 * RATE
    result = body.goal(5.0).get_result_async()
    while not result.done():
        clock(0.1, 1)
    found = result.result().result
    assert not found.success and "sound stayed away" in found.message and "sim_plant/stethoscope" in found.message
    body.ros.until(lambda: body.health()[0] == ERROR and "is there a plant" in body.health()[1], what="ERROR")


def test_time_that_goes_back_ends_a_recording_and_sounds_as_before(body):
    """Ten seconds are heard twice, so that some of them still are by a node that a busy machine held up meanwhile."""
    body.t = 1000.0
    body.run(lambda: seconds(body.stamped[-1].header.stamp) > 1010.0, "sound at 1010 s")
    first = {seconds(message.header.stamp): message.audio.data.tobytes() for message in body.stamped}
    result = body.goal(3600.0).get_result_async()
    begun = len(body.stamped)
    body.run(lambda: len(body.stamped) > begun + 5, "half a second of the recording")
    body.t = 1000.2
    body.run(result.done, "the end of the recording")
    found = result.result().result
    assert not found.success and "simulated time went back after" in found.message and found.samples > 0

    def again():
        stamps = np.array([seconds(message.header.stamp) for message in body.stamped])
        back = np.flatnonzero(np.diff(stamps) < 0) + 1  # none as long as no sound of the second time has come
        return [m for k in back[-1:] for m in body.stamped[k:] if 1000.5 < seconds(m.header.stamp) < 1010.0]

    body.run(lambda: len(again()) > 3, "sound of the second time")
    assert all(m.audio.data.tobytes() == first[seconds(m.header.stamp)] for m in again())


def test_contacts_of_another_side_or_of_no_numbers_are_refused_with_a_sentence(body):
    for wrong, word in (
        (dict(side="back"), "the same 'patient_side'"),
        (dict(force=float("nan")), "two finite numbers, a finite force"),
    ):
        body.run(lambda: body.health()[0] == ERROR and word in body.health()[1], "the refusal", **wrong)
        body.run(lambda: body.health()[0] == OK, "sound again")


def test_deactivation_ends_a_recording_and_the_node_comes_back(body):
    result = body.goal(60.0).get_result_async()
    body.ros.transition("stethoscope", "deactivate")
    body.ros.until(result.done, what="the recording that deactivation ends")
    assert "deactivated" in result.result().result.message and body.goal(1.0) is None
    body.ros.until(lambda: body.health()[0] == STALE, what="STALE")
    assert body.ros.try_transition("stethoscope", "cleanup") and body.ros.try_transition("stethoscope", "configure")
    body.ros.transition("stethoscope", "activate")
    assert body.record(1.0).success
    assert not body.ros.set_parameter("stethoscope", "fault", "broken").successful
    code, _, output = body.ros.finish(body.ros.processes[0])
    assert code == 0 and "Traceback" not in output


def test_the_audio_node_serves_the_same_action_under_the_same_name(ros, tmp_path):
    """On a robot it takes the simulated one's place."""
    ros.start("audio", "-r", "__node:=stethoscope", source="synth", sample_rate=RATE, record_directory=str(tmp_path))
    ros.up("stethoscope")
    body = Body(ros)
    ros.until(lambda: body.stamped, what="sound")
    result = body.goal(0.5).get_result_async()
    ros.until(result.done, what="the recording")
    assert result.result().result.success and result.result().result.samples == RATE // 2
    assert body.info[0].sample_rate == RATE and body.stamped


def test_nobody_is_heard_where_nobody_lies_and_no_heart_on_a_back():
    nobody, back = (
        SimStethoscopeConfig(patient=p, patient_side=side).field() for p, side in ((-1, "front"), (3, "back"))
    )
    assert nobody.gain("heart", MITRAL) == nobody.gain("lung", MITRAL) == 0.0
    assert back.gain("heart", MITRAL) == 0.0 and back.gain("lung", back.landmarks["lung"]["left upper"]) > 0.1


def test_the_page_names_everything(documentation):
    assert documentation.missing("sim_stethoscope.md", SimStethoscopeConfig, "nodes/plant/sim_stethoscope.py") == []
