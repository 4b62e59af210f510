"""Kinds of things that have an identifier, as JSON has it, and words, which all forms for people share."""

from __future__ import annotations

from enum import Enum


class WordedEnum(str, Enum):
    """An enumeration whose members are `NAME = identifier, words`; `words` is a clause or a sentence.

    What else a member has is for the `__init__` of its class.
    """

    words: str

    def __new__(cls, identifier: str, words: str, *_: object) -> WordedEnum:  # noqa: PYI034 - `Self` is in typing from 3.11 on
        """Make a member."""
        member = str.__new__(cls, identifier)
        member._value_, member.words = identifier, words
        return member
