"""A node that is started again where its process has died, without another launch.

    node = respawned(lambda **options: LifecycleNode(..., **options), autostart=True)

It begins as at the launch: unconfigured, then configured and activated. What it knew is gone, so only nodes for which that is safe shall be
respawned: those of telepresence move nothing before a person has opened and pressed a clutch anew.

Launch files alone import this module, so that nodes stay free of `launch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from launch.actions import EmitEvent, LogInfo, RegisterEventHandler, TimerAction
from launch.event_handlers import OnProcessStart
from launch.events import matches_action
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from lifecycle_msgs.msg import Transition

__all__ = ["respawned"]

#: [s] before a node that has died is started again: one that dies at once shall not take the machine
DELAY = 1.0


def respawned(make: Callable[..., LifecycleNode], autostart: bool) -> LifecycleNode:
    """The node, and after its death another like it; one that ends well has been asked to, and stays away.

    Args:
        make: makes it, given `autostart` and `on_exit`, which it passes on to LifecycleNode.
        autostart: configure and activate it, at every start.
    """

    def again(event: Any, context: Any) -> list:
        if context.is_shutdown or event.returncode == 0:
            return []
        # Not by its own autostart, which goes by the name and so would lead the dead one as well.
        node = make(autostart=False, on_exit=again)
        said = LogInfo(msg=f"{event.process_name} has died (exit code {event.returncode}); it is started again")
        return [said, TimerAction(period=DELAY, actions=[*(_led(node) if autostart else []), node])]

    return make(autostart=autostart, on_exit=again)


def _led(node: LifecycleNode) -> list[RegisterEventHandler]:
    """Handlers that configure and activate this node and no other of its name."""

    def ask(transition: int) -> list[EmitEvent]:
        return [EmitEvent(event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition))]

    return [
        RegisterEventHandler(OnProcessStart(target_action=node, on_start=ask(Transition.TRANSITION_CONFIGURE))),
        RegisterEventHandler(
            OnStateTransition(
                target_lifecycle_node=node,
                start_state="configuring",
                goal_state="inactive",
                entities=ask(Transition.TRANSITION_ACTIVATE),
                # On a busy machine the node's own report comes after the launch has told the transition in its place.
                handle_once=True,
            )
        ),
    ]
