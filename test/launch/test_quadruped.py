"""The launch that users type lets a quadruped walk, under its supervisor, by the network; and ends well."""

import launch_pytest
import pytest
from geometry_msgs.msg import Twist
from launch import LaunchDescription
from launched import Processes, include, until
from refit_interfaces.msg import ControllerStatus, SupervisorStatus
from tf2_msgs.msg import TFMessage

from nodes.framework.qos import COMMAND, LEDGER, STATE


@launch_pytest.fixture(scope="module")
def quadruped(domain):
    processes = Processes()
    return LaunchDescription(
        [
            *processes.handlers(),
            include("sim.launch.py", robot="quadruped", solver="neural", lockstep=True, real_time_factor=0.0),
        ]
    ), processes


@pytest.mark.launch(fixture=quadruped)
def test_it_walks_and_ends_well(quadruped, probe):
    _, processes = quadruped
    frames = probe.watch(TFMessage, "/tf", STATE)
    status = probe.watch(ControllerStatus, "/controller/status", STATE)
    supervisor = probe.watch(SupervisorStatus, "/supervisor/status", LEDGER)
    goal = probe.node.create_publisher(Twist, "/cmd_vel", COMMAND)
    probe.wait_active("/sim_plant", "/stance_controller", "/supervisor")

    def trunk():
        goal.publish(twist)
        return next(
            (x.transform.translation for m in [frames[-1]] for x in m.transforms if x.child_frame_id == "trunk"), None
        )

    twist = Twist()
    twist.linear.x = 0.3
    until(lambda: len(frames) and trunk().x > 0.3, "the robot has walked 0.3 m")
    assert trunk().z > 0.25
    assert status.wait_next(lambda m: m.state == ControllerStatus.STATE_TRACKING).message == ""  # no fallback
    supervisor.wait(lambda m: m.state == SupervisorStatus.STATE_RUNNING)
    processes.assert_running()
    assert set(processes.pid) == {"/sim_plant", "/stance_controller", "/supervisor"}
    yield
    processes.assert_ended_well()
