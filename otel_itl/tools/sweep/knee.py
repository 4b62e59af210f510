"""Finds the knee of a sweep: the highest level that meets the objective while goodput still rises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
from scipy.optimize import isotonic_regression

from otel_itl.core.slo import SLO
from otel_itl.tools.compare.levels import Floats
from otel_itl.tools.exit_codes import CANNOT_TELL
from otel_itl.tools.report.render.number_format import pluralize
from otel_itl.tools.sweep.attainment import Share, find_bounds, is_within, pool
from otel_itl.tools.sweep.brakes import RoundEnd
from otel_itl.tools.sweep.objective import OVER_GAPS, OVER_REQUESTS
from otel_itl.tools.sweep.records import Round, Sweep
from otel_itl.tools.sweep.results import LevelResult, Standing, compute_levels
from otel_itl.tools.sweep.silence import void_silence

MIN_GAIN = 0.5
"""Share of the load added by a level that has to come out as goodput, for goodput to rise."""
MIN_GAIN_OF_CALLERS = 0.2
"""The same in a closed loop, whose callers ask less often as soon as the endpoint is slower."""
HOLDS = 0
DOES_NOT_HOLD = 1
NOT_HOLDING = (Standing.BEYOND, Standing.FAILING, Standing.SATURATED)
"""How a level stands that does not carry its load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The answers of a sweep."""

    sweep: Sweep
    levels: Sequence[LevelResult]
    """Levels that were driven, ascending, with how each stands to the objective."""

    @property
    def judged(self) -> list[LevelResult]:
        """Levels that are not void, ascending."""
        return [level for level in self.levels if level.standing is not None]

    @property
    def knee(self) -> LevelResult | None:
        """The highest level within the objective where goodput still rises; None: there is none, or none is known.

        A level above one that is beyond the objective is none: where more load is carried than less, something else
        than load decides.
        """
        missed = (Standing.BEYOND, Standing.FAILING)
        carried = list(takewhile(lambda level: level.standing not in missed, self.levels))
        return next((level for level in reversed(carried) if level.standing is Standing.WITHIN), None)

    @property
    def limit(self) -> float | None:
        """Streams at the lowest level above the knee that does not hold: the limit lies between; None: not known."""
        knee = 0.0 if self.knee is None else self.knee.level
        above = (one.concurrency for one in self.judged if one.level > knee and one.standing in NOT_HOLDING)
        return next(above, None)

    @property
    def decisive(self) -> LevelResult | None:
        """The level that shows how the endpoint stands at the expected peak, of those that count; None: none does.

        That is the knee from the expected peak on; else the lowest level that does not hold up to the peak, which shows
        that the peak does not hold either; else the level that is nearest to the peak.
        """
        if self.knee is not None and self.knee.level >= 1:
            return self.knee
        missed = (level for level in self.judged if level.level <= 1 and level.standing in NOT_HOLDING)
        nearest = sorted(self.judged, key=lambda level: (abs(level.level - 1), level.level))
        return next(missed, next(iter(nearest), None))

    @property
    def exit_code(self) -> int:
        """What a deployment pipeline acts on: 0, the objective holds at the expected peak; 1, it does not; 3, unknown.

        A level above the peak shows that the objective holds at the peak, too, and one below it that it does not. Where
        too many requests fail, a level does not hold, with or without an objective; nor where goodput does not rise.
        """
        decisive = self.decisive
        if decisive is None:
            has_failed = any(one.is_failing for level in self.levels if level.level <= 1 for one in level.rounds)
            return DOES_NOT_HOLD if has_failed else CANNOT_TELL
        if decisive.standing is Standing.WITHIN and decisive.level >= 1:
            return HOLDS
        return DOES_NOT_HOLD if decisive.standing in NOT_HOLDING and decisive.level <= 1 else CANNOT_TELL


def analyze(sweep: Sweep) -> SweepResult:
    """Compute the figures of a sweep, and find its knee."""
    sweep = void_silence(sweep)
    levels = compute_levels(sweep)
    levels = list(_add_doubts(levels))
    known = [level for level in levels if level.figures]
    judged = iter(_judge(known, sweep) if known else ())
    return SweepResult(sweep=sweep, levels=[next(judged) if level.figures else level for level in levels])


def _add_doubts(levels: Sequence[LevelResult]) -> Iterator[LevelResult]:
    """Yield the levels, from the lowest one on at which the endpoint refused requests or did not keep up with a doubt.

    What was measured before it refused, or while its queue grew, may all be within the objective.
    """
    doubt: str | None = None
    for level in levels:
        reasons = [one.reason or "" for one in level.rounds if _is_doubtful(one)]
        if reasons and doubt is None:
            doubt = f"{reasons[0]} in {len(reasons)} of {pluralize(len(level.rounds), 'round')} at {level.level:g}x"
        yield replace(level, doubt=doubt)


def _is_doubtful(one: Round) -> bool:
    """Return whether the endpoint ended a round: by a refusal, for good, or because it did not keep up."""
    return one.end in {RoundEnd.RATE_LIMITED, RoundEnd.SILENT} or (
        one.end is RoundEnd.SATURATED and not one.is_driver_bound
    )


def _find_standing(level: LevelResult, *, is_rising: bool) -> Standing:
    """Return how a level stands of which no share is over the objective."""
    if not is_rising or all(one.end is RoundEnd.SATURATED for one in level.counted):
        return Standing.SATURATED
    return Standing.WITHIN if level.doubt is None else Standing.UNCERTAIN


def _judge(known: Sequence[LevelResult], sweep: Sweep) -> Iterator[LevelResult]:
    """Yield the levels that count, with their standing."""
    is_rising = _find_rising(known, is_open_loop=sweep.is_open_loop)
    for number, level in enumerate(known):
        standings = {key: _judge_part(known, number, key, sweep.allowed) for key in parts_of(sweep.objective)}
        if level.is_failing:
            yield replace(level, standing=Standing.FAILING)
            continue
        for standing in (Standing.BEYOND, Standing.UNCERTAIN):
            missed = [key for key, found in standings.items() if found is standing]
            if missed:
                yield replace(level, standing=standing, missed=max(missed, key=lambda key: _value_of(level, key)))
                break
        else:
            yield replace(level, standing=_find_standing(level, is_rising=is_rising[number]))


def parts_of(objective: SLO | None) -> tuple[str, ...]:
    """Return the keys of the shares that an objective is about."""
    if objective is None:
        return ()
    return (OVER_REQUESTS,) if objective.itl is None else (OVER_REQUESTS, OVER_GAPS)


def _value_of(level: LevelResult, key: str) -> float:
    """Return a share over the objective; one that was not measured is the largest."""
    return level.shares[key].value if key in level.shares else np.inf


def _judge_part(known: Sequence[LevelResult], number: int, key: str, allowed: float) -> Standing:
    """Return how a level stands to one part of the objective.

    As more load makes nothing faster, a level is pooled with those above it to show that it is within the objective,
    and with those below it to show that it is beyond: a single noisy level does not decide. Its own requests are among
    them each time, and where they alone say the opposite, nothing is known.

    Args:
        known: the levels that count, ascending.
        number: which of them.
        key: of the share.
        allowed: share that may be over the objective.
    """
    own = known[number].shares.get(key)
    if own is None:
        return Standing.UNCERTAIN
    is_beyond = own.interval[0] > allowed
    if any(is_within(_collect(known[number : end + 1], key), allowed) for end in range(number, len(known))):
        return Standing.UNCERTAIN if is_beyond else Standing.WITHIN
    below = (pool(_collect(known[start : number + 1], key)) for start in range(number + 1))
    return Standing.BEYOND if any(find_bounds(*pooled)[0] > allowed for pooled in below) else Standing.UNCERTAIN


def _collect(levels: Sequence[LevelResult], key: str) -> list[Share]:
    """Return a share over the objective of each level that has it."""
    return [level.shares[key] for level in levels if key in level.shares]


def _find_rising(known: Sequence[LevelResult], *, is_open_loop: bool) -> list[bool]:
    """Return for each level whether enough of the load that it adds comes out as goodput.

    The load of an open loop is what was due; of a closed loop, the number of callers, where the lowest level counts as
    all coming out.
    """
    goodput = np.array([level.figures["goodput"].value or 0.0 for level in known])
    fitted = _fit_peak(goodput, np.array([level.seconds for level in known]))
    if is_open_loop:
        load = np.array([level.due_per_second for level in known])
    else:
        load = np.array([level.level for level in known]) * (fitted[0] / known[0].level)
    gained, added = np.diff(fitted, prepend=0.0), np.diff(load, prepend=0.0)
    share = MIN_GAIN if is_open_loop else MIN_GAIN_OF_CALLERS
    return [bool(gain > 0 and gain >= share * more) for gain, more in zip(gained, added, strict=True)]


def _fit_peak(values: Floats, weights: Floats) -> Floats:
    """Fit values that rise up to one of them and fall from there on, as goodput does beyond what can be carried."""
    fits = []
    for peak in range(1, len(values) + 1):
        rising = isotonic_regression(values[:peak], weights=weights[:peak]).x
        falling = values[peak:]
        if falling.size:
            falling = isotonic_regression(falling, weights=weights[peak:], increasing=False).x
        fits.append(np.concatenate([rising, falling]))
    best: Floats = min(fits, key=lambda fit: float(weights @ np.square(fit - values)))
    return best
