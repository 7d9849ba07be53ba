"""The path waits for a controller that was deactivated and for an arm that is elsewhere: the node itself, fed by hand."""

import pytest

pytest.importorskip("rclpy")

import rclpy
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from refit_interfaces.msg import ControllerStatus, SupervisorStatus
from sensor_msgs.msg import JointState

from nodes.control.adaptive_mpc import AdaptiveMpcNode
from sim_core.control.path_clock import PathClock

PERIOD = 0.02


@pytest.fixture
def node(domain, request):
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    given = dict(robot="panda", refit="off", lockstep=True, control_period=PERIOD, horizon=10)
    given |= getattr(request, "param", {})
    made = AdaptiveMpcNode(
        context=context, parameter_overrides=[Parameter(name, value=value) for name, value in given.items()]
    )
    made.trigger_configure()
    yield made
    made.close()
    context.try_shutdown()


def say(node, t, moved=0.0):
    """A joint state stamped t [s], as the middleware would hand it over."""
    model = node.model
    message = JointState(
        name=list(model.joint_names),
        position=list(model.q_home + moved),
        velocity=[0.0] * model.nv,
        effort=[0.0] * model.nv,
    )
    message.header.stamp = Time(sec=int(t), nanosec=round((t % 1) * 1e9))
    node._on_joint_state(serialize_message(message))


def test_it_goes_on_where_it_was_when_the_controller_is_active_again(node):
    node.trigger_activate()
    for k in range(6):
        say(node, 10.0 + k * PERIOD)
    followed = node._step.time
    assert followed == pytest.approx(5 * PERIOD)
    node.trigger_deactivate()
    for k in range(100):
        say(node, 10.1 + k * PERIOD)
    last = 10.1 + 99 * PERIOD
    node.trigger_activate()
    for k in (1, 2):
        say(node, last + k * PERIOD)
        # No time has passed for the path, and none is made up for; it goes on from rest.
        assert node._step.time == pytest.approx(followed + (k * PERIOD) ** 2 / (2 * PathClock.RAMP))


def test_it_begins_anew_where_time_went_back(node):
    node.trigger_activate()
    for k in range(6):
        say(node, 10.0 + k * PERIOD)
    node.trigger_deactivate()
    say(node, 5.0)
    node.trigger_activate()
    say(node, 5.0 + PERIOD)
    assert node._step.time == 0.0


def heard(node, monkeypatch):
    """What the node sends from now on: (commands, statuses)."""
    commands, statuses = [], []
    monkeypatch.setattr(node.commands, "publish", commands.append)
    monkeypatch.setattr(node.status, "publish", statuses.append)
    return commands, statuses


def diagnosed(node, monkeypatch):
    """(level, sentence) of what the node would publish as its diagnostics."""
    said = []
    monkeypatch.setattr(node.diagnostics, "warn", lambda text: said.append((DiagnosticStatus.WARN, text)))
    monkeypatch.setattr(node.diagnostics, "error", lambda text: said.append((DiagnosticStatus.ERROR, text)))
    node.diagnose()
    return said


def supervise(node, state, message=""):
    node.permission._set("" if state == SupervisorStatus.STATE_RUNNING else message, False)


def test_a_displaced_arm_is_led_back_when_the_supervisor_lets_it_go_on(node, monkeypatch):
    node.trigger_activate()
    for k in range(6):
        say(node, 10.0 + k * PERIOD)
    followed = node._step.time
    supervise(node, SupervisorStatus.STATE_HALTED, "halted")
    say(node, 11.0, moved=0.4)
    commands, statuses = heard(node, monkeypatch)
    supervise(node, SupervisorStatus.STATE_RUNNING)
    for k in range(1, 6):
        say(node, 11.0 + k * PERIOD, moved=0.4)
    assert len(commands) == 6 and node._step.led and node._step.time == followed
    assert all("led to the path" in status.message and status.path_time == followed for status in statuses)
    # The posture asked for leaves where the arm is slowly, instead of jumping to the path.
    assert max(abs(p - q - 0.4) for p, q in zip(commands[-1].position, node.model.q_home)) < 0.05
    assert any(
        level == DiagnosticStatus.WARN and "led to the path" in text for level, text in diagnosed(node, monkeypatch)
    )


@pytest.mark.parametrize("node", [dict(path_beyond="stop", path_tolerance_time=0.1)], indirect=True)
def test_commands_cease_off_the_path_if_so_asked_and_everybody_is_told(node, monkeypatch):
    node.trigger_activate()
    say(node, 10.0)
    commands, statuses = heard(node, monkeypatch)
    for k in range(1, 12):
        say(node, 10.0 + k * PERIOD, moved=0.2)
    assert 0 < len(commands) < 11
    node._watch()
    assert statuses[-1].state == ControllerStatus.STATE_STOPPED
    assert "off the path by" in statuses[-1].message and "resume" in statuses[-1].message
    assert (DiagnosticStatus.ERROR, statuses[-1].message) in diagnosed(node, monkeypatch)
    before = len(commands)
    supervise(node, SupervisorStatus.STATE_HALTED, "halted")
    supervise(node, SupervisorStatus.STATE_RUNNING)
    say(node, 10.5, moved=0.2)
    assert len(commands) > before and node._step.led
