"""Who may command, for how long, and what for."""

import numpy as np
import pytest

from sim_core.command import Command, CommandRefused, Mode, Refusal
from sim_core.gate import CommandGate, JointLimits, Lease

LIMITS = JointLimits(
    ("one", "two", "passive"),
    np.array([-1.0, -np.inf, -np.inf]),
    np.array([1.0, np.inf, np.inf]),
    np.array([2.0, np.inf, np.inf]),
    np.array([10.0, 5.0, 0.0]),
    np.ones((2, 3)),
)


def command(mode=Mode.EFFORT, effort=(0.0, 0.0, 0.0), position=(0.0, 0.0, 0.0), velocity=(0.0, 0.0, 0.0), by="mpc"):
    arrays = (np.array(x, float) for x in (effort, position, velocity))
    return Command(mode, 0.0, LIMITS.joints, *arrays, np.zeros((3, 6)), by)


def refusal(gate, told, now=0.0):
    with pytest.raises(CommandRefused) as refused:
        gate.admit(told, now)
    return refused.value


def test_nothing_passes_before_the_first_lease():
    gate = CommandGate(LIMITS, 0.002)
    assert "not armed yet" in gate.closed(0.0) and gate.commander == ""
    assert refusal(gate, command()).reason is Refusal.DISARMED and gate.refused[Refusal.DISARMED] == 1


def test_a_lease_ends_unless_it_is_renewed():
    gate = CommandGate(LIMITS, 0.002)
    gate.grant(Lease("mpc", 0.5), 10.0)
    gate.admit(command(), 10.5)
    gate.grant(Lease("mpc", 0.5), 10.4)
    gate.admit(command(), 10.9)
    assert "nobody has renewed the lease for 0.5 s" in str(refusal(gate, command(), 10.91))
    gate.grant(Lease("mpc", 0.5), 11.0)
    gate.admit(command(), 11.0)


def test_a_withdrawal_is_at_once_and_says_why():
    gate = CommandGate(LIMITS, 0.002)
    gate.grant(Lease("mpc", 0.5), 0.0)
    gate.withdraw("HALTED (OPERATOR_STOP): stopped by an operator")
    assert gate.closed(0.0) == "HALTED (OPERATOR_STOP): stopped by an operator"
    assert "stopped by an operator" in str(refusal(gate, command()))


def test_one_commander_at_a_time_by_name():
    gate = CommandGate(LIMITS, 0.002)
    gate.grant(Lease("mpc", 0.5), 0.0)
    assert "'mpc' commands, this is from 'vr'" in str(refusal(gate, command(by="vr")))
    gate.grant(Lease("vr", 0.5), 0.1)
    gate.admit(command(by="vr"), 0.1)
    assert refusal(gate, command(), 0.1).reason is Refusal.COMMANDER


@pytest.mark.parametrize(
    "told, sentence",
    [
        (command(effort=(10.1, 0.0, 0.0)), "effort of one is 10.1, outside -10 to 10"),
        (command(Mode.POSITION, position=(1.1, 0.0, 0.0)), "position of one is 1.1, outside -1 to 1"),
        (command(Mode.POSITION, velocity=(-2.1, 0.0, 0.0)), "velocity of one is -2.1, outside -2 to 2"),
        (command(Mode.FEEDBACK, position=(-1.1, 0.0, 0.0)), "position of one is -1.1, outside -1 to 1"),
    ],
)
def test_more_than_the_limits_is_refused(told, sentence):
    gate = CommandGate(LIMITS, 0.002)
    gate.grant(Lease("mpc", 0.5), 0.0)
    refused = refusal(gate, told)
    assert refused.reason is Refusal.LIMIT and sentence in str(refused) and gate.refused[Refusal.LIMIT] == 1


def test_what_is_allowed_passes():
    gate = CommandGate(LIMITS, 0.002)
    gate.grant(Lease("mpc", 0.5), 0.0)
    for told in (
        command(effort=(10.0, -5.0, 0.0)),
        command(Mode.POSITION, position=(1.0, 100.0, 0.0), velocity=(2.0, 50.0, 0.0)),
        command(Mode.FEEDBACK, position=(0.0, 0.0, 900.0), velocity=(0.0, 0.0, 900.0)),  # where a passive joint is
    ):
        gate.admit(told, 0.0)
    assert not gate.refused


def test_without_a_supervisor_anybody_commands_within_the_limits():
    gate = CommandGate(LIMITS, 0.002, supervised=False)
    assert gate.closed(0.0) == ""
    gate.admit(command(by="anybody"), 0.0)
    assert refusal(gate, command(effort=(10.1, 0.0, 0.0))).reason is Refusal.LIMIT


@pytest.mark.parametrize("arguments", [("", 0.5), ("mpc", 0.0), ("mpc", np.nan), ("mpc", np.inf)])
def test_a_lease_that_is_none_is_refused(arguments):
    with pytest.raises(ValueError, match="a lease "):
        Lease(*arguments)
