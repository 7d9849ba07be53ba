"""The Gaussian process of stiffness: by its definition, by what it must not do, and on an object that is known."""

from itertools import product

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import multivariate_normal

from sim_core.elastic.poke import Poke
from sim_core.elastic.stiffness_process import DEPTHS, NOISES, REACHES, SIGNALS, StiffnessProcess

pytestmark = pytest.mark.pure

D = np.linspace(-0.002, 0.01, 8)


def feature(x, y=0.0, normal=(0.0, 0.0, 1.0)):
    return np.array([x, y, 0.1, 0.5, 0.5, 0.5, *normal])


def poke(x, stiffness, onset=0.0, y=0.0):
    d = D
    return Poke(feature=feature(x, y), displacement=d, force=stiffness * np.maximum(d - onset, 0.0))


@pytest.fixture(scope="module")
def model():
    return StiffnessProcess.fit([poke(0.0, 200.0), poke(0.05, 300.0), poke(0.1, 500.0), poke(0.15, 480.0)])


def test_it_is_the_posterior_of_its_own_definition(model):
    """By the text's equations, solved densely and without any of the class's own functions."""
    x, d, f = model.x, model.d, model.f
    knots, slopes = model._knots, model._slopes

    def m(depth):
        return sum(a * np.maximum(depth - k, 0.0) for a, k in zip(slopes, knots))

    def h(depth):
        return m(depth) + 0.1 * m(np.array([d.max()]))[0] + 1e-3

    def k(x1, d1, x2, d2):
        space = ((x1[:3] - x2[:3]) ** 2).sum() / model.reach**2 + ((x1[6:] - x2[6:]) ** 2).sum()
        return model.signal**2 * h(d1) * h(d2) * np.exp(-0.5 * (space + ((d1 - d2) / model.depth) ** 2))

    K = np.array([[k(a, b, c, e) for c, e in zip(x, d)] for a, b in zip(x, d)]) + model.noise**2 * np.eye(len(f))
    at, depth = feature(0.07, 0.01), 0.006
    cross = np.array([k(at, depth, c, e) for c, e in zip(x, d)])
    mean = m(depth) + cross @ np.linalg.solve(K, f - m(d))
    variance = k(at, depth, at, depth) - cross @ np.linalg.solve(K, cross)
    found, deviation = model.predict_with_deviation(at[None], np.array([depth]))
    assert found[0] == pytest.approx(mean, abs=1e-6) and deviation[0] == pytest.approx(np.sqrt(variance), abs=1e-6)


def test_its_hyperparameters_are_the_most_probable_of_the_lattice(model):
    size, span = 0.15, float(np.ptp(D))
    all_of_them = [
        StiffnessProcess(model.x, model.d, model.f, reach * size, signal, depth * span, noise)
        for reach, signal, depth, noise in product(REACHES, SIGNALS, DEPTHS, NOISES)
    ]

    def probable(one):
        prior = np.log(one.signal / 0.4) ** 2 / 0.5**2 + np.log(one.reach / size / 0.2) ** 2 / 0.7**2
        # what is left of the readings where nobody knows the level of the curve
        contrasts = null_space(one._scale(one.d)[None])
        covariance = one._covariance(one.x, one.d, one.x, one.d) + one.noise**2 * np.eye(len(one.f))
        left = contrasts.T @ (one.f - one._curve(one.d))
        return multivariate_normal(np.zeros(len(left)), contrasts.T @ covariance @ contrasts).logpdf(left) - 0.5 * prior

    best = max(all_of_them, key=probable)
    assert model.log_likelihood() == pytest.approx(best.log_likelihood(), rel=1e-9)
    assert (model.reach, model.signal, model.depth, model.noise) == (best.reach, best.signal, best.depth, best.noise)
    covariance = model._covariance(model.x, model.d, model.x, model.d) + model.noise**2 * np.eye(len(model.f))
    density = multivariate_normal(model._curve(model.d), covariance).logpdf(model.f)
    assert model.log_likelihood() == pytest.approx(density, rel=1e-9)


def test_pokes_that_nearly_agree_do_not_make_an_object_even():
    """The curve passes between them: what is left of two pokes says little of how much a third may be off."""

    def felt(one, seed):
        noise = 0.05 * np.random.default_rng(seed).standard_normal(len(D))
        return Poke(feature=one.feature, displacement=D, force=one.force + noise)

    for seed in range(5):
        two = StiffnessProcess.fit([felt(poke(0.0, 300.0), seed), felt(poke(0.05, 330.0, 0.0005), seed + 5)])
        assert two.signal == 0.4
    many = StiffnessProcess.fit([felt(poke(0.02 * k, 300.0 + 3.0 * (-1) ** k), k) for k in range(8)])
    assert many.signal == min(SIGNALS)


def test_it_is_sure_where_it_was_poked_and_unsure_far_away(model):
    d = np.full(3, 0.006)
    _, deviation = model.predict_with_deviation(np.stack([feature(0.05), feature(0.05, 0.1), feature(0.05, 9.0)]), d)
    assert deviation[0] < deviation[1] < deviation[2]
    prior = model.signal * (model._curve(d[:1]) + model._least)
    assert deviation[2] == pytest.approx(prior[0], rel=1e-9)


def test_places_differ_by_what_their_pokes_said(model):
    force = model.predict(np.stack([feature(0.0), feature(0.05), feature(0.1)]), np.full(3, 0.009))
    np.testing.assert_allclose(force, [1.8, 2.7, 4.5], rtol=0.06)


def test_an_error_of_the_camera_is_learnt():
    """All pokes touch 3 mm late: at the place where the surface was seen nothing is felt."""
    model = StiffnessProcess.fit([poke(x, 300.0, onset=0.003) for x in (0.0, 0.04, 0.08)])
    at, far = np.stack([feature(0.02)] * 2), feature(0.06)[None]
    assert model.predict(far, np.array([0.0]))[0] < 0.1
    assert model.predict(at, np.array([0.003, 0.009]))[1] == pytest.approx(1.8, abs=0.15)


def test_deeper_than_it_has_learnt_the_force_goes_on_with_its_last_slope(model):
    d = model.deepest + np.array([0.0, 0.005, 0.01])
    force = model.predict(np.stack([feature(0.05)] * 3), d)
    assert force[1] - force[0] == pytest.approx(force[2] - force[1], rel=1e-6) and force[1] > force[0]


def test_forces_do_not_pull(model):
    assert (model.predict(np.stack([feature(0.0)] * 5), np.linspace(-0.02, 0.0, 5)) >= 0.0).all()


def test_many_queries_are_as_each_alone(model):
    rng = np.random.default_rng(1)
    x = np.stack([feature(a, b) for a, b in rng.uniform(-0.05, 0.2, (5000, 2))])
    d = rng.uniform(0.0, 0.01, 5000)
    mean, deviation = model.predict_with_deviation(x, d)
    some = [0, 4095, 4096, 4999]
    alone = [model.predict_with_deviation(x[[k]], d[[k]]) for k in some]
    np.testing.assert_allclose(mean[some], [float(a[0]) for a, _ in alone], atol=1e-12)
    np.testing.assert_allclose(deviation[some], [float(b[0]) for _, b in alone], atol=1e-9)
    assert model.predict(np.zeros((0, 9)), np.zeros(0)).shape == (0,)


def test_what_cannot_be_learnt_from_is_refused():
    with pytest.raises(ValueError, match="poke the object once"):
        StiffnessProcess.fit([])
    with pytest.raises(ValueError, match="finite"):
        StiffnessProcess(feature(0.0)[None], np.zeros(1), np.array([np.nan]), 0.1, 1.0, 0.01, 0.1)
    with pytest.raises(ValueError, match="9 features"):
        StiffnessProcess.fit([poke(0.0, 1.0)]).predict(np.zeros((2, 9)), np.zeros(3))
