"""What an emulated force-torque sensor feels: the wrench of a shared world, or a constant with a sine; noise and drift."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from hardware.emulation.world import SharedWorld, world_of_plant

__all__ = ["WrenchSource"]

_VECTORS = ("wrench", "amplitude", "drift")
_SCALARS = ("frequency", "noise_force", "noise_torque")


class WrenchSource:
    """A wrench over time, reproducible under its seed.

    Attributes (all can be `set`):
        wrench, amplitude: constant, and amplitude of the sine added to it, (6,) [N, N m]. A world replaces both.
        frequency: of the sine [Hz].
        noise_force, noise_torque: standard deviation of each sample [N], [N m].
        drift: (6,) [N/s, N m/s].
    """

    def __init__(self, world: SharedWorld | None = None, seed: int = 0, **values: Any) -> None:
        self.world = world
        self.wrench, self.amplitude, self.drift = np.zeros(6), np.zeros(6), np.zeros(6)
        self.frequency, self.noise_force, self.noise_torque = 1.0, 0.0, 0.0
        self._random = np.random.default_rng(seed)
        self._began = time.monotonic()
        self.set(**values)

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Options of an emulator that has one."""
        for name in _VECTORS:
            parser.add_argument(
                f"--{name}",
                type=float,
                nargs=6,
                default=[0.0] * 6,
                metavar=("FX", "FY", "FZ", "TX", "TY", "TZ"),
                help="N, N m" + (" per second" if name == "drift" else ""),
            )
        parser.add_argument("--frequency", type=float, default=1.0, help="of the sine [Hz]")
        parser.add_argument("--noise-force", type=float, default=0.0, help="standard deviation [N]")
        parser.add_argument("--noise-torque", type=float, default=0.0, help="standard deviation [N m]")

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> WrenchSource:
        """Of the options that `arguments` declared, and the common ones."""
        world = world_of_plant(options.world) if options.world else None
        return cls(world, options.seed, **{name: getattr(options, name) for name in (*_VECTORS, *_SCALARS)})

    def set(self, **values: Any) -> None:
        """Change attributes.

        Raises:
            ValueError: no such one, or not its shape.
        """
        for name, value in values.items():
            if name in _VECTORS:
                if np.shape(value) != (6,):
                    raise ValueError(f"{name} needs six numbers, got {value!r}")
                setattr(self, name, np.array(value, float))
            elif name in _SCALARS:
                setattr(self, name, float(value))
            else:
                raise ValueError(f"no value '{name}' to set, only {', '.join((*_VECTORS, *_SCALARS))}")

    def at(self, times: np.ndarray) -> np.ndarray:
        """What is felt at host times (n,) [s]: (n, 6) [N, N m]."""
        if self.world is not None:
            wrench = np.tile(self.world.state().wrench, (len(times), 1))
        else:
            wrench = self.wrench + self.amplitude * np.sin(2.0 * np.pi * self.frequency * times[:, None])
        wrench = wrench + self.drift * (times[:, None] - self._began)
        if self.noise_force or self.noise_torque:
            wrench += self._random.standard_normal(wrench.shape) * np.repeat([self.noise_force, self.noise_torque], 3)
        return wrench
