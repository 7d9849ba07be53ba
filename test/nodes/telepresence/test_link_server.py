"""The server over real sockets: who is let in, what is handed on, and what bad days do to it."""

import asyncio
import json
import random
import socket

import aiohttp
import pytest
from link_client import PATIENCE, STATUS, Ground, Network, fresh, until

from nodes.telepresence import link_server
from nodes.telepresence.access import tls_context
from nodes.telepresence.protocol import Hello, Ping, Release, Sample, Take, write
from nodes.telepresence.protocol_robot import Operator, Refused, Status, Welcome
from nodes.telepresence.quota import FLOOD, WRONG

TOKEN = "a-token-of-22-letters."


def played(scenario):
    """A test that is a coroutine on a `Ground` of its own."""

    def test():
        async def run():
            async with asyncio.timeout(3 * PATIENCE), Ground() as ground:
                await scenario(ground)

        asyncio.run(run())

    test.__doc__ = scenario.__doc__
    return test


# -- let in, and handed on -------------------------------------------------------------------------


@played
async def test_a_sample_comes_through_with_its_age_and_session(ground):
    ada = await ground.operator()
    assert ada.received[0] == Welcome(1, ada.welcome.session, "operator", "avatar", "Avatar", *[
        ("left_eye", "right_eye", "side"), ada.welcome.limits,
    ])  # fmt: skip
    await ada.sample(stick=(0.5, 0.0, -1.0))
    await until(lambda: ground.samples, "the sample")
    session, sample, age = ground.samples[0]
    assert session == ada.welcome.session and len(session) == 16
    assert sample.right.trigger == 0.5 and sample.left is None and sample.stick == (0.5, 0.0, -1.0)
    assert age >= 0.0


@pytest.mark.parametrize("offset", [0.0, 3 * 3600.0, -86400.0, 1e9])
def test_a_clock_that_is_off_by_hours_is_no_trouble(offset):
    @played
    async def scenario(ground):
        ada = await ground.operator(offset)
        await ada.sample()
        await ada.sample(age=100.0)
        await ada.round_trip()
        assert [sample.seq for _, sample, _ in ground.samples] == [1]
        assert ground.server.counts["dropped_stale"] == 1

    scenario()


@played
async def test_samples_whose_age_is_not_known_yet_are_not_handed_on(ground):
    ada = await ground.client()
    ada.answers = False
    await ada.hello()
    await ada.sample()
    await ada.round_trip()
    assert not ground.samples and ground.server.counts["dropped_unaligned"] == 1


@played
async def test_old_and_repeated_samples_are_dropped_and_counted(ground):
    ada = await ground.operator()
    for seq in (5, 5, 4, 6):
        await ada.sample(seq=seq)
    await ada.sample(seq=7, age=0.3)
    await ada.round_trip()
    assert [sample.seq for _, sample, _ in ground.samples] == [5, 6]
    counts = ground.server.counts
    assert counts["dropped_order"] == 2 and counts["dropped_stale"] == 1 and counts["taken"] == 2


@played
async def test_what_watchers_say_of_hands_is_not_handed_on(ground):
    bob = await ground.operator(role="watcher", name="Bob")
    await bob.sample()
    await bob.press("home")
    await bob.round_trip()
    assert not ground.samples and not ground.buttons and ground.server.counts["dropped_watcher"] == 1
    assert "Only the operator" in bob.of(Refused)[-1].sentence and not bob.closed


@played
async def test_anybody_may_stop_and_late_buttons_are_not_done(ground):
    ada = await ground.operator()
    bob = await ground.operator(role="watcher", name="Bob")
    await bob.press("stop", age=100.0)
    await ada.press("home")
    await ada.press("home", age=5.0)
    for client in (ada, bob):
        await client.round_trip()
    assert sorted(name for name, _, _ in ground.buttons) == ["home", "stop"]
    assert "came too late" in ada.of(Refused)[-1].sentence
    ground.buttons[0][2](Refused("busy", "No supervisor is there."))
    await until(lambda: [*ada.of(Refused)[1:], *bob.of(Refused)], "the answer at whoever pressed")


@played
async def test_the_operator_alone_adjusts_and_not_too_late(ground):
    ada, bob = await ground.operator(), await ground.operator(role="watcher", name="Bob")
    await ada.adjust("head_yaw", 0.3)
    await ada.adjust("eye_distance", 0.063)
    await until(lambda: len(ground.adjusted) == 2, "both")
    assert [(name, value) for name, value, _ in ground.adjusted] == [("head_yaw", 0.3), ("eye_distance", 0.063)]
    await bob.adjust("head_yaw", 0.3)
    await ada.adjust("head_yaw", 0.3, age=5.0)
    await ada.adjust("head_yaw", 4.0)
    await until(lambda: bob.of(Refused) and len(ada.of(Refused)) == 2, "three refusals")
    assert "Only the operator can press 'head_yaw'" in bob.of(Refused)[0].sentence
    assert "'head_yaw' came too late" in ada.of(Refused)[0].sentence and ada.of(Refused)[1].code == "schema"
    assert len(ground.adjusted) == 2 and not ground.buttons
    ground.adjusted[0][2](Refused("busy", "'head_yaw' was not done: no teleop node is there to be asked."))
    await until(lambda: len(ada.of(Refused)) == 3, "the answer")


@played
async def test_everybody_is_shown_the_status_with_the_numbers_of_his_own_link(ground):
    ada = await ground.operator()
    bob = await ground.operator(role="watcher", name="Bob")
    for _ in range(10):
        await ada.sample()
    await ada.round_trip()
    ground.server.show(STATUS)
    await until(lambda: ada.of(Status) and bob.of(Status), "a status")
    numbers = ada.of(Status)[0].link
    assert numbers.rtt_ms > 0.0 and numbers.loss == 0.0 and numbers.age_ms is not None
    assert numbers.bandwidth_kbit["samples"] > 0.0
    assert bob.of(Status)[0].link.bandwidth_kbit["samples"] == 0.0 and ada.of(Status)[0].t != 0.0


@played
async def test_a_seat_is_handed_over(ground):
    ada = await ground.operator()
    bob = await ground.operator(role="watcher", name="Bob")
    assert bob.of(Operator) == [Operator("Ada")]
    await bob.say(Take())
    await bob.round_trip()
    assert bob.of(Refused)[-1].code == "occupied" and "Ada drives the robot" in bob.of(Refused)[-1].sentence
    before = ada.welcome.session
    await ada.say(Release())
    await ada.round_trip()
    assert ada.welcome.role == "watcher" and ada.welcome.session != before
    await bob.say(Take())
    await until(lambda: bob.welcome.role == "operator", "the seat")
    await until(lambda: ada.of(Operator)[-1] == Operator("Bob"), "word of it")
    await bob.aligned()
    await until(lambda: bob.received[-1] != bob.welcome)
    await ada.sample()
    await bob.sample()
    for client in (ada, bob):
        await client.round_trip()
    assert [session for session, _, _ in ground.samples] == [bob.welcome.session]


@played
async def test_a_second_operator_is_refused_with_a_sentence(ground):
    await ground.operator()
    bob = await ground.client()
    answer = await bob.hello(name="Bob")
    assert answer == Refused("occupied", "Ada drives the robot; ask for a release, or watch.")
    await until(lambda: bob.closed, "the end of the connection")
    assert (await (await ground.client()).hello(name="Bob", role="watcher")).role == "watcher"


# -- bad days ------------------------------------------------------------------------------------------


@played
async def test_headset_asleep_keeps_the_seat_by_its_pings(ground):
    ada = await ground.operator()
    await ada.sample()
    await ada.round_trip()
    for _ in range(12):  # longer than a seat is kept for who says nothing
        seen = len(ada.of(Ping))
        await until(lambda: len(ada.of(Ping)) > seen, "a ping")
    bob = await ground.client()
    assert (await bob.hello(name="Bob")).code == "occupied"
    await ada.sample()
    await ada.round_trip()
    assert [session for session, _, _ in ground.samples] == [ada.welcome.session] * 2


@played
async def test_a_closed_tab_frees_the_seat_at_once(ground):
    ada = await ground.operator()
    bob = await ground.operator(role="watcher", name="Bob")
    await ada.close()
    await until(lambda: bob.of(Operator)[-1] == Operator(None), "the free seat")
    await bob.say(Take())
    await until(lambda: bob.welcome.role == "operator", "the seat")


@played
async def test_network_gone_and_back_makes_a_new_session_beside_the_one_that_hangs(ground):
    ada = await ground.operator()
    await ada.sample()
    await ada.round_trip()
    former = ada.welcome.session
    ada.vanish()
    await asyncio.sleep(0.6)  # of silence, after which it is in doubt whether somebody is there
    back = await ground.client()
    clock = asyncio.get_running_loop().time
    begin = clock()
    answer = await back.hello()
    assert isinstance(answer, Welcome) and answer.role == "operator" and answer.session != former
    assert ground.server.counts["displaced"] == 1
    await back.aligned()
    await back.sample(seq=1)
    await until(lambda: len(ground.samples) == 2, "the first sample of the new session")
    ground.server.counts["seconds_to_rejoin"] = clock() - begin  # told, not judged: the machine may be busy
    assert ground.samples[-1][0] == answer.session and ground.samples[-1][1].seq == 1
    await until(lambda: len(ground.server.clients) == 1, "the end of the former connection")


@played
async def test_a_slow_network_makes_samples_as_old_as_it_is(ground):
    async with Network(ground.port, delay=0.05) as network:
        ada = await ground.operator(offset=5000.0, url=network.url)
        for _ in range(20):
            await ada.sample()
            await asyncio.sleep(0.01)
        await ada.round_trip()
        ground.server.show(STATUS)
        await until(lambda: ada.of(Status), "a status")
        assert ada.of(Status)[0].link.rtt_ms >= 100.0 and ground.samples
        network.delay = 0.6
        await ada.round_trip()
        taken, stale = len(ground.samples), ground.server.counts["dropped_stale"]
        for _ in range(10):
            await ada.sample()
        await ada.round_trip()
        assert len(ground.samples) == taken and ground.server.counts["dropped_stale"] == stale + 10


@played
async def test_network_gone_and_back_on_one_connection_lets_nothing_old_through(ground):
    async with Network(ground.port) as network:
        ada = await ground.operator(url=network.url)
        await ada.sample()
        await ada.round_trip()
        network.go()
        for _ in range(60):
            await ada.sample()
            await asyncio.sleep(0.01)
        await ada.press("home")
        taken = len(ground.samples)
        await asyncio.sleep(link_server.BUTTON_AGE + 0.1)
        network.come_back()

        async def come():
            while len(ground.samples) == taken or not ada.of(Refused):  # the answer may come later
                await ada.sample()
                await asyncio.sleep(0.02)

        await asyncio.wait_for(come(), PATIENCE)
        assert ground.server.counts["dropped_stale"] >= 60 and not ground.buttons
        assert {session for session, _, _ in ground.samples} == {ada.welcome.session}
        assert all(age < 0.25 for _, _, age in ground.samples) and "came too late" in ada.of(Refused)[0].sentence


def test_a_connection_that_stays_silent_is_given_up(monkeypatch):
    monkeypatch.setattr(link_server, "SILENCE_LIMIT", 1.0)
    monkeypatch.setattr(link_server, "HELLO_LIMIT", 0.3)

    @played
    async def scenario(ground):
        ada, stranger = await ground.operator(), await ground.client()
        ada.vanish()
        await until(lambda: not ground.server.clients, "the end of both")
        assert stranger.received[0].sentence == "Expected a hello within 0.3 s, found silence."
        assert ground.server.counts["silent"] == 1 and ground.server.operator is None

    scenario()


@pytest.mark.parametrize(("version", "said"), [(0, "the page is older: reload it"), (7, "the robot is older")])
def test_a_page_of_another_version_is_told_so(version, said):
    @played
    async def scenario(ground):
        old = await ground.client()
        await old.say(json.dumps({"type": "hello", "version": version, "user": "Ada"}))
        await until(lambda: old.closed, "the end")
        assert old.received[0].code == "version" and said in old.received[0].sentence

    scenario()


def test_wrong_and_replayed_hellos_are_refused():
    async def run():
        async with Ground(TOKEN) as ground:
            stranger = await ground.client()
            assert (await stranger.hello(token="guess")).code == "token"
            nonce = fresh()
            ada = await ground.client()
            assert isinstance(await ada.hello(token=TOKEN, nonce=nonce), Welcome)
            await ada.close()
            thief = await ground.client()
            assert (await thief.hello(token=TOKEN, nonce=nonce)).code == "replay"
            await until(lambda: thief.closed and stranger.closed, "the end of both")
            assert not ground.samples

    asyncio.run(run())


@played
async def test_a_flood_is_thinned_out_and_then_sent_away(ground):
    ada = await ground.operator()
    bob = await ground.operator(role="watcher", name="Bob")
    for _ in range(FLOOD + 2000):
        try:
            await ada.sample()
        except OSError:
            break
    await until(lambda: ada.closed, "the end")
    counts = ground.server.counts
    assert counts["refused_rate"] == 1 and counts["dropped_rate"] >= FLOOD and len(ground.samples) < 1500
    await bob.round_trip()
    assert not bob.closed and ground.server.operator is None


@played
async def test_oversize_is_refused_and_what_is_far_too_large_ends_the_connection(ground):
    ada = await ground.operator()
    await ada.say('{"type":"offer","sdp":"' + "x" * 20000 + '"}')
    await until(lambda: ada.of(Refused), "a refusal")
    assert "at most 16384 bytes" in ada.of(Refused)[0].sentence and not ada.closed
    await ada.say("x" * 100000)
    await until(lambda: ada.closed, "the end")
    await until(lambda: not ground.server.clients, "its end at the server")


@played
async def test_garbage_is_refused_and_then_sent_away(ground):
    ada = await ground.operator()
    for _ in range(WRONG - 1):
        await ada.say("{}")
    await ada.socket.send_bytes(b"\x00\x01")
    await until(lambda: ada.closed, "the end")
    assert "Too many wrong messages" in ada.of(Refused)[-1].sentence and ground.server.counts["dropped_schema"] == WRONG


@played
async def test_fuzzed_messages_never_reach_anybody(ground):
    """Samples with flipped bytes and random texts, over many connections: what is no sample is handed on by nobody."""
    rng = random.Random(7)
    sane = Sample(1, 0.0, None, None, None, (0.0, 0.0, 0.0), None)
    for turn in range(12):
        client = await ground.operator(name=f"Fuzz {turn}")
        for _ in range(60):
            text = bytearray(write(sane).replace('"seq":1', f'"seq":{rng.randrange(10**6)}').encode())
            for _ in range(rng.randint(1, 6)):
                text[rng.randrange(len(text))] = rng.choice(b'{}[]",:0129eE.-+xy \\\x00\xff')
            try:
                await client.say(text.decode("utf-8", "replace"))
            except OSError:
                break
        await client.close()
        await until(lambda: not ground.server.clients, "its end")
    assert not ground.samples and not ground.buttons
    assert ground.server.counts["dropped_schema"] > 100


@played
async def test_anything_before_a_hello_ends_the_connection(ground):
    for first in (Take(), "nonsense", Ping(1, 0.0), "", '{"type":"hello"}'):
        client = await ground.client()
        await client.say(first)
        await until(lambda: client.closed, "the end")
        assert client.received[0].code in ("schema", "version")
    binary = await ground.client()
    await binary.socket.send_bytes(b"hello")
    await until(lambda: binary.closed, "the end")
    ada = await ground.operator()
    await ada.say(Hello(1, "", fresh(), "Eve", "operator", "unity"))
    await ada.round_trip()
    assert ada.of(Refused)[-1].code == "schema" and ground.server.operator.name == "Ada"


def test_too_many_clients_are_told_to_come_back():
    async def run():
        async with Ground(clients=2) as ground:
            for name in "ab":
                await ground.operator(role="watcher", name=name)
            third = await ground.client()
            await until(lambda: third.closed, "the end")
            assert third.received[0].code == "busy"

    asyncio.run(run())


# -- the page and its address ------------------------------------------------------------------------------


def test_the_page_is_served_and_nothing_beside_it(tmp_path):
    (tmp_path / "secret.js").write_text("secret")
    page = tmp_path / "page"
    page.mkdir()
    (page / "index.html").write_text("<h1>Avatar</h1>")
    (page / "app.js").write_text("1;")

    async def run():
        async with Ground(page=page) as ground:
            for path, status in (
                ("/", 200), ("/app.js", 200), ("/nothing.js", 404), ("/../secret.js", 404), ("/%2e%2e/secret.js", 404),
                ("//etc/passwd", 404), ("/link", 400),
            ):  # fmt: skip
                async with ground.http.get(aiohttp.client.URL(f"{ground.url}{path}", encoded=True)) as answer:
                    assert answer.status == status, path
                    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
                    assert answer.headers["Server"] == "refit"
                    if path in ("/", "/app.js"):
                        assert answer.content_type == ("text/html" if path == "/" else "text/javascript")
            async with ground.http.get(ground.url, headers={"Host": "evil.example"}) as answer:
                assert answer.status == 403
            async with ground.http.post(ground.url) as answer:
                assert answer.status == 405

    asyncio.run(run())


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1.evil.example"])
def test_a_page_of_another_site_cannot_connect(origin):
    @played
    async def scenario(ground):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await ground.client(headers={"Origin": origin})
        assert caught.value.status == 403
        await ground.client(headers={"Origin": f"http://localhost:{ground.port}"})

    scenario()


def test_a_taken_port_is_said():
    async def run():
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            with pytest.raises(ValueError, match=f"wants port {port} of 127.0.0.1 .* give another, or 0"):
                await Ground(port=port).server.start()
            with pytest.raises(ValueError, match="wants port 0 of 192.0.2.1"):
                await Ground(host="192.0.2.1").server.start()

    asyncio.run(run())


def test_a_guarded_link_is_encrypted(tmp_path):
    from test_access import make_certificate

    certificate, key = make_certificate(tmp_path)

    async def run():
        import ssl

        async with Ground(TOKEN, tls=tls_context(certificate, key)) as ground:
            trusted = ssl.create_default_context(cafile=str(certificate))
            ground.url = f"https://localhost:{ground.port}"
            client = await ground.client(ssl=trusted)
            assert isinstance(await client.hello(token=TOKEN), Welcome)
            with pytest.raises(aiohttp.ClientError):
                await ground.http.get(f"http://127.0.0.1:{ground.port}/")

    asyncio.run(run())


def test_a_client_with_a_stuck_network_holds_nobody_up():
    @played
    async def scenario(ground):
        ada = await ground.operator()
        stuck = await ground.operator(role="watcher", name="Stuck")
        stuck.vanish()
        stuck.socket._response.connection.transport.pause_reading()
        heavy = Status(**{**vars(STATUS), "arm_message": ("x" * 1000, "y" * 1000)})
        for _ in range(3000):
            ground.server.show(heavy)
            await asyncio.sleep(0)
        seen = len(ada.of(Status))
        ground.server.show(STATUS)
        await until(
            lambda: len(ada.of(Status)) > seen and ada.of(Status)[-1].arm_message == ("", ""), "the newest status"
        )

    scenario()
