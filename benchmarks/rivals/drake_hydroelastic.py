"""A rigid ball or paddle pressed into a compliant block by Drake's hydroelastic contact.

Pressure grows linearly from the block's surface to its middle, for one modulus of the whole block; the wrench is the integral of the
pressure over the surface on which the rigid body cuts it (Elandt, Drumwright, Sherman, Ruina, "A pressure field model for fast, robust
approximation of net contact force and moment between nominally rigid objects", IROS 2019).
"""

from __future__ import annotations

import numpy as np
from pydrake.geometry import (
    AddCompliantHydroelasticProperties,
    AddContactMaterial,
    AddRigidHydroelasticProperties,
    Box,
    ProximityProperties,
    Sphere,
)
from pydrake.math import RigidTransform
from pydrake.multibody.plant import AddMultibodyPlantSceneGraph, ContactModel, CoulombFriction
from pydrake.multibody.tree import SpatialInertia, UnitInertia
from pydrake.systems.framework import DiagramBuilder

__all__ = ["Hydroelastic"]


class Hydroelastic:
    """A block whose upper side is at z = 0, and a rigid body above it.

    Args:
        body: "sphere" of 40 mm or "line", a paddle of 30 mm x 3 mm. block: size (3,) [m]. modulus: hydroelastic modulus [Pa].
            resolution: length of edges of the rigid body's mesh [m].
    """

    def __init__(
        self, body: str, block: tuple[float, float, float], modulus: float = 1e5, resolution: float = 5.8e-3
    ) -> None:
        builder = DiagramBuilder()
        self._plant, _ = AddMultibodyPlantSceneGraph(builder, 0.0)
        self._plant.set_contact_model(ContactModel.kHydroelastic)
        soft, hard = ProximityProperties(), ProximityProperties()
        AddCompliantHydroelasticProperties(resolution, modulus, soft)
        AddRigidHydroelasticProperties(resolution, hard)
        for properties in (soft, hard):
            AddContactMaterial(dissipation=0.0, friction=CoulombFriction(0.0, 0.0), properties=properties)
        world = self._plant.world_body()
        self._plant.RegisterCollisionGeometry(world, RigidTransform([0, 0, -block[2] / 2]), Box(*block), "soft", soft)
        inertia = SpatialInertia(1.0, np.zeros(3), UnitInertia.SolidSphere(0.02))
        self._body = self._plant.AddRigidBody("probe", inertia)
        shape, self._low = (Sphere(0.02), 0.02) if body == "sphere" else (Box(0.03, 3e-3, 0.01), 5e-3)
        self._plant.RegisterCollisionGeometry(self._body, RigidTransform(), shape, "probe", hard)
        self._plant.Finalize()
        self._diagram = builder.Build()
        self._root = self._diagram.CreateDefaultContext()
        self._context = self._plant.GetMyContextFromRoot(self._root)
        self._results = self._plant.get_contact_results_output_port()

    def query(self, x: float, y: float, depth: float) -> tuple[np.ndarray, int]:
        """Force on the body (3,) [N] with its lowest point `depth` below the surface [m], and faces of the contact surface."""
        self._plant.SetFreeBodyPose(self._context, self._body, RigidTransform([x, y, self._low - depth]))
        found = self._results.Eval(self._context)
        force, faces = np.zeros(3), 0
        for k in range(found.num_hydroelastic_contacts()):
            info = found.hydroelastic_contact_info(k)
            faces += info.contact_surface().num_faces()
            # on the geometry with the lower number, which is the block
            force -= info.F_Ac_W().translational()
        return force, faces
