"""A person on the table: skin that gives way to a stethoscope, breathes and may move, and the body as a camera sees it.

    patient = Patient(3)                     # with `MujocoPlant("panda_stethoscope", patient=patient)`
    patient.contact.force                    # after each physics step

The side that is up is a height field over the coronal plane. The membrane's middle touches it: flesh is a spring and a damper along
the skin's normal that never pull, and the skin rubs along it. The curvature below the membrane (1 mm at its edge) is left out.
The plant's own scene does not hold the body; what presses on the membrane is applied to the link that carries it, where a
force-torque sensor feels it.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.interpolate import LinearNDInterpolator
from scipy.ndimage import gaussian_filter

from sim_core.auscultation.regions import Side
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.auscultation.torso import Torso
from sim_core.plant.errors import PlantError
from sim_core.plant.scene import Entity

__all__ = ["MEMBRANE", "POSITION", "Patient", "SkinContact", "body_pose", "patient_entity"]

#: site of a robot's model that is the membrane
MEMBRANE = "membrane"
#: where the axes of a lying body begin [m], its left, head and upward directions being the columns of AXES
POSITION = (0.5, 0.0, 0.18)
AXES = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
GRID = 0.002  # [m] between two heights
SMOOTH = 2.0  # grid steps over which the mesh's edges are rounded
SLOPE = 0.2  # of a normal along the upward direction, below which the skin is not touched from above
CREEP = 0.01  # [m/s] of sliding at which friction is whole
SKIN = "0.87 0.68 0.58 1"


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
        person: who lies there. side: that is up. contact: with the membrane, after the last step; None before the first.
    """

    def __init__(self, patient: int, side: Side = "front", position: tuple[float, ...] = POSITION) -> None:
        self.person, self.side = SimulatedPatient(patient), side
        self._axes, self._origin = body_pose(position)
        self._skin = _HeightField(self.person.torso[side])
        self.contact: SkinContact | None = None
        self._model: mujoco.MjModel | None
        self._velocity = np.zeros(6)
        self.reset()

    def reset(self) -> None:
        """Back to where the person lay, at the begin of a breath."""
        self._from = self._to = np.zeros(3)
        self._began, self._speed = 0.0, 1.0
        self.attend_anew()

    def attend_anew(self) -> None:
        """The robot was put elsewhere, and where its links are now has not been computed."""
        self._model = None

    def move(self, shift: np.ndarray, speed: float, t: float) -> None:
        """From time t [s] on the person moves by a shift (3,) [m] in the world, at a speed [m/s]."""
        self._from = self._shifted(t)[0]
        self._to, self._began, self._speed = self._from + np.asarray(shift, float), t, speed

    def _shifted(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Displacement and velocity (3,) of the body at a time."""
        way = self._to - self._from
        length = float(np.linalg.norm(way))
        gone = self._speed * (t - self._began)
        if length == 0.0 or gone >= length:
            return self._to, np.zeros(3)
        return self._from + way * (gone / length), way * (self._speed / length)

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
        flesh = self.person.flesh
        local = self._axes.T @ (position - self._origin - shift)
        height, inward = self._skin(local[0], local[1])
        # The rib cage lifts the skin along its normal, less so towards the sides.
        phase = 2.0 * np.pi * flesh.breath_rate * t
        lifted, lifting = (
            flesh.breath * inward[2] * np.array([np.sin(phase), 2.0 * np.pi * flesh.breath_rate * np.cos(phase)])
        )
        depth = (height - local[2]) * inward[2] + lifted
        normal = self._axes @ inward
        relative = self._velocity[3:] - drift
        closing = lifting - float(relative @ normal)
        along = relative - (relative @ normal) * normal
        slip = float(np.sqrt(along @ along))
        force = 0.0
        if depth > 0.0:
            force = max(0.0, flesh.stiffness * depth + flesh.damping * closing)
        applied = data.xfrc_applied[self._body]
        if force > 0.0:
            total = force * normal - (flesh.friction * force / max(slip, CREEP)) * along
            applied[:3], applied[3:] = total, np.cross(position - data.xipos[self._body], total)
        else:
            applied[:] = 0.0
        place = local[:2] if self.side == "front" else local[:2] * [-1.0, 1.0]
        self.contact = SkinContact(place, position.copy(), normal, depth, force, slip)

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
    """Height and normal of a side at a place of its own axes, between the points of a grid."""

    def __init__(self, torso: Torso) -> None:
        seen = torso.normals[:, 2] > SLOPE
        vertices = torso.vertices[seen]
        self._low = vertices[:, :2].min(0)
        axes = [np.arange(a, b, GRID) for a, b in zip(self._low, vertices[:, :2].max(0))]
        x, y = np.meshgrid(*axes, indexing="ij")
        height = LinearNDInterpolator(vertices[:, :2], vertices[:, 2])(x, y)
        outside = np.isnan(height)
        # Beyond the sides nothing is touched; what is smoothed there must not pull the rest down.
        weight = gaussian_filter((~outside).astype(float), SMOOTH)
        height = gaussian_filter(np.where(outside, 0.0, height), SMOOTH) / np.maximum(weight, 1e-6)
        gx, gy = np.gradient(height, GRID)
        self._rows = np.stack([height, gx, gy], axis=-1)
        self._rows[outside] = [-1.0, 0.0, 0.0]  # [m] far below
        self._last = np.array(self._rows.shape[:2]) - 2

    def __call__(self, x: float, y: float) -> tuple[float, np.ndarray]:
        """Height [m] and outward normal (3,); far below where the side does not reach."""
        at = (np.array([x, y]) - self._low) / GRID
        cell = np.floor(at).astype(int)
        if not ((cell >= 0).all() and (cell <= self._last).all()):
            return -1.0, np.array([0.0, 0.0, 1.0])
        (i, j), (u, v) = cell, at - cell
        rows = self._rows
        height, gx, gy = (1 - u) * ((1 - v) * rows[i, j] + v * rows[i, j + 1]) + u * (
            (1 - v) * rows[i + 1, j] + v * rows[i + 1, j + 1]
        )
        normal = np.array([-gx, -gy, 1.0])
        return float(height), normal / np.sqrt(normal @ normal)
