"""A call whose request is being sent: its span is current, and its recorder waits for the stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, TypeVar

from otel_itl.core.conventions import Where
from otel_itl.core.option_values import SessionFrom
from otel_itl.core.request import Request
from otel_itl.recording.chunk_log import Classify
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.recorder import StreamRecorder

T = TypeVar("T")


class Moment(NamedTuple):
    """One moment on two clocks."""

    unix_ns: int
    """Nanoseconds since the epoch."""
    clock_ns: int
    """Nanoseconds on the clock of the recordings."""


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

    def read_clocks(self) -> Moment:
        """Return the present moment."""
        ...

    def open(
        self, request: Request, classify: Classify, *, sent: Moment | None = None, sdk_span: Any = None
    ) -> StreamRecorder | None:
        """Open the recording of a request; None where the request is not to be measured."""
        ...

    def redescribe(self, recorder: StreamRecorder, request: Request, classify: Classify) -> None:
        """Describe a recording as the layer nearer to the wire sees the request."""
        ...

    def move(self, recorder: StreamRecorder, sdk_span: Any) -> None:
        """Have a recording that was opened on a span of the SDK report to another one, of its next attempt."""
        ...

    @property
    def attach(self) -> Callable[[Any], Any]:
        """OpenTelemetry's own function that makes a context current; it returns what `detach` takes."""
        ...

    @property
    def detach(self) -> Callable[[Any], object]:
        """OpenTelemetry's own function that makes the caller's context current again."""
        ...

    @property
    def current_context(self) -> Callable[[], Any]:
        """OpenTelemetry's own function that returns the current context."""
        ...


OpenRecording = Callable[[Any], StreamRecorder | None]
"""Opens a recording on the span of the SDK that it is given, or on one of our own for None."""


class OpenCall:
    """A call whose request is being sent: its recorder waits for the stream.

    The request is sent by `send` or `asend`. These change the caller's context and restore it by no function of ours in
    between, so that no failure of ours leaves the caller in another context.

    Args:
        recorder: records the stream; None: the recording is opened later.
        opener: opens recordings.
        has_inner_layer: the call may go through another hooked SDK.
        open_later: opens the recording as soon as it is known whether the SDK starts a span of its own.
    """

    __slots__ = (
        "_context",
        "_has_inner_layer",
        "_is_awaited",
        "_is_entered_late",
        "_open_later",
        "_opener",
        "_recorder",
    )

    def __init__(
        self,
        recorder: StreamRecorder | None,
        opener: RecordingOpener,
        *,
        has_inner_layer: bool,
        open_later: OpenRecording | None = None,
    ) -> None:
        self._context: Any = opener.current_context() if recorder is None else recorder.span_handle.context
        self._opener = opener
        self._recorder = recorder
        self._has_inner_layer = has_inner_layer
        self._open_later = open_later
        self._is_awaited = False
        self._is_entered_late = False

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
    def open_recording(self, sdk_span: Any) -> None:
        """Open a recording that waits for the SDK's own span. Called by the SDK, with that span or None.

        Where the SDK's span does not record, ours is current from here on, until the request was sent. An SDK that
        tries again starts another span, to which the recording moves.
        """
        is_recording = sdk_span is not None and sdk_span.is_recording()
        if self._open_later is not None:
            self._open(sdk_span if is_recording else None)
            if not is_recording:
                self._is_entered_late = True
                self.enter_recording()
        elif is_recording and self._recorder is not None:
            self._opener.move(self._recorder, sdk_span)

    @never_raises(Where.STREAM_OPEN, None)
    def enter_recording(self) -> None:
        """Make our span current, where it was started after the call: in the task, if that was in another thread."""
        if self._is_entered_late and self._recorder is not None:
            self._opener.attach(self._recorder.span_handle.context)

    def _open(self, sdk_span: Any) -> None:
        """Open the recording that was put off."""
        open_later, self._open_later = self._open_later, None
        if open_later is not None:
            self._recorder = open_later(sdk_span)
            if self._is_awaited:
                self.follow_loop()

    def send(self, call_sdk: Callable[[], T]) -> T:
        """Call a function of the SDK while the span of the request, and this call, are current."""
        attached, reset = self._opener.attach(self._context), _current_call.set(self)
        try:
            return call_sdk()
        finally:
            _current_call.reset(reset)
            self._opener.detach(attached)

    async def asend(self, call_sdk: Callable[[], Awaitable[T]]) -> T:
        """Do what `send` does, for a function that returns an awaitable."""
        attached, reset = self._opener.attach(self._context), _current_call.set(self)
        is_thrown_away = False
        try:
            return await call_sdk()
        except GeneratorExit:
            is_thrown_away = True
            raise
        finally:
            if not is_thrown_away:  # else this may be another context, which is not to be changed
                _current_call.reset(reset)
                self._opener.detach(attached)

    @never_raises(Where.STREAM_OPEN, None)
    def follow_loop(self) -> None:
        """Follow the lag of the event loop on which the response is awaited."""
        self._is_awaited = True
        if self._recorder is not None:
            self._recorder.follow_running_loop()

    @never_raises(Where.STREAM_OPEN, None)
    def fail(self, error: BaseException) -> None:
        """End a call that raised, or whose wait was interrupted: there is no stream."""
        recorder = self.release()
        if recorder is not None:
            recorder.end_failed(error)

    @never_raises(Where.STREAM_OPEN, default=None)
    def release(self) -> StreamRecorder | None:
        """End the call; returns the recorder, unless another layer has taken it over.

        Whatever the HTTP client started meanwhile keeps a copy of the context: it holds no recorder from here on. A
        recording that still waits for the SDK's own span is opened: the call failed before the SDK started one.
        """
        self._open(None)
        recorder, self._recorder = self._recorder, None
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
