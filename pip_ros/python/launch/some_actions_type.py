"""One action or an iterable of actions."""

from typing import Iterable, Union

from .launch_description_entity import LaunchDescriptionEntity

SomeActionsType = Union[LaunchDescriptionEntity, Iterable[LaunchDescriptionEntity]]

SomeActionsType_types_tuple = (LaunchDescriptionEntity, Iterable)
