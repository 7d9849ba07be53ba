"""Reads the physical vector p by meaning."""

import casadi as ca

__all__ = ["Physical"]


class Physical:
    """View of a symbolic or numeric physical vector p (np_,) of a model."""

    def __init__(self, model, p):
        self.model, self.layout, self.p = model, model.parameters, p

    def inertia(self, body):
        """Ten inertial parameters of a body in its own frame."""
        return self.p[self.layout.inertia_slice(body)]

    def joint(self, field):
        """One value per velocity, (nv,), zero where the joint has no such parameter."""
        names = [f"{link.joint}.{field}" for link in self.model.links for _ in range(link.nv)]
        return ca.vertcat(*(self.scalar(name) for name in names))

    damping = property(lambda self: self.joint("damping"))
    armature = property(lambda self: self.joint("armature"))
    frictionloss = property(lambda self: self.joint("frictionloss"))
    stiffness = property(lambda self: self.joint("stiffness"))
    gravity = property(lambda self: self.p[self.layout.vector_slice("gravity")])
    density = property(lambda self: self.scalar("fluid.density"))
    viscosity = property(lambda self: self.scalar("fluid.viscosity"))

    def scalar(self, name):
        """An entry of p, zero where the model has none of that name."""
        return ca.SX(self.p[self.layout.index(name)]) if name in self.layout else ca.SX(0)

    def gear(self, actuator):
        return self.p[self.layout.index(f"{actuator}.gear")]

    def offset(self, offset):
        """Value of an Offset: constant + sum of R p[name]."""
        value = ca.SX(offset.constant)
        for A, name in offset.terms:
            value = value + ca.SX(A) @ self.p[self.layout.vector_slice(name)]
        return value
