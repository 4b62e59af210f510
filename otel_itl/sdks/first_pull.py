"""Streams whose request is sent with the first pull: the recording begins there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from time import perf_counter_ns
from typing import Any, cast

from otel_itl.core.conventions import Where
from otel_itl.core.stream import ResponseInfo
from otel_itl.recording.chunk_log import AppendTargets, record_nothing
from otel_itl.recording.internal_errors import never_raises
from otel_itl.recording.ownership import Owner
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.sdks.http_clients import enable_abort
from otel_itl.sdks.open_call import OpenCall


class FirstPull:
    """Records a stream whose request is sent with the first pull: the recording begins there, not at the call.

    It stands in for the recorder in `record_iterator`. Where the request is not to be measured, nothing is recorded;
    where the first pull goes through another hooked SDK, that takes over the recording and chunks pass.

    Args:
        opening: opens the recording.
        find_response: returns the HTTP response once the first chunk is there; None: the stream is not aborted by it.
    """

    def __init__(self, opening: OpenCall, find_response: Callable[[], Any] | None = None) -> None:
        self._opening = opening
        self._find_response = find_response
        self.errors = opening.errors
        self._is_async = False
        self._recorder: StreamRecorder | None = None
        self._asked: list[int] = []
        self._arrived: list[int] = []
        self.has_reader = False
        """The first chunk was pulled."""
        self.is_taken_over = False
        self.clock: Callable[[], int] = perf_counter_ns
        self.response = ResponseInfo()
        # Those of the recorder, as soon as there is one. Until then builtins, which do nothing and cannot fail.
        self.follow_running_loop = self.end_closed = cast("Callable[[], None]", int)
        self.end_thrown = cast("Callable[[BaseException], None]", id)

    @property
    @never_raises(Where.STREAM_END, default=False)
    def is_collected(self) -> bool:
        """Whether the stream is in the hands of the garbage collector."""
        return self._recorder is not None and self._recorder.is_collected

    @never_raises(Where.STREAM_OPEN, None)
    def start_reading(self, source: object, owner: Owner | None) -> None:
        """Open the recording."""
        self.has_reader = True
        self._is_async = hasattr(source, "__anext__")
        recorder = self._recorder = self._opening.recorder if self._opening.begin() else None
        if recorder is not None:
            self.clock, self.response = recorder.clock, recorder.response
            self.follow_running_loop = recorder.follow_running_loop
            self.end_thrown, self.end_closed = recorder.end_thrown, recorder.end_closed
            recorder.start_reading(source, owner)

    def append_targets(self, pull: Callable[[], Any]) -> Iterable[AppendTargets]:
        """Yield targets that send the request with the first pull, then those of the recorder."""
        if self._recorder is None:
            yield record_nothing(pull)
            return
        send = partial(self._opening.asend if self._is_async else self._opening.send, pull)
        yield AppendTargets(
            self._asked.append, self._arrived.append, self._append_code, self._classify_first, send,
            zip(iter(self.clock, None), repeat(None, 1), strict=False),
        )  # fmt: skip
        if self.is_taken_over:
            yield record_nothing(pull)
        else:
            yield from self._recorder.append_targets(pull) or (record_nothing(pull),)

    @never_raises(Where.STREAM_END, None)
    def end_exhausted(self) -> BaseException | None:
        """End a stream that is exhausted."""
        if self._recorder is None:
            return None
        self._opening.release()
        return self._recorder.end_exhausted()

    @never_raises(Where.STREAM_END, None)
    def end_failed(self, error: BaseException) -> BaseException | None:
        """End a stream whose SDK raised."""
        if self._recorder is None:
            return None
        self._opening.release()
        return self._recorder.end_failed(error)

    @never_raises(Where.STREAM_DROP, None, in_finalizer=True)
    def end_iterator_closed(self) -> None:
        """End a stream whose generator was closed or dropped, which look the same from inside."""
        if self._recorder is not None and not self.is_taken_over:
            self._recorder.end_iterator_closed()

    # --- The first chunk -------------------------------------------------------------------------------------------

    def _classify_first(self, chunk: Any, response: ResponseInfo) -> int:
        """Classify the first chunk, unless another layer has taken over the recording."""
        recorder = self._opening.release()
        self.is_taken_over = recorder is None
        if recorder is None:
            return 0
        self._enable_abort(recorder)
        return recorder.classify(chunk, response)

    @never_raises(Where.STREAM_ABORT, None)
    def _enable_abort(self, recorder: StreamRecorder) -> None:
        """Have the stream aborted by the HTTP response that it is read from, where that is found."""
        if self._find_response is not None:
            enable_abort(recorder, self._find_response())

    def _append_code(self, code: int) -> None:
        """Record the first chunk, unless another layer has taken over the recording."""
        if not self.is_taken_over and self._recorder is not None:
            log = self._recorder.log
            log.asked.extend(self._asked)
            log.arrived.extend(self._arrived)
            log.codes.append(code)
