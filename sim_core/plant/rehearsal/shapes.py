"""MJCF text of what tasks are made of."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["body", "box", "cylinder", "document", "numbers"]

#: of what a hand shall hold
GRIP = 'friction="1 0.02 0.0005" condim="4" solref="0.005 1"'


def numbers(values: Sequence[float]) -> str:
    """As an attribute has them."""
    return " ".join(f"{value:.6g}" for value in values)


def box(half: Sequence[float], at: Sequence[float] = (0, 0, 0), colour: str = "0.7 0.7 0.7 1", more: str = "") -> str:
    """Half edges (3,) and place (3,) [m]."""
    return f'<geom type="box" size="{numbers(half)}" pos="{numbers(at)}" rgba="{colour}" {more}/>'


def cylinder(
    radius: float,
    half: float,
    at: Sequence[float] = (0, 0, 0),
    colour: str = "0.7 0.7 0.7 1",
    more: str = "",
    axis: Sequence[float] = (0, 0, 1),
) -> str:
    """Radius, half length [m], place (3,) [m] and direction (3,)."""
    return (
        f'<geom type="cylinder" size="{numbers((radius, half))}" pos="{numbers(at)}" zaxis="{numbers(axis)}" '
        f'rgba="{colour}" {more}/>'
    )


def body(name: str, at: Sequence[float], *inside: str) -> str:
    """A body with what it holds."""
    return f'<body name="{name}" pos="{numbers(at)}">{"".join(inside)}</body>'


def document(*inside: str) -> str:
    """A document of bodies and geoms."""
    return f"<mujoco><compiler angle='radian'/><worldbody>{''.join(inside)}</worldbody></mujoco>"
