"""How far shapes reach, against points on their surfaces and against numbers done by hand."""

import mujoco
import numpy as np
import pytest

from sim_core.telepresence.geom_extent import extents

SHAPES = {
    "sphere": "0.3",
    "capsule": "0.1 0.4",
    "cylinder": "0.2 0.5",
    "ellipsoid": "0.1 0.2 0.4",
    "box": "0.1 0.2 0.3",
}


def scene(shape, size, pose=""):
    text = f'<mujoco><worldbody><geom type="{shape}" size="{size}" {pose}/></worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    return model, data


def surface(shape, size, rng, count=20000):
    """Points on it in its own axes; boxes and cylinders by their corners and rims alone, which is where they reach farthest."""
    way = rng.normal(size=(count, 3))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    flat = way[:, :2] / np.linalg.norm(way[:, :2], axis=1, keepdims=True)
    end = rng.choice([-1.0, 1.0], count)
    if shape == "sphere":
        return size[0] * way
    if shape == "capsule":
        return size[0] * way + np.outer(end, (0, 0, size[1]))
    if shape == "cylinder":
        return np.column_stack([size[0] * flat, size[1] * end])
    if shape == "ellipsoid":
        return np.array(size) * way
    return rng.choice([-1.0, 1.0], (count, 3)) * size


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_reaches_as_far_as_its_farthest_point(shape):
    rng = np.random.default_rng(0)
    quat = rng.normal(size=4)
    pose = f'pos="0.3 -0.2 0.7" quat="{" ".join(str(x) for x in quat)}"'
    model, data = scene(shape, SHAPES[shape], pose)
    points = surface(shape, [float(x) for x in SHAPES[shape].split()], rng) @ data.geom_xmat[0].reshape(3, 3).T
    for way in rng.normal(size=(5, 3)):
        along = (points + data.geom_xpos[0]) @ way / np.linalg.norm(way)
        (low,), (high,) = extents(model, data, [0], way)
        assert along.max() <= high + 1e-9 and along.min() >= low - 1e-9
        assert (high, low) == (pytest.approx(along.max(), abs=2e-3), pytest.approx(along.min(), abs=2e-3))


def test_a_box_on_its_corner_and_a_lying_cylinder_by_hand():
    model, data = scene("box", "0.1 0.1 0.3", 'euler="0 0 45"')
    assert extents(model, data, [0], (0, 2, 0)) == (pytest.approx(-0.1 * 2**0.5), pytest.approx(0.1 * 2**0.5))
    model, data = scene("cylinder", "0.1 0.5", 'pos="0 1 0" euler="90 0 0"')
    assert extents(model, data, [0], (0, 1, 0)) == (pytest.approx(0.5), pytest.approx(1.5))


def test_a_mesh_reaches_as_far_as_its_vertices():
    text = """<mujoco><asset><mesh name="m" vertex="0 0 0  1 0 0  0 2 0  0 0 3"/></asset>
      <worldbody><geom type="mesh" mesh="m" pos="0 0 5"/></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    (low,), (high,) = extents(model, data, [0], (0, 0, 1))
    assert high - low == pytest.approx(3.0, abs=1e-6)


def test_what_has_no_end_is_refused():
    model, data = scene("plane", "1 1 0.1")
    with pytest.raises(ValueError, match="expected a sphere"):
        extents(model, data, [0], (0, 0, 1))
    with pytest.raises(ValueError, match="the vector zero"):
        extents(*scene("sphere", "1"), [0], (0, 0, 0))
