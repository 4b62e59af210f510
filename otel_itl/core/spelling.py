"""Finds the known name that a misspelled one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MIN_LIKENESS: Final = 0.7
"""Of two names, 1 for the same: two letters swapped in a short name are alike, two words that share a half are not."""


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, in whatever case it is written; None: none is like it."""
    from difflib import get_close_matches  # noqa: PLC0415 - needed for a mistake only, and `import otel_itl` is to be fast

    by_folded = {candidate.casefold(): candidate for candidate in known}
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=_MIN_LIKENESS)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the nearest known name, with a space before it; empty where none is near."""
    nearest = find_nearest(name, known)
    return "" if nearest is None else f" Did you mean {nearest}?"
