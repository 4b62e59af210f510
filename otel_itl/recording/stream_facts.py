"""The facts of one stream that are gathered while it is opened and read: from its request to its last chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from otel_itl.core.conventions import Where
from otel_itl.core.request import Request
from otel_itl.core.stalls import NEVER
from otel_itl.core.stream import ResponseInfo
from otel_itl.recording.abort import Aborter, AbortSwitch, SocketAborter
from otel_itl.recording.chunk_log import MAX_CHUNKS, AppendTargets, ChunkLog, Classify
from otel_itl.recording.evidence.loops import LoopLag
from otel_itl.recording.evidence.of_process import ProcessEvidence
from otel_itl.recording.evidence.of_stream import StreamEvidence
from otel_itl.recording.evidence.pulls import make_pull_evidence
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.ownership import Owner, Ownership, refer_to


class StreamFacts:
    """What is known of a stream that is open; `StreamRecorder` adds how it ends.

    Args:
        request: what was asked for.
        classify: what a chunk carried.
        errors: where failures of our own are reported.
        process: the evidence that the streams of the process share.
        unix_ns: wall-clock time of the request, nanoseconds since the epoch.
        requested: the moment of the request on `clock` (ns).
        clock: a monotonic clock in nanoseconds.
    """

    __slots__ = (
        "__weakref__",
        "_abort",
        "_open",
        "_ownership",
        "_process",
        "attempts",
        "classify",
        "clock",
        "errors",
        "evidence",
        "has_reader",
        "headers",
        "key",
        "log",
        "request",
        "requested",
        "response",
        "unix_ns",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - the facts of a request
        self,
        request: Request,
        classify: Classify,
        errors: InternalErrors,
        process: ProcessEvidence,
        unix_ns: int,
        requested: int,
        clock: Callable[[], int],
    ) -> None:
        self.evidence = StreamEvidence(process, requested, clock)
        self.key = -1
        """The key in the registry of open streams, which sets it; -1: it is not registered yet."""
        self.request = request
        self.classify = classify
        self.clock = clock
        self.unix_ns = unix_ns
        self.requested = requested
        self.response = ResponseInfo()
        self.log = ChunkLog()
        self.headers: int | None = None
        """When the response headers were there (ns)."""
        self.attempts: int | None = None
        """HTTP attempts, where the SDK reports them."""
        self.has_reader = False
        """The chunks are iterated over, rather than the bytes of the response."""
        self.errors = errors
        self._process = process
        self._ownership = Ownership()
        self._abort = AbortSwitch(errors)
        self._open = [True]

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended, finalized or not."""
        return not self._open

    # --- While the stream is opened --------------------------------------------------------------------------------

    def enable_abort(self, aborter: Aborter) -> None:
        """Set how the stream is aborted, and with it the connection that it is read from."""
        self._abort.enable(aborter)
        if isinstance(aborter, SocketAborter):
            self.evidence.set_connection(aborter.find_source, is_shared=aborter.is_shared)
            self.evidence.follow_frames(aborter.shared_body)

    def count_attempt(self) -> None:
        """Count one more HTTP request for this stream, where each of them is seen."""
        self.attempts = (self.attempts or 0) + 1

    def record_headers(self, attempts: int | None) -> None:
        """Record that the response headers are there, after `attempts` HTTP requests (None: as counted, if at all)."""
        self.headers = self.clock()
        if attempts is not None:
            self.attempts = attempts

    def add_owner(self, owner: object) -> None:
        """Tie the stream to an object that lives as long as it does. The object is held weakly."""
        self._ownership.add(refer_to(owner))

    def set_holder(self, stream: object) -> None:
        """Tie the stream to the SDK's stream object, which alone holds the recorded iterator. It is held weakly."""
        self._ownership.set_holder(refer_to(stream))

    @never_raises(Where.EVENT_LOOP_WATCH, None)
    def follow_running_loop(self) -> None:
        """Follow the lag of the event loop of this thread: the stream is awaited there."""
        self.set_loop(self._process.loop_lags.of_running_loop())

    def set_loop(self, loop_lag: LoopLag | None) -> None:
        """Set the event loop that the stream is awaited on; None: on none."""
        if loop_lag is self.evidence.loop_lag or self.is_over:
            return
        self.leave_loop()
        self.evidence.loop_lag = loop_lag
        if loop_lag is not None:
            loop_lag.add_stream(self.key, self.log.codes)
            if not self._open:  # ended meanwhile, in another thread
                self.leave_loop()

    def leave_loop(self) -> None:
        """Stop counting the stream among those of its event loop."""
        if self.evidence.loop_lag is not None:
            self.evidence.loop_lag.remove_stream(self.key)

    # --- While the stream is read ----------------------------------------------------------------------------------

    @never_raises(Where.STREAM_READ, None)
    def start_reading(self, source: object, owner: Owner | None) -> None:
        """Note that chunks are pulled from `source` from here on.

        Args:
            source: the SDK's iterator.
            owner: a reference to the SDK's stream object whose iterator is recorded.
        """
        self.has_reader = True
        self.evidence.host.begin_reading()
        if owner is not None:
            self._ownership.add(owner)
        self._ownership.set_source(source)

    @never_raises(Where.STREAM_READ, None)
    def append_targets(self, pull: Callable[[], Any]) -> Iterable[AppendTargets]:
        """Return what the recording iterator calls for each chunk, and for how many."""
        free = NEVER if self.headers is None else self.headers
        judge = make_pull_evidence(self, pull)
        targets = self.log.append_targets(self.classify, pull, self.clock, free, judge)
        return chain((next(targets),), targets)

    def record_swallowed(self, kind: int) -> None:
        """Record a chunk that the SDK does not hand out (a ping)."""
        self.log.record_unasked(kind, self.clock())

    # --- While the stream is fed -----------------------------------------------------------------------------------

    def begin_feeding(self) -> None:
        """Note that the chunks are not pulled: `feed` gets them as they come in, from the request on."""
        self.has_reader = True
        self.log.wait(self.requested)

    def feed(self, chunk: Any, now: int) -> None:
        """Record a chunk that came in at `now` (ns). Called in the thread that reads the connection."""
        if not self.log.codes:
            self.evidence.host.begin_reading()
        try:
            code = self.classify(chunk, self.response)
        except Exception as error:  # noqa: BLE001 - the guard
            self.errors.report(Where.CHUNK_CLASSIFY, error)
            code = 0
        if len(self.log.codes) >= MAX_CHUNKS:
            self.log.unrecorded += 1
            return
        self.log.wait(now)  # a chunk that was read along with the one that filled the queue
        self.log.record_unasked(code, now)

    def abort(self, waited: float | None = None) -> bool:
        """Abort the stream; returns False where that is not possible. Called from any thread."""
        return not self.is_over and self._abort.abort(waited)

    @property
    def is_aborting(self) -> bool:
        """Whether the stream is being aborted: its reader is to get an error."""
        return self._abort.is_aborting

    @property
    @never_raises(Where.STREAM_END, default=False)
    def is_collected(self) -> bool:
        """Whether the stream is in the hands of the garbage collector, or of an event loop that shuts down."""
        return self._ownership.is_collected
