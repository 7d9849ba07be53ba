"""Permissions against graphs that run: whatever a launched node says, hears, offers or asks, its enclave may.

What a node is not allowed it would lose in silence under `secure:=true`, so the list that is read from the sources is held
against what the middleware reports of every node.
"""

import fnmatch
import os
import subprocess
import sys

import launch_pytest
import pytest
from launch import LaunchDescription
from launched import Processes, include, until

from cli.main import main
from cli.security_permissions import members
from nodes.framework.security import middleware_lacks, variables

#: namespace -> robot: drivers on emulators, and a plant with controller, refit and recorder
ROBOTS = {"left": "dxl_arm", "right": "cartpole"}
NODES = {
    "left": ("sim_plant", "robot_state", "dynamixel", "ft_sensor", "urg"),
    "right": ("sim_plant", "adaptive_mpc", "refit_worker", "supervisor", "recorder"),
}


@launch_pytest.fixture(scope="module")
def graph(domain, tmp_path_factory):
    """Both robots in one graph."""
    processes = Processes()
    left, right = (dict(namespace=name, robot=robot) for name, robot in ROBOTS.items())
    left = include("drivers.launch.py", use_emulators=True, devices="dynamixel,ft_sensor,urg", **left)
    folder = tmp_path_factory.mktemp("right")
    right = include("sim.launch.py", real_time_factor=0.3, record=True, run_directory=folder, **right)
    return LaunchDescription([*processes.handlers(), left, right]), processes


def used(node, name, namespace):
    """(published, heard) DDS topics of a node, as the middleware tells."""

    def names(what):
        return {topic for topic, _ in getattr(node, f"get_{what}_names_and_types_by_node")(name, namespace)}

    served, asked = names("service"), names("client")
    publishes = {f"rt{topic}" for topic in names("publisher")}
    hears = {f"rt{topic}" for topic in names("subscriber")}
    publishes |= {f"rq{name}Request" for name in asked} | {f"rr{name}Reply" for name in served}
    hears |= {f"rr{name}Reply" for name in asked} | {f"rq{name}Request" for name in served}
    return publishes, hears


def forbidden(topics, allowed):
    return sorted(topic for topic in topics if not any(fnmatch.fnmatchcase(topic, pattern) for pattern in allowed))


@pytest.mark.launch(fixture=graph)
@pytest.mark.parametrize("namespace", ROBOTS)
def test_whatever_a_node_does_it_may(probe, graph, namespace):
    may = {member.enclave: member for member in members(ROBOTS[namespace], namespace)}
    looked = 0
    for name in NODES[namespace]:
        enclave = f"/{namespace}/{name}"

        def complete(name=name):
            """An active node's endpoints, of which the discovery of the last has come."""
            publishes, hears = used(probe.node, name, f"/{namespace}")
            return (
                f"rr/{namespace}/{name}/get_stateReply" in publishes
                and f"rt/{namespace}/diagnostics" in publishes
                and (publishes, hears)
            )

        probe.wait_active(f"{namespace}/{name}")
        publishes, hears = until(complete, f"{enclave} has its topics")
        looked += len(publishes) + len(hears)
        assert forbidden(publishes, may[enclave].publishes) == [], f"{enclave} publishes what it may not"
        assert forbidden(hears, may[enclave].subscribes) == [], f"{enclave} hears what it may not"
    assert looked > 20 * len(NODES[namespace])


# ---- strangers ---------------------------------------------------------------------------------------------------
STRANGER = """
import sys, time
import rclpy
from refit_interfaces.msg import JointCommand
from rclpy.node import Node
rclpy.init()
node = Node("stranger")
heard = []
node.create_subscription(JointCommand, "joint_command", heard.append, 10)
commands = node.create_publisher(JointCommand, "joint_command", 10)
for _ in range(100):
    commands.publish(JointCommand(names=["stranger"]))
    rclpy.spin_once(node, timeout_sec=0.1)
print(len(heard), len(node.get_node_names()) - 1)
"""
MEMBER = """
import time
import rclpy
from rclpy.node import Node
from refit_interfaces.msg import JointCommand
rclpy.init(args=["--ros-args", "--enclave", "/{name}"])
node = Node("{name}")
heard = []
node.create_subscription(JointCommand, "joint_command", heard.append, 10)
publisher = node.create_publisher(JointCommand, "joint_command", 10) if "{name}" == "adaptive_mpc" else None
while not heard:
    if publisher is not None:
        publisher.publish(JointCommand(names=["member"]))
    rclpy.spin_once(node, timeout_sec=0.1)
print(*{{name for message in heard for name in message.names}}, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(bool(middleware_lacks()), reason=f"no graph can have keys here: {middleware_lacks()}")
def test_who_has_no_key_hears_nothing_and_moves_nothing(domain, tmp_path):
    """Beside a controller and a supervisor with keys, which hear each other."""
    assert main(["security", "create", str(tmp_path / "keys"), "--robot", "cartpole"]) == 0
    guarded = {**os.environ, **variables({"secure": "true", "keystore": str(tmp_path / "keys")})}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MEMBER.format(name=name)], env=guarded, stdout=subprocess.PIPE, text=True
        )
        for name in ("adaptive_mpc", "supervisor")
    ]
    try:
        stranger = subprocess.run([sys.executable, "-c", STRANGER], capture_output=True, text=True, timeout=120)
        assert stranger.stdout.split() == ["0", "0"]
        assert [process.stdout.readline().split() for process in processes] == [["member"], ["member"]]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
