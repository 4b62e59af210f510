"""How often the thresholds of a stall are right: streams of known rhythms, without a silence and with a known one."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from otel_itl import StallPolicy
from otel_itl.core.stall_detector import find_silences
from otel_itl.core.timeline import Kind, Outcome, Timeline

MS = 1_000_000
CHUNKS = 300
PLANTED: Final = (1.96, 4.0, 10.0)
"""The silences (s) that are planted, one in each stream."""
RULES: Final = {
    "2 s": StallPolicy(next_token=2, relative=None),
    "1 s": StallPolicy(next_token=1, relative=None),
    "the default": StallPolicy(),
}

Gaps = Callable[[random.Random, int], float]
"""Returns the gap (s) behind the chunk of an index."""


class Judged(NamedTuple):
    """What a rule found in the streams of one rhythm, as shares of them."""

    disturbed: float
    """Have a stall, although nothing was planted."""
    found: list[float]
    """In which the planted silence is a stall; one for each of `PLANTED`."""


def _spread(median: float, sigma: float) -> Gaps:
    return lambda draw, _: median * draw.lognormvariate(0, sigma)


def _bursts(chunks: int, median: float, sigma: float, spread: float = 0.0002) -> Gaps:
    return lambda draw, index: spread if index % chunks else median * draw.lognormvariate(0, sigma)


def _hiccups(share: float, shortest: float, longest: float) -> Gaps:
    even = _spread(0.02, 0.5)
    return lambda draw, index: draw.uniform(shortest, longest) if draw.random() < share else even(draw, index)


RHYTHMS: Final[dict[str, Gaps]] = {
    "20 ms, uneven": _spread(0.02, 0.5),
    "20 ms, 1 % are hiccups of 0.2 to 0.9 s": _hiccups(0.01, 0.2, 0.9),
    "20 ms, 0.2 % are hiccups of 0.2 to 1.4 s": _hiccups(0.002, 0.2, 1.4),
    "50 ms, memoryless": lambda draw, _: draw.expovariate(1 / 0.05),
    "80 ms, very uneven": _spread(0.08, 1.0),
    "300 ms, even": _spread(0.3, 0.3),
    "300 ms, memoryless": lambda draw, _: draw.expovariate(1 / 0.3),
    "400 ms, uneven": _spread(0.4, 0.6),
    "800 ms, even": _spread(0.8, 0.3),
    "2.5 s, even": _spread(2.5, 0.3),
    "10 chunks at once, each 0.5 s": _bursts(10, 0.5, 0.3),
    "20 chunks at once, each 1.2 s": _bursts(20, 1.2, 0.4),
    "20 chunks in 60 ms, each 1.2 s": _bursts(20, 1.2, 0.4, spread=0.003),
}


def judged(gaps: Gaps, policy: StallPolicy, streams: int) -> Judged:
    """Judge streams of one rhythm, the same for every rule."""
    draw = random.Random(1)  # noqa: S311 - the same streams in every run
    disturbed, found = 0, [0] * len(PLANTED)
    for _ in range(streams):
        drawn = [gaps(draw, index) for index in range(CHUNKS)]
        disturbed += bool(find_silences(_timeline(drawn), policy))
        at = draw.randrange(5, CHUNKS - 1)
        for place, silence in enumerate(PLANTED):
            planted = [*drawn[:at], silence, *drawn[at + 1 :]]
            found[place] += any(stall.after == at for stall in find_silences(_timeline(planted), policy))
    return Judged(disturbed / streams, [count / streams for count in found])


def rows(streams: int) -> Iterator[list[str]]:
    """Yield a row for each rhythm: the share that each rule disturbed, then the share of each silence that it found."""
    for name, gaps in RHYTHMS.items():
        verdicts = [judged(gaps, policy, streams) for policy in RULES.values()]
        yield [
            name,
            *(f"{verdict.disturbed:.0%}" for verdict in verdicts),
            *(" / ".join(f"{verdict.found[place]:.0%}" for verdict in verdicts) for place in range(len(PLANTED))),
        ]


def _timeline(gaps: list[float]) -> Timeline:
    """Return the timeline of a stream whose first chunk comes after 0.1 s, and whose caller asks at once."""
    arrived, now = array("q"), 100 * MS
    for gap in gaps:
        arrived.append(now)
        now += round(gap * 1_000 * MS)
    return Timeline(
        request_unix_ns=0,
        asked=array("q", [0, *arrived[:-1]]),
        arrived=arrived,
        kinds=bytes([Kind.ANSWER]) * len(arrived),
        headers=0,
        end=arrived[-1],
        outcome=Outcome.CLOSED,
    )
