"""Computes the figures of each level of a sweep, with their intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby

import numpy as np

from otel_itl.core.slo import SLO
from otel_itl.tools.compare.levels import Level, Percentile, Rate
from otel_itl.tools.compare.quantities import MEDIAN, NamedFigure, Unit
from otel_itl.tools.compare.resampling import level_interval
from otel_itl.tools.report.certainty import Cause, describe_set_aside
from otel_itl.tools.report.too_few import count_needed
from otel_itl.tools.sweep.attainment import Share
from otel_itl.tools.sweep.blocks import Block, split_into_blocks
from otel_itl.tools.sweep.objective import OVER_GAPS, OVER_REQUESTS, measure_shares, meets_objective
from otel_itl.tools.sweep.records import Round, Sweep
from otel_itl.tools.sweep.server_metrics import ServerFigures, summarize

DEFAULT_TARGET = 0.99
"""Without an objective the tail that is shown is p99."""
_RESAMPLES = 2_000
_SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of one level with its 95 % interval.

    Numbers may be infinite: the percentile falls among requests that got no first token. None: nothing is known.
    """

    value: float | None
    interval: tuple[float, float] | None = None
    samples: int = 0
    effective_samples: int = 0
    """Number of independent samples that would give as narrow an interval; of a rate, its samples."""
    has_few_tail_samples: bool = False
    """Fewer than ten independent samples would lie beyond the percentile: its interval rests on a few requests, and is
    too narrow rather than too wide."""


class Standing(str, Enum):
    """How a level that counts stands to the objective."""

    WITHIN = "within"
    """No share over the objective can be larger than is allowed, and goodput rises."""
    UNCERTAIN = "uncertain"
    """It is not known: the interval of a share contains what is allowed, or a share was not measured."""
    BEYOND = "beyond"
    """A share over the objective is larger than is allowed."""
    FAILING = "failing"
    """More of its requests failed than `--max-errors` allows, or most of them."""
    SATURATED = "saturated"
    """It meets the objective, if there is one, but the added load does not come out as goodput."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """What was measured at one level, over its rounds that count. Rates are per second of their steady parts."""

    level: float
    rounds: Sequence[Round]
    """All rounds that were driven."""
    counted: Sequence[Round]
    """Rounds that are not void."""
    seconds: float
    """Length of the steady parts of the rounds that count, together."""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """Key of `quantities_of()` → figure; empty: the level is void."""
    shares: Mapping[str, Share] = field(default_factory=dict)
    """Key of a part of the objective → the share over it; a part that was not measured is missing."""
    concurrency: float = 0.0
    """Streams open at a time, on average."""
    max_concurrency: int = 0
    due: int = 0
    """Requests that were due in the steady parts."""
    set_aside_by: Counter[Cause] = field(default_factory=Counter)
    """What held requests up that were due in the steady parts: they are in no latency."""
    buffered: int = 0
    """Requests due in the steady parts whose answers a proxy or the server buffered: their gaps are not the model's."""
    shorter: int = 0
    """Requests whose answers were to have an exact length, and had fewer tokens."""
    longer: int = 0
    """Requests whose answers had more tokens than they were to have at most."""
    truncated: int = 0
    """Requests whose answers ended without a finish reason, and count as not completed."""
    without_token: int = 0
    """Requests due in the steady parts that got no first token: their time to first token is infinite."""
    errors: Counter[str] = field(default_factory=Counter)
    """Type of a failure → requests."""
    error_details: Mapping[str, str] = field(default_factory=dict)
    """Type of a failure → the endpoint's own message of the last one, or what became of the connection."""
    unreliable_figures: Mapping[str, Figure] = field(default_factory=dict)
    """Figures of the rounds that this machine could not drive, where there are no others: its delays are in them."""
    stall_causes: Counter[str] = field(default_factory=Counter)
    """Cause of a stall → stalls."""
    server: ServerFigures | None = None
    """What the server itself has measured; None: it was not asked, or the level is void for another reason
    than this machine, which changes nothing of the server's own."""
    standing: Standing | None = None
    """How it stands to the objective; None: it is void, or not judged yet."""
    missed: str | None = None
    """Key of the part of the objective because of which it is beyond or uncertain; None: of none."""
    doubt: str | None = None
    """Why it does not hold, or is uncertain, although its shares are within the objective: a clause; None: nothing."""

    @property
    def set_aside(self) -> int:
        """How many requests were set aside."""
        return self.set_aside_by.total()

    @property
    def void_reason(self) -> str | None:
        """Why the level is void (nothing is known of it), in one clause; None: it is not."""
        if self.figures:
            return None
        reasons = Counter(one.void_reason for one in self.rounds if one.void_reason is not None)
        if reasons:
            return reasons.most_common(1)[0][0]
        if self.set_aside:
            return describe_set_aside(self.set_aside_by, self.due)
        return "no request was due in its steady part"

    @property
    def is_failing(self) -> bool:
        """More of its requests failed than are allowed, or most of them; a single one shows neither."""
        return self.errors.total() > max(self.due / 2, 1) or any(one.is_failing for one in self.rounds)

    @property
    def is_driver_bound(self) -> bool:
        """The level is void, because this machine could not drive it."""
        return not self.figures and any(one.is_driver_bound for one in self.rounds)

    @property
    def due_per_second(self) -> float:
        """Requests that were due, per second."""
        return self.due / self.seconds if self.seconds else 0.0


def tail_of(objective: SLO | None) -> float:
    """Return the percentile that an objective is about: 99, unless its target is another share than 0.99."""
    return round(100 * (DEFAULT_TARGET if objective is None else objective.target), 6)


def quantities_of(objective: SLO | None) -> tuple[NamedFigure, ...]:
    """Return the figures of a level, in their order: those of the objective first."""
    tail = tail_of(objective)
    judged: list[NamedFigure] = []
    if objective is not None:
        judged.append(NamedFigure(OVER_REQUESTS, "requests over", Unit.SHARE))
        if objective.itl is not None:
            judged.append(NamedFigure(OVER_GAPS, "gaps over", Unit.SHARE))
        judged.append(NamedFigure("goodput", "goodput", Unit.REQUESTS_PER_SECOND))
    return (
        *judged,
        NamedFigure("completed", "completed", Unit.REQUESTS_PER_SECOND),
        NamedFigure("tokens", "tokens", Unit.TOKENS_PER_SECOND),
        *(
            NamedFigure(f"{key}_p{q:g}", f"{key.upper()} p{q:g}", Unit.SECONDS)
            for key in ("ttft", "itl")
            for q in (50.0, tail)
        ),
        NamedFigure("stalls", "stalls/1,000 tokens", Unit.PER_THOUSAND_TOKENS),
    )


def compute_levels(sweep: Sweep) -> list[LevelResult]:
    """Return the figures of each level that was driven, ascending. The same sweep gives the same figures."""
    ordered = sorted(sweep.rounds, key=lambda one: one.level)
    return [_compute_level(list(rounds), sweep) for _, rounds in groupby(ordered, key=lambda one: one.level)]


def _compute_level(rounds: Sequence[Round], sweep: Sweep) -> LevelResult:
    """Return the figures of one level, given all its rounds."""
    result = _compute_rounds(rounds, [one for one in rounds if one.seconds and one.void_reason is None], sweep)
    if not result.is_driver_bound:
        return result
    bound = _compute_rounds(rounds, [one for one in rounds if one.seconds and one.is_driver_bound], sweep)
    return replace(result, unreliable_figures=bound.figures, server=bound.server)


def _compute_rounds(rounds: Sequence[Round], counted: Sequence[Round], sweep: Sweep) -> LevelResult:
    """Return the figures of some rounds of a level.

    Args:
        rounds: all rounds of the level.
        counted: the rounds whose requests are in the figures.
        sweep: what was recorded.
    """
    level, seconds = rounds[0].level, sum(one.seconds for one in counted)
    blocks = [block for one in counted for block in split_into_blocks(one)]
    due = [request for block in blocks for request in block.due]
    judged = [request for request in due if not request.is_held_up]
    causes = Counter(request.held_up_by for request in due if request.held_up_by is not None)
    if not judged:
        return LevelResult(level=level, rounds=rounds, counted=(), seconds=0.0, due=len(due), set_aside_by=causes)
    shares = measure_shares([block.due for block in blocks], sweep.objective)
    return LevelResult(
        level=level,
        rounds=rounds,
        counted=counted,
        seconds=seconds,
        shares=shares,
        figures=_compute_figures(blocks, sweep.objective, np.random.default_rng(_SEED))
        | {key: _figure_of_share(share) for key, share in shares.items()},
        concurrency=sum(one.concurrency * one.seconds for one in counted) / seconds,
        max_concurrency=max(one.max_concurrency for one in counted),
        due=len(due),
        set_aside_by=causes,
        buffered=sum(request.is_buffered for request in judged),
        shorter=sum(request.is_shorter for request in judged),
        longer=sum(request.is_longer for request in judged),
        truncated=sum(request.is_truncated for request in judged),
        without_token=sum(request.time_to_first_token is None for request in judged),
        errors=Counter(request.failure for request in due if request.failure is not None),
        error_details={request.failure or "": request.detail for request in due if request.detail},
        server=summarize((one.server for one in counted), sweep.model, tail_of(sweep.objective))
        if sweep.has_server_metrics
        else None,
        stall_causes=sum((request.stall_causes for request in judged), Counter[str]()),
    )


def _compute_figures(blocks: Sequence[Block], objective: SLO | None, random: np.random.Generator) -> dict[str, Figure]:
    """Return the figures of blocks by their keys."""
    judged = [[request for request in block.due if not request.is_held_up] for block in blocks]
    # Infinity, where no token came: a request that waits in vain is no fast one.
    firsts = [
        [math.inf if request.time_to_first_token is None else request.time_to_first_token for request in of_block]
        for of_block in judged
    ]
    measured = [[request.measured for request in of_block if request.measured] for of_block in judged]
    gaps = [np.concatenate([*(request.gaps for request in of_block), np.empty(0)]) for of_block in measured]
    seconds = [block.end - block.start for block in blocks]
    good, completed = (
        [sum(not one.is_held_up and meets_objective(one, judged_by) for one in block.ended) for block in blocks]
        for judged_by in (objective, None)
    )
    tokens = [
        sum(share * request.measured.tokens for request, share in block.open if request.measured) for block in blocks
    ]
    stalls = [sum(request.stalls for request in of_block) for of_block in judged]
    thousands = [sum(request.tokens for request in of_block) / 1_000 for of_block in measured]
    scale = _scale_for_set_aside(blocks)
    tail = tail_of(objective)
    levels: dict[str, tuple[Level, int, float | None]] = {
        f"{key}_p{q:g}": (Percentile(samples, q), sum(map(len, samples)), q)
        for key, samples in (("ttft", firsts), ("itl", gaps))
        for q in (50.0, tail)
    }
    for key, ended in (("goodput", good), ("completed", completed)):
        levels[key] = Rate(np.multiply(ended, scale), seconds, is_count=False), sum(ended), None
    levels["streams"] = (
        Rate([block.streams * (block.end - block.start) for block in blocks], seconds, is_count=False),
        len(blocks),
        None,
    )
    levels["tokens"] = Rate(tokens, seconds, is_count=False), round(sum(tokens)), None
    levels["stalls"] = Rate(stalls, thousands, is_count=False), sum(stalls), None
    return {key: _figure(level, count, q, len(blocks), random) for key, (level, count, q) in levels.items()}


def _figure(level: Level, samples: int, q: float | None, clusters: int, random: np.random.Generator) -> Figure:
    """Return one figure with its interval; `q` is the percentile that it is, None: none."""
    everything = np.ones(clusters)
    value = level.shown(everything)
    if math.isnan(value):
        return Figure(value=None)
    effective = float(samples) if q is None else level.count_samples(everything)[1]
    return Figure(
        value=value,
        interval=level_interval(level, clusters, _RESAMPLES, random),
        samples=samples,
        effective_samples=round(effective),
        has_few_tail_samples=q is not None and q > MEDIAN and effective < count_needed(q),
    )


def _figure_of_share(share: Share) -> Figure:
    """Return a share over the objective as a figure."""
    return Figure(
        value=share.value,
        interval=share.interval,
        samples=share.samples,
        effective_samples=int(share.independent),
    )


def _scale_for_set_aside(blocks: Sequence[Block]) -> float:
    """Return the factor by which requests that were not set aside stand for all."""
    ended = [request for block in blocks for request in block.ended]
    judged = sum(not request.is_held_up for request in ended)
    return len(ended) / judged if judged else 1.0
