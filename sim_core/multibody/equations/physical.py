"""The entries of the physical vector p by their meaning."""

from __future__ import annotations

import casadi as ca

from sim_core.multibody.equations.operators import constant
from sim_core.multibody.equations.tree import Offset, Tree

__all__ = ["Physical"]


class Physical:
    """A symbolic or numeric physical vector p (np_,) of a model, read by the meaning of its entries."""

    def __init__(self, model: Tree, p: ca.SX) -> None:
        self.model, self.layout, self.p = model, model.parameters, p

    def inertia(self, body: str) -> ca.SX:
        """Ten inertial parameters of a body in its own frame."""
        return self.p[self.layout.inertia_slice(body)]

    def joint(self, field: str) -> ca.SX:
        """One value per velocity, (nv,), zero where the joint has no such parameter.

        What resists a follower resists what it follows: ratio^2 times damping or inertia, |ratio| times friction.
        """
        values = [
            self.scalar(f"{link.joint}.{field}")
            for link in self.model.links
            if not link.follows
            for _ in range(link.nv)
        ]
        for link in self.model.links:
            if link.follows:
                share = abs(link.ratio) if field == "frictionloss" else link.ratio**2
                values[link.v_index] += share * self.scalar(f"{link.joint}.{field}")
        return ca.vertcat(*values)

    @property
    def damping(self) -> ca.SX:
        """Viscous damping, (nv,) [N m s/rad or N s/m]."""
        return self.joint("damping")

    @property
    def armature(self) -> ca.SX:
        """Reflected inertia of the drives, (nv,) [kg m^2 or kg]."""
        return self.joint("armature")

    @property
    def frictionloss(self) -> ca.SX:
        """Coulomb friction, (nv,) [N m or N]."""
        return self.joint("frictionloss")

    @property
    def stiffness(self) -> ca.SX:
        """Stiffness of the joint springs, (nv,) [N m/rad or N/m]."""
        return self.joint("stiffness")

    @property
    def gravity(self) -> ca.SX:
        """Gravity in the world, (3,) [m/s^2]."""
        return self.p[self.layout.vector_slice("gravity")]

    @property
    def density(self) -> ca.SX:
        """Density of the medium [kg/m^3]; zero in vacuum."""
        return self.scalar("fluid.density")

    @property
    def viscosity(self) -> ca.SX:
        """Viscosity of the medium [Pa s]; zero in vacuum."""
        return self.scalar("fluid.viscosity")

    def scalar(self, name: str) -> ca.SX:
        """An entry of p, zero where the model has none of that name."""
        return ca.SX(self.p[self.layout.index(name)]) if name in self.layout else ca.SX(0)

    def gear(self, actuator: str) -> ca.SX:
        """Transmission ratio of an actuator."""
        return self.p[self.layout.index(f"{actuator}.gear")]

    def offset(self, offset: Offset) -> ca.SX:
        """Value of an Offset: constant + sum of R p[name]."""
        value = constant(offset.constant)
        for A, name in offset.terms:
            value = value + constant(A) @ self.p[self.layout.vector_slice(name)]
        return value
