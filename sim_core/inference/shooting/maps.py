"""What lies between theta and the data, with its derivatives: physical parameters p(theta), observations h(x, p(theta)).

One form for parameters and observation maps that are CasADi graphs, one for those that are plain array functions.
"""

from __future__ import annotations

from typing import Any, Protocol

import casadi as ca
import numpy as np

from sim_core.codegen import compile_library
from sim_core.inference.shooting.observation import observed
from sim_core.system import Observation, System

__all__ = ["ArrayMaps", "GraphMaps", "Maps", "ParameterMap"]


class ParameterMap(Protocol):
    """p(theta) with its reverse derivative: LimitedParameters, ParameterBox.

    Attributes:
        names: of theta.
    """

    names: tuple[str, ...]

    def to_physical(self, theta: np.ndarray) -> np.ndarray:
        """p (..., np_) of theta (..., n)."""
        ...

    def pullback(self, theta: np.ndarray, pbar: np.ndarray) -> np.ndarray:
        """dL/dtheta (..., n) from dL/dp (..., np_)."""
        ...


class Maps(Protocol):
    """Both maps with Jacobians.

    Attributes:
        plain: the states themselves are observed.
    """

    plain: bool

    def physical(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """p (N, np_) and dp/dtheta (N, np_, M) of theta (N, M)."""
        ...

    def observation(self, X: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """y (N, ..., ny), dy/dx (N, ..., ny, nx), dy/dtheta (N, ..., ny, M) of states X (N, ..., nx), theta (N, M)."""
        ...


class GraphMaps:
    """Of parameters with an `expression` and an observation map that is a CasADi function, compiled."""

    def __init__(self, parameters: Any, observe: ca.Function | None, nx: int, np_: int) -> None:
        self.plain, self._n = observe is None, parameters.n
        theta, x = ca.SX.sym("theta", self._n), ca.SX.sym("x", nx)
        p = parameters.expression(theta)
        functions = {"map": _function("map", [theta], [p, ca.jacobian(p, theta)])}
        if not self.plain:
            y = observed(observe, x, p, np_)
            functions["observation"] = _function(
                "observation", [x, theta], [y, ca.jacobian(y, x), ca.jacobian(y, theta)]
            )
        self._library = compile_library("refit_curvature", functions)

    def physical(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, D = self._library.call("map", theta)
        return p, D.reshape(*p.shape, self._n)  # of one parameter the library makes a vector

    def observation(self, X: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        theta = np.broadcast_to(theta.reshape(-1, *(1,) * (X.ndim - 2), self._n), (*X.shape[:-1], self._n))
        y, hx, ht = self._library.call("observation", X, theta)
        return y, hx, ht.reshape(*hx.shape[:-1], self._n)


class ArrayMaps:
    """Of parameters with a `pullback` and an Observation, for a System whose step is no graph."""

    def __init__(self, system: System, parameters: ParameterMap, observe: Observation | None) -> None:
        self.plain, self._system, self._parameters = observe is None, system, parameters
        self._observe: Any = observe

    def physical(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = np.broadcast_to(np.eye(self._system.np_), (len(theta), self._system.np_, self._system.np_))
        each = np.broadcast_to(theta[:, None], (*rows.shape[:2], theta.shape[1]))
        return self._parameters.to_physical(theta), self._parameters.pullback(each, rows)

    def observation(self, X: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        p, D = self.physical(theta)
        each = (len(p), *(1,) * (X.ndim - 2))
        p = np.broadcast_to(p.reshape(*each, -1), (*X.shape[:-1], p.shape[1]))
        hx, hp = self._observe.jacobian(X, p)
        return self._observe(X, p), hx, hp @ D.reshape(*each, *D.shape[1:])


def _function(name: str, inputs: list, outputs: list) -> ca.Function:
    return ca.Function(name, inputs, [ca.densify(y) for y in outputs])
