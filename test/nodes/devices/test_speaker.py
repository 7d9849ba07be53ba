"""The speaker node: what a topic says is played, what is too old or no sound is not, and a missing card is waited for."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from audio_common_msgs.msg import AudioDataStamped, AudioInfo

from hardware.audio.pulse import NullSink, PulseServer
from hardware.audio.sources import StreamFormat
from nodes.devices.speaker import SpeakerConfig
from nodes.framework.messages import to_stamp
from nodes.framework.qos import LATCHED
from nodes.framework.sound_messages import SOUND, audio_info, stamped_audio

OK, WARN, ERROR, STALE = range(4)
FORM = StreamFormat(48000, 1, "S16LE", 20)


def missing():
    path = Path(__file__).parents[2] / "hardware" / "audio" / "conftest.py"
    spec = importlib.util.spec_from_file_location("audio_conftest", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found.missing()


@pytest.fixture
def sink(tmp_path):
    if why := missing():
        pytest.skip(why)
    made = NullSink(PulseServer(tmp_path / "socket"), FORM.rate, 1)
    yield made
    made.close()


class Mouth:
    """Says a tone as the bridge says a voice."""

    def __init__(self, ros):
        self.ros, self.n = ros, 0
        self.sound = ros.node.create_publisher(AudioDataStamped, "operator/voice/audio_stamped", SOUND)
        self.info = ros.node.create_publisher(AudioInfo, "operator/voice/audio_info", LATCHED)
        self.info.publish(audio_info(FORM))

    def says(self, data=None, age=0.02):
        if data is None:
            t = (self.n + np.arange(FORM.frames)) / FORM.rate
            data = np.rint(16000.0 * np.sin(2.0 * np.pi * 440.0 * t)).astype("<i2").tobytes()
            self.n += FORM.frames
        stamp = to_stamp(1e-9 * self.ros.node.get_clock().now().nanoseconds - age)
        self.sound.publish(stamped_audio(data, stamp, "operator"))

    def until(self, condition, what, **words):
        def come():
            self.says(**words)
            self.ros.spin(0.018)
            return condition()

        self.ros.until(come, what=what)


def test_a_voice_is_played_and_what_is_old_or_no_sound_is_not(ros, sink):
    health = ros.diagnostics("speaker")
    mouth = Mouth(ros)
    node = ros.start("speaker", server=f"unix:{sink.server.socket}")
    ros.transition("speaker", "configure")
    ros.spin(0.3)
    assert mouth.sound.get_subscription_count() == 0, "who speaks is told that nobody listens before it is active"
    ros.transition("speaker", "activate")
    ros.until(lambda: mouth.sound.get_subscription_count() == 1 and health()[0] == OK, what="health")
    mouth.until(lambda: health()[2].get("is_playing") == "True", "sound")
    import threading

    found = []
    recorder = threading.Thread(target=lambda: found.append(sink.record(1.0)))
    recorder.start()
    mouth.until(lambda: found, "what was played")
    recorder.join()
    played = np.frombuffer(found[0], "<i2") / 32768.0
    spectrum = np.abs(np.fft.rfft(np.hanning(len(played)) * played))
    assert np.argmax(spectrum) * FORM.rate / len(played) == pytest.approx(440.0, abs=2.0)
    assert np.abs(played).max() < 10.0 ** (-6.0 / 20.0) + 0.01
    ros.until(lambda: health()[2].get("is_playing") == "False", what="silence")
    mouth.until(lambda: float(health()[2].get("too_old", 0)) > 10, "old sound", age=3.0)
    assert health()[2]["is_playing"] == "False"
    for data in (b"\0", b"", bytes(2 * 48000)):
        mouth.says(data)
    ros.until(lambda: health()[0] == WARN and "is not played: expected" in health()[1], what="what is wrong with it")
    mouth.info.publish(audio_info(StreamFormat(16000, 1, "S16LE", 20)))
    ros.until(
        lambda: "expected 48000 samples a second, as sample_rate says, found 16000" in health()[1], what="the rate"
    )
    mouth.info.publish(audio_info(FORM))
    mouth.until(lambda: health()[0] == OK and health()[2]["is_playing"] == "True", "sound again")
    ros.transition("speaker", "deactivate")
    ros.until(lambda: mouth.sound.get_subscription_count() == 0, what="nobody who listens")
    code, _, output = ros.finish(node)
    assert code == 0 and "Traceback" not in output, output


def test_a_sound_server_that_is_gone_is_waited_for_with_a_sentence(ros, sink):
    health = ros.diagnostics("speaker")
    ros.start("speaker", server=f"unix:{sink.server.socket}", **{"reconnect.max_s": 0.5})
    ros.up("speaker")
    ros.until(lambda: health()[0] == OK, what="health")
    socket = sink.server.socket
    sink.close()
    ros.until(lambda: health()[0] == ERROR and "audio output 'default'" in health()[1], what="word that it is gone")
    ros.until(lambda: ros.node.count_subscribers("operator/voice/audio_stamped") == 0, what="nobody who listens")
    again = NullSink(PulseServer(socket), FORM.rate, 1)
    try:
        ros.until(lambda: health()[0] == OK, what="it is back")
        ros.until(lambda: ros.node.count_subscribers("operator/voice/audio_stamped") == 1, what="it listens again")
    finally:
        again.close()


def test_parameters_that_do_not_fit_are_refused(ros):
    process = ros.start("speaker", buffer=0.3, age_limit=0.2)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2 and "let less wait" in output
    ros.processes.remove(process)


def test_the_page_names_everything(documentation):
    assert documentation.missing("speaker.md", SpeakerConfig, "nodes/devices/speaker.py") == []
