"""Renders the notes on models below their tables: what the figures leave out, how well they are known, what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from otel_itl.core.timeline import Outcome
from otel_itl.tools.report.certainty import Flag, Known, describe_figures, describe_remedies
from otel_itl.tools.report.model_summary import ModelSummary
from otel_itl.tools.report.render.number_format import format_duration, format_share, make_printable, pluralize
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.set_aside import MAX_SET_ASIDE_SHARE

MARK: Final = "*"
"""Stands behind the name of a model with buffered streams, which have a note."""
_MAX_NAMED = 5
"""Models that a note names."""
_MAX_ERROR_TYPES = 3
"""Types of errors that are named; JSON has all."""
_TITLES: Final = {"time_to_first_token": "TTFT", "inter_token_latency": "ITL p99", "time_per_output_token": "TPOT"}


def _begin_note(row: ModelSummary, mark: str = "") -> Text:
    """Return the beginning of a note on a model: a mark, if any, the provider, and the model."""
    beginning = f"{mark} {row.provider} ".lstrip()
    return Text.assemble((make_printable(beginning), STYLES["head"]), (make_printable(row.name), STYLES["provider"]))


def error_notes(rows: Sequence[ModelSummary]) -> Iterator[Text]:
    """Yield a line for each model with errors of which the type is known: the most frequent types."""
    for row in rows:
        if row.errors:
            most = list(row.errors.items())[:_MAX_ERROR_TYPES]
            others = row.outcomes[Outcome.ERROR.value] - sum(count for _, count in most)
            types = [f"{count:,} {name}" for name, count in most] + ([pluralize(others, "other")] if others else [])
            note = _begin_note(row)
            note.append(make_printable(f": {', '.join(types)}"), style=STYLES["outcome"])
            yield note


def buffering_notes(rows: Sequence[ModelSummary]) -> Iterator[Text]:
    """Yield a line for each model with buffered streams: its pace is a proxy's."""
    for row in rows:
        if row.buffered is None:
            continue
        share = format_share(round(row.buffered.burst_ratio * 1_000), 1_000)
        note = _begin_note(row, MARK)
        if row.buffered.streams < row.streams:
            note.append(f", {row.buffered.streams:,} of {row.streams:,} streams")
        note.append(f": {share} of the chunks came in bursts: the pace is the proxy's")
        if row.buffered.pace is not None:
            note.append(f", {format_duration(row.buffered.pace)} a chunk from burst to burst")
        yield note


def known_notes(known: Mapping[str, Known]) -> Iterator[Text]:
    """Yield a line for each figure and cause: of how many streams of all models it is uncertain, and by how much."""
    yield from map(Text, describe_figures({title: known[figure] for figure, title in _TITLES.items()}))


def silence_notes(rows: Sequence[ModelSummary]) -> Iterator[Text]:
    """Yield a line for each model with streams that ended without a token, which no percentile shows."""
    for row in rows:
        if row.without_token and row.waited is not None:
            note = _begin_note(row)
            waited = format_duration(row.waited) + (" (median)" if row.without_token > 1 else "")
            streams = f"{row.without_token:,} of {pluralize(row.streams, 'stream')}"
            note.append(f": {streams} ended without a token, after {waited}: in no latency above")
            yield note


def _is_selective(known: Known) -> bool:
    """Return whether those that are left of a figure, after others were set aside, may not be like all."""
    return known.streams > 0 and known.share_set_aside > MAX_SET_ASIDE_SHARE


def selective_notes(rows: Sequence[ModelSummary]) -> Iterator[Text]:
    """Yield a line for each figure with the models of which so much is set aside that it may not be that of all."""
    for figure, title in _TITLES.items():
        names = [row.name for row in rows if _is_selective(row.known[figure])]
        if names:
            more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
            which = make_printable(", ".join(names[:_MAX_NAMED])) + more
            yield Text(f"{title}: those that are not set aside may be faster or slower than all, of {which}")


def remedies(rows: Sequence[ModelSummary]) -> Iterator[Text]:
    """Yield a line for each flag that something has to be done about."""
    for line in describe_remedies(sum((row.flags for row in rows), Counter[Flag]())):
        yield Text(line, style=STYLES["head"])
