"""Text from substitutions turned into numbers, booleans and lists by YAML's rules."""

import collections.abc
from typing import get_args, get_origin

import yaml

from ..substitution import Substitution
from .substitutions import normalize_to_list_of_substitutions, perform_substitutions

SCALAR_TYPES = (int, float, bool, str)
LIST_TYPES = (list[int], list[float], list[bool], list[str])


def is_substitution(value):
    """Return True for a substitution or an iterable that contains one."""
    if isinstance(value, Substitution):
        return True
    return (
        isinstance(value, collections.abc.Iterable)
        and not isinstance(value, (str, bytes))
        and any(is_substitution(v) for v in value)
    )


def is_typing_list(data_type):
    return get_origin(data_type) is list


def is_instance_of(value, data_type):
    """Return True if value has data_type; None accepts every scalar and uniform list.

    bool is not an int here, and an int is not a float: ROS parameters tell them apart.
    """
    if data_type is None:
        return any(is_instance_of(value, t) for t in SCALAR_TYPES + LIST_TYPES)
    if is_typing_list(data_type):
        (item,) = get_args(data_type)
        return isinstance(value, (list, tuple)) and all(is_instance_of(v, item) for v in value)
    return type(value) is data_type


def type_name(data_type):
    return (
        str(data_type).replace("typing.", "")
        if is_typing_list(data_type)
        else getattr(data_type, "__name__", "a scalar or a uniform list")
    )


def coerce_to_type(text, data_type=None, *, can_be_str=True):
    """Return the value written in text.

    Args:
        text: as in a YAML file, e.g. '1.5', 'true', '[1, 2]'.
        data_type: int, float, bool, str, List[...] of these, or None for YAML's own choice.
        can_be_str: with None, whether text that YAML does not recognise may stay text.

    Raises:
        ValueError: the text does not denote such a value.
    """
    if data_type is str:
        return text
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"cannot read {text!r} as YAML: {error}") from error
    if data_type is None:
        if not can_be_str and isinstance(value, str):
            raise ValueError(f"expected a number, boolean or list, found text {text!r}")
        return value if is_instance_of(value, None) else text
    if data_type is float and type(value) is int:
        value = float(value)
    if data_type is float and isinstance(value, str):
        # YAML 1.1 reads 1e-3 (no dot) as text; a person means the number.
        try:
            value = float(value)
        except ValueError:
            pass
    if data_type == list[float] and isinstance(value, list):
        value = [float(v) if type(v) is int else v for v in value]
    if data_type == list[str] and isinstance(value, list):
        value = [v if isinstance(v, str) else str(v) for v in value]
    if not is_instance_of(value, data_type):
        raise ValueError(f"expected {type_name(data_type)}, found {text!r}")
    return value


def normalize_typed_substitution(value, data_type):
    """Return value unchanged if it is plain and of the type, else a list of substitutions."""
    if is_substitution(value):
        if is_typing_list(data_type) and not isinstance(value, Substitution):
            return [normalize_to_list_of_substitutions(v) if is_substitution(v) else v for v in value]
        return normalize_to_list_of_substitutions(value)
    if data_type is float and type(value) is int:
        return float(value)
    if not is_instance_of(value, data_type):
        if isinstance(value, str):
            return normalize_to_list_of_substitutions(value)
        raise TypeError(f"expected {type_name(data_type)} or a substitution, found {value!r} ({type(value).__name__})")
    return value


def perform_typed_substitution(context, value, data_type):
    """Return the value of what `normalize_typed_substitution` returned."""
    if not is_substitution(value):
        return value
    if all(isinstance(v, Substitution) for v in value):
        return coerce_to_type(perform_substitutions(context, value), data_type)
    item = get_args(data_type)[0] if is_typing_list(data_type) else None
    return [perform_typed_substitution(context, v, item) for v in value]
