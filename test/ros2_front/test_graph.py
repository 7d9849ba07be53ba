"""Each verb against a small running graph, as a process, with the words that a person types."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.graph

ROOT = Path(__file__).resolve().parents[2]
FRONT = ROOT / "pip_ros" / "bin" / "ros2"
#: [s] for anything that has to happen, far beyond what an idle machine needs
PATIENCE = 120.0
#: a parameter that rclpy gives every node
DESCRIBES = "start_type_description_service"


class Command:
    """`ros2` with some words, as it runs."""

    def __init__(self, *words):
        self._process = subprocess.Popen(
            [sys.executable, str(FRONT), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        self.said = ""

    def until(self, text):
        """Read until a line has this in it."""
        end = time.monotonic() + PATIENCE
        for line in self._process.stdout:
            self.said += line
            if text in line:
                return self
            assert time.monotonic() < end
        raise AssertionError(f"ended without '{text}':\n{self.said}")

    def end(self, number=None):
        """(exit code, everything it said), after a signal if one is given."""
        if number is not None:
            self._process.send_signal(number)
        try:
            rest, _ = self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        return self._process.returncode, self.said + rest


def ros2(*words):
    """(exit code, output with errors) of a command that ends by itself."""
    return Command(*words).end()


def good(*words):
    code, said = ros2(*words)
    assert code == 0, said
    return said


@pytest.fixture(scope="module", autouse=True)
def small_graph(domain):
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("small_graph.py"))], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    yield
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0


# ---- topics ------------------------------------------------------------------------------------------------------
def test_topic_list():
    said = good("topic", "list", "-t").splitlines()
    assert "/points [geometry_msgs/msg/PointStamped]" in said and "/said [std_msgs/msg/String]" in said
    assert not any("/_action/" in line for line in said)
    assert "/robot/grip/_action/status" in good("topic", "list", "--include-hidden-topics").splitlines()
    assert good("topic", "list", "-c") == f"{len(said)}\n"
    assert " * /said [std_msgs/msg/String] 1 subscriber\n" in good("topic", "list", "-v")


def test_topic_info_type_find():
    assert good("topic", "info", "/points") == (
        "Type: geometry_msgs/msg/PointStamped\nPublisher count: 1\nSubscription count: 0\n"
    )
    said = good("topic", "info", "-v", "/points")
    assert "Node name: small\nNode namespace: /robot\n" in said and "Reliability: BEST_EFFORT" in said
    assert good("topic", "type", "points") == "geometry_msgs/msg/PointStamped\n"
    assert good("topic", "find", "std_msgs/msg/String").split() == ["/heard", "/latched", "/said"]
    code, said = ros2("topic", "info", "/pionts")
    assert code == 1 and said == "ros2 topic info: topic '/pionts' is not there; did you mean '/points'?\n"


def test_echo_adapts_to_whoever_publishes():
    assert good("topic", "echo", "--once", "/latched") == "data: kept\n---\n"
    said = good("topic", "echo", "--once", "/points")
    assert yaml.safe_load(said.removesuffix("---\n"))["point"] == {"x": 1.5, "y": 0.0, "z": 0.0}
    assert good("topic", "echo", "--once", "--field", "point.x", "/points") == "1.5\n---\n"
    assert re.fullmatch(r"\d+,\d+,base,1\.5,0\.0,0\.0\n", good("topic", "echo", "--once", "--csv", "/points"))
    said = good("topic", "echo", "--once", "--include-message-info", "--filter", "m.point.x > 1", "/points")
    assert "received_timestamp:" in said


def test_echo_waits_refuses_and_gives_up():
    code, said = ros2("topic", "echo", "--timeout", "1", "/nobody")
    assert code == 1 and "topic /nobody is not there yet; waiting for it" in said and "nothing came" in said
    code, said = ros2("topic", "echo", "--once", "--field", "pint", "/points")
    assert code == 2 and "did you mean 'point'?" in said
    code, said = ros2("topic", "echo", "--once", "/points", "std_msgs/msg/String")
    assert code == 1 and "carries geometry_msgs/msg/PointStamped, not std_msgs/msg/String" in said
    # asked for a quality of service that nobody offers, nothing can come
    code, said = ros2("topic", "echo", "--timeout", "15", "--qos-reliability", "reliable", "/points")
    assert code == 1 and "incompatible QoS" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_by_hand(number):
    code, said = Command("topic", "echo", "/points").until("---").end(number)
    assert code == 0 and "Traceback" not in said


def test_reader_of_a_pipe_goes_away():
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; '{sys.executable}' '{FRONT}' topic echo /points | head -n 3"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout[:7], done.stderr) == (0, "header:", "")


def test_rates():
    code, said = Command("topic", "hz", "-w", "20", "/points").until("average rate").until("window: 20").end(2)
    rates = [float(rate) for rate in re.findall(r"average rate: ([\d.]+)", said)]
    assert code == 0 and 5.0 < sorted(rates)[len(rates) // 2] < 40.0  # 20 Hz on a quiet machine
    code, said = Command("topic", "bw", "/points").until("Message size mean").end(signal.SIGINT)
    assert code == 0 and re.search(
        r" K?B/s from \d+ messages\n\tMessage size mean: 0.05 KB min: 0.05 KB max: 0.05 KB", said
    )
    code, said = Command("topic", "delay", "/points").until("average delay").end(signal.SIGINT)
    assert code == 0 and 0.0 <= float(re.search(r"average delay: ([\d.]+)", said)[1]) < 60.0
    code, said = ros2("topic", "delay", "/latched")
    assert code == 1 and "have no header" in said


def test_pub():
    listener = Command("topic", "echo", "--filter", "m.data == 'heard you'", "--once", "/heard")
    said = good("topic", "pub", "--once", "/said", "std_msgs/msg/String", "{data: you}")
    assert "publisher: beginning loop\npublishing #1: std_msgs.msg.String(data='you')\n" in said
    code, heard = listener.end()
    assert code == 0 and heard.endswith("data: heard you\n---\n")  # on a busy machine it says first that it waits
    said = good("topic", "pub", "-t", "3", "-r", "50", "-p", "3", "/said", "std_msgs/String", "{data: you}")
    assert "publishing #3" in said and "publishing #2" not in said
    code, said = ros2("topic", "pub", "--once", "/said", "std_msgs/msg/String", "{dat: you}")
    assert (code, said.count("\n")) == (2, 1) and "dat: std_msgs/msg/String has no such field" in said
    code, said = ros2("topic", "pub", "--once", "/said", "std_msgs/msg/Bool", "{data: true}")
    assert code == 1 and "carries std_msgs/msg/String, not std_msgs/msg/Bool" in said
    code, said = ros2("topic", "pub", "--once", "--max-wait-time-secs", "1", "/nobody", "std_msgs/msg/Bool")
    assert code == 1 and "waiting for 1 matching subscription of /nobody" in said


# ---- nodes, services, parameters ---------------------------------------------------------------------------------
def test_node():
    assert good("node", "list").split() == ["/robot/managed", "/robot/small"]
    said = good("node", "info", "/robot/small")
    for line in (
        "  Subscribers:\n    /said: std_msgs/msg/String\n  Publishers:\n",
        "    /robot/switch: std_srvs/srv/SetBool\n",
        "  Action Servers:\n    /robot/grip: control_msgs/action/GripperCommand\n",
    ):
        assert line in said
    code, said = ros2("node", "info", "/robot/smal")
    assert code == 1 and said.endswith("did you mean '/robot/small'?\n")


def test_service():
    assert "/robot/switch [std_srvs/srv/SetBool]" in good("service", "list", "-t").splitlines()
    assert good("service", "type", "/robot/switch") == "std_srvs/srv/SetBool\n"
    assert good("service", "find", "std_srvs/srv/SetBool") == "/robot/switch\n"
    assert good("service", "info", "/robot/switch").endswith("Clients count: 0\nServices count: 1\n")
    said = good("service", "call", "/robot/switch", "std_srvs/srv/SetBool", "{data: true}")
    assert "making request: std_srvs.srv.SetBool_Request(data=True)\n" in said
    assert "response:\nstd_srvs.srv.SetBool_Response(success=True, message='as you wish')\n" in said
    code, said = ros2("service", "call", "/robot/switch", "std_srvs/srv/SetBool", "{data: 1}")
    assert code == 2 and "data: expected true or false, found 1" in said
    code, said = ros2("service", "call", "/robot/switch", "std_srvs/srv/Trigger")
    assert code == 1 and "is a std_srvs/srv/SetBool, not a std_srvs/srv/Trigger" in said
    code, said = ros2("service", "call", "--timeout", "1", "/robot/swich", "std_srvs/srv/SetBool")
    assert code == 1 and "waiting for it (Ctrl-C ends it); did you mean '/robot/switch'?" in said


def test_param(tmp_path):
    assert good("param", "list", "/robot/small").split() == ["arm.name", "fixed", "gain", DESCRIBES, "use_sim_time"]
    said = good("param", "list", "--param-type")
    assert "/robot/small:\n  arm.name (type: string)\n" in said and "/robot/managed:\n" in said
    assert good("param", "get", "/robot/small", "gain") == "Double value is: 2.5\n"
    # a whole number for a double, as people write it
    assert good("param", "set", "/robot/small", "gain", "4") == "Set parameter successful\n"
    assert good("param", "get", "--hide-type", "robot/small", "gain") == "4.0\n"
    code, said = ros2("param", "set", "/robot/small", "gain", "40")
    assert code == 1 and said.startswith("Setting parameter failed: ") and "gain" in said
    code, said = ros2("param", "get", "/robot/small", "gian")
    assert code == 1 and said.endswith("has no parameter 'gian'; did you mean 'gain'?\n")
    assert good("param", "describe", "/robot/small", "gain", "fixed") == (
        "Parameter name: gain\n  Type: double\n  Description: of it\n  Constraints:\n    Min value: 0.0\n    Max value: 10.0\n"
        "Parameter name: fixed\n  Type: integer\n  Constraints:\n    Read only: true\n"
    )
    said = good("param", "dump", "/robot/small")
    assert yaml.safe_load(said)["/robot/small"]["ros__parameters"] == {
        "arm": {"name": "left"}, "fixed": 3, "gain": 4.0, DESCRIBES: True, "use_sim_time": False,
    }  # fmt: skip
    file = tmp_path / "parameters.yaml"
    file.write_text("/**: {ros__parameters: {gain: 1}}\n/robot/small: {ros__parameters: {arm: {name: '7'}}}\n")
    said = good("param", "load", "/robot/small", str(file))
    assert said.split("\n")[:2] == ["Set parameter gain successful", "Set parameter arm.name successful"]
    assert good("param", "get", "/robot/small", "arm.name") == "String value is: 7\n"
    code, said = ros2("param", "delete", "/robot/small", "gain")
    assert code == 1 and "Deleting parameter failed" in said
    code, said = ros2("param", "load", "/robot/managed", "no_file.yaml")
    assert code == 2 and "there is no file" in said


# ---- actions and lifecycle ---------------------------------------------------------------------------------------
def test_action():
    kind = "control_msgs/action/GripperCommand"
    assert good("action", "list", "-t") == f"/robot/grip [{kind}]\n"
    assert good("action", "type", "/robot/grip") == f"{kind}\n" and good("action", "find", kind) == "/robot/grip\n"
    assert good("action", "info", "-t", "/robot/grip") == (
        f"Action: /robot/grip\nAction clients: 0\nAction servers: 1\n    /robot/small [{kind}]\n"
    )
    said = good("action", "send_goal", "--feedback", "/robot/grip", kind, "{command: {position: 0.5}}")
    assert "Goal accepted with ID: " in said and "Feedback:\n    position: 0.25\n" in said
    assert "Result:\n    position: 0.5\n" in said and said.endswith("Goal finished with status: SUCCEEDED\n")
    code, said = ros2("action", "send_goal", "/robot/grip", kind, "{position: 0.5}")
    assert code == 2 and "position: control_msgs/action/GripperCommand_Goal has no such field" in said


def test_a_goal_is_cancelled_by_hand():
    words = ("action", "send_goal", "/robot/grip", "control_msgs/action/GripperCommand", "{command: {position: 2}}")
    code, said = Command(*words).until("Goal accepted").end(signal.SIGINT)
    assert code == 0 and said.endswith("Canceling goal...\nGoal canceled.\n")


def test_lifecycle():
    assert good("lifecycle", "nodes") == "/robot/managed\n"
    assert good("lifecycle", "get", "/robot/managed") == "unconfigured [1]\n"
    assert "- configure [1]\n\tStart: unconfigured\n\tGoal: configuring\n" in good(
        "lifecycle", "list", "/robot/managed"
    )
    assert good("lifecycle", "set", "/robot/managed", "configure") == "Transitioning successful\n"
    assert good("lifecycle", "get") == "/robot/managed: inactive [2]\n"
    code, said = ros2("lifecycle", "set", "/robot/managed", "configure")
    assert code == 2 and "/robot/managed is inactive and cannot 'configure' now" in said
    code, said = ros2("lifecycle", "get", "/robot/small")
    assert code == 1 and "has no states" in said


# ---- bags --------------------------------------------------------------------------------------------------------
def test_a_bag_is_recorded_told_and_played(tmp_path):
    bag = str(tmp_path / "bag")
    recorder = Command("bag", "record", "-o", bag, "/points", "/latched").until("'/points'")
    listener = Command("topic", "echo", "/points").until("---").until("---").until("---")
    assert listener.end(signal.SIGINT)[0] == 0
    code, said = recorder.end(signal.SIGINT)
    assert code == 0 and re.search(r"recorded \d+ messages of 2 topics", said), said
    said = good("bag", "info", bag)
    number = int(re.search(r"Topic: /points \| Type: geometry_msgs/msg/PointStamped \| Count: (\d+)", said)[1])
    assert number >= 3 and f"Messages:          {number + 1}\n" in said and "Storage id:        mcap\n" in said

    listener = Command("topic", "echo", "--once", "--field", "point.x", "/again")
    clock = Command("topic", "echo", "--once", "/clock")
    for waiting in (listener, clock):
        waiting.until("waiting for it")
    said = good(
        "bag",
        "play",
        bag,
        "--rate",
        "2",
        "--delay",
        "3",
        "--clock",
        "--topics",
        "/points",
        "--remap",
        "/points:=/again",
    )
    assert f"played {number} messages of 1 topics" in said
    assert "1.5\n---\n" in listener.end()[1] and "sec: " in clock.end()[1]
    code, said = ros2("bag", "play", bag, "--topics", "/pionts")
    assert code == 2 and "did you mean '/points'?" in said


def test_no_node_of_a_command_stays(domain):
    assert good("node", "list", "-a").split() == ["/robot/managed", "/robot/small"]
    assert os.environ["ROS_DOMAIN_ID"] == str(domain)
