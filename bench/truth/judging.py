"""Whether the truth about a stream lies within what was emitted about it, and who was blamed for its silences.

All moments are nanoseconds of the one monotonic clock that the processes of a machine share, all figures seconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

ABSOLUTE_SECONDS, RELATIVE = 0.001, 0.02
"""What an interval may miss the truth by, whichever is more.

Server and client read their clocks at two ends of a way: writing, the loopback, the TLS front and the SDK's decoding of
a chunk take 0.4 to 0.9 ms at least. Most of it cancels out between two chunks; a TTFT, which it lengthens, is 100 ms or
more here. And an uncertainty below 1 ms or 1 % of its figure is not emitted.
"""
SILENCE_SECONDS: Final = 2.0
"""From here on a silence on the wire has to be reported as a stall, whatever the pace of the stream."""

FIGURES: Final = ("TTFT", "p99", "TPOT")
_ATTRIBUTES: Final = {
    "TTFT": "itl.time_to_first_token",
    "p99": "itl.latency.p99",
    "TPOT": "itl.time_per_output_token",
}
_SECOND: Final = 1e9


class Reported(NamedTuple):
    """A stall as it was emitted: when the wait began and ended, and who is blamed."""

    begin: int
    end: int
    cause: str


class Emitted(NamedTuple):
    """What was emitted about one stream."""

    model: str
    called: int
    """When the caller called the SDK, by its own clock read."""
    requested: int
    """When the request was made, by the span."""
    attributes: Mapping[str, Any]
    stalls: Sequence[Reported]


class Sent(NamedTuple):
    """The truth about one stream, by its server."""

    arrived: int
    """When the request was there."""
    outputs: Sequence[int]
    """When each output chunk was written."""

    def figures(self, emitted: Emitted) -> dict[str, float]:
        """Return the true figures, from the moment of the request on.

        The span's moment counts, which no other process sees, but only between the call of the SDK and the arrival at
        the server: a span that began outside of it is wrong.
        """
        requested = min(max(emitted.requested, emitted.called), self.arrived)
        gaps = [(after - before) / _SECOND for before, after in pairwise(self.outputs)]
        return {
            "TTFT": (self.outputs[0] - requested) / _SECOND,
            "p99": statistics.quantiles(gaps, n=100, method="inclusive")[98],
            "TPOT": statistics.fmean(gaps),
        }


class Interval(NamedTuple):
    """What a figure is said to be: at least `low`, at most `high`."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """How much is left open."""
        return self.high - self.low

    def miss(self, true: float) -> float:
        """Return by how much the truth lies outside; 0.0 within, or where the way of a chunk may have taken that."""
        outside = max(self.low - true, true - self.high, 0.0)
        return outside if outside > max(ABSOLUTE_SECONDS, RELATIVE * true) else 0.0


def read_interval(figure: str, attributes: Mapping[str, Any]) -> Interval | None:
    """Return the interval in which a figure is said to be; None where the figure is absent.

    `.uncertainty` is what the truth may be less by, `.highest` as much as it may be: absent, neither differs.
    """
    name = _ATTRIBUTES[figure]
    value = attributes.get(name)
    if value is None:
        return None
    return Interval(value - attributes.get(f"{name}.uncertainty", 0.0), attributes.get(f"{name}.highest", value))


class Miss(NamedTuple):
    """A true figure that does not lie within what was emitted, or a silence that was blamed wrongly."""

    model: str
    what: str
    true: float
    """The figure, or the length of the silence."""
    found: Interval | str | None
    """What was emitted instead: an interval, a cause, nothing."""


_SUMS: Final = ("streams", "present", "bound", "silences", "stalled", "blamed_rightly", "own", "own_blamed_rightly")


@dataclass
class Tally:
    """Counts over streams; their sums are the cells of a table."""

    streams: int = 0
    held: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIGURES, 0))
    """Streams whose true figure lies within what was emitted; an absent figure holds nothing."""
    widths: dict[str, list[float]] = field(default_factory=lambda: {figure: [] for figure in FIGURES})
    worst_miss: float = 0.0
    """The longest time by which a true figure lies outside."""
    present: int = 0
    """Streams with both a TTFT and a TPOT."""
    bound: int = 0
    """Streams that are called host-bound or consumer-bound."""
    silences: int = 0
    """Silences on the wire."""
    stalled: int = 0
    """Of these, how many are stalls."""
    blamed_rightly: int = 0
    """Of these stalls, how many have the upstream as their cause."""
    own: int = 0
    """Silences that the caller made: stalls without a silence on the wire, and those that it makes on purpose."""
    own_blamed_rightly: int = 0
    """Of these, how many have not the upstream as their cause."""
    misses: list[Miss] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the counts of other streams."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.misses += other.misses
        self.worst_miss = max(self.worst_miss, other.worst_miss)
        for figure in FIGURES:
            self.held[figure] += other.held[figure]
            self.widths[figure] += other.widths[figure]


def total(tallies: Iterable[Tally]) -> Tally:
    """Return the sum of tallies."""
    found = Tally()
    for tally in tallies:
        found.add(tally)
    return found


def judge(emitted: Emitted, sent: Sent, *, is_silenced_by_caller: bool = False) -> Tally:
    """Return the counts of one stream.

    Args:
        emitted: what was emitted about it.
        sent: the truth.
        is_silenced_by_caller: its caller lets it wait on purpose, while chunks come.
    """
    tally = Tally(streams=1)
    attributes = emitted.attributes
    for figure, true in sent.figures(emitted).items():
        interval = read_interval(figure, attributes)
        miss = 0.0 if interval is None else interval.miss(true)
        if interval is None or miss:
            tally.misses.append(Miss(emitted.model, figure, true, interval))
        else:
            tally.held[figure] += 1
        if interval is not None:
            tally.worst_miss = max(tally.worst_miss, miss)
            tally.widths[figure].append(interval.width)
    tally.present = int(all(_ATTRIBUTES[figure] in attributes for figure in ("TTFT", "TPOT")))
    tally.bound = int(any(attributes.get(f"itl.{side}.bound") is True for side in ("host", "consumer")))
    _judge_silences(tally, emitted, sent)
    off_wire = [stall for stall in emitted.stalls if not _is_on_wire(stall, sent)]
    tally.own = max(len(off_wire), int(is_silenced_by_caller))
    wrong = [stall for stall in off_wire if stall.cause == "upstream"]
    tally.own_blamed_rightly = tally.own - len(wrong)
    tally.misses += [Miss(emitted.model, "own silence", (one.end - one.begin) / _SECOND, one.cause) for one in wrong]
    return tally


def _judge_silences(tally: Tally, emitted: Emitted, sent: Sent) -> None:
    """Count the silences on the wire: a stall over at least half of one reports it."""
    for begin, end in pairwise(sent.outputs):
        if end - begin < SILENCE_SECONDS * _SECOND:
            continue
        tally.silences += 1
        over, cause = max(((_overlap(stall, begin, end), stall.cause) for stall in emitted.stalls), default=(0, ""))
        is_stall = 2 * over >= end - begin
        tally.stalled += is_stall
        if is_stall and cause == "upstream":
            tally.blamed_rightly += 1
        else:
            tally.misses.append(Miss(emitted.model, "silence", (end - begin) / _SECOND, cause if is_stall else None))


def _is_on_wire(stall: Reported, sent: Sent) -> bool:
    """Return whether one silence on the wire is at least half of a stall."""
    silences = pairwise([sent.arrived, *sent.outputs])
    return any(2 * _overlap(stall, begin, end) >= stall.end - stall.begin for begin, end in silences)


def _overlap(stall: Reported, begin: int, end: int) -> int:
    return max(min(stall.end, end) - max(stall.begin, begin), 0)


def share(part: int, whole: int) -> float | None:
    """Return a share; None of nothing."""
    return part / whole if whole else None


def median_width(tally: Tally, figure: str) -> float | None:
    """Return the median width of a figure (s); None where it was never emitted."""
    widths = tally.widths[figure]
    return statistics.median(widths) if widths else None


class Goal(NamedTuple):
    """One goal of the table."""

    text: str
    value: Callable[[Tally, Tally], float | None]
    """Returns what is compared, given the counts of all rows and those of the ordinary ones; None: there is nothing."""
    bound: float
    is_floor: bool = True
    """The value has to be at least the bound; else at most."""

    def is_met(self, everything: Tally, ordinary: Tally) -> bool | None:
        """Return whether the goal is met; None where the rows say nothing about it."""
        value = self.value(everything, ordinary)
        if value is None:
            return None
        return value >= self.bound if self.is_floor else value <= self.bound


def _holds(figure: str) -> Callable[[Tally, Tally], float | None]:
    return lambda everything, _: share(everything.held[figure], everything.streams)


def _width(figure: str) -> Callable[[Tally, Tally], float | None]:
    return lambda _, ordinary: median_width(ordinary, figure)


GOALS: Final = (
    *(Goal(f"true {figure} within what is emitted", _holds(figure), 0.99) for figure in FIGURES),
    *(Goal(f"quiet: median width of the {figure}", _width(figure), 0.001, is_floor=False) for figure in FIGURES),
    Goal("quiet: streams called bound", lambda _, quiet: share(quiet.bound, quiet.streams), 0.05, is_floor=False),
    Goal("streams with TTFT and TPOT", lambda every, _: share(every.present, every.streams), 1.0),
    Goal("silences on the wire that are stalls", lambda every, _: share(every.stalled, every.silences), 1.0),
    Goal("of these with the cause upstream", lambda every, _: share(every.blamed_rightly, every.silences), 0.99),
    Goal("silences of the caller with another", lambda every, _: share(every.own_blamed_rightly, every.own), 0.99),
)
