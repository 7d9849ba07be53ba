"""The `parameters=` of a node: dictionaries and files, before and after substitution.

How a dictionary's values become parameters, as in the real package:
    plain bool, int, float, str      themselves
    a substitution                   YAML decides the type of its text
    ParameterValue(..., value_type)  the given type
    [numbers], [bools], [texts]      an array; ints among floats become floats
    [texts and substitutions]        ONE value: the texts joined, then YAML decides
    [[...], [...]] of these          an array, each item by the rule above
    a dictionary                     a group of parameters: outer.inner
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from launch.substitution import Substitution
from launch.substitutions import TextSubstitution
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions
from launch.utilities.type_utils import coerce_to_type, is_instance_of, is_substitution

from ..parameter_descriptions import Parameter, ParameterFile, ParameterValue


class Yaml:
    """A value that YAML reads from the joined text of substitutions."""

    def __init__(self, subs):
        self.subs = normalize_to_list_of_substitutions(subs)

    def evaluate(self, context):
        return coerce_to_type(perform_substitutions(context, self.subs))


class Array:
    """A uniform array of items that are evaluated one by one."""

    def __init__(self, items):
        self.items = items

    def evaluate(self, context):
        values = [coerce_to_type(perform_substitutions(context, item)) for item in self.items]
        if not is_instance_of(values, None):
            raise TypeError(f"expected items of one type, found {values!r}")
        return values


def normalize_parameters(parameters):
    """Check the types of `parameters=`, so that mistakes show where they are made.

    Returns:
        A list of dicts {substitutions: value}, ParameterFile and Parameter.

    Raises:
        TypeError: not a list of dictionaries, paths and descriptions.
    """
    if isinstance(parameters, (str, Mapping)) or not isinstance(parameters, Sequence):
        raise TypeError(f"parameters: expected a list of dictionaries and files, found {parameters!r}")
    normalized = []
    for item in parameters:
        if isinstance(item, Mapping):
            normalized.append(_normalize_dict(item))
        elif isinstance(item, (ParameterFile, Parameter)):
            normalized.append(item)
        elif isinstance(item, (str, Path)) or is_substitution(item):
            normalized.append(ParameterFile(item))
        else:
            raise TypeError(f"parameters: expected a dictionary or a path, found {item!r}")
    return normalized


def _normalize_dict(parameters, prefix=()):
    normalized = {}
    for name, value in parameters.items():
        key = (*prefix, *normalize_to_list_of_substitutions(name))
        if isinstance(value, Mapping):
            normalized.update(_normalize_dict(value, (*key, TextSubstitution(text="."))))
        else:
            normalized[key] = _normalize_value(name, value)
    return normalized


def _normalize_value(name, value):
    if isinstance(value, (bool, int, float, str, ParameterValue)):
        return value
    if isinstance(value, Substitution):
        return Yaml(value)
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return _normalize_value(name, value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, bytes) and len(value):
        return _normalize_array(name, list(value))
    if isinstance(value, Sequence) and len(value) == 0:
        raise TypeError(
            f"parameter '{name}': an empty list has no type; leave it out and let the node declare its default"
        )
    raise TypeError(
        f"parameter '{name}': expected a number, boolean, text, list or "
        f"substitution, found {value!r} ({type(value).__name__})"
    )


def _normalize_array(name, items):
    types = {type(item) for item in items}
    if types == {int, float}:
        return [float(item) for item in items]
    if len(types) == 1 and types <= {bool, int, float, str}:
        return items
    if any(isinstance(item, Substitution) for item in items):
        return Yaml(items)
    if all(isinstance(item, (list, tuple)) for item in items):
        return Array([normalize_to_list_of_substitutions(item) for item in items])
    # As the real package: dissimilar plain items become an array of text.
    if all(isinstance(item, (bool, int, float, str)) for item in items):
        return [yaml.safe_dump(item).split("\n")[0] if not isinstance(item, str) else item for item in items]
    raise TypeError(f"parameter '{name}': cannot make an array of {items!r}")


def evaluate_parameters(context, parameters):
    """Return what normalize_parameters returned, with all substitutions performed.

    Returns:
        A list of dicts {name: value}, paths and pairs (name, value).
    """
    evaluated = []
    for item in parameters:
        if isinstance(item, dict):
            evaluated.append(
                {perform_substitutions(context, name): _evaluate(context, name, value) for name, value in item.items()}
            )
        else:
            evaluated.append(item.evaluate(context))
    return evaluated


def _evaluate(context, name, value):
    if not hasattr(value, "evaluate"):
        return value
    try:
        return value.evaluate(context)
    except (TypeError, ValueError) as error:
        raise type(error)(f"parameter '{perform_substitutions(context, name)}': {error}") from error


class _Dumper(yaml.SafeDumper):
    """Quotes all text: rcl's parser takes some words for numbers that PyYAML would not quote."""


class _Text(str):
    pass


_Dumper.add_representer(_Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'"))


def _quoted(value):
    if isinstance(value, str):
        return _Text(value)
    if isinstance(value, (list, tuple)):
        return [_quoted(item) for item in value]
    return value


def to_parameter_file_text(node_name, parameters):
    """Return the YAML text that gives the parameters to the node of this full name or '/**'."""
    values = {name: _quoted(value) for name, value in parameters.items()}
    return yaml.dump(
        {node_name: {"ros__parameters": values}}, Dumper=_Dumper, default_flow_style=False, width=float("inf")
    )


def to_parameter_rule(name, value):
    """Return 'name:=value' for the option -p."""
    text = yaml.dump(_quoted(value), Dumper=_Dumper, default_flow_style=True, width=float("inf"))
    return f"{name}:={text.removesuffix(chr(10)).removesuffix('...').strip()}"
