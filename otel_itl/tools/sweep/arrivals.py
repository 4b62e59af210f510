"""Moments at which requests are due: at random, evenly, or in the shape of recorded traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, count, cycle, islice
from random import Random

from otel_itl.tools.sweep.plan import SweepPlan


def iterate_arrivals(plan: SweepPlan, rate: float, random: Random) -> Iterator[float]:
    """Yield ascending moments, in seconds after the start of a round, without end.

    Args:
        plan: how the moments are spread.
        rate: moments per second, on average.
        random: source of the random distances.
    """
    if plan.arrivals == "poisson":
        return iterate_poisson(rate, random)
    if plan.arrivals == "constant":
        return iterate_constant(rate)
    return iterate_recorded(plan.inter_arrivals, rate, random)


def iterate_poisson(rate: float, random: Random) -> Iterator[float]:
    """Yield the moments of a Poisson process: independent of each other, as those of many users are."""
    return accumulate(random.expovariate(rate) for _ in count())


def iterate_constant(rate: float) -> Iterator[float]:
    """Yield moments at equal distances, from 0 on. Each is computed on its own, so that no error adds up."""
    return (number / rate for number in count())


def iterate_recorded(inter_arrivals: Sequence[float], rate: float, random: Random) -> Iterator[float]:
    """Yield moments at recorded distances in their recorded order, all scaled to the rate: bursts stay bursts.

    The first moment is a random place of the record; where the record ends, it is repeated from its start.
    """
    scale = len(inter_arrivals) / sum(inter_arrivals) / rate
    distances = islice(cycle(inter_arrivals), random.randrange(len(inter_arrivals)), None)
    return accumulate(distance * scale for distance in distances)
