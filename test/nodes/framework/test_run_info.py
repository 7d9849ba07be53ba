"""What a bag says about its run: the parameters of every node, asked for without waiting and without end."""

import pytest

pytest.importorskip("rclpy")

from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter

from nodes.framework import run_info
from nodes.framework.run_info import ParameterSurvey


@pytest.fixture
def survey(ros, monkeypatch):
    """A survey by the test's node, its findings, and the clients that it made and destroyed."""
    monkeypatch.setattr(run_info, "ANSWER_WAIT", 0.3)
    found, clients = [], {"made": 0, "destroyed": 0}
    asker = Node("asker", context=ros.context)
    create, destroy = asker.create_client, asker.destroy_client
    monkeypatch.setattr(asker, "create_client", lambda *a: (clients.update(made=clients["made"] + 1), create(*a))[1])
    monkeypatch.setattr(
        asker, "destroy_client", lambda c: (clients.update(destroyed=clients["destroyed"] + 1), destroy(c))[1]
    )
    executor = SingleThreadedExecutor(context=ros.context)
    executor.add_node(asker)
    survey = ParameterSurvey(asker, lambda name, values: found.append((name, values)))

    def look():
        survey.look()
        executor.spin_once(timeout_sec=0.02)

    survey.turn, survey.found, survey.clients = look, found, clients
    yield survey
    survey.close()
    assert clients["made"] == clients["destroyed"]
    executor.shutdown()
    asker.destroy_node()


def told(survey, name):
    return [values for found, values in survey.found if found == name]


def test_a_late_node_is_asked_through_the_same_clients_and_once_it_answers_no_more(ros, survey):
    """It is there, but nobody runs it: as a process that takes seconds to start on a busy machine."""
    sleeper = Node(
        "sleeper", context=ros.context, parameter_overrides=[Parameter("speed", value=1.5)],
        automatically_declare_parameters_from_overrides=True,
    )  # fmt: skip
    ros.until(lambda: (survey.turn(), "/sleeper" in survey._asked)[1], what="the first question")
    first = survey._asked["/sleeper"][1]
    ros.until(lambda: (survey.turn(), survey._asked["/sleeper"][1] is not first)[1], what="the second question")
    made = survey.clients["made"]
    executor = SingleThreadedExecutor(context=ros.context)
    executor.add_node(sleeper)

    def answered():
        executor.spin_once(timeout_sec=0.02)
        survey.turn()
        return told(survey, "/sleeper")

    ros.until(answered, what="the answer")
    for _ in range(30):
        answered()
    (values,) = told(survey, "/sleeper")
    assert values["speed"] == 1.5
    assert survey.clients == {"made": made, "destroyed": 0}
    # Gone, and back with other values: it is asked again.
    executor.remove_node(sleeper)
    sleeper.destroy_node()
    ros.until(lambda: (survey.turn(), "/sleeper" not in survey._asked)[1], what="its end")
    again = Node(
        "sleeper", context=ros.context, parameter_overrides=[Parameter("speed", value=2.5)],
        automatically_declare_parameters_from_overrides=True,
    )  # fmt: skip
    executor.add_node(again)
    ros.until(lambda: len(answered()) == 2, what="the answer of the one that is back")
    assert told(survey, "/sleeper")[1]["speed"] == 2.5 and survey.clients["made"] == made
    executor.shutdown()
    again.destroy_node()
