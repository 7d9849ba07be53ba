"""Likelihoods over any System against the compiled kernel: the same values, gradients and curvatures."""

import numpy as np
import pytest
from pendulum import dynamics, lengths, noisy, simulated

from sim_core.inference.samplers import sample
from sim_core.inference.shooting.likelihood import Evaluation, MultipleShooting
from sim_core.inference.shooting.observation import frame_positions
from sim_core.inference.shooting.shooting_kernel import ShootingKernel
from sim_core.inference.shooting.system_shooting import SystemShooting

SAME = 1e-9


class Opaque:
    """A system whose step is hidden: what is not rigid bodies looks like this."""

    graph = None

    def __init__(self, system):
        self._system = system

    def __getattr__(self, name):
        return getattr(self._system, name)


class LinkPosition:
    """`frame_positions` of the second link in numpy."""

    def __init__(self, model):
        self._graph = frame_positions(model, "link2")
        self._jacobian = self._graph.jacobian()

    def _each(self, x, p, f):
        x, p = np.broadcast_to(x, x.shape), np.broadcast_to(p, (*x.shape[:-1], p.shape[-1]))
        rows = [f(a, b) for a, b in zip(x.reshape(-1, x.shape[-1]), p.reshape(-1, p.shape[-1]))]
        return np.array(rows).reshape(*x.shape[:-1], *np.shape(rows[0]))

    def __call__(self, x, p):
        return self._each(x, p, lambda a, b: self._graph(a, b).full()[:, 0])

    def jacobian(self, x, p):
        y = np.zeros(3)
        return tuple(self._each(x, p, lambda a, b, i=i: self._jacobian(a, b, y)[i].full()) for i in range(2))


@pytest.fixture(scope="module")
def pendulum():
    d = dynamics()
    return d, lengths(d.model), noisy(simulated(d, lengths(d.model), [[1.5, 2.0], [1.2, 1.7]], steps=60))


def pair(pendulum, seen=False, **options):
    d, parameters, data = pendulum
    observe = (frame_positions(d.model, "link2"), LinkPosition(d.model)) if seen else (None, None)
    if seen:  # y is held still
        options["scale"] = np.full(3, 0.5)
    compiled = MultipleShooting(d, parameters, data, 4, observe=observe[0], device="cpu", **options)
    generic = MultipleShooting(Opaque(d), parameters, data, 4, observe=observe[1], **options)
    assert isinstance(compiled.kernel, ShootingKernel) and isinstance(generic.kernel, SystemShooting)
    return compiled, generic


def close(found, expected):
    finite = np.isfinite(expected)
    assert (finite == np.isfinite(found)).all()
    if finite.any():
        assert np.abs(found[finite] - expected[finite]).max() <= SAME * max(np.abs(expected[finite]).max(), 1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"combine": "product"},
        {"loss": "huber", "sigma_obs": 0.02},
        {"seen": True},
    ],
    ids=str,
)
def test_values_gradients_and_curvature_are_the_kernels(pendulum, options):
    compiled, generic = pair(pendulum, **options)
    rng = np.random.default_rng(0)
    z = rng.uniform(0.1, 0.9, (4, 2))
    z[2, 0] = np.nan
    starts = 0.05 * rng.standard_normal((4, *compiled.starts_shape))
    multipliers = rng.standard_normal(starts.shape)
    for form, on_defects in (("vector", multipliers), ("squared", multipliers[..., 0])):
        found, expected = (k.evaluate(z, starts, on_defects, 0.7, form) for k in (generic, compiled))
        for name in Evaluation.__dataclass_fields__:
            close(getattr(found, name), getattr(expected, name))
    for found, expected in zip(generic.joint(z, starts), compiled.joint(z, starts)):
        close(found, expected)
    close(generic.log_p(z), compiled.log_p(z))
    found, expected = (k.curvature(z, starts, 3.0) for k in (generic, compiled))
    for name in ("theta", "starts", "mixed"):
        close(getattr(found, name), getattr(expected, name))
    assert generic.not_finite == compiled.not_finite > 0


def test_every_kind_of_sampler_walks_the_same_path(pendulum):
    compiled, generic = pair(pendulum)
    for method, options in (
        ("csvgd", {"iterations": 5}),
        ("csvgd", {"iterations": 5, "metric": "adam"}),
        ("emcee", {"iterations": 5}),
    ):
        found, expected = (sample(method, k, 8, seed=1, **options) for k in (generic, compiled))
        assert np.allclose(found.z, expected.z, atol=1e-6)


def test_particles_in_portions_are_the_same(pendulum, monkeypatch):
    from sim_core.inference.shooting import system_shooting

    _, generic = pair(pendulum)
    z = np.random.default_rng(1).uniform(0.1, 0.9, (7, 2))
    whole = generic.log_p_and_grad(z)
    monkeypatch.setattr(system_shooting, "ROOM", 1.0)
    for found, expected in zip(generic.log_p_and_grad(z), whole):
        assert np.allclose(found, expected, rtol=1e-12)


def test_what_does_not_fit_is_refused(pendulum):
    d, parameters, data = pendulum
    with pytest.raises(ValueError, match="expected an Observation .* found Function"):
        MultipleShooting(Opaque(d), parameters, data, observe=frame_positions(d.model, "link2"))
    with pytest.raises(ValueError, match="expected a CasADi function .* found LinkPosition"):
        MultipleShooting(d, parameters, data, observe=LinkPosition(d.model))
    with pytest.raises(ValueError, match="device 'cuda' needs a step that is a CasADi graph"):
        MultipleShooting(Opaque(d), parameters, data, device="cuda")
