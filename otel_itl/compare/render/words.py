"""The words and numbers of a comparison, which all its forms share."""

from __future__ import annotations

from collections.abc import Sequence

from otel_itl.compare.comparison import Comparison, Figure, Row
from otel_itl.compare.gate import deciding_rows, required_rows
from otel_itl.compare.quantities import Quantity, Unit
from otel_itl.compare.requests import Side
from otel_itl.compare.verdicts import Answer
from otel_itl.report.certainty import Flag, describe_figures, format_milliseconds_with_error
from otel_itl.report.render.number_format import ABSENT, format_three_digits, pluralize

HEADINGS = ("A", "B", "B / A", "95 % interval", "p", "answer")


def headline(comparison: Comparison, keys: Sequence[str]) -> str:
    """Return the answer in one sentence, from the rows that decide."""
    rows = deciding_rows(comparison, keys)
    slower = [row for row in rows if row.answer is Answer.SLOWER]
    if slower:
        worst = max(slower, key=lambda row: row.ratio or 0.0)
        more = f", and {pluralize(len(slower) - 1, 'more row')} too" if len(slower) > 1 else ""
        return f"B is slower: {describe_row(worst)}{more}."
    required = required_rows(comparison, keys)
    deciding = [row for row in required if row.answer is Answer.MACHINE_DECIDES]
    if deciding:
        return f"The caller's machine decides whether B is slower: {_describe_deciding(deciding)}."
    unknown = [row for row in required if row.answer is Answer.NOT_ENOUGH_DATA]
    if unknown or not required:
        return f"Not enough data to know whether B is slower: {describe_missing_data(unknown, comparison)}."
    faster = [row for row in rows if row.answer is Answer.FASTER]
    if faster:
        best = min(faster, key=lambda row: row.ratio or 1.0)
        return f"B is not slower, and in part faster: {describe_row(best)}."
    return f"B is the same as A: no latency differs by more than {comparison.margin * 100:.3g} %."


def describe_row(row: Row) -> str:
    """Return a row as a clause: `ITL p99 of openai / m is 1.32 times A's (1.18 to 1.47)`."""
    return f"{row.quantity.title} of {row.model} is {format_ratio(row.ratio)} times A's ({format_interval(row)})"


def _describe_deciding(rows: Sequence[Row]) -> str:
    """Return as a clause which row the caller's machine decides, how, and what to do."""
    more = f", and {pluralize(len(rows) - 1, 'more row')} too" if len(rows) > 1 else ""
    row = rows[0]
    return (
        f"{row.quantity.title} of {row.model} is {_as_clause(row.why)}{more}. {Flag.NOT_KNOWN.remedy.removesuffix('.')}"
    )


def _as_clause(why: str) -> str:
    return f"the {why}" if why.startswith(Answer.SAME.value) else why


def describe_missing_data(unknown: Sequence[Row], comparison: Comparison) -> str:
    """Return as a clause why there is no answer, and about how many sessions would be enough, if known."""
    if not unknown:
        return "no row of those chosen can be compared"
    row = max(unknown, key=lambda row: row.enough or 0)
    return f"for {row.quantity.title} of {row.model}, {note_of(row, comparison)}"


def describe_side(side: Side) -> str:
    """Return what a side consists of: `10 sessions, 60 streams`."""
    sessions = len({request.cluster for request in side.requests if request.is_in_session})
    parts = ([pluralize(sessions, "session")] if sessions else []) + [pluralize(len(side.requests), "stream")]
    return ", ".join(parts)


def describe_errors(side: Side) -> list[str]:
    """Return for each figure that is uncertain of how many streams, and why."""
    return describe_figures({title: collector.summary() for title, collector in side.errors.items()})


def cells_of(row: Row) -> tuple[str, ...]:
    """Return the cells of a row, in the order of `HEADINGS`."""
    return (
        format_figure(row.a, row.quantity),
        format_figure(row.b, row.quantity),
        format_ratio(row.ratio),
        format_interval(row),
        ABSENT if row.adjusted_p is None else format_p(row.adjusted_p),
        row.answer.value,
    )


def title_of(quantity: Quantity) -> str:
    """Return the title of a row with its unit."""
    unit = {Unit.SECONDS: ", ms", Unit.SHARE: ", %", Unit.PER_THOUSAND_TOKENS: ""}[quantity.unit]
    return quantity.title + unit


def note_of(row: Row, comparison: Comparison) -> str:
    """Return why a row is not known, and what would be enough; empty for the other answers."""
    if not row.why or row.enough is None:
        return row.why
    is_in_session = any(request.is_in_session for side in (comparison.a, comparison.b) for request in side.requests)
    noun = "sessions" if is_in_session else "streams"
    return f"{row.why}; about {format_enough(row.enough)} {noun} a side would be enough"


def format_figure(figure: Figure, quantity: Quantity) -> str:
    """Format the value of a figure in its unit, of a latency with what it may be less by."""
    if figure.value is None:
        return ABSENT
    if quantity.unit is Unit.SECONDS:
        return format_milliseconds_with_error(figure.value, figure.error)
    return format_three_digits(figure.value * (100 if quantity.unit is Unit.SHARE else 1))


def format_ratio(ratio: float | None) -> str:
    """Format a ratio with two decimals, from ten on with three digits."""
    return ABSENT if ratio is None else format_three_digits(ratio)


def format_interval(row: Row) -> str:
    """Format the interval of a row's ratio."""
    return ABSENT if row.low is None or row.high is None else f"{format_ratio(row.low)} to {format_ratio(row.high)}"


def format_p(p: float) -> str:
    """Format a p-value with two or three decimals."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"  # noqa: PLR2004 - digits that matter


def format_enough(clusters: int | None) -> str:
    """Format how many sessions would be enough, rounded up to two digits, with the unit; None: `ABSENT`."""
    if clusters is None:
        return ABSENT
    digits = max(len(str(clusters)) - 2, 0)
    rounded = -(-clusters // 10**digits) * 10**digits
    return f"{rounded:,}"
