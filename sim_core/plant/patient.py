"""A person on the table: skin that gives way to a stethoscope, breathes and may move, and the body as a camera sees it.

    patient = Patient(3)                     # with `MujocoPlant("panda_stethoscope", patient=patient)`
    patient.contact.force                    # after each physics step

The side that is up is a height field over the coronal plane; the membrane's middle touches it at the point that is nearest. Flesh is a
spring and a damper along the skin's normal there, which never pull, and the skin rubs along it. The curvature below the membrane
(1 mm at its edge) is left out, and so is whatever else of the arm might touch the body. The plant's own scene does not hold the
body; what presses on the membrane is applied to the link that carries it, where a force-torque sensor feels it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.interpolate import LinearNDInterpolator
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree

from sim_core.auscultation.regions import Side
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.auscultation.torso import Torso
from sim_core.plant.errors import PlantError
from sim_core.plant.scenario import PATIENT_SPEED
from sim_core.plant.scene import Entity

__all__ = ["MEMBRANE", "POSITION", "Patient", "SkinContact", "body_pose", "patient_entity"]

#: site of a robot's model that is the membrane
MEMBRANE = "membrane"
#: where the axes of a lying body begin [m], its left, head and upward directions being the columns of AXES
POSITION = (0.5, 0.0, 0.18)
AXES = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
GRID = 0.002  # [m] between two heights
SMOOTH = 2.0  # grid steps over which the mesh's edges are rounded
CUT = 0.999  # of a vertex's normal along the body, from which on it is the middle of the cut at waist or neck
SPACING = 0.012  # [m] between two vertices of a torso at most, as seen from above
STEEPEST = 3.5  # slope up to which skin is touched; beyond, a body's flanks are no height over a plane any more
CREEP = 0.01  # [m/s] of sliding at which friction is whole
ABOVE = 0.02  # [m] above the highest breath, from where on a step is not looked at closer
STEPS = 4  # towards the nearest point; each leaves a tenth of the way, 1 cm below a skin that bends by 10 cm
NEAR = 1e-5  # [m] that it may be off
SKIN = "0.87 0.68 0.58 1"
Vector = tuple[float, float, float]
#: what is said of a point that is not over the side: a depth [m] and a normal
FAR: tuple[float, Vector] = (-1.0, (0.0, 0.0, 1.0))


def body_pose(position: tuple[float, ...] = POSITION) -> tuple[np.ndarray, np.ndarray]:
    """Rotation (3, 3) from a lying body's axes to the world's, and where they begin (3,) [m]."""
    return AXES, np.asarray(position, float)


def patient_entity(patient: int, side: Side = "front", position: tuple[float, ...] = POSITION) -> Entity:
    """The body and a table, fixed to the world, for a scene that a camera looks at; neither collides with anything."""
    torso, (axes, origin) = SimulatedPatient(patient).torso[side], body_pose(position)
    vertices = torso.vertices @ axes.T + origin
    lowest = float(vertices[:, 2].min())
    numbers = " ".join(f"{value:.5f}" for value in vertices.ravel())
    faces = " ".join(map(str, torso.faces.ravel()))
    content = (
        '<mujoco model="patient"><asset>'
        f'<mesh name="torso" vertex="{numbers}" face="{faces}" inertia="shell"/></asset><worldbody>'
        f'<geom name="torso" type="mesh" mesh="torso" rgba="{SKIN}" contype="0" conaffinity="0"/>'
        f'<geom name="table" type="box" pos="{origin[0]} {origin[1]} {lowest - 0.02}" size="0.42 0.3 0.02" '
        'rgba="0.55 0.6 0.66 1" contype="0" conaffinity="0"/></worldbody></mujoco>'
    )
    return Entity("patient", content, parent="world", spawned=False)


@dataclass(frozen=True)
class SkinContact:
    """How the membrane stands to the skin; vectors in the world's axes.

    Attributes:
        place: of the membrane on the coronal plane, x to the person's left, y up (2,) [m].
        position: of the membrane (3,) [m]. normal: of the skin, out of it (3,).
        depth: of the membrane below the skin where nothing presses on it [m]. force: along the normal [N].
        slip: speed of the membrane over the skin [m/s].
    """

    place: np.ndarray
    position: np.ndarray
    normal: np.ndarray
    depth: float
    force: float
    slip: float


class Patient:
    """See the module's docstring.

    Args:
        patient: number of the person. side: that is up. position: where the body's axes begin in the world [m].

    Attributes:
        person: who lies there. side: that is up.
    """

    def __init__(self, patient: int, side: Side = "front", position: tuple[float, ...] = POSITION) -> None:
        self.person, self.side = SimulatedPatient(patient), side
        self._axes, self._origin = body_pose(position)
        self._skin = _HeightField(self.person.torso[side])
        self._velocity, self._own = np.zeros(6), np.zeros(3)
        self._model: mujoco.MjModel | None = None
        self._met: tuple[float, np.ndarray, Vector, Vector] | None = None
        self._contact: SkinContact | None = None
        self.reset()

    @property
    def contact(self) -> SkinContact | None:
        """With the membrane, as it was when the last step began; None before there was a robot."""
        if self._contact is None and self._met is not None:
            t, position, at, going = self._met
            depth, normal, force, _, slip = self._feel(t, at, going)
            place = np.array(at[:2]) * [1.0 if self.side == "front" else -1.0, 1.0]
            self._contact = SkinContact(place, position, self._axes @ normal, depth, force, slip)
        return self._contact

    def reset(self) -> None:
        """Back to where the person lay, at the begin of a breath."""
        self._from = self._to = self._own
        self._began, self._speed = 0.0, PATIENT_SPEED

    def move(self, shift: np.ndarray, speed: float, t: float, for_good: bool = False) -> None:
        """From time t [s] on the person moves by a shift (3,) [m] in the world, at a speed [m/s]; `for_good`: no reset undoes it."""
        shift = np.asarray(shift, float)
        self._from = self._shifted(t)[0]
        self._to, self._began, self._speed = self._from + shift, t, speed
        if for_good:
            self._own = self._own + shift

    def move_back(self, t: float) -> None:
        """From time t [s] on the person moves to where a reset would put it."""
        self.move(self._own - self._shifted(t)[0], PATIENT_SPEED, t)

    def _shifted(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Displacement and velocity (3,) of the body at a time."""
        if self._from is self._to:
            return self._to, np.zeros(3)
        way = self._to - self._from
        length = float(np.linalg.norm(way))
        gone = self._speed * (t - self._began)
        if gone >= length:
            self._from = self._to  # arrived, which the next step need not find out again
            return self._to, np.zeros(3)
        return self._from + way * (gone / length), way * (self._speed / length)

    def meet(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Like `press`, with a robot that is new or was put elsewhere, so that where its links are has not been computed.

        Raises:
            PlantError: the robot has no membrane.
        """
        self._model = None
        self.press(model, data, t)

    def press(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Let the skin press on the membrane from time t [s] on, until it is called again.

        Raises:
            PlantError: the robot has no membrane.
        """
        if model is not self._model:
            self._attend(model, data)
        position = data.site_xpos[self._site]
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, self._site, self._velocity, 0)
        shift, drift = self._shifted(t)
        at = ((position - self._origin - shift) @ self._axes).tolist()
        going = ((self._velocity[3:] - drift) @ self._axes).tolist()
        self._met, self._contact = (t, position.copy(), at, going), None
        applied = data.xfrc_applied[self._body]
        if self._skin.reaches(at, self.person.flesh.breath + ABOVE):
            *_, pressed, _ = self._feel(t, at, going)
            if pressed != (0.0, 0.0, 0.0):
                applied[:3] = total = self._axes @ pressed
                # numpy's takes as long as all of the rest
                mujoco.mju_cross(applied[3:], position - data.xipos[self._body], total)
                return
        applied[:] = 0.0

    def _feel(self, t: float, at: Vector, going: Vector) -> tuple[float, Vector, float, Vector, float]:
        """Depth, normal, force along it, all of the force on the membrane, and slip, for its place and velocity; in the body's axes.

        In plain numbers, since every step asks: with arrays this took eight times as long as the physics' own step.
        """
        flesh = self.person.flesh
        depth, normal = self._skin.nearest(*at)
        (x, y, z), (u, v, w) = normal, going
        # The rib cage lifts the skin along its normal, less so towards the sides.
        rate, lift = 2.0 * math.pi * flesh.breath_rate, flesh.breath * z
        depth += lift * math.sin(rate * t)
        away = u * x + v * y + w * z
        u, v, w = u - away * x, v - away * y, w - away * z
        slip = math.sqrt(u * u + v * v + w * w)
        force = 0.0
        if depth > 0.0:
            force = max(0.0, flesh.stiffness * depth + flesh.damping * (lift * rate * math.cos(rate * t) - away))
        drag = flesh.friction * force / max(slip, CREEP)
        return depth, normal, force, (force * x - drag * u, force * y - drag * v, force * z - drag * w), slip

    def _attend(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """To a model that is new, in which nothing has been computed yet."""
        site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, MEMBRANE)
        if site < 0:
            raise PlantError(f"A patient lies before a robot with a stethoscope, whose model has a site '{MEMBRANE}'.")
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        self._model, self._site, self._body = model, site, int(model.site_bodyid[site])


class _HeightField:
    """A side as a height over the coronal plane, between the points of a grid, in its own axes."""

    def __init__(self, torso: Torso) -> None:
        vertices = torso.vertices[(torso.normals[:, 2] > 0.0) & (np.abs(torso.normals[:, 1]) < CUT)]
        low, high = vertices[:, :2].min(0), vertices[:, :2].max(0)
        x, y = np.meshgrid(*(np.arange(a, b, GRID) for a, b in zip(low, high)), indexing="ij")
        height = LinearNDInterpolator(vertices[:, :2], vertices[:, 2])(x, y)
        # Between shoulder and neck the interpolation spans a web.
        height[cKDTree(vertices[:, :2]).query(np.stack([x, y], axis=-1))[0] > SPACING] = np.nan
        outside = np.isnan(height)
        # What is smoothed at the edge must not pull the rest down.
        weight = gaussian_filter((~outside).astype(float), SMOOTH)
        height = gaussian_filter(np.where(outside, 0.0, height), SMOOTH) / np.maximum(weight, 1e-6)
        rows = np.stack([height, *np.gradient(height, GRID)], axis=-1)
        outside |= np.linalg.norm(rows[..., 1:], axis=-1) > STEEPEST
        rows = rows.tolist()
        #: height [m] and its slopes at each point of the grid; None where the side does not reach
        self._rows = [[None if out else row for row, out in zip(*line)] for line in zip(rows, outside.tolist())]
        self._x, self._y = low.tolist()
        self._last = len(rows) - 2, len(rows[0]) - 2
        self._top = float(vertices[:, 2].max())

    def reaches(self, at: Vector, above: float) -> bool:
        """Whether a point is over the grid, and below this much above the top [m]."""
        i, j = (at[0] - self._x) / GRID, (at[1] - self._y) / GRID
        return at[2] < self._top + above and 0.0 <= i <= self._last[0] + 1 and 0.0 <= j <= self._last[1] + 1

    def nearest(self, x: float, y: float, z: float) -> tuple[float, Vector]:
        """How far a point is below the nearest point of the skin [m], and the skin's normal there; FAR where it is not over the side.

        Where the nearest point is beyond the side's edge, one within it is taken.
        """
        found, u, v = FAR, x, y
        for _ in range(STEPS):
            plane = self._plane(u, v)
            if plane is None:
                break
            height, a, b = plane
            nz = 1.0 / math.sqrt(1.0 + a * a + b * b)
            # The plane that touches the skin here has its nearest point nearer to the skin's.
            depth = (height + a * (x - u) + b * (y - v) - z) * nz
            found = depth, (-a * nz, -b * nz, nz)
            before, u, v = (u, v), x - depth * a * nz, y - depth * b * nz
            if abs(u - before[0]) + abs(v - before[1]) < NEAR:
                break
        return found

    def _plane(self, x: float, y: float) -> Vector | None:
        """Height [m] and slopes at a place; None where the side does not reach."""
        x, y = (x - self._x) / GRID, (y - self._y) / GRID
        i, j = math.floor(x), math.floor(y)
        if not (0 <= i <= self._last[0] and 0 <= j <= self._last[1]):
            return None
        a, b, c, d = *self._rows[i][j : j + 2], *self._rows[i + 1][j : j + 2]
        if a is None or b is None or c is None or d is None:
            return None
        u, v = x - i, y - j
        p, q, r, s = (1.0 - u) * (1.0 - v), (1.0 - u) * v, u * (1.0 - v), u * v
        return (
            p * a[0] + q * b[0] + r * c[0] + s * d[0],
            p * a[1] + q * b[1] + r * c[1] + s * d[1],
            p * a[2] + q * b[2] + r * c[2] + s * d[2],
        )
