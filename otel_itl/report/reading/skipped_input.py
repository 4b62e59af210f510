"""What of the input could not be used: counted, the first of each kind named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum

NAMED = 5
"""How many of each kind are named; the others are counted."""


class Loss(str, Enum):
    """A kind of input that says nothing of a stream."""

    EMPTY = "empty"
    """A source without a single byte."""
    NOT_JSON = "not_json"
    """A line that is not JSON."""
    HALF_WRITTEN = "half_written"
    """A last line that was still being written."""
    NOT_OTLP = "not_otlp"
    """JSON of another shape than OTLP's."""
    NOT_DECODABLE = "not_decodable"
    """Token events that make no timeline."""
    DUPLICATE = "duplicate"
    """A stream that was read before, as when one file is named twice or an exporter sent a batch again."""
    WITHOUT_TOKEN_EVENTS = "without_token_events"
    """A stream that was measured, but whose token events are not in the input."""


_SENTENCES = {
    Loss.EMPTY: ("empty", "source is empty", "sources are empty"),
    Loss.NOT_JSON: ("not JSON", "line is not JSON", "lines are not JSON"),
    Loss.HALF_WRITTEN: ("half-written last line", "last line is half-written", "last lines are half-written"),
    Loss.NOT_OTLP: ("JSON, but not OTLP", "line is JSON, but not OTLP", "lines are JSON, but not OTLP"),
    Loss.NOT_DECODABLE: (
        "token events that do not decode",
        "stream has token events that do not decode",
        "streams have token events that do not decode",
    ),
    Loss.DUPLICATE: ("a stream that was read before", "stream was read before", "streams were read before"),
    Loss.WITHOUT_TOKEN_EVENTS: (
        "a stream without token events",
        "stream is without token events",
        "streams are without token events",
    ),
}


class SkippedInput:
    """The losses of one reading."""

    def __init__(self) -> None:
        self.counts: Counter[Loss] = Counter()
        self._named: dict[Loss, list[str]] = {}

    def note(self, loss: Loss, where: str, why: str = "") -> None:
        """Count a loss at `where`, which is `FILE` or `FILE:LINE`; `why` is the reason that a parser gave."""
        self.counts[loss] += 1
        named = self._named.setdefault(loss, [])
        if len(named) < NAMED:
            named.append(f"{where}: {_SENTENCES[loss][0]}" + (f": {why}" if why else ""))

    def lines(self) -> Iterator[str]:
        """What to tell: a line for each of the first five of a kind, then how many more there are."""
        for loss, named in self._named.items():
            yield from named
            more = self.counts[loss] - len(named)
            if more:
                yield f"... and {more} more: {_SENTENCES[loss][0]}"

    def summary(self) -> str:
        """The counts in words, separated by commas; empty where nothing was lost."""
        return ", ".join(
            f"{count} {_SENTENCES[loss][1 if count == 1 else 2]}" for loss, count in self.counts.items() if count
        )
