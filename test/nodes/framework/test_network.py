"""What of a node's sockets the network can see: nothing, unless the network was opened on purpose."""

import os
import socket
import subprocess
import sys
import time

import pytest

from cli.udp_sockets import udp_addresses
from config import network

#: a participant that hears and speaks on one address, as if it were on another machine, and names us as its peer
OUTSIDER = """
import sys, time
import rclpy
from rclpy.node import Node

rclpy.init()
node = Node("outsider")
while True:
    print(*node.get_node_names(), flush=True)
    time.sleep(0.1)
"""
#: what this machine's ROS does without this project
BARE = """
import time
import rclpy
from rclpy.node import Node

rclpy.init()
node = Node("bare")
time.sleep(600)
"""
OUTSIDE_PROFILE = """<?xml version="1.0" encoding="UTF-8"?>
<dds xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles"><profiles>
  <transport_descriptors><transport_descriptor>
    <transport_id>outside</transport_id><type>UDPv4</type><maxInitialPeersRange>32</maxInitialPeersRange>
    <interfaceWhiteList><address>{address}</address></interfaceWhiteList>
  </transport_descriptor></transport_descriptors>
  <participant profile_name="outside" is_default_profile="true"><rtps>
    <userTransports><transport_id>outside</transport_id></userTransports>
    <useBuiltinTransports>false</useBuiltinTransports>
  </rtps></participant>
</profiles></dds>
"""
PATIENCE = 60.0  # [s]


@pytest.fixture(scope="module")
def outside():
    """An address of this machine that other machines could reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it asks which address would be used
        except OSError:
            pytest.skip("this machine has no address but the loopback's")
        return probe.getsockname()[0]


@pytest.fixture
def python():
    """python(code, **environment): a process in this graph that runs code and prints; gone afterwards."""
    processes = []

    def start(code, **environment):
        plain = {
            name: value
            for name, value in os.environ.items()
            if name not in (network.RANGE, network.PROFILES, network.PEERS, network.ONLY)
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**plain, **environment}
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_a_node_listens_on_this_machine_alone(ros, monkeypatch):
    """Whoever starts it, and whatever peers they name."""
    for name in (network.RANGE, network.PROFILES):
        monkeypatch.delenv(name)
    monkeypatch.setenv(network.PEERS, "192.0.2.7")
    node = ros.start("supervisor")
    ros.until(lambda: "supervisor" in ros.node.get_node_names(), what="the supervisor in the graph")
    assert udp_addresses(node.pid) == {"127.0.0.1"}
    assert "ROS_STATIC_PEERS=192.0.2.7 is ignored" in ros.finish(node)[2]


def test_subnet_opens_a_node_on_purpose(ros, monkeypatch):
    monkeypatch.setenv(network.RANGE, "SUBNET")
    node = ros.start("supervisor")
    ros.until(lambda: "supervisor" in ros.node.get_node_names(), what="the supervisor in the graph")
    assert "0.0.0.0" in udp_addresses(node.pid)


def test_nobody_outside_gets_in_by_naming_us_as_a_peer(ros, python, outside, tmp_path):
    """The way in that ROS's LOCALHOST leaves open, which the bare node shows; and those inside do hear each other."""
    profile = tmp_path / "outside.xml"
    profile.write_text(OUTSIDE_PROFILE.format(address=outside))
    python(BARE, **{network.RANGE: "LOCALHOST"})
    ros.start("supervisor")
    ros.until(lambda: {"supervisor", "bare"} <= set(ros.node.get_node_names()), what="both nodes in the graph")
    outsider = python(OUTSIDER, **{network.RANGE: "SUBNET", network.PEERS: outside, network.PROFILES: str(profile)})
    found, end = set(), time.monotonic() + PATIENCE
    while "bare" not in found:
        assert time.monotonic() < end, f"an outsider found {found} alone: this test would notice no open door"
        found = set(outsider.stdout.readline().split())
    for _ in range(50):  # announcements come three times in the first second, and every three seconds after that
        found |= set(outsider.stdout.readline().split())
    assert "bare" in found and "supervisor" not in found
    assert "outsider" not in ros.node.get_node_names()
