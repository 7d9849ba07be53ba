"""Video and sound by WebRTC: of each camera the newest picture, and less of everything where the network carries less.

    cameras, microphone = Cameras(), Microphone()
    cameras.take("left_eye", jpeg, "jpeg", at)          # whenever a picture comes
    link = VideoLink(cameras, microphone, ("left_eye", "right_eye"), Ears(heard))
    sdp = await link.answer(offer, "192.168.1.7")        # the answer to the client's offer

A picture is decoded once for everybody who looks at it, and not at all if nobody does. What the client says on its data
channel goes to its `Ears`, with its face and its voice. No server of anybody's is asked for addresses, and pictures go only to the machine that asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import aioice.ice
import av
import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpReceiver, RTCRtpSender, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from aiortc.rtcconfiguration import RTCBundlePolicy
from av.video.reformatter import ColorRange

from nodes.telepresence.degradation import Degradation, Step, is_congested
from nodes.telepresence.session_log import percentiles
from nodes.telepresence.sound import FRAMES, RATE, SOUND, VOICE, Microphone, SoundTrack, Voice, VoicePackets

__all__ = ["Cameras", "CameraTrack", "Ears", "Picture", "VideoLink", "from_peer"]

#: cameras of the face of the robot, whose pictures are needed to steer; all others are side cameras
EYES = ("left_eye", "right_eye")
#: name of what comes from the operator's own camera
FACE = "face"
#: [s] without a picture after which the last one is shown grey, and [s] between two of those
STALE, STALE_PERIOD = 1.0, 0.5
#: pictures larger than this are not decoded [pixels]
LARGEST = 1920 * 1200
#: [s] between two pictures of the operator's face
FACE_PERIOD = 1.0 / 15.0
#: media lines and candidates of an offer
MOST_LINES, MOST_CANDIDATES = 12, 64
#: the one codec of sound in both directions
OPUS = "audio/opus"
#: ticks of a video clock a second
CLOCK = 90000
#: [s] between two looks at what the network carries
WATCH_PERIOD = 1.0
#: of an audio line, by whether the client hears and speaks on it
_DIRECTIONS = {
    (False, False): "inactive",
    (True, False): "sendonly",
    (False, True): "recvonly",
    (True, True): "sendrecv",
}
_DECODERS = {"jpeg": "mjpeg", "jpg": "mjpeg", "png": "png"}
_CANDIDATE = re.compile(r"^a=candidate:(\S+) (\S+) (\S+) (\S+) (\S+) (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Picture:
    """As a camera took it: its bytes and their kind ("jpeg", "png"), when [s], and its number."""

    data: bytes
    kind: str
    at: float
    number: int


class Camera:
    """A camera's newest picture, and who waits for the next."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._waiting: list[asyncio.Future[None]] = []
        self._decoder: tuple[str, Any] = ("", None)
        self._decoding = asyncio.Lock()
        self._decoded: tuple[int, av.VideoFrame | None] = (0, None)
        self.newest: Picture | None = None
        self.broken = 0

    def take(self, data: bytes, kind: str, at: float) -> None:
        """The next picture is there."""
        number = 1 if self.newest is None else self.newest.number + 1
        self.newest = Picture(data, kind, at, number)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def after(self, number: int, patience: float) -> Picture | None:
        """The newest picture, once it is a later one than `number`; None if none comes within `patience` [s]."""
        if self.newest is None or self.newest.number <= number:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            try:
                async with asyncio.timeout(patience):
                    await future
            except TimeoutError:
                self._waiting.remove(future)
        newest = self.newest
        return newest if newest is not None and newest.number > number else None

    async def decoded(self, picture: Picture) -> av.VideoFrame | None:
        """The picture's pixels; None if it is none."""
        async with self._decoding:
            if self._decoded[0] != picture.number:
                frame = await asyncio.get_running_loop().run_in_executor(self._pool, self._decode, picture)
                self.broken += frame is None
                self._decoded = (picture.number, frame)
            return self._decoded[1]

    def _decode(self, picture: Picture) -> av.VideoFrame | None:
        name = _DECODERS.get(picture.kind)
        if name is None:
            return None
        if self._decoder[0] != name:
            self._decoder = (name, av.CodecContext.create(name, "r"))
        try:
            frames = self._decoder[1].decode(av.Packet(picture.data))
        except (av.FFmpegError, ValueError):
            self._decoder = ("", None)
            return None
        return frames[-1] if frames and frames[-1].width * frames[-1].height <= LARGEST else None


class Cameras:
    """All cameras, by name."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(2, "telepresence pictures")
        self._cameras: dict[str, Camera] = {}

    def __getitem__(self, name: str) -> Camera:
        return self._cameras.setdefault(name, Camera(self.pool))

    def take(self, name: str, data: bytes, kind: str, at: float) -> None:
        """A camera's next picture, taken at a time [s] of the loop's clock."""
        self[name].take(data, kind, at)


class CameraTrack(MediaStreamTrack):
    """A camera as one client sees it.

    Args:
        ages: filled with how old each picture is when it is handed to the encoder [s].
    """

    kind = "video"

    def __init__(self, name: str, camera: Camera, pool: ThreadPoolExecutor, ages: deque[float] | None = None) -> None:
        super().__init__()
        self._id = name  # by which a client knows which camera it sees
        self.name = name
        self.divisor = 1
        self.paused = False
        self.ages = deque(maxlen=1000) if ages is None else ages
        self._camera, self._pool = camera, pool
        self._number = 0
        self._last: av.VideoFrame | None = None
        self._start = asyncio.get_running_loop().time()
        self._ticks = -1
        self._is_grey = False

    async def recv(self) -> av.VideoFrame:
        """The next picture that has not been shown; grey, if the camera shows nothing new for a while."""
        while self.readyState == "live":
            if self.paused:
                await asyncio.sleep(STALE_PERIOD)
                continue
            picture = await self._camera.after(self._number, STALE_PERIOD if self._is_grey else STALE)
            if picture is None:
                if self._last is not None:
                    self._is_grey = True
                    return await self._shown(self._last, grey=True)
                continue
            self._number, self._is_grey = picture.number, False
            frame = await self._camera.decoded(picture)
            if frame is not None:
                self._last = frame
                shown = await self._shown(frame, grey=False)
                self.ages.append(asyncio.get_running_loop().time() - picture.at)
                return shown
        raise MediaStreamError

    async def _shown(self, frame: av.VideoFrame, grey: bool) -> av.VideoFrame:
        loop = asyncio.get_running_loop()
        shown = await loop.run_in_executor(self._pool, _prepared, frame, self.divisor, grey)
        self._ticks = max(self._ticks + 1, int((loop.time() - self._start) * CLOCK))
        shown.pts, shown.time_base = self._ticks, Fraction(1, CLOCK)
        return shown


def _prepared(frame: av.VideoFrame, divisor: int, grey: bool) -> av.VideoFrame:
    """A frame as the encoder takes it: smaller by a divisor, even in width and height, and dark grey if it is old."""
    width, height = (max(2, size // divisor // 2 * 2) for size in (frame.width, frame.height))
    # A camera's brightness is from 0 to 255, a video's from 16 to 235.
    shown = frame.reformat(width=width, height=height, format="yuv420p", dst_color_range=ColorRange.MPEG)
    if not grey:
        return shown
    pixels = shown.to_ndarray()
    pixels[:height] = 16 + (np.maximum(pixels[:height], 16) - 16) // 2
    pixels[height:] = 128
    return av.VideoFrame.from_ndarray(pixels, format="yuv420p")


def from_peer(sdp: str, address: str) -> str:
    """An offer whose candidates all are at one address, that of the machine which made the offer.

    A browser hides its addresses behind names that only a look-up by multicast resolves, and anybody may name addresses of
    others as targets.

    Raises:
        ValueError: there is nothing in it, or too much.
    """
    if not sdp.startswith("v=0") or "\nm=" not in sdp:
        raise ValueError("Expected an offer as a session description with media, found none.")
    if sdp.count("\nm=") > MOST_LINES or len(_CANDIDATE.findall(sdp)) > MOST_CANDIDATES:
        raise ValueError(
            f"Expected an offer of at most {MOST_LINES} media and {MOST_CANDIDATES} candidates, found more."
        )
    return _CANDIDATE.sub(rf"a=candidate:\1 \2 \3 \4 {address} \6", sdp)


def _jpeg(frame: av.VideoFrame) -> bytes:
    """A frame as a JPEG file."""
    encoder = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = frame.width, frame.height, "yuvj420p"
    encoder.time_base = Fraction(1, CLOCK)
    frame = frame.reformat(format="yuvj420p")
    frame.pts = None
    return b"".join(bytes(packet) for packet in (*encoder.encode(frame), *encoder.encode(None)))


@dataclass(frozen=True)
class Ears:
    """Who is told what a client says and shows by WebRTC, on the loop's thread.

    Attributes:
        text: gets each text of the data channel. face: gets pictures of the operator's face as JPEG, while `wants_face`.
        voice: gets the operator's voice, (frames, 1) of 16 bits at 48 kHz, and how old its first sample is [s], while `wants_voice`.
        trip: the last ping's way there and back [s]; None: not known.
    """

    text: Callable[[str | bytes], None]
    face: Callable[[bytes], None] = lambda data: None
    wants_face: Callable[[], bool] = lambda: False
    voice: Callable[[np.ndarray, float], None] = lambda samples, age: None
    wants_voice: Callable[[], bool] = lambda: False
    trip: Callable[[], float | None] = lambda: None


class VideoLink:
    """What one client sees and hears, its voice, and the channel on which it says its samples.

    Args:
        cameras, microphone: all there are. streams: names of those that may be asked for, in the order of an offer's video lines.
        ears: for what the client says.

    Attributes:
        rtt: of the link's own pings [ms]; whoever measures it writes it here. loss: share of the packets that got lost.
        degradation: what is given up at present.
    """

    def __init__(self, cameras: Cameras, microphone: Microphone, streams: tuple[str, ...], ears: Ears) -> None:
        self._cameras, self._microphone, self._offered, self._ears = cameras, microphone, streams, ears
        self._connection: RTCPeerConnection | None = None
        self._senders: dict[str, RTCRtpSender] = {}
        self._tracks: dict[str, CameraTrack] = {}
        self._sound: SoundTrack | None = None
        self._dropped_before = 0  # of the microphone's sound, before this client listened
        self._voice: Voice | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent: dict[str, int] = {}
        self._rates: dict[str, float] = {}
        self._best_rtt: float | None = None
        self._shows_face = False
        self.rtt: float | None = None
        self.loss = 0.0
        self.degradation = Degradation()

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the cameras that are looked at."""
        return tuple(self._tracks)

    @property
    def listens(self) -> bool:
        """Whether the robot's sound was asked for."""
        return self._sound is not None

    def bandwidth(self) -> dict[str, float]:
        """[kbit/s] of each stream over the last second."""
        return dict(self._rates)

    def facts(self) -> dict[str, Any]:
        """What was sent and heard: of each stream its size and how old it was at the encoder, and what was given up.

        Of sound also how much of it was dropped [ms].
        """
        streams: dict[str, dict[str, Any]] = {
            name: {"kilobytes": 1e-3 * self._sent.get(name, 0), "age_ms": percentiles(track.ages)}
            for name, track in self._tracks.items()
        }
        if (sound := self._sound) is not None:
            dropped = self._microphone.counts["dropped"] - self._dropped_before + sound.late * FRAMES
            streams[SOUND] = {
                "kilobytes": 1e-3 * self._sent.get(SOUND, 0),
                "age_ms": percentiles(sound.ages),
                "dropped_ms": 1e3 * dropped / RATE,
            }
        if (voice := self._voice) is not None and voice.packets.size:
            streams[VOICE] = {
                "kilobytes": 1e-3 * voice.packets.size,
                "age_ms": percentiles(voice.ages),
                "dropped_ms": 1e3 * voice.dropped / RATE,
                "packets_refused": dict(sorted(voice.packets.counts.items())),
            }
        return {"streams": streams, "steps_down": self.degradation.steps_down}

    async def answer(self, sdp: str, peer: str, local: str = "") -> str:
        """The answer to an offer.

        Args:
            sdp: the offer. peer: address of the client. local: the one address to send from; "": any of this machine's.

        Raises:
            ValueError: the offer cannot be used.
        """
        offer = from_peer(sdp, peer)
        aioice.ice.get_host_addresses = (lambda use_ipv4, use_ipv6: [local]) if local else _HOST_ADDRESSES
        connection = self._connection = RTCPeerConnection(
            RTCConfiguration(iceServers=[], bundlePolicy=RTCBundlePolicy.MAX_BUNDLE)
        )
        connection.on("datachannel", self._on_channel)
        connection.on("track", self._on_track)
        try:
            await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
            self._connect_cameras(connection)
            self._connect_sound(connection)
            await connection.setLocalDescription(await connection.createAnswer())
        except Exception as error:  # the text is a stranger's, and its reader says what is wrong with it in many ways
            raise ValueError(f"The offer cannot be answered: {type(error).__name__}: {str(error)[:200]}.") from None
        self._begin(self._watch())
        return str(connection.localDescription.sdp)

    def _connect_cameras(self, connection: RTCPeerConnection) -> None:
        names = iter(self._offered)
        for transceiver in connection.getTransceivers():
            if transceiver.kind != "video":
                continue
            if "send" not in transceiver._offerDirection:
                transceiver.direction = "recvonly"
                continue
            name = next(names, None)
            if name is None:
                transceiver.direction = "inactive"
                continue
            track = self._tracks[name] = CameraTrack(name, self._cameras[name], self._cameras.pool)
            transceiver.sender.replaceTrack(track)
            transceiver.sender._stream_id = name
            transceiver.direction = "sendonly"
            self._senders[name] = transceiver.sender

    def _connect_sound(self, connection: RTCPeerConnection) -> None:
        """The first audio line that can hear gets the robot's sound, and the first that can speak is the voice."""
        for transceiver in connection.getTransceivers():
            if transceiver.kind != "audio":
                continue
            opus = [codec for codec in transceiver._codecs if codec.mimeType.lower() == OPUS]
            offered = transceiver._offerDirection if opus else "inactive"
            hears = offered in ("sendonly", "sendrecv") and self._sound is None
            speaks = offered in ("recvonly", "sendrecv") and self._voice is None
            if opus:
                transceiver._codecs = opus
            if hears:
                self._begin_sound(transceiver.sender)
            if speaks:
                self._begin_voice(transceiver.receiver)
            transceiver.direction = _DIRECTIONS[hears, speaks]

    def _begin_sound(self, sender: RTCRtpSender) -> None:
        self._sound = SoundTrack()
        self._dropped_before = self._microphone.counts["dropped"]
        self._microphone.attach(self._sound)
        sender.replaceTrack(self._sound)
        sender._stream_id = SOUND
        self._senders[SOUND] = sender

    def _begin_voice(self, receiver: RTCRtpReceiver) -> None:
        packets = VoicePackets(self._ears.wants_voice, asyncio.get_running_loop().time)
        receiver._RTCRtpReceiver__jitter_buffer = packets  # before its first packet; the library offers no other way
        self._voice = Voice(self._ears.voice, packets, self._ears.trip)
        self._begin(self._voice.listen(receiver.track))

    def _on_channel(self, channel: Any) -> None:
        if channel.label == "samples":
            channel.on("message", self._ears.text)

    def _on_track(self, track: MediaStreamTrack) -> None:
        if track.kind == "video":
            self._shows_face = True
            self._begin(self._look_at(track))

    async def _look_at(self, track: MediaStreamTrack) -> None:
        """Take all that the operator's camera sends, so that nothing piles up, and hand on what is wanted."""
        loop, due = asyncio.get_running_loop(), 0.0
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                wanted = self._ears.wants_face() and self.degradation.step < Step.FACE
                if wanted and loop.time() >= due and isinstance(frame, av.VideoFrame):
                    due = loop.time() + FACE_PERIOD
                    self._ears.face(await loop.run_in_executor(self._cameras.pool, _jpeg, frame))

    # -- what the network carries ----------------------------------------------------------------------

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(WATCH_PERIOD)
            now = loop.time()
            await self._measure(now - last)
            last = now
            if self.rtt is not None:
                self._best_rtt = self.rtt if self._best_rtt is None else min(self._best_rtt, self.rtt)
            self._apply(self.degradation.update(is_congested(self.loss, self.rtt, self._best_rtt), now))

    async def _measure(self, seconds: float) -> None:
        losses = []
        voice = 0 if self._voice is None else self._voice.packets.size
        for name, sender in self._senders.items():
            for item in (await sender.getStats()).values():
                if item.type == "outbound-rtp":
                    self._rates[name] = self._rate(name, item.bytesSent, seconds)
                elif item.type == "transport" and self._shows_face and name == next(iter(self._senders)):
                    self._rates[FACE] = self._rate(FACE, item.bytesReceived - voice, seconds)
                elif item.type == "remote-inbound-rtp":
                    losses.append(item.fractionLost / 256.0)
        if self._voice is not None:
            self._rates[VOICE] = self._rate(VOICE, voice, seconds)
        self.loss = max(losses, default=0.0)

    def _rate(self, name: str, size: int, seconds: float) -> float:
        """[kbit/s] of what has grown to a size [bytes]."""
        grown, self._sent[name] = size - self._sent.get(name, 0), size
        return grown * 8e-3 / seconds

    def _apply(self, step: Step) -> None:
        for name, track in self._tracks.items():
            track.paused = step >= Step.SIDE_CAMERAS and name not in EYES
            track.divisor = 2 if step >= Step.RESOLUTION else 1
        if self._sound is not None:
            self._sound.paused = step >= Step.SOUND

    # -- the end -----------------------------------------------------------------------------------------

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End the connection, and send nothing more."""
        for task in list(self._tasks):
            task.cancel()
        for track in self._tracks.values():
            track.stop()
        if self._sound is not None:
            self._microphone.detach(self._sound)
            self._sound.stop()
        self._sound = self._voice = None
        self._tracks, self._senders = {}, {}
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


#: as the library finds them; replaced where only one address may be used
_HOST_ADDRESSES = aioice.ice.get_host_addresses
