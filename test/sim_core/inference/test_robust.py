"""Robust losses: derivative, curvature and scale against differences and closed forms."""

import numpy as np
import pytest

from sim_core.inference.data.robust import LOSSES, robust_loss, robust_scale


@pytest.mark.parametrize("name", LOSSES)
def test_weight_and_curvature_are_the_derivatives_of_rho(name):
    loss, h = robust_loss(name), 1e-5
    r = np.array([-7.0, -2.0, -0.9, -0.01, 0.3, 1.2, 1.9, 30.0])  # clear of Huber's kink at 1.345
    slope = (loss.rho(r + h) - loss.rho(r - h)) / (2 * h)
    bend = (loss.rho(r + h) - 2 * loss.rho(r) + loss.rho(r - h)) / h**2
    np.testing.assert_allclose(loss.weight(r) * r, slope, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(loss.curvature(r), bend, atol=2e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_half_the_square_near_zero(name):
    assert robust_loss(name).rho(np.array([1e-3]))[0] == pytest.approx(5e-7, rel=1e-5)


@pytest.mark.parametrize("name", ["huber", "pseudo_huber", "student_t"])
def test_influence_of_an_outlier_is_bounded(name):
    loss = robust_loss(name)
    assert abs(loss.weight(np.array([1e4]))[0] * 1e4) < 2.0


def test_scale_of_a_normal_sample_is_its_standard_deviation_despite_outliers():
    rng = np.random.default_rng(0)
    r = 0.2 * rng.standard_normal((4000, 2))
    assert robust_scale(r, axis=0) == pytest.approx(0.2, rel=0.05)
    assert robust_scale(r, axis=0, robust=False) == pytest.approx(0.2, rel=0.03)
    r[:400] = 50.0
    assert robust_scale(r, axis=0) == pytest.approx(0.2, rel=0.2)


def test_an_unknown_loss_names_the_known_ones():
    with pytest.raises(ValueError, match="huber.*student_t"):
        robust_loss("cauchi")
