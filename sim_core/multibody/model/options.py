"""What the engine adds to, or leaves out of, a model file's equations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sim_core.multibody.contact.parameters import ContactLaw

__all__ = ["ModelOptions"]


@dataclass(frozen=True)
class ModelOptions:
    """Choices that change the equations and the layout of the physical vector.

    A joint whose friction is off, or a body whose position is fixed, has no entry in the physical vector: an
    entry without influence would be a silent trap for whoever tries to estimate it, and a symbolic constant
    costs instructions in every compiled step.

    Attributes:
        inertia: "written": as the file has them, even where no rigid body has such; "repaired": there the nearest that one has.
        floating_base: of a file whose root link is fixed to the world: it is free instead.
        friction: joints with Coulomb friction. "auto": those whose model file has frictionloss > 0; True or False: all
            or none; or a tuple of joint names.
        friction_law: "constraint", MuJoCo's own (friction.py): sticks and slides as the plant does, differentiable
            wherever no joint is just changing from one to the other. "smooth": -frictionloss * tanh(qd /
            friction_velocity), differentiable everywhere and without stiction (docs/gradients.md).
        friction_velocity: v_eps of the smooth law [rad/s or m/s]; it creeps at rest by about v_eps * tau / frictionloss.
        joint_limits: include a one-sided spring-damper at joint limits (forces.py). Off by default: a controller
            keeps its distance from the limits, and MuJoCo's limits are constraints with other laws.
        limit_stiffness: [N m/rad or N/m].  limit_damping: [N m s/rad or N s/m].
        limit_width: softness of the onset [rad or m].
        geometry: bodies and sites whose position in their parent is part of the physical vector. "auto": those
            the model file names in <custom><text name="refit_geometry" data="body site ..."/></custom>; True: all
            moving ones; False: none; or a tuple of names.
        fluid: the medium's drag (fluid.py). "auto": density and viscosity where the model file has them; True: both, from
            zero if need be; False: vacuum, whatever the plant is in.
        contact: "none"; "force": springs, dampers and friction at every contact point; "impulse": non-penetration and
            Coulomb friction as a complementarity problem in every step (docs/contact.md).
        contact_pairs: "auto": all pairs of geoms that the plant would test; or a tuple of pairs of name patterns such as
            (("floor", "foot*"), ("tip", "box")), which act alone. What one pair of patterns catches shares parameters.
        impact_time: of contact="impulse". "step": what penetrates when a step begins has touched. "continuous": what would by
            its end touches within it, at a time that depends on the state, so that gradients through impacts are right
            (docs/contact.md).
    """

    friction: Literal["auto"] | bool | tuple[str, ...] = "auto"
    friction_law: Literal["constraint", "smooth"] = "constraint"
    friction_velocity: float = 0.01
    joint_limits: bool = False
    limit_stiffness: float = 1.0e4
    limit_damping: float = 1.0e2
    limit_width: float = 0.01
    geometry: Literal["auto"] | bool | tuple[str, ...] = "auto"
    fluid: Literal["auto"] | bool = "auto"
    contact: ContactLaw = "none"
    contact_pairs: Literal["auto"] | tuple[tuple[str, str], ...] = "auto"
    impact_time: Literal["step", "continuous"] = "step"
    inertia: Literal["written", "repaired"] = "written"
    floating_base: bool = False

    def __post_init__(self) -> None:
        for name in ("friction_velocity", "limit_width"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, found {getattr(self, name)}.")
        for name in ("limit_stiffness", "limit_damping"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must not be negative, found {getattr(self, name)}.")
        if self.friction_law not in ("constraint", "smooth"):
            raise ValueError(f'friction_law must be "constraint" or "smooth", found "{self.friction_law}".')
        for name in ("friction", "geometry"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "auto":
                raise ValueError(f'{name} must be "auto", True, False or a tuple of names, found "{value}".')
            if not isinstance(value, (str, bool)):
                object.__setattr__(self, name, tuple(value))
        if self.inertia not in ("written", "repaired"):
            raise ValueError(f'inertia must be "written" or "repaired", found "{self.inertia}".')
        if self.fluid not in ("auto", True, False):
            raise ValueError(f'fluid must be "auto", True or False, found "{self.fluid}".')
        if self.contact not in ("none", "force", "impulse"):
            raise ValueError(f'contact must be "none", "force" or "impulse", found "{self.contact}".')
        if self.impact_time not in ("step", "continuous"):
            raise ValueError(f'impact_time must be "step" or "continuous", found "{self.impact_time}".')
        if self.impact_time == "continuous" and self.contact != "impulse":
            raise ValueError(f'impact_time="continuous" is of contact="impulse", found contact="{self.contact}".')
        if self.contact_pairs != "auto":
            object.__setattr__(self, "contact_pairs", _pattern_pairs(self.contact_pairs))


def _pattern_pairs(pairs: str | Iterable[Iterable[str]]) -> tuple[tuple[str, str], ...]:
    """Tuple of pairs of strings; ValueError where it is not."""
    found = () if isinstance(pairs, str) else tuple(tuple(pair) for pair in pairs)
    if not found or any(len(pair) != 2 or not all(isinstance(x, str) for x in pair) for pair in found):
        raise ValueError(
            'contact_pairs must be "auto" or a tuple of pairs of geom name patterns such as (("floor", "foot*"),).'
        )
    return tuple((first, second) for first, second in found)
