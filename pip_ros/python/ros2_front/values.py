"""Values written as YAML become the fields of a message, each checked against its type.

The setters of generated messages check nothing by default, and what is wrong in them ends the process when it is sent.
"""

import importlib
import math

import yaml
from rosidl_parser.definition import (
    AbstractNestedType,
    AbstractSequence,
    AbstractString,
    AbstractWString,
    Array,
    BasicType,
    BoundedSequence,
    NamespacedType,
)

from .errors import UsageError, choices

#: integers by their bits
_INTEGERS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {"float": 3.4028234663852886e38, "double": math.inf}
#: what is filled in anew before each publication: a header with the time of now, or a time
AUTO, NOW = "auto", "now"


def parse(text):
    """{field: value} of a text in YAML; an empty text is {}.

    Raises:
        UsageError: it is no YAML, or no mapping.
    """
    try:
        values = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error)
        raise UsageError(
            f"the values are no YAML ({' '.join(str(problem).split())}); write them as '{{field: value}}'"
        ) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(f"the values have to be fields, as '{{field: value}}'; found {_told(values)}")
    return values


def fill(message, values, where=""):
    """Set fields of a message.

    Args:
        message: changed in place. values: {field: value}, of nested messages likewise. where: the message's own place.

    Returns:
        The times in it (builtin_interfaces/Time) that are to be those of now, as `auto` or `now` has asked for.

    Raises:
        UsageError: names the field, what was expected and what was found.
    """
    if not isinstance(values, dict):
        raise UsageError(
            f"{where or 'the values'}: expected fields of {type_name(type(message))}, found {_told(values)}"
        )
    fields = dict(zip(message.get_fields_and_field_types(), message.SLOT_TYPES, strict=True))
    stamps = []
    for name, value in values.items():
        place = f"{where}.{name}" if where else str(name)
        if name not in fields:
            raise UsageError(f"{place}: {type_name(type(message))} has no such field; {choices(str(name), fields)}")
        converted, times = _converted(value, fields[name], place)
        setattr(message, name, converted)
        stamps += times
    return stamps


def type_name(kind):
    """ "package/msg/Type" of a message's class."""
    package, group = kind.__module__.split(".")[:2]
    return f"{package}/{group}/{kind.__name__}"


def message_class(slot):
    """The class of a NamespacedType."""
    return getattr(importlib.import_module(".".join(slot.namespaces)), slot.name)


def _converted(value, slot, place):
    """(value as the field holds it, times to be stamped in it)"""
    if isinstance(slot, AbstractNestedType):
        return _sequence(value, slot, place)
    if isinstance(slot, NamespacedType):
        return _nested(value, slot, place)
    if isinstance(slot, AbstractString | AbstractWString):
        return _text(value, slot, place), []
    assert isinstance(slot, BasicType), slot
    return _basic(value, slot.typename, place), []


def _nested(value, slot, place):
    message = message_class(slot)()
    kind = type_name(type(message))
    if value == AUTO and kind == "std_msgs/msg/Header":
        return message, [message.stamp]
    if value == NOW and kind == "builtin_interfaces/msg/Time":
        return message, [message]
    return message, fill(message, value, place)


def _sequence(value, slot, place):
    if not isinstance(value, list):
        raise UsageError(f"{place}: expected {_expected(slot)}, found {_told(value)}")
    if isinstance(slot, Array) and len(value) != slot.size:
        raise UsageError(f"{place}: expected {_expected(slot)}, found a list of {len(value)}")
    if isinstance(slot, BoundedSequence) and len(value) > slot.maximum_size:
        raise UsageError(f"{place}: expected {_expected(slot)}, found a list of {len(value)}")
    pairs = [_converted(item, slot.value_type, f"{place}[{index}]") for index, item in enumerate(value)]
    return [item for item, _ in pairs], [stamp for _, stamps in pairs for stamp in stamps]


def _text(value, slot, place):
    if not isinstance(value, str):
        quoted = f"; put it in quotes: '{value}'" if isinstance(value, int | float) else ""
        raise UsageError(f"{place}: expected text ({slot_name(slot)}), found {_told(value)}{quoted}")
    if slot.has_maximum_size() and len(value) > slot.maximum_size:
        raise UsageError(f"{place}: expected text of at most {slot.maximum_size} characters, found {len(value)}")
    return value


def _basic(value, kind, place):
    if kind == "boolean":
        if isinstance(value, bool):
            return value
        raise UsageError(f"{place}: expected true or false, found {_told(value)}")
    if kind == "octet":
        return _octet(value, place)
    if kind in _FLOATS:
        return _float(value, kind, place)
    sign, bits = _INTEGERS[kind]
    low, high = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{place}: expected a whole number ({kind}), found {_told(value)}")
    if not low <= value <= high:
        raise UsageError(f"{place}: expected a whole number from {low} to {high} ({kind}), found {value}")
    return value


def _octet(value, place):
    """A byte, as a number or as the character that `ros2 topic echo` prints."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 255:
        return bytes([value])
    if isinstance(value, str) and len(value) == 1 and ord(value) <= 255:
        return bytes([ord(value)])
    raise UsageError(f"{place}: expected a byte, a number from 0 to 255 or one character, found {_told(value)}")


def _float(value, kind, place):
    number = value
    if isinstance(value, str):  # YAML takes 1e-3 for text
        try:
            number = float(value)
        except ValueError:
            number = None
    if number is None or isinstance(number, bool) or not isinstance(number, int | float):
        raise UsageError(f"{place}: expected a number ({kind}), found {_told(value)}")
    try:
        number = float(number)
    except OverflowError:
        number = math.nan
        too_large = True
    else:
        too_large = math.isfinite(number) and abs(number) > _FLOATS[kind]
    if too_large:
        raise UsageError(f"{place}: expected a number that {kind} can hold, found {value}")
    return number


def slot_name(slot):
    """The name of an element's type, as definitions write it."""
    if isinstance(slot, BasicType):
        return slot.typename
    if isinstance(slot, AbstractString):
        return "string"
    if isinstance(slot, AbstractWString):
        return "wstring"
    return "/".join(slot.namespaced_name())


def _expected(slot):
    kind = slot_name(slot.value_type)
    if isinstance(slot, Array):
        return f"a list of {slot.size} ({kind}[{slot.size}])"
    if isinstance(slot, BoundedSequence):
        return f"a list of at most {slot.maximum_size} ({kind}[<={slot.maximum_size}])"
    assert isinstance(slot, AbstractSequence), slot
    return f"a list ({kind}[])"


def _told(value):
    """A value as a sentence tells it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "fields (" + ", ".join(map(str, list(value)[:4])) + ")"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
