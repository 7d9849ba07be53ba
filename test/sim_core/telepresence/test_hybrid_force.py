"""Some axes move, others press: the selection, the force that is reached on a spring, and what ends it."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.telepresence.hybrid_force import HybridForce, PressedTooHard

TASK = Rotation.from_euler("xyz", [0.4, -0.3, 1.1]).as_matrix()


def test_the_selection_is_whole_and_orthogonal():
    control = HybridForce(TASK, forces=[2, 3])
    both = np.vstack([control.T, control.Y])
    assert both @ both.T == pytest.approx(np.eye(6), abs=1e-12)
    assert control.Y[0, :3] == pytest.approx(TASK[:, 2]) and control.Y[1, 3:] == pytest.approx(TASK[:, 0])


def test_it_slides_along_a_spring_and_presses_as_it_shall():
    """7 N on 2 kN/m while it moves along the surface at 0.05 m/s; the normal is the task's z."""
    control, dt, stiffness = HybridForce(TASK, forces=[2]), 0.01, 2000.0
    x, normal, along = np.zeros(3), TASK[:, 2], TASK[:, 0]
    for _ in range(400):
        felt = np.concatenate([normal * stiffness * max(0.0, normal @ x), np.zeros(3)])
        v = control.velocity(
            np.concatenate(
                [0.05 * along + 0.2 * normal, np.zeros(3)]
            ),  # what it is led with along the normal does not count
            np.concatenate([7.0 * normal, np.zeros(3)]),
            felt,
            dt,
        )
        x = x + dt * v[:3]
    assert stiffness * normal @ x == pytest.approx(7.0, abs=0.05)
    assert along @ x == pytest.approx(0.05 * 4.0, abs=1e-9)
    assert TASK[:, 1] @ x == pytest.approx(0.0, abs=1e-9)


def test_it_is_no_faster_than_it_may_be_and_keeps_its_direction():
    v = HybridForce(np.eye(3), forces=[]).velocity(
        np.array([3.0, 4.0, 0.0, 0.0, 0.0, 0.2]), np.zeros(6), np.zeros(6), 0.01
    )
    assert v == pytest.approx(np.array([3.0, 4.0, 0.0, 0.0, 0.0, 0.2]) * 0.3 / 5.0)


@pytest.mark.parametrize("force", [21.0, np.nan, np.inf])
def test_it_ends_where_it_is_pressed_too_hard(force):
    control, felt = HybridForce(np.eye(3), forces=[2]), np.zeros(6)
    felt[2] = force
    with pytest.raises(PressedTooHard, match="at most 20 N"):
        control.velocity(np.zeros(6), np.zeros(6), felt, 0.01)


def test_wrong_arguments_are_named():
    for arguments, text in (
        ((np.eye(3) * 2.0, [2]), "task: expected a rotation"),
        ((np.eye(3), [2, 2]), "forces: expected different axes"),
        ((np.eye(3), [6]), "forces: expected different axes"),
        ((np.eye(3), [2], (-1.0, 0.0)), "gains: expected none below zero"),
    ):
        with pytest.raises(ValueError, match=text):
            HybridForce(*arguments)
