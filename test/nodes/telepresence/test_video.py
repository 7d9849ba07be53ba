"""Pictures to a client by WebRTC on this machine, samples on its channel, and what bad days do to them."""

import asyncio
import contextlib
import os
from fractions import Fraction

import av
import numpy as np
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from link_client import PATIENCE, Ground, until

from nodes.telepresence import video
from nodes.telepresence.degradation import Step
from nodes.telepresence.protocol import Offer, Sample, Take, write
from nodes.telepresence.protocol_robot import Answer, Refused

SIZE = (160, 120)


def jpeg(grey, size=SIZE):
    """A picture of one shade, as a JPEG file."""
    return video._jpeg(av.VideoFrame.from_ndarray(np.full((size[1], size[0]), grey, np.uint8), format="gray"))


def shade(frame):
    """Mean of a frame's brightness."""
    return float(frame.to_ndarray(format="gray").mean())


class Watching:
    """A client's half of a WebRTC connection, made as a browser makes it."""

    def __init__(self, client, monkeypatch, lines=2):
        self.client, self.tracks, self.frames = client, [], {}
        # The library leaves loopback out, where both ends of these tests are.
        monkeypatch.setattr(video.aioice.ice, "get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1"])
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.channel = self.connection.createDataChannel("samples", ordered=False, maxRetransmits=0)
        for _ in range(lines):
            self.connection.addTransceiver("video", direction="recvonly")
        self.connection.on("track", self._on_track)
        self._tasks = []

    def _on_track(self, track):
        self.tracks.append(track)
        self.frames[track.id] = []
        self._tasks.append(asyncio.ensure_future(self._look(track)))

    async def _look(self, track):
        with contextlib.suppress(MediaStreamError):
            while True:
                self.frames[track.id].append(await track.recv())

    async def begin(self, change=lambda sdp: sdp):
        await self.connection.setLocalDescription(await self.connection.createOffer())
        seen = len(self.client.of(Answer))
        await self.client.say(Offer(change(self.connection.localDescription.sdp)))
        await until(lambda: len(self.client.of(Answer)) > seen, "an answer")
        answer = self.client.of(Answer)[-1].sdp
        await self.connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        return answer

    async def close(self):
        for task in self._tasks:
            task.cancel()
        await self.connection.close()


def played(scenario):
    """A test that is a coroutine on a `Ground` of its own."""

    def test(monkeypatch):
        async def run():
            async with asyncio.timeout(3 * PATIENCE), Ground() as ground:
                await scenario(ground, monkeypatch)

        asyncio.run(run())

    test.__doc__ = scenario.__doc__
    return test


async def shown(ground, watching, name, grey, at_least=1):
    """Until a client sees a shade of grey, which a camera shows meanwhile again and again."""
    frames = watching.frames[name]
    seen = len(frames)
    picture = jpeg(grey)

    def sees():
        ground.server.picture(name, picture, "jpeg", 0.0)
        new = frames[seen:]
        return len(new) >= at_least and abs(shade(new[-1]) - grey) < 12.0

    await until(sees, f"{name} at {grey}")


def rate(ground, name):
    """[kbit/s] of a stream, as the first client's status says it."""
    server = ground.server
    return server.link_of(next(iter(server.clients)), server._now()).bandwidth_kbit.get(name, 0.0)


def sockets():
    """{(protocol, local address)} of every internet socket of this process."""
    own = set()
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:
            continue
        if target.startswith("socket:["):
            own.add(target[8:-1])
    found = set()
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        with open(f"/proc/self/net/{kind}") as lines:
            for words in (line.split() for line in list(lines)[1:]):
                if words[9] in own:
                    found.add((kind, words[1].partition(":")[0]))
    return found


@played
async def test_two_eyes_reach_the_client_by_name_and_on_loopback_alone(ground, monkeypatch):
    ada = await ground.operator()
    watching = Watching(ada, monkeypatch)
    answer = await watching.begin()
    assert "a=candidate" in answer and all("127.0.0.1" in line for line in answer.splitlines() if "candidate:" in line)
    await until(lambda: watching.connection.connectionState == "connected", "the connection")
    assert [track.id for track in watching.tracks] == ["left_eye", "right_eye"]
    assert ground.server.watched() == {"left_eye", "right_eye"} and ground.audiences
    await shown(ground, watching, "left_eye", 60)
    await shown(ground, watching, "right_eye", 190)
    assert all(address == "0100007F" for _, address in sockets()), sockets()
    await until(lambda: rate(ground, "left_eye") > 0.0, "a rate")
    await watching.close()
    await ada.close()
    await until(lambda: not ground.server.watched(), "the end of looking")


@played
async def test_a_camera_that_ceases_is_shown_dark_and_comes_back(ground, monkeypatch):
    monkeypatch.setattr(video, "STALE", 0.3)
    ada = await ground.operator()
    watching = Watching(ada, monkeypatch, lines=1)
    await watching.begin()
    await until(lambda: watching.tracks, "a track")
    await shown(ground, watching, "left_eye", 200)
    await until(lambda: shade(watching.frames["left_eye"][-1]) < 110.0, "the dark picture")
    ground.server.picture("left_eye", b"no picture", "jpeg", 0.0)
    ground.server.picture("left_eye", b"neither", "tiff", 0.0)
    await shown(ground, watching, "left_eye", 200)
    await watching.close()


@played
async def test_samples_come_by_the_channel_and_nothing_else_does(ground, monkeypatch):
    ada = await ground.operator()
    watching = Watching(ada, monkeypatch, lines=0)
    await watching.begin()
    await until(lambda: watching.channel.readyState == "open", "the channel")
    watching.channel.send(write(Sample(1, ada.now(), None, None, None, (0.1, 0.0, 0.0), None)))
    await until(lambda: ground.samples, "the sample")
    watching.channel.send(write(Take()))
    watching.channel.send(b"\x00\x01")
    await until(lambda: len(ada.of(Refused)) == 2, "two refusals")
    assert "Expected a message of type 'sample' here" in ada.of(Refused)[0].sentence
    await watching.close()


@played
async def test_the_operators_face_is_handed_on_until_it_is_switched_off(ground, monkeypatch):
    class Face(MediaStreamTrack):
        kind = "video"
        ticks = 0

        async def recv(self):
            await asyncio.sleep(0.03)
            self.ticks += 3000
            frame = av.VideoFrame.from_ndarray(np.full((180, 160), 90, np.uint8), format="yuv420p")
            frame.pts, frame.time_base = self.ticks, Fraction(1, 90000)
            return frame

    ada = await ground.operator()
    watching = Watching(ada, monkeypatch, lines=1)
    watching.connection.addTransceiver(Face(), direction="sendonly")
    await watching.begin()
    await until(lambda: ground.faces, "a face")
    (frame,) = av.CodecContext.create("mjpeg", "r").decode(av.Packet(ground.faces[0]))
    assert (frame.width, frame.height) == (160, 120) and ground.faces[0][:2] == b"\xff\xd8"
    await until(lambda: rate(ground, "face") > 0.0, "a rate")
    await ada.press("face_video", False)
    await ada.round_trip()
    await asyncio.sleep(0.2)  # for the one that is being made
    seen = len(ground.faces)
    await asyncio.sleep(0.5)
    assert len(ground.faces) == seen and not ground.buttons
    await ada.press("face_video", True)
    await until(lambda: len(ground.faces) > seen, "the face again")
    await watching.close()


@played
async def test_where_the_network_carries_less_the_eyes_stay(ground, monkeypatch):
    ada = await ground.operator()
    watching = Watching(ada, monkeypatch, lines=3)
    await watching.begin()
    await until(lambda: len(watching.tracks) == 3, "three tracks")
    link = next(iter(ground.server.clients)).video
    await shown(ground, watching, "left_eye", 100)
    assert watching.frames["left_eye"][-1].width == SIZE[0]
    link._apply(Step.RESOLUTION)
    await until(lambda: link._tracks["side"].paused, "the side camera's end")
    await shown(ground, watching, "left_eye", 50)

    def is_small():
        ground.server.picture("left_eye", jpeg(50), "jpeg", 0.0)
        return watching.frames["left_eye"][-1].width == SIZE[0] // 2

    await until(is_small, "a smaller picture")
    assert not link._tracks["right_eye"].paused
    link._apply(Step.NOTHING)
    await shown(ground, watching, "side", 120)
    await watching.close()


@played
async def test_offers_that_are_none_are_refused(ground, monkeypatch):
    ada = await ground.operator()
    for sdp in ("nonsense", "v=0\r\n", "v=0\r\nm=video 9 X 96\r\na=x\r\n" * 2, "v=0" + "\nm=x" * 11):
        seen = len(ada.of(Refused))
        await ada.say(Offer(sdp))
        await until(lambda: len(ada.of(Refused)) > seen, "a refusal")
    assert not ada.closed and not ada.of(Answer)
    watching = Watching(ada, monkeypatch)
    await watching.begin()
    await watching.close()


def test_an_offers_candidates_are_the_machine_that_made_it():
    sdp = (
        "v=0\r\nm=video 9 X 96\r\na=candidate:1 1 udp 2113937151 8d2f.local 50000 typ host\r\n"
        "a=candidate:2 1 udp 1 203.0.113.9 50001 typ srflx\r\n"
    )
    found = video.from_peer(sdp, "127.0.0.1")
    assert "local" not in found and "203.0.113.9" not in found and found.count(" 127.0.0.1 ") == 2
    assert "50001 typ srflx" in found
    with pytest.raises(ValueError, match="at most 12 media and 64 candidates"):
        video.from_peer(sdp * 40, "127.0.0.1")


def test_only_the_newest_picture_is_shown_and_decoded_once_for_all():
    async def run():
        cameras = video.Cameras()
        tracks = [video.CameraTrack("left_eye", cameras["left_eye"], cameras.pool) for _ in range(2)]
        decoded = []
        camera = cameras["left_eye"]
        decode = camera._decode
        camera._decode = lambda picture: decoded.append(picture.number) or decode(picture)
        for grey in (10, 100, 250):
            cameras.take("left_eye", jpeg(grey), "jpeg", asyncio.get_running_loop().time() - 0.05)
        frames = [await track.recv() for track in tracks]
        assert decoded == [3] and [round(shade(frame), -1) for frame in frames] == [250, 250]
        assert all(0.05 <= age < PATIENCE for track in tracks for age in track.ages)
        cameras.take("left_eye", jpeg(30), "jpeg", 0.0)
        later = await tracks[0].recv()
        assert later.pts > frames[0].pts and shade(later) == pytest.approx(30, abs=3)

    asyncio.run(run())
