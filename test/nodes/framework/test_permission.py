"""A controller believes the supervisor, once it is known that it is the supervisor who speaks."""

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

from refit_interfaces.msg import SupervisorStatus

from nodes.framework.permission import Permission
from nodes.framework.speakers import NAMELESS


class Node:
    """Knows of publishers what a test says."""

    def __init__(self):
        self.publishers, self.errors = [], []

    def create_subscription(self, kind, topic, callback, qos):
        self.say = callback
        return callback

    def destroy_subscription(self, subscription):
        assert subscription is self.say or subscription == self.say
        self.say = None

    def get_namespace(self):
        return "/"

    def get_publishers_info_by_topic(self, topic):
        return [SimpleNamespace(node_name=name, node_namespace="/") for name in self.publishers]

    def get_logger(self):
        return SimpleNamespace(error=lambda why, **options: self.errors.append(why))


@pytest.fixture
def node():
    return Node()


def status(state):
    return SupervisorStatus(state=state, message="for a test")


def test_what_is_said_before_the_speaker_has_a_name_is_heard_when_it_has_one(node):
    changes = []
    permission = Permission(node, lambda: changes.append(permission.denied))
    node.publishers = ["supervisor"]
    node.say(status(SupervisorStatus.STATE_HALTED))
    assert "halted" in permission.denied
    node.publishers = [NAMELESS]
    node.say(status(SupervisorStatus.STATE_READY))
    permission.attend()
    assert "halted" in permission.denied and not node.errors
    node.publishers = ["supervisor"]
    permission.attend()
    assert node.say is not None and "halted" in permission.denied
    node.say(status(SupervisorStatus.STATE_READY))  # as the middleware repeats it to who subscribes anew
    assert permission.denied == "" and len(changes) == 2


def test_a_word_that_waited_for_a_name_is_not_taken_for_the_newest(node):
    """A busy node takes DISARMED, and learns the name before it takes READY, which followed at once."""
    permission = Permission(node, lambda: None)
    node.publishers = [NAMELESS]
    node.say(status(SupervisorStatus.STATE_DISARMED))
    permission.attend()
    node.publishers = ["supervisor"]
    permission.attend()
    assert permission.denied == ""
    node.say(status(SupervisorStatus.STATE_DISARMED))
    assert "disarmed" in permission.denied


def test_a_strangers_word_is_not_believed_when_his_name_becomes_known(node):
    permission = Permission(node, lambda: None)
    node.publishers = [NAMELESS]
    node.say(status(SupervisorStatus.STATE_READY))
    node.publishers = ["supervisor", "stranger"]
    permission.attend()
    assert "/stranger publishes" in permission.denied and node.errors == [permission.denied]


def test_when_the_stranger_has_gone_the_supervisor_is_heard_anew(node):
    permission = Permission(node, lambda: None)
    node.publishers = ["supervisor", "stranger"]
    node.say(status(SupervisorStatus.STATE_READY))
    deceived = node.say
    node.say(status(SupervisorStatus.STATE_READY))
    permission.attend()
    assert permission.denied and node.say == deceived
    node.publishers = ["supervisor"]
    permission.attend()
    assert permission.denied, "what the stranger said last is not believed"
    node.say(status(SupervisorStatus.STATE_READY))  # as the middleware repeats it to who subscribes anew
    assert permission.denied == ""
