"""Grains and tools in time: a discrete-element simulation in float32 on CPU threads.

    grains = Grains.of([rock(0.02, 2600.0, k) for k in range(8)], count=500, materials="gravel")
    world = GranularWorld(pour(grains, (0.3, 0.3), seed=0), [container((0.3, 0.3, 0.2)), scoop], {"gravel": Material(), "tool": Material()})
    world.move("scoop", position, quaternion, velocity, spin)
    wrench = world.run(40)["scoop"]                  # mean force and torque about the scoop's origin over 40 steps

Everything in the world's axes, metres, seconds, newtons. The contact law and its sources: `law.py`; the equations of a step: runtime/law.h.
A world's run does not depend on the number of threads, to the bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim_core.codegen.library import pointer
from sim_core.granular.granular_cuda import OnCuda
from sim_core.granular.law import Material, longest_step, pair_table
from sim_core.granular.on_threads import NO_MEMORY, TOO_FAST, OnThreads, Steps, WorldData
from sim_core.granular.population import Grains
from sim_core.granular.tools import PartData, Tool, ToolData

__all__ = ["GrainsTooFast", "GranularWorld", "Spheres"]

VERSION = 1
MOST_TOOLS = 64
_F = ctypes.c_float


class GrainsTooFast(RuntimeError):
    """Grains fly apart, which is no physics but a step too long, an overlap at the begin, or a tool that jumped."""


class Spheres:
    """Spheres as they are at a moment, for whoever looks at them.

    Attributes:
        center: place and radius (m, 4) [m]. body: to which each belongs (m,).
    """

    def __init__(self, center: np.ndarray, body: np.ndarray) -> None:
        self.center, self.body = np.array(center, np.float32), np.array(body, np.int32)
        if self.center.shape != (len(self.body), 4):
            raise ValueError(
                f"spheres have (m, 4) numbers and (m,) bodies, not {self.center.shape} and {self.body.shape}"
            )

    def as_world(self) -> WorldData:
        """A world for the kernels that look at spheres alone; valid while this object is."""
        return WorldData(center=pointer(self.center), body=pointer(self.body), spheres=len(self.body))


class GranularWorld:
    """See the module's docstring.

    Args:
        grains: with their places. tools: the first of them is usually the container; a tool stands still until it is moved.
        materials: by name; those of all grains and parts.
        step: [s]; None: the longest with which contacts are followed. gravity: (3,) [m/s^2].
        skin: gap up to which pairs are listed [m]; None: a quarter of the smallest sphere's radius.
        fastest: speed [m/s] beyond which a grain counts as flying apart. drag: by which velocities decay [1/s].
        threads: of the CPU. device: "cpu", or "cuda": GPU 0, on which bodies then stay until they are looked at.

    Attributes:
        position (n, 3), quaternion (n, 4; w first), velocity (n, 3), spin (n, 3): of the bodies, which may be written to
            between runs (then call `touch`). mass: (n,) [kg]. inertia: (n, 3). volume: (n,) [m^3].
        time: [s]. step: [s]. tools: names. peak: tool -> largest force in any step of the last run [N].

    Raises:
        ValueError: a name that is missing or twice there, or a value out of its range.
        RuntimeError: there is no C compiler. CudaUnavailable: there is no NVRTC, driver or GPU.
    """

    def __init__(
        self,
        grains: Grains,
        tools: Sequence[Tool],
        materials: Mapping[str, Material],
        *,
        step: float | None = None,
        gravity: Sequence[float] = (0.0, 0.0, -9.81),
        skin: float | None = None,
        fastest: float = 30.0,
        drag: float = 0.0,
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        if device not in ("cpu", "cuda"):
            raise ValueError(f"a world's device is 'cpu' or 'cuda', not '{device}'")
        self.threads, self.time, self.grains = threads, 0.0, grains
        self.tools = [tool.name for tool in tools]
        _check(grains, tools, materials)
        self._number = {name: k for k, name in enumerate(self.tools)}
        n, spheres = len(grains), len(grains.radius)
        names = list(materials)
        self.mass, self.inertia, self.volume = grains.mass, grains.inertia, grains.volume
        longest = longest_step(list(materials.values()), grains.largest, grains.contact_mass)
        self.step = longest if step is None else float(step)
        skin = 0.25 * float(grains.radius.min()) if skin is None else float(skin)
        reach = max(m.reach if m.adhesion else 0.0 for m in materials.values()) * float(grains.radius.max())
        if not (self.step > 0.0 and skin > reach):
            raise ValueError(
                f"a step is above 0 and the skin wider than adhesion reaches ({reach:g} m), not {self.step:g} s and {skin:g} m"
            )
        motion = np.zeros((n, 16), np.float32)
        motion[:, :3], motion[:, 3] = grains.position, 1.0 / grains.mass
        center = np.zeros((spheres, 4), np.float32)
        center[:, 3] = grains.radius
        parts = [(k, part) for k, tool in enumerate(tools) for part in tool.parts]
        part_data = (PartData * max(len(parts), 1))(
            *(
                PartData(
                    k,
                    names.index(part.material),
                    (_F * 3)(*part.half),
                    part.rounding,
                    (_F * 3)(*part.offset),
                    (_F * 4)(*part.quaternion),
                )
                for k, part in parts
            )
        )
        self._tool_data = (ToolData * len(tools))(
            *(ToolData((ctypes.c_double * 3)(*t.position), (ctypes.c_double * 4)(*t.quaternion)) for t in tools)
        )
        laws = pair_table(list(materials.values()))
        f32, i32 = np.float32, np.int32
        self._arrays: dict[str, np.ndarray] = {
            "motion": motion,
            "quaternion": np.ascontiguousarray(grains.quaternion, f32),
            "inertia": np.ascontiguousarray(grains.inertia, f32),
            "first": grains.first.astype(i32),
            "body": np.repeat(np.arange(n, dtype=i32), np.diff(grains.first)),
            "material": np.repeat(np.array([names.index(m) for m in grains.material], i32), np.diff(grains.first)),
            "offset": np.ascontiguousarray(grains.offset, f32),
            "center": center,
            "reference": np.zeros((spheres, 3), f32),
            "pose": np.zeros((max(len(parts), 1), 36), f32),
            "wrench": np.zeros((len(tools), 6)),
            "peak": np.zeros(len(tools)),
        }
        self._kept = part_data, laws
        self._data = WorldData(
            **{name: pointer(array) for name, array in self._arrays.items()},
            part=ctypes.addressof(part_data),
            tool=ctypes.addressof(self._tool_data),
            law=ctypes.addressof(laws),
            bodies=n,
            spheres=spheres,
            tools=len(tools),
            parts=len(parts),
            materials=len(names),
            gravity=(_F * 3)(*gravity),
            step=self.step,
            skin=skin,
            fastest=fastest,
            drag=drag,
        )
        self.peak = dict.fromkeys(self.tools, 0.0)
        self._steps: Steps = (
            OnCuda(self._data, self._arrays, {"tool": self._tool_data, "part": part_data, "law": laws})
            if device == "cuda"
            else OnThreads(self._data, threads)
        )
        self.run(0)

    # views of `granular_motion` of runtime/law.h
    position = property(lambda self: self._here("motion")[:, 0:3])
    velocity = property(lambda self: self._here("motion")[:, 4:7])
    spin = property(lambda self: self._here("motion")[:, 8:11])
    quaternion = property(lambda self: self._here("quaternion"))

    def _here(self, name: str) -> np.ndarray:
        self._steps.fetch()
        return self._arrays[name]

    def __len__(self) -> int:
        return len(self.mass)

    @property
    def spheres(self) -> Spheres:
        """All spheres as they are now."""
        return Spheres(self._here("center"), self._arrays["body"])

    def move(
        self,
        tool: str,
        position: Sequence[float] | None = None,
        quaternion: Sequence[float] | None = None,
        velocity: Sequence[float] = (0.0, 0.0, 0.0),
        spin: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> None:
        """Put a tool somewhere, and let it go on with a twist until it is told otherwise.

        Args:
            position: of its origin (3,) [m]; None: where it is. quaternion: w first (4,); None: as it is.
            velocity: of its origin (3,) [m/s]. spin: (3,) [rad/s].

        Raises:
            KeyError: no such tool. ValueError: not finite.
        """
        if tool not in self._number:
            raise KeyError(f"there is no tool '{tool}'; there are {', '.join(self.tools)}")
        values = {"position": position, "quaternion": quaternion, "velocity": velocity, "spin": spin}
        data = self._tool_data[self._number[tool]]
        for name, value in values.items():
            if value is not None and not np.isfinite(value).all():
                raise ValueError(f"the {name} of '{tool}' is finite, not {list(value)}; nothing has moved")
        placed = False
        for name, value in values.items():
            if value is None:
                continue
            if name in ("position", "quaternion"):
                gone = np.abs(np.array(getattr(data, name)) - value).max()
                placed = placed or gone > 0.0
            getattr(data, name)[:] = list(value)
        if placed:
            self.touch()

    def where(self, tool: str) -> tuple[np.ndarray, np.ndarray]:
        """Position (3,) and quaternion (4,) of a tool now."""
        data = self._tool_data[self._number[tool]]
        return np.array(data.position), np.array(data.quaternion)

    def touch(self) -> None:
        """Say that bodies or tools were put elsewhere, so that pairs are looked for anew."""
        self._steps.forget()

    def run(self, steps: int) -> dict[str, np.ndarray]:
        """Let time go on.

        Returns:
            Tool -> mean force and torque of the grains on it about its origin over the steps (6,) [N], [N m].

        Raises:
            GrainsTooFast: a grain is faster than `fastest`, or is nowhere any more. MemoryError.
        """
        self._arrays["wrench"][:] = 0.0
        self._arrays["peak"][:] = 0.0
        status, failed = self._steps.run(steps)
        if status == NO_MEMORY:
            raise MemoryError(f"no memory for the pairs of {self._data.spheres} spheres")
        self.time += steps * self.step
        if status == TOO_FAST:
            raise GrainsTooFast(self._whose(failed))
        self.peak = dict(zip(self.tools, self._arrays["peak"].tolist()))
        return {name: self._arrays["wrench"][k] / max(steps, 1) for k, name in enumerate(self.tools)}

    def _whose(self, step: int) -> str:
        speed = np.linalg.norm(self.velocity, axis=1)
        bad = ~(speed <= self._data.fastest)
        first = int(np.argmax(bad))
        return (
            f"{int(bad.sum())} of {len(self)} grains were faster than {self._data.fastest:g} m/s at step {step} of this run, "
            f"at {self.time:.4f} s (the first is number {first}, {speed[first]:.3g} m/s): use a step shorter than {self.step:.3g} s, "
            "grains that do not overlap at the begin, and tools that move without jumps"
        )

    def energy(self) -> dict[str, float]:
        """Kinetic energy of going and of turning, and potential energy over z = 0 along gravity [J]."""
        v, omega = self.velocity.astype(float), self.spin.astype(float)
        w, x, y, z = self.quaternion.astype(float).T
        axes = np.stack(
            [
                np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
                np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
                np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
            ],
            1,
        )
        own = np.einsum("nij,ni->nj", axes, omega)
        return {
            "going": float(0.5 * (self.mass * (v**2).sum(1)).sum()),
            "turning": float(0.5 * (self.inertia * own**2).sum()),
            "height": float(-(self.mass * (self.position.astype(float) @ np.array(self._data.gravity))).sum()),
        }

    def settle(self, longest: float = 5.0, speed: float = 0.01, every: float = 0.05) -> float:
        """Run until the mean speed of the grains is below `speed` [m/s], or for `longest` [s]; returns the time it took [s]."""
        began = self.time
        steps = max(1, round(every / self.step))
        while self.time - began < longest:
            self.run(steps)
            if np.sqrt((self.velocity.astype(float) ** 2).sum(1).mean()) < speed:
                break
        return self.time - began

    def state(self) -> dict[str, Any]:
        """All that a run goes on from, as arrays and numbers."""
        pairs = {name: array for name, array in self._steps.pairs().items() if name != "force"}
        bodies = {name: self._here(name).copy() for name in ("motion", "quaternion")}
        tools = np.array([[*t.position, *t.quaternion, *t.velocity, *t.spin] for t in self._tool_data])
        return {"version": VERSION, "time": self.time, "tools": tools, **bodies, **pairs}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of this world, or of one that was made alike.

        Raises:
            ValueError: of another version or another world.
        """
        if state.get("version") != VERSION or np.shape(state["quaternion"]) != self.quaternion.shape:
            raise ValueError(
                f"the state is of version {state.get('version')} with {len(state['quaternion'])} grains; expected version {VERSION} "
                f"with {len(self)} grains: make the world with the same grains and tools"
            )
        for name in ("motion", "quaternion"):
            self._here(name)[:] = state[name]
        for data, row in zip(self._tool_data, np.asarray(state["tools"])):
            data.position[:], data.quaternion[:] = row[:3].tolist(), row[3:7].tolist()
            data.velocity[:], data.spin[:] = row[7:10].tolist(), row[10:13].tolist()
        pairs = {name: np.asarray(state[name]) for name in ("a", "b", "history", "touches")}
        order = np.argsort(pairs["b"] >= self._data.spheres, kind="stable")
        if self._steps.put_pairs({name: array[order] for name, array in pairs.items()}):
            raise MemoryError("no memory for the pairs of the state")
        self.time = float(state["time"])
        self.run(0)

    def touching(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Contacts of the last step: spheres (k, 2), the second of which is a part from the number of spheres on; force on the
        second (k, 3) [N]; place (k, 3) [m]."""
        pairs = self._steps.pairs()
        is_ = pairs["touches"].astype(bool)
        return np.stack([pairs["a"][is_], pairs["b"][is_]], -1), pairs["force"][is_, :3], pairs["force"][is_, 9:]


def _check(grains: Grains, tools: Sequence[Tool], materials: Mapping[str, Material]) -> None:
    names = [tool.name for tool in tools]
    if len(set(names)) != len(names) or not 0 < len(names) <= MOST_TOOLS:
        raise ValueError(f"a world has 1 to {MOST_TOOLS} tools with names of their own, not {names}")
    asked = {*grains.material, *(part.material for tool in tools for part in tool.parts)}
    if missing := sorted(asked - set(materials)):
        raise ValueError(f"there is no material {', '.join(missing)}; there are {', '.join(materials)}")
    if not len(grains):
        raise ValueError("a world has at least one grain")
