"""Free parameters of the one- and two-pole cart-poles as published, and what of them can be known.

The published vector has nine or fourteen entries: cart mass, cart COM (3), and per pole length, mass, COM (3). Its
poles are point masses at their COM. Of the fourteen, six have no influence on the planar motion and only eight
combinations of the rest do: the base parameters. Grade those, or predictions, never masses and COMs one by one.

Source: Heiden, PhD thesis, University of Southern California (2022), section 2.2.5 and figure 2.32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.model.parameter_blocks import Block, BodyInertia, LinkLength
from sim_core.multibody.model.parameters import FreeParameters

__all__ = ["base_parameters", "cartpole_spec", "point_mass_equivalent"]


def _poles(model: RobotModel) -> list[str]:
    """Pole bodies from the cart outwards, their tip sites, and the body that each carries."""
    poles = [body for body in model.body_names if body.startswith("pole")]
    if "cart" not in model.body_names or len(poles) not in (1, 2) or len(poles) != model.nq - 1:
        raise ValueError(
            f"Expected a model with bodies 'cart' and 'pole' or 'pole1', 'pole2', found {', '.join(model.body_names)}. "
            'Load "cartpole" or "double_cartpole".'
        )
    return poles


def cartpole_spec(model: RobotModel, start: float = 2.0, scale: str = "log", prior_std: float = 30.0) -> FreeParameters:
    """FreeParameters with the 9 or 14 published parameters, all starting at `start`.

    Args:
        model: load_model("cartpole") or load_model("double_cartpole").
        start: initial value of every mass [kg], length and COM coordinate [m]; published: 2.
        scale: "log" for logarithms of masses and lengths (robust), "raw" for the published recipe's plain values.
        prior_std: of every coordinate [-, kg or m]; wide, because `start` is known to be wrong.
    """
    poles = _poles(model)
    com = (start,) * 3
    # For raw scales BodyInertia takes a relative std.
    mass_std = prior_std if scale == "log" else prior_std / start
    mass: dict[str, float | Sequence[float]] = {"mass": start, "com": com}

    def body(name: str) -> BodyInertia:
        return BodyInertia(
            name,
            kind="point_mass",
            start=mass,
            scale=scale,
            com_range=20.0,
            max_mass=1e3,
            prior_std={"mass": mass_std, "com": prior_std},
        )

    blocks: list[Block] = [body("cart")]
    for k, pole in enumerate(poles):
        moved = (f"{pole}_tip.pos.z",) + ((f"{poles[k + 1]}.pos.z",) if k + 1 < len(poles) else ())
        blocks += [LinkLength(pole, moved, start=start, scale=scale, prior_std=prior_std), body(pole)]
    return FreeParameters(model, blocks)


def base_parameters(model: RobotModel, p: ArrayLike) -> dict[str, float]:
    """The combinations of p that the motion depends on: {name: value}, SI.

    With masses m_k, first moments m_k c_k and inertias I_yy,k about the hinge (physical vector):
        M_t = sum of masses, h1 = m_1 c_1 + m_2 l_1 z, h2 = m_2 c_2 (x and z each),
        J_1 = I_yy,1 + m_2 l_1^2, J_2 = I_yy,2, l_1;  for one pole M_t, h1, J_1.
    """
    poles, layout = _poles(model), model.parameters
    p = np.asarray(p, dtype=float)
    m, hx, _, hz, _, Iyy = np.array([p[layout.inertia_slice(body)][:6] for body in ["cart"] + poles]).T
    length = p[layout.index(f"{poles[1]}.pos.z")] if len(poles) == 2 else 0.0
    outer = m[2] if len(poles) == 2 else 0.0
    base = {"M_t": m.sum(), "h1.x": hx[1], "h1.z": hz[1] + outer * length}
    if len(poles) == 2:
        base |= {"h2.x": hx[2], "h2.z": hz[2]}
    base["J_1"] = Iyy[1] + outer * length**2
    if len(poles) == 2:
        base |= {"J_2": Iyy[2], "l_1": length}
    return base


def point_mass_equivalent(model: RobotModel, p: ArrayLike) -> np.ndarray:
    """Physical vector with point-mass poles that moves exactly like p: same base parameters.

    J = m c^2 and h = m c give c = J / h, m = h^2 / J, from the outer pole inwards. COM offsets in x turn with it.
    """
    poles, layout = _poles(model), model.parameters
    base, q = base_parameters(model, p), np.array(p, dtype=float)

    def set_point(body: str, m: float, x: float, z: float) -> None:
        q[layout.inertia_slice(body)] = [
            m,
            m * x,
            0,
            m * z,
            m * z * z,
            m * (x * x + z * z),
            m * x * x,
            0,
            -m * x * z,
            0,
        ]

    outer = 0.0
    for k in range(len(poles), 0, -1):
        length = base["l_1"] if k == 1 and len(poles) == 2 else 0.0
        hx, hz = base[f"h{k}.x"], base[f"h{k}.z"] - outer * length
        J = base[f"J_{k}"] - outer * length**2
        m = (hx * hx + hz * hz) / J
        set_point(poles[k - 1], m, hx / m, hz / m)
        outer += m
    set_point("cart", base["M_t"] - outer, 0.0, 0.0)
    return q
