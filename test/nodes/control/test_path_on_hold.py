"""The path waits for a controller that was deactivated: the node itself, fed by hand."""

import pytest

pytest.importorskip("rclpy")

import rclpy
from builtin_interfaces.msg import Time
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from nodes.control.adaptive_mpc import AdaptiveMpcNode
from sim_core.control.path_clock import PathClock

PERIOD = 0.02


@pytest.fixture
def node(domain):
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    given = dict(robot="panda", refit="off", lockstep=True, control_period=PERIOD, horizon=10)
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
