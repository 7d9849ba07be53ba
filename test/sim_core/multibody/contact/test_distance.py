"""Distances of primitive geoms against MuJoCo's own, and their derivatives."""

import casadi as ca
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.multibody.contact.distance import DISTANCES, Shape, tangents

SIZES = {"plane": (1, 1, 1), "sphere": (0.13, 0, 0), "capsule": (0.07, 0.2, 0), "box": (0.1, 0.15, 0.2)}
_functions = {}


def gaps(kinds):
    """f(r1, R1, r2, R2) -> distances (n,), points (3, n), normals (3, n)."""
    if kinds not in _functions:
        symbols = [ca.SX.sym("r1", 3), ca.SX.sym("R1", 3, 3), ca.SX.sym("r2", 3), ca.SX.sym("R2", 3, 3)]
        first, second = (Shape(np.array(SIZES[kind]), *symbols[i : i + 2]) for kind, i in zip(kinds, (0, 2)))
        found = DISTANCES[kinds](first, second)
        _functions[kinds] = ca.Function(
            "gaps",
            symbols,
            [
                ca.vertcat(*(g.distance for g in found)),
                ca.horzcat(*(g.point for g in found)),
                ca.horzcat(*(g.normal for g in found)),
            ],
        )
    return _functions[kinds]


def scene(kinds):
    bodies = "".join(
        f'<body name="{i}"><freejoint/><geom name="{i}" type="{kind}" size="{" ".join(map(str, SIZES[kind]))}" mass="1"/></body>'
        if kind != "plane"
        else f'<geom name="{i}" type="plane" size="1 1 1"/>'
        for i, kind in enumerate(kinds)
    )
    return mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")


def random_poses(kinds, count, reach, seed=0):
    """Poses (r, R) of both geoms; a plane stays level at the origin, as it cannot be moved."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield [
            (np.zeros(3), np.eye(3))
            if kind == "plane"
            else (rng.uniform(-reach, reach, 3), Rotation.random(random_state=rng).as_matrix())
            for kind in kinds
        ]


def mujoco_distance(m, poses):
    """Distance and the two nearest points (2, 3)."""
    d = mujoco.MjData(m)
    moving = [pose for k, pose in enumerate(poses) if m.geom_bodyid[k] > 0]
    for k, (r, R) in enumerate(moving):
        d.qpos[7 * k : 7 * k + 3], d.qpos[7 * k + 3 : 7 * k + 7] = r, Rotation.from_matrix(R).as_quat(scalar_first=True)
    mujoco.mj_kinematics(m, d)
    fromto = np.zeros(6)
    return mujoco.mj_geomDistance(m, d, 0, 1, 10.0, fromto), fromto.reshape(2, 3)


@pytest.mark.parametrize("kinds", [kinds for kinds in DISTANCES if kinds != ("box", "box")])
def test_distance_is_mujocos(kinds):
    m = scene(kinds)
    seen = []
    for (r1, R1), (r2, R2) in random_poses(kinds, 60, 0.35):
        distance, points, normals = (out.full() for out in gaps(kinds)(r1, R1, r2, R2))
        k = int(distance.argmin())
        want, fromto = mujoco_distance(m, [(r1, R1), (r2, R2)])
        seen.append(want)
        tolerance = 1e-6 if want > 0 else 2e-4  # MuJoCo's penetration depths are iterative
        assert distance[k, 0] == pytest.approx(want, abs=tolerance)
        assert np.linalg.norm(normals, axis=0) == pytest.approx(1, abs=1e-9)
        if want > 0.01:
            np.testing.assert_allclose(points[:, k], fromto.mean(0), atol=2e-5)
            np.testing.assert_allclose(normals[:, k], (fromto[1] - fromto[0]) / want, atol=2e-4)
    assert min(seen) < 0 < max(seen)


def test_boxes_meet_by_their_corners():
    """Never nearer than MuJoCo says, and equal wherever a corner is the nearest point of one of them."""
    m, met = scene(("box", "box")), 0
    for (r1, R1), (r2, R2) in random_poses(("box", "box"), 80, 0.3, seed=1):
        distance, points, _ = (out.full() for out in gaps(("box", "box"))(r1, R1, r2, R2))
        want, fromto = mujoco_distance(m, [(r1, R1), (r2, R2)])
        if want <= 0:
            continue
        k = distance.argmin()
        assert distance[k, 0] > want - 1e-6
        half = np.array(SIZES["box"])
        at_corner = [
            np.isclose(np.abs(R.T @ (x - r)), half, atol=1e-5).all() for x, (r, R) in zip(fromto, [(r1, R1), (r2, R2)])
        ]
        if any(at_corner):
            met += 1
            assert distance[k, 0] == pytest.approx(want, abs=1e-6)
            np.testing.assert_allclose(points[:, k], fromto.mean(0), atol=1e-4)
    assert met > 15


@pytest.mark.parametrize("depth", [0.02, 0.001])
def test_a_corner_inside_a_box_leaves_by_the_nearest_face(depth):
    """A box that stands on another with a corner `depth` below the face: normal up, distance -depth."""
    up = Rotation.align_vectors([[0, 0, -1]], [[0.1, 0.15, 0.2]])[0].as_matrix()  # corner (+, +, +) points down
    height = 0.2 + np.linalg.norm(SIZES["box"]) - depth
    distance, points, normals = (
        out.full() for out in gaps(("box", "box"))([0, 0, 0], np.eye(3), [0.01, 0.02, height], up)
    )
    k = distance.argmin()
    assert distance[k, 0] == pytest.approx(-depth)
    np.testing.assert_allclose(normals[:, k], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(points[:, k], [0.01, 0.02, 0.2 - depth / 2], atol=1e-12)


@pytest.mark.parametrize("kinds", [kinds for kinds in DISTANCES if kinds[0] != "plane"])
def test_the_normal_is_the_gradient_of_the_distance(kinds):
    """d distance / d r2 = n and d distance / d r1 = -n: a frame of the second geom's motion along n changes nothing else."""
    r1, R1, r2, R2 = gaps(kinds).sx_in()
    distance, _, normals = gaps(kinds)(r1, R1, r2, R2)
    f = ca.Function("slopes", [r1, R1, r2, R2], [ca.jacobian(distance, r1), ca.jacobian(distance, r2), normals])
    for poses in random_poses(kinds, 20, 0.4, seed=2):
        J1, J2, n = (out.full() for out in f(*(x for pose in poses for x in pose)))
        np.testing.assert_allclose(J2, n.T, atol=1e-9)
        np.testing.assert_allclose(J1, -n.T, atol=1e-9)


def test_coincident_centres_have_finite_derivatives():
    r1, R1, r2, R2 = gaps(("sphere", "sphere")).sx_in()
    out = gaps(("sphere", "sphere"))(r1, R1, r2, R2)
    slopes = ca.Function("slopes", [r1, R1, r2, R2], [ca.jacobian(ca.veccat(*out), ca.vertcat(r1, r2))])
    assert np.isfinite(slopes(np.zeros(3), np.eye(3), np.zeros(3), np.eye(3)).full()).all()


def test_frames_are_right_handed():
    n = ca.SX.sym("n", 3)
    f = ca.Function("frame", [n], [ca.horzcat(n, *tangents(n))])
    rng = np.random.default_rng(0)
    for x in [*rng.normal(size=(50, 3)), [0, 0, 1], [0, 0, -1], [1, 0, 0], [0, -1, 0]]:
        F = f(np.array(x) / np.linalg.norm(x)).full()
        np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-12)
        assert np.linalg.det(F) == pytest.approx(1)
    np.testing.assert_array_equal(f([0, 0, 1]).full()[:, 1:], [[1, 0], [0, 1], [0, 0]])
