"""Plain text."""

from ..substitution import Substitution


class TextSubstitution(Substitution):
    def __init__(self, *, text):
        if not isinstance(text, str):
            raise TypeError(f"TextSubstitution: expected text, found {text!r}; write str({text!r})")
        self.__text = text

    @property
    def text(self):
        return self.__text

    def describe(self):
        return f"'{self.__text}'"

    def perform(self, context):
        return self.__text
