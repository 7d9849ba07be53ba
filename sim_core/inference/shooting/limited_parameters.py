"""Free physical quantities in natural units between limits: what probabilistic inference has for parameters.

    LimitedParameters(model, {"box.mass": (0.5, 1.5), "box.com.z": (0.1, 0.4), "joint8.damping": (0.0, 0.15)})
    LimitedParameters(model, {"length1": (0.5, 5.0)}, ties={"length1": {"link1.com.z": -1.0, "link2.pos.z": -1.0}})

`FreeParameters` offers coordinates in which everything is physical; here every coordinate is a quantity with the limits a
person would write down, and its density is uniform between them.
"""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca
import numpy as np

from sim_core.codegen import compile_library
from sim_core.inference.data.density import Box
from sim_core.multibody.equations import inertia
from sim_core.multibody.model.model import RobotModel

__all__ = ["LimitedParameters"]

# Position of a natural quantity in (m, c, I about the COM).
COM = {f"com.{axis}": k for k, axis in enumerate("xyz")}
I_COM = {f"I_com.{ij}": ("xyz".index(ij[0]), "xyz".index(ij[1])) for ij in ("xx", "yy", "zz", "xy", "xz", "yz")}
# About the body frame's origin: entries 4 to 9 of the ten inertial parameters.
I_ORIGIN = {f"I.{ij}": 4 + k for k, ij in enumerate(("xx", "yy", "zz", "xy", "xz", "yz"))}
BODY_FIELDS = ("mass", *COM, *I_COM, *I_ORIGIN)

Place = tuple[str, str] | int  # (body, field) of a natural quantity, the position in p of any other


class LimitedParameters(Box):
    """Quantities theta with limits, and the physical vector p(theta) they stand for.

    A quantity is named "<body>.mass", ".com.x .y .z" [m, body frame] or ".I_com.xx .yy .zz .xy .xz .yz" [kg m^2, about
    the COM, body axes], or ".I.xx ..." [about the body frame's origin, whatever the COM]; a body's other quantities keep the
    model's values (its inertia about the COM when the COM moves).
    Else it is an entry of the physical vector: "<joint>.damping", ".frictionloss" (".friction" for short), ".armature",
    ".stiffness", "<body>.pos.x" (with geometry), "gravity.z", "<actuator>.gear".

    Attributes:
        names, lower, upper, n: see `Box`. units: of theta.
    """

    def __init__(
        self,
        model: RobotModel,
        limits: Mapping[str, tuple[float, float]],
        ties: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """
        Args:
            model: RobotModel.
            limits: name -> (lower, upper), SI.
            ties: name -> {quantity: factor}: this name is no quantity itself; each of its quantities is factor * theta.

        Raises:
            KeyError: the model has no such quantity.
            ValueError: limits that are no interval; a quantity that two names move.
        """
        if not limits:
            raise ValueError('no free parameters: give at least one, such as {"hand.mass": (0.5, 1.5)}')
        super().__init__(limits, *np.array([limits[name] for name in limits], dtype=float).T)
        self.model = model
        ties = dict(ties or {})
        if unused := set(ties) - set(limits):
            raise KeyError(f"ties names {', '.join(sorted(unused))}, which have no limits; add them to the limits")
        self._moves = {name: dict(ties.get(name, {name: 1.0})) for name in self.names}
        self._build()

    def _build(self) -> None:
        layout = self.model.parameters
        theta = ca.SX.sym("theta", self.n)
        p = ca.SX(layout.nominal)
        bodies: dict[str, dict[str, ca.SX]] = {}
        taken: dict[Place, str] = {}
        self.units: tuple[str, ...] = ()
        for i, (name, quantities) in enumerate(self._moves.items()):
            for quantity, factor in quantities.items():
                place = self._place(quantity)
                if place in taken:
                    raise ValueError(f"{quantity} is moved by both {taken[place]} and {name}; keep one")
                taken[place] = name
                if isinstance(place, int):
                    p[place] = factor * theta[i]
                else:
                    body, field = place
                    bodies.setdefault(body, {})[field] = factor * theta[i]
            self.units += (self._unit(self._place(next(iter(quantities)))),)
        for body, fields in bodies.items():
            where = layout.inertia_slice(body)
            if entries := [layout.names[i] for i in taken if isinstance(i, int) and where.start <= i < where.stop]:
                raise ValueError(
                    f"{entries[0]} and {body}.{next(iter(fields))} both describe {body}; give mass, COM and inertia only"
                )
            p[where] = self._ten(body, fields)
        pbar = ca.SX.sym("pbar", self.model.np_)
        self._p = ca.Function("to_physical", [theta], [ca.densify(p)])
        self._library = compile_library(
            "refit_limited",
            {
                "to_physical": self._p,
                "pullback": ca.Function("pullback", [theta, pbar], [ca.densify(ca.jtimes(p, theta, pbar, True))]),
            },
        )

    def _place(self, quantity: str) -> Place:
        layout = self.model.parameters
        owner, _, field = quantity.partition(".")
        if field in BODY_FIELDS and f"{owner}.mass" in layout:
            return owner, field
        if field == "friction":
            quantity = f"{owner}.frictionloss"
        return layout.index(quantity)

    def _unit(self, place: Place) -> str:
        if isinstance(place, int):
            return self.model.parameters.units[place]
        field = place[1]
        return "kg" if field == "mass" else "m" if field in COM else "kg m^2"

    def _ten(self, body: str, fields: Mapping[str, ca.SX]) -> ca.SX:
        """Ten inertial parameters of a body some of whose natural quantities are replaced."""
        nominal = self.model.parameters.nominal[self.model.parameters.inertia_slice(body)]
        mass, com, about_com = inertia.com_inertia(nominal)
        m, c, I_c = ca.SX(fields.get("mass", mass)), ca.SX(com), ca.SX(about_com)
        for field, value in fields.items():
            if field in COM:
                c[COM[field]] = value
            elif field in I_COM:
                i, j = I_COM[field]
                I_c[i, j] = I_c[j, i] = value
        ten = inertia.from_com(m, c, I_c)
        for field, k in I_ORIGIN.items():
            ten[k] = fields.get(field, ten[k])
        return ten

    def to_physical(self, xi: np.ndarray) -> np.ndarray:
        """Physical vectors (..., np_) of theta (..., n)."""
        return self._library.call("to_physical", self.checked(xi))[0]

    def expression(self, theta: ca.SX) -> ca.SX:
        """p as SX of symbolic theta (n,), for graphs that contain the parameters' map."""
        return self._p(theta)

    def pullback(self, xi: np.ndarray, pbar: np.ndarray) -> np.ndarray:
        """dL/dtheta (..., n) at theta (..., n) from dL/dp (..., np_)."""
        return self._library.call("pullback", self.checked(xi), pbar)[0]

    def from_physical(self, p: np.ndarray) -> np.ndarray:
        """theta (n,) of a physical vector (np_,); least squares where a name moves several quantities."""
        p = np.asarray(p, dtype=float)
        if p.shape != (self.model.np_,):
            raise ValueError(f"expected a physical vector of shape ({self.model.np_},), found {p.shape}")
        return np.array(
            [
                sum(f * self._value(p, q) for q, f in quantities.items()) / sum(f * f for f in quantities.values())
                for quantities in self._moves.values()
            ]
        )

    def _value(self, p: np.ndarray, quantity: str) -> float:
        place = self._place(quantity)
        if isinstance(place, int):
            return p[place]
        body, field = place
        ten = p[self.model.parameters.inertia_slice(body)]
        if field in I_ORIGIN:
            return ten[I_ORIGIN[field]]
        m, c, I_c = inertia.com_inertia(ten)
        return m if field == "mass" else c[COM[field]] if field in COM else I_c[I_COM[field]]

    def __repr__(self) -> str:
        return f"LimitedParameters({self.model.name}: {', '.join(self.names)})"
