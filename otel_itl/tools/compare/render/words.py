"""The words and numbers of a comparison, which all its forms share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median_high
from typing import Final

from otel_itl.core.error_format import append_error
from otel_itl.core.measures import MIN_UNCERTAIN_SHARE
from otel_itl.core.moments import format_time
from otel_itl.tools.compare.effects import NEVER_ON_BOTH
from otel_itl.tools.compare.gate import deciding_rows, is_chosen, leaves_open, required_rows, seems_slower
from otel_itl.tools.compare.prompts import CONFOUNDED
from otel_itl.tools.compare.quantities import PROMPT_LENGTH, Direction, Quantity, Unit
from otel_itl.tools.compare.requests import Side
from otel_itl.tools.compare.results import Comparison, Figure, Row
from otel_itl.tools.compare.verdicts import TOO_FEW, UNKNOWN, WILL_NOT_SETTLE, Answer
from otel_itl.tools.report.certainty import (
    describe_figures,
    find_remedy,
    format_milliseconds_with_error,
    is_error_shown,
)
from otel_itl.tools.report.render.number_format import ABSENT, format_three_digits, pluralize

HEADINGS = ("A", "B", "B / A", "95 % interval", "p", "answer")
PAIRED: Final = "Both sides have the same sessions or requests: each is compared with itself."
ADJUSTED: Final = "compared as of like prompts"
_MACHINE_DECIDES: Final = "The caller's machine decides whether B is slower"
_SAID_OF_ROWS: Final = {
    Answer.SLOWER_SOMEHOW: ("is slower by what is not known", "are slower by what is not known"),
    Answer.SAME: ("is the same", "are the same"),
    Answer.NOT_SLOWER: ("is not slower", "are not slower"),
    Answer.FASTER: ("is faster", "are faster"),
    Answer.LONGER: ("is longer", "are longer"),
    Answer.SHORTER: ("is shorter", "are shorter"),
    Answer.MORE: ("is more", "are more"),
    Answer.FEWER: ("is fewer", "are fewer"),
    Answer.NOT_ENOUGH_DATA: ("has not enough data", "have not enough data"),
    Answer.MACHINE_DECIDES: ("depends on the caller's machine", "depend on the caller's machine"),
    Answer.BUFFERED: ("is buffered", "are buffered"),
}
"""Answer → what is said of one row, and of several."""
_MAX_NAMED: Final = 3


def headline(comparison: Comparison, keys: Sequence[str]) -> str:
    """Return the answer in a few sentences, from the rows that decide, and what of the sides was not compared."""
    if comparison.is_identical:
        return "Both sides have the same streams."
    sentences = [_answer(comparison, keys), describe_prompts(comparison, keys), describe_models(comparison)]
    return " ".join(filter(None, sentences))


def _answer(comparison: Comparison, keys: Sequence[str]) -> str:
    """Return what the rows that decide say."""
    rows = deciding_rows(comparison, keys)
    slower = [row for row in rows if row.answer is Answer.SLOWER]
    if slower:
        clearest = max(slower, key=_find_least)
        return f"B is slower{_share(slower, rows, comparison)}: {describe_row(clearest)}."
    required = required_rows(comparison, keys)
    if not required:
        return "Not enough data to know whether B is slower: no row of those chosen can be compared."
    somehow = [row for row in rows if row.answer is Answer.SLOWER_SOMEHOW]
    if somehow:
        clearest = max(somehow, key=_find_least)
        lead = f"B is slower{_share(somehow, rows, comparison)}, but by how much is not known"
        return f"{lead}: {describe_row(clearest)}."
    if leaves_open(comparison, keys):
        return _describe_unknown(rows, comparison)
    faster = [row for row in rows if row.answer is Answer.FASTER]
    unknown = dict.fromkeys(row.quantity.title for row in rows if row.answer in UNKNOWN)
    rest = f"; {_list(list(unknown))}: not known" if unknown else ""
    tested = "chosen row" if is_chosen(keys) else "latency"
    said = f"No {tested} is slower by more than {comparison.margin * 100:.3g} %{rest}."
    if faster:
        best = min(faster, key=lambda row: row.measured.ratio or 1.0)
        return f"{said} In part B is faster: {describe_row(best)}."
    return said


def describe_prompts(comparison: Comparison, keys: Sequence[str]) -> str:
    """Return in one sentence how much longer or shorter B's prompts are; empty if that is not known to matter."""
    differing = [
        row
        for row in comparison.rows
        if row.quantity.key == PROMPT_LENGTH and row.answer in {Answer.LONGER, Answer.SHORTER}
    ]
    if not differing:
        return ""
    row = differing[-1]  # over all models, if there are several
    said = f"B's prompts are {row.answer.value}, {format_ratio(row.measured.ratio)} times A's"
    adjusted = [
        one.quantity.title for one in deciding_rows(comparison, keys) if one.measured.unadjusted_ratio is not None
    ]
    return f"{said}; {_list(list(dict.fromkeys(adjusted)))}: {ADJUSTED}." if adjusted else f"{said}."


def _find_least(row: Row) -> float:
    """Return by how much B is slower at least, as a ratio."""
    low, high = row.measured.ratio_interval or (0.0, 0.0)
    return 1 / high if row.quantity.direction is Direction.FASTER and high else low


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def describe_models(comparison: Comparison) -> str:
    """Return in one sentence how the models of the sides differ; empty if they do not."""
    if not comparison.only_in:
        return ""
    if comparison.has_no_common_model:
        a, b = (sorted({request.model for request in side.requests}) for side in comparison.sides.values())
        said = f"The sides have no model in common: {_name_some(a)} of A is compared with {_name_some(b)} of B"
        is_mixed = len(a) > 1 or len(b) > 1
        return f"{said}; pooled over models, a figure shows their mix as well." if is_mixed else f"{said}."
    models = {
        letter: [model for model, name in comparison.only_in if name == side.name]
        for letter, side in comparison.sides.items()
    }
    parts = [f"{_name_some(lacking)} is in {letter} alone" for letter, lacking in models.items() if lacking]
    return f"Not all is compared: {', '.join(parts)}."


def _name_some(models: Sequence[str]) -> str:
    """Return the first of some models: `a / b, c / d and 3 more`."""
    more = f" and {len(models) - _MAX_NAMED:,} more" if len(models) > _MAX_NAMED else ""
    return ", ".join(models[:_MAX_NAMED]) + more


def describe_row(row: Row) -> str:
    """Return a row as a clause: `ITL p99 of openai / m is 1.32 times A's (1.18 to 1.47)`."""
    if row.measured.ratio == math.inf:
        return f"{_name(row)} is infinite, unlike A's"
    return f"{_name(row)} is {format_ratio(row.measured.ratio)} times A's ({format_interval(row)})"


def _describe_unknown(rows: Sequence[Row], comparison: Comparison) -> str:
    """Return in a few sentences what most rows say where some are not known, and what to do about these."""
    missing = [row for row in rows if row.answer is Answer.NOT_ENOUGH_DATA]
    deciding = [row for row in rows if row.answer is Answer.MACHINE_DECIDES]
    suspects = [row for row in deciding if row.may_be_slower]
    if suspects:
        clause = f"{_name(suspects[0])} is {_as_clause(suspects[0].why)}"
        said = f"{_MACHINE_DECIDES}{_share(suspects, rows, comparison)}: {clause}"
    else:
        is_most_known = 2 * sum(row.answer in UNKNOWN for row in rows) < len(rows)
        is_open = any(seems_slower(row, comparison.margin) or _cannot_be_compared(row) for row in rows)
        lead = _MACHINE_DECIDES if len(deciding) > len(missing) else "Not enough data to know whether B is slower"
        counts = _count_answers(rows, comparison)
        said = f"{'B is not slower, as far as the data show' if is_most_known and not is_open else lead}: {counts}"
    sentences = [f"{said}.", *([] if suspects else _describe_shown(comparison, rows))]
    if len(missing) == 1 and not suspects:
        sentences.append(f"{_name(missing[0])}: {note_of(missing[0], comparison)}.")
    elif missing and not suspects and (few := [row for row in missing if row.measured.why.endswith(TOO_FEW)]):
        amount = _format_clusters(few[0].measured.enough or 0, comparison)
        sentences.append(f"{_name(few[0])}: {few[0].why}; it takes at least {amount} a side.")
    elif missing and not suspects and (enough := list(filter(None, map(_find_enough, missing)))):
        half = median_high(enough)
        amount = "" if math.isinf(half) else f"About {_format_clusters(round(half), comparison)} a side"
        sentences.append(
            f"{amount} would be enough for half of these, if nothing has changed."
            if amount
            else "More data of this kind will not settle these."
        )
    if deciding:
        sentences.append(find_remedy(known for side in comparison.sides.values() for known in side.known.values()))
    return " ".join(sentences)


def _describe_shown(comparison: Comparison, deciding: Sequence[Row]) -> list[str]:
    """Return a sentence with the row that is slowest of those that decide nothing; empty if none is slower."""
    slower = [row for row in comparison.rows if row not in deciding and row.answer is Answer.SLOWER]
    if any(row.measured.why.endswith(CONFOUNDED) for row in deciding):  # it follows from the prompts as well
        return []
    return [f"Slower, though it decides nothing: {describe_row(max(slower, key=_find_least))}."] if slower else []


def _cannot_be_compared(row: Row) -> bool:
    """Return whether data show nothing of a row, however many they are."""
    return row.measured.why == NEVER_ON_BOTH or row.measured.why.endswith(CONFOUNDED)


def _find_enough(row: Row) -> float | None:
    """Return how many clusters a side would be enough; infinite: more of them will not; None: not known."""
    return math.inf if row.measured.why.endswith(WILL_NOT_SETTLE) else row.measured.enough


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
    """Return what a side consists of, and of when: `10 sessions, 60 streams, 2026-11-01T12:00:00Z to 12:31:07Z`."""
    sessions = len({request.cluster for request in side.requests if request.is_in_session})
    parts = ([pluralize(sessions, "session")] if sessions else []) + [pluralize(len(side.requests), "stream")]
    first, last = format_time(side.first_unix_ns), format_time(side.last_unix_ns)
    day, _, time = last.partition("T")
    until = "" if first == last else f" to {time if first.startswith(day) else last}"
    return ", ".join([*parts, f"{first}{until}"])


def describe_errors(side: Side) -> list[str]:
    """Return for each figure that is uncertain of how many streams, and why."""
    return describe_figures(side.known)


def cells_of(row: Row) -> tuple[str, ...]:
    """Return the cells of a row, in the order of `HEADINGS`."""
    return (
        format_figure(row.a, row.quantity),
        format_figure(row.b, row.quantity),
        format_ratio(row.measured.ratio),
        format_interval(row),
        format_p(row.measured.adjusted_p),
        row.answer.value,
    )


def describe_compared_prompts(comparison: Comparison) -> list[str]:
    """Return what was done about prompts: which rows are compared as of like ones, or that nothing could be checked."""
    adjusted = [row for row in comparison.rows if row.measured.unadjusted_ratio is not None]
    if not adjusted:
        return _describe_unchecked(comparison)
    titles = dict.fromkeys(row.quantity.title for row in adjusted)
    changed = [
        row
        for row in adjusted
        if abs(math.log((row.measured.ratio or 1.0) / (row.measured.unadjusted_ratio or 1.0)))
        > math.log1p(comparison.margin)
    ]
    return [
        f"B / A of {_list(list(titles))}: {ADJUSTED}, unlike the figures of A and of B.",
        *_describe_unchecked(comparison),
        *(f"{_name(row)} as measured is {format_ratio(row.measured.unadjusted_ratio)} times A's." for row in changed),
    ]


def _describe_unchecked(comparison: Comparison) -> list[str]:
    """Return that prompts could not be compared where one side alone records their lengths."""
    recorded = {
        letter: {None if comparison.has_no_common_model else one.model for one in side.requests if one.prompt_tokens}
        for letter, side in comparison.sides.items()
    }
    alone = recorded["A"] ^ recorded["B"]
    if not comparison.has_no_common_model:
        alone &= {row.model for row in comparison.rows}
    letters = [letter for letter, models in recorded.items() if models & alone]
    return [f"Prompt lengths are known of {letter} alone: nothing was checked of prompts." for letter in letters]


def note_of(row: Row, comparison: Comparison) -> str:
    """Return why a row is not known, and what would be enough; empty for the other answers."""
    if not row.why or row.measured.enough is None:
        return row.why
    amount = _format_clusters(row.measured.enough, comparison)
    if row.why.endswith(TOO_FEW):
        return f"{row.why}; it takes at least {amount} a side"
    return f"{row.why}; about {amount} a side would be enough if nothing has changed"


def _format_clusters(count: int, comparison: Comparison) -> str:
    """Return a number of clusters, rounded up to two digits, by the noun for them."""
    is_in_session = any(request.is_in_session for side in comparison.sides.values() for request in side.requests)
    unit = 10 ** max(len(str(count)) - 2, 0)
    return f"{-(-count // unit) * unit:,} {'sessions' if is_in_session else 'streams'}"


def format_figure(figure: Figure, quantity: Quantity) -> str:
    """Format the value of a figure in its unit, with what it may be less and more by."""
    if figure.value is None:
        return ABSENT
    if figure.value == math.inf:
        return "never"
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
    return ABSENT if ends is None else " to ".join(map(format_ratio, ends))


def format_ratio(ratio: float | None) -> str:
    """Format a ratio, which may be infinite."""
    return "infinite" if ratio == math.inf else format_three_digits(ratio)


def format_p(p: float | None) -> str:
    """Format a p-value with two or three decimals."""
    if p is None:
        return ABSENT
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"  # noqa: PLR2004 - digits that matter
