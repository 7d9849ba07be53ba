"""The telepresence bridge: between the operator's page and the graph.

    telepresence_bridge --ros-args -p robot:=avatar -p port:=8090

It serves the page, lets operators and watchers in, hands the operator's samples on as `operator/sample`, shows everybody
what the robot does, and asks services for the operator's buttons. Cameras and microphone are read only while somebody wants them.
It moves nothing and decides nothing about motion. Pages: docs/nodes/telepresence_bridge.md, docs/telepresence_protocol.md.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from geometry_msgs.msg import Pose
from rclpy.client import Client as ServiceClient
from rclpy.task import Future
from refit_interfaces.msg import OperatorSample, RehearsalStatus, SupervisorStatus, TeleopStatus
from refit_interfaces.srv import SetEyeDistance, SetHeadOffset
from sensor_msgs.msg import CompressedImage, JointState
from std_srvs.srv import SetBool, Trigger

from config.robot import load_robot
from config.tiers import require
from nodes.framework.config import setting
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.messages import set_stamp
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import GLANCE, LATCHED, LEDGER, SENSOR, STATE
from nodes.telepresence.access import Door, check_exposure, read_token, tls_context
from nodes.telepresence.link_thread import LinkThread
from nodes.telepresence.protocol import ADJUSTMENTS, AXES, Message, Place, Sample
from nodes.telepresence.protocol_robot import STATES, Joints, LinkNumbers, Refused, Status, SupervisorWords, Texture
from nodes.telepresence.sound_topics import SoundTopics
from sim_core.telepresence.competition import Rehearsed

if TYPE_CHECKING:
    from nodes.telepresence.client import Client
    from nodes.telepresence.link_server import LinkServer
    from nodes.telepresence.link_settings import Listener

__all__ = ["TelepresenceBridge", "TelepresenceBridgeConfig", "main"]

#: [s] for a service's answer; a home motion is answered when it begins
ANSWER_LIMIT = 15.0
#: [s] of the teleop node's silence after which the status says that it is gone
TELEOP_SILENCE = 1.0
#: where it is when nobody says
NOWHERE = Place((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
#: who is asked, where it is not the teleop node
ASKED = {
    "stop": "supervisor",
    "resume": "supervisor",
    "texture_scan": "texture_scan node",
    "eye_distance": "node that sets the distance of the robot's eyes",
}


@dataclass(frozen=True)
class TelepresenceBridgeConfig:
    """Parameters of `telepresence_bridge`."""

    robot: str = setting("avatar", "", None, "name in config/robots, or path of a robot's folder", read_only=True)
    host: str = setting(
        "127.0.0.1", "", None, "address to listen on; beyond loopback only with token and certificate", read_only=True
    )
    port: int = setting(8090, "", (0, 65535), "of the page; 0: a free one, which the log names", read_only=True)
    token_file: str = setting(
        "", "", None, "file with the token that every client must say; empty: none is asked for", read_only=True
    )
    certificate: str = setting("", "", None, "PEM file to encrypt with; empty: in clear", read_only=True)
    key: str = setting("", "", None, "PEM file with the certificate's key", read_only=True)
    streams: tuple[str, ...] = setting(
        ("left_eye", "right_eye", "birds_eye_1", "birds_eye_2", "birds_eye_3", "right_wrist", "left_wrist"),
        "",
        None,
        "cameras that clients may look at, the eyes first",
        read_only=True,
    )
    microphone: str = setting(
        "microphone",
        "",
        None,
        "node whose sound clients may listen to, by its topics audio_stamped and audio_info; empty: none",
        read_only=True,
    )
    clients: int = setting(8, "clients", (1, 64), "at once, operator and watchers", read_only=True)
    status_rate: float = setting(
        20.0, "Hz", (1.0, 60.0), "how often clients are shown the robot's status", read_only=True
    )
    report: str = setting(
        "", "", None, "folder of the session report; empty: one in runs/, if somebody has driven", read_only=True
    )


@dataclass
class _Question:
    """A service that was asked for a button or an adjustment and has not answered."""

    name: str
    reply: Callable[[Message], None]
    future: Future
    until: float = field(default_factory=lambda: time.monotonic() + ANSWER_LIMIT)


class TelepresenceBridge(RefitNode):
    """See the module's docstring."""

    name = "telepresence_bridge"
    Config = TelepresenceBridgeConfig
    _thread: LinkThread | None = None
    _server: LinkServer | None = None
    _sounds: SoundTopics | None = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        require("telepresence", "the telepresence bridge")
        from nodes.telepresence.link_server import LinkServer
        from nodes.telepresence.link_settings import LinkSettings

        config = self.config
        self._cameras: dict[str, Any] = {}
        self._joint_states: Any = None
        self._questions: list[_Question] = []
        self._head_yaw, self._session = 0.0, ""  # as somebody has set it, and whose session it is
        self._teleop: TeleopStatus | None = None
        self._teleop_heard, self._teleop_is_new = -math.inf, False
        self._supervisor = SupervisorWords()
        self._joints = Joints()
        check_exposure(config.host, config.token_file, config.certificate, config.key)
        door = Door(read_token(config.token_file) if config.token_file else None)
        tls = tls_context(config.certificate, config.key) if config.certificate else None
        robot = load_robot(config.robot)
        self._title = robot.title
        settings = LinkSettings(
            door, config.host, config.port, tls, robot.name, robot.title, config.streams, clients=config.clients
        )
        self._samples = self.create_publisher(OperatorSample, "operator/sample", STATE)
        self._faces = self.create_publisher(CompressedImage, "operator/face/image/compressed", SENSOR)
        self._statuses = create_polled_subscription(self, TeleopStatus, "teleop/status", GLANCE)
        self._rehearsals = create_polled_subscription(self, RehearsalStatus, "sim_plant/rehearsal", LATCHED)
        self._rehearsed: dict[str, Rehearsed] = {}
        self._supervisors = create_polled_subscription(self, SupervisorStatus, "supervisor/status", LEDGER)
        self._askable: dict[str, ServiceClient] = {
            "stop": self.create_client(Trigger, "stop"),
            "resume": self.create_client(Trigger, "resume"),
            "home": self.create_client(Trigger, "teleop/home"),
            "narrow": self.create_client(Trigger, "teleop/narrow"),
            "precision": self.create_client(SetBool, "teleop/precision"),
            "reset_fault": self.create_client(Trigger, "teleop/reset_fault"),
            "texture_scan": self.create_client(Trigger, "teleop/texture_scan"),
            "head_yaw": self.create_client(SetHeadOffset, "teleop/set_head_offset"),
            "eye_distance": self.create_client(SetEyeDistance, "teleop/set_eye_distance"),
        }
        self._sounds = SoundTopics(self, config.microphone, self._on_sound)
        self._thread = LinkThread(self.get_logger().error)
        self._server = LinkServer(settings, self._listener())
        port = self._thread.wait(self._server.start())
        url = f"{'https' if tls else 'http'}://{_host_shown(config.host)}:{port}"
        self.diagnostics.set("url", url)
        self.get_logger().info(f"Operator's page: {url}")

    def _listener(self) -> Listener:
        from nodes.telepresence.link_settings import Listener

        return Listener(
            sample=self._publish,
            button=self._press,
            audience=lambda: self._soon(self._attend),
            face=self._publish_face,
            wants_face=self._wants_face,
            voice=self._say_voice,
            hears_voice=lambda: self.is_active and self._sounds is not None and self._sounds.hears_voice,
            adjust=self._adjust,
        )

    def activate(self) -> None:
        self._timer = self.create_timer(1.0 / self.config.status_rate, self._show, clock=self.steady_clock)
        self._attend()

    def deactivate(self) -> None:
        self.destroy_timer(self._timer)
        self._look_away()

    def cleanup(self) -> None:
        thread, self._thread = self._thread, None
        server, self._server = self._server, None
        if thread is not None:
            try:
                if server is not None:
                    thread.wait(server.stop())
                    self._report(server)
            finally:
                thread.end()
        self._look_away()
        for reader in (getattr(self, name, None) for name in ("_statuses", "_supervisors", "_rehearsals")):
            if reader is not None:
                self.destroy_subscription(reader)
        for client in getattr(self, "_askable", {}).values():
            self.destroy_client(client)
        self._askable = {}
        if self._sounds is not None:
            self._sounds.destroy()
            self._sounds = None
        for publisher in (getattr(self, name, None) for name in ("_samples", "_faces")):
            if publisher is not None:
                self.destroy_publisher(publisher)
        self._samples = self._faces = None

    def _report(self, server: LinkServer) -> None:
        """Leave a report, if somebody has driven."""
        if not any(session["role"] == "operator" for session in server.sessions):
            return
        from nodes.telepresence.session_report import write_session_report

        folder = Path(self.config.report).expanduser() if self.config.report else None
        try:
            rehearsed = list(self._rehearsed.values())
            path = write_session_report(list(server.sessions), dict(server.counts), self._title, folder, rehearsed)
        except OSError as error:
            self.get_logger().error(f"The session report could not be written: {error}")
        else:
            self.get_logger().info(f"Session report: {path / 'report.html'}")

    def _soon(self, step: Callable[..., None], *arguments: Any) -> None:
        """Have the executor's thread do something, from any thread."""
        if self.executor is not None:
            self.executor.create_task(step, *arguments)

    # -- samples, on the link's thread ---------------------------------------------------------------

    def _publish(self, client: Client, sample: Sample, age: float) -> None:
        """A sample has passed every check; it is `age` [s] old."""
        publisher = self._samples
        if not self.is_active or publisher is None:
            self.diagnostics.tick("samples_while_inactive")
            return
        message = OperatorSample(
            sequence=sample.seq, session=client.session, axes=AXES.index(client.axes), stick=list(sample.stick)
        )
        message.header.frame_id = "operator"
        set_stamp(message.header.stamp, 1e-9 * self.get_clock().now().nanoseconds - age)
        if sample.head is not None:
            message.head_tracked = True
            _set_pose(message.head, sample.head)
        hands = (sample.right, sample.left)
        for pose, hand in zip(message.hands, hands):
            if hand is not None:
                _set_pose(pose, hand)
        message.hand_tracked = [hand is not None for hand in hands]
        message.clutch = [hand is not None and hand.clutch for hand in hands]
        message.trigger = [0.0 if hand is None else hand.trigger for hand in hands]
        if sample.glove is not None:
            message.glove = list(sample.glove)
        publisher.publish(message)
        self.diagnostics.tick("samples")

    def _wants_face(self) -> bool:
        return self.is_active and self._faces is not None and self._faces.get_subscription_count() > 0

    def _publish_face(self, data: bytes) -> None:
        """The operator's face, on the link's thread."""
        message = CompressedImage(format="jpeg", data=data)
        message.header.stamp, message.header.frame_id = self.get_clock().now().to_msg(), "operator"
        if self._faces is not None:
            self._faces.publish(message)
            self.diagnostics.tick("faces")

    def _say_voice(self, samples: np.ndarray, age: float) -> None:
        """The operator's voice, on the link's thread."""
        if self.is_active and self._sounds is not None:
            self._sounds.say(samples, age)

    # -- the robot, shown to everybody ---------------------------------------------------------------

    def _attend(self) -> None:
        """Listen to what somebody looks at, and only to that."""
        server = self._server
        if server is None or not self.is_active:
            return
        audience, watched = len(server.audience()), server.watched()
        self.diagnostics.set("clients", audience)
        operator = server.operator
        self.diagnostics.set("operator", "" if operator is None else operator.name)
        self._meet("" if operator is None else operator.session)
        if audience and self._joint_states is None:
            self._joint_states = create_polled_subscription(self, JointState, "joint_states", GLANCE)
        elif not audience and self._joint_states is not None:
            self.destroy_subscription(self._joint_states)
            self._joint_states = None
        for name in watched - set(self._cameras):
            self._cameras[name] = self.create_subscription(
                CompressedImage, f"camera/{name}/image/compressed", partial(self._on_picture, name), GLANCE
            )
        for name in set(self._cameras) - watched:
            self.destroy_subscription(self._cameras.pop(name))
        if self._sounds is not None:
            self._sounds.attend(server.is_listened_to)

    def _meet(self, session: str) -> None:
        """A new session centres the head anew: what was set in an earlier one holds no more."""
        if session and session != self._session:
            self._session = session
            if self._head_yaw:
                self._set("head_yaw", 0.0, lambda message: None)

    def _remind(self) -> None:
        """A teleop node that was started again does not know where straight ahead is."""
        if self._head_yaw:
            self._set("head_yaw", self._head_yaw, lambda message: None)

    def _look_away(self) -> None:
        for camera in getattr(self, "_cameras", {}).values():
            self.destroy_subscription(camera)
        self._cameras = {}
        if self._sounds is not None:
            self._sounds.attend(False)
        if getattr(self, "_joint_states", None) is not None:
            self.destroy_subscription(self._joint_states)
            self._joint_states = None

    def _on_picture(self, name: str, message: CompressedImage) -> None:
        age = 1e-9 * self.get_clock().now().nanoseconds - message.header.stamp.sec - 1e-9 * message.header.stamp.nanosec
        kind = message.format.lower()
        kind = next((word for word in ("jpeg", "jpg", "png") if word in kind), kind)
        if self._thread is not None and self._server is not None:
            self._thread.soon(self._server.picture, name, bytes(message.data), kind, age)
            self.diagnostics.tick(f"pictures_{name}")

    def _on_sound(self, samples: np.ndarray, rate: int, age: float) -> None:
        if self._thread is not None and self._server is not None:
            self._thread.soon(self._server.sound, samples, rate, age)

    def _show(self) -> None:
        """Take what the robot has said, and show everybody the newest of it."""
        thread, server = self._thread, self._server
        if thread is None or server is None:
            return
        for message, _ in take(self._statuses):
            self._teleop_is_new |= time.monotonic() > self._teleop_heard + TELEOP_SILENCE
            self._teleop, self._teleop_heard = message, time.monotonic()
        if self._teleop_is_new and self._askable["head_yaw"].service_is_ready():
            self._teleop_is_new = False
            self._remind()
        for message, _ in take(self._rehearsals):
            self._rehearsed[message.task] = Rehearsed(
                message.task, message.progress, message.sentence, message.done, message.elapsed
            )
        for message, _ in take(self._supervisors):
            self._supervisor = SupervisorWords(
                _STATE_NAMES.get(message.state, "UNKNOWN"), message.code, message.message
            )
        if self._joint_states is None:
            return
        for message, _ in take(self._joint_states):
            self._joints = Joints(tuple(message.name), tuple(message.position))
        thread.soon(server.show, self._status())

    def _status(self) -> Status:
        teleop = self._teleop
        if teleop is None or time.monotonic() > self._teleop_heard + TELEOP_SILENCE:
            teleop = TeleopStatus(
                state=TeleopStatus.STATE_DISCONNECTED, message="The teleop node says nothing: the robot follows nobody."
            )
        return Status(
            t=0.0,
            state=STATES[teleop.state] if teleop.state < len(STATES) else STATES[0],
            code=teleop.code,
            message=teleop.message,
            session=teleop.session,
            clutched=tuple(bool(flag) for flag in teleop.clutched),
            arm_mode=tuple(teleop.arm_mode),
            arm_message=tuple(teleop.arm_message),
            effectors=tuple(map(_place, teleop.effectors)),
            targets=tuple(map(_place, teleop.targets)),
            force=tuple(map(float, teleop.force)),
            cue=tuple(map(float, teleop.cue)),
            precision=float(teleop.precision),
            base_velocity=tuple(map(float, teleop.base_velocity)),
            supervisor=self._supervisor,
            link=LinkNumbers(),
            joints=self._joints,
        )

    # -- buttons -------------------------------------------------------------------------------------

    def _press(self, name: str, value: bool, reply: Callable[[Message], None]) -> None:
        """A button was pressed, on the link's thread."""
        self._soon(self._ask, name, value, reply)

    def _adjust(self, name: str, value: float, reply: Callable[[Message], None]) -> None:
        """Something shall be set to a number, on the link's thread."""
        self._soon(self._set, name, value, reply)

    def _ask(self, name: str, value: bool, reply: Callable[[Message], None]) -> None:
        self.get_logger().info(f"The operator pressed '{name}'.")
        client = self._ready_client(name, reply)
        if client is None or (not value and name != "precision"):  # let go
            return
        self._question(client, name, SetBool.Request(data=value) if name == "precision" else Trigger.Request(), reply)

    def _set(self, name: str, value: float, reply: Callable[[Message], None]) -> None:
        self.get_logger().info(f"The operator sets '{name}' to {value:.4f}.")
        client = self._ready_client(name, reply)
        if client is not None:
            is_head = name == "head_yaw"
            if is_head:
                self._head_yaw = value
            request = SetHeadOffset.Request(yaw=value) if is_head else SetEyeDistance.Request(distance=value)
            self._question(client, name, request, reply)

    def _ready_client(self, name: str, reply: Callable[[Message], None]) -> ServiceClient | None:
        """The client of a service that is there; None: the operator has been told that it is not."""
        client = self._askable.get(name)
        if client is not None and client.service_is_ready():
            return client
        remedy = " Use the emergency stop if you must." if name == "stop" else ""
        who = ASKED.get(name, "teleop node")
        self._answer(name, reply, False, f"'{name}' was not done: no {who} is there to be asked.{remedy}")
        return None

    def _question(self, client: ServiceClient, name: str, request: Any, reply: Callable[[Message], None]) -> None:
        question = _Question(name, reply, client.call_async(request))
        self._questions.append(question)
        question.future.add_done_callback(lambda future: self._on_answer(question))

    def _on_answer(self, question: _Question) -> None:
        if question not in self._questions:
            return
        self._questions.remove(question)
        answer = question.future.result()
        if question.name == "texture_scan" and answer.success:
            texture = texture_of(answer.message)
            if texture is not None:
                self._say(question.reply, texture)
                return
        text = answer.message
        if question.name in ADJUSTMENTS and not answer.success:
            text = f"'{question.name}' was not done: {text}"
        self._answer(question.name, question.reply, answer.success, text)

    def _answer(self, name: str, reply: Callable[[Message], None], granted: bool, text: str) -> None:
        if granted:
            self.get_logger().info(f"Answer to '{name}': granted. {text}")
        else:
            self.get_logger().warning(f"Answer to '{name}': not granted. {text}")
        if not granted:
            self._say(reply, Refused("busy", text or f"'{name}' was refused."))

    def _say(self, reply: Callable[[Message], None], message: Message) -> None:
        if self._thread is not None:
            self._thread.soon(reply, message)

    def diagnose(self) -> None:
        now = time.monotonic()
        for question in [each for each in getattr(self, "_questions", []) if now > each.until]:
            self._questions.remove(question)
            self._answer(
                question.name,
                question.reply,
                False,
                f"'{question.name}': no answer within {ANSWER_LIMIT:g} s; it is not known whether it was done.",
            )
        if self._server is not None:
            for name, count in dict(self._server.counts).items():
                self.diagnostics.set(name, count)


#: of SupervisorStatus.msg
_STATE_NAMES = {
    getattr(SupervisorStatus, name): name.removeprefix("STATE_")
    for name in dir(SupervisorStatus)
    if name.startswith("STATE_")
}


def texture_of(text: str) -> Texture | None:
    """What a scan's answer says of a surface; None: it says nothing that a page could show."""
    try:
        said = json.loads(text)
        sound = said.get("sound")
        texture = Texture(
            float(said["roughness_mm"]),
            float(said["frequency_hz"]),
            None if sound is None else tuple(map(float, sound)),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return texture if math.isfinite(texture.roughness_mm) and math.isfinite(texture.frequency_hz) else None


def _set_pose(pose: Pose, place: Place) -> None:
    pose.position.x, pose.position.y, pose.position.z = place.p
    pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w = place.q


def _place(pose: Pose) -> Place:
    p, q = pose.position, pose.orientation
    return Place((p.x, p.y, p.z), (q.x, q.y, q.z, q.w))


def _host_shown(host: str) -> str:
    """What to write in a browser on this machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)


def main(args=None) -> int:
    return spin_main(TelepresenceBridge, args)
