"""Drag of a fluid by MuJoCo's inertia-box model."""

import articulated_models as zoo
import mujoco
import numpy as np
import pytest
from test_gradients import assert_close, central
from test_integrators import mujoco_rollout, our_rollout

from sim_core.multibody import Dynamics, ModelError, load_model
from sim_core.multibody.model import build
from sim_core.multibody.rollout import derivatives, linearization

SWIMMER = """
<mujoco model="three_links">
  <option timestep="0.002" integrator="{integrator}" density="{density}" viscosity="{viscosity}" gravity="0 0 0"/>
  <default><geom type="capsule" size="0.02" contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="head">
      <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
      <joint name="yaw" type="hinge" axis="0 0 1"/>
      <geom fromto="0 0 0 -0.1 0 0"/>
      <body name="mid" pos="-0.1 0 0">
        <joint name="first" type="hinge" axis="0 0 1" damping="1e-4"/>
        <geom fromto="0 0 0 -0.1 0 0"/>
        <body name="tail" pos="-0.1 0 0">
          <joint name="second" type="hinge" axis="0 0 1"/>
          <geom fromto="0 0 0 -0.1 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="first" joint="first" gear="0.01"/><motor name="second" joint="second" gear="0.01"/></actuator>
</mujoco>
"""


def swimmer(integrator="Euler", density=1000.0, viscosity=0.001, **options):
    return load_model(SWIMMER.format(integrator=integrator, density=density, viscosity=viscosity), **options)


def in_fluid(text, density, viscosity):
    return text.replace("<option ", f'<option density="{density}" viscosity="{viscosity}" ', 1)


def fluid_forces(mj_model, q, v):
    data, out = mujoco.MjData(mj_model), np.empty_like(v)
    for k in range(q.shape[1]):
        data.qpos, data.qvel = q[:, k], v[:, k]
        mujoco.mj_forward(mj_model, data)
        out[:, k] = data.qfrc_fluid
    return out


@pytest.mark.parametrize("density, viscosity", [(1000.0, 0.0), (0.0, 0.3), (998.0, 0.05)])
@pytest.mark.parametrize(
    "text", [SWIMMER.format(integrator="Euler", density=0, viscosity=0), zoo.ZOO, zoo.BALLS, zoo.FLOATING]
)
def test_forces_agree_with_mujocos(text, density, viscosity):
    """Planar, free and ball-jointed bodies, several per link, turned inertial frames; slow and fast."""
    text = text.replace('density="0" viscosity="0"', "")
    model, dry = (
        load_model(in_fluid(text, density, viscosity)),
        load_model(in_fluid(text, density, viscosity), fluid=False),
    )
    force, dry_force = build.joint_force(model), build.joint_force(dry)
    for scale in (1e-3, 1.0, 30.0):
        q, v, u = zoo.random_states(model, 50, seed=1)
        v *= scale
        ours = force(q, v, u, model.parameters.nominal).full() - dry_force(q, v, u, dry.parameters.nominal).full()
        reference = fluid_forces(model.mj_model, q, v)
        assert np.abs(reference).max() > 0
        round_off = 1e-13 * np.abs(force(q, v, u, model.parameters.nominal).full()).max()
        assert np.abs(ours - reference).max() < 1e-10 * np.abs(reference).max() + round_off


def test_falling_sphere_reaches_stokes_terminal_speed():
    """Closed form: m g = 6 pi mu r v, with r that of the box that has the sphere's inertia: half-side sqrt(3/5) R."""
    R, mass, mu = 0.01, 0.02, 5.0
    model = load_model(
        f'<mujoco><option viscosity="{mu}" gravity="0 0 -9.81" timestep="0.001"/><worldbody><body><freejoint/>'
        f'<geom size="{R}" mass="{mass}"/></body></worldbody></mujoco>'
    )
    x0 = np.r_[model.q_home, np.zeros(6)]
    X = our_rollout(model, build.step(model, 0.001), x0, np.zeros((500, 0)))
    assert np.isclose(X[-1, 9], -mass * 9.81 / (6 * np.pi * mu * np.sqrt(3 / 5) * R), rtol=1e-6)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize("text", [SWIMMER.format(integrator="Euler", density=0, viscosity=0), zoo.BALLS])
def test_rollout_agrees_with_mujoco(text, integrator):
    text = text.replace('density="0" viscosity="0"', "").replace('integrator="Euler"', f'integrator="{integrator}"')
    if (
        integrator == "implicitfast" and "loose" in text
    ):  # the plant treats bodies that stand alone differently, as noted
        text = text[: text.index('<body name="loose"')] + text[text.index("</worldbody>") :]
    model = load_model(in_fluid(text, 900.0, 0.3))
    q, v, _ = zoo.random_states(model, 1, seed=2, spread=0.3)
    U = np.random.default_rng(3).uniform(-1, 1, (100, model.nu))
    x0 = np.r_[q[:, 0], v[:, 0]]
    reference = mujoco_rollout(zoo.without_constraints(model), x0, U)
    assert np.abs(our_rollout(model, build.step(model, model.timestep), x0, U) - reference).max() < 1e-10


def test_implicit_drag_is_stable_where_explicit_drag_is_not():
    """Thick oil in long steps: implicitfast decays, Euler's drag overshoots and explodes."""
    x0 = np.r_[np.zeros(5), 1.0, -2.0, 3.0, 1.0, -1.0]
    ends = {}
    for integrator in ("Euler", "implicitfast"):
        model = swimmer(integrator, viscosity=200.0)
        ends[integrator] = np.abs(our_rollout(model, build.step(model, 0.05), x0, np.zeros((20, 2)))[-1, 5:]).max()
    assert ends["implicitfast"] < 1e-3 and not ends["Euler"] < 1e3


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_jacobians_against_central_differences(integrator):
    """State, control, every entry of p: density and viscosity among them; both ways of computing them."""
    model = swimmer(integrator, viscosity=0.02)
    step = build.step(model, 0.01)
    f, g = linearization.step_jacobian(model, step, 0.01, None, "xup"), derivatives.step_jacobian(step, "xup")
    q, v, u = zoo.random_states(model, 3, seed=4, spread=0.3)
    p = model.parameters.nominal
    size = np.maximum(np.abs(p), 1e-6)
    for k in range(3):
        x = np.r_[q[:, k], v[:, k]]
        x_next, A, B, C = (out.full() for out in f(x, u[:, k], p))
        assert_close(A, central(lambda z: step(z, u[:, k], p).full()[:, 0], x, 1e-5))
        assert_close(B, central(lambda z: step(x, z, p).full()[:, 0], u[:, k], 1e-3))
        assert_close(C * size, central(lambda z: step(x, u[:, k], p + size * z).full()[:, 0], 0 * p, 1e-3))
        for ours, plain in zip((x_next, A, B, C), g(x, u[:, k], p)):
            np.testing.assert_allclose(ours, plain.full(), rtol=1e-8, atol=1e-10 * max(1.0, np.abs(ours).max()))
    where = [model.parameters.index(f"fluid.{name}") for name in ("density", "viscosity")]
    assert np.abs(C[:, where]).max(axis=0).min() > 0


def test_implicit_drag_beside_friction_loss():
    """Both enter the same linear system: steps as MuJoCo's, Jacobians by both ways."""
    text = SWIMMER.replace('name="second" type="hinge"', 'name="second" type="hinge" frictionloss="1e-3"').replace(
        "<option ", '<option tolerance="0" ', 1
    )
    model = load_model(text.format(integrator="implicitfast", density=900, viscosity=0.3))
    assert model.friction is not None
    q, v, _ = zoo.random_states(model, 1, seed=10, spread=0.3)
    x0, U = np.r_[q[:, 0], v[:, 0]], np.random.default_rng(11).uniform(-1, 1, (100, 2))
    step = build.step(model, model.timestep)
    X = our_rollout(model, step, x0, U)
    assert np.abs(X - mujoco_rollout(model.mj_model, x0, U)).max() < 1e-9
    ours = linearization.step_jacobian(model, step, model.timestep, None, "xu")(X[50], U[50], model.parameters.nominal)
    plain = derivatives.step_jacobian(step, "xu")(X[50], U[50], model.parameters.nominal)
    for found, want in zip(ours, plain):
        np.testing.assert_allclose(found.full(), want.full(), rtol=1e-8, atol=1e-10 * np.abs(want.full()).max())


def test_gradient_of_a_rollout_in_water():
    """100 steps against central differences, with respect to the medium; a batch equals its robots one by one."""
    model = swimmer("implicitfast")
    dynamics = Dynamics(model, dt=0.01)
    q, v, _ = zoo.random_states(model, 3, seed=5, spread=0.3)
    x0, U, p = (
        np.concatenate([q, v]).T.copy(),
        np.random.default_rng(6).uniform(-1, 1, (3, 100, 2)),
        model.parameters.nominal,
    )
    X = dynamics.rollout(x0, U, p)
    for k in range(3):
        np.testing.assert_allclose(X[k], dynamics.rollout(x0[k], U[k], p), rtol=1e-10, atol=1e-10)
    weight = np.random.default_rng(7).normal(size=X.shape)
    _, _, pbar = dynamics.rollout_vjp(x0, U, p, X, weight)
    where = [model.parameters.index(f"fluid.{name}") for name in ("density", "viscosity")]

    def loss(values):
        changed = p.copy()
        changed[where] = values
        return np.array([(dynamics.rollout(x0[0], U[0], changed) * weight[0]).sum()])

    numeric = central(loss, p[where], 1e-4)[0]
    np.testing.assert_allclose(pbar[0][where], numeric, rtol=1e-5)


def test_drag_only_takes_energy(load):
    model = load_model(in_fluid(zoo.BALLS, 800.0, 0.1))
    dry = load_model(in_fluid(zoo.BALLS, 800.0, 0.1), fluid=False)
    q, v, u = zoo.random_states(model, 200, seed=8)
    power = (
        (
            build.joint_force(model)(q, v, u, model.parameters.nominal).full()
            - build.joint_force(dry)(q, v, u, dry.parameters.nominal).full()
        )
        * v
    ).sum(axis=0)
    assert power.max() < 0


def test_what_enters_p_and_what_is_refused():
    def entries(**options):
        return [n for n in swimmer(**options).parameters.names if n.startswith("fluid.")]

    assert entries() == ["fluid.density", "fluid.viscosity"] and entries(viscosity=0.0) == ["fluid.density"]
    assert entries(density=0.0, viscosity=0.0) == [] and entries(fluid=False) == []
    full = swimmer(density=0.0, viscosity=0.0, fluid=True)
    assert full.parameters.nominal[full.parameters.index("fluid.density")] == 0.0
    assert "medium drags in the plant only" in " ".join(swimmer(fluid=False).notes)
    assert (
        swimmer(fluid=False).hash
        == swimmer(fluid=False, density=2.0).hash
        != swimmer().hash
        != swimmer(density=2.0).hash
    )
    with pytest.raises(ValueError, match='fluid must be "auto", True or False, found "water"'):
        swimmer(fluid="water")
    windy = SWIMMER.replace("<option ", '<option wind="1 0 0" ')
    with pytest.raises(ModelError, match="wind .*medium is at rest"):
        load_model(windy.format(integrator="Euler", density=1, viscosity=0))
    rounded = SWIMMER.replace('<geom type="capsule"', '<geom fluidshape="ellipsoid" type="capsule"')
    with pytest.raises(ModelError, match="ellipsoid fluid model of geom"):
        load_model(rounded.format(integrator="Euler", density=1, viscosity=0))


def test_media_of_a_plant_without_passive_forces():
    """MuJoCo computes no drag where it computes neither springs nor dampers; neither do we."""
    text = in_fluid(zoo.FLOATING, 900.0, 0.3).replace(
        "<worldbody>", '<option><flag spring="disable" damper="disable"/></option><worldbody>', 1
    )
    model = load_model(text, fluid=True)
    q, v, _ = zoo.random_states(model, 5, seed=9)
    assert np.all(fluid_forces(model.mj_model, q, v) == 0)
    assert np.all(build.joint_force(model)(q, v, [], model.parameters.nominal).full() == 0)
