"""From what a person wrote in YAML to frozen dataclasses: every key is known, every value has its type and is in its range.

    @dataclass(frozen=True)
    class Payload:
        mass: float = key("kg", (0.0, 100.0), "appears in the hand")

    payload = read(Payload, {"mass": 2.0}, "demo")

A field is of a scalar type, a tuple, a dict, a dataclass, or a union of dataclasses, which the key `kind` tells apart: each
of them has a class attribute of that name.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import types
import typing
from pathlib import Path
from typing import Any

import yaml

from config import yaml_text

__all__ = ["TypedError", "key", "keys", "read", "read_file"]

_NUMBERS = {float: "a number", int: "a whole number"}
_WORDS = {bool: "true or false", str: "a text", **_NUMBERS}


class TypedError(ValueError):
    """A key that is unknown or missing, or a value that cannot be; one sentence names it, what was expected and what was found."""


def key(
    unit: str = "",
    limits: tuple[float, float] | None = None,
    purpose: str = "",
    *,
    default: Any = dataclasses.MISSING,
    factory: Any = dataclasses.MISSING,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field of a dataclass that `read` fills.

    Args:
        unit: of the number, or of each number of a tuple; "" without one.
        limits: smallest and largest number.
        purpose: what it does, in a few words.
        default, factory: the value, or what makes it, where the key may be left out.
        choices: the texts that are allowed; empty: any.
    """
    metadata = {"unit": unit, "limits": limits, "purpose": purpose, "choices": choices}
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def keys(kind: Any, where: str = "") -> list[tuple[str, dataclasses.Field[Any]]]:
    """(dotted key, field) of a dataclass and of the dataclasses within it, in order; what `read` does not fill is left out.

    Keys of the elements of a tuple or dict are below the key itself; those of a union are those of all its members, so that
    a key may come twice.
    """
    found: list[tuple[str, dataclasses.Field[Any]]] = []
    hints = _hints(kind)
    for field in dataclasses.fields(kind):
        if not field.metadata:
            continue
        name = f"{where}.{field.name}".lstrip(".")
        found.append((name, field))
        for inner in _dataclasses_in(hints[field.name]):
            found += keys(inner, name)
    return found


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields; its annotations are texts, each of which costs a compilation."""
    return typing.get_type_hints(kind)


def read(kind: Any, value: Any, where: str = "", **given: Any) -> Any:
    """`value`, as YAML gave it, as an instance of `kind`.

    Args:
        kind: a type as the module's description lists them.
        where: dotted key of the value, for the text of an error; "" at the top.
        **given: fields of `kind` that do not come from the file.

    Raises:
        TypedError: see there.
    """
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, value, where, given)
    return _read_value(kind, value, where, {})


def read_file(kind: Any, path: Path, nothing: Any = None, **given: Any) -> Any:
    """A YAML file as an instance of `kind`.

    Args:
        nothing: what an empty file says. kind, given: as for `read`.

    Raises:
        FileNotFoundError: there is none.
        TypedError: it cannot be read, or `read` refuses it; the sentence begins with the path.
    """
    try:
        document = yaml_text.load(path.read_text(encoding="utf-8"))
        return read(kind, nothing if document is None else document, **given)
    except FileNotFoundError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        raise TypedError(f"{path} is no YAML: {place}{getattr(error, 'problem', None) or error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TypedError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except TypedError as error:
        raise TypedError(f"{path}: {error}") from None


def _read_dataclass(kind: Any, value: Any, where: str, given: dict[str, Any]) -> Any:
    value = _mapping(value, where)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.metadata}
    known = [*fields, *(["kind"] if hasattr(kind, "kind") else [])]
    for name in value:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"expected only {', '.join(known)}"
            raise TypedError(f"{_dotted(where, name)} is no key here; {hint}")
    hints = _hints(kind)
    values = dict(given)
    for name, field in fields.items():
        if name in value:
            values[name] = _read_value(hints[name], value[name], _dotted(where, name), dict(field.metadata))
        elif field.default is field.default_factory is dataclasses.MISSING:
            wanted = _expected(hints[name], dict(field.metadata))
            raise TypedError(f"{_dotted(where, name)} is missing; expected {wanted}: {field.metadata['purpose']}")
    try:
        return kind(**values)
    except ValueError as error:  # a dataclass's own checks name the keys below it
        raise TypedError(f"{_dotted(where, str(error))}") from None


def _read_value(kind: Any, value: Any, where: str, metadata: dict[str, Any]) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        arguments = tuple(argument for argument in arguments if argument is not type(None))
        if not all(map(dataclasses.is_dataclass, arguments)):
            return _read_scalar(arguments, value, where, metadata)
        return read(_member(arguments, _mapping(value, where), where), value, where)
    if dataclasses.is_dataclass(kind):
        return read(kind, value, where)
    if origin is tuple:
        count = None if arguments[1:] == (Ellipsis,) else len(arguments)
        if not isinstance(value, list) or count not in (None, len(value)):
            raise TypedError(f"{where}: expected {_expected(kind, metadata)}, found {value!r}")
        inner = arguments[:1] * len(value) if count is None else arguments
        return tuple(_read_value(t, v, f"{where}[{i}]", metadata) for i, (t, v) in enumerate(zip(inner, value)))
    if origin is dict:
        return {
            name: _read_value(arguments[1], v, _dotted(where, name), metadata)
            for name, v in _mapping(value, where).items()
        }
    return _read_scalar((kind,), value, where, metadata)


def _read_scalar(allowed: tuple[type, ...], value: Any, where: str, metadata: dict[str, Any]) -> Any:
    if float in allowed and isinstance(value, int) and not isinstance(value, bool) and int not in allowed:
        value = float(value)  # YAML writes 10 where 10.0 is meant
    fits = type(value) in allowed and not (isinstance(value, float) and not math.isfinite(value))
    low, high = metadata.get("limits") or (-math.inf, math.inf)
    if fits and isinstance(value, (int, float)):
        fits = low <= value <= high
    if fits and metadata.get("choices"):
        fits = value in metadata["choices"]
    if not fits:
        # YAML 1.1 takes 1e-5 for a text.
        is_text = isinstance(value, str) and not {str}.intersection(allowed) and _is_number(value)
        hint = " (YAML wants a point and a sign: 1.0e-5)" if is_text else ""
        raise TypedError(f"{where}: expected {_wanted(allowed, metadata)}, found {value!r}{hint}")
    return value


def _member(kinds: tuple[Any, ...], value: dict[str, Any], where: str) -> Any:
    """The dataclass of a union that the key `kind` names."""
    if len(kinds) == 1 and not hasattr(kinds[0], "kind"):
        return kinds[0]
    names = {kind.kind: kind for kind in kinds}
    found = value.get("kind")
    if found not in names:
        said = "is missing; expected" if found is None else f"is {found!r}, expected"
        raise TypedError(f"{where}.kind {said} {' or '.join(names)}")
    return names[found]


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypedError(f"{where or 'the file'}: expected keys with values, found {value!r}")
    return value


def _dotted(where: str, name: Any) -> str:
    return f"{where}.{name}" if where else str(name)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _dataclasses_in(kind: Any) -> list[Any]:
    if dataclasses.is_dataclass(kind):
        return [kind]
    return [found for argument in typing.get_args(kind) for found in _dataclasses_in(argument)]


def _expected(kind: Any, metadata: dict[str, Any]) -> str:
    """What a key takes, in words."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if _dataclasses_in(kind):
        return "a list" if origin is tuple else "keys with values"
    if origin is tuple:
        some = "" if arguments[1:] == (Ellipsis,) else f"{len(arguments)} values, "
        return f"a list ({some}each {_wanted(arguments[:1], metadata)})"
    if origin is dict:
        return "names with values"
    return _wanted(arguments if origin in (typing.Union, types.UnionType) else (kind,), metadata)


def _wanted(allowed: tuple[type, ...], metadata: dict[str, Any]) -> str:
    if metadata.get("choices"):
        return f"one of {', '.join(repr(choice) for choice in metadata['choices'])}"
    limits, unit = metadata.get("limits"), metadata.get("unit")
    range_ = f" from {limits[0]:g} to {limits[1]:g}" if limits else ""
    return " or ".join(_WORDS[kind] for kind in allowed) + range_ + (f" [{unit}]" if unit else "")
