"""Describe a set of processes, start it, watch it, stop it.

The part of ROS 2 Jazzy's `launch` that this project uses, for environments in
which that package does not exist; docs/launch.md says what is left out and
what differs. Where the real package is installed, this one is not on the path.
"""

from . import (
    actions,
    conditions,
    descriptions,
    event_handlers,
    events,
    launch_description_sources,
    logging,
    substitutions,
    utilities,
)
from .action import Action
from .condition import Condition
from .event import Event
from .event_handler import BaseEventHandler, EventHandler
from .launch_context import LaunchContext
from .launch_description import LaunchDescription
from .launch_description_entity import LaunchDescriptionEntity
from .launch_description_source import LaunchDescriptionSource
from .launch_service import LaunchService
from .some_actions_type import SomeActionsType
from .some_entities_type import SomeEntitiesType
from .some_substitutions_type import SomeSubstitutionsType, SomeSubstitutionsType_types_tuple
from .substitution import Substitution

__all__ = [
    "actions",
    "conditions",
    "descriptions",
    "event_handlers",
    "events",
    "launch_description_sources",
    "logging",
    "substitutions",
    "utilities",
    "Action",
    "BaseEventHandler",
    "Condition",
    "Event",
    "EventHandler",
    "LaunchContext",
    "LaunchDescription",
    "LaunchDescriptionEntity",
    "LaunchDescriptionSource",
    "LaunchService",
    "SomeActionsType",
    "SomeEntitiesType",
    "SomeSubstitutionsType",
    "SomeSubstitutionsType_types_tuple",
    "Substitution",
]
