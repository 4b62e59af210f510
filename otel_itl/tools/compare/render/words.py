"""The words and numbers of a comparison, which all its forms share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median_high
from typing import Final

from otel_itl.core.error_format import append_error
from otel_itl.core.measures import MIN_UNCERTAIN_SHARE
from otel_itl.tools.compare.comparison import Comparison, Figure, Row
from otel_itl.tools.compare.gate import deciding_rows, required_rows
from otel_itl.tools.compare.quantities import Quantity, Unit
from otel_itl.tools.compare.requests import Side
from otel_itl.tools.compare.verdicts import UNKNOWN, Answer
from otel_itl.tools.report.certainty import (
    describe_figures,
    find_remedy,
    format_milliseconds_with_error,
    is_error_shown,
)
from otel_itl.tools.report.render.number_format import ABSENT, format_three_digits, pluralize

HEADINGS = ("A", "B", "B / A", "95 % interval", "p", "answer")
PAIRED: Final = "Both sides have the same sessions or requests: each is compared with itself."
_MACHINE_DECIDES: Final = "The caller's machine decides whether B is slower"
_SAID_OF_ROWS: Final = {
    Answer.SAME: ("is the same", "are the same"),
    Answer.FASTER: ("is faster", "are faster"),
    Answer.NOT_ENOUGH_DATA: ("has not enough data", "have not enough data"),
    Answer.MACHINE_DECIDES: ("depends on the caller's machine", "depend on the caller's machine"),
}
"""Answer → what is said of one row, and of several."""


def headline(comparison: Comparison, keys: Sequence[str]) -> str:
    """Return the answer in one sentence, from the rows that decide."""
    rows = deciding_rows(comparison, keys)
    if comparison.is_identical:
        return "B is the same as A: both sides have the same streams."
    slower = [row for row in rows if row.answer is Answer.SLOWER]
    if slower:
        clearest = max(slower, key=lambda row: (row.measured.ratio_interval or (0.0, 0.0))[0])
        return f"B is slower{_share(slower, rows, comparison)}: {describe_row(clearest)}."
    required = required_rows(comparison, keys)
    if not required:
        return "Not enough data to know whether B is slower: no row of those chosen can be compared."
    if any(row.answer in UNKNOWN for row in required):
        return _describe_unknown(rows, comparison)
    faster = [row for row in rows if row.answer is Answer.FASTER]
    if faster:
        best = min(faster, key=lambda row: row.measured.ratio or 1.0)
        return f"B is not slower, and in part faster: {describe_row(best)}."
    return f"B is the same as A: no latency differs by more than {comparison.margin * 100:.3g} %."


def describe_row(row: Row) -> str:
    """Return a row as a clause: `ITL p99 of openai / m is 1.32 times A's (1.18 to 1.47)`."""
    return f"{_name(row)} is {format_three_digits(row.measured.ratio)} times A's ({format_interval(row)})"


def _describe_unknown(rows: Sequence[Row], comparison: Comparison) -> str:
    """Return in a few sentences what most rows say where some are not known, and what to do about these."""
    missing = [row for row in rows if row.answer is Answer.NOT_ENOUGH_DATA]
    deciding = [row for row in rows if row.answer is Answer.MACHINE_DECIDES]
    suspects = [row for row in deciding if row.may_be_slower]
    if suspects:
        clause = f"{_name(suspects[0])} is {_as_clause(suspects[0].why)}"
        said = f"{_MACHINE_DECIDES}{_share(suspects, rows, comparison)}: {clause}"
    else:
        is_most_known = 2 * (len(missing) + len(deciding)) < len(rows)
        lead = _MACHINE_DECIDES if len(deciding) > len(missing) else "Not enough data to know whether B is slower"
        counts = _count_answers(rows, comparison)
        said = f"{'B is not slower, as far as the data show' if is_most_known else lead}: {counts}"
    sentences = [f"{said}."]
    if len(missing) == 1 and not suspects:
        sentences.append(f"{_name(missing[0])}: {note_of(missing[0], comparison)}.")
    elif missing and not suspects and (enough := [row.measured.enough for row in missing if row.measured.enough]):
        amount = _format_clusters(median_high(enough), comparison)
        sentences.append(f"About {amount} a side would be enough for half of these.")
    if deciding:
        errors = (error for side in comparison.sides.values() for error in side.errors.values())
        sentences.append(find_remedy(error.summary() for error in errors))
    return " ".join(sentences)


def _share(some: Sequence[Row], rows: Sequence[Row], comparison: Comparison) -> str:
    """Return how many rows it is that are said to be something; empty where a single one decides."""
    return f" in {len(some):,} of {_count(rows, comparison)}" if len(rows) > 1 else ""


def _count_answers(rows: Sequence[Row], comparison: Comparison) -> str:
    """Return how many rows have which answer: `of 62 rows 38 are the same, 4 depend on the caller's machine`."""
    counts = Counter(row.answer for row in rows)
    parts = [f"{count:,} {_SAID_OF_ROWS[answer][count > 1]}" for answer, count in counts.most_common()]
    return f"of {_count(rows, comparison)} {', '.join(parts)}"


def _count(rows: Sequence[Row], comparison: Comparison) -> str:
    """Return how many rows decide, which are all that are shown unless some were chosen."""
    is_all = len(rows) == len(comparison.rows)
    return pluralize(len(rows), "row") if is_all else f"the {pluralize(len(rows), 'row')} that decide"


def _name(row: Row) -> str:
    return f"{row.quantity.title} of {row.model}"


def _as_clause(why: str) -> str:
    return f"the {why}" if why.startswith(Answer.SAME.value) else why


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
        format_three_digits(row.measured.ratio),
        format_interval(row),
        format_p(row.measured.adjusted_p),
        row.answer.value,
    )


def note_of(row: Row, comparison: Comparison) -> str:
    """Return why a row is not known, and what would be enough; empty for the other answers."""
    if not row.why or row.measured.enough is None:
        return row.why
    return f"{row.why}; about {_format_clusters(row.measured.enough, comparison)} a side would be enough"


def describe_missing_models(comparison: Comparison, escape: Callable[[str], str]) -> str:
    """Return the models that one side alone has, and so are not compared; empty where there are none."""
    models = ", ".join(f"{escape(model)} (only in {escape(side)})" for model, side in comparison.only_in)
    return f"Not compared: {models}" if models else ""


def _format_clusters(count: int, comparison: Comparison) -> str:
    """Return a number of clusters, rounded up to two digits, by the noun for them."""
    is_in_session = any(request.is_in_session for side in comparison.sides.values() for request in side.requests)
    unit = 10 ** max(len(str(count)) - 2, 0)
    return f"{-(-count // unit) * unit:,} {'sessions' if is_in_session else 'streams'}"


def format_figure(figure: Figure, quantity: Quantity) -> str:
    """Format the value of a figure in its unit, with what it may be less and more by."""
    if figure.value is None:
        return ABSENT
    errors = (None if end is None else abs(end - figure.value) for end in (figure.lowest, figure.highest))
    if quantity.unit is Unit.SECONDS:
        below, above = (error if error and is_error_shown(error, figure.value) else None for error in errors)
        return format_milliseconds_with_error(figure.value, below, above)
    scale = 100 if quantity.unit is Unit.SHARE else 1
    below, above = (error if error and error > MIN_UNCERTAIN_SHARE * figure.value else None for error in errors)
    return append_error(format_three_digits(figure.value * scale), below, scale, above)


def format_interval(row: Row) -> str:
    """Format the interval of a row's ratio, with two decimals, from ten on with three digits."""
    ends = row.measured.ratio_interval
    return ABSENT if ends is None else " to ".join(map(format_three_digits, ends))


def format_p(p: float | None) -> str:
    """Format a p-value with two or three decimals."""
    if p is None:
        return ABSENT
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"  # noqa: PLR2004 - digits that matter
