"""What a controller may ask joints for, where they stand beyond their limits."""

import numpy as np
import pytest

from nodes.framework.actuation import Actuation
from sim_core.command import Command, CommandRefused, Mode
from sim_core.gate import CommandGate
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant, joint_limits


@pytest.mark.parametrize("robot", ["panda", "dxl_arm"])
def test_an_arm_that_was_pushed_beyond_its_limits_is_led_back(robot):
    """A plan begins where the arm is, which a gate refuses there; what is asked for instead passes, and points inwards."""
    model, limits = load_model(robot), joint_limits(MujocoPlant(robot).world)
    gate, n = CommandGate(limits, 0.002, supervised=False), model.nv
    x = np.r_[model.q_upper, model.v_limit] * 1.001 + 1e-3

    def command(reference):
        return Command(
            Mode.FEEDBACK, 0.0, limits.joints, np.zeros(n), reference[:n], reference[n:], np.zeros((n, 2 * n))
        )

    with pytest.raises(CommandRefused):
        gate.admit(command(x), 0.0)
    asked = Actuation(model).reference(x)
    gate.admit(command(asked), 0.0)
    assert (asked < x).all()


def test_what_is_within_the_limits_stays_to_the_bit():
    model = load_model("panda")
    x = np.r_[model.q_home, 0.9 * model.v_limit]
    assert (Actuation(model).reference(x) == x).all()


def test_passive_joints_are_reported_as_they_are():
    """Full-state feedback on a pole needs its state, whatever limits it has."""
    model = load_model("cartpole")
    x = np.array([0.1, 50.0, 0.2, 500.0])
    assert (Actuation(model).reference(x)[[1, 3]] == x[[1, 3]]).all()
