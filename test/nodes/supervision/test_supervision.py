"""The supervisor's table is walked, drawn and complete; the watch turns ages and limits into its events."""

from collections import deque
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nodes.framework.joint_state_gate import JointStateGate
from nodes.supervision.supervision import TRANSITIONS, Code, Event, Machine, State, markdown_table
from nodes.supervision.watch import Watch, WatchLimits

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_cell_of_the_table(state, event):
    machine = Machine(state, Code.OK, "before")
    expected = TRANSITIONS[state].get(event, (state, Code.OK))
    changed = machine.handle(event, "a sentence")
    assert (machine.state, machine.code) == expected
    assert changed == (expected != (state, Code.OK))
    assert machine.message == ("a sentence" if changed else "before")


def test_every_state_is_reachable_and_none_is_a_trap():
    def reachable(start):
        seen, queue = {start}, deque([start])
        while queue:
            for target, _ in TRANSITIONS[queue.popleft()].values():
                if target not in seen:
                    seen.add(target)
                    queue.append(target)
        return seen

    assert reachable(State.STARTING) == set(State)
    for state in State:
        assert State.SHUTDOWN in reachable(state)


def test_a_halt_latches_until_resume():
    machine = Machine(State.HALTED, Code.STATE_LOST, "lost")
    for event in Event:
        if event not in (Event.RESUME, Event.STOP, Event.SHUTDOWN):
            assert not machine.handle(event), event
    assert machine.handle(Event.RESUME) and machine.state is State.READY


def test_a_lost_refit_never_halts():
    assert all(
        target is not State.HALTED
        for events in TRANSITIONS.values()
        for event, (target, _) in events.items()
        if event in (Event.REFIT_SILENT, Event.REFIT_BACK)
    )


def test_values_are_those_of_the_message():
    message = pytest.importorskip("refit_interfaces.msg").SupervisorStatus
    for state in State:
        assert getattr(message, f"STATE_{state.name}") == state.value
    for code in Code:
        assert getattr(message, f"CODE_{code.name}") == code.value


def test_the_table_is_drawn_in_the_docs():
    assert markdown_table() in (REPOSITORY / "docs/nodes/supervisor.md").read_text()


# -- the watch -------------------------------------------------------------------------------------------


def joint_state(stamp, position, velocity=(0.0, 0.0), names=("a", "b")):
    header = SimpleNamespace(stamp=SimpleNamespace(sec=int(stamp), nanosec=round((stamp % 1) * 1e9)))
    return SimpleNamespace(header=header, name=list(names), position=list(position), velocity=list(velocity), effort=[])


@pytest.fixture
def watch():
    limits = WatchLimits(state_age=0.1, command_age=0.2, refit_age=1.0, rest_velocity=0.02, rest_time=0.1)
    return Watch(("a", "b"), [-1, -np.inf], [1, np.inf], [5, np.inf], limits)


def feed(watch, stamp, position=(0.0, 0.0), velocity=(0.0, 0.0)):
    watch.see_state(stamp, *JointStateGate(("a", "b")).read(joint_state(stamp, position, velocity), stamp))


def events(watch, now):
    return [event for event, _ in watch.events(now)]


def test_nothing_seen_is_no_fault(watch):
    assert watch.faults(100.0) == []


def test_silence_is_a_fault_only_after_the_limit(watch):
    feed(watch, 1.0)
    assert Event.STATES_FLOW in events(watch, 1.09)
    assert Event.STATES_SILENT in events(watch, 1.11)


def test_one_nan_is_tolerated_and_a_stream_of_them_is_not(watch):
    feed(watch, 1.0)
    feed(watch, 1.05, (np.nan, 0.0))
    assert watch.faults(1.05) == []
    feed(watch, 1.12, (np.nan, 0.0))
    ((event, sentence),) = watch.faults(1.12)
    assert event is Event.STATES_BAD and "position of a is not finite" in sentence


def test_invalid_from_the_first_message_on(watch):
    for stamp in (1.0, 1.05, 1.11):
        feed(watch, stamp, (np.nan, 0.0))
    assert [event for event, _ in watch.faults(1.11)] == [Event.STATES_BAD]


@pytest.mark.parametrize("position, velocity, word", [((1.01, 9.0), (0, 0), "outside"), ((0, 0), (5.1, 9.0), "moves")])
def test_limits_name_the_joint(watch, position, velocity, word):
    feed(watch, 1.0, position, velocity)
    ((event, sentence),) = watch.faults(1.0)
    assert event is Event.LIMIT_EXCEEDED and sentence.startswith("a ") and word in sentence


def test_an_impostor_comes_before_all_else_and_holds_nothing_else_up(watch):
    feed(watch, 1.0)
    watch.see_speakers("/stranger publishes supervisor/status")
    assert watch.faults(50.0)[0] == (Event.IMPOSTOR, "/stranger publishes supervisor/status")
    assert events(watch, 50.0)[1] is Event.STATES_SILENT
    assert Event.STATES_FLOW in events(watch, 1.05)  # it starts, and is not armed
    watch.see_speakers("")
    assert watch.faults(1.05) == []


def test_commands_may_end_but_not_go_missing(watch):
    feed(watch, 1.0)
    watch.see_controller(idle=False)
    watch.see_command(1.0)
    assert Event.COMMANDS_FLOW in events(watch, 1.05)
    feed(watch, 1.25)
    assert Event.COMMANDS_SILENT in events(watch, 1.25)
    watch.see_controller(idle=True)
    assert Event.COMMANDS_SILENT not in events(watch, 1.25) and Event.COMMANDS_END in events(watch, 1.25)


def test_a_lost_refit_is_noticed_once_and_comes_back(watch):
    watch.see_controller(idle=False)
    watch.see_refit(1.0)
    assert Event.REFIT_SILENT not in events(watch, 1.9)
    assert Event.REFIT_SILENT in events(watch, 2.1)
    watch.see_refit(2.2)
    assert Event.REFIT_BACK in events(watch, 2.3)
    assert Event.REFIT_BACK not in events(watch, 2.4)


def test_rest_needs_time(watch):
    feed(watch, 1.0, velocity=(0.5, 0))
    feed(watch, 1.1)
    assert not watch.at_rest
    feed(watch, 1.21)
    assert watch.at_rest
    feed(watch, 1.3, velocity=(0.5, 0))
    assert not watch.at_rest


def test_a_clock_that_stands_still(watch):
    assert not watch.clock_stands_still(1.0, 50.0)
    assert not watch.clock_stands_still(1.0, 51.9)
    assert watch.clock_stands_still(1.0, 52.1)
    assert not watch.clock_stands_still(1.002, 52.2)
