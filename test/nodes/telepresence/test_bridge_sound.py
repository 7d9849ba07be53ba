"""The bridge's sound in a graph: a microphone's topic is heard by a page, a page's voice is published, and bad days of both."""

import asyncio
import json
import os
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")

from audio_common_msgs.msg import AudioDataStamped, AudioInfo
from link_client import until
from refit_interfaces.msg import TeleopStatus
from refit_interfaces.srv import SetEyeDistance, SetHeadOffset
from sounds import Speaking, loudest, tone
from test_bridge import bridge, pages, serve  # noqa: F401  Fixtures
from test_sound import Listening, tell

from hardware.audio.sources import StreamFormat
from nodes.framework.messages import seconds
from nodes.framework.qos import GLANCE, LATCHED
from nodes.framework.sound_messages import SOUND, audio_info, samples_of, stamped_audio, stream_format
from nodes.telepresence.protocol_robot import Refused


class Microphone:
    """What the audio node says, by hand: a tone of 1 kHz in chunks of 20 ms."""

    def __init__(self, ros, form=StreamFormat(44100, 1, "S16LE", 20)):
        self.ros, self.n = ros, 0
        self.sound = ros.node.create_publisher(AudioDataStamped, "microphone/audio_stamped", SOUND)
        self.info = ros.node.create_publisher(AudioInfo, "microphone/audio_info", LATCHED)
        self.has(form)

    def has(self, form):
        self.form = form
        self.info.publish(audio_info(form))

    def chunk(self):
        sound = tone(self.n, self.form.frames, self.form.rate, channels=self.form.channels)
        self.n += self.form.frames
        if self.form.name == "F32LE":
            return (sound / 32768.0).astype("<f4").tobytes()
        return sound.tobytes()

    def says(self, data=None):
        self.sound.publish(
            stamped_audio(
                self.chunk() if data is None else data, self.ros.node.get_clock().now().to_msg(), "microphone"
            )
        )

    def until(self, condition, what):
        """Sounds until something is so."""

        def come():
            self.says()
            self.ros.spin(0.018)
            return condition()

        self.ros.until(come, what=what)


def listening(page, monkeypatch, direction="recvonly", voice=None):
    async def begin():
        one = Listening(page.client, monkeypatch, direction, voice)
        await one.begin()
        return one

    return page.does(begin())


def test_a_tone_on_the_microphones_topic_is_heard_by_a_page_and_only_while_it_listens(ros, bridge, pages, monkeypatch):  # noqa: F811
    _, url = bridge
    microphone = Microphone(ros)
    ada = pages(url)
    ada.join()
    ros.spin(0.5)
    assert microphone.sound.get_subscription_count() == 0
    client = listening(ada, monkeypatch)
    microphone.until(lambda: np.abs(_newest(client)).max() > 8000, "the tone")

    def is_tone():
        found = _newest(client, 25)
        return len(found) >= 24000 and abs(loudest(found)[0] - 1000.0) < 5.0

    microphone.until(is_tone, "a tone of 1 kHz")
    ada.does(client.close())
    ada.does(ada.client.close())
    ros.until(lambda: microphone.sound.get_subscription_count() == 0, what="nobody who listens")


def _newest(client, n=3):
    frames = client.sound[-n:]
    if not frames:
        return np.zeros(1)
    return np.concatenate([frame.to_ndarray().reshape(-1, 2)[:, 0] for frame in frames]).astype(float)


def test_sound_that_is_none_is_refused_with_a_sentence_and_the_next_is_taken(ros, bridge, pages, monkeypatch):  # noqa: F811
    process, url = bridge
    microphone = Microphone(ros, StreamFormat(16000, 2, "F32LE", 20))
    ada = pages(url)
    ada.join()
    client = listening(ada, monkeypatch)
    microphone.until(lambda: np.abs(_newest(client)).max() > 8000, "the tone")
    good = np.frombuffer(microphone.chunk(), "<f4").copy()
    good[7] = np.nan
    for data in (b"\0" * 7, b"", good.tobytes(), bytes(8 * 16000)):
        for _ in range(5):
            microphone.says(data)
            ros.spin(0.02)
    ros.until(lambda: np.abs(_newest(client)).max() < 50, what="silence")
    microphone.info.publish(AudioInfo(channels=2, sample_rate=16000, sample_format="U8", coding_format="wave"))
    ros.spin(0.5)
    microphone.says()
    microphone.info.publish(AudioInfo(channels=2, sample_rate=16000, sample_format="S16LE", coding_format="mp3"))
    ros.spin(0.5)
    microphone.says()
    ros.until(lambda: float(process.diagnostics()[2].get("sounds_refused", 0)) >= 20, what="the count")
    microphone.has(StreamFormat(48000, 1, "S16LE", 20))  # another rate while it runs
    microphone.until(lambda: np.abs(_newest(client)).max() > 8000, "the tone again")
    ada.does(client.close())
    _, _, output = ros.finish(process)
    for words in ("samples of 8 bytes", "expected finite samples", "at most 0.25 s", "'U8' is none of", "found 'mp3'"):
        assert words in output, words
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (dict(channels=0), "one or two channels"), (dict(channels=6), "one or two channels"),
        (dict(sample_rate=100), "samples a second"), (dict(sample_format="S24LE"), "is none of"),
        (dict(coding_format="mp3"), "plain PCM"),
    ],
)  # fmt: skip
def test_formats_that_cannot_be_played_are_refused(info, said):
    good = dict(channels=1, sample_rate=44100, sample_format="S16LE", coding_format="wave")
    assert stream_format(AudioInfo(**good)).rate == 44100
    with pytest.raises(ValueError, match=said):
        stream_format(AudioInfo(**good | info))


def test_samples_of_every_format_are_the_same_16_bits():
    sound = tone(0, 100, channels=2)
    stored = {
        "S16LE": sound.tobytes(),
        "S32LE": (sound.astype("<i4") << 16).tobytes(),
        "F32LE": (sound / 32768.0).astype("<f4").tobytes(),
    }
    for name, data in stored.items():
        np.testing.assert_array_equal(samples_of(data, StreamFormat(44100, 2, name)), sound)


def test_the_operators_voice_is_published_while_he_speaks_and_never_a_watchers(ros, bridge, pages, monkeypatch):  # noqa: F811
    _, url = bridge
    ada, bob = pages(url), pages(url)
    ada.join()
    bob.join(role="watcher", name="Bob")
    ada.does(ada.client.press("speak"))
    ros.until(lambda: ada.of(Refused), what="word that nobody would hear it")
    assert "nothing on the robot plays a voice" in ada.of(Refused)[0].sentence
    voices = ros.listen(AudioDataStamped, "operator/voice/audio_stamped", SOUND)
    infos = ros.listen(AudioInfo, "operator/voice/audio_info", LATCHED)
    clients = [
        listening(page, monkeypatch, "sendonly", Speaking(frequency))
        for page, frequency in ((ada, 440.0), (bob, 700.0))
    ]
    bob.does(bob.client.press("speak"))
    ros.until(lambda: infos and bob.of(Refused), what="the format, and a refusal")
    ros.spin(0.5)
    assert not voices
    form = stream_format(infos[0])
    assert (form.rate, form.channels, form.name) == (48000, 1, "S16LE")

    def speaks():
        if len(voices) == 0:
            ada.does(ada.client.press("speak"))
        ros.spin(0.3)
        return len(voices) > 60

    ros.until(speaks, what="the voice")
    sound = np.concatenate([samples_of(message.audio.data, form) for message in voices[10:60]])[:, 0]
    frequency, level = loudest(sound)
    assert frequency == pytest.approx(440.0, abs=3.0) and abs(20.0 * np.log10(level / 0.5)) < 1.0
    now = 1e-9 * ros.node.get_clock().now().nanoseconds
    assert now - 60.0 < seconds(voices[-1].header.stamp) < now and voices[-1].header.frame_id == "operator"
    ada.does(ada.client.press("speak", False))
    ada.does(ada.client.round_trip())
    seen = -1
    while len(voices) != seen:  # what is under way comes still, and no more
        seen = len(voices)
        ros.spin(0.5)
    for page, client in zip((ada, bob), clients):
        page.does(client.close())


def test_both_directions_are_in_the_report(ros, bridge, pages, monkeypatch, tmp_path):  # noqa: F811
    process, url = bridge
    microphone = Microphone(ros)
    ros.listen(AudioDataStamped, "operator/voice/audio_stamped", SOUND)
    ada = pages(url)
    ada.join()
    client = listening(ada, monkeypatch, "sendrecv", Speaking())
    ros.spin(0.5)
    ada.does(ada.client.press("speak"))
    microphone.until(lambda: len(client.sound) > 100, "sound")
    ada.does(until(lambda: len(client.sound) > 100))
    ada.does(asyncio.sleep(1.5))
    ada.does(client.close())
    ros.finish(process)
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    streams = report["sessions"][0]["video"][0]["streams"]
    assert streams["sound"]["kilobytes"] > 0.0 and streams["sound"]["age_ms"]["p50"] > 0.0
    assert streams["voice"]["kilobytes"] > 0.0 and "dropped_ms" in streams["voice"]


def test_head_and_eyes_are_adjusted_by_their_services(ros, bridge, pages):  # noqa: F811
    _, url = bridge
    ada = pages(url)
    ada.join()
    ada.does(ada.client.adjust("eye_distance", 0.063))
    ros.until(lambda: ada.of(Refused), what="word that nobody sets it")
    assert "'eye_distance' was not done: no node that sets the distance" in ada.of(Refused)[0].sentence
    heads = serve(ros, SetHeadOffset, "teleop/set_head_offset", (True, "Straight ahead is now 0.30 left."))
    eyes = serve(ros, SetEyeDistance, "teleop/set_eye_distance", (False, "expected the distance of a person's eyes"))

    def until_asked(asked, name, value):
        count = len(asked)

        def come():
            ada.does(ada.client.adjust(name, value))
            ros.spin(0.3)
            return len(asked) > count

        ros.until(come, what=name)

    until_asked(heads, "head_yaw", 0.3)
    assert (heads[-1].yaw, heads[-1].pitch, heads[-1].roll) == (0.3, 0.0, 0.0)
    status, asked = ros.node.create_publisher(TeleopStatus, "teleop/status", GLANCE), len(heads)

    def told_again():
        status.publish(TeleopStatus())
        ros.spin(0.1)
        return len(heads) > asked

    ros.until(told_again, what="a teleop node that says something for the first time is told of the head")
    assert heads[-1].yaw == 0.3
    for _ in range(5):
        told_again()
    assert len(heads) == asked + 1
    ros.spin(1.2)
    ros.until(lambda: told_again() and len(heads) > asked + 1, what="and after it was silent")
    until_asked(eyes, "eye_distance", 0.063)
    asked = len(heads)
    assert eyes[-1].distance == 0.063
    ros.until(
        lambda: "'eye_distance' was not done: expected the distance" in ada.of(Refused)[-1].sentence, what="why not"
    )
    ada.does(ada.client.close())
    bob = pages(url)
    bob.join(name="Bob")
    ros.until(lambda: len(heads) > asked, what="the head is as it was in a new session")
    assert heads[-1].yaw == 0.0


def test_what_listening_costs(ros, bridge, pages, monkeypatch):  # noqa: F811
    """Processor time of the bridge's process; numbers for the pages."""
    process, url = bridge
    microphone = Microphone(ros)
    clients = [pages(url) for _ in range(3)]
    for i, page in enumerate(clients):
        page.join(role="watcher" if i else "operator", name=f"client {i}")
        listening(page, monkeypatch, direction="")

    def spent():
        with open(f"/proc/{process.pid}/stat") as file:
            words = file.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def share():
        """[% of a core], over five seconds of chunks."""
        for _ in range(2):  # the first of them settles
            began, before, n = time.monotonic(), spent(), 0
            while time.monotonic() < began + 5.0:
                microphone.says()
                n += 1
                ros.spin(max(0.0, began + 0.02 * n - time.monotonic()))
        return 100.0 * (spent() - before) / (time.monotonic() - began)

    none = share()
    heard = [listening(clients[0], monkeypatch)]
    one = share()
    heard += [listening(page, monkeypatch) for page in clients[1:]]
    three = share()
    assert all(client.sound for client in heard)
    tell(
        "bridge_cost",
        {"percent_without": none, "percent_for_the_first": one - none, "percent_for_each_more": (three - one) / 2.0},
    )
    for page, client in zip(clients, heard):
        page.does(client.close())
