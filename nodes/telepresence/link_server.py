"""The server of the operator's page and of its WebSocket `/link`: hellos, roles, samples, buttons, pings, and the status.

    server = LinkServer(settings, listener)
    port = await server.start()
    server.show(status)              # to everybody, 20 times a second
    await server.stop()

All of it runs on one asyncio loop. Nothing that comes is evaluated, and nothing is handed on before it has passed the
door, the quota and the schema. Page: docs/telepresence_protocol.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import secrets
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import numpy as np
from aiohttp import WSCloseCode, WSMsgType, web

from nodes.telepresence.access import NotAdmitted, Occupied, Seat, is_own_name, is_own_page
from nodes.telepresence.client import Client
from nodes.telepresence.link_settings import LinkSettings, Listener
from nodes.telepresence.media import Media
from nodes.telepresence.page_files import HEADERS, page_files
from nodes.telepresence.protocol import (
    MAX_BYTES,
    VERSION,
    Adjust,
    Button,
    ClientMessage,
    Hello,
    Message,
    Offer,
    Ping,
    Pong,
    Release,
    Sample,
    Take,
    parse,
)
from nodes.telepresence.protocol_robot import Answer, LinkNumbers, Operator, Refused, Status, Welcome
from nodes.telepresence.sample_stream import SampleStream
from nodes.telepresence.session_log import SessionLog
from nodes.telepresence.strict_json import SchemaError
from nodes.view.stage.page import is_loopback

__all__ = ["LinkServer"]

#: [s] for a hello after the connection; [s] of silence after which a connection is given up
HELLO_LIMIT, SILENCE_LIMIT = 5.0, 10.0
#: [s] between two pings
PING_PERIOD = 0.2
#: [s] after which a button is no longer what the operator wants; a stop always is
BUTTON_AGE = 1.0
#: connections that have not said hello yet
STRANGERS = 16
#: [s] by which the answer to a wrong token is held back
WRONG_TOKEN_PAUSE = 0.5
#: [s] for the last words to a client
FAREWELL = 0.5
#: sessions that are remembered for the report
SESSIONS = 10_000
#: said to an operator who wants to speak
NOBODY_HEARS = "'speak' was not done: nothing on the robot plays a voice. Start its node 'speaker', or teleop.launch.py with voice:=default."


class LinkServer:
    """See the module's docstring.

    Attributes:
        clients: that are connected. counts: what happened, by name. sessions: facts of those that are over.
    """

    def __init__(self, settings: LinkSettings, listener: Listener) -> None:
        self._settings, self._listener = settings, listener
        self._files = page_files(settings.page)
        self._seat: Seat[Client] = Seat()
        self._runner: web.AppRunner | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._media = Media(settings.streams, settings.host if is_loopback(settings.host) else "")
        self._face_on = True
        self.clients: dict[Client, web.WebSocketResponse] = {}
        self.counts: Counter[str] = Counter()
        self.sessions: deque[dict[str, Any]] = deque(maxlen=SESSIONS)

    # -- beginning and end ---------------------------------------------------------------------------

    async def start(self) -> int:
        """Listen; returns the port.

        Raises:
            ValueError: the port is taken or not allowed, or the address is none of this machine's.
        """
        settings = self._settings
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/link", self._link)
        app.router.add_get("/{path:.*}", self._file)
        self._runner = web.AppRunner(app, access_log=None, keepalive_timeout=15.0, shutdown_timeout=FAREWELL)
        await self._runner.setup()
        site = web.TCPSite(self._runner, settings.host, settings.port, ssl_context=settings.tls)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise ValueError(
                f"the operator's page wants port {settings.port} of {settings.host} ({error.strerror}); "
                "give another, or 0 for a free one"
            ) from None
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Say farewell to everybody, and listen no more."""
        for client in self.clients:
            client.how_it_ended = "the bridge ended"
        farewells = [
            socket.close(code=WSCloseCode.GOING_AWAY, message=b"the bridge ends") for socket in self.clients.values()
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await asyncio.gather(*farewells, return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        for client in list(self.clients):
            await self._end_session(client)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- what others read ------------------------------------------------------------------------------

    @property
    def operator(self) -> Client | None:
        """Who drives."""
        return self._seat.holder

    def audience(self) -> list[Client]:
        """Everybody who has been welcomed."""
        return [client for client in self.clients if client.is_in]

    def watched(self) -> set[str]:
        """Cameras that somebody looks at."""
        return {name for client in self.clients if client.video is not None for name in client.video.streams}

    def show(self, status: Status) -> None:
        """Show everybody the robot's status; time and link are each client's own."""
        now = self._now()
        for client in self.audience():
            client.outbox.show(dataclasses.replace(status, t=1e3 * now, link=self.link_of(client, now)))

    def tell(self, message: Message) -> None:
        """Say something to everybody who has been welcomed."""
        for client in self.audience():
            client.say(message)

    def picture(self, name: str, data: bytes, kind: str, age: float) -> None:
        """A camera's newest picture: its bytes, as of `kind` ("jpeg", "png"), and how old it is [s]."""
        self._media.picture(name, data, kind, self._now() - age)

    @property
    def is_listened_to(self) -> bool:
        """Whether somebody listens to the robot's sound."""
        return any(client.video is not None and client.video.listens for client in self.clients)

    def sound(self, samples: np.ndarray, rate: int, age: float) -> None:
        """A chunk of the microphone's sound: 16-bit samples (frames, 1 or 2), and how old the first one is [s]."""
        self._media.sound(samples, rate, self._now() - age)
        self.counts |= Counter(self._media.counts)

    def link_of(self, client: Client, now: float) -> LinkNumbers:
        """The link to a client, measured."""
        rates = {"samples": client.samples.kbit(now), "status": client.outbox.meter.kbit(now)}
        if client.video is not None:
            rates |= client.video.bandwidth()
        rates = {name: round(rate, 1) for name, rate in rates.items()}
        if client.stream is None:
            return LinkNumbers(bandwidth_kbit=rates)
        numbers = client.stream.numbers(rates)
        if client.video is not None:
            trip = client.stream.newest_trip
            client.video.rtt = None if trip is None else 1e3 * trip
        return numbers

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    # -- the page --------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Callable[..., Any]) -> web.StreamResponse:
        """Answer only who asked for this server by its name, and tell browsers what the page may do."""
        try:
            if not is_own_name(request.host, self._settings.host):
                raise web.HTTPForbidden(text="This server answers to the names of this machine alone.\n")
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _file(self, request: web.Request) -> web.StreamResponse:
        found = self._files.get(request.path)
        if found is None:
            if request.path == "/" and not self._files:
                raise web.HTTPNotFound(text="The operator's page is not installed; clients reach the robot at /link.\n")
            raise web.HTTPNotFound(text="There is nothing here.\n")
        return web.FileResponse(found.path, headers={"Content-Type": found.kind})

    # -- a connection ------------------------------------------------------------------------------------

    async def _link(self, request: web.Request) -> web.StreamResponse:
        if not is_own_page(request.headers.get("Origin"), request.host, self._settings.host):
            raise web.HTTPForbidden(text="Only the robot's own page may connect.\n")
        socket = web.WebSocketResponse(max_msg_size=4 * MAX_BYTES, compress=False, timeout=FAREWELL, writer_limit=65536)
        try:
            await socket.prepare(request)
        except ConnectionError:  # a client that gave up before it was answered is nothing to be told of
            raise web.HTTPBadRequest(text="The client is gone.\n") from None
        transport = request.transport
        assert transport is not None
        client = Client(socket.send_str, transport.abort, request.remote or "", self._now())
        strangers = sum(not other.is_in for other in self.clients)
        crowded = strangers >= STRANGERS or len(self.clients) - strangers >= self._settings.clients
        self.clients[client] = socket
        writer = self._begin(self._write(client))
        try:
            if crowded:
                raise NotAdmitted("busy", "Too many clients are connected; try again when somebody has left.")
            await self._welcome(client, await self._hello(socket))
            await self._converse(client, socket)
        except NotAdmitted as error:
            self.counts[f"refused_{error.code}"] += 1
            client.say(Refused(error.code, str(error)))
        finally:
            del self.clients[client]
            if self._seat.leave(client):
                self._say_who_drives()
            client.outbox.end()
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(FAREWELL):
                    await asyncio.shield(writer)
            writer.cancel()
            await self._end_session(client)
            self._listener.audience()
            await socket.close(code=WSCloseCode.POLICY_VIOLATION if not client.is_in else WSCloseCode.OK)
        return socket

    async def _write(self, client: Client) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: aiohttp's word for a closed socket
            await client.outbox.run()
        if client in self.clients:  # too much waited, or the network is gone
            client.abort()

    async def _hello(self, socket: web.WebSocketResponse) -> Hello:
        try:
            async with asyncio.timeout(HELLO_LIMIT):
                arrived = await socket.receive()
        except TimeoutError:
            raise NotAdmitted("schema", f"Expected a hello within {HELLO_LIMIT:g} s, found silence.") from None
        if arrived.type is not WSMsgType.TEXT:
            raise NotAdmitted("schema", "Expected a hello as text, found something else.")
        try:
            hello = parse(arrived.data)
        except SchemaError as error:
            raise NotAdmitted(error.code, str(error)) from None
        if not isinstance(hello, Hello):
            raise NotAdmitted("schema", f"Expected a hello first, found a message of type '{hello.type}'.")
        return hello

    async def _welcome(self, client: Client, hello: Hello) -> None:
        """Let somebody in, in the role that it asks for.

        Raises:
            NotAdmitted
        """
        try:
            self._settings.door.admit(hello)
        except NotAdmitted as error:
            if error.code == "token":
                await asyncio.sleep(WRONG_TOKEN_PAUSE)
            raise
        client.name, client.axes = hello.name, hello.axes
        if hello.role == "operator":
            await self._sit_down(client)
        self._give_role(client, hello.role)
        if hello.role == "watcher":
            client.say(Operator(self._seat.name or None))
        self._listener.audience()

    async def _sit_down(self, client: Client) -> None:
        """Have the operator's seat, as soon as it is certain whether somebody is in it who has fallen silent.

        Raises:
            Occupied
        """
        while True:
            try:
                lost = self._seat.take(client, client.name, self._now())
            except Occupied as occupied:
                if occupied.again is None:
                    raise
                await asyncio.sleep(min(occupied.again, PING_PERIOD))
                continue
            if lost is not None:
                self.counts["displaced"] += 1
                self._dismiss(lost, Refused("occupied", f"Your link was silent, and {client.name} has taken over."))
            return

    def _give_role(self, client: Client, role: str) -> None:
        """A hand-shake: a session of its own, to which nothing said before belongs."""
        settings, now = self._settings, self._now()
        self._close_log(client, f"became {role}")
        client.speaks = False
        client.role, client.session = role, secrets.token_hex(8)
        client.stream = SampleStream(client.session)
        date = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        client.log = SessionLog(client.session, client.name, role, client.address, now, date, client.stream)
        client.say(
            Welcome(VERSION, client.session, role, settings.robot, settings.title, settings.streams, settings.limits)
        )
        client.say(client.stream.ping(now))
        self.counts["sessions"] += 1
        if role == "operator":
            self._say_who_drives()

    def _close_log(self, client: Client, how: str) -> None:
        log, client.log = client.log, None
        if log is not None:
            log.measure("status", client.outbox.meter.size)
            self.sessions.append(log.facts(self._now(), client.heard, how))

    async def _end_session(self, client: Client) -> None:
        await self._end_video(client)
        self._close_log(client, client.how_it_ended)

    def _say_who_drives(self) -> None:
        self.tell(Operator(self._seat.name or None))

    def _dismiss(self, client: Client, why: Refused) -> None:
        """Send a client away with a sentence."""
        self.counts[f"refused_{why.code}"] += 1
        client.dismissed, client.how_it_ended = True, f"sent away: {why.code}"
        if self._seat.leave(client):
            self._say_who_drives()
        client.say(why)
        client.outbox.end()
        if (socket := self.clients.get(client)) is not None:
            self._begin(self._close(client, socket))

    async def _close(self, client: Client, socket: web.WebSocketResponse) -> None:
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(FAREWELL):
                await socket.close(code=WSCloseCode.POLICY_VIOLATION)
        if client in self.clients:
            client.abort()

    # -- a conversation ------------------------------------------------------------------------------------

    async def _converse(self, client: Client, socket: web.WebSocketResponse) -> None:
        pinger = self._begin(self._keep_pinging(client))
        try:
            async for arrived in socket:
                if arrived.type is WSMsgType.TEXT:
                    self._hear(client, arrived.data)
                elif arrived.type is WSMsgType.BINARY:
                    self._hear(client, b"\0")  # no message is binary
        finally:
            pinger.cancel()

    async def _keep_pinging(self, client: Client) -> None:
        while self._now() < client.heard + SILENCE_LIMIT:
            await asyncio.sleep(PING_PERIOD)
            if client.speaks and not self._listener.hears_voice():
                self._let_speak(client, True)  # which is refused: who listened is gone
            if client.stream is not None:
                client.say(client.stream.ping(self._now()))
        self.counts["silent"] += 1
        client.how_it_ended = "silent"
        client.abort()

    def _hear(self, client: Client, text: str | bytes, only: type[ClientMessage] | None = None) -> None:
        """Take what a client says; `only`: the one kind of message that may come this way."""
        if client.dismissed:
            return
        now = self._now()
        client.heard = now
        self._seat.hear(client, now)
        if not client.quota.allows("any", now):
            self._drop_excess(client)
            return
        try:
            message = parse(text)
            if only is not None and not isinstance(message, only):
                raise SchemaError(f"Expected a message of type '{only.type}' here, found one of type '{message.type}'.")
        except SchemaError as error:
            self._refuse_nonsense(client, error, now)
            return
        if not client.quota.allows(message.type, now):
            self._drop_excess(client)
            return
        self._take(client, message, len(text), now)

    def _count_dropped(self, client: Client, why: str) -> None:
        self.counts[f"dropped_{why}"] += 1
        if client.log is not None:
            client.log.dropped[why] += 1

    def _drop_excess(self, client: Client) -> None:
        self._count_dropped(client, "rate")
        if client.quota.flooding:
            self._dismiss(
                client, Refused("rate", "Too many messages came; a sample is wanted 120 times a second at most.")
            )

    def _refuse_nonsense(self, client: Client, error: SchemaError, now: float) -> None:
        self._count_dropped(client, "schema")
        client.quota.mistake(now)
        if client.quota.senseless:
            self._dismiss(client, Refused(error.code, f"Too many wrong messages came. {error}"))
        else:
            client.say(Refused(error.code, str(error)))

    def _take(self, client: Client, message: ClientMessage, size: int, now: float) -> None:
        assert client.stream is not None
        match message:
            case Sample():
                client.samples.add(size, now)
                if client.log is not None:
                    client.log.measure("samples", size)
                self._take_sample(client, message, now)
            case Ping():
                client.say(Pong(message.id, 1e3 * now))
            case Pong():
                client.stream.pong(message, now)
            case Button():
                self._take_button(client, message, now)
            case Adjust():
                if self._may_ask(client, message, now):
                    self._listener.adjust(message.name, message.value, client.say)
            case Take():
                self._take_seat(client, now)
            case Release():
                if self._seat.leave(client):
                    self._give_role(client, "watcher")
                    self._say_who_drives()
            case Offer():
                self._begin(self._answer(client, message))
            case Hello():
                client.say(Refused("schema", "Expected one hello in a connection, found another; connect anew."))

    def _take_sample(self, client: Client, sample: Sample, now: float) -> None:
        assert client.stream is not None
        if not client.drives:
            self._count_dropped(client, "watcher")
            return
        age, why = client.stream.take(sample, now)
        if why:
            self._count_dropped(client, why)
        else:
            self.counts["taken"] += 1
            self._listener.sample(client, sample, age)

    def _may_ask(self, client: Client, asked: Button | Adjust, now: float) -> bool:
        """Whether somebody may ask for something now, who is told otherwise; what is done is counted."""
        assert client.stream is not None
        if asked.name != "stop":  # which anybody may press, at any time
            if not client.drives:
                client.say(Refused("occupied", f"Only the operator can press '{asked.name}'; a stop is everybody's."))
                return False
            age = client.stream.age(asked.t, now)
            if age is None or age > BUTTON_AGE:
                self._count_dropped(client, "button")
                client.say(Refused("busy", f"'{asked.name}' came too late and was not done; press it again."))
                return False
        self.counts["buttons"] += 1
        if client.log is not None:
            client.log.buttons[asked.name] += 1
        return True

    def _take_button(self, client: Client, button: Button, now: float) -> None:
        if not self._may_ask(client, button, now):
            return
        if button.name == "face_video":
            self._face_on = button.value
        elif button.name == "speak":
            self._let_speak(client, button.value)
        else:
            self._listener.button(button.name, button.value, client.say)

    def _let_speak(self, client: Client, on: bool) -> None:
        if on and not self._listener.hears_voice():
            client.say(Refused("busy", NOBODY_HEARS))
            on = False
        client.speaks = on

    def _wants_voice(self, client: Client) -> bool:
        return client.speaks and self._seat.holder is client

    def _take_seat(self, client: Client, now: float) -> None:
        if client.drives:
            return
        try:
            lost = self._seat.take(client, client.name, now)
        except Occupied as occupied:
            self.counts["refused_occupied"] += 1
            client.say(Refused(occupied.code, str(occupied)))
            return
        if lost is not None:
            self.counts["displaced"] += 1
            self._dismiss(lost, Refused("occupied", f"Your link was silent, and {client.name} has taken over."))
        self._give_role(client, "operator")
        self._listener.audience()

    # -- video ---------------------------------------------------------------------------------------------

    async def _answer(self, client: Client, offer: Offer) -> None:
        """Connect a client to cameras, microphone and loudspeaker; a later offer replaces an earlier one."""
        from nodes.telepresence.video import Ears

        async with client.video_lock:
            await self._end_video(client)
            if client not in self.clients:
                return
            ears = Ears(
                functools.partial(self._hear_channel, client),
                self._listener.face,
                lambda: self._face_on and client.drives and self._listener.wants_face(),
                self._listener.voice,
                functools.partial(self._wants_voice, client),
                lambda: None if client.stream is None else client.stream.newest_trip,
            )
            try:
                video, sdp = await self._media.connect(offer.sdp, client.address, ears)
            except ValueError as error:
                self.counts["refused_offer"] += 1
                client.say(Refused("schema", str(error)))
                return
            if client not in self.clients:
                await video.close()
                return
            client.video = video
            client.say(Answer(sdp))
        self._listener.audience()

    def _hear_channel(self, client: Client, text: str | bytes) -> None:
        if client in self.clients and client.is_in:
            self._hear(client, text, only=Sample)

    async def _end_video(self, client: Client) -> None:
        video, client.video = client.video, None
        if video is not None:
            if client.log is not None:
                client.log.video.append(video.facts())
            await video.close()
