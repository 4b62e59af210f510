"""Stalls: when a silence is one, in which phase of the stream, and whose it is.

A silence begins when an output chunk (reasoning, answer or tool output) was delivered, the first one with the request,
and lasts until the next. Only the time in which the consumer waited counts: holding a chunk is never a stall. A silence
in which the consumer waited for longer than the threshold of its phase is a stall. Pings and empty chunks do not end
it; they mark it *alive*.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from otel_itl.core.timeline import OUTPUT, Kind, Outcome, Timeline

if TYPE_CHECKING:
    from otel_itl.core.stream import Request

SECOND = 1_000_000_000
LONGEST = 1e9
"""Seconds that a threshold may have, which is thirty years; None is the way to say never."""
LEAST_RELATIVE = SECOND // 4
"""A multiple of the stream's own pace is no threshold below this (ns): bursts have a median of nothing."""
PACE_EVERY, PACE_WINDOW = 16, 256
"""The running median is taken anew after so many chunks, over so many gaps."""

_KIND_MASK = 0xFF
_PULSE = {int(Kind.PING), int(Kind.EMPTY)}
_LEFT = {Outcome.CLOSED, Outcome.ABANDONED}
"""A caller that leaves a stream is not waiting for it."""
NEVER = 1 << 62
RECOVERED = "recovered"


class Phase(str, Enum):
    """What the consumer was waiting for."""

    FIRST_TOKEN = "first_token"
    """Any output at all."""
    REASONING = "reasoning"
    """What follows reasoning: more of it, or the answer."""
    DECODE = "decode"
    """What follows a piece of the answer; the end of the stream too."""


class Cause(str, Enum):
    """Whose stall it is."""

    UPSTREAM = "upstream"
    """The consumer was waiting, its event loop and its process were running."""
    EVENT_LOOP = "event_loop"
    """The loop that owns the stream was blocked for most of the time."""
    PROCESS = "process"
    """The whole process did not run for most of the time: suspended, frozen, or starved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StallPolicy:
    """From when on a silence is a stall, in seconds that the consumer waited. None: never.

    Args:
        first_token: before the first output chunk, from the request on.
        reasoning: after a reasoning chunk.
        next_token: after a chunk of the answer or of a tool call.
        relative: a multiple of the running median of the stream's own gaps, which counts where it is shorter than
            `reasoning` or `next_token` (20 makes 400 ms a stall of a stream that brings a chunk every 5 ms; never less
            than 0.25 s, and not before 16 chunks).
        abort_after: break a stalled stream off after so long. Off by default: nothing is ever changed unless asked for.

    Raises:
        ValueError: a time or a multiple that is not positive, or that is no finite number.
    """

    first_token: float | None = 10.0
    reasoning: float | None = 10.0
    next_token: float | None = 2.0
    relative: float | None = None
    abort_after: float | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 < value <= LONGEST):
                message = (
                    f"StallPolicy({name}={value!r}) is not accepted: it takes a number above 0 and up to {LONGEST:g}, "
                    "or None for never."
                )
                raise ValueError(message)

    def __str__(self) -> str:
        """As `OTEL_ITL_STALL` takes it."""
        given = {name: getattr(self, name) for name in self.__slots__}
        return ",".join(f"{name}={value:g}" for name, value in given.items() if value is not None)

    def threshold(self, phase: Phase, pace: float | None = None) -> int:
        """The threshold (ns) of a phase; `pace` is the running median of the gaps (ns), where there is one."""
        if phase is Phase.FIRST_TOKEN:
            return _nanoseconds(self.first_token)
        fixed = _nanoseconds(self.reasoning if phase is Phase.REASONING else self.next_token)
        if self.relative is None or pace is None:
            return fixed
        return min(fixed, max(int(self.relative * pace), LEAST_RELATIVE))

    @property
    def shortest(self) -> int:
        """The least that any silence has to last (ns)."""
        fixed = min(map(_nanoseconds, (self.first_token, self.reasoning, self.next_token)))
        return fixed if self.relative is None else min(fixed, LEAST_RELATIVE)


def _nanoseconds(seconds: float | None) -> int:
    return NEVER if seconds is None else round(seconds * SECOND)


def _not_open() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One stall. Times are seconds."""

    request: Request
    """Whose stream it is."""
    number: int
    """Its number among the stalls of the stream, from 1."""
    phase: Phase
    cause: Cause
    start: float
    """When the consumer began to wait, after the request."""
    duration: float
    """How long it waited: so far, while `end` is None."""
    threshold: float
    """What it was held against."""
    alive: bool
    """Pings or empty chunks came meanwhile: the upstream is there, and makes no progress."""
    end: str | None = None
    """How it ended: `recovered`, or the outcome of a stream that ended with it. None: the stream is silent still."""
    abort: Callable[[], bool] = field(default=_not_open, repr=False, compare=False)
    """Break the stream off: whoever waits for it gets a timeout error of the SDK's own, after what had arrived already,
    and the connection is closed. False where that cannot be: the stream is over, or its connection serves others."""


class Silence(NamedTuple):
    """A silence that reached its threshold. Moments and times are nanoseconds."""

    after: int
    """Index of the output chunk before it; -1: there was none."""
    phase: Phase
    since: int
    until: int
    waited: int
    threshold: int
    alive: bool
    over: bool
    """An output chunk, or the end of the stream, ended it."""


class StallDetector:
    """Follows the silences of one stream while its record grows, and finds each that is a stall.

    It looks rarely, and at little: what began less than a threshold ago cannot be a stall, so a stream that flows costs
    nothing for its chunks. `due` says from when on there may be something to see.

    Args:
        policy: the thresholds.
        asked: when each chunk was asked for (ns); one more than `arrived` while a pull is under way.
        arrived: when each chunk arrived (ns).
        codes: what it carried, flags of `Kind` in the lowest byte.
        requested: the moment of the request (ns).
    """

    __slots__ = (
        "_after", "_alive", "_arrived", "_asked", "_began", "_codes", "_next", "_pace", "_pace_at", "_phase", "_policy",
        "_requested", "_threshold", "_waited", "due",
    )  # fmt: skip

    def __init__(
        self,
        policy: StallPolicy,
        asked: Sequence[int],
        arrived: Sequence[int],
        codes: Sequence[int],
        requested: int = 0,
    ) -> None:
        self._policy = policy
        self._asked, self._arrived, self._codes = asked, arrived, codes
        self._requested = requested
        self._after = -1
        self._next = 0
        self._began = requested
        self._waited = 0
        self._alive = False
        self._pace: float | None = None
        self._pace_at = 0
        self._phase = Phase.FIRST_TOKEN
        self._threshold = policy.threshold(self._phase)
        self.due = requested + policy.shortest

    def look(self, now: int, headers: int | None, *, over: bool = False) -> list[Silence]:
        """The silences since the last look that reached their threshold, the one that is going on last.

        Args:
            now: the moment of the look, or the end of the stream (ns).
            headers: when the response headers were there (ns); None: not yet.
            over: the stream has ended.
        """
        # A code is appended last: what has none yet has just arrived.
        chunks = len(self._codes)
        pulling = len(self._asked) > chunks and len(self._arrived) == chunks
        found = list(self._walk(now, headers, chunks))
        waited = self._waited + self._head(now, headers)
        if pulling:
            waited += max(now - self._asked[chunks], 0)
        if waited >= self._threshold:
            found.append(self._silence(now, waited, over=over))
        # The next silence may have a shorter threshold than this one, and begin at once.
        self.due = now + max(min(self._threshold - waited, self._policy.shortest), 0)
        return found

    @property
    def threshold(self) -> int:
        """The threshold in force (ns)."""
        return self._threshold

    def _walk(self, now: int, headers: int | None, chunks: int) -> Iterator[Silence]:
        searched = False
        while self._next < chunks:
            # What began less than the shortest threshold ago is none, nor is anything that began since.
            if not searched and self._began > now - self._policy.shortest:
                searched = True  # behind the last output chunk there is none
                last = next((i for i in range(chunks - 1, self._next - 1, -1) if self._codes[i] & OUTPUT), None)
                if last is not None:
                    self._delivered(last)
                    continue
            index = self._next
            self._waited += self._arrived[index] - self._asked[index]
            kind = self._codes[index] & _KIND_MASK
            if kind & OUTPUT:
                waited = self._waited + self._head(now, headers)
                if waited >= self._threshold:
                    yield self._silence(self._arrived[index], waited, over=True)
                self._delivered(index)
            else:
                self._alive = self._alive or kind in _PULSE
                self._next += 1

    def _head(self, now: int, headers: int | None) -> int:
        """The wait for the response itself; where nobody knows when it was there, until a chunk was asked for."""
        if self._after >= 0:
            return 0
        if headers is None:
            headers = self._asked[0] if self._asked else now
        return headers - self._requested

    def _silence(self, until: int, waited: int, *, over: bool) -> Silence:
        since = self._asked[self._after + 1] if 0 <= self._after < len(self._asked) - 1 else self._began
        return Silence(self._after, self._phase, since, until, waited, self._threshold, self._alive, over)

    def _delivered(self, index: int) -> None:
        """A silence begins behind an output chunk."""
        self._after, self._next = index, index + 1
        self._began = self._arrived[index]
        self._waited = 0
        self._alive = False
        answering = self._codes[index] & OUTPUT != Kind.REASONING
        self._phase = Phase.DECODE if answering else Phase.REASONING
        mark = (index + 1) // PACE_EVERY * PACE_EVERY
        if mark != self._pace_at and self._policy.relative is not None:
            window = self._arrived[max(mark - PACE_WINDOW, 0) : mark]
            self._pace, self._pace_at = median(after - before for before, after in pairwise(window)), mark
        self._threshold = self._policy.threshold(self._phase, self._pace)


def silences(timeline: Timeline, policy: StallPolicy) -> list[Silence]:
    """The silences of a whole stream that were stalls, moments in nanoseconds after the request.

    A record does not say when its end was asked for: the wait for it is taken to begin with the last chunk.
    """
    asked = array("q", timeline.asked)
    opened = timeline.arrived[-1] if timeline.arrived else timeline.headers
    if timeline.outcome not in _LEFT and not timeline.unrecorded and opened is not None:
        # The last pull waited for the end, and no chunk tells of it.
        asked.append(opened)
    lookout = StallDetector(policy, asked, timeline.arrived, timeline.kinds)
    # A record without headers has them no later than its first chunk was asked for.
    headers = asked[0] if timeline.headers is None and asked else timeline.headers
    return lookout.look(timeline.end, headers, over=True)


def stalls_of(timeline: Timeline, request: Request, policy: StallPolicy) -> tuple[Stall, ...]:
    """The stalls of a stream that nobody watched; whose they are is not known, and taken to be the upstream."""
    return tuple(
        Stall(
            request=request,
            number=number,
            phase=silence.phase,
            cause=Cause.UPSTREAM,
            start=silence.since / SECOND,
            duration=silence.waited / SECOND,
            threshold=silence.threshold / SECOND,
            alive=silence.alive,
            end=timeline.outcome.value if silence.until == timeline.end else RECOVERED,
        )
        for number, silence in enumerate(silences(timeline, policy), start=1)
    )


def cause_of(silence: Silence, frozen: Iterable[tuple[int, int]], blocked: Iterable[tuple[int, int]]) -> Cause:
    """Whose silence it is.

    Args:
        silence: from when to when.
        frozen: intervals (ns) in which the process did not run.
        blocked: intervals (ns) in which the event loop of the stream did not run.
    """
    half = (silence.until - silence.since) / 2
    if _overlap(silence, frozen) > half:
        return Cause.PROCESS
    if _overlap(silence, blocked) > half:
        return Cause.EVENT_LOOP
    return Cause.UPSTREAM


def _overlap(silence: Silence, intervals: Iterable[tuple[int, int]]) -> int:
    return sum(max(min(end, silence.until) - max(start, silence.since), 0) for start, end in intervals)
