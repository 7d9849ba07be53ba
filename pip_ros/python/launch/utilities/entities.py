"""Walking through entities."""

import collections.abc

from ..launch_description_entity import LaunchDescriptionEntity


def normalize_to_list_of_entities(entities):
    """Return a flat list from None, one entity, or an iterable of entities."""
    if entities is None:
        return []
    if isinstance(entities, LaunchDescriptionEntity):
        return [entities]
    if not isinstance(entities, collections.abc.Iterable) or isinstance(entities, str):
        raise TypeError(f"expected an action or a list of actions, found {entities!r} ({type(entities).__name__})")
    return [e for entity in entities for e in normalize_to_list_of_entities(entity)]


def visit_all_entities_and_collect_futures(entity, context):
    """Visit an entity and all that it yields, depth first.

    Returns:
        Pairs (entity, future) of everything that keeps the launch alive.
    """
    yielded = entity.visit(context)
    future = entity.get_asyncio_future()
    pairs = [] if future is None else [(entity, future)]
    for sub_entity in normalize_to_list_of_entities(yielded):
        pairs += visit_all_entities_and_collect_futures(sub_entity, context)
    return pairs
