"""The same law for spheres and a floor, written down a second time: in float64, every pair of every step, no lists."""

import numpy as np


class ReferenceSpheres:
    """Spheres of one material over a floor of another at z = 0; the laws are `sim_core.granular.law.Law`s."""

    def __init__(self, position, radius, mass, law, floor, step, gravity=9.81):
        self.x, self.r, self.m = np.array(position, float), np.asarray(radius, float), np.asarray(mass, float)
        self.v, self.w = np.zeros_like(self.x), np.zeros_like(self.x)
        self.law, self.floor, self.dt, self.gravity = law, floor, step, np.array([0.0, 0.0, -gravity])
        self.shear, self.turn = {}, {}

    def _pair(self, key, law, radius, mass, normal, gap, slip, spin):
        """Force and moment on the second of a pair."""
        if gap >= (law.reach * radius if law.adhesion else 0.0):
            self.shear.pop(key, None)
            self.turn.pop(key, None)
            return np.zeros(3), np.zeros(3)
        k = law.stiffness * radius
        c = law.damping * np.sqrt(k * mass)
        parting = slip @ normal
        push = max(0.0, -k * gap - c * parting) if gap < 0.0 else 0.0
        pull = law.adhesion * radius * (1.0 - gap / (law.reach * radius) if gap > 0.0 else 1.0)
        along = slip - parting * normal
        xi = self.shear.get(key, np.zeros(3))
        xi = xi - (xi @ normal) * normal + along * self.dt
        kt, ct = law.shear * k, law.damping * np.sqrt(law.shear * k * mass)
        t = -kt * xi - ct * along
        if (size := np.linalg.norm(t)) > law.friction * push:
            t *= law.friction * push / size
            xi = -(t + ct * along) / kt
        self.shear[key] = xi
        moment = np.zeros(3)
        if law.rolling:
            kr = 2.25 * law.rolling**2 * radius**2 * k
            phi = self.turn.get(key, np.zeros(3)) + spin * self.dt
            moment = -kr * phi
            if (size := np.linalg.norm(moment)) > law.rolling * radius * push:
                moment *= law.rolling * radius * push / size
                phi = -moment / kr
            else:
                moment = moment - 0.6 * radius * np.sqrt(kr * mass) * spin
            self.turn[key] = phi
        return (push - pull) * normal + t, moment

    def run(self, steps):
        n = len(self.m)
        for _ in range(steps):
            force, torque = self.m[:, None] * self.gravity, np.zeros((n, 3))
            for i in range(n):
                for j in range(i + 1, n):
                    d = self.x[j] - self.x[i]
                    distance = np.linalg.norm(d)
                    normal, gap = d / distance, distance - self.r[i] - self.r[j]
                    at = self.x[i] + normal * (self.r[i] + 0.5 * gap)
                    slip = self.v[j] + np.cross(self.w[j], at - self.x[j])
                    slip = slip - self.v[i] - np.cross(self.w[i], at - self.x[i])
                    radius, mass = self.r[i] * self.r[j] / (self.r[i] + self.r[j]), 1 / (1 / self.m[i] + 1 / self.m[j])
                    f, m = self._pair((i, j), self.law, radius, mass, normal, gap, slip, self.w[j] - self.w[i])
                    force[j] += f
                    force[i] -= f
                    torque[j] += np.cross(at - self.x[j], f) + m
                    torque[i] -= np.cross(at - self.x[i], f) + m
                normal, gap = np.array([0.0, 0.0, -1.0]), self.x[i, 2] - self.r[i]
                at = self.x[i] + normal * (self.r[i] + 0.5 * gap)
                slip = -self.v[i] - np.cross(self.w[i], at - self.x[i])
                f, m = self._pair((i, "floor"), self.floor, self.r[i], self.m[i], normal, gap, slip, -self.w[i])
                force[i] -= f
                torque[i] -= np.cross(at - self.x[i], f) + m
            self.v += self.dt * force / self.m[:, None]
            self.x += self.dt * self.v
            self.w += self.dt * torque / (0.4 * self.m * self.r**2)[:, None]
