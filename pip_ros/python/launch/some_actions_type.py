"""One action or an iterable of actions."""

from collections.abc import Iterable
from typing import Union

from .launch_description_entity import LaunchDescriptionEntity

SomeActionsType = Union[LaunchDescriptionEntity, Iterable[LaunchDescriptionEntity]]

SomeActionsType_types_tuple = (LaunchDescriptionEntity, Iterable)
