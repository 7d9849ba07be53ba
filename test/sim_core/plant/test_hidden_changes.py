"""Hidden changes: exact in time, and equal to a model that had them from the start."""

import mujoco
import numpy as np
import pytest

from sim_core.plant import MujocoPlant, PlantError, parse_scenario


def run(plant, seconds, u=None):
    """Positions at each tick under a fixed sweep of inputs."""
    out = []
    for _ in range(round(seconds / plant.tick_period)):
        plant.step(u if u is not None else [3.0 * np.sin(7.0 * plant.t), 1.0 * np.cos(5.0 * plant.t)])
        out.append(plant.true_q)
    return np.array(out)


def test_an_attached_payload_equals_one_modelled_from_the_start(arm):
    modelled = arm.replace(
        '<site name="tool" pos="0.3 0 0"/>',
        """<site name="tool" pos="0.3 0 0"/>
        <body name="load" pos="0.3 0 0"><geom type="box" size="0.05 0.04 0.03" pos="0.02 0 0.1" mass="2"
        contype="0" conaffinity="0"/></body>""",
    )
    scenario = [
        dict(
            time=0.0, action="attach", frame="tool", mass=2.0, com=[0.02, 0, 0.1], shape="box", size=[0.05, 0.04, 0.03]
        )
    ]
    np.testing.assert_allclose(
        run(MujocoPlant(arm, scenario=scenario), 0.5), run(MujocoPlant(modelled), 0.5), atol=1e-12
    )


def test_changes_happen_at_their_physics_step_and_not_before(arm):
    scenario = [dict(time=0.1, action="attach", frame="lower", mass=1.5, com=[0.3, 0, 0])]
    changed, plain = MujocoPlant(arm, tick=0.005, scenario=scenario), MujocoPlant(arm, tick=0.005)
    a, b = run(changed, 0.2), run(plain, 0.2)
    assert np.array_equal(a[:20], b[:20])  # bit-equal up to and including t = 0.1 s
    assert np.all(np.abs(a[20] - b[20]) > 1e-9)
    # An event in the middle of a tick takes the physics step that begins there.
    late = run(MujocoPlant(arm, tick=0.005, scenario=[{**scenario[0], "time": 0.103}]), 0.2)
    assert np.array_equal(late[:20], b[:20]) and not np.array_equal(late[20], b[20])
    assert not np.array_equal(late[20], a[20])


def test_detached_payload_leaves_the_robot_as_it_was(arm):
    scenario = [
        dict(time=0.05, action="attach", frame="tool", mass=1.0, name="can"),
        dict(time=0.1, action="detach", name="can"),
    ]
    plant = MujocoPlant(arm, scenario=scenario)
    run(plant, 0.2)
    assert list(plant.entities()) == ["arm"]
    fresh = MujocoPlant(arm, initial_q=plant.true_q, initial_v=plant.true_v)
    np.testing.assert_allclose(run(plant, 0.1, [1.0, 0.5]), run(fresh, 0.1, [1.0, 0.5]), atol=1e-12)


@pytest.mark.parametrize(
    ("event", "old", "new"),
    [
        (dict(action="scale", target="lower.mass", factor=3.0), 'mass="0.5"', 'mass="1.5"'),
        (dict(action="scale", target="*.damping", factor=2.0), 'damping="0.2"', 'damping="0.4"'),
        (dict(action="set", target="shoulder.damping", value=1.3), 'damping="0.2"', 'damping="1.3"'),
        (dict(action="set", target="elbow.armature", value=0.05), 'damping="0.1"', 'damping="0.1" armature="0.05"'),
        (
            dict(action="set", target="gravity.z", value=-1.62),
            'integrator="RK4"',
            'integrator="RK4" gravity="0 0 -1.62"',
        ),
    ],
)
def test_scaled_and_set_numbers_equal_an_edited_model(arm, event, old, new):
    edited = arm.replace(old, new)
    if event["target"] == "*.damping":
        edited = edited.replace('damping="0.1"', 'damping="0.2"')
    plant = MujocoPlant(arm)
    plant.apply(event)
    np.testing.assert_allclose(run(plant, 0.5), run(MujocoPlant(edited), 0.5), atol=1e-11)


def test_actuator_gain_weakens_the_motor_but_not_its_account(slider):
    plant = MujocoPlant(slider)
    plant.apply(dict(action="actuator_gain", factor=0.6))
    plant.step([5.0])
    strong = MujocoPlant(slider)
    strong.step([3.0])
    np.testing.assert_allclose(plant.true_v, strong.true_v, rtol=1e-12)
    np.testing.assert_array_equal(plant.effort, [5.0, 0.0])


def test_command_delay_shifts_the_effort(slider):
    plant = MujocoPlant(slider, tick=0.002, command_delay=0.003)
    applied = []
    for _ in range(4):
        plant.step([4.0])
        applied.append(plant.u[0])
    # In force from t = 0.003 s: no part of tick 1, half of tick 2, all of the others.
    np.testing.assert_allclose(applied, [0.0, 2.0, 4.0, 4.0])


@pytest.mark.parametrize("delay", [0.002, 0.0037, 0.0255])
def test_sensor_delay_reports_the_past(slider, delay):
    model = slider.replace('<body name="pole">', '<body name="pole" gravcomp="1">')
    plant = MujocoPlant(model, sensor_delay=delay, initial_v=[1.5, 0.0])
    for _ in range(60):
        plant.step([0.0])
        # Uniform motion from rest in the past: q(t - d) = v (t - d), and the start before t = 0.
        np.testing.assert_allclose(plant.q[0], 1.5 * max(plant.t - delay, 0.0), atol=1e-12)
    plant = MujocoPlant("double_cartpole", sensor_delay=delay, tick=0.02, initial_v=[0, 3, -2])
    twin = MujocoPlant("double_cartpole", tick=0.01, initial_v=[0, 3, -2])
    history = [twin.true_q]
    for _k in range(20):
        plant.step([20.0])
        twin.step([20.0]), history.append(twin.true_q)
        twin.step([20.0]), history.append(twin.true_q)
    back = delay / 0.01
    whole = int(back)
    low, high = history[-2 - whole], history[-1 - whole]
    linear = high + (back - whole) * (low - high)
    np.testing.assert_allclose(plant.q, linear, atol=2e-3)  # chord error h^2/8 |qdd|
    assert not np.allclose(plant.q, plant.true_q, atol=1e-3)


def test_a_delay_that_appears_later_knows_the_past(arm):
    plant = MujocoPlant(arm, scenario=[dict(time=0.05, action="delay", seconds=0.004)])
    past = {}
    for _ in range(100):
        plant.step([2.0, 0.0])
        past[round(plant.t * 1000)] = plant.true_q
        # The event takes effect with the step that begins at 0.05 s.
        wanted = round(plant.t * 1000) - (4 if plant.t > 0.0505 else 0)
        np.testing.assert_allclose(plant.q, past[wanted], atol=1e-15)


def test_scenarios_say_what_is_wrong(arm, tmp_path):
    for bad, text in (
        ([dict(time=1, action="attach", frame="hand", mass=1)], "No body or site 'hand'"),
        ([dict(time=1, action="attach", mass=1)], "also needs frame"),
        ([dict(time=1, action="atach", frame="tool", mass=1)], "unknown action"),
        ([dict(time=1, action="attach", frame="tool", mas=1, mass=1)], "did you mean 'mass'"),
        ([dict(time=1, action="attach", frame="tool", mass=-1)], "Mass must be positive"),
        ([dict(time=-1, action="detach", name="x")], "time must be"),
        ([dict(time=1, action="scale", target="lowr.mass", factor=2)], "Did you mean 'lower'"),
        ([dict(time=1, action="scale", target="lower.colour", factor=2)], "no physical property"),
        ([dict(time=1, action="detach", name="x")], "Nothing called 'x'"),
        ([dict(time=1, action="delay", seconds=3)], "between 0 and 0.5"),
        ("{time: [", "not YAML"),
        ("/no/such/file.yaml", "Cannot read"),
    ):
        with pytest.raises(PlantError, match=text):
            MujocoPlant(arm, scenario=bad)
    path = tmp_path / "scenario.yaml"
    path.write_text("- {time: 2, action: detach, name: b}\n- {time: 1, action: delay, seconds: 0.001}\n")
    assert [e.time for e in parse_scenario(path)] == [1.0, 2.0]
    assert parse_scenario("") == ()


def accelerations(model, n=20):
    """Forward dynamics at fixed random states."""
    data, rng = mujoco.MjData(model), np.random.default_rng(3)
    out = []
    for _ in range(n):
        data.qpos[:], data.qvel[:] = rng.normal(size=model.nq), rng.normal(size=model.nv)
        data.ctrl[:] = rng.normal(size=model.nu)
        mujoco.mj_forward(model, data)
        out.append(data.qacc.copy())
    return np.array(out)


def test_parameters_by_name_equal_an_edited_model(arm):
    # Lower link: 0.8 kg point-like at (0.2, 0, 0.05) with I_C = 1e-3 about its centre.
    m, c, i = 0.8, np.array([0.2, 0.0, 0.05]), 1e-3
    I_O = i * np.eye(3) + m * (c @ c * np.eye(3) - np.outer(c, c))
    values = {
        "lower.mass": m,
        **{f"lower.h.{a}": m * c[k] for k, a in enumerate("xyz")},
        "lower.I.xx": I_O[0, 0],
        "lower.I.yy": I_O[1, 1],
        "lower.I.zz": I_O[2, 2],
        "lower.I.xy": I_O[0, 1],
        "lower.I.xz": I_O[0, 2],
        "lower.I.yz": I_O[1, 2],
        "lower.pos.x": 0.45,
        "elbow.damping": 0.3,
        "shoulder.armature": 0.02,
        "gravity.z": -9.0,
        "shoulder.gear": 3.0,
    }
    edited = (
        arm.replace(
            '<body name="lower" pos="0.4 0 0">',
            '<body name="lower" pos="0.45 0 0"><inertial mass="0.8" pos="0.2 0 0.05" diaginertia="1e-3 1e-3 1e-3"/>',
        )
        .replace('damping="0.1"', 'damping="0.3"')
        .replace('damping="0.2"', 'damping="0.2" armature="0.02"')
        .replace('integrator="RK4"', 'integrator="RK4" gravity="0 0 -9.0"')
        .replace('gear="2"', 'gear="3"')
    )
    plant = MujocoPlant(arm, parameters=values)
    np.testing.assert_allclose(
        accelerations(plant.world.model), accelerations(mujoco.MjModel.from_xml_string(edited)), rtol=1e-6
    )
    for bad, text in (
        ({"lower.mass": -1.0}, "not positive"),
        ({"wrist.mass": 1.0}, "no body 'wrist'"),
        ({"wrist.damping": 1.0}, "no joint 'wrist'"),
        ({"lower.I.yy": 0.0}, "triangle"),
        ({"lower.colour": 1.0}, "unknown"),
    ):
        with pytest.raises(PlantError, match=text):
            MujocoPlant(arm, parameters=bad)


@pytest.mark.parametrize("robot", ["panda", "cartpole", "double_cartpole"])
def test_nominal_parameters_of_the_model_change_nothing(robot):
    articulated = pytest.importorskip("sim_core.multibody")
    vector = articulated.load_model(robot).parameters
    values = dict(zip(vector.names, vector.nominal, strict=True))
    plain = MujocoPlant(robot)
    np.testing.assert_allclose(
        accelerations(MujocoPlant(robot, parameters=values).world.model), accelerations(plain.world.model), rtol=1e-6
    )


def test_parameter_files_of_an_identification(tmp_path):
    articulated = pytest.importorskip("sim_core.multibody")
    model = articulated.load_model("panda")
    path = tmp_path / "p.yaml"
    text = (
        f"robot: panda\nmodel_hash: '{model.hash}'\nparameters:\n"
        "  joint1.damping: {value: 3.0, std: 0.1, unit: N m s/rad}\n"
        "sensor:\n  delay: {value: 0.004, unit: s}\n"
    )
    path.write_text(text)
    plant = MujocoPlant("panda", params_file=str(path))
    assert plant.world.model.joint("joint1").damping[0] == 3.0 and plant._sensor.delay == 0.004
    plant = MujocoPlant("panda", params_file=str(path), parameters={"joint1.damping": 4.0}, sensor_delay=0.001)
    assert plant.world.model.joint("joint1").damping[0] == 4.0 and plant._sensor.delay == 0.001
    for old, new, error in (
        ("panda", "cartpole", "'cartpole'"),
        (model.hash, "0" * 64, "identify again"),
        ("joint1", "joint9", "no parameter 'joint9"),
        ("value: 3.0", "value: x", "finite number"),
        ("parameters:", "[", "is not YAML"),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises(PlantError, match=error):
            MujocoPlant("panda", params_file=str(path))
    with pytest.raises(PlantError, match="cannot be read"):
        MujocoPlant("panda", params_file=str(tmp_path / "none.yaml"))


TURNTABLE = """
<mujoco model="turntable">
  <option timestep="0.001"/>
  <worldbody>
    <body name="plate"><joint name="pivot" axis="0 0 1" frictionloss="1"/>
      <geom type="cylinder" size="0.2 0.01" mass="2" contype="0" conaffinity="0"/>
      <site name="rim" pos="0.2 0 0"/>
    </body>
  </worldbody>
  <actuator><motor name="pivot" joint="pivot"/></actuator>
</mujoco>
"""


@pytest.mark.parametrize(
    "event",
    [
        dict(action="attach", frame="rim", mass=5.0),
        dict(action="scale", target="plate.mass", factor=4.0),
        dict(action="set", target="pivot.armature", value=0.3),
    ],
)
def test_a_gear_that_sticks_creeps_alike_whatever_hangs_on_it(event):
    def creep(*events):
        plant = MujocoPlant(TURNTABLE)
        for each in events:
            plant.apply(each)
        run(plant, 1.0, [0.5])
        return float(plant.true_v[0])

    # Half of its friction: MuJoCo's soft constraint yields at rate tau / (D b), D of the bare plate's inertia (0.04 kg m²).
    d = mujoco.MjModel.from_xml_string(TURNTABLE).dof_solimp[0, 0]
    D, b = d / (1.0 - d) * 0.04, 2.0 / (0.02 * mujoco.MjModel.from_xml_string(TURNTABLE).dof_solimp[0, 1])
    assert creep() == pytest.approx(0.5 / (D * b), rel=1e-3)
    assert creep(event) == pytest.approx(creep(), rel=1e-3)
