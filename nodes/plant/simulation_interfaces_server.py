"""The standard simulation_interfaces, over a SimLoop: exactly the features it lists.

Names are the standard's, relative to the node's namespace. One step is one servo tick.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from simulation_interfaces.action import SimulateSteps
from simulation_interfaces.msg import (
    EntityCategory,
    EntityState,
    Resource,
    Result,
    SimulationState,
    SimulatorFeatures,
    Spawnable,
)
from simulation_interfaces.srv import (
    DeleteEntity,
    GetEntities,
    GetEntitiesStates,
    GetEntityInfo,
    GetEntityState,
    GetSimulationState,
    GetSimulatorFeatures,
    GetSpawnables,
    ResetSimulation,
    SetEntityState,
    SetSimulationState,
    SpawnEntity,
    StepSimulation,
)

from nodes.framework.messages import to_stamp
from nodes.plant.sim_loop import SimLoop
from sim_core.plant import SPAWNABLES, EntityError, PlantError

__all__ = ["FEATURES", "SimulationInterfaces"]

F = SimulatorFeatures
FEATURES = (
    F.SPAWNING,
    F.DELETING,
    F.SPAWNING_RESOURCE_STRING,
    F.SPAWNABLES,
    F.ENTITY_STATE_GETTING,
    F.ENTITY_STATE_SETTING,
    F.ENTITY_INFO_GETTING,
    F.ENTITY_CATEGORIES,
    F.SIMULATION_RESET,
    F.SIMULATION_RESET_TIME,
    F.SIMULATION_RESET_STATE,
    F.SIMULATION_RESET_SPAWNED,
    F.SIMULATION_STATE_GETTING,
    F.SIMULATION_STATE_SETTING,
    F.SIMULATION_STATE_PAUSE,
    F.STEP_SIMULATION_SINGLE,
    F.STEP_SIMULATION_MULTIPLE,
    F.STEP_SIMULATION_ACTION,
)

_CATEGORY = {
    "robot": EntityCategory.CATEGORY_ROBOT,
    "dynamic": EntityCategory.CATEGORY_DYNAMIC_OBJECT,
    "static": EntityCategory.CATEGORY_STATIC_OBJECT,
}
_SPAWN_CODE = {
    "not_unique": SpawnEntity.Response.NAME_NOT_UNIQUE,
    "invalid_name": SpawnEntity.Response.NAME_INVALID,
    "format": SpawnEntity.Response.UNSUPPORTED_FORMAT,
    "not_found": SpawnEntity.Response.NO_RESOURCE,
    "parse": SpawnEntity.Response.RESOURCE_PARSE_ERROR,
    "pose": SpawnEntity.Response.INVALID_POSE,
}
_STEP_TIMEOUT = 3600.0  # [s] a step request is as long as it is; this only bounds a lost loop


def _ok() -> Result:
    return Result(result=Result.RESULT_OK)


def _failed(error: Exception | str, code: int = Result.RESULT_OPERATION_FAILED) -> Result:
    return Result(result=code, error_message=str(error))


def _entity_failure(error: EntityError) -> Result:
    code = {"not_found": Result.RESULT_NOT_FOUND, "unsupported": Result.RESULT_FEATURE_UNSUPPORTED}.get(
        error.kind, Result.RESULT_OPERATION_FAILED
    )
    return _failed(error, code)


class SimulationInterfaces:
    """Services and the action of one plant node.

    Args:
        node: where they live.
        loop: runs the plant.
        frame_prefix: put before the frames in poses, as in /tf.
        may_play: whether the node is active; only then time may run.
        quit: called when a client asks the simulator to quit.
    """

    def __init__(
        self, node, loop: SimLoop, frame_prefix: str, may_play: Callable[[], bool], quit: Callable[[], None]
    ) -> None:
        self._node, self._loop, self._prefix = node, loop, frame_prefix
        self._may_play, self._quit = may_play, quit
        self._stopped = False
        group = MutuallyExclusiveCallbackGroup()
        self._services = [
            node.create_service(kind, name, callback, callback_group=group)
            for kind, name, callback in (
                (GetSimulatorFeatures, "get_simulator_features", self._get_features),
                (GetSimulationState, "get_simulation_state", self._get_state),
                (SetSimulationState, "set_simulation_state", self._set_state),
                (ResetSimulation, "reset_simulation", self._reset),
                (StepSimulation, "step_simulation", self._step),
                (GetEntities, "get_entities", self._get_entities),
                (GetEntitiesStates, "get_entities_states", self._get_entities_states),
                (GetEntityState, "get_entity_state", self._get_entity_state),
                (SetEntityState, "set_entity_state", self._set_entity_state),
                (GetEntityInfo, "get_entity_info", self._get_entity_info),
                (SpawnEntity, "spawn_entity", self._spawn),
                (DeleteEntity, "delete_entity", self._delete),
                (GetSpawnables, "get_spawnables", self._get_spawnables),
            )
        ]
        self._action = ActionServer(
            node,
            SimulateSteps,
            "simulate_steps",
            self._simulate_steps,
            goal_callback=lambda goal: GoalResponse.ACCEPT,
            cancel_callback=lambda goal: CancelResponse.ACCEPT,
            callback_group=ReentrantCallbackGroup(),
        )

    def destroy(self) -> None:
        """Take all services down."""
        self._action.destroy()
        for service in self._services:
            self._node.destroy_service(service)

    # ---- simulation ------------------------------------------------------------------------
    def _get_features(self, request, response):
        response.features = SimulatorFeatures(
            features=list(FEATURES),
            spawn_formats=["mjcf", "urdf"],
            custom_info=self._loop.call(
                lambda plant: (
                    f"refit sim_plant, MuJoCo, robot {plant.name}; one step is {plant.tick_period:g} s. "
                    "Give a body or site as initial_pose frame_id to weld a spawned object to it."
                )
            ),
        )
        return response

    def _state(self) -> int:
        if self._loop.playing and not self._loop.halted:
            return SimulationState.STATE_PLAYING
        return SimulationState.STATE_STOPPED if self._stopped else SimulationState.STATE_PAUSED

    def _get_state(self, request, response):
        response.state.state, response.result = self._state(), _ok()
        return response

    def _set_state(self, request, response):
        target, now = request.state.state, self._state()
        S = SimulationState
        if target == now:
            response.result = _failed("The simulation is in that state already.", response.ALREADY_IN_TARGET_STATE)
        elif target == S.STATE_PLAYING and not self._may_play():
            response.result = _failed("The plant node is not active; activate it first.", Result.RESULT_INCORRECT_STATE)
        elif target == S.STATE_PLAYING:
            self._stopped = False
            self._loop.play()
            response.result = _ok()
        elif target == S.STATE_PAUSED and now == S.STATE_STOPPED:
            response.result = _failed(
                "A stopped simulation is paused by stepping or playing it.", response.INCORRECT_TRANSITION
            )
        elif target == S.STATE_PAUSED:
            self._loop.pause()
            response.result = _ok()
        elif target == S.STATE_STOPPED:
            self._loop.pause()
            self._loop.reset()
            self._stopped = True
            response.result = _ok()
        elif target == S.STATE_QUITTING:
            response.result = _ok()
            self._quit()
        else:
            response.result = _failed(
                f"The plant has no state {target}; it can be playing, paused, stopped or quitting.",
                response.INCORRECT_TRANSITION,
            )
        return response

    def _reset(self, request, response):
        scope = request.scope or request.SCOPE_ALL
        known = request.SCOPE_TIME | request.SCOPE_STATE | request.SCOPE_SPAWNED
        if scope != request.SCOPE_ALL and scope & ~known:
            response.result = _failed(f"Unknown reset scope {scope}.", Result.RESULT_FEATURE_UNSUPPORTED)
            return response
        try:
            self._loop.reset(
                time=bool(scope & request.SCOPE_TIME),
                state=bool(scope & request.SCOPE_STATE),
                spawned=bool(scope & request.SCOPE_SPAWNED),
            )
            response.result = _ok()
        except PlantError as error:
            response.result = _failed(error)
        return response

    def _cannot_step(self) -> Result | None:
        if self._loop.playing and not self._loop.halted:
            return _failed("The simulation is playing; pause it before stepping.", Result.RESULT_INCORRECT_STATE)
        if not self._may_play():
            return _failed("The plant node is not active; activate it first.", Result.RESULT_INCORRECT_STATE)
        return None

    def _step(self, request, response):
        response.result = self._cannot_step()
        if response.result is None:
            self._stopped = False
            response.result = self._finish(self._loop.step(request.steps))
        return response

    def _finish(self, future) -> Result:
        try:
            future.result(_STEP_TIMEOUT)
            return _ok()
        except (PlantError, TimeoutError) as error:
            return _failed(error)

    def _simulate_steps(self, goal):
        result = SimulateSteps.Result()
        refused = self._cannot_step()
        if refused is not None:
            goal.abort()
            result.result = refused
            return result
        self._stopped = False
        wanted = goal.request.steps
        future = self._loop.step(wanted)
        feedback = SimulateSteps.Feedback()
        while True:
            try:
                future.result(0.1)
            except TimeoutError:
                if goal.is_cancel_requested:
                    self._loop.cancel_steps()
            except PlantError:
                pass
            feedback.remaining_steps = future.ticks_left
            feedback.completed_steps = wanted - future.ticks_left
            goal.publish_feedback(feedback)
            if future.done():
                break
        result.result = self._finish(future)
        if result.result.result != Result.RESULT_OK:
            goal.abort()
        elif future.result() < wanted:
            result.result = _failed(f"Cancelled after {future.result()} of {wanted} steps.")
            goal.canceled()
        else:
            goal.succeed()
        return result

    # ---- entities --------------------------------------------------------------------------
    def _select(self, filters) -> tuple[list[str], Result]:
        """Names that pass the filters; filters of features not listed are refused."""
        if filters.tags.tags or filters.bounds.type:
            return [], _failed("Entities have neither tags nor bounds here.", Result.RESULT_FEATURE_UNSUPPORTED)
        try:
            pattern = re.compile(filters.filter)
        except re.error as error:
            return [], _failed(f"'{filters.filter}' is no regular expression: {error}.")
        wanted = {c.category for c in filters.categories}
        kinds = self._loop.call(lambda plant: plant.entities())
        return [
            name for name, kind in kinds.items() if pattern.search(name) and (not wanted or _CATEGORY[kind] in wanted)
        ], _ok()

    def _get_entities(self, request, response):
        response.entities, response.result = self._select(request.filters)
        return response

    def _get_entities_states(self, request, response):
        names, response.result = self._select(request.filters)
        response.entities = names
        response.states = self._loop.call(lambda plant: [self._state_message(plant, name) for name in names])
        return response

    def _get_entity_state(self, request, response):
        try:
            response.state = self._loop.call(lambda plant: self._state_message(plant, request.entity))
            response.result = _ok()
        except EntityError as error:
            response.result = _entity_failure(error)
        return response

    @staticmethod
    def _state_message(plant, name: str) -> EntityState:
        state, message = plant.entity_state(name), EntityState()
        message.header.stamp, message.header.frame_id = to_stamp(plant.t), "world"
        p, q = message.pose.position, message.pose.orientation
        p.x, p.y, p.z = map(float, state.position)
        q.w, q.x, q.y, q.z = map(float, state.quaternion)
        for vector, values in ((message.twist.linear, state.linear), (message.twist.angular, state.angular)):
            vector.x, vector.y, vector.z = map(float, values)
        return message

    def _set_entity_state(self, request, response):
        state, change = request.state, {}
        if request.set_acceleration:
            response.result = _failed(
                "Accelerations follow from forces and cannot be set.", Result.RESULT_FEATURE_UNSUPPORTED
            )
            return response
        if state.header.frame_id not in ("", "world"):
            response.result = _failed(
                f"Give the state in 'world', not in '{state.header.frame_id}'.", response.INVALID_POSE
            )
            return response
        if request.set_pose:
            p, q = state.pose.position, state.pose.orientation
            change.update(position=(p.x, p.y, p.z), quaternion=(q.w, q.x, q.y, q.z))
        if request.set_twist:
            v, w = state.twist.linear, state.twist.angular
            change.update(linear=(v.x, v.y, v.z), angular=(w.x, w.y, w.z))
        try:
            self._loop.call(lambda plant: plant.set_entity_state(request.entity, **change))
            response.result = _ok()
        except EntityError as error:
            response.result = _failed(error, response.INVALID_POSE) if error.kind == "pose" else _entity_failure(error)
        return response

    def _get_entity_info(self, request, response):
        kinds = self._loop.call(lambda plant: plant.entities())
        if request.entity not in kinds:
            response.result = _failed(
                f"No entity '{request.entity}'; there are: {', '.join(kinds)}.", Result.RESULT_NOT_FOUND
            )
            return response
        kind = kinds[request.entity]
        response.info.category.category = _CATEGORY[kind]
        response.info.description = {
            "robot": "the controlled robot",
            "dynamic": "a movable object",
            "static": "part of the scene",
        }[kind]
        response.result = _ok()
        return response

    def _spawn(self, request, response):
        if request.entity_namespace:
            response.result = _failed(
                "Spawned objects have no ROS interfaces, so no namespace.", response.NAMESPACE_INVALID
            )
            return response
        pose, frame = request.initial_pose.pose, request.initial_pose.header.frame_id
        parent = "" if frame in ("", "world") else frame.removeprefix(self._prefix)
        p, q = pose.position, pose.orientation
        resource = request.entity_resource

        def spawn(plant) -> str:
            name, taken, number = request.name, plant.entities(), 1
            while request.allow_renaming and (not name or name in taken):
                name, number = f"{request.name or 'object'}_{number}", number + 1
            plant.spawn(name, resource.uri, resource.resource_string, parent, (p.x, p.y, p.z), (q.w, q.x, q.y, q.z))
            return name

        try:
            response.entity_name = self._loop.call(spawn)
            response.result = _ok()
        except EntityError as error:
            response.result = _failed(error, _SPAWN_CODE.get(error.kind, Result.RESULT_OPERATION_FAILED))
        return response

    def _delete(self, request, response):
        try:
            self._loop.call(lambda plant: plant.delete(request.entity))
            response.result = _ok()
        except EntityError as error:
            response.result = _entity_failure(error)
        return response

    def _get_spawnables(self, request, response):
        response.spawnables = [
            Spawnable(entity_resource=Resource(uri=uri), description=text) for uri, text in SPAWNABLES.items()
        ]
        response.result = _ok()
        return response
