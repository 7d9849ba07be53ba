"""One entity or an iterable of entities."""

from typing import Iterable, Union

from .launch_description_entity import LaunchDescriptionEntity

SomeEntitiesType = Union[LaunchDescriptionEntity, Iterable[LaunchDescriptionEntity]]

SomeEntitiesType_types_tuple = (LaunchDescriptionEntity, Iterable)
