"""The session's states: every event in every state, and the days on which a link is bad."""

import itertools

import pytest

from sim_core.telepresence.session import TRANSITIONS, Event, Session, SessionLimits, State, diagram


class Link:
    """An operator whose samples come every 10 ms.

    Attributes:
        now: [s]. seen: states in the order in which they came.
    """

    def __init__(self):
        self.now, self.seen, self.name = 0.0, [], "one"
        self.session = Session(on_change=self.seen.append)

    def send(self, seconds, clutched=False):
        for _ in range(round(seconds / 0.01)):
            self.now += 0.01
            self.session.heard(self.name, clutched, self.now)
            self.session.look(self.now)
        return self.session.state

    def silence(self, seconds):
        for _ in range(round(seconds / 0.01)):
            self.now += 0.01
            self.session.look(self.now)
        return self.session.state


@pytest.fixture
def link():
    return Link()


def test_a_session_as_it_should_be(link):
    assert link.send(0.1) is State.IDLE
    assert link.send(0.1, clutched=True) is State.TELEOP
    assert link.send(0.1) is State.IDLE
    assert link.seen == [State.HANDSHAKE, State.IDLE, State.TELEOP, State.IDLE]


def test_who_joins_with_a_clenched_hand_moves_nothing_before_it_is_open(link):
    assert link.send(1.0, clutched=True) is State.HANDSHAKE and not link.session.follows
    assert link.send(0.02) is State.IDLE
    assert link.send(0.02, clutched=True) is State.TELEOP


def test_200_ms_of_silence_hold_and_a_sample_goes_on(link):
    link.send(0.1), link.send(0.1, clutched=True)
    assert link.silence(0.19) is State.TELEOP
    assert link.silence(0.02) is State.HOLD and not link.session.follows
    assert "nothing was heard" in link.session.sentence
    assert link.send(0.01, clutched=True) is State.TELEOP


def test_silence_holds_without_a_clutch_too(link):
    """The base drives by its stick alone."""
    link.send(0.1)
    assert link.silence(0.25) is State.HOLD and not link.session.follows
    assert link.send(0.01) is State.IDLE


def test_two_seconds_of_silence_release_and_a_new_session_needs_no_restart(link):
    link.send(0.1), link.send(0.1, clutched=True)
    assert link.silence(2.1) is State.DISCONNECTED
    link.name = "two"
    assert link.send(0.5, clutched=True) is State.HANDSHAKE
    assert link.send(0.01) is State.IDLE


def test_the_same_session_comes_back_by_itself_too(link):
    """Wi-Fi that was gone for a while, with the page still open."""
    link.send(0.1), link.silence(3.0)
    assert link.session.state is State.DISCONNECTED
    assert link.send(0.02) is State.IDLE


def test_a_page_that_joins_anew_while_another_teleoperates_opens_the_clutch(link):
    link.send(0.1), link.send(0.1, clutched=True)
    link.name = "two"
    assert link.send(0.1, clutched=True) is State.HANDSHAKE


def test_a_fault_stays_with_its_first_reason_until_it_is_cleared(link):
    link.send(0.1), link.send(0.1, clutched=True)
    link.session.fault(7, "the right arm touched something hard; ask for reset_fault")
    link.session.fault(8, "another")
    assert link.session.state is State.FAULT and link.session.code == 7
    assert link.send(1.0, clutched=True) is State.FAULT and link.silence(5.0) is State.FAULT
    assert link.session.reset() and link.session.state is State.RECOVERING
    link.session.fault(9, "it still presses")
    assert link.session.state is State.FAULT and link.session.sentence == "it still presses"
    link.session.reset(), link.session.cleared()
    assert link.session.state is State.IDLE and link.session.code == 0
    assert link.send(0.1, clutched=True) is State.IDLE  # the hand was never opened
    link.send(0.01)
    assert link.send(0.01, clutched=True) is State.TELEOP


def test_a_reset_without_a_fault_is_none(link):
    link.send(0.1)
    assert not link.session.reset() and link.session.state is State.IDLE


@pytest.mark.parametrize(("state", "event"), itertools.product(State, Event))
def test_every_event_in_every_state(state, event):
    """It leads where the table says, or nowhere; only samples with open clutches make an arm ready to move."""
    session = Session()
    session.state, session.armed = state, True
    session._happens(event)
    assert session.state is TRANSITIONS.get((state, event), state)
    if session.state is State.TELEOP:
        assert state in (State.TELEOP, State.IDLE, State.HOLD)
    if session.state in (State.FAULT, State.DISCONNECTED) and state is not session.state:
        assert not session.armed


def test_every_state_is_reached_and_left():
    assert set(TRANSITIONS.values()) == set(State)
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert all(state.name in diagram() for state in State)


@pytest.mark.parametrize(("hold", "loss"), [(0.0, 1.0), (1.0, 0.5), (-1.0, 2.0)])
def test_limits_that_are_none(hold, loss):
    with pytest.raises(ValueError, match="expected 0 < hold < loss"):
        SessionLimits(hold, loss)
