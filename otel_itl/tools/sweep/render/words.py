"""The words and numbers of a sweep, which all its forms share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

from otel_itl.core.slo import CUSTOM, SLO
from otel_itl.tools.compare.quantities import NamedFigure, Unit
from otel_itl.tools.report.certainty import describe_set_aside
from otel_itl.tools.report.render.number_format import (
    ABSENT,
    format_edge,
    format_milliseconds,
    format_three_digits,
    pluralize,
)
from otel_itl.tools.sweep.attainment import estimate_requests
from otel_itl.tools.sweep.bottleneck import find_bottleneck
from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.objective import OVER_GAPS
from otel_itl.tools.sweep.results import Figure, LevelResult, Standing
from otel_itl.tools.sweep.sample_size import least_requests

NEVER: Final = "never"
"""Stands for an infinite latency: the percentile falls among requests that got no token."""
MAX_CAUSES: Final = 3
MIN_STREAMS: Final = 0.1
"""A smaller number of open streams is not written out."""
_ANSWERS: Final = {
    "shorter": "had fewer tokens than --ignore-eos asked for",
    "longer": "had more tokens than --answer-tokens allows",
    "truncated": "ended without a finish reason: they count as not completed",
    "buffered": "came in bursts of a buffer: their gaps are not judged",
}
"""Field of a level that counts answers, and what they are."""


def headline(result: SweepResult) -> str:
    """Return the answer in one sentence, which agrees with the exit code."""
    knee, objective, decisive = result.knee, result.sweep.objective, result.decisive
    within = "" if objective is None else f" within {_name_objective(objective)}"
    if decisive is None:
        return f"{_describe_nothing(result)}."
    if knee is None:
        return f"{_describe_decisive(decisive, within, result)}."
    carried = f"{describe_streams(knee.concurrency)}{within}"
    if knee.level < 1:
        carried += ", fewer than the expected peak"
    failing = next((one for one in result.judged if one.level > knee.level), None)
    if failing is not None:
        return f"Carries {carried}; {_describe_failing(failing, result)}."
    return f"Carries at least {carried}; {_describe_end(result, knee)}."


def describe_capacity(result: SweepResult) -> str | None:
    """Return in one line the load of the knee with its intervals, and where the limit lies; None: there is no knee."""
    knee = result.knee
    if knee is None:
        return None
    streams = f"{format_streams(knee.concurrency)} streams{_describe_interval(knee.figures.get('streams'))}"
    key, figures = ("completed" if result.sweep.objective is None else "goodput"), knee.figures
    rates = (
        f"{_with_interval(figures.get(name))} {unit}" for name, unit in ((key, "requests/s"), ("tokens", "tokens/s"))
    )
    at, limit = format_streams(knee.concurrency), result.limit
    between = "" if limit is None else f"; the limit lies between {at} and {format_streams(limit)} streams"
    return f"At the knee: {', '.join([streams, *rates])}{between}."


def _with_interval(figure: Figure | None) -> str:
    """Return a rate with its interval: `18.1 (17.6 to 18.5)`."""
    if figure is None or figure.value is None:
        return ABSENT
    return f"{format_three_digits(figure.value)}{_describe_interval(figure)}"


def _describe_interval(figure: Figure | None) -> str:
    """Return the interval of a figure in parentheses; empty, where it has none."""
    if figure is None or figure.interval is None:
        return ""
    return f" ({' to '.join(map(format_three_digits, figure.interval))})"


def _describe_nothing(result: SweepResult) -> str:
    """Return why nothing is known, where no level counts."""
    if not result.levels:
        return f"Nothing was measured: {result.sweep.stop_reason or 'no level was driven'}"
    void = result.levels[0]
    if void.is_driver_bound:
        tried = _describe_tried(void, result)
        return f"This machine could not drive {tried}, and nothing is known of the endpoint: {_why_void(void)}"
    return f"The sweep did not measure what the endpoint carries: {_why_unknown(void, result)}"


def _describe_decisive(level: LevelResult, within: str, result: SweepResult) -> str:
    """Return how the level stands to the objective that shows how the expected peak does, where there is no knee."""
    streams = f"{describe_streams(level.concurrency)} ({_describe_multiple(level, result)})"
    end = "; whether it carries the expected peak is not known" if level.level > 1 else ""
    if level.standing is Standing.FAILING:
        sentence = _describe_failed(level, result)
        return sentence[0].upper() + sentence[1:] + end
    if level.standing is Standing.UNCERTAIN:
        return f"It is not known whether {streams} are carried{within}: {_describe_uncertain(level, result)}"
    if level.standing is Standing.SATURATED and level.doubt is None and level is result.judged[0]:
        return f"Does not carry {streams}{within}: fewer than half of the requests are completed{within}{end}"
    if level.standing is Standing.WITHIN:  # and a lower one is not
        return f"It is not known whether {streams} are carried{within}: they were, and a lower load was not"
    missed = f"{_describe_missed(level, result)}, {find_bottleneck(level, result).words}"
    return f"Does not carry {streams}{within}: {missed}{end}"


def _describe_failing(failing: LevelResult, result: SweepResult) -> str:
    """Return as a clause what happens at the level above the knee."""
    at = f"at {format_streams(failing.concurrency)}"
    if failing.standing is Standing.FAILING:
        return _describe_failed(failing, result)
    if failing.standing is Standing.UNCERTAIN:
        return f"at {format_streams(failing.concurrency)} it is not known, as {_describe_uncertain(failing, result)}"
    return f"{at} {_describe_missed(failing, result)}, {find_bottleneck(failing, result).words}"


def _describe_uncertain(level: LevelResult, result: SweepResult) -> str:
    """Return as a clause why it is not known how a level stands, and about how many requests would decide it."""
    share = level.shares.get(level.missed or "")
    if share is None:
        return _describe_unmeasured(level) if level.missed or level.doubt is None else level.doubt
    needed = estimate_requests(share, result.sweep.allowed)
    least, most = (format_three_digits(100 * end) for end in share.interval)
    reason = f"{_describe_missed(level, result, f'{least} to {most}')}, by {pluralize(share.requests, 'request')}"
    if share.interval[1] <= result.sweep.allowed:
        enough = share.requests >= least_requests(result.sweep.allowed)
        reason += ", the times of which are too alike" if enough else ", which are too few"
    return f"{reason}: too close to decide" if needed is None else f"{reason}; about {needed:,} would decide"


def _describe_unmeasured(level: LevelResult) -> str:
    """Return as a clause why the gaps of a level are not known."""
    if level.buffered:
        return f"the ITL was not measured: {level.buffered:,} of {level.due:,} answers came in bursts of a buffer"
    return "the ITL was not measured: most answers came in one chunk"


def _describe_failed(level: LevelResult, result: SweepResult) -> str:
    """Return as a clause that requests failed at a level, and why most of them did."""
    at = f"at {_describe_multiple(level, result)}"
    if not level.errors:  # all of requests that were due in the warm-up
        return f"too many requests failed {at}"
    failed, due = level.errors.total(), level.due
    if failed == due == 1:
        which = "too many requests of the warm-up, and the only one after it,"
    else:
        which = f"all {pluralize(due, 'request')}" if failed == due else f"{failed:,} of {pluralize(due, 'request')}"
    name = level.errors.most_common(1)[0][0]
    return f"{which} failed {at} ({_name_with_detail(name, level)})"


def _name_with_detail(name: str, level: LevelResult) -> str:
    """Return the type of a failure with the endpoint's own message, if there is one."""
    detail = level.error_details.get(name)
    return name if detail is None else f"{name}: {detail}"


def _describe_multiple(level: LevelResult, result: SweepResult) -> str:
    """Return a level as a multiple of the peak, which fewer streams may be than were open: `1x the peak of 24`."""
    return f"{format_level(level.level)} the expected peak of {result.sweep.peak:g}"


def _describe_end(result: SweepResult, knee: LevelResult) -> str:
    """Return as a clause why nothing is known beyond the knee, where no level above it counts."""
    void = next((level for level in result.levels if level.level > knee.level), None)
    if void is not None and void.is_driver_bound:
        return f"this machine could not drive more: at {_describe_tried(void, result)} {_why_void(void)}"
    if void is not None:
        return f"at {_describe_tried(void, result)} nothing is known: {_why_unknown(void, result)}"
    if result.sweep.stop_reason is not None:
        return f"more was not tried: {result.sweep.stop_reason}"
    return "more was not tried"


def _why_void(level: LevelResult) -> str:
    """Return why a level is void, without the words that the sentence begins with already."""
    return (level.void_reason or "").removeprefix("this machine could not drive more: ")


def _why_unknown(level: LevelResult, result: SweepResult) -> str:
    """Return why a level is void; where the sweep ended with it for a further reason, with that."""
    void, stopped = level.void_reason or "", result.sweep.stop_reason
    is_last = result.sweep.rounds[-1].level == level.level
    if stopped is None or not is_last or stopped.startswith(void) or stopped in void:
        return void
    return f"{void}, and {stopped}"


def _describe_missed(level: LevelResult, result: SweepResult, percent: str | None = None) -> str:
    """Return as a clause why a level is not carried: `3.2 % of the gaps are longer than 100 ms (1 % may)`.

    Args:
        level: that is not carried.
        result: the answers.
        percent: the share to name, in percent; None: the one that was measured.
    """
    share, objective = level.shares.get(level.missed or ""), result.sweep.objective
    if share is None or objective is None:
        return level.doubt or "the added load does not come out as more completed requests"
    may = f"({100 * result.sweep.allowed:.3g} % may)"
    over = f"{percent or format_three_digits(100 * share.value)} % of the"
    if level.missed == OVER_GAPS:
        return f"{over} gaps are longer than {format_edge(objective.itl or 0.0)} {may}"
    if percent is None and level.without_token > share.value * share.requests / 2:
        return f"{format_three_digits(100 * level.without_token / share.requests)} % of the requests get no token {may}"
    late = "" if objective.ttft is None else f"have no first token within {format_edge(objective.ttft)}, or "
    return f"{over} requests {late}are not completed {may}"


def _name_objective(objective: SLO) -> str:
    """Return the name of an objective for a sentence: `chat's objective`."""
    return "the objective" if objective.profile == CUSTOM else f"{objective.profile}'s objective"


def describe_objective(objective: SLO | None) -> str:
    """Return an objective with its figures: `chat: TTFT 500 ms, ITL 100 ms, for 99 %`."""
    if objective is None:
        return "none: the knee is where goodput no longer rises"
    limits = {"TTFT": objective.ttft, "ITL": objective.itl}
    parts = ", ".join(f"{name} {format_edge(limit)}" for name, limit in limits.items() if limit is not None)
    return f"{objective.profile}: {parts}, for {objective.target * 100:.6g} %"


def describe_streams(concurrency: float) -> str:
    """Return a number of open streams: `48 streams`; below ten with one decimal."""
    if concurrency < MIN_STREAMS:
        return f"fewer than {MIN_STREAMS:g} streams"
    if concurrency < 10 and round(concurrency, 1) != round(concurrency):  # noqa: PLR2004 - a digit that matters
        return f"{concurrency:.1f} streams"
    return pluralize(round(concurrency), "stream")


def _describe_tried(level: LevelResult, result: SweepResult) -> str:
    """Return the number of streams that a void level was to reach: `72 streams (3x)`."""
    return f"{describe_streams(level.level * result.sweep.peak)} ({format_level(level.level)})"


def describe_load(result: SweepResult) -> str:
    """Return how requests were sent."""
    sweep = result.sweep
    kind = "open loop" if sweep.is_open_loop else "closed loop"
    peak = f"an expected peak of {describe_streams(sweep.peak)}"
    return f"{kind}, {peak}, {pluralize(sweep.request_count, 'request')} in {pluralize(len(sweep.rounds), 'round')}"


def describe_standing(level: LevelResult, result: SweepResult) -> str:
    """Return how a level stands to the objective, in one or two words; the knee is named."""
    if level.standing is None:
        return "void"
    if level is result.knee:
        return "knee"
    if level.standing is Standing.WITHIN and result.sweep.objective is None:
        return "rising"
    return "not known" if level.standing is Standing.UNCERTAIN else level.standing.value


def describe_notes(result: SweepResult) -> Iterator[str]:
    """Yield what is to be known of the figures, a sentence each."""
    for level in result.levels:
        yield from _describe_caveats(level, result)
    if any(level.unreliable_figures for level in result.levels):
        yield "Figures in parentheses are of void rounds: this machine's own delays are in them."
    if any(figure.has_few_tail_samples for level in result.levels for figure in level.figures.values()):
        yield "~ fewer than ten independent samples would lie beyond this percentile: its interval is too narrow."
    sweep = result.sweep
    if sweep.stop_reason is not None:
        yield f"It ended before the last level: {sweep.stop_reason}."
    if sweep.cost is not None:
        yield f"By --prices it cost {sweep.cost:,.2f}."


def _describe_caveats(level: LevelResult, result: SweepResult) -> Iterator[str]:
    """Yield what was unusual at a level (void, failed, held up, buffered), a sentence each; nothing for a clean one."""
    at = format_level(level.level)
    if not level.figures:
        yield f"{at} is void: {level.void_reason}."
        return
    void = Counter(one.void_reason for one in level.rounds if one.void_reason is not None)
    if void:
        reasons = "; ".join(sorted(void))
        yield f"{at}: {sum(void.values())} of {pluralize(len(level.rounds), 'round')} void: {reasons}."
    if level.stall_causes:
        yield f"{at}: stalls by cause: {_describe_counts(level.stall_causes)}."
    if level.errors:
        errors = Counter({_name_with_detail(name, level): count for name, count in level.errors.items()})
        yield f"{at}: failed: {_describe_counts(errors)}."
    if level.without_token:
        verb = "counts" if level.without_token == 1 else "count"
        yield f"{at}: {pluralize(level.without_token, 'request')} without a token {verb} as infinitely late."
    for name, clause in _ANSWERS.items():
        if count := getattr(level, name):
            yield f"{at}: {pluralize(count, 'answer')} {clause}."
    share = level.shares.get(level.missed or "")
    if level.standing is Standing.UNCERTAIN and share is not None and share.interval[0] > result.sweep.allowed:
        yield f"{at}: more was over the objective than at higher levels: something else than load was slow."
    if level.set_aside:
        yield f"{at}: {describe_set_aside(level.set_aside_by, level.due)}."


def _describe_counts(counts: Counter[str]) -> str:
    """Return the largest counts: `12 upstream, 1 process`."""
    parts = [f"{count:,} {name}" for name, count in counts.most_common(MAX_CAUSES)]
    rest = counts.total() - sum(count for _, count in counts.most_common(MAX_CAUSES))
    return ", ".join(parts) + (f", {rest:,} more" if rest else "")


def format_streams(concurrency: float) -> str:
    """Format a concurrency: one decimal below ten."""
    return f"{concurrency:.1f}" if concurrency < 10 else f"{concurrency:,.0f}"  # noqa: PLR2004 - digits that matter


def format_level(level: float) -> str:
    """Format a level: `1.5x`."""
    return f"{level:g}x"


def format_level_figure(level: LevelResult, quantity: NamedFigure) -> str:
    """Format the value of a figure of a level; a rough one begins with `~`, one of void rounds is in parentheses."""
    unreliable = level.unreliable_figures.get(quantity.key)
    if unreliable is not None and unreliable.value is not None:
        return f"({format_value(unreliable.value, quantity.unit)})"
    figure = level.figures.get(quantity.key)
    if figure is None or figure.value is None:
        return ABSENT
    return ("~" if figure.has_few_tail_samples else "") + format_value(figure.value, quantity.unit)


def format_interval(figure: Figure | None, unit: Unit) -> str:
    """Format the interval of a figure: `130 to 155`; of latencies in ms."""
    if figure is None or figure.interval is None:
        return ABSENT
    return " to ".join(format_value(end, unit) for end in figure.interval)


def format_value(value: float, unit: Unit) -> str:
    """Format a number in the unit of its column: latencies in ms."""
    if math.isinf(value):
        return NEVER
    if unit is Unit.SHARE:
        return format_three_digits(100 * value)
    return format_milliseconds(value) if unit is Unit.SECONDS else format_three_digits(value)
