"""Reads the two sides of a comparison: two files, or one input split by an attribute or by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from otel_itl.core.moments import format_time
from otel_itl.core.slo import Objectives
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.compare.baseline import is_baseline, read_baseline
from otel_itl.tools.compare.requests import Side, add_stream, find_itl_objective
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream, read_streams
from otel_itl.tools.report.selection import Selection, find_attribute

_MAX_NAMED = 8
"""Values of an attribute that a message names."""


class CannotSplitError(CommandError):
    """The input does not have two sides; the message is one sentence that names what it has."""


class SideReader:
    """Reads the sides of a comparison.

    Args:
        skipped: counts what is skipped.
        selection: which streams of the files are compared; None: all.
        objectives: whose ITL objective gaps are judged by; None: the one on their span.
        describe: describes a stream for a page; None: there is none.
    """

    def __init__(
        self,
        skipped: SkippedInput,
        selection: Selection | None = None,
        objectives: Objectives | None = None,
        describe: Callable[[StoredStream], dict[str, Any]] | None = None,
    ) -> None:
        self._skipped, self._selection = skipped, selection or Selection()
        self._objectives, self._describe = objectives, describe

    def read_files(self, sources: Sequence[str]) -> Side:
        """Read files as one side; of several each is a run, which is resampled as a whole.

        Raises:
            UnreadableSourceError: one cannot be read.
        """
        if len(sources) == 1 and is_baseline(sources[0]):
            return self._read_baseline(sources[0])
        side = Side(name=sources[0] if len(sources) == 1 else f"{len(sources)} runs, {sources[0]} …")
        for source in sources:
            for stream in self._read([source]):
                self._add(side, stream, run=source if len(sources) > 1 else None)
        return side

    def read_by_attribute(self, sources: Sequence[str], split: str) -> tuple[Side, Side]:
        """Read files and split their streams by an attribute; one with another value, or with none, is in neither side.

        Args:
            sources: the files.
            split: the attribute, of the span or its resource: the two values that there are, in the order of their
                first requests. Or `ATTRIBUTE=A,B`.

        Raises:
            UnreadableSourceError: a file cannot be read.
            CannotSplitError: `split` is neither, or there are not two values, or more than two and none are chosen.
        """
        attribute, _, values = split.partition("=")
        chosen = [value.strip() for value in values.split(",")] if values else []
        if not attribute or (chosen and (len(chosen) != 2 or not all(chosen))):  # noqa: PLR2004 - two sides
            raise CannotSplitError(f"--by {split!r} is not accepted: it takes an attribute, or ATTRIBUTE=A,B.")
        sides: dict[str, Side] = {}
        for stream in self._read(sources):
            value = find_attribute(stream.span_facts.attributes, attribute)
            if value is not None and (not chosen or value in chosen):
                self._add(sides.setdefault(value, Side(name=value)), stream)
        if missing := next((value for value in chosen if value not in sides), None):
            raise CannotSplitError(f"no stream has {attribute}={missing!r}.")
        ordered = chosen or sorted(sides, key=lambda value: sides[value].first_unix_ns)
        if len(ordered) != 2:  # noqa: PLR2004 - two sides
            raise CannotSplitError(_describe_values(attribute, sides))
        return sides[ordered[0]], sides[ordered[1]]

    def read_by_time(self, sources: Sequence[str], before: int, after: int) -> tuple[Side, Side]:
        """Read files and split their streams by the time of the request: A is before `before`, B is from `after` on.

        Those between the two Unix times (ns) are in neither side.

        Raises:
            UnreadableSourceError: a file cannot be read.
        """
        a, b = Side(name=f"before {format_time(before)}"), Side(name=f"from {format_time(after)}")
        for stream in self._read(sources):
            at = stream.timeline.request_unix_ns
            if at < before or at >= after:
                self._add(a if at < before else b, stream)
        return a, b

    def _read_baseline(self, source: str) -> Side:
        """Read a side that was written as a baseline.

        Raises:
            UnreadableSourceError: it cannot be read.
            CannotSplitError: an option needs more of its streams than is written.
        """
        if self._selection.options:
            raise CannotSplitError(
                f"{source} is a baseline, of which no streams are selected any more: select them when it is written."
            )
        if self._describe is not None:
            raise CannotSplitError(f"{source} is a baseline, which a page cannot show: leave --html out.")
        side = read_baseline(source, self._skipped)
        if self._objectives is not None:
            side.requests[:] = [
                replace(one, itl_objective=find_itl_objective(self._objectives, one.model.partition(" / ")[2]))
                for one in side.requests
            ]
        return side

    def _read(self, sources: Sequence[str]) -> Iterator[StoredStream]:
        """Yield the streams of files that are selected.

        Raises:
            CannotSplitError: one is a baseline.
        """
        for source in sources:
            if is_baseline(source):
                raise CannotSplitError(f"{source} is a baseline, which is a whole side: give it as A or as B.")
        return self._selection.select(read_streams(sources, self._skipped))

    def _add(self, side: Side, stream: StoredStream, run: str | None = None) -> None:
        """Add a stream to a side."""
        add_stream(side, stream, self._objectives, run)
        if self._describe is not None:
            side.described.append(self._describe(stream))


def _describe_values(attribute: str, sides: Mapping[str, Side]) -> str:
    """Return a sentence with the values that an attribute has, where they are not two."""
    if not sides:
        return f"no stream has the attribute {attribute!r}, neither on its span nor on its resource."
    counts = Counter({value: len(side.requests) for value, side in sides.items()})
    named = ", ".join(f"{value!r} ({count:,} streams)" for value, count in counts.most_common(_MAX_NAMED))
    if len(sides) == 1:
        return f"all streams have the same {attribute}: {named}."
    more = f" and {len(sides) - _MAX_NAMED:,} more" if len(sides) > _MAX_NAMED else ""
    return f"{attribute} has {len(sides):,} values, {named}{more}: choose two with --by {attribute}=A,B."
