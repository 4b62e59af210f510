"""The host's share in the latencies of one stream: for how long the threads that read it waited for a CPU."""

from __future__ import annotations

from threading import get_native_id

from otel_itl.core.stalls import NEVER
from otel_itl.recording.evidence.lags import Lag
from otel_itl.recording.evidence.run_queue import RunQueues
from otel_itl.recording.evidence.turns import Turns
from otel_itl.recording.evidence.windows import (
    MAX_ORDINARY_NS,
    MIN_EXCESS_NS,
    SATURATED,
    Look,
    ReaderThread,
    Window,
    end_of,
)


class HostDelay:
    """The delay by the host of one stream: one reading at its start and one at its end, in the thread that reads it.

    Where the request was sent in another thread than the stream is read in, the first pull is the start.

    Args:
        queues: reads the delay of the current thread; None: it is not known.
    """

    __slots__ = ("__weakref__", "_last_look", "_queues", "_reader", "_start", "_start_of_each", "_threads", "delay")

    def __init__(self, queues: RunQueues | None = None) -> None:
        self._queues = queues
        self._reader = get_native_id()
        self._start_of_each: dict[str, Turns] | None = None
        self._threads: tuple[ReaderThread, ...] = ()
        """The threads that sent the request and read the stream, in this order."""
        self._last_look: Look | None = None
        self._start = self._follow_thread()
        self.delay: int | None = None
        """Nanoseconds, from request to end; None: the stream goes on, the reader changed, or it is not known."""

    def begin_reading(self) -> None:
        """Start anew if this is not the thread of the request. Called when the first chunk is about to be pulled."""
        thread = get_native_id()
        if thread != self._reader:
            self._reader, self._start = thread, self._follow_thread()

    def watch_all_threads(self) -> None:
        """Have `delay` be that of the thread of this process that is delayed most, from now on.

        Called where the chunks pass through threads of the SDK: when these get no CPU, the reader is late as well.
        """
        if self._queues is not None:
            self._start_of_each = self._queues.read_turns_by_thread()
            self._queues.follow_relays(self)

    @property
    def passes_threads(self) -> bool:
        """Whether the chunks pass through threads of the SDK."""
        return self._start_of_each is not None

    def stop(self) -> None:
        """Take the reading at the end. Called in the thread in which the stream ended."""
        delays = [self._read_delay(), self._read_longest_delay()]
        self.delay = max((delay for delay in delays if delay is not None), default=None)

    def forget_threads(self) -> None:
        """Stop following the threads of the stream."""
        self._threads, self._last_look = (), None
        if self._start_of_each is not None and self._queues is not None:
            self._queues.forget_relays(self)

    def find_windows(self, since: int, until: int, *, is_on_loop: bool) -> list[Window]:
        """Return the windows from `since` to `until` (ns) in which the readers of the stream waited, in order of time.

        Those in which they were busy and did not wait are among them; they matter on a loop.
        """
        if not is_on_loop and self.delay is not None and self.delay < MIN_EXCESS_NS:
            return []  # so most streams of a quiet machine cost no further reading
        last = [None] * (len(self._threads) - 1) + [self._last_look]
        followed = zip(self._threads, last, strict=False)
        windows = [window for thread, look in followed for window in thread.since(since, look) if window.start < until]
        return sorted(windows, key=end_of)

    def find_stops(self, since: int) -> list[Lag]:
        """Return the intervals after `since` (ns) in which the reader never slept, and mostly waited for a CPU."""
        stops: list[Lag] = []
        for window in self.find_windows(since, NEVER, is_on_loop=False):
            if window.busy < SATURATED or 2 * window.excess < window.end - window.start:
                continue
            if stops and window.start <= stops[-1].end:
                stops[-1] = Lag(min(stops[-1].start, window.start), window.end)
            else:
                stops.append(Lag(window.start, window.end))
        return stops

    def _follow_thread(self) -> int | None:
        """Follow this thread as well; returns its delay so far (ns; None: not known)."""
        if self._queues is None:
            return None
        followed, delay = self._queues.follow_thread()
        if followed is not None:
            self._threads = (*(thread for thread in self._threads if thread is not followed), followed)
        return delay

    def _read_delay(self) -> int | None:
        """Return the delay of this thread since the start (ns); None: not known, or it is not the reader."""
        if self._start is None or get_native_id() != self._reader:
            return None
        self._last_look = self._look_at_reader()
        end = self._read() if self._last_look is None else self._last_look.total.delay
        return None if end is None else max(end - self._start, 0)

    def _look_at_reader(self) -> Look | None:
        """Look at the thread that reads the stream, which is this one; None: it is not followed."""
        try:
            return self._threads[-1].look() if self._threads else None
        except (OSError, ValueError):
            return None

    def _read_longest_delay(self) -> int | None:
        """Return the delay of the thread that was delayed most since `watch_all_threads` (ns); None: not known."""
        if self._start_of_each is None or self._queues is None:
            return None
        ends = self._queues.read_turns_by_thread() or {}
        return max((_delay_between(self._start_of_each.get(one), end) for one, end in ends.items()), default=None)

    def _read(self) -> int | None:
        return None if self._queues is None else self._queues.read()


def _delay_between(start: Turns | None, end: Turns) -> int:
    """Return the delay (ns) of a thread, less what is ordinary at each turn; without a start it began meanwhile."""
    turns = end.since(start or Turns(0, 0))
    return max(turns.delay - turns.number * MAX_ORDINARY_NS, 0)
