"""Operators between SX build what CasADi's own build, for every pair of shapes and types, and refuse what they refuse."""

import operator

import casadi as ca
import numpy as np
import pytest

from sim_core.multibody.equations.operators import constant, hasten, scalars

OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv)
NAMES = {operator.add: "plus", operator.sub: "minus", operator.mul: "times", operator.truediv: "rdivide"}
COLUMN, MATRIX = ca.SX.sym("a", 3), ca.SX.sym("A", 3, 3)
SPARSE = ca.SX(ca.Sparsity.diag(3), ca.SX.sym("d", 3))
OPERANDS = [COLUMN, MATRIX, SPARSE, ca.SX.sym("s"), ca.SX(0), ca.SX(1), ca.SX.zeros(3), ca.SX(3, 3), ca.SX.eye(3)]
NUMBERS = [2, 0, 1, 2.5, 0.0, True, np.float64(1.5), np.arange(3.0), np.eye(3), ca.DM([1, 0, 2]), [1.0, 2.0, 3.0]]


def outcome(compute):
    try:
        return compute()
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return type(error)


@pytest.mark.parametrize("operation", OPERATORS)
def test_they_build_what_casadi_builds(operation):
    hasten()  # a second time changes nothing
    own = getattr(ca, NAMES[operation])  # the functions, which have no part in it
    pairs = [(x, y) for x in OPERANDS for y in (*OPERANDS, *NUMBERS)] + [(y, x) for x in OPERANDS for y in NUMBERS]
    compared = 0
    for x, y in pairs:
        if operation is operator.truediv and isinstance(y, (int, float)) and y == 0:
            continue
        found, expected = outcome(lambda x=x, y=y: operation(x, y)), outcome(lambda x=x, y=y: own(x, y))
        if isinstance(expected, type):
            assert isinstance(found, type), (x, y)
            continue
        assert type(found) is type(expected) and found.sparsity() == expected.sparsity()
        assert str(found) == str(expected)
        compared += 1
    assert compared > 150


def test_other_types_keep_their_operators():
    assert isinstance(ca.MX.sym("m", 3) + 1.0, ca.MX) and isinstance(ca.DM([1.0]) + 1.0, ca.DM)


def test_a_constant_is_as_good_as_new():
    first = constant(np.eye(3))
    first[0, 0] = 7.0
    assert float(constant(np.eye(3))[0, 0]) == 1.0
    assert constant(np.ones(3)).shape == (3, 1) and constant(np.ones((1, 3))).shape == (1, 3)
    assert scalars(first) is first and isinstance(scalars(2.0), ca.SX)
