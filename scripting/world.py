"""The simulated world around a robot, through the standard simulation_interfaces and the plant's live parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from geometry_msgs.msg import Point, PoseStamped, Quaternion
from simulation_interfaces.msg import EntityCategory, EntityFilters, Resource, Result, SimulationState
from simulation_interfaces.srv import (
    DeleteEntity,
    GetEntitiesStates,
    GetSimulationState,
    ResetSimulation,
    SetSimulationState,
    SpawnEntity,
)

from scripting.client import GraphClient
from scripting.errors import UsageError

__all__ = ["World"]

PLANT = "sim_plant"


class World:
    """Time, changes and objects of a simulation.

    Args:
        client: of the graph that the plant is in.
    """

    def __init__(self, client: GraphClient) -> None:
        self._client = client

    # -- time --------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        """The plant's time [s]."""
        filters = EntityFilters(categories=[EntityCategory(category=EntityCategory.CATEGORY_ROBOT)])
        answer = self._client.call(GetEntitiesStates, "get_entities_states", GetEntitiesStates.Request(filters=filters))
        self._check(answer.result, "get_entities_states")
        stamp = answer.states[0].header.stamp
        return stamp.sec + 1e-9 * stamp.nanosec

    @property
    def stands_still(self) -> bool:
        """Whether time stands still."""
        answer = self._client.call(GetSimulationState, "get_simulation_state")
        return answer.state.state != SimulationState.STATE_PLAYING

    def play(self) -> None:
        """Let time run."""
        self._set(SimulationState.STATE_PLAYING)

    def pause(self) -> None:
        """Let time stand still; whoever moves stays as it is until time runs again."""
        self._set(SimulationState.STATE_PAUSED)

    def _set(self, state: int) -> None:
        request = SetSimulationState.Request(state=SimulationState(state=state))
        result = self._client.call(SetSimulationState, "set_simulation_state", request).result
        if result.result != SetSimulationState.Response.ALREADY_IN_TARGET_STATE:
            self._check(result, "set_simulation_state")

    def reset(self, *, time: bool = False, state: bool = True, spawned: bool = False) -> None:
        """Back to the start, in any of three scopes.

        Args:
            time: the clock is zero again, and changes of the world made by time are undone until their time comes.
            state: joints and free objects.
            spawned: what was spawned is gone.
        """
        R = ResetSimulation.Request
        scope = time * R.SCOPE_TIME | state * R.SCOPE_STATE | spawned * R.SCOPE_SPAWNED
        if scope:
            self._check(
                self._client.call(ResetSimulation, "reset_simulation", R(scope=scope)).result, "reset_simulation"
            )

    # -- changes -----------------------------------------------------------------------------------

    def change(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Add events to the plant's scenario; those without a time happen now.

        Raises:
            UsageError: an event cannot happen on this robot; nothing is changed.
        """
        # The plant undoes and repeats its scenario when it is replaced, so the whole story keeps its times, and a reset of
        # time begins it anew.
        now = round(self.time, 9)
        story = [*self._scenario(), *({"time": now, **event} for event in events)]
        if why := self._client.set_parameter(
            PLANT, "scenario", yaml.safe_dump(story, default_flow_style=True, width=1e9)
        ):
            raise UsageError(why)

    def restore(self) -> None:
        """Undo every change; what was spawned stays."""
        if why := self._client.set_parameter(PLANT, "scenario", ""):
            raise UsageError(why)

    def _scenario(self) -> list[dict]:
        told = yaml.safe_load(self._client.parameters(PLANT, ["scenario"])["scenario"] or "[]")
        return (yaml.safe_load(Path(told).expanduser().read_text()) or []) if isinstance(told, str) else told

    def spawn(
        self,
        name: str,
        resource: str,
        position: Sequence[float] = (0.0, 0.0, 0.0),
        quaternion: Sequence[float] = (1.0, 0.0, 0.0, 0.0),
        frame: str = "world",
    ) -> None:
        """Put an object into the world.

        Args:
            name: a new one.
            resource: `refit:box?mass=2&size=0.05,0.05,0.05` (also sphere, capsule, cylinder), `file:///….xml`, or MJCF text.
            position: (3,) [m] and quaternion: (w, x, y, z), in `frame`.
            frame: "world" for a free object, or the body or site that it is welded to.

        Raises:
            UsageError: it cannot be put there; the text says why.
        """
        given = Resource(resource_string=resource) if resource.lstrip().startswith("<") else Resource(uri=resource)
        pose = PoseStamped()
        pose.header.frame_id = frame
        x, y, z = map(float, position)
        pose.pose.position = Point(x=x, y=y, z=z)
        w, x, y, z = map(float, quaternion)
        pose.pose.orientation = Quaternion(w=w, x=x, y=y, z=z)
        request = SpawnEntity.Request(name=name, entity_resource=given, initial_pose=pose)
        self._check(self._client.call(SpawnEntity, "spawn_entity", request).result, f"spawn {name}")

    def remove(self, name: str) -> None:
        """Take out what was spawned or attached.

        Raises:
            UsageError: there is no such object.
        """
        self._check(
            self._client.call(DeleteEntity, "delete_entity", DeleteEntity.Request(entity=name)).result, f"remove {name}"
        )

    @staticmethod
    def _check(result: Result, what: str) -> None:
        if result.result != Result.RESULT_OK:
            raise UsageError(f"{what}: {result.error_message}")
