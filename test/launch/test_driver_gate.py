"""The desktop arm on emulated servos: armed by its supervisor, led through its real driver, disarmed and armed again."""

import launch_pytest
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from launch import LaunchDescription
from launched import Processes, include, until
from std_srvs.srv import Trigger

from nodes.framework.qos import STATE

# Patient where a busy machine is late: an arm whose emulated servos or driver are not run for a while overshoots, and the
# supervisor must not halt it for that here.
PATIENT = """
/**/dynamixel:
  ros__parameters: {command_age_limit: 1.0, bus_watchdog_ms: 1000.0, error_timeout_ms: 5000.0, stale_timeout: 1.0}
/**/adaptive_mpc:
  ros__parameters: {state_age_limit: 1.0}
/**/supervisor:
  ros__parameters:
    {state_age_limit: 5.0, command_age_limit: 5.0, lease_duration: 5.0, velocity_margin: 100.0, position_margin: 10.0}
"""


@launch_pytest.fixture(scope="module")
def robot(domain, tmp_path_factory):
    file = tmp_path_factory.mktemp("gate") / "patient.yaml"
    file.write_text(PATIENT)
    processes = Processes()
    action = include(
        "robot.launch.py", robot="dxl_arm", use_emulators=True, devices="dynamixel", refit=False, params_file=file
    )
    return LaunchDescription([*processes.handlers(), action]), processes


@pytest.fixture(scope="module")
def driver(probe):
    """A value of the driver's diagnostics, by its newest word."""
    diagnostics = probe.watch(DiagnosticArray, "diagnostics", STATE)

    def value(key):
        for message in reversed(list(diagnostics)):
            for status in message.status:
                if status.name == "dynamixel":
                    return {pair.key: pair.value for pair in status.values}.get(key, "")
        return ""

    return value


@pytest.mark.launch(fixture=robot)
def test_the_controller_moves_the_arm_through_the_gate(robot, probe, driver):
    probe.wait_active("dynamixel", "supervisor", "adaptive_mpc")
    until(lambda: driver("gate") == "open to adaptive_mpc", "the supervisor lends the right to command")
    until(lambda: int(driver("commands") or 0) > 100, "commands are followed")
    # The planner keeps the limits that the driver's gate demands: most of what it asks for passes.
    assert int(driver("refused_limit") or 0) < 0.5 * int(driver("commands"))
    assert not driver("refused_commander")


@pytest.mark.launch(fixture=robot)
def test_a_disarmed_arm_follows_nothing_until_it_is_armed(probe, driver):
    assert probe.call(Trigger, "disarm").success
    until(lambda: "disarmed by an operator" in driver("gate"), "the gate is closed")
    until(lambda: "disarmed by an operator" in driver("source"), "the controller's commands have ended")
    count = driver("commands")
    until(lambda: probe.call(Trigger, "arm").success, "it is armed again")
    until(lambda: int(driver("commands")) > int(count) + 50, "commands are followed again")
