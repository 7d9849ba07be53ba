"""A scan in the world: cut out, registered in a lying person's axes, and told in the world's."""

import numpy as np
import pytest

from sim_core.auscultation.depth_view import depth_view
from sim_core.auscultation.scan import crop, register_scan
from sim_core.auscultation.simulated_patient import SimulatedPatient

pytestmark = pytest.mark.pure

LOW, HIGH = np.array([0.15, -0.35, 0.1]), np.array([0.85, 0.35, 0.6])
ORIGIN = np.array([0.5, 0.0, 0.18])


@pytest.mark.parametrize("bearing", [0.0, 90.0])
@pytest.mark.parametrize("side", ["front", "back"])
def test_landmarks_are_told_in_the_world(bearing, side):
    turn = np.deg2rad(bearing)
    head = np.array([np.cos(turn), np.sin(turn), 0.0])
    axes = np.stack([np.cross(head, [0.0, 0.0, 1.0]), head, [0.0, 0.0, 1.0]], axis=1)
    torso = SimulatedPatient(7).torso[side]
    cloud = depth_view(torso, width=100, height=100) @ axes.T + ORIGIN
    table = np.stack([*np.random.default_rng(0).uniform(-1.0, 1.0, (2, 4000)), np.full(4000, 0.05)], axis=1)
    body = crop(np.concatenate([cloud, table, np.full((3, 3), np.nan)]), LOW - 0.2, HIGH + 0.2)
    found = register_scan(body[body[:, 2] > 0.06], ORIGIN + axes @ [0.0, 0.0, 0.9], side, axes)
    assert found.is_accepted, found.why
    errors = [np.linalg.norm(found.landmarks[r] - ORIGIN - axes @ place) for r, place in torso.landmarks.items()]
    assert np.mean(errors) < 0.0173
    for place in found.landmarks.values():
        point, normal = found.deproject(found.project(place))
        assert np.linalg.norm(point - place) < 0.006 and normal[2] > 0.2
    left = found.project(found.landmarks["lung", side, "left upper"])
    assert left[0] > 0.03 and left[1] > 0.05  # to the person's left and up, wherever the person lies


def test_a_table_without_a_person_is_refused():
    table = np.stack([*np.random.default_rng(0).uniform(-1.0, 1.0, (2, 4000)), np.full(4000, 0.05)], axis=1)
    with pytest.raises(ValueError, match="0 of 4000 points .* does somebody lie there"):
        crop(table, LOW, HIGH)
    with pytest.raises(ValueError, match="0 of 0 points"):
        crop(np.full((2000, 3), np.nan), LOW, HIGH)
    with pytest.raises(ValueError, match="shape"):
        crop(np.zeros((10, 2)), LOW, HIGH)


@pytest.mark.parametrize("axes", [np.diag([1.0, 1.0, -1.0]), 2.0 * np.eye(3), np.eye(2), np.full((3, 3), np.nan)])
def test_axes_that_are_no_rotation_are_refused(axes):
    with pytest.raises(ValueError, match="at right angles"):
        register_scan(np.zeros((600, 3)), np.zeros(3), "front", axes)
