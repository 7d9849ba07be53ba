"""The world the robot lives in: compiled model, its state, and what has been added or changed.

Every change compiles the world anew from its description and carries the state over by joint,
so a spawn in the middle of a motion leaves all other joints exactly where they were.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from sim_core.plant.errors import EntityError, PlantError
from sim_core.plant.physical_parameters import (
    apply_scalars,
    body_inertials,
    site_positions,
)
from sim_core.plant.scenario import Change
from sim_core.plant.scene import Entity, build_model, wrench_sensor

__all__ = ["EntityState", "World"]

_ROBOT_JOINTS = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


@dataclasses.dataclass(frozen=True)
class EntityState:
    """Pose and velocity of a body in the world.

    Attributes:
        position: of the body's origin, (3,) [m].
        quaternion: orientation, wxyz (4,).
        linear, angular: velocity of the body's origin, in world axes, (3,) each [m/s], [rad/s].
    """

    position: np.ndarray
    quaternion: np.ndarray
    linear: np.ndarray
    angular: np.ndarray


class World:
    """One MuJoCo model and its data, rebuilt on demand.

    Attributes:
        model, data: the present ones; replaced by every change.
        joints: names of the robot's hinges and slides; `qpos`, `dof`: their indices, shape (n,).
        actuators: the robot's actuator names; `joint_of`: joint index of each, shape (nu,);
            `ratio`: joint effort per actuator input (gear x gain), nominal, shape (nu,).
        u_lower, u_upper: limits of the actuator inputs, shape (nu,); infinite where unlimited.

    Args:
        name: of the robot.
        mjcf: its MJCF text.
        parameters: physical parameters that differ from the MJCF, by name.
        wrench_site: site with a force-torque sensor, see `wrench_sensor`; "" for none.
        scenery: what stands there beside the robot from the beginning and for good.

    Raises:
        PlantError: the model holds something a plant cannot drive; the text names it.
    """

    def __init__(
        self,
        name: str,
        mjcf: str,
        parameters: Mapping[str, float],
        wrench_site: str = "",
        scenery: Iterable[Entity] = (),
    ) -> None:
        self.name, self.scenery = name, tuple(scenery)
        self._mjcf, self._parameters = mjcf, dict(parameters)
        original = build_model(mjcf)
        self._wrench = wrench_sensor(original, wrench_site) if wrench_site else None
        self._geometry = self._geometry_of(original)
        self._gears = {
            original.joint(j).name: float(original.dof_invweight0[original.jnt_dofadr[j]])
            for j in range(original.njnt)
            if int(original.jnt_type[j]) in _ROBOT_JOINTS and original.joint(j).name
        }
        self.entities: tuple[Entity, ...] = ()
        self.changes: tuple[Change, ...] = ()
        self.model = self.nominal = self._compile((), ())
        self._describe_robot()
        self._index()
        self._nominal_qpos = np.concatenate([self.qpos, self._base])
        if self.scenery:
            self.model = self._compile(self.scenery, ())
            self._index()
        self.data = mujoco.MjData(self.model)
        self._kinematics = mujoco.MjData(self.nominal)

    # ---- description -----------------------------------------------------------------------
    def _describe_robot(self) -> None:
        model = self.model
        self.joints = []
        self._bases = [
            model.joint(i).name
            for i in range(model.njnt)
            if model.jnt_type[i] == mujoco.mjtJoint.mjJNT_FREE and model.joint(i).name
        ]
        for i in range(model.njnt):
            if int(model.jnt_type[i]) in _ROBOT_JOINTS:
                if not model.joint(i).name:
                    raise PlantError(
                        f"A joint of body '{model.body(model.jnt_bodyid[i]).name}' has no name; joint_states needs one."
                    )
                self.joints.append(model.joint(i).name)
        self.actuators = []
        driver: dict[int, str] = {}
        for a in range(model.nu):
            name = model.actuator(a).name or f"actuator{a}"
            if model.actuator_trntype[a] != mujoco.mjtTrn.mjTRN_JOINT:
                raise PlantError(f"Actuator '{name}' does not drive a joint; the plant knows joint motors only.")
            if (
                model.actuator_gaintype[a] != mujoco.mjtGain.mjGAIN_FIXED
                or model.actuator_biastype[a] != mujoco.mjtBias.mjBIAS_NONE
                or model.actuator_dyntype[a] != mujoco.mjtDyn.mjDYN_NONE
            ):
                raise PlantError(
                    f"Actuator '{name}' is no motor (fixed gain, no bias, no dynamics); "
                    "declare it as <motor>, the plant's servos do the rest."
                )
            joint = int(model.actuator_trnid[a, 0])
            if joint in driver:
                raise PlantError(
                    f"Joint '{model.joint(joint).name}' has two actuators, '{driver[joint]}' and '{name}'."
                )
            driver[joint] = name
            self.actuators.append(name)
        self.joint_of = np.array([self.joints.index(model.joint(j).name) for j in driver], dtype=int)
        self.ratio = model.actuator_gear[:, 0] * model.actuator_gainprm[:, 0]
        self.actuated = np.isin(np.arange(len(self.joints)), self.joint_of)
        self.u_lower, self.u_upper = self._limits()

    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Tightest of the control, actuator force and joint force ranges, as actuator input."""
        model = self.model
        lower, upper = np.full(model.nu, -np.inf), np.full(model.nu, np.inf)
        for a in range(model.nu):
            j = int(model.actuator_trnid[a, 0])
            ranges = []
            if model.actuator_ctrllimited[a]:
                ranges.append(model.actuator_ctrlrange[a])
            if model.actuator_forcelimited[a]:
                ranges.append(model.actuator_forcerange[a] / model.actuator_gainprm[a, 0])
            if model.jnt_actfrclimited[j]:
                ranges.append(model.jnt_actfrcrange[j] / self.ratio[a])
            for pair in ranges:
                lower[a], upper[a] = max(lower[a], min(pair)), min(upper[a], max(pair))
        return lower, upper

    def _index(self) -> None:
        model = self.model
        ids = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in self.joints]
        self.qpos = model.jnt_qposadr[ids].copy()
        self.dof = model.jnt_dofadr[ids].copy()
        # A floating base's coordinates: nobody measures them, but its frames hang on them.
        bases = [model.jnt_qposadr[mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)] for name in self._bases]
        self._base = np.array([address + k for address in bases for k in range(7)], dtype=int)
        self._probe = mujoco.MjData(model)

    # ---- building --------------------------------------------------------------------------
    def _compile(self, entities: tuple[Entity, ...], changes: tuple[Change, ...]) -> mujoco.MjModel:
        model = build_model(self._mjcf, entities, self._wrench, **self._geometry)
        # A diverged simulation must be said, not silently restarted from the origin.
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        apply_scalars(model, self._parameters)
        for change in changes:
            change.apply(model)
        if changes or self._parameters:
            mujoco.mj_setConst(model, mujoco.MjData(model))
        # How softly MuJoCo makes a joint stick or meet its end scales with this. A gear does not grip otherwise for what hangs on it.
        for name, inverse_inertia in self._gears.items():
            model.dof_invweight0[model.joint(name).dofadr[0]] = inverse_inertia
        return model

    def _geometry_of(self, original: mujoco.MjModel) -> dict:
        return dict(
            inertials=body_inertials(original, self._parameters),
            site_positions=site_positions(original, self._parameters),
        )

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Other physical parameters from now on, by name; everything else and the state stay as they are.

        Raises:
            PlantError: an unknown name, or a body that is not physical; the world is as before.
        """
        before = self._parameters, self._geometry
        try:
            self._parameters = {**self._parameters, **values}
            self._geometry = self._geometry_of(build_model(self._mjcf))
            self.nominal = self._compile((), ())
            self._replace(self.entities, self.changes)
        except Exception:
            self._parameters, self._geometry = before
            self.nominal = self._compile((), ())
            raise
        self._kinematics = mujoco.MjData(self.nominal)
        self.ratio = self.nominal.actuator_gear[:, 0] * self.nominal.actuator_gainprm[:, 0]

    def rebuild(self, entities: Iterable[Entity] | None = None, changes: Iterable[Change] | None = None) -> None:
        """Replace entities or changes, keeping the state of every joint that remains.

        Raises:
            PlantError, EntityError: refused; the world is as before.
        """
        entities = self.entities if entities is None else tuple(entities)
        changes = self.changes if changes is None else tuple(changes)
        if entities != self.entities or changes != self.changes:
            self._replace(entities, changes)

    def _replace(self, entities: tuple[Entity, ...], changes: tuple[Change, ...]) -> None:
        """Compile anew and carry the state over."""
        model = self._compile((*self.scenery, *entities), changes)
        data = mujoco.MjData(model)
        old = self._joint_keys(self.model, (*self.scenery, *self.entities))
        new = self._joint_keys(model, (*self.scenery, *entities))
        for key in old.keys() & new.keys():
            _copy_joint(self.model, self.data, old[key], model, data, new[key])
        data.ctrl[:] = self.data.ctrl
        data.time = self.data.time
        self.model, self.data = model, data
        self.entities, self.changes = entities, changes
        self._index()

    @staticmethod
    def _joint_keys(model: mujoco.MjModel, entities: tuple[Entity, ...]) -> dict[tuple[str, int], int]:
        """Joint id by (entity, order within it): stable however other entities come and go."""
        roots = {model.body(e.name).id: e.name for e in entities}
        keys: dict[tuple[str, int], int] = {}
        seen: dict[str, int] = {}
        for joint in range(model.njnt):
            body = int(model.jnt_bodyid[joint])
            while body and body not in roots:
                body = int(model.body_parentid[body])
            owner = roots.get(body, "")
            seen[owner] = seen.get(owner, -1) + 1
            keys[owner, seen[owner]] = joint
        return keys

    def add_entity(self, entity: Entity) -> None:
        """Add an entity at rest relative to what it is welded to, or at rest in the world."""
        self.rebuild(entities=(*self.entities, entity))

    def remove_entity(self, name: str) -> None:
        """Remove an entity.

        Raises:
            EntityError: no such entity, part of the robot's own scene, or others hang on it.
        """
        if name not in {e.name for e in self.entities}:
            kind = "unsupported" if name in self.entity_names() else "not_found"
            raise EntityError(
                kind,
                f"'{name}' belongs to the robot's scene and cannot be deleted."
                if kind == "unsupported"
                else self._unknown(name),
            )
        hanging = [e.name for e in self.entities if e.parent == name or e.parent.startswith(f"{name}/")]
        if hanging:
            raise EntityError("unsupported", f"'{name}' carries {', '.join(hanging)}; delete first.")
        self.rebuild(entities=[e for e in self.entities if e.name != name])

    # ---- state -----------------------------------------------------------------------------
    def nominal_home(self) -> np.ndarray:
        """qpos of the robot alone at keyframe "home", else at the first keyframe, else at qpos0."""
        nominal = self.nominal
        frame = mujoco.MjData(nominal)
        if nominal.nkey:
            key = max(mujoco.mj_name2id(nominal, mujoco.mjtObj.mjOBJ_KEY, "home"), 0)
            mujoco.mj_resetDataKeyframe(nominal, frame, key)
        return frame.qpos.copy()

    def home(self) -> tuple[np.ndarray, np.ndarray]:
        """qpos and qvel to start from: keyframe "home", else the first keyframe, else qpos0.

        Keyframes are those of the robot's own model; whatever was added starts where it was put.
        """
        model, nominal = self.model, self.nominal
        qpos, qvel = model.qpos0.copy(), np.zeros(model.nv)
        if nominal.nkey:
            key = max(mujoco.mj_name2id(nominal, mujoco.mjtObj.mjOBJ_KEY, "home"), 0)
            frame = mujoco.MjData(nominal)
            mujoco.mj_resetDataKeyframe(nominal, frame, key)
            data = mujoco.MjData(model)
            old, new = self._joint_keys(nominal, ()), self._joint_keys(model, (*self.scenery, *self.entities))
            for pair in old:
                _copy_joint(nominal, frame, old[pair], model, data, new[pair])
            qpos, qvel = data.qpos.copy(), data.qvel.copy()
        return qpos, qvel

    def observe(self) -> mujoco.MjData:
        """All derived quantities at the present state, computed beside the simulation.

        A separate MjData keeps the simulation's own solver warm start untouched: what is observed
        never changes what happens.
        """
        probe, data = self._probe, self.data
        probe.qpos, probe.qvel, probe.ctrl, probe.time = data.qpos, data.qvel, data.ctrl, data.time
        probe.qacc_warmstart, probe.xfrc_applied = data.qacc_warmstart, data.xfrc_applied
        mujoco.mj_forward(self.model, probe)
        return probe

    def scenery_joints(self) -> dict[str, np.ndarray]:
        """Where the joints of the scenery are, by name: a hinge's or slide's position (1,), a free body's place and quaternion (7,)."""
        model, data = self.model, self.data
        names = [model.joint(j).name for j in range(model.njnt)]
        owners = tuple(entity.name for entity in self.scenery)
        return {name: data.joint(name).qpos.copy() for name in names if name.startswith(tuple(f"{o}/" for o in owners))}

    def pose_of_nominal(self) -> mujoco.MjData:
        """Kinematics of the nominal robot (without what was added) at the present joint state."""
        self._kinematics.qpos[self._nominal_qpos] = self.data.qpos[np.concatenate([self.qpos, self._base])]
        mujoco.mj_kinematics(self.nominal, self._kinematics)
        return self._kinematics

    def entity_names(self) -> dict[str, str]:
        """Entity name -> "robot", "dynamic" or "static", robot first.

        The robot's tree goes by the robot's name if there is one tree with joints, else by the
        names of its root bodies.
        """
        model, kinds = self.model, {}
        added = {e.name: e for e in self.entities}
        trees = [b for b in range(1, model.nbody) if model.body_parentid[b] == 0]
        robots = [b for b in trees if self._tree_has_robot_joint(b)]
        for b in robots:
            kinds[self.name if len(robots) == 1 else model.body(b).name] = "robot"
        for b in trees:
            if b not in robots and model.body(b).name:
                kinds[model.body(b).name] = "dynamic" if model.body_dofnum[b] else "static"
        for name in added:
            kinds[name] = "dynamic"
        return kinds

    def _tree_has_robot_joint(self, root: int) -> bool:
        model = self.model
        return any(
            model.body_rootid[model.jnt_bodyid[j]] == root and model.joint(j).name in self.joints
            for j in range(model.njnt)
        )

    def _body_of(self, name: str) -> int:
        kinds = self.entity_names()
        if name not in kinds:
            raise EntityError("not_found", self._unknown(name))
        if kinds[name] == "robot" and mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, name) < 0:
            return int(self.model.body_rootid[self.model.jnt_bodyid[self.model.joint(self.joints[0]).id]])
        return self.model.body(name).id

    def _unknown(self, name: str) -> str:
        return f"No entity '{name}'; there are: {', '.join(self.entity_names())}."

    def entity_state(self, name: str) -> EntityState:
        """True state of an entity's body.

        Raises:
            EntityError: no such entity.
        """
        body, probe = self._body_of(name), self.observe()
        velocity = np.zeros(6)  # MuJoCo: [angular; linear] at the body's origin, world axes
        mujoco.mj_objectVelocity(self.model, probe, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
        return EntityState(probe.xpos[body].copy(), probe.xquat[body].copy(), velocity[3:].copy(), velocity[:3].copy())

    def set_entity_state(
        self,
        name: str,
        position: ArrayLike | None = None,
        quaternion: ArrayLike | None = None,
        linear: ArrayLike | None = None,
        angular: ArrayLike | None = None,
    ) -> None:
        """Place a free body; None leaves that part as it is.

        Raises:
            EntityError: no such entity, not free, or a pose that is none.
        """
        body = self._body_of(name)
        joint = int(self.model.body_jntadr[body])
        if joint < 0 or self.model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_FREE:
            raise EntityError(
                "unsupported", f"'{name}' is fixed to the world or to a link; only a free body can be placed."
            )
        parts = [x for x in (position, quaternion, linear, angular) if x is not None]
        if not all(np.all(np.isfinite(x)) for x in parts):
            raise EntityError("pose", f"The state for '{name}' is not finite.")
        if quaternion is not None and abs(np.linalg.norm(quaternion) - 1.0) > 1e-2:
            raise EntityError(
                "pose", f"The orientation for '{name}' is no unit quaternion (norm {np.linalg.norm(quaternion):.3g})."
            )
        q, v = int(self.model.jnt_qposadr[joint]), int(self.model.jnt_dofadr[joint])
        if position is not None:
            self.data.qpos[q : q + 3] = position
        if quaternion is not None:
            self.data.qpos[q + 3 : q + 7] = np.asarray(quaternion) / np.linalg.norm(quaternion)
        if linear is not None:
            self.data.qvel[v : v + 3] = linear
        if angular is not None:  # a free joint's angular velocity is in body axes
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, self.data.qpos[q + 3 : q + 7])
            self.data.qvel[v + 3 : v + 6] = R.reshape(3, 3).T @ np.asarray(angular)


def _copy_joint(
    old_model: mujoco.MjModel, old_data: mujoco.MjData, i: int, model: mujoco.MjModel, data: mujoco.MjData, j: int
) -> None:
    width_q = {mujoco.mjtJoint.mjJNT_FREE: 7, mujoco.mjtJoint.mjJNT_BALL: 4}
    width_v = {mujoco.mjtJoint.mjJNT_FREE: 6, mujoco.mjtJoint.mjJNT_BALL: 3}
    kind = mujoco.mjtJoint(int(model.jnt_type[j]))
    nq, nv = width_q.get(kind, 1), width_v.get(kind, 1)
    a, b = int(old_model.jnt_qposadr[i]), int(model.jnt_qposadr[j])
    data.qpos[b : b + nq] = old_data.qpos[a : a + nq]
    a, b = int(old_model.jnt_dofadr[i]), int(model.jnt_dofadr[j])
    for name in ("qvel", "qacc_warmstart"):
        getattr(data, name)[b : b + nv] = getattr(old_data, name)[a : a + nv]
