"""A person's page played by a program: what the benchmark of teleoperation measures over real sockets.

    command_path(seconds)       the whole simulated graph: how old a sample is when its command leaves
    glass_to_glass(seconds)     two cameras' pictures through the bridge and WebRTC: how old each is when it is decoded

Both begin processes of their own on a ROS domain of their own, and end them.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nodes.telepresence.protocol import Hand, Hello, Offer, Ping, Pong, Sample, write
from nodes.telepresence.protocol_robot import Answer, Refused, Status, Welcome, parse_robot
from scripting.own_domain import own_domain

__all__ = ["command_path", "glass_to_glass"]

START_TIMEOUT = 120.0  # [s] for the graph to run
RATE, PICTURES = 120.0, 30.0  # [Hz] of samples, and of pictures of each camera
SIZE = (640, 480)
STREAMS = ("left_eye", "right_eye")
BITS = 8  # of a picture's number, drawn as black and white bars
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


@contextlib.contextmanager
def _running(words: list[str], domain: int) -> Iterator[Path]:
    """A process of this environment, whose output is the file."""
    with tempfile.TemporaryDirectory(prefix="refit-teleop-") as folder:
        log = Path(folder) / "log"
        environment = {**os.environ, "ROS_DOMAIN_ID": str(domain), "REFIT_RUNS": folder}
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, *words],
                stdout=sink,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=environment,
            )
        try:
            yield log
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


async def _port(log: Path) -> int:
    """Of the page, when the bridge has named it.

    Raises:
        RuntimeError: it never did; the text ends with what was said instead.
    """
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end:
        if found := ADDRESS.search(log.read_text(errors="replace")):
            return int(found.group(1))
        await asyncio.sleep(0.1)
    raise RuntimeError(f"no page within {START_TIMEOUT:g} s:\n{log.read_text(errors='replace')[-2000:]}")


class _Page:
    """One connection as operator, which answers pings and keeps the newest of each message."""

    def __init__(self, socket) -> None:
        self._socket, self.newest, self.ages = socket, {}, []

    async def hello(self) -> None:
        await self.say(Hello(1, "", secrets.token_hex(8), "benchmark", "operator", "openxr"))

    async def say(self, message) -> None:
        await self._socket.send_str(write(message))

    async def listen(self) -> None:
        async for arrived in self._socket:
            message = parse_robot(arrived.data)
            self.newest[type(message)] = message
            if isinstance(message, Ping):
                await self.say(Pong(message.id, _now()))
            elif isinstance(message, Status) and message.link.age_ms is not None:
                self.ages.append(message.link.age_ms)
            elif isinstance(message, Refused):
                raise RuntimeError(f"the bridge refused: {message.sentence}")

    async def until(self, kind: type, condition=lambda message: True):
        end = time.monotonic() + START_TIMEOUT
        while kind not in self.newest or not condition(self.newest[kind]):
            if time.monotonic() > end:
                raise RuntimeError(f"no {kind.__name__} as expected within {START_TIMEOUT:g} s")
            await asyncio.sleep(0.02)
        return self.newest[kind]


def _now() -> float:
    """[ms]"""
    return 1e3 * time.monotonic()


@contextlib.asynccontextmanager
async def _page(port: int):
    import aiohttp

    async with aiohttp.ClientSession() as session, session.ws_connect(f"http://127.0.0.1:{port}/link") as socket:
        page = _Page(socket)
        listening = asyncio.ensure_future(page.listen())
        try:
            await page.hello()
            await page.until(Welcome)
            yield page
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening


# -- commands ----------------------------------------------------------------------------------------------------------


def command_path(seconds: float) -> dict[str, float]:
    """A right hand that moves with its clutch pressed, 120 samples a second, to the avatar in simulation.

    Returns:
        of the newest 500 cycles [ms]: `sample age p95` when a cycle takes the sample, `cycle p95` until its command
        leaves; `command path p95`: their sum, which bounds the path's own; `bridge age p95`: of a sample at the bridge;
        `following`: share of the time in which the arm followed.
    """
    from diagnostic_msgs.msg import DiagnosticArray

    from nodes.framework.polled import take
    from nodes.framework.qos import STATE
    from scripting.client import GraphClient

    with own_domain() as domain:
        client = GraphClient(domain)
        heard: dict[str, str] = {}
        diagnostics = client.poll(DiagnosticArray, "diagnostics", STATE)
        try:
            words = [
                "-P",
                "-m",
                "cli.main",
                "launch",
                "teleop.launch.py",
                "port:=0",
                "arm:=auto",
                "cameras:=none",
                "texture:=none",
            ]
            with _running(words, domain) as log:
                following = asyncio.run(_drive(log, seconds))
                for message, _ in take(diagnostics):
                    for status in message.status:
                        if status.name.rsplit("/", 1)[-1] == "teleop":
                            heard.update({value.key: value.value for value in status.values})
        finally:
            client.close()
    age, cycle = (1e3 * float(heard[f"{name}_p95"]) for name in ("sample_age", "latency"))
    return {"sample age p95": age, "cycle p95": cycle, "command path p95": age + cycle, **following}


async def _drive(log: Path, seconds: float) -> dict[str, float]:
    async with _page(await _port(log)) as page:
        follows, seq, began = [], 0, None
        due = time.monotonic()
        end = due + START_TIMEOUT
        while time.monotonic() < (end if began is None else began + seconds):
            seq += 1
            due += 1.0 / RATE
            t = 0.0 if began is None else time.monotonic() - began
            at = (0.2, 1.1 + 0.05 * np.sin(1.5 * t), -0.4)
            hand = Hand(at, (0.0, 0.0, 0.0, 1.0), clutch=bool(seq % 240 > 20), trigger=0.0)
            await page.say(Sample(seq, _now(), head=None, right=hand, left=None, stick=(0.0, 0.0, 0.0), glove=None))
            status = page.newest.get(Status)
            if status is not None and began is None and status.state == "teleop":
                began = time.monotonic()
                page.ages.clear()
            elif status is not None and began is not None:
                follows.append(status.state == "teleop")
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        if began is None:
            raise RuntimeError(f"the arm never followed: {page.newest.get(Status)}")
        await asyncio.sleep(1.2)  # the node's diagnostics come once a second
        return {"bridge age p95": float(np.percentile(page.ages, 95)), "following": float(np.mean(follows))}


# -- pictures ----------------------------------------------------------------------------------------------------------


def glass_to_glass(seconds: float) -> dict[str, float]:
    """Two cameras at 640 x 480 and 30 Hz, whose messages are published here and whose tracks are decoded here.

    Returns:
        `p50`, `p95` of a picture's age when it is decoded [ms], both cameras together; `frames` decoded per second and camera.
    """
    import threading

    from sensor_msgs.msg import CompressedImage

    from nodes.framework.qos import SENSOR
    from scripting.client import GraphClient

    program = "import sys; from nodes.framework.entry import telepresence_bridge as main; sys.exit(main())"
    words = ["-P", "-c", program, "--ros-args", "-p", "port:=0", "-p", f"streams:={list(STREAMS)}"]
    with own_domain() as domain, _running(words, domain) as log:
        client = GraphClient(domain)
        try:
            _activate(client)
            publishers = [
                client.node.create_publisher(CompressedImage, f"camera/{name}/image/compressed", SENSOR)
                for name in STREAMS
            ]
            files = [
                _barred(number) for number in range(2**BITS)
            ]  # made beforehand: a camera's own work does not count
            published: dict[int, float] = {}
            ended = threading.Event()

            def publish() -> None:
                number, due = 0, time.monotonic()
                while not ended.is_set():
                    number, due = (number + 1) % 2**BITS, due + 1.0 / PICTURES
                    pictures = CompressedImage(format="jpeg", data=files[number])
                    published[number] = time.monotonic()
                    for publisher in publishers:
                        pictures.header.stamp = client.node.get_clock().now().to_msg()
                        publisher.publish(pictures)
                    time.sleep(max(0.0, due - time.monotonic()))

            thread = threading.Thread(target=publish, daemon=True)
            thread.start()
            try:
                ages = asyncio.run(_watch(log, seconds, published))
            finally:
                ended.set()
                thread.join()
        finally:
            client.close()
    p50, p95 = np.percentile(ages, [50, 95])
    return {"p50": 1e3 * float(p50), "p95": 1e3 * float(p95), "frames": len(ages) / seconds / len(STREAMS)}


def _activate(client) -> None:
    from lifecycle_msgs.msg import State, Transition

    for transition, state in (
        (Transition.TRANSITION_CONFIGURE, State.PRIMARY_STATE_INACTIVE),
        (Transition.TRANSITION_ACTIVATE, State.PRIMARY_STATE_ACTIVE),
    ):
        client.change_state("telepresence_bridge", transition, state, START_TIMEOUT)


def _barred(number: int) -> bytes:
    """A JPEG file whose bars say a number."""
    from PIL import Image

    width, height = SIZE
    bits = (number >> np.arange(BITS)) & 1
    picture = np.repeat(np.where(bits, 220, 30).astype(np.uint8), width // BITS)[None].repeat(height, 0)
    noise = np.random.default_rng(number).integers(-20, 20, (height // 8, width // 8))  # texture, as a scene has
    picture = np.clip(picture + np.kron(noise, np.ones((8, 8), int)), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(picture).convert("RGB").save(file, "JPEG", quality=80)
    return file.getvalue()


def _number(picture: np.ndarray) -> int:
    """What the bars of a decoded picture (h, w) say."""
    rows = picture[picture.shape[0] // 4 : -picture.shape[0] // 4].mean(axis=0)
    bars = rows.reshape(BITS, -1).mean(axis=1) > 125
    return int((bars << np.arange(BITS)).sum())


async def _watch(log: Path, seconds: float, published: dict[int, float]) -> list[float]:
    from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
    from aiortc.mediastreams import MediaStreamError

    ages: list[float] = []
    began = [float("inf")]
    async with _page(await _port(log)) as page:
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        looking = []

        async def look(track) -> None:
            with contextlib.suppress(MediaStreamError):
                while True:
                    frame = await track.recv()
                    now = time.monotonic()
                    sent = published.get(_number(frame.to_ndarray(format="gray")))
                    if sent is not None and now > began[0]:
                        ages.append(now - sent)

        for _ in STREAMS:
            connection.addTransceiver("video", direction="recvonly")
        connection.on("track", lambda track: looking.append(asyncio.ensure_future(look(track))))
        await connection.setLocalDescription(await connection.createOffer())
        await page.say(Offer(connection.localDescription.sdp))
        answer = await page.until(Answer)
        await connection.setRemoteDescription(RTCSessionDescription(answer.sdp, "answer"))
        await asyncio.sleep(2.0)  # the coder finds its rate
        began[0] = time.monotonic()
        await asyncio.sleep(seconds)
        for task in looking:
            task.cancel()
        await connection.close()
    return ages
