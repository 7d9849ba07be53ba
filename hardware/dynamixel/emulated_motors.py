"""The motors of one bus, all at once: loops, electrics, mechanics, heat. One `step` per millisecond.

Every array has one entry per servo. Angles are those of the horn in servo coordinates: counter-clockwise,
zero at encoder count 0. Each operating mode is the same formula with other numbers in it:

    u = u_goal + k_p (q_ref - q) + k_d (v_ref - v_meas) + z + r_i i_goal + r_v v      duty, clipped to +-u_max
    i = (V u - k_e v) / R                                                            clipped to +-i_max
    tau = k_t i

z integrates k_ip (q_ref - q) + k_iv (v_ref - v_meas). In current mode r_i = R/V and r_v = k_e/V, which is an
ideal current loop within what the supply can do. With the torque off i_max is 0: the windings are open.

Assumptions, as the maker publishes none of it: the derivative acts on the filtered velocity; the velocity is
measured through a first-order low-pass of 5 ms; the feed-forward gains (88, 90) have no effect.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Motors", "TICK", "VELOCITY_FILTER"]

TICK = 1e-3  # [s]
VELOCITY_FILTER = 5e-3  # [s] time constant of the measured velocity
AMBIENT = 25.0  # [deg C]
NO_LIMIT = 1e9  # [rad/s, rad/s2] a profile that steps


class Motors:
    """State and parameters, n servos. What servos set through their registers is named in the module's docstring.

    Attributes:
        q, v: angle [rad] and speed [rad/s] of the horn. v_meas: as the servo measures it.
        i, u, tau: current [A], duty [-1, 1], motor torque at the horn [N m].
        q_goal, v_goal, v_profile, a_profile: goals, and the profile's bounds; velocity_mode: v_goal counts, not q_goal.
        q_ref, v_ref: trajectory that the profile generator makes of them.
        load: external torque on the horn [N m]. locked: the horn is held.
        temperature: [deg C].
        commanded: whether the torque is on and follows a goal: not so in current or PWM mode once the watchdog has expired.
        own: which servos move by this model; the others follow a world.
    """

    def __init__(self, motors: list, load_inertia: ArrayLike, initial_angle: ArrayLike) -> None:
        n = len(motors)

        def of(name: str) -> np.ndarray:
            return np.array([getattr(motor, name) for motor in motors], float)

        self.R, self.k_t, self.k_e = of("resistance"), of("k_t"), of("k_e")
        self.J = of("inertia") + np.asarray(load_inertia, float)
        self.friction, self.viscous = of("friction"), of("viscous")
        self.heat_resistance, self.heat_capacity = of("heat_resistance"), of("heat_capacity")
        self.V = of("volts")
        zero = np.zeros(n)
        self.q = np.array(initial_angle, float)
        self.v, self.v_meas, self.i, self.u, self.tau, self.z, self.load = (zero.copy() for _ in range(7))
        self.u_goal, self.k_p, self.k_d, self.k_ip, self.k_iv, self.r_i, self.r_v, self.i_goal = (
            zero.copy() for _ in range(8)
        )
        self.u_max, self.i_max = np.ones(n), zero.copy()
        self.q_goal, self.q_ref, self.v_goal, self.v_ref = self.q.copy(), self.q.copy(), zero.copy(), zero.copy()
        self.v_profile, self.a_profile = np.full(n, NO_LIMIT), np.full(n, NO_LIMIT)
        self.velocity_mode = np.zeros(n, bool)
        self.commanded = np.zeros(n, bool)
        self.temperature = np.full(n, AMBIENT)
        self.own, self.locked = np.ones(n, bool), np.zeros(n, bool)
        self.profiled = self.integrating = False
        self._heat, self._heat_time = zero.copy(), 0.0
        self._a, self._b, self._c = zero.copy(), zero.copy(), zero.copy()
        self.refresh()

    def refresh(self) -> None:
        """To be called when a parameter has changed: constants that `step` uses."""
        self._per_R = 1.0 / self.R
        self._u_to_i, self._v_to_i = self.V / self.R, self.k_e / self.R
        self._kick = TICK / self.J
        self._stick = self.friction * self._kick
        self._free = (~self.locked).astype(float)
        self._dz_p, self._dz_v = self.k_ip * TICK, self.k_iv * TICK
        self.integrating = bool(self.k_ip.any() or self.k_iv.any())
        was, self.profiled = self.profiled, bool((self.v_profile < NO_LIMIT).any() or (self.a_profile < NO_LIMIT).any())
        if was and not self.profiled:  # without profiles the trajectory is the goal
            self.q_ref[:] = self.q_goal
            self.v_ref[:] = np.where(self.velocity_mode, self.v_goal, 0.0)
        self._all_own = bool(self.own.all())
        self._held = np.flatnonzero(~self.own)

    def step(self) -> None:
        """One TICK."""
        self._electrics()
        if self._all_own:
            self._mechanics()
        else:
            q, v = self.q[self._held], self.v[self._held]
            self._mechanics()
            self.q[self._held], self.v[self._held] = q, v
        self._measure()

    def _electrics(self) -> None:
        a, b, u, i = self._a, self._b, self.u, self.i
        if self.profiled:
            self._profile()
        np.subtract(self.q_ref, self.q, out=a)
        np.subtract(self.v_ref, self.v_meas, out=b)
        if self.integrating:
            self.z += self._dz_p * a
            self.z += self._dz_v * b
            np.minimum(self.z, self.u_max, out=self.z)
            np.maximum(self.z, -self.u_max, out=self.z)
        a *= self.k_p
        b *= self.k_d
        np.add(self.u_goal, a, out=u)
        u += b
        u += self.z
        np.multiply(self.r_i, self.i_goal, out=a)
        u += a
        np.multiply(self.r_v, self.v, out=a)
        u += a
        np.minimum(u, self.u_max, out=u)
        np.negative(self.u_max, out=a)
        np.maximum(u, a, out=u)
        np.multiply(self._u_to_i, u, out=i)
        np.multiply(self._v_to_i, self.v, out=a)
        i -= a
        np.minimum(i, self.i_max, out=i)
        np.negative(self.i_max, out=a)
        np.maximum(i, a, out=i)
        np.multiply(self.k_t, i, out=self.tau)
        np.multiply(i, i, out=a)
        self._heat += a
        self._heat_time += TICK

    def _mechanics(self) -> None:
        """Semi-implicit Euler; Coulomb friction takes away at most the speed that is there."""
        a, v = self._a, self.v
        np.multiply(self.viscous, v, out=a)
        np.subtract(self.tau, a, out=a)
        a += self.load
        a *= self._kick
        v += a
        np.abs(v, out=a)
        a -= self._stick
        np.maximum(a, 0.0, out=a)
        np.copysign(a, v, out=v)
        v *= self._free
        np.multiply(v, TICK, out=a)
        self.q += a

    def _measure(self) -> None:
        a = self._a
        np.subtract(self.v, self.v_meas, out=a)
        a *= TICK / (VELOCITY_FILTER + TICK)
        self.v_meas += a

    def _profile(self) -> None:
        """Trapezoidal: accelerate towards the fastest speed from which the goal can still be met with a_profile."""
        distance = self.q_goal - self.q_ref
        half = 0.5 * TICK * self.a_profile
        braking = np.sqrt(half * half + 2.0 * self.a_profile * np.abs(distance)) - half
        wanted = np.where(self.velocity_mode, self.v_goal, np.copysign(np.minimum(self.v_profile, braking), distance))
        change = TICK * self.a_profile
        self.v_ref += np.clip(wanted - self.v_ref, -change, change)
        reach = np.abs(distance)
        move = np.clip(self.v_ref * TICK, -reach, reach)
        self.q_ref += np.where(self.velocity_mode, distance, move)
        self.v_ref = np.where(self.velocity_mode, self.v_ref, move / TICK)

    def warm(self) -> None:
        """Bring the temperatures up to date: C dT/dt = i^2 R - (T - ambient) / R_heat. Every now and then is enough."""
        if self._heat_time <= 0.0:
            return
        power = self._heat * TICK / self._heat_time * self.R
        self.temperature += (
            self._heat_time / self.heat_capacity * (power - (self.temperature - AMBIENT) / self.heat_resistance)
        )
        self._heat[:], self._heat_time = 0.0, 0.0
