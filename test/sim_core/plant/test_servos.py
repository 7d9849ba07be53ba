"""Command modes, limits, ages and the stop state, each against the equation it implements."""

import mujoco
import numpy as np
import pytest

from sim_core.command import Command, CommandRefused, Mode, Refusal
from sim_core.plant import MujocoPlant, PlantError


def feedback(plant, stamp, effort, position, velocity, gain):
    return Command(
        Mode.FEEDBACK, stamp, plant.joints, np.array(effort), np.array(position), np.array(velocity), np.array(gain)
    )


def test_feedback_follows_the_message_definition(arm):
    plant = MujocoPlant(arm, tick=0.002)
    rng = np.random.default_rng(0)
    effort, position, velocity = rng.normal(size=(3, 2))
    gain = rng.normal(size=(2, 4))
    plant.command(feedback(plant, 0.0, effort, position, velocity, gain))
    for _ in range(5):
        t, q, v = plant.t, plant.q, plant.v
        plant.tick()
        # tau = effort + gain [position + velocity (t - stamp) - q; velocity - qd]
        tau = effort + gain @ np.concatenate([position + velocity * (t - 0.0) - q, velocity - v])
        np.testing.assert_allclose(plant.effort, tau, rtol=1e-12)


def test_effort_is_what_moves_the_joints(arm):
    plant = MujocoPlant(arm)
    model = mujoco.MjModel.from_xml_string(arm)
    data = mujoco.MjData(model)
    data.qpos[:] = plant.q
    plant.command(Command(Mode.EFFORT, 0.0, ["elbow", "shoulder"], np.array([0.7, 3.0])))
    plant.tick()
    data.qfrc_applied[:] = [3.0, 0.7]  # by joint, whatever the gear and the message's order
    mujoco.mj_step(model, data)
    np.testing.assert_allclose(plant.q, data.qpos, atol=1e-15)
    np.testing.assert_allclose(plant.effort, [3.0, 0.7], rtol=1e-14)


def test_position_mode_settles_where_stiffness_balances_gravity(arm):
    plant = MujocoPlant(arm, tick=0.002, servo_bandwidth=30.0)
    target = np.array([0.3, -0.4])
    for _ in range(1500):
        plant.command(Command(Mode.POSITION, plant.t, plant.joints, position=target))
        plant.tick()
    model = mujoco.MjModel.from_xml_string(arm)
    data = mujoco.MjData(model)
    data.qpos[:] = plant.true_q
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(plant.true_v, 0.0, atol=1e-6)
    np.testing.assert_allclose(plant._servo.kp * (target - plant.true_q), data.qfrc_bias, rtol=1e-4)


def test_limits_hold_in_every_mode(arm):
    plant = MujocoPlant(arm)
    np.testing.assert_allclose(plant.u_upper, [20.0, 15.0])
    plant.command(Command(Mode.EFFORT, 0.0, plant.joints, np.array([1e3, -1e3])))
    plant.tick()
    np.testing.assert_allclose(plant.effort, [40.0, -15.0])  # shoulder: gear 2
    plant.step([1e3, 0.0])
    np.testing.assert_allclose(plant.u, [20.0, 0.0])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (dict(effort=[np.nan, 0.0]), Refusal.NOT_FINITE),
        (dict(effort=[1.0]), Refusal.SIZE),
        (dict(joints=["shoulder"], effort=[1.0]), Refusal.NAMES),
        (dict(joints=["shoulder", "wrist"]), Refusal.NAMES),
        (dict(joints=["shoulder", "shoulder"]), Refusal.NAMES),
        (dict(joints=[], effort=[]), Refusal.NAMES),
        (dict(mode=7), Refusal.MODE),
        (dict(mode=Mode.FEEDBACK, position=[0, 0], gain=np.zeros(4)), Refusal.SIZE),
        (dict(mode=Mode.POSITION), Refusal.SIZE),
        (dict(stamp=0.3), Refusal.OLD),
        (dict(stamp=0.6), Refusal.FUTURE),
        (dict(stamp=np.nan), Refusal.NOT_FINITE),
    ],
)
def test_bad_commands_are_refused_and_nothing_moves(arm, change, reason):
    plant, twin = MujocoPlant(arm, tick=0.01), MujocoPlant(arm, tick=0.01)
    for p in (plant, twin):
        for _ in range(50):
            p.command(Command(Mode.EFFORT, p.t, p.joints, np.array([4.0, 1.0])))
            p.tick()
    good = dict(mode=Mode.EFFORT, stamp=0.5, joints=["shoulder", "elbow"], effort=[9.0, 9.0])
    with pytest.raises(CommandRefused) as refused:
        plant.command(Command(**{**good, **change}))
    assert refused.value.reason is reason
    assert str(refused.value).endswith(reason.value + ".")
    plant.tick()
    twin.tick()
    assert np.array_equal(plant.q, twin.q) and np.array_equal(plant.effort, twin.effort)


def test_passive_joints_give_their_state_but_take_no_effort(slider):
    plant = MujocoPlant(slider, initial_q=[0.1, 0.2], initial_v=[0.0, 0.3])
    gain = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]])
    plant.command(feedback(plant, 0.0, [0.5, 0.0], [0.0, 0.0], [], gain))
    plant.tick()
    np.testing.assert_allclose(plant.effort, [0.5 - 0.1 - 2 * 0.2 - 4 * 0.3, 0.0], rtol=1e-12)
    for effort, G in (([0.5, 0.1], gain), ([0.5, 0.0], np.ones((2, 4)))):
        with pytest.raises(CommandRefused, match="pivot has no actuator"):
            plant.command(feedback(plant, plant.t, effort, [0, 0], [], G))


@pytest.mark.parametrize("stop_state", ["zero", "damped", "hold"])
def test_silence_leads_to_the_declared_stop_state(arm, stop_state):
    plant = MujocoPlant(arm, tick=0.002, command_age_limit=0.05, stop_state=stop_state)
    assert plant.stop_reason == "no command yet"
    plant.command(Command(Mode.EFFORT, 0.0, plant.joints, np.array([6.0, 1.0])))
    applied = []
    for _ in range(40):
        plant.tick()
        applied.append(plant.effort)
    moved = [np.array_equal(tau, [6.0, 1.0]) for tau in applied]
    assert all(moved[:26]) and not any(moved[26:])  # 0 to 0.05 s, bounds included
    assert "no command for" in plant.stop_reason
    q, v = plant.q, plant.v
    plant.tick()
    if stop_state == "zero":
        np.testing.assert_array_equal(plant.effort, 0.0)
    elif stop_state == "damped":
        np.testing.assert_allclose(plant.effort, -plant._servo.kd_stop * v, rtol=1e-12)
    else:
        for _ in range(1000):
            plant.tick()
        # Gravity is compensated, so the posture held is the one at which silence was noticed.
        assert np.max(np.abs(plant.true_q - q)) < 0.1 and np.max(np.abs(plant.true_v)) < 1e-4
        held = plant.q
        for _ in range(500):
            plant.tick()
        np.testing.assert_allclose(plant.q, held, atol=1e-6)


def test_models_that_cannot_be_driven_are_named():
    for old, new, text in (
        ('name="rail" ', "", "has no name"),
        ('<motor name="drive" joint="rail"/>', '<position name="drive" joint="rail" kp="3"/>', "'drive' is no motor"),
        ("</actuator>", '<motor name="second" joint="rail"/></actuator>', "'drive' and 'second'"),
    ):
        from_text = SLIDER_TEXT.replace(old, new)
        with pytest.raises(PlantError, match=text):
            MujocoPlant(
                from_text
                if "no name" not in text
                else from_text.replace('<actuator><motor name="drive" joint="rail"/></actuator>', "")
            )
    with pytest.raises(PlantError, match="multiple of the"):
        MujocoPlant(SLIDER_TEXT, tick=0.0015)
    with pytest.raises(PlantError, match="Known: avatar"):
        MujocoPlant("no_such_robot")


SLIDER_TEXT = """<mujoco model="s"><option timestep="0.001"/><worldbody><body name="cart">
<joint name="rail" type="slide"/><geom type="box" size="0.1 0.1 0.1" mass="2"/></body></worldbody>
<actuator><motor name="drive" joint="rail"/></actuator></mujoco>"""
