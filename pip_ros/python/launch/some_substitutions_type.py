"""What may stand where text is expected: str, Substitution, or an iterable of both."""

import collections.abc
from typing import Iterable, Text, Union

from .substitution import Substitution

SomeSubstitutionsType = Union[Text, Substitution, Iterable[Union[Text, Substitution]]]

SomeSubstitutionsType_types_tuple = (str, Substitution, collections.abc.Iterable)
