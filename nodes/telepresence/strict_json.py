"""JSON from strangers: an object of known keys with values of known kinds and ranges, or one sentence that says what is wrong.

    fields = Fields(read_object(text, 16384), "a sample")
    seq, stick = fields.integer("seq"), fields.numbers("stick", 3, 1.0)
    fields.end()                     # whatever else is in there is refused

Nothing is evaluated, nothing is filled in, and no value that JSON's own grammar does not know (NaN, Infinity) is let in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any, NoReturn

__all__ = ["MAX_INTEGER", "Fields", "SchemaError", "read_object"]

#: the largest whole number that a browser's numbers hold exactly
MAX_INTEGER = 2**53 - 1
#: objects and lists in each other; the deepest message has four
MAX_DEPTH = 8
#: characters of a wrong value that its sentence shows
SHOWN = 40


class SchemaError(ValueError):
    """A message that cannot be taken. The text is one sentence.

    Attributes:
        code: of the answer that refuses it.
    """

    code = "schema"


def read_object(text: str | bytes, limit: int) -> dict[str, Any]:
    """The one object that a text consists of.

    Args:
        text: JSON, in UTF-8 where it is bytes. limit: its size in bytes.

    Raises:
        SchemaError: it is larger, nested too deeply, no JSON, no object, or says a key twice.
    """
    size = len(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
    if size > limit:
        raise SchemaError(f"Expected a message of at most {limit} bytes, found {size}.")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
        deep = _depth(value) > MAX_DEPTH
    except SchemaError:
        raise
    except RecursionError:
        deep = True
    except ValueError:  # no JSON, no UTF-8, or a whole number of thousands of digits
        raise SchemaError(f"Expected one JSON object in UTF-8, found {_text_shown(text)}.") from None
    if deep:
        raise SchemaError(f"Expected at most {MAX_DEPTH} objects and lists in each other, found more.")
    if not isinstance(value, dict):
        raise SchemaError(f"Expected one JSON object, found {_shown(value)}.")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"Expected each key once in an object, found {_shown(twice)} twice.")
    return found


def _no_number(word: str) -> NoReturn:
    raise SchemaError(f"Expected finite numbers, found {word}.")


def _depth(value: Any) -> int:
    """Lists and objects in each other; level by level, as a text can nest deeper than functions can call themselves."""
    depth, level = 0, [value]
    while level := [part for part in level if isinstance(part, (dict, list))]:
        depth += 1
        if depth > MAX_DEPTH:
            break
        level = [inner for part in level for inner in (part.values() if isinstance(part, dict) else part)]
    return depth


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _text_shown(text: str | bytes) -> str:
    return _shown(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)


class Fields:
    """The fields of one object, each asked for by name; `end` refuses those that nobody asked for.

    Args:
        values: the object.
        what: it is, with its article, for sentences.
    """

    def __init__(self, values: dict[str, Any], what: str) -> None:
        self._values, self.what, self._asked = values, what, set[str]()

    def named(self, what: str) -> Fields:
        """The same object, of which more is known by now; what was asked for stays so."""
        other = Fields(self._values, what)
        other._asked = self._asked
        return other

    def _take(self, name: str) -> Any:
        self._asked.add(name)
        if name not in self._values:
            raise SchemaError(f"Expected the key '{name}' in {self.what}, found none.")
        return self._values[name]

    def _wrong(self, name: str, expected: str) -> SchemaError:
        return SchemaError(f"'{name}' of {self.what}: expected {expected}, found {_shown(self._values[name])}.")

    def number(self, name: str, low: float, high: float) -> float:
        """A number of an interval, ends included.

        Raises:
            SchemaError
        """
        value = self._take(name)
        if not _is_number(value) or not low <= value <= high:
            raise self._wrong(name, f"a number from {low:g} to {high:g}")
        return float(value)

    def optional_number(self, name: str) -> float | None:
        """A finite number, or null.

        Raises:
            SchemaError
        """
        value = self._take(name)
        if value is not None and not _is_number(value):
            raise self._wrong(name, "a number or null")
        return None if value is None else float(value)

    def integer(self, name: str, high: int = MAX_INTEGER) -> int:
        """A whole number from 0 on.

        Raises:
            SchemaError
        """
        value = self._take(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= high:
            raise self._wrong(name, f"a whole number from 0 to {high}")
        return value

    def numbers(self, name: str, count: int | None, bound: float) -> tuple[float, ...]:
        """A list of numbers.

        Args:
            count: of them; None: any. bound: of their absolute values.

        Raises:
            SchemaError
        """
        value = self._take(name)
        right = isinstance(value, list) and count in (None, len(value))
        if not right or not all(_is_number(item) and abs(item) <= bound for item in value):
            how_many = "" if count is None else f"{count} "
            limits = "" if math.isinf(bound) else f" from {-bound:g} to {bound:g}"
            raise self._wrong(name, f"a list of {how_many}numbers{limits}")
        return tuple(float(item) for item in value)

    def optional_numbers(self, name: str, count: int) -> tuple[float | None, ...]:
        """A list of so many finite numbers, or nulls among them.

        Raises:
            SchemaError
        """
        value = self._take(name)
        right = isinstance(value, list) and len(value) == count
        if not right or not all(item is None or _is_number(item) for item in value):
            raise self._wrong(name, f"a list of {count} numbers or nulls")
        return tuple(None if item is None else float(item) for item in value)

    def number_table(self, name: str) -> dict[str, float]:
        """An object whose values are finite numbers.

        Raises:
            SchemaError
        """
        value = self._take(name)
        if not isinstance(value, dict) or not all(_is_number(item) for item in value.values()):
            raise self._wrong(name, "an object of numbers")
        return {key: float(item) for key, item in value.items()}

    def flag(self, name: str) -> bool:
        """True or false.

        Raises:
            SchemaError
        """
        value = self._take(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def flags(self, name: str, count: int) -> tuple[bool, ...]:
        """A list of so many times true or false.

        Raises:
            SchemaError
        """
        value = self._take(name)
        if not isinstance(value, list) or len(value) != count or not all(isinstance(item, bool) for item in value):
            raise self._wrong(name, f"a list of {count} times true or false")
        return tuple(value)

    def text(self, name: str, longest: int, shortest: int = 0, lines: bool = False) -> str:
        """A text of printable characters.

        Args:
            longest, shortest: its length. lines: it may have line ends.

        Raises:
            SchemaError
        """
        value = self._take(name)
        if not _is_text(value, longest, shortest, lines):
            raise self._wrong(name, f"a printable text of {shortest} to {longest} characters")
        return value

    def optional_text(self, name: str, longest: int) -> str | None:
        """A text of printable characters, or null.

        Raises:
            SchemaError
        """
        return None if self._take(name) is None else self.text(name, longest)

    def texts(self, name: str, count: int | None, longest: int) -> tuple[str, ...]:
        """A list of texts of printable characters; `count` of them, None: any.

        Raises:
            SchemaError
        """
        value = self._take(name)
        right = isinstance(value, list) and count in (None, len(value))
        if not right or not all(_is_text(item, longest, 0, False) for item in value):
            raise self._wrong(name, f"a list of printable texts of at most {longest} characters")
        return tuple(value)

    def choice(self, name: str, choices: Collection[str]) -> str:
        """One of some words.

        Raises:
            SchemaError
        """
        value = self._take(name)
        if not isinstance(value, str) or value not in choices:
            raise self._wrong(name, f"one of {', '.join(choices)}")
        return value

    def child(self, name: str, what: str) -> Fields:
        """The fields of an object.

        Raises:
            SchemaError
        """
        value = self._take(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return Fields(value, what)

    def optional_child(self, name: str, what: str) -> Fields | None:
        """The fields of an object, or None for null.

        Raises:
            SchemaError
        """
        return None if self._take(name) is None else self.child(name, what)

    def children(self, name: str, count: int, what: str) -> tuple[Fields, ...]:
        """The fields of each of so many objects in a list.

        Raises:
            SchemaError
        """
        value = self._take(name)
        if not isinstance(value, list) or len(value) != count or not all(isinstance(item, dict) for item in value):
            raise self._wrong(name, f"a list of {count} objects")
        return tuple(Fields(item, what) for item in value)

    def is_null(self, name: str) -> bool:
        """Whether the value is null.

        Raises:
            SchemaError: the key is not there.
        """
        return self._take(name) is None

    def end(self) -> None:
        """Refuse what nobody asked for.

        Raises:
            SchemaError
        """
        if unknown := [name for name in self._values if name not in self._asked]:
            raise SchemaError(
                f"Expected only {', '.join(sorted(self._asked))} in {self.what}, found also {_shown(unknown[0])}."
            )


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= MAX_INTEGER


def _is_text(value: Any, longest: int, shortest: int, lines: bool) -> bool:
    if not isinstance(value, str) or not shortest <= len(value) <= longest:
        return False
    # No half of a surrogate pair and no control character is printable.
    return (value.replace("\r", "").replace("\n", "") if lines else value).isprintable()
