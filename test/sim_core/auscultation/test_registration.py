"""A torso, what a camera sees of it, and landmarks from that."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.auscultation.depth_view import depth_view
from sim_core.auscultation.regions import REGIONS
from sim_core.auscultation.registration import RegistrationRejected, register
from sim_core.auscultation.torso import REFERENCE, Torso, TorsoShape, random_shape

EYE = np.array([0.0, 0.0, 0.9])
TURN, SHIFT = Rotation.from_euler("xyz", [0.15, -0.1, 0.2]).as_matrix(), np.array([0.03, -0.02, 0.5])


@pytest.fixture(scope="module", params=["front", "back"])
def side(request):
    return request.param


@pytest.fixture(scope="module")
def body(side):
    return Torso(random_shape(4), side)


@pytest.fixture(scope="module")
def found(body, side):
    return register(depth_view(body, seed=4) @ TURN.T + SHIFT, TURN @ EYE + SHIFT, side)


# ---- the body ----------------------------------------------------------------------------------------------------


def test_the_surface_is_closed_and_outward(body):
    a, b, c = (body.vertices[body.faces[:, k]] for k in range(3))
    volume = np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0
    assert 0.015 < volume < 0.06
    edges = np.concatenate([body.faces[:, [0, 1]], body.faces[:, [1, 2]], body.faces[:, [2, 0]]])
    seen = {tuple(edge) for edge in edges.tolist()}
    assert len(seen) == len(edges) and all((v, u) in seen for u, v in seen), "each edge once in each direction"
    assert ((body.normals * (body.vertices - body.vertices.mean(0))).sum(1) > 0.0).mean() > 0.99


def test_the_reference_has_its_landmarks_where_the_regions_are(side):
    for region, place in Torso(REFERENCE, side).landmarks.items():
        expected = np.array(REGIONS[region]) * [1.0 if side == "front" else -1.0, 1.0]
        np.testing.assert_allclose(place[:2], expected, atol=5e-4)
        assert place[2] > 0.05
    assert len(Torso(REFERENCE, side).landmarks) == (8 if side == "front" else 4)


def test_weight_and_stature_change_what_they_should():
    heavy, tall = Torso(TorsoShape(bmi=34.0)), Torso(TorsoShape(height=1.95))
    reference = Torso()
    np.testing.assert_allclose(np.ptp(tall.vertices, 0), np.ptp(reference.vertices, 0) * 1.95 / 1.78)
    assert (np.ptp(heavy.vertices, 0)[[0, 2]] > 1.1 * np.ptp(reference.vertices, 0)[[0, 2]]).all()
    assert np.ptp(heavy.vertices, 0)[1] == pytest.approx(np.ptp(reference.vertices, 0)[1])
    # No scaling of the reference gives a random body: that is what bending is for.
    body = random_shape(4)
    A, *_ = np.linalg.lstsq(
        np.column_stack([reference.vertices, np.ones(len(reference.vertices))]), Torso(body).vertices
    )
    left = Torso(body).vertices - np.column_stack([reference.vertices, np.ones(len(reference.vertices))]) @ A
    assert np.sqrt((left**2).sum(1).mean()) > 0.002


@pytest.mark.parametrize("wrong", [{"height": 178.0}, {"bmi": 0.0}, {"bmi": float("nan")}])
def test_impossible_bodies_are_refused(wrong):
    with pytest.raises(ValueError, match=r"1\.2 to 2\.3 m"):
        TorsoShape(**wrong)


def test_the_camera_sees_the_surface_with_its_noise(body):
    cloud = depth_view(body, seed=1)
    model = body.spec().compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    off = []
    for point in cloud[::50]:
        ray = (point - EYE) / np.linalg.norm(point - EYE)
        hit = mujoco.mj_ray(model, data, EYE, ray, None, 1, -1, np.zeros(1, np.int32), None)
        if hit > 0:
            off.append(np.linalg.norm(point - EYE) - hit)
    off = np.array(off)
    assert len(cloud) > 5000 and 0.001 < np.median(np.abs(off)) < 0.003
    assert (cloud == depth_view(body, seed=1)).all() and not np.isnan(cloud).any()


# ---- the fit ---------------------------------------------------------------------------------------------------------


def test_landmarks_are_found_on_a_turned_body(body, found):
    errors = [np.linalg.norm(found.landmarks[r] - (TURN @ p + SHIFT)) for r, p in body.landmarks.items()]
    assert found.require() is found and found.is_accepted and not found.why
    assert np.mean(errors) < 0.0173 and max(errors) < 0.0389
    assert Rotation.from_matrix(found.axes @ TURN.T).magnitude() < 0.06


def test_the_coronal_plane_leads_back_to_the_skin(body, found, side):
    for region, place in found.landmarks.items():
        flat = found.project(place)
        point, normal = found.deproject(flat)
        assert np.linalg.norm(point - place) < 0.012
        np.testing.assert_allclose(found.project(point), flat, atol=1e-9)
        near = np.argmin(np.linalg.norm(body.vertices @ TURN.T + SHIFT - point, axis=1))
        assert normal @ (TURN @ body.normals[near]) > 0.95
        assert np.linalg.norm(flat - REGIONS[region]) < 0.05, "the planner's axes are those of the regions"
    with pytest.raises(ValueError, match="nothing was scanned at"):
        found.deproject(np.array([0.6, 0.0]))


def test_a_person_can_set_landmarks(body, found, side):
    region, place = next(iter(found.landmarks.items()))
    moved = found.with_landmarks({region: place + 0.015 * found.axes[:, 1]})
    assert moved.is_manual and np.linalg.norm(moved.landmarks[region] - place) == pytest.approx(0.015, abs=0.008)
    others = [r for r in found.landmarks if r != region]
    assert all((moved.landmarks[r] == found.landmarks[r]).all() for r in others)
    with pytest.raises(ValueError, match="is not on the scan"):
        found.with_landmarks({region: place + [0.0, 0.0, 0.3]})
    with pytest.raises(ValueError, match="is no region of the"):
        found.with_landmarks({("heart", "back" if side == "front" else "front", "aortic"): place})


def test_a_body_unlike_the_reference_is_rejected_and_can_be_set_by_hand():
    cloud = depth_view(Torso(random_shape(7, bmi=55.0)), seed=7)
    found = register(cloud, EYE)
    assert not found.is_accepted and "differs too much from the reference" in found.why
    with pytest.raises(RegistrationRejected, match="set the landmarks by hand"):
        found.require()
    assert found.with_landmarks(dict(found.landmarks)).require().is_manual


@pytest.mark.parametrize(
    "spoil, says",
    [
        (lambda c: np.zeros((0, 3)), "at least 500 finite points, this one 0 of 0"),
        (lambda c: np.where(np.arange(len(c))[:, None] < 100, c, np.nan), "this one 100 of"),
        (lambda c: c[:, :2], r"of shape \(n, 3\)"),
        (lambda c: 1000.0 * c, "is it in metres"),
        (lambda c: 0.001 * c, "is it in metres"),
    ],
)
def test_what_is_no_cloud_of_a_torso_is_refused(spoil, says):
    with pytest.raises(ValueError, match=says):
        register(spoil(depth_view(Torso(), seed=0)), EYE)


def test_half_a_body_and_a_ball_are_rejected():
    cloud = depth_view(Torso(), seed=0)
    rng = np.random.default_rng(0)
    ball = rng.standard_normal((8000, 3))
    ball = 0.2 * ball[ball[:, 2] > 0] / np.linalg.norm(ball[ball[:, 2] > 0], axis=1, keepdims=True)
    assert not register(cloud[cloud[:, 0] > 0.0], EYE).is_accepted
    assert not register(ball, EYE).is_accepted


def test_some_points_that_are_not_finite_do_no_harm():
    cloud = depth_view(Torso(), seed=0)
    cloud[::7] = np.nan
    found = register(cloud, EYE).require()
    truth = Torso().landmarks
    assert max(np.linalg.norm(found.landmarks[r] - truth[r]) for r in truth) < 0.02
