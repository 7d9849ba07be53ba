"""A robot's drivers and the emulators of its devices, from one launch: all are well, one may die, all end and leave nothing."""

import tempfile
from pathlib import Path

import launch_pytest
import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from launch import LaunchDescription
from launched import Processes, include, until
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState, LaserScan

from hardware.urg.scene import MujocoScene
from nodes.framework.qos import CLOCK, STATE
from sim_core.plant import robot_mjcf

DRIVERS = ("urg", "ft_sensor", "dynamixel")


@launch_pytest.fixture(scope="module")
def robot(domain):
    processes = Processes()
    action = include("drivers.launch.py", robot="dxl_arm", use_emulators=True, devices=",".join(DRIVERS))
    return LaunchDescription([*processes.handlers(), action]), processes


@pytest.fixture(scope="module")
def watched(probe):
    return {
        "diagnostics": probe.watch(DiagnosticArray, "diagnostics", STATE),
        "joints": probe.watch(JointState, "joint_states", STATE),
        "scan": probe.watch(LaserScan, "scan", STATE),
        "wrench": probe.watch(WrenchStamped, "ft_sensor/wrench", STATE),
        "truth": probe.watch(JointState, "sim_plant/joint_states", STATE),
        "clock": probe.watch(Clock, "sim_plant/clock", CLOCK),
    }


def well(diagnostics, node):
    """Whether a driver's newest diagnostics tell of data that flow, at whatever rate this machine allows."""
    for message in reversed(list(diagnostics)):
        for status in message.status:
            if status.name.rsplit("/", 1)[-1] == node:
                values = {v.key: v.value for v in status.values}
                return values.get("state") == "streaming" and (
                    status.level in (b"\x00", b"\x01") or status.message.startswith("rate ")
                )
    return False


def sees(scan, truth):
    """Whether a scan's beams end where plain rays do from the scanner of an arm that stands so."""
    steps = (np.arange(682) - 340) * 2.0 * np.pi / 1024.0
    away = (
        MujocoScene(robot_mjcf("dxl_arm")[1], list(truth.name), lambda: np.array(truth.position)).cast(steps).distance
    )
    found, within = np.array(scan.ranges), (away > 0.02) & (away < 5.6)
    with np.errstate(invalid="ignore"):
        right = within & (np.abs(found - away) < 0.02 + 0.02 * away)
    return right.sum() > 0.85 * within.sum() and np.isfinite(found[~within]).sum() < 0.15 * len(found)


@pytest.mark.launch(fixture=robot)
def test_all_are_well_and_feel_the_simulated_robot(robot, probe, watched):
    probe.wait_active(*DRIVERS)
    until(lambda: all(well(watched["diagnostics"], node) for node in DRIVERS), "all drivers are well")
    until(lambda: watched["clock"] and watched["clock"][-1].clock.nanosec > 0, "the arm has left its stand")
    until(
        lambda: (
            len(watched["scan"]) > 2
            and len(watched["wrench"]) > 20
            and len(watched["truth"]) > 20
            and len(watched["joints"]) > 20
        ),
        "every sensor speaks",
    )
    # On a busy machine some servos miss their turn, and a message names those that answered.
    told, moved = ({name for m in watched[which][:] for name in m.name} for which in ("joints", "truth"))
    assert told == moved | {"gripper"} and len(moved) == 6

    # Held where it stood, and measured to the servo's resolution; both messages are newest, not simultaneous.
    def apart():
        truth = dict(zip(watched["truth"][-1].name, watched["truth"][-1].position))
        told = dict(zip(watched["joints"][-1].name, watched["joints"][-1].position))
        return max(abs(told[name] - truth[name]) for name in truth) if truth.keys() <= told.keys() else np.inf

    until(lambda: apart() < 0.02, "encoders agree with the plant")
    # An arm that is limp for 0.4 s, as when nothing of this machine is left for its servos, lies before the scanner: most of the rays
    # then end nearer than 20 mm. So what is expected is cast from where the arm is.
    until(
        lambda: sees(watched["scan"][-1], watched["truth"][-1]), "the scanner sees what is around the arm as it stands"
    )
    scan = watched["scan"][-1]
    assert len(scan.ranges) == 682 and scan.header.frame_id == "laser"

    def weight() -> float:
        force = watched["wrench"][-1].wrench.force
        return float(np.linalg.norm([force.x, force.y, force.z]))

    # What hangs below the sensor: gripper and hand, near half a newton per 50 g; more while the arm moves.
    until(lambda: 0.5 < weight() < 3.0, "the sensor feels the weight of what hangs below it")
    robot[1].assert_running()


@pytest.mark.launch(fixture=robot)
def test_a_dead_emulator_concerns_its_own_driver_alone(robot, probe, watched):
    robot[1].kill(next(name for name in robot[1].pid if name.startswith("emulated_urg")))
    until(lambda: not well(watched["diagnostics"], "urg"), "the scanner is missed")
    count = len(watched["joints"])
    until(lambda: len(watched["joints"]) > count + 50, "the servos go on")
    until(lambda: well(watched["diagnostics"], "dynamixel"), "the servos are well")
    until(lambda: well(watched["diagnostics"], "ft_sensor"), "the force sensor is well")
    robot[1].assert_running(*(name for name in robot[1].pid if name.startswith("emulated_urg")))


@pytest.mark.launch(fixture=robot)
def test_nothing_is_left(robot):
    world = {path for folder in ("/dev/shm", tempfile.gettempdir()) for path in Path(folder).glob("refit-devices-*")}
    assert world
    yield
    robot[1].assert_ended_well(*(name for name in robot[1].pid if name.startswith("emulated_urg")))
    left = {path for path in world if path.exists()}
    assert len(left) <= len(world) - 2, f"left: {left}"  # this launch's folder and world are gone
