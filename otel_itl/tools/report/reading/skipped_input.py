"""Counts the parts of the input that could not be used, and describes the first of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import Final

MAX_DESCRIBED = 5
"""How many of each kind are described one by one; all are counted."""


class SkipReason(str, Enum):
    """Why a part of the input is not in the report."""

    EMPTY = "empty"
    """The source has no bytes."""
    NOT_JSON = "not_json"
    """The line is not JSON."""
    HALF_WRITTEN = "half_written"
    """The last line is incomplete, as while a process still writes it."""
    NOT_OTLP = "not_otlp"
    """The line is JSON, but not of OTLP's shape."""
    NOT_DECODABLE = "not_decodable"
    """The token events of a stream do not make a timeline."""
    DUPLICATE = "duplicate"
    """The stream was read before: a file is named twice, or an exporter sent a batch again."""
    WITHOUT_TOKEN_EVENTS = "without_token_events"
    """The stream was measured, but its token events are not in the input."""


_NOT_DECODED: Final = "token events that do not decode"
_WORDS: Final = {
    SkipReason.EMPTY: ("empty", "source", "is", "empty"),
    SkipReason.NOT_JSON: ("not JSON", "line", "is", "not JSON"),
    SkipReason.HALF_WRITTEN: ("half-written last line", "last line", "is", "half-written"),
    SkipReason.NOT_OTLP: ("JSON, but not OTLP", "line", "is", "JSON, but not OTLP"),
    SkipReason.NOT_DECODABLE: (_NOT_DECODED, "stream", "has", _NOT_DECODED),
    SkipReason.DUPLICATE: ("a stream that was read before", "stream", "was", "read before"),
    SkipReason.WITHOUT_TOKEN_EVENTS: ("a stream without token events", "stream", "is", "without token events"),
}
"""Reason → what one such part is, and the sentence on several: noun, verb, and the rest."""
_PLURAL: Final = {"is": "are", "has": "have", "was": "were"}


class SkippedInput:
    """What one reading of files skipped. It may be described in one thread while another one adds to it."""

    def __init__(self) -> None:
        self.counts: Counter[SkipReason] = Counter()
        self._described: dict[SkipReason, list[str]] = {}

    def add(self, reason: SkipReason, where: str, details: str = "") -> None:
        """Count one skipped part.

        Args:
            reason: why it is skipped.
            where: `FILE` or `FILE:LINE`.
            details: the message of the parser, if there is one.
        """
        self.counts[reason] += 1
        described = self._described.setdefault(reason, [])
        if len(described) < MAX_DESCRIBED:
            described.append(f"{where}: {_WORDS[reason][0]}" + (f": {details}" if details else ""))

    @property
    def by_name(self) -> dict[str, int]:
        """Value of each `SkipReason` → count."""
        return {reason.value: self.counts[reason] for reason in SkipReason}

    def describe(self) -> Iterator[str]:
        """Yield a line for each of the first five of a kind, then one with the number of further ones."""
        for reason, described in tuple(self._described.items()):
            yield from tuple(described)
            more = self.counts[reason] - len(described)
            if more:
                yield f"... and {more} more: {_WORDS[reason][0]}"

    def summarize(self) -> str:
        """Return the counts in words, separated by commas; empty where nothing was skipped."""
        return ", ".join(_describe(reason, count) for reason, count in tuple(self.counts.items()) if count)


def _describe(reason: SkipReason, count: int) -> str:
    _, noun, verb, rest = _WORDS[reason]
    return f"{count} {noun} {verb} {rest}" if count == 1 else f"{count} {noun}s {_PLURAL[verb]} {rest}"
