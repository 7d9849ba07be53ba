"""A client of the link on a socket of its own, with a clock of its own; and a server with somebody who listens."""

import asyncio
import contextlib
import itertools
import time

import aiohttp

from nodes.telepresence.access import Door
from nodes.telepresence.link_server import LinkServer
from nodes.telepresence.link_settings import LinkSettings, Listener
from nodes.telepresence.protocol import Adjust, Button, Hand, Hello, Ping, Pong, Sample, write
from nodes.telepresence.protocol_robot import (
    Joints,
    LinkNumbers,
    Place,
    Status,
    SupervisorWords,
    Welcome,
    parse_robot,
)

#: [s] for anything that has to happen, far beyond what an idle machine needs
PATIENCE = 60.0
NOWHERE = Place((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
STATUS = Status(
    0.0, "idle", 0, "", "", (False, False), ("", ""), ("", ""), (NOWHERE, NOWHERE), (NOWHERE, NOWHERE), (0.0, 0.0),
    (0.0, 0.0), 1.0, (0.0, 0.0, 0.0), SupervisorWords(), LinkNumbers(), Joints(),
)  # fmt: skip
_nonces = itertools.count(int(time.time_ns()))


async def still(count, what="count"):
    """Let the loop run until a count has not changed for half a second, and return it; fails after PATIENCE."""
    end = time.monotonic() + PATIENCE
    before = None
    while (now := count()) != before:
        assert time.monotonic() < end, f"{what} did not come to rest within {PATIENCE:g} s"
        before = now
        await asyncio.sleep(0.5)
    return now


def fresh():
    """A nonce that nobody has used."""
    return f"{next(_nonces) & (1 << 64) - 1:016x}"


async def until(condition, what="condition"):
    """Let the loop run until something is so; fails after PATIENCE."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what} did not come within {PATIENCE:g} s"
        await asyncio.sleep(0.005)


class LinkClient:
    """One connection.

    Args:
        offset: [s] of its clock before the robot's.
    """

    def __init__(self, session, url, offset=0.0, **options):
        self._session, self._url, self._options = session, url, options
        self.offset, self.answers = offset, True
        self.received, self.seq = [], 0
        self.socket = self._reader = None

    def now(self):
        """[ms] of its clock."""
        return 1e3 * (time.monotonic() + self.offset)

    async def connect(self):
        self.socket = await self._session.ws_connect(self._url, max_msg_size=0, **self._options)
        self._reader = asyncio.ensure_future(self._read())
        return self

    async def _read(self):
        async for arrived in self.socket:
            message = parse_robot(arrived.data)
            if isinstance(message, Ping) and self.answers:
                with contextlib.suppress(OSError):
                    await self.say(Pong(message.id, self.now()))
            self.received.append(message)

    async def say(self, message):
        await self.socket.send_str(message if isinstance(message, str) else write(message))

    async def hello(self, role="operator", name="Ada", token="", nonce=None, axes="openxr"):
        """Says hello and waits for the first answer, which it returns."""
        seen = len(self.received)
        await self.say(Hello(1, token, nonce or fresh(), name, role, axes))
        await until(lambda: len(self.received) > seen or self.closed, "an answer to the hello")
        return self.received[seen]

    async def aligned(self):
        """Until the robot must have heard an answer to a ping: this client's own later ping is answered."""
        await until(lambda: any(isinstance(m, Ping) for m in self.received), "a ping")
        await self.round_trip()

    async def round_trip(self):
        """Until everything said so far has been heard."""
        number = next(_nonces) & (1 << 52) - 1
        await self.say(Ping(number, self.now()))
        await until(lambda: self.closed or any(m == Pong(number, m.t) for m in self.of(Pong)), "an answer to a ping")

    async def sample(self, seq=None, age=0.0, **fields):
        """Says a sample that is `age` [s] old."""
        self.seq = self.seq + 1 if seq is None else seq
        hand = Hand((0.2, 1.1, -0.4), (0.0, 0.0, 0.0, 1.0), clutch=True, trigger=0.5)
        values = {"head": None, "right": hand, "left": None, "stick": (0.0, 0.0, 0.0), "glove": None} | fields
        await self.say(Sample(self.seq, self.now() - 1e3 * age, **values))

    async def press(self, name, value=True, age=0.0):
        await self.say(Button(1, self.now() - 1e3 * age, name, value))

    async def adjust(self, name, value, age=0.0):
        await self.say(Adjust(1, self.now() - 1e3 * age, name, value))

    def of(self, kind):
        """Received messages of a type."""
        return [message for message in self.received if isinstance(message, kind)]

    @property
    def closed(self):
        return self._reader.done()

    @property
    def welcome(self):
        """The newest."""
        return self.of(Welcome)[-1]

    def vanish(self):
        """As a network that goes away: nothing is heard or said any more, and the connection is not closed."""
        self._reader.cancel()
        self.answers = False

    async def close(self):
        await self.socket.close()


class Network:
    """Between clients and a server: every byte comes `delay` [s] later, and none while it is `gone`."""

    def __init__(self, port, delay=0.0):
        self._port, self.delay = port, delay
        self._back = asyncio.Event()
        self._back.set()
        self._tasks = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()

    def go(self):
        self._back.clear()

    def come_back(self):
        self._back.set()

    async def _connect(self, reader, writer):
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
        for pair in ((reader, inner_writer), (inner_reader, writer)):
            waiting = asyncio.Queue()
            for work in (self._take(pair[0], waiting), self._give(pair[1], waiting)):
                self._tasks.add(asyncio.ensure_future(work))

    async def _take(self, reader, waiting):
        data = b"x"
        while data:
            data = await reader.read(65536)
            waiting.put_nowait((asyncio.get_running_loop().time() + self.delay, data))

    async def _give(self, writer, waiting):
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            await self._back.wait()
            if not data:
                writer.close()
                return
            writer.write(data)


class Ground:
    """A server, what it has told its listener, and clients."""

    def __init__(self, token=None, **settings):
        self.samples, self.buttons, self.audiences, self.faces = [], [], [], []
        self.voices, self.adjusted = [], []
        self.wants_face = self.hears_voice = True
        self.server = LinkServer(
            LinkSettings(
                Door(token),
                **{"robot": "avatar", "title": "Avatar", "streams": ("left_eye", "right_eye", "side")} | settings,
            ),
            Listener(
                lambda client, sample, age: self.samples.append((client.session, sample, age)),
                lambda name, value, reply: self.buttons.append((name, value, reply)),
                lambda: self.audiences.append(len(self.server.audience())),
                self.faces.append,
                lambda: self.wants_face,
                lambda samples, age: self.voices.append((samples, age)),
                lambda: self.hears_voice,
                lambda name, value, reply: self.adjusted.append((name, value, reply)),
            ),
        )

    async def __aenter__(self):
        self.port = await self.server.start()
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *_):
        await self.server.stop()
        await self.http.close()

    async def client(self, offset=0.0, url="", **options):
        """A connection that has not said hello."""
        return await LinkClient(self.http, f"{url or self.url}/link", offset, **options).connect()

    async def operator(self, offset=0.0, url="", **words):
        """A client that has been welcomed, and whose clock is known."""
        client = await self.client(offset, url)
        assert isinstance(await client.hello(**words), Welcome), client.received
        await client.aligned()
        return client
