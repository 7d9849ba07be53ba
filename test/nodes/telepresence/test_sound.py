"""The robot's sound to whoever listens, and the operator's voice to the robot, over loopback; and what bad days do to both."""

import asyncio
import json
import selectors
import time
from pathlib import Path

import numpy as np
import pytest
from link_client import still, until
from sounds import RATE, Sounding, Speaking, heard, loudest, tone
from test_video import Watching, jpeg, played, rate, shown

from nodes.telepresence import sound
from nodes.telepresence.degradation import Step
from nodes.telepresence.protocol_robot import Refused
from nodes.telepresence.session_report import write_session_report

#: where what was measured is kept
MEASURED = Path(__file__).parents[3] / "runs" / "test_station"


class Listening(Watching):
    """A client that asks for the robot's sound.

    Args:
        direction: of its audio line. voice: that it sends.
    """

    def __init__(self, client, monkeypatch, direction="recvonly", voice=None, lines=0):
        super().__init__(client, monkeypatch, lines)
        if direction:
            self.connection.addTransceiver(voice or "audio", direction=direction)

    @property
    def sound(self):
        return self.frames.get("sound", [])

    async def settled(self, n=50):
        """n frames of sound, begun after it has been heard for half a second."""
        await until(lambda: len(self.sound) > 25, "sound")
        at = len(self.sound)
        await until(lambda: len(self.sound) >= at + n, "more sound")
        return heard(self.sound[at : at + n])


def tell(name, numbers):
    """Keep what was measured."""
    MEASURED.mkdir(parents=True, exist_ok=True)
    text = json.dumps({key: round(value, 2) for key, value in numbers.items()})
    (MEASURED / f"{name}.json").write_text(text)
    print(name, text)


def link_of(ground):
    return next(iter(ground.server.clients)).video


async def delays_of(source, said, heard):
    """[s] from the first sample that sounds, which came 20 ms before its chunk, to where it is heard, eight times.

    Args:
        source: whose level is raised. said: how many chunks it has said. heard: all that came, arrays.
    """
    delays = []
    for _ in range(8):
        await asyncio.sleep(0.3)
        seen, before = len(heard()), said()
        source.level = 0.5
        await until(lambda: said() > before, "the chunk")
        began = time.monotonic() - 0.02
        while not any(np.abs(piece).max() > 3000 for piece in heard()[seen:]):
            await asyncio.sleep(0.001)
        delays.append(time.monotonic() - began)
        source.level = 0.0
    return delays


@pytest.mark.parametrize("source", [dict(), dict(rate=16000, channels=2, chunk=0.1), dict(rate=48000, chunk=0.01)])
def test_a_tone_at_the_microphone_is_heard_with_its_frequency_and_level(source, monkeypatch):
    @played
    async def scenario(ground, monkeypatch):
        ada = await ground.operator()
        listening = Listening(ada, monkeypatch)
        assert not ground.server.is_listened_to
        await listening.begin()
        assert ground.server.is_listened_to and ground.audiences
        async with Sounding(ground.server.sound, **source).on():
            frequency, level = loudest(await listening.settled())
            assert frequency == pytest.approx(1000.0, abs=3.0)
            assert abs(20.0 * np.log10(level / 0.5)) < 1.0
            await until(lambda: rate(ground, "sound") > 10.0, "a rate")
        await listening.close()
        await ada.close()
        await until(lambda: not ground.server.is_listened_to, "the end of listening")
        microphone = ground.server._media._microphone
        await until(lambda: microphone._sending is None, "the end of encoding, where nobody listens")

    scenario(monkeypatch)


@played
async def test_from_mouth_to_ear(ground, monkeypatch):
    """How long a sound takes from the microphone's message to the client's ear; a number for the pages, and a bound for none."""
    ada = await ground.operator()
    listening = Listening(ada, monkeypatch)
    await listening.begin()
    microphone = Sounding(ground.server.sound, level=0.0)
    async with microphone.on():
        await listening.settled(10)
        # the next chunk is the first that sounds
        delays = await delays_of(microphone, lambda: microphone.sent, lambda: [f.to_ndarray() for f in listening.sound])
    tell("sound_delay", {"median_ms": 1e3 * float(np.median(delays)), "max_ms": 1e3 * max(delays)})
    assert min(delays) > 0.0
    await listening.close()


@played
async def test_watchers_hear_as_well_and_it_is_encoded_once(ground, monkeypatch):
    ada, bob = await ground.operator(), await ground.operator(role="watcher", name="Bob")
    listening = [Listening(client, monkeypatch) for client in (ada, bob)]
    for each in listening:
        await each.begin()
    encoded = []
    offer = sound.SoundTrack.offer
    monkeypatch.setattr(
        sound.SoundTrack, "offer", lambda self, packet, age: encoded.append(id(packet)) or offer(self, packet, age)
    )
    async with Sounding(ground.server.sound).on():
        for each in listening:
            assert loudest(await each.settled())[0] == pytest.approx(1000.0, abs=3.0)
    pairs = zip(encoded[::2], encoded[1::2])
    assert all(a == b for a, b in pairs), "both get the same packet"
    for each in listening:
        await each.close()


@played
async def test_a_silent_microphone_is_silence_and_old_pages_hear_nothing(ground, monkeypatch):
    ada = await ground.operator()
    listening = Listening(ada, monkeypatch)
    await listening.begin()
    assert not np.abs(await listening.settled()).any(), "silence where nothing comes"
    async with Sounding(ground.server.sound).on():
        await until(lambda: np.abs(heard(listening.sound[-3:])).max() > 10000, "sound")
    await until(lambda: np.abs(heard(listening.sound[-3:])).max() < 30, "silence after it")
    await listening.close()
    old = Watching(ada, monkeypatch, lines=1)  # without an audio line
    await old.begin()
    assert not ground.server.is_listened_to
    await shown(ground, old, "left_eye", 60)
    await old.close()


@played
async def test_a_microphone_that_changes_its_rate_goes_on(ground, monkeypatch):
    ada = await ground.operator()
    listening = Listening(ada, monkeypatch)
    await listening.begin()
    for source in (dict(rate=44100), dict(rate=16000, channels=2), dict(rate=8000, chunk=0.2, frequency=500.0)):
        expected = pytest.approx(source.get("frequency", 1000.0), abs=3.0)
        async with Sounding(ground.server.sound, **source).on():
            await asyncio.sleep(0.5)
            await until(
                lambda expected=expected: (
                    len(listening.sound) > 25 and loudest(heard(listening.sound[-25:]))[0] == expected
                ),
                "the new tone",
            )
            frequency, level = loudest(await listening.settled())
            assert frequency == expected, source
            assert abs(20.0 * np.log10(level / 0.5)) < 1.5, source
    await listening.close()


class Skipping(asyncio.SelectorEventLoop):
    """A loop whose time is what it waits for: it never waits."""

    def __init__(self):
        super().__init__(selectors.DefaultSelector())
        self._now = 1000.0
        select = self._selector.select

        def skip(timeout=None):
            self._now += timeout or 0.0
            return select(0 if timeout is not None else None)

        self._selector.select = skip

    def time(self):
        return self._now


@pytest.mark.parametrize("speed", [1.001, 0.999, 1.0])
def test_a_microphone_with_another_clock_neither_grows_late_nor_runs_dry(speed):
    """A tenth of a percent fast or slow: without mending, 180 s would be 180 ms."""

    async def run():
        microphone, track = sound.Microphone(), sound.SoundTrack()
        microphone.attach(track)
        loop = asyncio.get_running_loop()
        sounding = Sounding(lambda samples, rate, age: microphone.take(samples, rate, loop.time() - age), speed=speed)
        levels, packets = [], []

        async def listen():
            while True:
                packets.append(await track.recv())

        listener = asyncio.ensure_future(listen())
        async with sounding.on():
            for _ in range(180):
                await asyncio.sleep(1.0)
                levels.append(microphone.level)
        dry = microphone._buffer.dry
        ages = np.array(track.ages)
        microphone.detach(track)
        listener.cancel()
        return np.array(levels), ages, dry, microphone.counts["dropped"], len(packets)

    with asyncio.Runner(loop_factory=Skipping) as runner:
        levels, ages, dry, dropped, packets = runner.run(run())
    settled = levels[60:]
    # a chunk's length of it is whether chunk or packet comes first
    assert np.abs(settled - sound.TARGET).max() < 0.03, settled
    assert dry == 0 and dropped == 0 and packets == pytest.approx(180 * 50, abs=10)
    assert ages.max() < 0.15


def test_a_heap_of_sound_is_bounded_and_counted():
    async def run():
        microphone, track = sound.Microphone(), sound.SoundTrack()
        microphone.attach(track)
        loop = asyncio.get_running_loop()
        for i in range(100):  # two seconds at once
            microphone.take(tone(882 * i, 882), 44100, loop.time())
        assert microphone._buffer.level <= sound.BOUND
        dropped = microphone.counts["dropped"] / RATE
        microphone.detach(track)
        assert not microphone.is_heard
        microphone.take(tone(0, 882), 44100, loop.time())
        assert microphone._buffer.level == 0.0, "nobody listens"
        return dropped

    assert 1.8 <= asyncio.run(run()) < 2.0


def test_a_listener_whose_network_stands_gets_the_present_and_the_loss_is_counted():
    async def run():
        track = sound.SoundTrack()
        packets = [object() for _ in range(sound.WAITING + 5)]
        for packet in packets:
            track.offer(packet, 0.05)
        assert track.late == 5 and await track.recv() is packets[5]
        track.paused = True
        track.offer(object(), None)
        assert len(track._waiting) == sound.WAITING - 1

    asyncio.run(run())


def test_what_it_costs():
    """Processor time of resampling and encoding, which is done once for everybody, and of one more listener."""

    async def run(listeners):
        microphone, tracks = sound.Microphone(), [sound.SoundTrack() for _ in range(listeners)]
        for track in tracks:
            microphone.attach(track)
        microphone._sending.cancel()  # by hand instead, as fast as it goes
        loop, encoder = asyncio.get_running_loop(), sound._encoder()
        chunks = [tone(882 * i, 882) for i in range(500)]
        began = time.process_time()
        for i, chunk in enumerate(chunks):
            microphone.take(chunk, 44100, loop.time())
            microphone._send_one(encoder, i, loop.time())
        seconds = time.process_time() - began
        for track in tracks:
            microphone.detach(track)
        return seconds / (len(chunks) * 0.02)

    one, eleven = (asyncio.run(run(n)) for n in (1, 11))
    tell("sound_cost", {"percent_of_a_core": 100.0 * one, "percent_for_each_more": 10.0 * (eleven - one)})
    assert 0.0 < one < 1.0


# -- the operator's voice ---------------------------------------------------------------------------


@played
async def test_the_operators_voice_comes_only_while_speaking_is_on(ground, monkeypatch):
    ada = await ground.operator()
    speaking = Listening(ada, monkeypatch, "sendonly", Speaking())
    await speaking.begin()
    link = link_of(ground)
    await until(lambda: link._voice.packets.counts["unwanted"] > 10, "packets that nobody wanted")
    assert not ground.voices and link._voice.samples == 0, "off until it is switched on"
    await ada.press("speak")
    await until(lambda: len(ground.voices) > 60, "the voice")
    samples = np.concatenate([samples for samples, _ in ground.voices[10:60]])
    assert samples.dtype == np.int16 and samples.shape[1] == 1
    frequency, level = loudest(samples[:, 0])
    assert frequency == pytest.approx(440.0, abs=3.0) and abs(20.0 * np.log10(level / 0.5)) < 1.0
    assert all(0.0 < age < 60.0 for _, age in ground.voices)
    await until(lambda: rate(ground, "voice") > 5.0, "a rate")
    await ada.press("speak", False)
    await ada.round_trip()
    await still(lambda: (len(ground.voices), link._voice.samples), "the voice")
    assert not ground.buttons, "the robot's services are not asked"
    await speaking.close()


@played
async def test_from_the_operators_mouth_to_the_robot(ground, monkeypatch):
    """How long a voice takes from the client's encoder to the bridge; a number for the pages, and a bound for none."""
    ada = await ground.operator()
    voice = Speaking(level=0.0)
    speaking = Listening(ada, monkeypatch, "sendonly", voice)
    await speaking.begin()
    await ada.press("speak")
    await until(lambda: len(ground.voices) > 25, "the voice")
    delays = await delays_of(voice, lambda: voice._n, lambda: [samples for samples, _ in ground.voices])
    tell("voice_delay", {"median_ms": 1e3 * float(np.median(delays)), "max_ms": 1e3 * max(delays)})
    assert min(delays) > 0.0
    await speaking.close()


@played
async def test_a_watcher_is_never_heard_and_an_operator_who_leaves_the_seat_is_off(ground, monkeypatch):
    bob = await ground.operator(role="watcher", name="Bob")
    speaking = Listening(bob, monkeypatch, "sendonly", Speaking())
    await speaking.begin()
    await bob.press("speak")
    await until(lambda: bob.of(Refused), "a refusal")
    assert "Only the operator can press 'speak'" in bob.of(Refused)[0].sentence
    link = link_of(ground)
    await until(lambda: link._voice.packets.counts["unwanted"] > 20, "packets that nobody wanted")
    assert not ground.voices and link._voice.samples == 0
    from nodes.telepresence.protocol import Release, Take

    await bob.say(Take())
    await until(lambda: bob.welcome.role == "operator", "the seat")
    await bob.aligned()
    await bob.press("speak")
    await until(lambda: len(ground.voices) > 5, "the voice of who drives")
    await bob.say(Release())
    await until(lambda: bob.welcome.role == "watcher", "a watcher again")
    seen = await still(lambda: len(ground.voices), "the voice of a watcher")
    await bob.say(Take())
    await until(lambda: bob.welcome.role == "operator", "the seat again")
    await asyncio.sleep(0.4)
    assert len(ground.voices) == seen, "speaking is off in every new role"
    await speaking.close()


@played
async def test_where_nobody_would_hear_it_speaking_is_refused_with_a_sentence(ground, monkeypatch):
    ground.hears_voice = False
    ada = await ground.operator()
    speaking = Listening(ada, monkeypatch, "sendrecv", Speaking())
    await speaking.begin()
    await ada.press("speak")
    await until(lambda: ada.of(Refused), "a refusal")
    assert "'speak' was not done: nothing on the robot plays a voice" in ada.of(Refused)[0].sentence
    assert ground.server.is_listened_to, "one line serves both directions"
    await asyncio.sleep(0.3)
    assert not ground.voices
    ground.hears_voice = True
    await ada.press("speak")
    await until(lambda: len(ground.voices) > 5, "the voice")
    ground.hears_voice = False  # the loudspeaker vanishes
    await until(lambda: len(ada.of(Refused)) == 2, "word that nobody hears any more")
    assert not next(iter(ground.server.clients)).speaks
    await speaking.close()


@played
async def test_a_flood_of_voice_is_dropped_and_counted(ground, monkeypatch):
    ada = await ground.operator()
    speaking = Listening(ada, monkeypatch, "sendonly", Speaking(hurry=8.0))
    await speaking.begin()
    await ada.press("speak")
    link = link_of(ground)
    await until(lambda: link._voice.packets.counts["excess"] > 50 and link._voice.dropped > RATE, "what is too much")
    began, before = time.monotonic(), link._voice.samples
    await asyncio.sleep(1.0)
    spoken = (link._voice.samples - before) / RATE
    assert spoken < 1.2 * (time.monotonic() - began) + 0.6
    await ada.round_trip()
    assert not ada.closed
    facts = link.facts()["streams"]["voice"]
    assert facts["dropped_ms"] > 1000.0 and facts["packets_refused"]["excess"] > 50 and facts["kilobytes"] > 1.0
    await speaking.close()


def test_packets_of_a_voice_come_in_order_and_a_new_beginning_is_taken():
    class Packet:
        payload, timestamp = b"x", 0

        def __init__(self, number):
            self.sequence_number = number % 65536

    packets = sound.VoicePackets(lambda: True, lambda: 0.0)
    numbers = [65534, 65535, 65536, 65535, 65538, 65537, 65538, 65539, 30000]
    taken = [packets.add(Packet(n))[1] is not None for n in numbers]
    assert taken == [True, True, True, False, True, False, False, True, True]
    assert packets.counts == {"late": 3} and packets.size == len(numbers)


# -- what is given up ---------------------------------------------------------------------------------


@played
async def test_sound_is_given_up_after_half_the_eyes_resolution_and_comes_back(ground, monkeypatch):
    ada = await ground.operator()
    listening = Listening(ada, monkeypatch, lines=1)
    await listening.begin()
    link = link_of(ground)

    def give_up(step):
        link.degradation.update = lambda congested, now: step  # as the link's watch judges from now on
        link._apply(step)

    async with Sounding(ground.server.sound).on():
        await listening.settled()
        give_up(Step.RESOLUTION)
        await listening.settled(20)
        give_up(Step.SOUND)
        count = await still(lambda: len(listening.sound), "the sound")
        ground.server.picture("left_eye", jpeg(50), "jpeg", 0.0)
        await shown(ground, listening, "left_eye", 50)
        give_up(Step.NOTHING)
        await until(lambda: len(listening.sound) > count + 20, "sound again")
    await listening.close()


@played
async def test_both_directions_are_in_the_session_report(ground, monkeypatch):
    ada = await ground.operator()
    listening = Listening(ada, monkeypatch, "sendrecv", Speaking())
    await listening.begin()
    await ada.press("speak")
    async with Sounding(ground.server.sound).on():
        await listening.settled()
        await until(lambda: len(ground.voices) > 20, "the voice")
        link = link_of(ground)
        await until(lambda: rate(ground, "sound") > 0.0, "a rate")
    streams = link.facts()["streams"]
    assert streams["sound"]["age_ms"]["p95"] > 0.0 and streams["sound"]["dropped_ms"] >= 0.0
    assert streams["voice"]["age_ms"]["p50"] >= 20.0 and streams["voice"]["kilobytes"] > 0.0
    await listening.close()
    await ada.close()
    await until(lambda: ground.server.sessions, "the session's end")
    folder = write_session_report(list(ground.server.sessions), dict(ground.server.counts), "Avatar", _folder())
    page = (folder / "report.html").read_text()
    assert "voice" in page and "sound" in page and "dropped [ms]" in page


def _folder():
    import tempfile

    return Path(tempfile.mkdtemp()) / "report"
