"""Reads the two sides of a comparison: two files, or one input split by an attribute or by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from otel_itl.core.moments import format_time
from otel_itl.core.slo import Objectives
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.compare.requests import Side, add_stream
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream, read_streams

_MAX_NAMED = 8
"""Values of an attribute that a message names."""


class CannotSplitError(CommandError):
    """The input does not have two sides; the message is one sentence that names what it has."""


@dataclass(frozen=True, slots=True)
class ByAttribute:
    """Two sides by an attribute of the span or its resource.

    Args:
        attribute: its name.
        values: those of A and of B; None: the only two that there are, in the order of their first requests.
    """

    attribute: str
    values: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ByTime:
    """Two sides by the time of the request: A is before `before`, B is from `after` on. Unix times in nanoseconds."""

    before: int
    after: int


def read_files(a: str, b: str, skipped: SkippedInput, objectives: Objectives | None) -> tuple[Side, Side]:
    """Read two files as the two sides.

    Raises:
        UnreadableSourceError: a file cannot be read.
    """
    sides = Side(name=a), Side(name=b)
    for side in sides:
        for stream in read_streams([side.name], skipped):
            add_stream(side, stream, objectives)
    return sides


def read_by_attribute(
    sources: Sequence[str], split: ByAttribute, skipped: SkippedInput, objectives: Objectives | None
) -> tuple[Side, Side]:
    """Read files and split their streams by an attribute; one with another value, or with none, is in neither side.

    Raises:
        UnreadableSourceError: a file cannot be read.
        CannotSplitError: there are not two values, or more than two and none are chosen.
    """
    sides: dict[str, Side] = {}
    started: dict[str, int] = {}
    for stream in read_streams(sources, skipped, split.attribute):
        if stream.group is not None and (split.values is None or stream.group in split.values):
            add_stream(sides.setdefault(stream.group, Side(name=stream.group)), stream, objectives)
            at = stream.timeline.request_unix_ns
            started[stream.group] = min(started.get(stream.group, at), at)
    if split.values is not None:
        a, b = split.values
        missing = next((value for value in split.values if value not in sides), None)
        if missing is not None:
            message = f"no stream has {split.attribute}={missing!r}."
            raise CannotSplitError(message)
        return sides[a], sides[b]
    ordered = sorted(sides, key=lambda value: started[value])
    if len(ordered) != 2:  # noqa: PLR2004 - two sides
        raise CannotSplitError(_describe_values(split.attribute, ordered, sides))
    return sides[ordered[0]], sides[ordered[1]]


def read_by_time(
    sources: Sequence[str], split: ByTime, skipped: SkippedInput, objectives: Objectives | None
) -> tuple[Side, Side]:
    """Read files and split their streams by the time of the request; those between the two times are in neither side.

    Raises:
        UnreadableSourceError: a file cannot be read.
    """
    a, b = Side(name=f"before {format_time(split.before)}"), Side(name=f"from {format_time(split.after)}")
    for stream in read_streams(sources, skipped):
        side = _side_of(stream, split, a, b)
        if side is not None:
            add_stream(side, stream, objectives)
    return a, b


def read_runs(sources: Sequence[str], skipped: SkippedInput, objectives: Objectives | None) -> list[tuple[int, Side]]:
    """Read each file as one run.

    Returns:
        The Unix time (ns) of the first request of each run with its streams, in order of time; without the runs that
        have none.

    Raises:
        UnreadableSourceError: a file cannot be read.
    """
    runs = []
    for source in sources:
        side, first = Side(name=source), None
        for stream in read_streams([source], skipped):
            add_stream(side, stream, objectives)
            at = stream.timeline.request_unix_ns
            first = at if first is None else min(first, at)
        if first is not None:
            runs.append((first, side))
    return sorted(runs, key=lambda run: run[0])


def _side_of(stream: StoredStream, split: ByTime, a: Side, b: Side) -> Side | None:
    at = stream.timeline.request_unix_ns
    if at < split.before:
        return a
    return b if at >= split.after else None


def _describe_values(attribute: str, values: Sequence[str], sides: dict[str, Side]) -> str:
    """Return a sentence with the values that an attribute has, where they are not two."""
    if not values:
        return f"no stream has the attribute {attribute!r}, neither on its span nor on its resource."
    counts = Counter({value: len(side.requests) for value, side in sides.items()})
    named = ", ".join(f"{value!r} ({count:,} streams)" for value, count in counts.most_common(_MAX_NAMED))
    if len(values) == 1:
        return f"all streams have the same {attribute}: {named}."
    more = f" and {len(values) - _MAX_NAMED:,} more" if len(values) > _MAX_NAMED else ""
    return f"{attribute} has {len(values):,} values, {named}{more}: choose two with --by {attribute}=A,B."
