"""A bag on the page: what stands there at a time is what was recorded by then, however one came there."""

import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from page_watcher import Watcher

from cli.main import main
from nodes.view.layers.supervisor import SupervisorLayer
from nodes.view.layers.tracking import TrackingLayer
from nodes.view.replay import Replay
from nodes.view.stage.page import PageError, free_port
from recording import BagError, BagReader, BagWriter
from recording.message_types import typestore

STATES = "sensor_msgs/msg/JointState"
SUPERVISOR = "refit_interfaces/msg/SupervisorStatus"
STATUS = "refit_interfaces/msg/ControllerStatus"
TEXT = "std_msgs/msg/String"
NAMES = [f"joint{i}" for i in range(1, 8)]
START = 1_000_000_000_000


def angle(t):
    """Of every joint of the recorded robot [rad]."""
    return 0.1 * np.sin(t)


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    """4 s at 100 Hz of a Panda whose joints swing; the supervisor halts it at 3 s."""
    path = tmp_path_factory.mktemp("replay") / "bag"
    store = typestore(STATES, SUPERVISOR, STATUS, TEXT)
    stamp = store.types["builtin_interfaces/msg/Time"]
    head = lambda t: store.types["std_msgs/msg/Header"](stamp(int(t), int(1e9 * (t % 1))), "")
    with BagWriter(path) as writer:

        def write(topic, kind, t, *values):
            writer.add_topic(topic, kind)
            message = store.types[kind](*values)
            writer.write(topic, START + int(1e9 * t), bytes(store.serialize_cdr(message, kind)))

        write("/run_info", TEXT, 0.0, '{"robot": "panda", "model_hash": ""}')
        write("/supervisor/status", SUPERVISOR, 0.0, head(0.0), 2, 0, "joint commands arrive")
        for k in range(400):
            t = 0.01 * k
            write("/joint_states", STATES, t, head(t), NAMES, np.full(7, angle(t)), np.zeros(7), np.zeros(7))
            write(
                "/controller/status", STATUS, t,
                head(t), 1, 1, 1e-3, 0.01, k, 0, 7, 0.0, 2, 0.0, 0.0, 1e-3 * t, t, "",
            )  # fmt: skip
        write("/supervisor/status", SUPERVISOR, 3.0, head(3.0), 4, 1, "stopped by an operator")
    return path


@pytest.fixture
def replay(bag):
    replay = Replay(BagReader(bag))
    yield replay
    replay.close()


def layer(replay, kind):
    return next(each for each in replay.player.layers if isinstance(each, kind))


def test_a_time_is_shown_the_same_whichever_way_one_comes_to_it(replay):
    robot, supervisor, tracking = (
        replay.player.stage.robot,
        layer(replay, SupervisorLayer),
        layer(replay, TrackingLayer),
    )

    def shown():
        return robot.data.qpos[3], "HALTED" in supervisor._banner.content, len(tracking._points)

    assert replay.duration == pytest.approx(3.99) and not supervisor._buttons
    for t in np.arange(0.0, 3.6, 1.0 / 12.0):  # as it plays
        replay.show(t)
    replay.show(3.6)
    played = shown()
    assert played[0] == pytest.approx(angle(3.6), abs=0.01) and played[1]
    replay.show(0.5)  # back
    assert shown()[0] == pytest.approx(angle(0.5), abs=0.01) and not shown()[1]
    points = np.array(tracking._points)
    assert points[-1, 0] <= 0.5 and np.allclose(points[:, 1], 1e-3 * points[:, 0])
    replay.show(3.6)  # a jump ahead, which draws the course anew
    assert shown() == played


def test_a_hand_on_the_slider_is_followed_and_play_goes_on_from_there(replay):
    runner = threading.Thread(target=replay.run, daemon=True)
    runner.start()

    def until(condition):
        end = time.monotonic() + 60.0
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.02)

    until(lambda: replay.time == 0.0)  # drawn once, and still while nobody looks
    with Watcher(replay.server.get_port()) as hand:
        until(lambda: replay.time > 0.2)
        hand.set(replay._play, True)
        until(lambda: replay._play.label == "Play")
        hand.set(replay._slider, 3.5)
        until(lambda: replay.time == 3.5)
        assert "HALTED" in layer(replay, SupervisorLayer)._banner.content
        hand.set(replay._play, True)
        until(lambda: replay.time == replay.duration)
        until(lambda: replay._play.label == "Play")  # it stops at the end
    replay.close()
    runner.join(60.0)
    assert not runner.is_alive()


def test_what_cannot_be_shown_is_said(bag, tmp_path, capsys):
    with BagWriter(tmp_path / "bag") as writer:
        writer.add_topic("/text", TEXT)
        writer.write("/text", START, bytes(typestore().serialize_cdr(typestore().types[TEXT]("hello"), TEXT)))
    with pytest.raises(BagError, match="holds nothing that is shown; recorded: /text"):
        Replay(BagReader(tmp_path / "bag"))
    assert main(["view", str(tmp_path / "none")]) == 2 and "No bag at" in capsys.readouterr().err
    assert main(["view", str(bag), "--robot", "nobody"]) == 2 and "nobody" in capsys.readouterr().err
    port = free_port()
    first = Replay(BagReader(bag), port)
    with pytest.raises(PageError, match=f"port {port}"):
        Replay(BagReader(bag), port)
    first.close()
