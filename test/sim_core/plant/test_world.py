"""Determinism, resets, entities and what is observed of them."""

import numpy as np
import pytest

from sim_core.command import Command, CommandRefused, Mode
from sim_core.plant import EntityError, MujocoPlant, PlantError

NOISY = dict(
    seed=5,
    tick=0.002,
    position_noise=1e-3,
    velocity_noise=1e-2,
    sensor_delay=0.003,
    initial_q_std=0.05,
    initial_v_std=[0.1, 0.2],
    scenario=[dict(time=0.05, action="attach", frame="tool", mass=1.0, com=[0, 0, 0.1])],
)


def trace(plant, ticks=100):
    """Everything a controller could see, under its own feedback."""
    out = []
    for _ in range(ticks):
        plant.command(
            Command(
                Mode.FEEDBACK,
                plant.t,
                plant.joints,
                np.zeros(2),
                np.array([0.5, -0.5]),
                np.zeros(2),
                np.array([[30, 0, 3, 0], [0, 20, 0, 2.0]]),
            )
        )
        plant.tick()
        out.append(np.concatenate([[plant.t], plant.q, plant.v, plant.effort]))
    return np.array(out)


def test_equal_seeds_move_bit_equally(arm):
    first, second = trace(MujocoPlant(arm, **NOISY)), trace(MujocoPlant(arm, **NOISY))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, trace(MujocoPlant(arm, **{**NOISY, "seed": 6})))


def test_full_reset_replays_bit_equally_from_any_moment(arm):
    plant = MujocoPlant(arm, **NOISY)
    first = trace(plant)
    for ticks in (1, 24, 25, 26, 77):  # before, at and after the payload appears
        plant.reset()
        trace(plant, ticks)
        plant.spawn("ball", uri="refit:sphere", position=(2, 0, 1))
        plant.reset()
        assert plant.t == 0.0 and list(plant.entities()) == ["arm"]
        assert plant.stop_reason == "no command yet"
        assert np.array_equal(trace(plant), first)


def test_reset_scopes_are_separate(arm):
    plant = MujocoPlant(arm, **{**NOISY, "initial_q_std": 0.0, "initial_v_std": 0.0})
    trace(plant, 50)
    plant.spawn("ball", uri="refit:sphere", position=(2, 0, 1))
    q, t = plant.true_q, plant.t

    plant.reset(time=False, state=True, spawned=False)
    assert plant.t == t and set(plant.entities()) == {"arm", "payload", "ball"}
    np.testing.assert_array_equal(plant.true_q, [0.1, 0.2])

    trace(plant, 10)
    q = plant.true_q
    plant.reset(time=False, state=False, spawned=True)
    assert set(plant.entities()) == {"arm", "payload"}  # the payload is the scenario's
    np.testing.assert_array_equal(plant.true_q, q)

    plant.reset(time=True, state=False, spawned=False)
    assert plant.t == 0.0 and set(plant.entities()) == {"arm"}
    np.testing.assert_array_equal(plant.true_q, q)


def test_changes_for_good_survive_resets(arm):
    plant = MujocoPlant(arm)
    plant.apply([dict(action="scale", target="lower.mass", factor=10.0), dict(action="delay", command=0.01)])
    plant.reset()
    assert plant.world.model.body("lower").mass[0] == pytest.approx(5.0)
    assert plant._inputs.delay == 0.01
    plant.apply(dict(time=0.0, action="scale", target="lower.mass", factor=2.0))
    plant.tick()
    assert plant.world.model.body("lower").mass[0] == pytest.approx(10.0)
    plant.reset()
    assert plant.world.model.body("lower").mass[0] == pytest.approx(5.0)


def test_commands_from_before_a_reset_are_refused(arm):
    plant = MujocoPlant(arm, command_age_limit=1.0)
    for _ in range(10):
        plant.tick()
    plant.reset(time=False)
    with pytest.raises(CommandRefused, match="before the last reset"):
        plant.command(Command(Mode.EFFORT, 0.005, plant.joints, np.ones(2)))


def test_parameters_change_in_the_middle_of_a_motion():
    """From then on it moves as a plant that was made with them, from the very state it was in."""
    values = {"pole.mass": 0.3, "pole.h.z": 0.09, "slider.damping": 0.7}
    changed = MujocoPlant("cartpole", initial_q=[0.1, 0.5])
    for _ in range(20):
        changed.step([1.0])
    q, v = changed.q.copy(), changed.v.copy()
    changed.set_parameters(values)
    assert np.array_equal(changed.q, q) and np.array_equal(changed.v, v)
    made = MujocoPlant("cartpole", initial_q=q, initial_v=v, parameters=values)
    with pytest.raises(PlantError, match="not finite"):
        changed.set_parameters({"slider.damping": float("nan")})
    with pytest.raises(PlantError, match="sliderr"):
        changed.set_parameters({"sliderr.damping": 1.0})
    for _ in range(20):
        changed.step([1.0])
        made.step([1.0])
    assert np.allclose(changed.q, made.q, rtol=0, atol=1e-12) and np.allclose(changed.v, made.v, rtol=0, atol=1e-12)
    assert not np.allclose(changed.q, q)


def test_spawned_bodies_fall_and_do_not_disturb_the_arm(arm):
    plant, twin = MujocoPlant(arm), MujocoPlant(arm)
    for _ in range(20):
        plant.step([1.0, 0.3]), twin.step([1.0, 0.3])
    plant.spawn("ball", uri="refit:sphere?mass=0.3&size=0.05", position=(2.0, 0.0, 1.0))
    plant.spawn("brick", text='<geom type="box" size="0.1 0.1 0.05" mass="2"/>', position=(-2, 0, 1))
    for _ in range(200):
        plant.step([1.0, 0.3]), twin.step([1.0, 0.3])
    np.testing.assert_allclose(plant.true_q, twin.true_q, atol=1e-12)
    for name in ("ball", "brick"):
        state = plant.entity_state(name)
        np.testing.assert_allclose(state.position[2], 1.0 - 0.5 * 9.81 * 0.2**2, atol=1e-6)
        np.testing.assert_allclose(state.linear[2], -9.81 * 0.2, atol=1e-9)
    plant.delete("ball")
    np.testing.assert_allclose(plant.entity_state("brick").linear[2], -9.81 * 0.2, atol=1e-9)
    np.testing.assert_allclose(plant.true_q, twin.true_q, atol=1e-12)
    assert plant.entities() == {"arm": "robot", "brick": "dynamic"}


def test_free_bodies_can_be_placed_and_thrown(arm):
    plant = MujocoPlant(arm)
    plant.spawn("ball", uri="refit:sphere", position=(2, 0, 1))
    c, s = np.cos(0.5), np.sin(0.5)
    plant.set_entity_state(
        "ball", position=(1, 2, 3), quaternion=(c, s, 0, 0), linear=(1, 0, 2), angular=(0.0, 0.0, 4.0)
    )
    state = plant.entity_state("ball")
    np.testing.assert_allclose(state.position, (1, 2, 3))
    np.testing.assert_allclose(state.quaternion, (c, s, 0, 0), atol=1e-12)
    np.testing.assert_allclose(state.linear, (1, 0, 2), atol=1e-12)
    np.testing.assert_allclose(state.angular, (0, 0, 4), atol=1e-12)
    for _k in range(100):
        plant.step([0, 0])
    np.testing.assert_allclose(
        plant.entity_state("ball").position, (1 + 0.1, 2, 3 + 2 * 0.1 - 0.5 * 9.81 * 0.01), atol=1e-6
    )


def test_welded_objects_move_with_their_link(arm):
    plant = MujocoPlant(arm)
    plant.spawn("tool_box", uri="refit:box?mass=0.4", parent="tool", position=(0.1, 0, 0))
    plant.set_state([0.3, 0.4], [0.0, 0.5])
    a, b = 0.3, 0.7  # rotation about +y by q turns x towards -z
    state = plant.entity_state("tool_box")
    np.testing.assert_allclose(
        state.position, (0.4 * np.cos(a) + 0.4 * np.cos(b), 0, 1 - 0.4 * np.sin(a) - 0.4 * np.sin(b)), atol=1e-12
    )
    np.testing.assert_allclose(state.linear, 0.5 * 0.4 * np.array([-np.sin(b), 0, -np.cos(b)]), atol=1e-12)
    with pytest.raises(EntityError, match="only a free body"):
        plant.set_entity_state("tool_box", position=(0, 0, 0))
    plant.spawn("sticker", uri="refit:box?mass=0.1", parent="tool_box")
    with pytest.raises(EntityError, match="carries sticker"):
        plant.delete("tool_box")


def test_entity_errors_have_a_kind_and_change_nothing(arm):
    plant = MujocoPlant(arm)
    for kind, arguments in (
        ("not_unique", dict(name="upper", uri="refit:box")),
        ("invalid_name", dict(name="a box", uri="refit:box")),
        ("format", dict(name="b", uri="http://somewhere/box.sdf")),
        ("format", dict(name="b", text="<sdf/>")),
        ("parse", dict(name="b", text="<geom type='hexagon'/>")),
        ("parse", dict(name="b", uri="refit:box?mass=heavy")),
        ("parse", dict(name="b", uri="refit:box?size=1")),
        ("parse", dict(name="b", uri="refit:box?colour=1")),
        ("not_found", dict(name="b", uri="file:///no/such.xml")),
        ("pose", dict(name="b", uri="refit:box", parent="gripper")),
        ("pose", dict(name="b", uri="refit:box", quaternion=(0, 0, 0, 0))),
        ("pose", dict(name="b", uri="refit:box", position=(np.nan, 0, 0))),
    ):
        with pytest.raises(EntityError) as error:
            plant.spawn(**arguments)
        assert error.value.kind == kind, arguments
    for action in (lambda: plant.delete("arm"), lambda: plant.set_entity_state("arm", position=(0, 0, 0))):
        with pytest.raises(EntityError) as error:
            action()
        assert error.value.kind == "unsupported"
    for action in (lambda: plant.delete("ghost"), lambda: plant.entity_state("ghost")):
        with pytest.raises(EntityError, match="there are: arm"):
            action()
    assert plant.entities() == {"arm": "robot"}


def test_wrench_shows_the_weight_beyond_the_site(arm):
    site = arm.replace(
        '<site name="tool" pos="0.3 0 0"/>',
        '<body name="flange" pos="0.3 0 0"><geom size="0.01" mass="0.001"/><site name="ft"/></body>',
    )
    plant = MujocoPlant(site, wrench_site="ft", stop_state="hold", servo_bandwidth=100.0, initial_q=[0.0, 0.0])
    plant.spawn("load", uri="refit:box?mass=2&com=0.1,0,0", parent="flange")
    for _ in range(3000):
        plant.tick()
    q = plant.true_q.sum()
    weight = 2.001 * 9.81
    R = np.array([[np.cos(q), 0, np.sin(q)], [0, 1, 0], [-np.sin(q), 0, np.cos(q)]])  # site in world
    force_S = R.T @ [0, 0, -weight]
    torque_S = np.cross([0.1 * 2 / 2.001, 0, 0], force_S)
    np.testing.assert_allclose(plant.wrench(), np.concatenate([force_S, torque_S]), atol=1e-3)


def test_wrench_at_a_flange_is_that_of_what_is_welded_on_it():
    plant = MujocoPlant("panda", wrench_site="flange", stop_state="hold")
    for _ in range(1000):
        plant.tick()
    hand = plant.world.model.body("hand")
    m, c = hand.mass[0], hand.ipos  # flange and hand share an origin, not the axes
    f, torque = plant.wrench()[:3], plant.wrench()[3:]
    assert np.linalg.norm(f) == pytest.approx(m * 9.81, rel=1e-3)
    site, body = plant.world.observe().site("flange"), plant.world.observe().body("hand")
    R_WS, R_WH = site.xmat.reshape(3, 3), body.xmat.reshape(3, 3)
    c_S = R_WS.T @ (body.xpos + R_WH @ c - site.xpos)
    np.testing.assert_allclose(torque, np.cross(c_S, f), atol=2e-3)


def test_observing_does_not_disturb(arm):
    plant, twin = (MujocoPlant(arm, wrench_site="tool") for _ in range(2))
    for _k in range(50):
        plant.step([2.0, 0.0]), twin.step([2.0, 0.0])
        plant.wrench(), plant.entity_state("arm"), plant.world.pose_of_nominal()
    assert np.array_equal(plant.true_q, twin.true_q)


def test_divergence_is_said(slider):
    plant = MujocoPlant(slider, initial_v=[1.0, 0.0])
    plant.apply(dict(action="set", target="rail.damping", value=-1e9))
    with pytest.raises(PlantError, match="diverged at t = 0.0"):
        for _ in range(500):
            plant.step([0.0])
    plant.reset()
    assert np.all(np.isfinite(plant.q))


def test_wrong_inputs_are_refused(arm):
    plant = MujocoPlant(arm)
    for u in ([1.0], [np.nan, 0.0], [1.0, 2.0, 3.0]):
        with pytest.raises(PlantError, match="2 finite numbers"):
            plant.step(u)
    assert plant.t == 0.0
