"""The words and the format for how well figures are known, which all tools share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from otel_itl.core.error_format import append_error, round_up
from otel_itl.core.host_bound import find_host_part
from otel_itl.core.measures import MIN_UNCERTAIN_SHARE, MIN_UNCERTAINTY, Measures
from otel_itl.tools.report.render.number_format import ABSENT, format_duration, format_milliseconds, pluralize

_P99: Final = "itl_p99"


class Cause(str, Enum):
    """Why a figure is uncertain, as `itl.uncertain.cause` has it."""

    CONSUMER = "consumer"
    HOST = "host"

    @property
    def words(self) -> str:
        """The cause as a clause."""
        return "the caller was busy" if self is Cause.CONSUMER else "its machine was busy"


class Flag(str, Enum):
    """What is marked on streams and gaps, by its name in tables."""

    CALLER_BOUND = "caller-bound"
    HOST_BOUND = "host-bound"
    IMPUTED = "imputed"
    EXCLUDED = "excluded"
    BUFFERED = "buffered"
    NOT_KNOWN = "not known"

    @property
    def remedy(self) -> str:
        """What to do, in one sentence."""
        return REMEDIES[self]


REMEDIES: Final[Mapping[Flag, str]] = {
    Flag.CALLER_BOUND: "Read the stream in a task or a thread that does nothing else.",
    Flag.HOST_BOUND: "Give the process more CPU.",
    Flag.IMPUTED: "If they are many, work on the chunks in another task or thread.",
    Flag.EXCLUDED: "If they are many, pull to the end of the stream, and work on the chunks in another task or thread.",
    Flag.BUFFERED: "Switch off the buffering of the proxy or server on the way.",
    Flag.NOT_KNOWN: "Measure again where the caller and its machine are less busy.",
}
"""Flag → what to do."""


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The streams of which one figure is uncertain for one cause."""

    cause: Cause
    streams: int
    error: float
    """Seconds by which the figure of any of them may be wrong, at most."""


@dataclass(frozen=True, slots=True)
class Known:
    """How well one figure that is pooled over streams is known."""

    streams: int = 0
    """Those that it is of."""
    uncertain: tuple[Uncertain, ...] = ()
    """Of these, the ones of which it may be wrong by more than 1 ms and 1 %."""
    left_out: Mapping[str, int] | None = None
    """Cause → streams that are not in it, because it is not known to half of itself; None: there are none."""

    def __add__(self, other: Known) -> Known:
        """Return how well the figure of the streams of both is known."""
        errors, counts = dict[Cause, float](), Counter[Cause]()
        for one in (*self.uncertain, *other.uncertain):
            counts[one.cause] += one.streams
            errors[one.cause] = max(errors.get(one.cause, 0.0), one.error)
        return Known(
            self.streams + other.streams,
            tuple(Uncertain(cause, count, errors[cause]) for cause, count in counts.most_common()),
            dict(Counter(self.left_out or {}) + Counter(other.left_out or {})) or None,
        )


class KnownCollector:
    """Collects how well one figure of several streams is known.

    Args:
        figure: a field of `Measures` that is a time; with `itl_p99` the ITL samples are pooled.
        leaves_out: streams whose figure is not known to half of itself are not in it; else they are uncertain.
    """

    def __init__(self, figure: str, *, leaves_out: bool = True) -> None:
        self._figure, self._leaves_out = figure, leaves_out
        self._streams = 0
        self._counts: Counter[Cause] = Counter()
        self._errors: dict[Cause, float] = {}
        self._left_out: Counter[Cause] = Counter()

    def add(self, measures: Measures, host_delay: float | None) -> bool:
        """Add a stream that has the figure, and return whether it is known well enough to be pooled."""
        if self._leaves_out and not is_known_well_enough(measures, self._figure):
            self._left_out[find_cause(measures, host_delay, "itl_mean" if self._figure == _P99 else self._figure)] += 1
            return False
        self._streams += 1
        errors = (find_error(measures, self._figure), find_error(measures, self._figure, is_above=True))
        error = max(filter(None, errors), default=None)
        if error is not None:
            cause = find_cause(measures, host_delay, self._figure)
            self._counts[cause] += 1
            self._errors[cause] = max(self._errors.get(cause, 0.0), error)
        return True

    def summary(self) -> Known:
        """Summarize the streams that were added."""
        uncertain = (Uncertain(cause, count, self._errors[cause]) for cause, count in self._counts.most_common())
        left_out = {cause.value: count for cause, count in self._left_out.most_common()}
        return Known(self._streams, tuple(uncertain), left_out or None)


def is_known_well_enough(measures: Measures, figure: str) -> bool:
    """Return whether a figure is known to half of itself, given its field; `itl_p99` stands for all ITL samples."""
    return bool(measures.upstream_samples) if figure == _P99 else measures.is_known(figure)


def find_error(measures: Measures, figure: str, *, is_above: bool = False) -> float | None:
    """Return by how many seconds a figure, given its field, may be less; None: by no more than 1 ms, or than 1 %.

    With `is_above`, by how many it may be more: the percentiles of the gaps are estimates, all else is by the latest
    arrivals.
    """
    bounds, value = measures.find_bounds(figure), getattr(measures, figure)
    if bounds is None:
        return None
    error: float = bounds.highest - value if is_above else value - bounds.lowest
    return error if is_error_shown(error, value) else None


def is_error_shown(error: float, value: float) -> bool:
    """Return whether a figure is shown with its error, both in seconds: from 1 ms and 1 % of it on."""
    return round(error, 9) > max(MIN_UNCERTAINTY, MIN_UNCERTAIN_SHARE * value)


def find_cause(measures: Measures, host_delay: float | None, figure: str) -> Cause:
    """Return why a figure, which has bounds, is uncertain: most of what is uncertain decides.

    Args:
        measures: of the stream.
        host_delay: seconds in which its reader was ready and did not run; None: not known.
        figure: a field of `Measures` that is a time.
    """
    is_host = 2 * find_host_part(host_delay, measures, figure) > measures.bounds[figure].width
    return Cause.HOST if is_host else Cause.CONSUMER


def describe_known(known: Known) -> list[str]:
    """Return for each cause what of a figure is uncertain: `3 of 9 known to 10 ms only: the caller was busy`.

    Streams that were left out are counted behind that: `3 of 9 known to 10 ms only, 2 more not known: …`; or alone:
    `of 7 streams, 2 more not known: …`.
    """
    uncertain = {one.cause: one for one in known.uncertain}
    left_out = {Cause(cause): count for cause, count in (known.left_out or {}).items()}
    return [
        f"{_describe_cause(known.streams, uncertain.get(cause), left_out.get(cause, 0))}: {cause.words}"
        for cause in dict.fromkeys((*uncertain, *left_out))
    ]


def _describe_cause(streams: int, uncertain: Uncertain | None, left_out: int) -> str:
    more = f", {left_out:,} more not known" if left_out else ""
    if uncertain is None:
        return f"of {pluralize(streams, 'stream')}{more}"
    return f"{uncertain.streams:,} of {streams:,} known to {format_error(uncertain.error)} only{more}"


def describe_set_aside(counts: Mapping[Cause, int], streams: int) -> str:
    """Return how many of some streams are in no figure, and why: `3 of 9 set aside: the caller was busy`."""
    return "; ".join(f"{count:,} of {streams:,} set aside: {cause.words}" for cause, count in counts.items() if count)


def describe_figures(known: Mapping[str, Known]) -> list[str]:
    """Return what of several figures, by their title, is uncertain: `TTFT: 3 of 9 known to 10 ms only: …`."""
    return [f"{title}: {note}" for title, one in known.items() for note in describe_known(one)]


def describe_remedies(counts: Mapping[Flag, int]) -> list[str]:
    """Return what to do about flags: `host-bound: Give the process more CPU.`.

    A caller that gets no CPU is late as well: what to do about caller-bound streams is left out unless most of them are
    not host-bound. So is what to do about gaps where any stream is bound, of which they are the result.

    Args:
        counts: how many streams or gaps have each flag.
    """
    wanted = {flag for flag, count in counts.items() if count}
    if counts.get(Flag.CALLER_BOUND, 0) <= 2 * counts.get(Flag.HOST_BOUND, 0):
        wanted.discard(Flag.CALLER_BOUND)
    if wanted & {Flag.CALLER_BOUND, Flag.HOST_BOUND}:
        wanted -= {Flag.IMPUTED, Flag.EXCLUDED}
    return [f"{flag.value}: {flag.remedy}" for flag in Flag if flag in wanted]


def format_error(seconds: float) -> str:
    """Format an error with its unit, rounded up to two digits: `1.1 ms`, `120 ms`, `1.9 s`."""
    error = round_up(seconds)
    return f"{error:,g} s" if error >= 1 else f"{round_up(seconds * 1_000):,g} ms"


def format_with_error(seconds: float | None, error: float | None, above: float | None = None) -> str:
    """Format a time with its unit and what it may be less and more by: `655 ms (-120)`, `12.0 ms (-0.5 +1.3)`."""
    if seconds is None:
        return ABSENT
    is_in_seconds = round(seconds, 3) >= 1
    return append_error(format_duration(seconds), error, 1 if is_in_seconds else 1_000, above)


def format_milliseconds_with_error(seconds: float | None, error: float | None, above: float | None = None) -> str:
    """Format likewise for a column of milliseconds: `655 (-120)`, from 10 s on `12.3s (-0.12)`."""
    shown = format_milliseconds(seconds)
    return shown if seconds is None else append_error(shown, error, 1 if shown.endswith("s") else 1_000, above)
