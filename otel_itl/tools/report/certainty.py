"""The words and the format for how well figures are known, which all tools share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from otel_itl.core.error_format import append_error, round_up
from otel_itl.core.measures import MIN_UNCERTAIN_SHARE, MIN_UNCERTAINTY, Measures
from otel_itl.core.timeline import SECOND
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.render.number_format import ABSENT, format_duration, format_milliseconds

CATCHING_UP: Final = 2
"""A reader that got no CPU is late for about this many times as long: it has to catch up with what has piled up."""


class _Worded(str, Enum):
    """A name with words for people."""

    words: str

    def __new__(cls, name: str, words: str = "") -> _Worded:  # noqa: PYI034 - `Self` is in typing from 3.11 on
        """Make a member that equals its name."""
        made = str.__new__(cls, name)
        made._value_, made.words = name, words
        return made


class Cause(_Worded):
    """Why a figure is uncertain, or a stream is set aside from it: a name, and a clause.

    The names are those of `itl.uncertain.cause`, where `blocked` is `consumer` too; `buffered` is never a cause there.
    """

    CONSUMER = "consumer", "the caller was busy"
    BLOCKED = "blocked", "its loop or process was blocked"
    HOST = "host", "its machine was busy"
    BUFFERED = "buffered", "a proxy or server buffered it"


class Flag(_Worded):
    """What is marked on streams and gaps, by its name in tables, and what to do, in one sentence."""

    BLOCKED = "blocked", "Move what blocks the event loop or the interpreter to a thread or a process of its own."
    CALLER_BOUND = "caller-bound", "Read the stream in a task or a thread that does nothing else."
    HOST_BOUND = "host-bound", "Give the process more CPU."
    IMPUTED = "imputed", "If they are many, work on the chunks in another task or thread."
    EXCLUDED = (
        "excluded",
        "If they are many, pull to the end of the stream, and work on the chunks in another task or thread.",
    )
    BUFFERED = "buffered", "Switch off the buffering of the proxy or server on the way."
    NOT_KNOWN = "not known", "Measure again where the caller and its machine are less busy."

    @property
    def remedy(self) -> str:
        """What to do."""
        return self.words


_RESULTS: Final = {Flag.BLOCKED: (Flag.HOST_BOUND, Flag.CALLER_BOUND), Flag.HOST_BOUND: (Flag.CALLER_BOUND,)}
"""Flag of streams → flags that it brings with it."""


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The streams of which one figure is uncertain for one cause. Errors are seconds by which it may be wrong."""

    cause: Cause
    streams: int
    """Those that are left out included."""
    median: float
    """The error of half of the streams is no larger."""
    error: float
    """The largest error of any of them."""


@dataclass(frozen=True, slots=True)
class Known:
    """How well one figure that is pooled over streams is known."""

    streams: int = 0
    """Those that it is of."""
    uncertain: tuple[Uncertain, ...] = ()
    """The streams of which it may be wrong by more than 1 ms and 1 %."""
    left_out: Mapping[str, int] | None = None
    """Cause → further streams, which are set aside from it; None: there are none."""

    @property
    def share_set_aside(self) -> float:
        """The share of the streams with the figure that are set aside from it; 0.0 without any stream."""
        aside = sum((self.left_out or {}).values())
        return aside / (aside + self.streams) if aside else 0.0


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


def find_uncertainty_cause(stream: StoredStream) -> Cause:
    """Return why the figures of a stream that have bounds are uncertain: what most of their width is due to.

    That is the caller's holds, or lateness: of the host as far as the reader was ready and got no CPU, and of the event
    loop or the process otherwise.
    """
    late = stream.measures.late_share
    host = late * _find_host_share(stream)
    shares = {Cause.CONSUMER: 1.0 - late, Cause.BLOCKED: late - host, Cause.HOST: host}
    return max(shares, key=lambda cause: shares[cause])


def is_blocked(stream: StoredStream) -> bool:
    """Return whether most of the time by which the chunks of a stream are late is due to its event loop or process."""
    return any(stream.timeline.lateness) and _find_host_share(stream) < 0.5  # noqa: PLR2004 - most of it


def _find_host_share(stream: StoredStream) -> float:
    """Return which part of the time for which chunks were late is due to a reader that got no CPU; 0.0: not known."""
    late = until = 0
    for came, lateness in zip(stream.timeline.arrived, stream.timeline.lateness, strict=False):
        if lateness:
            late += came - max(came - lateness, min(until, came))
            until = max(until, came)
    return min(CATCHING_UP * (stream.span_facts.host_delay or 0.0) * SECOND / late, 1.0) if late else 0.0


def describe_known(known: Known) -> list[str]:
    """Return for each cause of how many streams a figure is uncertain, and by how much most and the worst of them.

    `3 of 9 known to 10 ms only: the caller was busy`; `5 of 9 known to 12 ms (median), 170 ms (worst), 2 set aside: its
    machine was busy`; `4 of 9 set aside: a proxy or server buffered it`.
    """
    left_out = {Cause(cause): count for cause, count in (known.left_out or {}).items()}
    streams = known.streams + sum(left_out.values())
    described = []
    for one in known.uncertain:
        middle, worst = format_error(one.median), format_error(one.error)
        error = f"{worst} only" if middle == worst else f"{middle} (median), {worst} (worst)"
        aside = left_out.pop(one.cause, 0)
        more = f", {aside:,} set aside" if aside else ""
        described.append(f"{one.streams:,} of {streams:,} known to {error}{more}: {one.cause.words}")
    set_aside = describe_set_aside(left_out, streams)
    return [*described, set_aside] if set_aside else described


def describe_set_aside(counts: Mapping[Cause, int], streams: int) -> str:
    """Return how many of some streams are in no figure, and why: `3 of 9 set aside: the caller was busy`."""
    return "; ".join(f"{count:,} of {streams:,} set aside: {cause.words}" for cause, count in counts.items() if count)


def describe_figures(known: Mapping[str, Known]) -> list[str]:
    """Return what of several figures, by their title, is uncertain: `TTFT: 3 of 9 known to 10 ms only: …`."""
    return [f"{title}: {note}" for title, one in known.items() for note in describe_known(one)]


def find_remedy(known: Iterable[Known]) -> str:
    """Return what to do where the caller's machine decides: unblock its loop, where that is why, and repeat."""
    causes = {one.cause for figure in known for one in figure.uncertain}
    flags = [Flag.BLOCKED, Flag.NOT_KNOWN] if Cause.BLOCKED in causes else [Flag.NOT_KNOWN]
    return " ".join(flag.remedy for flag in flags)


def describe_remedies(counts: Mapping[Flag, int]) -> list[str]:
    """Return what to do about flags: `host-bound: Give the process more CPU.`.

    A loop that is blocked has more to do when it gets to run, and a caller that gets no CPU is late as well: what may
    be the result of another flag is left out unless most of its streams do not have that one. So is what to do about
    gaps where any stream is bound, of which they are the result.

    Args:
        counts: how many streams or gaps have each flag.
    """
    wanted = {flag for flag, count in counts.items() if count}
    for reason, results in _RESULTS.items():
        wanted -= {flag for flag in results if counts.get(flag, 0) <= 2 * counts.get(reason, 0)}
    if wanted & {Flag.BLOCKED, Flag.CALLER_BOUND, Flag.HOST_BOUND}:
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
