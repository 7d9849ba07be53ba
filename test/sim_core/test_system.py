"""The contract of a simulator: who fulfils it, and what the base class promises of a step alone."""

import numpy as np
import pytest

from sim_core.complex_step import complex_step_jacobians
from sim_core.inference.data.parameters import ParameterBox
from sim_core.multibody import Dynamics, load_model
from sim_core.system import CompiledSystem, Derivatives, MissingDerivativesError, StepSystem, System, is_compiled


class Spring(StepSystem):
    """Exact over a period where nothing pushes: rotation in phase space."""

    def __init__(self, **options):
        super().__init__(0.1, ("q", "v"), ("force",), {"stiffness": 4.0, "damping": 0.0}, **options)

    def advance(self, x, u, p):
        v = x[:, 1:] + self.dt * (u - p[:, :1] * x[:, :1] - p[:, 1:] * x[:, 1:])
        return np.concatenate([x[:, :1] + self.dt * v, v], axis=1)

    def jacobians(self, x, u, p):
        return complex_step_jacobians(self.advance, x, u, p)


def test_rigid_bodies_fulfil_it_and_are_compiled():
    model = load_model("panda")
    dynamics = Dynamics(model)
    assert isinstance(dynamics, System) and isinstance(dynamics, CompiledSystem) and is_compiled(dynamics)
    assert len(dynamics.state_names) == dynamics.nx and len(dynamics.control_names) == dynamics.nu
    assert len(dynamics.parameter_names) == dynamics.np_ == len(dynamics.nominal)
    assert dynamics.u_lower.shape == dynamics.u_upper.shape == (dynamics.nu,) and dynamics.name == model.name
    assert dynamics.given_graph is None and dynamics.graph.size1_out(0) == dynamics.nx


def test_a_step_fulfils_it_and_is_not_compiled():
    spring = Spring()
    assert isinstance(spring, System) and not is_compiled(spring) and spring.name == "Spring"
    assert np.isinf(spring.u_lower).all() and spring.np_ == 2


def test_the_complex_step_is_exact():
    """Linear in x and u, so the Jacobians are known to the last bit."""
    A, B, C = Spring().sensitivity([0.3, -0.2], [0.1], [4.0, 0.5])
    h, k, d = 0.1, 4.0, 0.5
    assert np.allclose(A, [[1 - h * h * k, h * (1 - h * d)], [-h * k, 1 - h * d]], rtol=1e-15)
    assert np.allclose(B, [[h * h], [h]], rtol=1e-15)
    assert np.allclose(C, [[-h * h * 0.3, h * h * 0.2], [-h * 0.3, h * 0.2]], rtol=1e-15)


def test_shapes_broadcast_and_wrong_ones_say_what_was_expected():
    spring, p = Spring(), np.array([4.0, 0.1])
    X = spring.rollout(np.ones((5, 1, 2)), np.zeros((3, 7, 1)), p)
    assert X.shape == (5, 3, 8, 2)
    assert spring.step(np.ones(2), np.zeros((4, 1)), p).shape == (4, 2)
    x0bar, Ubar, pbar = spring.rollout_vjp(np.ones(2), np.zeros((3, 7, 1)), p, X[0], np.ones((6, 3, 8, 2)))
    assert x0bar.shape == (6, 3, 2) and Ubar.shape == (6, 3, 7, 1) and pbar.shape == (6, 3, 2)
    for wrong, text in (
        (lambda: spring.step(np.ones(3), np.zeros(1), p), "argument x: expected shape (..., 2), found (3,)"),
        (lambda: spring.rollout(np.ones(2), np.zeros(7), p), "argument U: expected shape (..., n, 1), found (7,)"),
        (lambda: spring.rollout(np.ones(2), np.zeros((7, 1)), p * np.nan), "argument p: expected finite numbers"),
        (lambda: spring.rollout_vjp(np.ones(2), np.zeros((7, 1)), p, X[0], X[0, :, 1:]), "expected 8 states, found 7"),
        (lambda: Spring(u_lower=[0.0, 1.0]), "u_lower: expected shape (1,)"),
    ):
        with pytest.raises(ValueError) as error:
            wrong()
        assert text in str(error.value)


def test_portions_of_jacobians_give_the_same_sensitivities(monkeypatch):
    from sim_core import system

    spring, U = Spring(), np.random.default_rng(0).standard_normal((3, 9, 1))
    whole = spring.rollout_sensitivity(np.ones(2), U, spring.nominal, np.eye(2))
    monkeypatch.setattr(system, "ROOM", 1.0)
    for found, expected in zip(spring.rollout_sensitivity(np.ones(2), U, spring.nominal, np.eye(2)), whole):
        assert np.array_equal(found, expected)


def test_a_lost_row_is_not_asked_for_again():
    asked = []

    class Fragile(Spring):
        def advance(self, x, u, p):
            assert np.isfinite(x).all()
            asked.append(len(x))
            x = super().advance(x, u, p)
            x[np.abs(x).max(axis=1) > 10] = np.inf
            return x

    spring = Fragile()
    X = spring.rollout(np.array([[1.0, 0.0], [1.0, 200.0]]), np.zeros((4, 1)), spring.nominal)
    assert asked == [2, 1, 1, 1] and np.isfinite(X[0]).all() and not np.isfinite(X[1, 1:]).any()
    x0bar, _, _ = spring.rollout_vjp(X[:, 0], np.zeros((4, 1)), spring.nominal, X, np.ones_like(X))
    assert np.isfinite(x0bar[0]).all() and not np.isfinite(x0bar[1]).any()


def test_missing_derivatives_are_said():
    spring = Spring(derivatives=Derivatives.NONE, name="spring")
    spring.rollout(np.ones(2), np.zeros((4, 1)), spring.nominal)
    with pytest.raises(MissingDerivativesError, match="spring has none"):
        spring.linearize(np.ones(2), np.zeros(1), spring.nominal)
    with pytest.raises(NotImplementedError, match="must define advance"):
        StepSystem(0.1, ("x",), ("u",), {}).step([1.0], [0.0], [])


def test_the_box_of_parameters():
    spring = Spring()
    box = ParameterBox(spring, {"damping": (0.0, 1.0)}, prior={"damping": (0.2, 0.1)}, units={"damping": "N s/m"})
    assert box.to_physical([[0.3], [0.4]]).tolist() == [[4.0, 0.3], [4.0, 0.4]]
    assert box.jacobian(np.array([0.3])).tolist() == [[0.0], [1.0]] and box.from_physical([4.0, 0.3]).tolist() == [0.3]
    assert box.pullback(np.zeros((2, 1)), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[2.0], [4.0]]
    assert (box.prior_mean.tolist(), box.prior_std.tolist()) == ([0.2], [0.1])
    assert ParameterBox(spring, {"stiffness": (5.0, 9.0)}).prior_mean.tolist() == [5.0]
    (estimate,) = box.report(np.array([0.3]), np.array([[0.01]]))
    assert (estimate.name, estimate.unit, estimate.std) == ("damping", "N s/m", pytest.approx(0.1))
    for wrong, error, text in (
        (({"mass": (0, 1)},), KeyError, "Spring has no parameter 'mass'; it has stiffness, damping"),
        (({},), ValueError, "no free parameters"),
        (({"damping": (1.0, 0.0)},), ValueError, "limits of damping"),
        (({"damping": (0, 1)}, {"stiffness": (1, 1)}), KeyError, "which has no limits"),
        (({"damping": (0, 1)}, {"damping": (0.5, 0.0)}), ValueError, "standard deviations > 0"),
    ):
        with pytest.raises(error, match=text):
            ParameterBox(spring, *wrong)
