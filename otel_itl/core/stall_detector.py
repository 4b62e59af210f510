"""Finding the stalls of a stream, while it runs and from its finished timeline."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from operator import sub
from statistics import median
from typing import Final, NamedTuple

from otel_itl.core.request import Request
from otel_itl.core.stalls import RECOVERED, Cause, Phase, Stall, StallPolicy
from otel_itl.core.timeline import OUTPUT, SECOND, Kind, Outcome, Timeline

PACE_WINDOW = 256
"""The pace of a stream is the median wait for this many chunks, the last ones."""
BURST_SHARE = 10
"""A chunk that took less than this part of the mean wait (a tenth) came in one burst with the chunk before."""

_KIND_MASK = 0xFF
_KEEP_ALIVE: Final = frozenset({int(Kind.PING), int(Kind.EMPTY)})
_LEFT_BY_CALLER: Final = frozenset({Outcome.CLOSED, Outcome.ABANDONED})
"""A caller that leaves a stream is not waiting for it."""


class Silence(NamedTuple):
    """A silence that reached its threshold, which makes it a stall. Moments and times are nanoseconds."""

    after: int
    """Index of the output chunk before it; -1: there was none."""
    phase: Phase
    since: int
    """When the consumer began to wait."""
    until: int
    """When the next output chunk arrived or the stream ended; else the moment of the check."""
    waited: int
    """How long the consumer waited, without the time for which it held the stream."""
    threshold: int
    is_alive: bool
    """Pings or empty chunks arrived meanwhile."""
    is_over: bool
    """An output chunk, or the end of the stream, ended it."""


class StallDetector:
    """Finds the stalls of one stream while the stream's record grows.

    A check looks at few chunks: a silence that began less than a threshold ago cannot be a stall, so that a stream that
    flows costs nothing per chunk.

    Args:
        policy: the thresholds.
        asked: when each chunk was asked for (ns); one more than `arrived` while a pull is under way.
        arrived: when each chunk arrived (ns).
        codes: what each chunk carried, flags of `Kind` in the lowest byte.
        requested: the moment of the request (ns).
    """

    __slots__ = (
        "_after", "_arrived", "_asked", "_began", "_codes", "_is_alive", "_is_pace_asked", "_min_threshold",
        "_next", "_phase", "_policy", "_requested", "_waited", "is_held", "next_check", "threshold",
        "time_left",
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
        self._is_alive = False
        self._phase = Phase.FIRST_TOKEN
        self._is_pace_asked = False
        self.threshold = policy.find_fixed_threshold(self._phase)
        """The threshold in force (ns). The pace of the stream counts from the moment on in which it can matter."""
        self.is_held = False
        """The last check found that the consumer waits for nothing: no silence grows until it asks."""
        self._min_threshold = policy.min_threshold
        self.time_left = self._min_threshold
        """How long (ns) the consumer may wait, from the last check on, before there can be another stall."""
        self.next_check = requested + self._min_threshold
        """The earliest moment (ns) at which a check can find another stall."""

    def check(self, now: int, headers: int | None, *, is_over: bool = False) -> list[Silence]:
        """Find the silences since the last check that reached their threshold; one that lasts is the last of them.

        Args:
            now: the moment of the check, or the end of the stream (ns).
            headers: when the response headers were there (ns); None: not yet.
            is_over: the stream has ended.
        """
        # The code of a chunk is appended last: a chunk without one has just arrived.
        chunks = len(self._codes)
        asked = self._asked[chunks : chunks + 1]  # once: of a stream that is fed, it may be taken back meanwhile
        is_pulling = bool(asked) and len(self._arrived) == chunks
        found = list(self._process_chunks(now, headers, chunks))
        waited = self._waited + self._response_wait(now, headers)
        if is_pulling:
            waited += max(now - asked[0], 0)
        if self._is_stall(waited):
            found.append(self._silence(now, waited, is_over=is_over))
        self.is_held = not is_pulling and waited < self.threshold and (bool(self._asked) or headers is not None)
        # The next silence may have a shorter threshold than this one, and begin at once.
        self.time_left = max(min(self.threshold - waited, self._min_threshold), 0)
        self.next_check = now + self.time_left
        return found

    def _process_chunks(self, now: int, headers: int | None, chunks: int) -> Iterator[Silence]:
        """Advance to the last of `chunks` chunks; yields the silences on the way that reached their threshold."""
        is_searched = False
        while self._next < chunks:
            # A silence that began less than the shortest threshold ago is no stall, nor is any later one.
            if not is_searched and self._began > now - self._min_threshold:
                is_searched = True  # behind the last output chunk there is no other
                last = next((i for i in range(chunks - 1, self._next - 1, -1) if self._codes[i] & OUTPUT), None)
                if last is not None:
                    self._start_silence(last)
                    continue
            index = self._next
            self._waited += self._arrived[index] - self._asked[index]
            kind = self._codes[index] & _KIND_MASK
            if kind & OUTPUT:
                waited = self._waited + self._response_wait(now, headers)
                if self._is_stall(waited):
                    yield self._silence(self._arrived[index], waited, is_over=True)
                self._start_silence(index)
            else:
                self._is_alive = self._is_alive or kind in _KEEP_ALIVE
                self._next += 1

    def _response_wait(self, now: int, headers: int | None) -> int:
        """Return how long (ns) the consumer waited for the response itself; 0 after the first output chunk.

        Without `headers` it lasted until the first chunk was asked for, or lasts still.
        """
        if self._after >= 0:
            return 0
        if headers is None:
            headers = self._asked[0] if self._asked else now
        return headers - self._requested

    def _silence(self, until: int, waited: int, *, is_over: bool) -> Silence:
        asked = self._asked[self._after + 1 : self._after + 2] if self._after >= 0 else ()
        since = asked[0] if asked else self._began
        return Silence(self._after, self._phase, since, until, waited, self.threshold, self._is_alive, is_over)

    def _start_silence(self, index: int) -> None:
        """Begin a new silence behind the output chunk at `index`, with the threshold of its phase."""
        self._after, self._next = index, index + 1
        self._began = self._arrived[index]
        self._waited = 0
        self._is_alive = False
        self._phase = find_phase(self._codes[index])
        self._is_pace_asked = False
        self.threshold = self._policy.find_fixed_threshold(self._phase)

    def _is_stall(self, waited: int) -> bool:
        """Return whether a wait (ns) since the last output chunk is a stall; few waits are worth finding the pace."""
        if waited >= self.threshold and not self._is_pace_asked:
            self._is_pace_asked = True
            self.threshold = self._policy.find_threshold(self._phase, self._find_pace())
        return waited >= self.threshold

    def _find_pace(self) -> float | None:
        """Return the median wait (ns) for the last chunks up to the silence; None: it has not waited yet."""
        end = self._after + 1
        start = max(end - PACE_WINDOW, 1)
        waits = list(map(sub, self._arrived[start:end], self._asked[start:end]))
        # A stall before does not make single chunks of an even stream bursts.
        total = sum(min(wait, self.threshold) for wait in waits)
        between_bursts = [wait for wait in waits if wait * BURST_SHARE * len(waits) >= total > 0]
        return median(between_bursts) if between_bursts else None


def find_phase(code: int) -> Phase:
    """Return the phase that an output chunk with this code begins."""
    return Phase.REASONING if code & OUTPUT == Kind.REASONING else Phase.DECODE


def find_silences(timeline: Timeline, policy: StallPolicy) -> list[Silence]:
    """Find the silences of a finished stream that were stalls; moments are nanoseconds after the request.

    A timeline does not hold when its end was asked for: the wait for it is taken to begin with the last chunk.
    """
    asked = array("q", timeline.asked)
    opened = timeline.arrived[-1] if timeline.arrived else timeline.headers
    if timeline.outcome not in _LEFT_BY_CALLER and not timeline.unrecorded and opened is not None:
        # The last pull waited for the end of the stream, and no chunk stands for it.
        asked.append(opened)
    detector = StallDetector(policy, asked, timeline.arrived, timeline.kinds)
    # Where the headers are not known, they were there when the first chunk was asked for, at the latest.
    headers = asked[0] if timeline.headers is None and asked else timeline.headers
    return detector.check(timeline.end, headers, is_over=True)


def find_stalls(timeline: Timeline, request: Request, policy: StallPolicy) -> tuple[Stall, ...]:
    """Find the stalls of a stream from its timeline alone, for a stream that was not monitored while it ran.

    Their cause is not known and taken to be the upstream.
    """
    return tuple(
        Stall(
            request=request,
            number=number,
            phase=silence.phase,
            cause=Cause.UPSTREAM,
            start=silence.since / SECOND,
            duration=silence.waited / SECOND,
            threshold=silence.threshold / SECOND,
            is_alive=silence.is_alive,
            end=timeline.outcome.value if silence.until == timeline.end else RECOVERED,
        )
        for number, silence in enumerate(find_silences(timeline, policy), start=1)
    )
