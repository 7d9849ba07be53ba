"""What may stand where text is expected: str, Substitution, or an iterable of both."""

import collections.abc
from collections.abc import Iterable
from typing import Union

from .substitution import Substitution

SomeSubstitutionsType = Union[str, Substitution, Iterable[Union[str, Substitution]]]

SomeSubstitutionsType_types_tuple = (str, Substitution, collections.abc.Iterable)
