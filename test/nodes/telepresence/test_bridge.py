"""The bridge in a graph: samples come out, status and pictures come in, buttons ask services, and bad days are survived."""

import asyncio
import json
import re
import socket
import threading

import pytest

pytest.importorskip("rclpy")

from geometry_msgs.msg import Pose
from link_client import LinkClient, fresh
from refit_interfaces.msg import OperatorSample, SupervisorStatus, TeleopStatus
from sensor_msgs.msg import CompressedImage, JointState
from std_srvs.srv import SetBool, Trigger

from cli.udp_sockets import udp_addresses
from nodes.framework.messages import seconds
from nodes.framework.qos import COMMAND, GLANCE, LEDGER, STATE
from nodes.telepresence.bridge import TelepresenceBridgeConfig, texture_of
from nodes.telepresence.protocol import Hand, Place, Sample, write
from nodes.telepresence.protocol_robot import Refused, Status, Texture, Welcome
from nodes.view.stage.page import is_loopback


class Page:
    """A client on an asyncio loop of its own thread, for tests that spin a ROS graph meanwhile."""

    def __init__(self, url, offset=0.0):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.client = self.does(self._connect(url, offset))

    async def _connect(self, url, offset):
        import aiohttp

        self._http = aiohttp.ClientSession()
        return await LinkClient(self._http, f"{url}/link", offset).connect()

    def does(self, work):
        """The outcome of a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120.0)

    def join(self, **words):
        answer = self.does(self.client.hello(**words))
        if isinstance(answer, Welcome):
            self.does(self.client.aligned())
        return answer

    def sample(self, **words):
        self.does(self.client.sample(**words))

    def of(self, kind):
        return self.client.of(kind)

    def close(self):
        async def end():
            self.client.vanish()
            await self.client.close()
            await self._http.close()

        self.does(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


@pytest.fixture
def pages():
    made = []

    def page(url, **words):
        made.append(Page(url, **words))
        return made[-1]

    yield page
    for each in made:
        each.close()


@pytest.fixture
def bridge(ros, tmp_path):
    """(process, its address), active."""
    diagnostics = ros.diagnostics("telepresence_bridge")
    process = ros.start(
        "telepresence_bridge", robot="panda", port=0, report=str(tmp_path / "report"), streams=["left_eye", "right_eye"]
    )
    ros.up("telepresence_bridge")
    ros.until(lambda: "url" in diagnostics()[2], what="the page's address")
    process.diagnostics = diagnostics
    return process, diagnostics()[2]["url"]


def serve(ros, kind, name, answer):
    """A service that keeps what it is asked."""
    asked = []

    def on_request(request, response):
        asked.append(request)
        response.success, response.message = answer
        return response

    ros.node.create_service(kind, name, on_request)
    return asked


def test_the_page_names_everything(documentation):
    assert (
        documentation.missing("telepresence_bridge.md", TelepresenceBridgeConfig, "nodes/telepresence/bridge.py") == []
    )


def test_samples_come_out_with_the_moment_at_which_they_were_read(ros, bridge, pages):
    heard = ros.listen(OperatorSample, "operator/sample", COMMAND)
    _, url = bridge
    ada = pages(url, offset=-7 * 3600.0)
    assert ada.join(axes="unity").robot == "panda"
    ros.until(lambda: ros.node.count_publishers("operator/sample"), what="the topic")
    head, hand = Place((0.0, 1.6, 0.0), (0.0, 0.6, 0.0, 0.8)), Hand((0.1, 1.0, 0.3), (0.0, 0.0, 0.0, 1.0), True, 0.75)

    def until_heard(**words):
        """Until a sample comes: the first may be said before this end of the topic is known at the other."""
        count = len(heard)

        def come():
            ada.sample(**words)
            ros.spin(0.02)
            return len(heard) > count

        ros.until(come, what="a sample")
        return heard[-1]

    message = until_heard(
        head=head, right=None, left=hand, stick=(0.5, 0.0, -1.0), glove=tuple(0.1 * i for i in range(20))
    )
    now = 1e-9 * ros.node.get_clock().now().nanoseconds
    assert message.session == ada.client.welcome.session and message.axes == OperatorSample.AXES_UNITY
    assert message.head_tracked and message.head.position.y == 1.6 and message.head.orientation.y == 0.6
    assert list(message.hand_tracked) == [False, True] and list(message.clutch) == [False, True]
    assert message.hands[1].position.x == 0.1 and message.hands[0] == Pose()
    assert (
        list(message.trigger) == [0.0, 0.75]
        and list(message.stick) == [0.5, 0.0, -1.0]
        and message.glove[19] == 0.1 * 19
    )
    assert now - 60.0 < seconds(message.header.stamp) <= now and message.header.frame_id == "operator"
    later = until_heard()
    assert later.sequence > message.sequence and seconds(later.header.stamp) > seconds(message.header.stamp)
    assert not later.head_tracked and len(later.glove) == 0
    # A new hand-shake is a new session, whatever its numbers.
    ada.does(ada.client.close())
    again = pages(url)
    assert isinstance(again.join(), Welcome)
    ada = again
    assert until_heard().session == again.client.welcome.session != message.session


def test_everybody_sees_what_the_robot_does_and_its_pictures_only_while_he_looks(ros, bridge, pages):
    process, url = bridge
    teleop = ros.node.create_publisher(TeleopStatus, "teleop/status", STATE)
    supervisor = ros.node.create_publisher(SupervisorStatus, "supervisor/status", LEDGER)
    joints = ros.node.create_publisher(JointState, "joint_states", STATE)
    assert joints.get_subscription_count() == 0
    bob = pages(url)
    assert bob.join(role="watcher", name="Bob").role == "watcher"
    ros.until(lambda: bob.of(Status), what="a status")
    assert bob.of(Status)[0].state == "disconnected" and "teleop node says nothing" in bob.of(Status)[0].message
    supervisor.publish(
        SupervisorStatus(state=SupervisorStatus.STATE_HALTED, code=3, message="A joint state is invalid.")
    )

    def shown(condition, what):
        def come():
            teleop.publish(
                TeleopStatus(
                    state=TeleopStatus.STATE_FAULT, code=7, message="The right arm stopped.", session="s", precision=0.25,
                    clutched=[True, False], arm_mode=["track", "hold"], force=[12.5, float("nan")], cue=[0.5, 0.0],
                )
            )  # fmt: skip
            joints.publish(JointState(name=["a", "b"], position=[0.25, -1.0]))
            ros.spin(0.05)
            return condition(bob.of(Status)[-1])

        ros.until(come, what=what)

    shown(
        lambda status: status.joints.names and status.state == "fault" and status.supervisor.code, "the robot's status"
    )
    status = bob.of(Status)[-1]
    assert (status.code, status.message, status.session) == (7, "The right arm stopped.", "s")
    assert status.clutched == (True, False) and status.arm_mode == ("track", "hold") and status.precision == 0.25
    assert status.force == (12.5, None) and status.cue == (0.5, 0.0) and status.joints.positions == (0.25, -1.0)
    assert status.supervisor.state == "HALTED" and status.supervisor.message == "A joint state is invalid."
    ros.until(lambda: bob.of(Status)[-1].state == "disconnected", what="word that the teleop node is gone")
    assert process.diagnostics()[2].get("clients") in (None, "0", "1")
    bob.does(bob.client.close())
    ros.until(lambda: joints.get_subscription_count() == 0, what="nobody who listens")


def test_a_camera_is_listened_to_while_somebody_looks(ros, bridge, pages, monkeypatch):
    from test_video import Watching, jpeg, shade

    process, url = bridge
    eye = ros.node.create_publisher(CompressedImage, "camera/left_eye/image/compressed", GLANCE)
    ada = pages(url)
    ada.join()
    ros.spin(0.5)
    assert eye.get_subscription_count() == 0

    async def look():
        watching = Watching(ada.client, monkeypatch)
        await watching.begin()
        return watching

    watching = ada.does(look())
    picture = jpeg(150)

    def come():
        message = CompressedImage(format="rgb8; jpeg compressed bgr8", data=picture)
        message.header.stamp = ros.node.get_clock().now().to_msg()
        eye.publish(message)
        ros.spin(0.03)
        return watching.frames.get("left_eye") and abs(shade(watching.frames["left_eye"][-1]) - 150) < 10

    ros.until(come, what="a picture")
    assert udp_addresses(process.pid) == {"127.0.0.1"}  # those of the graph, and those of the pictures
    ada.does(watching.close())
    ada.does(ada.client.close())
    ros.until(lambda: eye.get_subscription_count() == 0, what="nobody who listens")


def test_the_page_is_reached_from_this_machine_alone(ros, bridge):
    _, url = bridge
    port = int(url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)):
        pass
    for address in ("127.0.0.2", *other_addresses()):
        with socket.socket() as trial, pytest.raises(ConnectionRefusedError):
            trial.settimeout(60.0)
            trial.connect((address, port))


def other_addresses():
    """IPv4 addresses of this machine that others reach."""
    import ifaddr

    found = [ip.ip for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4]
    return [address for address in found if not is_loopback(address)]


def test_buttons_ask_services_and_their_refusals_are_shown(ros, bridge, pages):
    _, url = bridge
    ada = pages(url)
    ada.join()
    ada.does(ada.client.press("stop"))
    ros.until(lambda: ada.of(Refused), what="word that there is no supervisor")
    assert "no supervisor is there" in ada.of(Refused)[0].sentence and "emergency stop" in ada.of(Refused)[0].sentence
    stop = serve(ros, Trigger, "stop", (True, ""))
    home = serve(ros, Trigger, "teleop/home", (False, "The right arm is in a fault."))
    narrow = serve(ros, Trigger, "teleop/narrow", (True, ""))
    precision = serve(ros, SetBool, "teleop/precision", (True, ""))
    scan = serve(ros, Trigger, "teleop/texture_scan", (True, json.dumps({"roughness_mm": 0.3, "frequency_hz": 210.0})))

    def until_asked(asked, name, value=True):
        count = len(asked)

        def come():
            ada.does(ada.client.press(name, value))
            ros.spin(0.3)
            return len(asked) > count

        ros.until(come, what=name)

    for asked, name in (
        (stop, "stop"), (home, "home"), (narrow, "narrow"), (precision, "precision"), (scan, "texture_scan"),
    ):  # fmt: skip
        until_asked(asked, name)
    until_asked(precision, "precision", False)
    assert [request.data for request in (precision[0], precision[-1])] == [True, False]
    ros.until(lambda: ada.of(Texture), what="the texture")
    assert ada.of(Texture)[0] == Texture(0.3, 210.0, None)
    assert "The right arm is in a fault." in [refused.sentence for refused in ada.of(Refused)]
    count = len(home)
    ada.does(ada.client.press("home", False))
    ada.does(ada.client.round_trip())
    ros.spin(0.3)
    assert len(home) == count  # let go


def test_what_is_no_sample_of_the_operator_is_never_published(ros, bridge, pages):
    """Fuzz, watchers, strangers, old samples: the topic stays silent."""
    import random

    heard = ros.listen(OperatorSample, "operator/sample", COMMAND)
    process, url = bridge
    ros.until(lambda: ros.node.count_publishers("operator/sample"), what="the topic")
    rng = random.Random(3)
    for role in ("watcher", "operator"):
        page = pages(url)
        page.join(role=role, name=role)
        text = write(Sample(1, page.client.now(), None, None, None, (0.0, 0.0, 0.0), None))
        for _ in range(40):
            broken = bytearray(text.encode())
            for _ in range(rng.randint(2, 8)):
                broken[rng.randrange(len(broken))] = rng.choice(b'{}[]",:eE+xy \\\x00\xff')
            try:
                page.does(page.client.say(broken.decode("utf-8", "replace")))
            except OSError:
                break
    watcher = pages(url)
    watcher.join(role="watcher", name="w")
    watcher.sample()
    watcher.does(watcher.client.round_trip())
    stranger = pages(url)
    stranger.does(stranger.client.say(Sample(1, 0.0, None, None, None, (0.0, 0.0, 0.0), None)))
    ros.until(lambda: stranger.client.closed, what="the stranger's end")
    for each in (page, watcher):
        if not each.client.closed:
            each.sample(age=10.0, seq=10**6)
    seen = process.diagnostics.count
    ros.until(lambda: process.diagnostics.count > seen + 1, what="two diagnostics")
    assert not heard and "samples" not in process.diagnostics()[2]


def test_a_bridge_that_was_deactivated_hands_nothing_on_and_goes_on_afterwards(ros, bridge, pages):
    process, url = bridge
    heard = ros.listen(OperatorSample, "operator/sample", COMMAND)
    ada = pages(url)
    ada.join()
    ros.transition("telepresence_bridge", "deactivate")
    ada.sample()
    ada.does(ada.client.round_trip())
    ros.until(lambda: process.diagnostics()[2].get("samples_while_inactive") == "1", what="the count")
    assert not heard
    ros.transition("telepresence_bridge", "activate")

    def come():
        ada.sample()
        ros.spin(0.02)
        return heard

    ros.until(come, what="a sample")
    ros.transition("telepresence_bridge", "deactivate")
    ros.transition("telepresence_bridge", "cleanup")
    ros.until(lambda: ada.client.closed, what="the page's end")
    ros.up("telepresence_bridge")


def test_an_ending_says_farewell_and_leaves_a_report(ros, bridge, pages, tmp_path):
    process, url = bridge
    ada = pages(url)
    ada.join()
    for _ in range(20):
        ada.sample()
    ada.does(ada.client.round_trip())
    code, _, output = ros.finish(process)
    assert code == 0 and "Traceback" not in output, output
    ros.until(lambda: ada.client.closed, what="the page's end")
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["sessions"][0]["name"] == "Ada" and report["sessions"][0]["samples"]["taken"] == 20
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Ada" in page and "Traceback" not in page


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"host": "0.0.0.0"}, "token_file and certificate must be given"),
        ({"token_file": "TMP/token"}, "can be read by others; run chmod 600"),
        ({"certificate": "TMP/cert.pem"}, "both a certificate and its key"),
        ({"robot": "nobody"}, "nobody"),
        ({}, "give another, or 0 for a free one"),
    ],
)
def test_what_cannot_work_is_refused_with_a_sentence(ros, tmp_path, parameters, said):
    (tmp_path / "token").write_text("a-token-of-22-letters.")
    (tmp_path / "token").chmod(0o644)
    given = {name: value.replace("TMP", str(tmp_path)) for name, value in parameters.items()}
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        process = ros.start("telepresence_bridge", **{"robot": "panda", "port": other.getsockname()[1]} | given)
        assert not ros.try_transition("telepresence_bridge", "configure")
    code, _, output = ros.finish(process)
    assert code == 0 and said in output and "Traceback" not in output


def test_a_token_is_asked_for_where_there_is_one(ros, tmp_path, pages):
    token = tmp_path / "token"
    token.write_text("a-token-of-22-letters.")
    token.chmod(0o600)
    process = ros.start(
        "telepresence_bridge", robot="panda", port=0, token_file=str(token), report=str(tmp_path / "report")
    )
    ros.up("telepresence_bridge")
    diagnostics = ros.diagnostics("telepresence_bridge")
    ros.until(lambda: "url" in diagnostics()[2], what="the page's address")
    url = diagnostics()[2]["url"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    assert pages(url).join(token="wrong").code == "token"
    nonce = fresh()
    assert isinstance(pages(url).join(token=token.read_text(), nonce=nonce), Welcome)
    assert pages(url).join(token=token.read_text(), nonce=nonce).code == "replay"
    assert process.poll() is None


@pytest.mark.parametrize(
    ("text", "texture"),
    [
        ('{"roughness_mm": 0.3, "frequency_hz": 210, "sound": [0, 0.5]}', Texture(0.3, 210.0, (0.0, 0.5))),
        ('{"roughness_mm": 0.3, "frequency_hz": 210}', Texture(0.3, 210.0, None)),
        ('{"roughness_mm": NaN, "frequency_hz": 210}', None), ("rough", None), ("[1]", None), ('{"roughness_mm": "x"}', None),
        ('{"roughness_mm": 1, "frequency_hz": null}', None), ("", None),
    ],
)  # fmt: skip
def test_a_scans_answer(text, texture):
    assert texture_of(text) == texture
