"""What a person says of a change is what the plant becomes, what the refit frees, and what the truth is."""

import mujoco
import numpy as np
import pytest

from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant
from sim_core.plant.robot_changes import ChangeError, events_of, free_for, scenario_of, truth_after


@pytest.fixture(scope="module")
def panda():
    return load_model("panda")


def changed(robot, events):
    """MuJoCo's numbers of the plant before and after the events."""
    before, plant = MujocoPlant(robot).world.model, MujocoPlant(robot)
    for event in events:
        plant.apply(event)
    return before, plant.world.model


@pytest.mark.parametrize(
    "robot, text, array, rows, wanted",
    [
        ("panda", "friction:joint4=2.5", "dof_frictionloss", [3], lambda x: 2.5),
        ("panda", "damping:joint[24]=x3", "dof_damping", [1, 3], lambda x: 3.0 * x),
        ("panda", "damping:joint2=0.25", "dof_damping", [1], lambda x: 0.25),
        ("panda", "armature:*=x2", "dof_armature", range(7), lambda x: 2.0 * x),
        ("dxl_arm", "friction:elbow=x1.5", "dof_frictionloss", [2], lambda x: 1.5 * x),
        ("panda", "gain:joint4=0.8", "actuator_gainprm", [(3, 0)], lambda x: 0.8 * x),
    ],
)
def test_the_plant_becomes_what_was_said_and_nothing_else_of_it(robot, text, array, rows, wanted):
    before, after = changed(robot, events_of(text, load_model(robot), "hand"))
    old, new = getattr(before, array), getattr(after, array)
    expected = old.copy()
    for row in rows:
        expected[row] = wanted(old[row])
    assert not np.array_equal(old, expected)
    np.testing.assert_allclose(new, expected, rtol=1e-12)


def test_a_heavier_link_is_heavier_and_harder_to_turn(panda):
    before, after = changed("panda", events_of("mass:link4=1.3", panda, "hand"))
    body = mujoco.mj_name2id(before, mujoco.mjtObj.mjOBJ_BODY, "link4")
    np.testing.assert_allclose(after.body_mass[body], 1.3 * before.body_mass[body])
    np.testing.assert_allclose(after.body_inertia[body], 1.3 * before.body_inertia[body])
    others = np.arange(before.nbody) != body
    np.testing.assert_array_equal(after.body_mass[others], before.body_mass[others])


@pytest.mark.parametrize("degrees", [3.0, -7.5])
@pytest.mark.parametrize("axis", "xy")
def test_a_tilted_base_feels_gravity_as_a_turned_one_does(panda, axis, degrees):
    events = events_of(f"tilt:{degrees}@{axis}", panda, "hand")
    before, after = changed("panda", events)
    a = np.deg2rad(degrees)
    c, s = np.cos(a), np.sin(a)
    R_WB = np.array([[1, 0, 0], [0, c, -s], [0, s, c]] if axis == "x" else [[c, 0, s], [0, 1, 0], [-s, 0, c]])
    np.testing.assert_allclose(after.opt.gravity, R_WB.T @ before.opt.gravity, atol=1e-12)
    truth = truth_after(events, panda)
    assert truth == pytest.approx({f"gravity.tilt.{k}": a if k == axis else 0.0 for k in "xy"})


def test_a_payload_is_the_usual_one_unless_it_is_placed(panda):
    usual, placed = (
        events_of(text, panda, "hand", (0.03, 0.02, 0.08)) for text in ("payload:2", "payload:1.5@.06,-.02,0.1")
    )
    assert (usual[0]["mass"], usual[0]["com"]) == (2.0, [0.03, 0.02, 0.08])
    assert (placed[0]["mass"], placed[0]["com"], placed[0]["frame"]) == (1.5, [0.06, -0.02, 0.1], "hand")
    before, after = changed("panda", placed)
    assert after.body_mass.sum() - before.body_mass.sum() == pytest.approx(1.5)
    assert truth_after(placed, panda)["hand.payload.com.y"] == -0.02


def test_the_truth_of_several_changes(panda):
    events = scenario_of(["gain:*=0.9", "gain:joint4=0.5", "friction:joint[12]=2", "mass:link3=1.3"], panda, "hand")
    truth = truth_after(events, panda)
    assert truth["joint4.gear"] == pytest.approx(0.45) and truth["joint1.gear"] == pytest.approx(0.9)
    assert truth["joint1.frictionloss"] == truth["joint2.frictionloss"] == 2.0 and "joint3.frictionloss" not in truth
    assert truth["link3.mass"] == pytest.approx(1.3 * 3.228604)


def test_the_refit_is_told_the_kind_and_not_the_place(panda):
    def free(*texts):
        return free_for(scenario_of(texts, panda, "hand"), panda, "hand")

    assert free("payload:2") == [] and free("mass:hand=1.3") == []  # what the hand holds is free anyway
    assert free("gain:joint4=0.8") == ["*.gear"] and free("tilt:3@y") == ["gravity.tilt"]
    assert free("friction:joint4=2", "damping:*=x2", "friction:joint1=1") == ["*.friction", "*.damping"]
    assert free("mass:link3=1.3") == [f"link{k}.density" for k in range(1, 8)]


@pytest.mark.parametrize(
    "texts, words",
    [
        (["payload"], "expected payload:MASS or"),
        (["payload:1.5@0.1,0"], "expected payload:MASS or"),
        (["payload:0"], "above 0 kg"),
        (["payload:1.5@0.1,0,7"], "at most 0.5 m"),
        (["pole_mass=10"], "expected one of payload:MASS"),
        (["stiffness:joint4=2"], "expected one of payload:MASS"),
        (["friction:joint4"], "expected one of payload:MASS"),
        (["friction:jiont4=2"], "no joint 'jiont4'. Did you mean 'joint4'. There are: joint1, joint2"),
        (["gain:link4=0.5"], "no driven joint 'link4'"),
        (["mass:link0=2"], "no moving link 'link0'.*link1, link2"),
        (["friction:joint4=-2"], "at least 0"),
        (["friction:joint4=x2"], "joint4 has none in the model.*give a value"),
        (["gain:joint4=0"], "factor from 0.05 to 20"),
        (["damping:joint4=x99"], "factor from x0.05 to x20"),
        (["tilt:3"], "tilt:DEGREES@AXIS"),
        (["tilt:3@z"], "about x or y"),
        (["tilt:50@x"], "at most 30 degrees"),
        (["tilt:3@x", "tilt:2@y"], "expected one tilt at most"),
        (["payload:1", "mass:hand=2"], "hand and what it holds move as one"),
    ],
)
def test_changes_that_cannot_be_made_are_refused_with_what_can(panda, texts, words):
    with pytest.raises(ChangeError, match=words.replace("?", r"\?")):
        scenario_of(texts, panda, "hand")
