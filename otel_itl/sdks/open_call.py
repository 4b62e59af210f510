"""A call whose request is being sent: its span is current, and its recorder waits for the stream."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

from otel_itl.config import SessionFrom
from otel_itl.conventions import Where
from otel_itl.core.request import Request
from otel_itl.recording.chunk_log import Classify
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.recorder import StreamRecorder


class RecordingOpener(Protocol):
    """Opens recordings, and makes their spans current: the `Runtime`."""

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        ...

    @property
    def session_from(self) -> SessionFrom | None:
        """Where a request names its session; None: nowhere."""
        ...

    def open(self, request: Request, classify: Classify) -> StreamRecorder | None:
        """Open the recording of a request; None where the request is not to be measured."""
        ...

    def redescribe(self, recorder: StreamRecorder, request: Request, classify: Classify) -> None:
        """Describe a recording as the layer nearer to the wire sees the request."""
        ...

    def attach(self, recorder: StreamRecorder) -> Any:
        """Make the span of the request current; returns what `detach` takes."""
        ...

    def detach(self, token: Any) -> None:
        """Make the caller's span current again."""
        ...


class OpenCall:
    """A call whose request is being sent: its span is current, and its recorder waits for the stream."""

    __slots__ = ("_context", "_has_inner_layer", "_opener", "_recorder", "_reset")

    def __init__(self, recorder: StreamRecorder, opener: RecordingOpener, *, has_inner_layer: bool) -> None:
        self._recorder: StreamRecorder | None = recorder
        self._opener = opener
        self._has_inner_layer = has_inner_layer
        self._enter(recorder)

    def _enter(self, recorder: StreamRecorder) -> None:
        """Make the span current, and this the call whose request is being sent."""
        self._context = self._opener.attach(recorder)
        # Last: what is set before a failure would stay for the caller's next request.
        self._reset = _current_call.set(self)

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        return self._opener.errors

    @property
    def recorder(self) -> StreamRecorder | None:
        """The recorder; None: a layer nearer to the wire has taken it over, or the call is over."""
        return self._recorder

    def take_over(self) -> StreamRecorder | None:
        """Take the recorder for a layer nearer to the wire; None where this call is of the nearest layer itself."""
        if not self._has_inner_layer:
            return None
        recorder, self._recorder = self._recorder, None
        return recorder

    @never_raises(Where.STREAM_OPEN, None)
    def suspend(self) -> None:
        """Give the caller's context back until `resume()`: the request is sent when a coroutine is awaited."""
        self._opener.detach(self._context)
        _current_call.reset(self._reset)

    @never_raises(Where.STREAM_OPEN, None)
    def resume(self) -> None:
        """Make the span current again, in the context in which the coroutine is awaited."""
        if self._recorder is not None:
            self._enter(self._recorder)

    @never_raises(Where.STREAM_OPEN, None)
    def follow_loop(self) -> None:
        """Follow the lag of the event loop on which the response is awaited."""
        if self._recorder is not None:
            self._recorder.follow_running_loop()

    @never_raises(Where.STREAM_OPEN, None)
    def fail(self, error: BaseException) -> None:
        """End a call that raised, or whose wait was interrupted: there is no stream."""
        recorder = self._recorder
        if recorder is not None:
            recorder.end_failed(error)
        if not isinstance(error, GeneratorExit):
            # Else the coroutine is being thrown away, perhaps in another context, which is not to be changed.
            self.leave()

    @never_raises(Where.STREAM_OPEN, default=None)
    def leave(self) -> StreamRecorder | None:
        """Give the caller's context back; returns the recorder, unless another layer has taken it over.

        Whatever the HTTP client started meanwhile keeps a copy of the context: it holds no recorder from here on.
        """
        recorder, self._recorder = self._recorder, None
        self._opener.detach(self._context)
        _current_call.reset(self._reset)
        return recorder


_current_call: ContextVar[OpenCall | None] = ContextVar("otel_itl_call", default=None)
"""The call whose request is being sent."""


def current_call() -> OpenCall | None:
    """Return the call whose request is being sent here; None: there is none."""
    return _current_call.get()


def current_recorder() -> StreamRecorder | None:
    """Return the recorder of the call whose request is being sent here; None: there is none."""
    call = current_call()
    return None if call is None else call.recorder
