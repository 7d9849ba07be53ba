"""Text that is partly known only at run time."""

import collections.abc

from ..substitution import Substitution


def is_a(obj, entity_type):
    """Return True if obj is an instance of entity_type."""
    return isinstance(obj, entity_type)


def is_a_subclass(obj, entity_type):
    """Return True if obj is an instance or a subclass of entity_type."""
    if isinstance(obj, type):
        return issubclass(obj, entity_type)
    return isinstance(obj, entity_type)


def ensure_argument_type(argument, types, argument_name, caller=None):
    """Raise TypeError unless the argument is an instance of one of the types."""
    types = tuple(types) if isinstance(types, collections.abc.Iterable) else (types,)
    if not isinstance(argument, types):
        where = f" of {caller}" if caller else ""
        expected = ", ".join(t.__name__ for t in types)
        raise TypeError(
            f"argument '{argument_name}'{where}: expected {expected}, found {argument!r} ({type(argument).__name__})"
        )


def normalize_to_list_of_substitutions(subs):
    """Return a list of Substitution from text, a substitution, or an iterable of both.

    Raises:
        TypeError: an element is neither; a number has to be written as text.
    """
    from ..substitutions.text_substitution import TextSubstitution

    if isinstance(subs, Substitution):
        return [subs]
    if isinstance(subs, str):
        return [TextSubstitution(text=subs)]
    if hasattr(subs, "__fspath__"):
        return [TextSubstitution(text=str(subs))]
    if isinstance(subs, collections.abc.Iterable):
        return [s for sub in subs for s in normalize_to_list_of_substitutions(sub)]
    raise TypeError(f"expected text or a substitution, found {subs!r} ({type(subs).__name__}); write {str(subs)!r}")


def perform_substitutions(context, subs):
    """Return the text of a list of substitutions joined."""
    return "".join(context.perform_substitution(sub) for sub in subs)
