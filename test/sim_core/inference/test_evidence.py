"""The evidence for freeing coordinates against Bayes' rule in closed form: a linear model with normal noise and priors."""

from dataclasses import replace

import numpy as np
import pytest
from test_considered import FITTED, bayes, equations, problem

from sim_core.inference.fit.evidence import price, promise

HELD = np.array([2, 3, 4, 5])


@pytest.mark.parametrize("held", [(0.0, 0.0, 0.0, 0.0), (0.6, -0.4, 0.3, 0.0), (0.8, -0.9, 0.7, 1.5)])
def test_a_linear_model_promises_what_bayes_rule_says(held):
    J, y, std, segment = problem(0, np.array([1.0, -2.0, *held]))
    normal, _ = equations(J, y, std, segment)
    expected = bayes(J, y, std, np.arange(6))[0] - bayes(J, y, std, FITTED)[0]
    assert promise(normal, FITTED, HELD, std) == pytest.approx(expected, abs=1e-9)
    # Where the fit was cut short as well: what its own coordinates would have saved does not count.
    short = replace(normal, gradient=normal.gradient + normal.hessian[:, FITTED] @ [0.3, -0.2])
    assert promise(short, FITTED, HELD, std) == pytest.approx(expected, abs=1e-9)


def test_what_a_fit_of_both_saves_less_its_price_is_the_same():
    J, y, std, segment = problem(1, np.array([1.0, -2.0, 0.6, -0.4, 0.3, 0.0]))
    normal, a = equations(J, y, std, segment)
    _, both, _ = bayes(J, y, std, np.arange(6))
    cost = lambda theta: 0.5 * np.sum((J @ theta - y) ** 2) + 0.5 * np.sum((theta / std) ** 2)
    saved = cost(np.concatenate([a, np.zeros(4)])) - cost(both)
    assert saved - price(normal, FITTED, HELD, std) == pytest.approx(promise(normal, FITTED, HELD, std), abs=1e-9)


def test_freedom_without_reason_has_a_price():
    J, y, std, segment = problem(2, np.array([1.0, -2.0, 0.0, 0.0, 0.0, 0.0]), segments=10)
    normal, _ = equations(J, y, std, segment)
    assert promise(normal, FITTED, HELD, std) < 0.0 < price(normal, FITTED, HELD, std)
    assert price(normal, FITTED, np.array([], int), std) == 0.0


def test_data_that_are_repeated_four_times_say_as_much_as_once_where_they_are_tempered():
    J, y, _, segment = problem(1, np.array([1.0, -2.0, 0.6, -0.4, 0.3, 0.0]))
    std = np.array([1e5, 1e5, 1.0, 1.0, 1.0, 1.0])
    once, _ = equations(J, y, std, segment)
    four, _ = equations(np.repeat(J, 4, 0), np.repeat(y, 4), std, np.repeat(segment, 4))
    assert promise(four, FITTED, HELD, std, 0.25) == pytest.approx(promise(once, FITTED, HELD, std), rel=1e-6)
    assert price(four, FITTED, HELD, std, 0.25) == pytest.approx(price(once, FITTED, HELD, std), rel=1e-6)
