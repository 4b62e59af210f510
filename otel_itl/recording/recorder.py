"""The probe under one stream: it takes down moments while the stream runs and becomes a Timeline when it ends."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import repeat
from time import perf_counter_ns
from typing import Any, Protocol
from weakref import ref

from otel_itl.core.request import Request
from otel_itl.core.stream import Concurrency, FinishedStream, ResponseInfo
from otel_itl.core.timeline import MICROSECOND, Outcome, Timeline
from otel_itl.recording.internal_errors import never_raises, note_error, report_error
from otel_itl.recording.loop_lag import LoopLag, charged, lag_of_running_loop, opened, running_loop_is_closing
from otel_itl.recording.open_streams import open_streams
from otel_itl.recording.watchdog import StreamStallMonitor, watchdog

CHUNK_LIMIT = 1 << 20
"""Chunks that are timed; those after are counted. Keeps the memory of an endless stream under 25 MB."""
LONG_STREAM = 1_024
"""Chunks from which on an event loop does not wait for a stream to be concluded: it would, for half a millisecond."""

_KIND_MASK = 0xFF
_TOKENS_SHIFT = 8
_TOKENS_MASK = 0xFFFFFF
_CHOICE_SHIFT = 32

Classify = Callable[[Any, ResponseInfo], int]
"""What a chunk carried: flags of `Kind`, or `code()` of them with a token count and a choice."""
Owner = ref[object]
Note = Callable[[int], None]
Taking = tuple[Note, Note, Note, Iterator[None]]
"""What to do with the moment of asking, the moment of arrival and the code of a chunk, and for how many chunks."""


def code(kind: int, tokens: int = 0, choice: int = 0) -> int:
    """One integer for what a chunk carried: flags of `Kind`, tokens (0: unknown) and choice."""
    return kind | min(tokens, _TOKENS_MASK) << _TOKENS_SHIFT | min(choice, 0xFF) << _CHOICE_SHIFT


class Aborter(Protocol):
    """How to break a wait off, from any thread."""

    def cut(self) -> bool:
        """End the wait; False where that cannot be done without harm to others."""
        ...

    def error(self, message: str) -> BaseException:
        """What whoever waits is to get instead."""
        ...


def _forget(_: object) -> None:
    """Nothing to do."""


class StreamRecorder:
    """The recording of one stream, from the request to its end.

    Whoever iterates appends to `asked`, `arrived` and `codes`. Every way out leads to one of `exhausted`, `failed`,
    `closed`, `thrown` and `orphan`, the first of which ends the recording; the others then do nothing. A probe that is
    dropped while it is open orphans itself.
    """

    __slots__ = (
        "__weakref__",
        "_beside",
        "_error_type",
        "_on_end",
        "_open",
        "_outcome",
        "_owners",
        "_source",
        "aborting",
        "answer",
        "arrived",
        "asked",
        "attempts",
        "before_outcome",
        "breaker",
        "classify",
        "clock",
        "codes",
        "ended",
        "headers",
        "in_flight",
        "key",
        "load_ns",
        "loop_lag",
        "may_wait",
        "opened",
        "pulled",
        "request",
        "requested",
        "ticket",
        "unix_ns",
        "unrecorded",
        "waiting",
        "watch",
    )

    def __init__(  # noqa: PLR0913 - the facts that only the opener knows
        self,
        request: Request,
        classify: Classify,
        on_end: Callable[[FinishedStream], None],
        *,
        unix_ns: int,
        requested: int,
        ticket: object = None,
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self.request = request
        self.classify = classify
        self.ticket = ticket
        self.clock = clock
        self.unix_ns = unix_ns
        self.requested = requested
        self.asked = array("q")
        self.arrived = array("q")
        self.codes = array("Q")
        self.answer = ResponseInfo()
        self.attempts: int | None = None
        self.headers: int | None = None
        self.ended = requested
        self.pulled = False
        """Somebody iterates over the chunks, rather than over the bytes of the response."""
        self.waiting = False
        """A pull is under way that `asked` does not show."""
        self.unrecorded = 0
        self.loop_lag: LoopLag | None = None
        """The lag of the event loop that the stream is read on."""
        self.watch: StreamStallMonitor | None = None
        """Looks out for stalls."""
        self.breaker: Aborter | None = None
        self.aborting: str | None = None
        """Why the stream is being broken off, if it is."""
        self.before_outcome: Callable[[StreamRecorder], None] = _forget
        """Asked before it is decided how the stream ended: takes in what was noted of its end."""
        self.may_wait = False
        """Whoever flushes or collects the report of this stream reaches it also before it is concluded."""
        self._on_end = on_end
        self._beside: Concurrency | None = None
        self._open = [True]
        self._owners: list[Owner] = []
        self._source: Callable[[], object] = _nothing
        self._outcome = Outcome.ABANDONED
        self._error_type: str | None = None
        self.opened = perf_counter_ns()
        self.load_ns = 0
        self.key, self.in_flight = open_streams.admit(self)

    @never_raises("watching an event loop", None)
    def read_on_running_loop(self) -> None:
        """The stream is awaited on the event loop that runs here, if one does: it may be blocked by other work."""
        self.read_on(lag_of_running_loop())

    def read_on(self, loop_lag: LoopLag | None) -> None:
        """The stream is awaited on an event loop, or on one no more."""
        if loop_lag is self.loop_lag or not self._open:
            return
        if self.loop_lag is not None:
            self.loop_lag.leave()
        if loop_lag is not None:
            loop_lag.join()
        self.loop_lag = loop_lag

    def watched(self, watch: StreamStallMonitor) -> None:
        """Stalls are to be looked out for."""
        self.watch = watch
        watchdog.attend(watch)

    def abort(self, waited: float | None = None) -> bool:
        """Break the stream off, after `waited` seconds of silence; False where that cannot be."""
        if self.breaker is None or not self._open or self.aborting is not None:
            return False
        silent = "" if waited is None else f" after {waited:.1f} s without a token"
        self.aborting = f"The stream was broken off{silent}: it had stalled."
        try:
            cut = self.breaker.cut()
        except Exception as error:  # noqa: BLE001 - the fence
            report_error("breaking a stream off", error)
            cut = False
        if not cut:
            self.aborting = None
        return cut

    @never_raises("beginning to read a stream", None)
    def reads(self, source: object, owner: Owner | None) -> None:
        """Chunks are pulled from `source`: if it runs outside of a pull, somebody is finalising it."""
        self.pulled = True
        if owner is not None:
            self._owners.append(owner)
        with suppress(TypeError):
            self._source = ref(source)

    def owned_by(self, owner: object) -> None:
        """The stream lives as long as `owner` does."""
        self._owners.append(owner_of(owner))

    def forget_after_fork(self) -> None:
        """Forget the stream without a word: it belongs to the parent of this process."""
        self._open.clear()

    @never_raises("beginning to read a stream", ((_forget, _forget, _forget, repeat(None)),))
    def append_targets(self) -> Iterable[Taking]:
        """How to take down chunks, and for how many: their moments up to the limit, then their number alone."""
        return (
            (self.asked.append, self.arrived.append, self.codes.append, repeat(None, CHUNK_LIMIT - len(self.codes))),
            (self._waits, self._unrecords, _forget, repeat(None)),
        )

    def _waits(self, _: int) -> None:
        self.waiting = True

    def _unrecords(self, _: int) -> None:
        self.waiting = False
        self.unrecorded += 1

    def responded(self, attempts: int | None) -> None:
        """The response headers are there; `attempts` HTTP requests were made, as far as the SDK says."""
        self.headers = self.clock()
        self.attempts = attempts

    def arrive(self, kind: int) -> None:
        """Take down a chunk that the SDK swallows (a ping), while the consumer waits for the next one."""
        if len(self.codes) < CHUNK_LIMIT and len(self.asked) > len(self.arrived):
            now = self.clock()
            self.arrived.append(now)
            self.codes.append(kind)
            self.asked.append(now)

    @property
    def open(self) -> bool:
        """The stream has not ended."""
        return bool(self._open)

    @property
    def outcome(self) -> Outcome:
        """How the stream ended."""
        return self._outcome

    @property
    def pulling(self) -> bool:
        """Somebody waits right now: for a chunk, or for bytes where nobody iterates over chunks."""
        return self.waiting or len(self.asked) > len(self.arrived)

    @property
    @never_raises("ending a stream", default=False)
    def collected(self) -> bool:
        """The stream is in the hands of the garbage collector, or of a loop that closes what is left."""
        source = self._source()
        running = getattr(source, "gi_running", False) or getattr(source, "ag_running", False)
        return running or any(owner() is None for owner in self._owners) or running_loop_is_closing()

    @never_raises("ending a stream", None)
    def exhausted(self) -> BaseException | None:
        """The SDK's iterator came to its end. Returns what the caller is to get instead, if it was broken off."""
        outcome = self._exhausted_as()
        broken = None if self.pulled and self.answer.is_finished else self._broken_off()
        self._end(outcome, self.answer.error_type)
        return broken

    def _exhausted_as(self) -> Outcome:
        self.before_outcome(self)
        if self.answer.error_type is not None:
            return Outcome.ERROR
        return Outcome.COMPLETED if self.answer.is_finished or not self.pulled else Outcome.TRUNCATED

    @never_raises("ending a stream", None)
    def failed(self, error: BaseException) -> BaseException | None:
        """The SDK raised, or the wait was interrupted (anything that is no `Exception`).

        Returns what the caller is to get instead of the error that breaking the stream off led to.
        """
        broken = None
        if isinstance(error, GeneratorExit):
            self.abandon_from_gc()
        elif isinstance(error, Exception):
            broken = self._broken_off()
            self._end(Outcome.ERROR, type(error).__qualname__)
        else:
            self._end(Outcome.CANCELLED)
        return broken

    def _broken_off(self) -> BaseException | None:
        """What the caller gets for a stream that was broken off, in place of what that led to."""
        if self.aborting is None or self.breaker is None:
            return None
        error = self.breaker.error(self.aborting)
        self.aborting = None
        self._end(Outcome.ERROR, type(error).__qualname__)
        return error

    @never_raises("ending a stream", None)
    def closed(self) -> None:
        """The caller closed the stream, or its response.

        While a pull is under way its own end tells more. And the SDK closes the response of a stream that is being
        collected: that is no caller's doing, and nothing may be reported from there.
        """
        if self.pulling:
            return
        if self.collected:
            self.abandon_from_gc()
        else:
            self._end(Outcome.CLOSED)

    @never_raises("ending a stream", None)
    def thrown(self, error: BaseException) -> None:
        """The caller threw an exception into the stream: it left, whatever its reason."""
        self._end(Outcome.CLOSED if isinstance(error, Exception) else Outcome.CANCELLED)

    @never_raises("dropping a stream", None, note_error)
    def abandon_from_gc(self) -> None:
        """The stream was dropped. Takes no lock and calls nothing: this runs inside the garbage collector."""
        if self._claim(Outcome.ABANDONED):
            open_streams.orphans.append(self)

    @never_raises("ending a stream", None)
    def conclude(self) -> None:
        """Report a stream whose end was claimed."""
        self._on_end(self._report(self._left()))

    def _left(self) -> Concurrency:
        """Leave the streams that are open, if that is still to be done; returns how many ran beside this one."""
        if self._beside is None:
            if self.loop_lag is not None:
                self.loop_lag.leave()
            self._beside = open_streams.release(self)
        return self._beside

    def so_far(self) -> FinishedStream:
        """The stream as if it ended now, for a report that cannot wait for its end."""
        if self._open:
            self.ended = self.clock()
            exhausted = self._exhausted_as()
            self._outcome = exhausted if self.answer.is_finished else Outcome.CLOSED
        return self._report(open_streams.share(self))

    def _report(self, concurrency: Concurrency) -> FinishedStream:
        watch = self.watch
        # Who reads the bytes of the response is not watched.
        read_as_bytes = self.headers is not None and not self.pulled
        return FinishedStream(
            self.request,
            self.answer,
            self.timeline(),
            concurrency,
            self._error_type,
            stalls=() if watch is None else watch.stalls(over=not self._open),
            stall_threshold=None if watch is None or read_as_bytes else watch.threshold,
        )

    def timeline(self) -> Timeline:
        """The facts so far, in whole microseconds after the request."""
        chunks = min(len(self.codes), len(self.arrived), len(self.asked))
        codes = self.codes[:chunks].tolist()
        tokens, choices = array("I"), b""
        try:
            kinds = bytes(codes)
        except ValueError:  # more than kinds is in them
            tokens = array("I", [number >> _TOKENS_SHIFT & _TOKENS_MASK for number in codes])
            choices = bytes([number >> _CHOICE_SHIFT & _KIND_MASK for number in codes])
            kinds = bytes([number & _KIND_MASK for number in codes])
        answer = self.answer
        asked, arrived = self.asked[:chunks], self.arrived[:chunks]
        lags = [] if self.loop_lag is None else self.loop_lag.since(self.requested)
        lags += [freeze for freeze in watchdog.frozen(self.ended) if freeze.end > self.requested]
        headers = self.headers
        if lags:
            asked = charged(asked, arrived, lags)
            headers = None if headers is None else max(opened(headers, lags), self.requested)
        return Timeline(
            request_unix_ns=self.unix_ns,
            asked=self._moments(asked),
            arrived=self._moments(arrived),
            kinds=kinds,
            tokens=tokens if any(tokens) else array("I"),
            choices=choices if any(choices) else b"",
            unrecorded=self.unrecorded,
            headers=None if headers is None else self._moment(headers),
            end=self._moment(self.ended),
            outcome=self._outcome,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            reasoning_tokens=answer.reasoning_tokens,
            attempts=self.attempts,
        )

    def _moment(self, moment: int) -> int:
        return (moment - self.requested) // MICROSECOND * MICROSECOND

    def _moments(self, moments: array[int]) -> array[int]:
        requested = self.requested
        rounded = array("q")
        rounded.fromlist([(offset := moment - requested) - offset % MICROSECOND for moment in moments.tolist()])
        return rounded

    def _claim(self, outcome: Outcome, error_type: str | None = None) -> bool:
        """Whether this is the first end: popping a list is atomic, so it is so for one thread only."""
        try:
            self._open.pop()
        except IndexError:
            return False
        self.ended = self.clock()
        self._outcome = outcome
        self._error_type = error_type
        # What it holds may be text.
        self.before_outcome = _forget
        return True

    def _end(self, outcome: Outcome, error_type: str | None = None) -> None:
        if not self._claim(outcome, error_type):
            return
        if self.may_wait and self._keeps_a_loop_waiting() and not self._tells():
            self._left()
            open_streams.put_off(self)
        else:
            self.conclude()

    def _keeps_a_loop_waiting(self) -> bool:
        return self.loop_lag is not None and len(self.codes) >= LONG_STREAM

    def _tells(self) -> bool:
        """Whether the end makes log events, whose flush reaches nothing that waits."""
        unfinished = self._outcome in {Outcome.ERROR, Outcome.TRUNCATED}
        return unfinished or (self.watch is not None and self.watch.stalled)

    @property
    def over(self) -> bool:
        """The stream has ended, whether or not it is concluded."""
        return not self._open

    def __del__(self) -> None:
        if getattr(self, "_open", None):
            self.abandon_from_gc()


def owner_of(stream: object) -> Owner:
    """A reference to what a stream lives and dies with.

    With a callback, so that the garbage collector clears it before it runs the finalisers of a cycle. The callback has
    nothing to do: the reference is asked, never told.
    """
    return ref(stream, _forget)


def _nothing() -> None:
    """Before anybody pulls, there is no source."""
