"""Jacobians by way of inverse dynamics equal the differentiated step, with fewer operations."""

import articulated_models as zoo
import numpy as np
import pytest

from sim_core.codegen import count_operations
from sim_core.multibody.model import build
from sim_core.multibody.rollout import derivatives, linearization


@pytest.mark.parametrize("name", ["pendulum", "cartpole", "double_cartpole", "panda", "zoo"])
@pytest.mark.parametrize("integrator", linearization.ONE_STAGE)
def test_both_ways_give_the_same(load, name, integrator):
    model = load(name)
    h = 0.01  # the larger, the more the implicit terms matter
    step = build.step(model, h, integrator)
    some = [0, 3, model.np_ - 1]
    f = linearization.step_jacobian(model, step, h, integrator, "xup", some)
    g = derivatives.step_jacobian(step, "xup", some)
    q, v, u = zoo.random_states(model, 4, seed=11)
    rng = np.random.default_rng(12)
    for k in range(4):
        p = model.parameters.nominal * (1 + 0.1 * rng.uniform(-1, 1, model.np_))
        arguments = np.concatenate([q[:, k], v[:, k]]), u[:, k], p
        for found, want in zip(f(*arguments), g(*arguments)):
            found, want = found.full(), want.full()
            assert found.shape == want.shape
            np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-11 * np.abs(want).max(initial=1.0))


def test_smoothed_friction_enters_the_implicit_equation():
    """K depends on velocity and on parameters then; its own derivative must not be lost."""
    from sim_core.multibody import load_model

    model = load_model(zoo.PENDULUM, friction=True, friction_law="smooth", joint_limits=True)
    p = model.parameters.nominal.copy()
    p[model.parameters.index("pivot.frictionloss")] = 0.3
    step = build.step(model, 0.01)
    arguments = np.array([0.3, 0.004]), np.array([0.7]), p
    ours = linearization.step_jacobian(model, step, 0.01, None, "xup")(*arguments)
    plain = derivatives.step_jacobian(step, "xup")(*arguments)
    for found, want in zip(ours, plain):
        np.testing.assert_allclose(found.full(), want.full(), rtol=1e-9, atol=1e-13)


def test_it_is_worth_it(load):
    model = load("panda")
    step = build.step(model, model.timestep)
    hand = range(model.parameters.inertia_slice("hand").start, model.parameters.inertia_slice("hand").stop)
    ours = count_operations(linearization.step_jacobian(model, step, model.timestep, None, "xp", hand))
    assert ours < 0.6 * count_operations(derivatives.step_jacobian(step, "xp", hand))
