"""The evidence of one stream: when its chunks may have come, and what kept its consumer waiting."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import repeat
from operator import add, sub
from typing import Any, Final, NamedTuple, Protocol

from otel_itl.core.conventions import Where
from otel_itl.core.stall_detector import Silence
from otel_itl.core.stalls import Cause, Evidence
from otel_itl.recording.evidence.causes import Readings, find_stall_cause
from otel_itl.recording.evidence.connection import Connection, FindSource, Reading
from otel_itl.recording.evidence.frames import DatedChunks, FrameLog, date_chunks, follow_frames
from otel_itl.recording.evidence.host_delay import HostDelay
from otel_itl.recording.evidence.lags import Lag
from otel_itl.recording.evidence.lateness import Delays, find_lateness
from otel_itl.recording.evidence.loops import LoopLag, find_headers_moment
from otel_itl.recording.evidence.of_process import ProcessEvidence
from otel_itl.recording.internal_errors import InternalErrors, never_raises

FREE_NS: Final = 200_000_000
"""A reader that ran for so long has handed out what came before."""


class ReadsConnection(Protocol):
    """Reads what a connection shows: a `Connection`."""

    is_shared: bool

    def read(self) -> Reading | None:
        """Read it now; None where it cannot be reached."""
        ...


class Lateness(NamedTuple):
    """How late what a stream received may have been seen; see `Timeline.lateness`."""

    headers: int | None
    """The moment from which the response headers may have been there (ns)."""
    chunks: array[int]
    """By how much each chunk may have come before it arrived (ns); empty: by less than 1 ms each."""


class StreamEvidence:
    """Gathers the evidence of one stream. What is asked of it never raises.

    Args:
        process: what the streams of the process share.
        requested: the moment of the request (ns).
        clock: the stream's clock, in nanoseconds.
    """

    __slots__ = ("_clock", "_frames", "_last_reading", "_process", "_requested", "_since", "connection", "host",
                 "loop_lag")  # fmt: skip

    def __init__(self, process: ProcessEvidence, requested: int, clock: Callable[[], int]) -> None:
        self._process = process
        self._requested = requested
        self._clock = clock
        self._last_reading: Reading | None = None
        self._frames: FrameLog | None = None
        self._since = array("q")
        """From when on each chunk may have been there (ns), by what was read from a connection that it shares."""
        self.connection: ReadsConnection | None = None
        """What the stream is read from, as soon as that is known."""
        self.loop_lag: LoopLag | None = None
        """The lag of the event loop that the stream is read on."""
        self.host = HostDelay(process.run_queues)
        """The delay of the stream's reader by the host."""

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        return self._process.errors

    def set_connection(self, find_source: FindSource, *, is_shared: bool) -> None:
        """Set what the stream is read from.

        Args:
            find_source: finds it; called once, with the first reading.
            is_shared: other streams are read from it as well.
        """
        self.connection = Connection(find_source, self._clock, is_shared=is_shared)

    @never_raises(Where.STREAM_READ, None)
    def follow_frames(self, body: Any) -> None:
        """Note when the frames of the stream come, where other streams are read from its connection as well.

        Args:
            body: the body of a response over a shared connection; None: it is read from one of its own.
        """
        self._frames = None if body is None else follow_frames(body, self._clock)

    @never_raises(Where.STREAM_READ, None)
    def read_connection(self) -> Reading | None:
        """Read what the connection shows now; None where it cannot be reached."""
        return None if self.connection is None else self.connection.read()

    @never_raises(Where.STREAM_END, None)
    def stop(self) -> None:
        """Take the readings at the end. Called in the thread in which the stream ended."""
        self.host.stop()

    def release(self) -> None:
        """Let go of what the stream was read from: its report was delivered."""
        self.connection = self._last_reading = self._frames = None
        self.host.forget_threads()

    @never_raises(Where.STREAM_END, None)
    def note_finishing(self, began: int) -> None:
        """Note that the stream was finished, from `began` (ns) to now: on a loop, other streams waited for it."""
        if self.loop_lag is not None:
            self.loop_lag.add_block(began, self._clock())

    # --- Stalls ----------------------------------------------------------------------------------------------------

    def note_reading(self) -> None:
        """Note what the connection shows while no silence has reached its threshold. Called by the watchdog."""
        self._last_reading = self.read_connection()

    @never_raises(Where.STALL_WATCH, (Cause.UPSTREAM, Evidence.NONE))
    def find_stall_cause(
        self, silence: Silence, now: int, *, has_chunk: bool = False, is_complete: bool = False
    ) -> tuple[Cause, Evidence]:
        """Find the cause of a silence that has reached its threshold, at `now` (ns), and what showed it.

        Args:
            silence: the silence.
            now: the moment of the check (ns).
            has_chunk: a chunk has ended it, rather than the end of the stream.
            is_complete: the end of the response has ended it, rather than its reader or a failure.
        """
        reading = self.read_connection()
        is_shared = self.connection is not None and self.connection.is_shared
        frames = None if self._frames is None else self._frames.find_evidence(silence.until if has_chunk else None)
        readings = Readings(self._last_reading, reading, is_shared, has_chunk, is_complete, frames)
        stopped = self._process.wakes.find_pauses(silence.since, now)
        if self.loop_lag is None:
            return find_stall_cause(silence, readings, [*stopped, *self.host.find_stops(silence.since)], ())
        # On a loop, the thread runs for other streams as well: only the loop's own lag shows that it kept this waiting.
        return find_stall_cause(silence, readings, stopped, self.loop_lag.since_including_current(silence.since, now))

    @never_raises(Where.STALL_WATCH, default=False)
    def is_free(self, now: int) -> bool:
        """Return whether nothing kept the reader of the stream from running for a while, until `now` (ns)."""
        since = now - FREE_NS
        if self._process.wakes.find_pauses(since, now):
            return False
        if self.loop_lag is None:
            return not self.host.find_stops(since)
        return not self.loop_lag.since_including_current(since, now)

    # --- Arrivals --------------------------------------------------------------------------------------------------

    @never_raises(Where.STREAM_END, None)
    def date_chunks(self, asked: array[int], arrived: array[int], headers: int | None) -> DatedChunks | None:
        """Return when the chunks of the stream came over a connection that it shares; None: as they were handed out.

        Args:
            asked: when each chunk was asked for (ns).
            arrived: when each chunk was handed out (ns).
            headers: when the response headers were there (ns); None: not known.
        """
        if self._frames is None:
            return None
        placed = date_chunks(self._frames, asked, arrived, headers, self._requested)
        self._since = placed.since
        return placed

    @never_raises(Where.STREAM_END, None)
    def find_lateness(self, asked: array[int], arrived: array[int], headers: int | None, ended: int) -> Lateness | None:
        """Return how late the headers and the chunks of the stream may have been seen; None: a failure of our own.

        Args:
            asked: when each chunk was asked for (ns).
            arrived: when each chunk arrived (ns).
            headers: when the response headers were there (ns); None: not known.
            ended: when the stream ended (ns).
        """
        lags = self._find_lags(ended)
        windows = self.host.find_windows(self._requested, ended, is_on_loop=self.loop_lag is not None)
        waits = self._process.wakes.find_waits(self._requested)
        passages = []
        if self.loop_lag is not None:
            waits += self.loop_lag.find_waits(self._requested)
            passages = self.loop_lag.find_passages(self._requested)
        queues = self._process.run_queues
        if queues is not None and self.loop_lag is None:
            waits += queues.find_process_windows(self._requested)
        if queues is not None and self.host.passes_threads:
            waits += queues.find_relay_windows(self._requested)
        delays = Delays(lags, windows, waits, passages, is_on_loop=self.loop_lag is not None)
        if headers is not None:
            headers = max(find_headers_moment(headers, lags), self._requested)
        chunks = find_lateness(asked, arrived, self._requested, delays)
        if self._since:
            chunks = array("q", map(add, map(sub, arrived, self._since), chunks or repeat(0)))
        return Lateness(headers, chunks)

    def _find_lags(self, ended: int) -> list[Lag]:
        """Return the intervals up to `ended` (ns) in which the loop, or the process, did not run, in no order."""
        pauses = self._process.wakes.find_pauses(self._requested, ended)
        if self.loop_lag is None:
            return [*pauses, *self._process.wakes.find_gil_holds(self._requested, ended)]
        lags = self.loop_lag.since_including_current(self._requested, ended)
        return [*lags, *self.loop_lag.find_own_blocks(self._requested), *pauses]
