"""Messages as text: YAML, or values separated by commas; and one field of a message."""

import re
from collections.abc import Mapping

import yaml
from rosidl_parser.definition import AbstractNestedType, Array, BoundedSequence, NamespacedType

from .errors import UsageError, choices
from .values import message_class, slot_name, type_name

#: elements of lists and characters of text that are shown unless all are asked for
LIMIT = 128
#: field and index of a part of a path, and a step along it, which is one of the two
_PART, _STEP = re.compile(r"(\w+)(\[-?\d+\])?\Z"), re.compile(r"(\w+)|\[(-?\d+)\]")


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
    def ignore_aliases(self, data):
        return True


def to_yaml(value, limit=None, arrays=True, strings=True, flow=False):
    """A message, or a value that `plain` takes, as YAML that `values.fill` reads back.

    Args:
        limit: longer lists and texts are cut off, with "..." at their end; None: none is.
        arrays, strings: whether their contents are shown, or type and length alone.
        flow: on one line.
    """
    shown = plain(value, limit, arrays, strings)
    if not isinstance(shown, dict | list):
        return f"{shown}\n"
    return yaml.dump(
        shown, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31 - 1, default_flow_style=flow
    )


def to_csv(value, limit=None, arrays=True, strings=True):
    """All values of a message, in the order of its fields, on one line."""
    return ",".join(_leaves(plain(value, limit, arrays, strings)))


def _leaves(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield str(value)


def plain(value, limit=None, arrays=True, strings=True, slot=None):
    """A message as dicts, lists, numbers and text; see `to_yaml`."""
    if hasattr(value, "SLOT_TYPES"):
        fields = zip(value.get_fields_and_field_types(), value.SLOT_TYPES, strict=True)
        return {name: plain(getattr(value, name), limit, arrays, strings, slot) for name, slot in fields}
    if isinstance(value, Mapping):
        return {name: plain(inner, limit, arrays, strings) for name, inner in value.items()}
    if isinstance(value, bytes):
        value = value.decode("latin-1")
        return value if limit is None or len(value) <= limit else f"{value[:limit]}..."
    if isinstance(value, str):
        if not strings:
            return f"<string length: <{len(value)}>>"
        return value if limit is None or len(value) <= limit else f"{value[:limit]}..."
    if getattr(value, "ndim", None) == 0:  # a number of numpy's
        return value.item()
    if isinstance(value, bool | int | float):
        return value
    if not arrays and slot is not None:
        return _outline(value, slot)
    shown = value if limit is None else value[:limit]
    items = shown.tolist() if hasattr(shown, "tolist") else shown
    return [plain(item, limit, arrays, strings) for item in items] + (["..."] if len(shown) < len(value) else [])


def _outline(value, slot):
    kind = slot_name(slot.value_type)
    if isinstance(slot, Array):
        return f"<array type: {kind}[{slot.size}]>"
    if isinstance(slot, BoundedSequence):
        return f"<sequence type: {kind}[{slot.maximum_size}], length: {len(value)}>"
    return f"<sequence type: {kind}, length: {len(value)}>"


def pick(message, path):
    """The part of a message that a path such as "pose.position.x" or "name[0]" names, which `check` has let pass.

    Raises:
        UsageError: a list has no such element.
    """
    value = message
    for name, index in _STEP.findall(path):
        try:
            value = getattr(value, name) if name else value[int(index)]
        except IndexError:
            raise UsageError(f"--field: there is no element [{index}] in '{path}': it has {len(value)}") from None
    return value


def check(kind, path):
    """Refuse a path that names no field of a message's class, before a message comes.

    Raises:
        UsageError: names the field that is not there, or is no list.
    """
    where = kind
    for part in path.split("."):
        match = _PART.match(part)
        if match is None:
            raise UsageError(f"'{path}' is not the name of a field, expected field.field or field[0]")
        fields = dict(zip(where.get_fields_and_field_types(), where.SLOT_TYPES, strict=True)) if where else {}
        if match[1] not in fields:
            owner = type_name(where) if where else f"what comes before it in '{path}'"
            raise UsageError(f"--field: {owner} has no field '{match[1]}'; {choices(match[1], fields)}")
        slot = fields[match[1]]
        if match[2] and not isinstance(slot, AbstractNestedType):
            raise UsageError(f"--field: '{match[1]}' of {type_name(where)} is no list")
        if match[2]:
            slot = slot.value_type
        where = message_class(slot) if isinstance(slot, NamespacedType) else None
