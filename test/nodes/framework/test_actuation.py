"""A feedback law told about a state within the limits is the same law."""

import numpy as np

from nodes.framework.actuation import Actuation
from sim_core.multibody import load_model


def test_a_plan_beyond_the_limits_is_told_within_them_and_the_policy_stays():
    model, rng = load_model("panda"), np.random.default_rng(0)
    actuation = Actuation(model)
    lower = np.concatenate([model.q_lower, -model.v_limit])
    upper = np.concatenate([model.q_upper, model.v_limit])
    for _ in range(20):
        x_ref = rng.uniform(1.5 * lower, 1.5 * upper)
        K = 0.01 * rng.standard_normal((len(model.actuators), 2 * model.nv))
        u, x = 0.5 * rng.uniform(model.u_lower, model.u_upper), rng.uniform(lower, upper)
        told, about = actuation.within_limits(u, K, x_ref)
        assert np.all((lower <= about) & (about <= upper)) and np.any(about != x_ref)
        np.testing.assert_allclose(told + K @ (x - about), u + K @ (x - x_ref), atol=1e-12)
        strong, _ = actuation.within_limits(2.0 * model.u_upper, K, x_ref)
        assert np.all(strong <= model.u_upper)
