"""Grains in Warp as its own example of discrete elements has them: a hash grid, and one thread per grain that meets its neighbours.

The contact law is ours for equal spheres without rolling resistance or adhesion. Beyond the example: grains turn; the surface's
spring remembers, without which a pile creeps and settles a tenth lower; and, to Warp's gain, neighbours are written down, and looked
for anew only when a grain has gone half the skin. Walls are planes. It runs on the CPU, where Warp has one thread, or on a GPU, where
the steps of a sequence are one CUDA graph: those after a step in which a grain has gone too far do nothing, and are taken again.
"""

from __future__ import annotations

import numpy as np
import warp as wp

from sim_core.granular.law import Law

wp.config.quiet = True
MOST_NEIGHBOURS = 16
WALLS = 5
FOREVER = 2**30
SEQUENCES = (64, 8)  # steps of a GPU's graphs


@wp.struct
class Matter:
    """Of grains that are all alike, in a box that is open above."""

    radius: float
    mass: float
    stiffness: float
    damping: float
    shear_stiffness: float
    shear_damping: float
    friction: float
    step: float
    skin: float
    half_x: float
    half_y: float


@wp.kernel
def list_neighbours(
    grid: wp.uint64,
    matter: Matter,
    position: wp.array(dtype=wp.vec3),
    reference: wp.array(dtype=wp.vec3),
    count_before: wp.array(dtype=int),
    neighbour_before: wp.array2d(dtype=int),
    shear_before: wp.array2d(dtype=wp.vec3),
    count: wp.array(dtype=int),
    neighbour: wp.array2d(dtype=int),
    shear: wp.array2d(dtype=wp.vec3),
    crowded: wp.array(dtype=int),
):
    i = wp.hash_grid_point_id(grid, wp.tid())
    here = position[i]
    reach = 2.0 * matter.radius + matter.skin
    found = wp.int32(0)
    for j in wp.hash_grid_query(grid, here, reach):
        if j != i and wp.length_sq(position[j] - here) < reach * reach:
            if found == MOST_NEIGHBOURS:
                crowded[0] = 1
            else:
                remembered = wp.vec3()
                for k in range(count_before[i]):
                    if neighbour_before[i, k] == j:
                        remembered = shear_before[i, k]
                neighbour[i, found] = j
                shear[i, found] = remembered
                found += 1
    count[i] = found
    reference[i] = here


@wp.struct
class Contact:
    force: wp.vec3
    shear: wp.vec3


@wp.func
def contact(matter: Matter, normal: wp.vec3, gap: float, slip: wp.vec3, shear: wp.vec3, radius: float, mass: float):
    """Force on the one that `normal` points from, and what the surface remembers; `slip`: of the other's surface against it."""
    one = Contact()
    stiffness = matter.stiffness * radius
    root = wp.sqrt(stiffness * mass)
    parting = wp.dot(slip, normal)
    push = wp.max(0.0, -stiffness * gap - matter.damping * root * parting)
    along = slip - parting * normal
    spring = matter.shear_stiffness * stiffness
    dashpot = matter.shear_damping * root
    one.shear = shear - wp.dot(shear, normal) * normal + along * matter.step
    tangential = spring * one.shear + dashpot * along
    size = wp.length(tangential)
    if size > matter.friction * push:
        tangential = tangential * (matter.friction * push / size)
        one.shear = (tangential - dashpot * along) / spring
    one.force = tangential - push * normal
    return one


@wp.kernel
def forces(
    step: int,
    last: wp.array(dtype=int),
    matter: Matter,
    position: wp.array(dtype=wp.vec3),
    velocity: wp.array(dtype=wp.vec3),
    spin: wp.array(dtype=wp.vec3),
    count: wp.array(dtype=int),
    neighbour: wp.array2d(dtype=int),
    shear: wp.array2d(dtype=wp.vec3),
    wall_shear: wp.array2d(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    torque: wp.array(dtype=wp.vec3),
    borne: wp.array(dtype=float),
):
    i = wp.tid()
    if step > last[0]:
        return
    x = position[i]
    v = velocity[i]
    w = spin[i]
    f = wp.vec3()
    t = wp.vec3()
    for k in range(count[i]):
        j = neighbour[i, k]
        away = position[j] - x
        square = wp.length_sq(away)
        if square < 4.0 * matter.radius * matter.radius:
            distance = wp.sqrt(square)
            normal = away / distance
            arm = normal * (0.5 * distance)
            slip = velocity[j] - v - wp.cross(spin[j] + w, arm)
            gap = distance - 2.0 * matter.radius
            one = contact(matter, normal, gap, slip, shear[i, k], 0.5 * matter.radius, 0.5 * matter.mass)
            shear[i, k] = one.shear
            f += one.force
            t += wp.cross(arm, one.force)
        else:
            shear[i, k] = wp.vec3()
    carried = wp.float32(0.0)
    for k in range(WALLS):
        normal = wp.vec3(0.0, 0.0, -1.0)
        gap = x[2] - matter.radius
        if k == 1:
            normal = wp.vec3(-1.0, 0.0, 0.0)
            gap = matter.half_x + x[0] - matter.radius
        if k == 2:
            normal = wp.vec3(1.0, 0.0, 0.0)
            gap = matter.half_x - x[0] - matter.radius
        if k == 3:
            normal = wp.vec3(0.0, -1.0, 0.0)
            gap = matter.half_y + x[1] - matter.radius
        if k == 4:
            normal = wp.vec3(0.0, 1.0, 0.0)
            gap = matter.half_y - x[1] - matter.radius
        if gap < 0.0:
            arm = normal * (matter.radius + 0.5 * gap)
            one = contact(matter, normal, gap, -v - wp.cross(w, arm), wall_shear[i, k], matter.radius, matter.mass)
            wall_shear[i, k] = one.shear
            carried += one.force[2]
            f += one.force
            t += wp.cross(arm, one.force)
        else:
            wall_shear[i, k] = wp.vec3()
    force[i] = f
    torque[i] = t
    borne[i] += carried


@wp.kernel
def move(
    step: int,
    last: wp.array(dtype=int),
    matter: Matter,
    position: wp.array(dtype=wp.vec3),
    velocity: wp.array(dtype=wp.vec3),
    spin: wp.array(dtype=wp.vec3),
    reference: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    torque: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    if step > last[0]:
        return
    v = velocity[i] + matter.step * (force[i] / matter.mass + wp.vec3(0.0, 0.0, -9.81))
    velocity[i] = v
    spin[i] = spin[i] + torque[i] * (matter.step / (0.4 * matter.mass * matter.radius * matter.radius))
    x = position[i] + matter.step * v
    position[i] = x
    if wp.length_sq(x - reference[i]) > 0.2 * matter.skin * matter.skin:  # both of a pair may go 0.45 of the skin
        last[0] = step  # who else writes here writes the same


class WarpGrains:
    """Equal grains in a box that is open above, stepped by Warp.

    Args:
        position: (n, 3) [m]. area: sides of the box (2,) [m]. radius: [m]. mass: of a grain [kg]. law: of grains and walls. step: [s].
        device: Warp's name of it.
    """

    def __init__(
        self,
        position: np.ndarray,
        area: tuple[float, float],
        radius: float,
        mass: float,
        law: Law,
        step: float,
        device: str = "cpu",
    ) -> None:
        self.device, self.step, self.lists, self._n = device, step, 0, len(position)
        matter = Matter()
        matter.radius, matter.mass, matter.step, matter.skin = radius, mass, step, 0.25 * radius
        matter.stiffness, matter.damping, matter.friction = law.stiffness, law.damping, law.friction
        matter.shear_stiffness, matter.shear_damping = law.shear, law.damping * law.root_shear
        matter.half_x, matter.half_y = 0.5 * area[0], 0.5 * area[1]
        self._matter, self._stale, self._now = matter, True, 0
        n = self._n
        self._x = wp.array(np.asarray(position, np.float32), dtype=wp.vec3, device=device)
        self._v, self._spin, self._reference, self._force, self._torque = (self._zeros(n, wp.vec3) for _ in range(5))
        self._borne, self._last, self._crowded = self._zeros(n, float), self._zeros(1, int), self._zeros(1, int)
        wall_shear, room = self._zeros((n, WALLS), wp.vec3), (n, MOST_NEIGHBOURS)
        # a list and the one before it, which change places
        lists = [[self._zeros(n, int), self._zeros(room, int), self._zeros(room, wp.vec3)] for _ in range(2)]
        cells = int(np.clip(np.cbrt(n), 32, 128))
        self._grid = wp.HashGrid(cells, cells, cells, device=device)
        bodies, sums = [self._x, self._v, self._spin], [self._force, self._torque]
        around = [self._grid.id, matter, self._x, self._reference]
        self._list = [
            self._command(list_neighbours, [*around, *lists[1 - k], *lists[k], self._crowded]) for k in (0, 1)
        ]
        step = [0, self._last]
        self._forces = [
            self._command(forces, [*step, matter, *bodies, *lists[k], wall_shear, *sums, self._borne]) for k in (0, 1)
        ]
        self._move = self._command(move, [*step, matter, *bodies, self._reference, *sums])
        self._graphs = {(k, n): self._graph(k, n) for k in (0, 1) for n in SEQUENCES} if self._on_gpu else {}
        self._since, self._lasted = 0, 0  # steps since the list was made, and of the one before

    def _zeros(self, shape, dtype):
        return wp.zeros(shape, dtype=dtype, device=self.device)

    def _command(self, kernel, inputs):
        return wp.launch(kernel, dim=self._n, inputs=inputs, device=self.device, record_cmd=True)

    @property
    def _on_gpu(self) -> bool:
        return self.device != "cpu"

    def _graph(self, k: int, steps: int):
        """A sequence of steps with one of the lists."""
        commands = self._forces[k], self._move
        with wp.ScopedCapture(device=self.device) as capture:
            for step in range(steps):
                for command in commands:
                    command.set_param_by_name("step", step)
                    command.launch()
        for command in commands:
            command.set_param_by_name("step", 0)  # a step by itself
        return capture.graph

    def run(self, steps: int) -> float:
        """Let time go on; returns the mean force on the box along z [N].

        Raises:
            RuntimeError: a grain has more neighbours than there is room for.
        """
        self._borne.zero_()
        done = 0
        while done < steps:
            if self._stale:
                self._list_anew()
            taken = self._sequence(steps - done)
            done, self._since = done + taken, self._since + taken
        return -float(self._borne.numpy().astype(float).sum()) / max(steps, 1)

    def _list_anew(self) -> None:
        self._grid.build(self._x, 2.0 * self._matter.radius + self._matter.skin)
        self._now = 1 - self._now
        self._list[self._now].launch()
        self._last.fill_(FOREVER)
        self.lists, self._since, self._lasted = self.lists + 1, 0, self._since
        if self._crowded.numpy()[0]:
            raise RuntimeError(f"a grain has more than {MOST_NEIGHBOURS} neighbours: Warp's list has no room for them")

    def _sequence(self, most: int) -> int:
        """Take steps, as long as the list will last if it lasts as the one before; returns how many were taken."""
        count = 1
        if self._on_gpu:
            expected = min(max(self._lasted - self._since, SEQUENCES[-1]), most)
            count = next((n for n in SEQUENCES if n <= expected), 1)
        if count > 1:
            wp.capture_launch(self._graphs[self._now, count])
        else:
            self._forces[self._now].launch()
            self._move.launch()
        last = int(self._last.numpy()[0])
        self._stale = last != FOREVER
        return min(last + 1, count)

    @property
    def position(self) -> np.ndarray:
        """(n, 3) [m]."""
        return self._x.numpy()

    @property
    def speed(self) -> float:
        """Mean of the grains [m/s]."""
        return float(np.linalg.norm(self._v.numpy(), axis=1).mean())
