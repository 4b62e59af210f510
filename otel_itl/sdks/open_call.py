"""A streaming call: its recording is opened when its request is sent, and waits for the stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, TypeVar

from opentelemetry import context

from otel_itl.core.conventions import Where
from otel_itl.core.option_values import SessionFrom
from otel_itl.core.request import Request
from otel_itl.recording.chunk_log import Classify
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.recorder import ErrorNamer, StreamRecorder, name_class

T = TypeVar("T")
EmitEvent = Callable[[str, Mapping[str, Any]], object]
"""Emits a log event: its name and its attributes."""


class Moment(NamedTuple):
    """One moment on two clocks."""

    unix_ns: int
    """Nanoseconds since the epoch."""
    clock_ns: int
    """Nanoseconds on the clock of the recordings."""


class RecordingOpener(Protocol):
    """Opens recordings, and makes their spans current: the `Runtime`."""

    errors: InternalErrors
    """Where failures of our own are reported."""
    session_from: SessionFrom | None
    """Where a request names its session; None: nowhere."""

    def move(self, recorder: StreamRecorder, sdk_span: Any, /) -> object:
        """Have a recording on a span of the SDK report to another one, of its next attempt."""

    def read_clocks(self) -> Moment:
        """Return the present moment."""

    def open(
        self, request: Request, classify: Classify, *, sent: Moment | None = None, sdk_span: Any = None
    ) -> StreamRecorder | None:
        """Open the recording of a request; None where the request is not to be measured."""

    def connection_log(self, request: Request) -> EmitEvent | None:
        """Return what emits events about a connection that carries several requests; None: nothing is measured now."""

    def redescribe(self, recorder: StreamRecorder, request: Request, classify: Classify) -> None:
        """Describe a recording as the layer nearer to the wire sees the request."""


class Description(NamedTuple):
    """What a call asks for, and how to read what it streams."""

    request: Request
    classify: Classify
    body: Mapping[str, Any] = {}
    """The request's parameters, where `session_from` may find the session."""
    read_headers: Callable[[], Mapping[str, Any]] = dict
    """Returns the request's headers, likewise: called where the option is set."""
    awaits_sdk_span: bool = False
    """The SDK is about to start a span of its own, or to decide that it has none: the recording is opened then."""
    sent: Moment | None = None
    """When the request was made; None: now."""
    sdk_span: Any = None
    """The span that the SDK has started for the request already; None: it has none, or starts it later."""
    name_error: ErrorNamer = name_class
    """Names the SDK's exceptions."""
    on_open: Callable[[StreamRecorder], object] | None = None
    """Is called with the recorder, when that was opened."""


class OpenCall:
    """A call that streams, until there is its stream: `begin` opens the recording, `release` hands its recorder out.

    The request is sent by `send` or `asend`. These change the caller's context and restore it by no function of ours in
    between, so that no failure of ours leaves the caller in another context.

    Args:
        description: of the call.
        opener: opens recordings.
        has_inner_layer: the call may go through another hooked SDK, which takes over the recording then.
    """

    def __init__(self, description: Description, opener: RecordingOpener, *, has_inner_layer: bool) -> None:
        self.errors = opener.errors
        """Where failures of our own are reported."""
        self.recorder: StreamRecorder | None = None
        """The recorder; None: it is not open yet, a layer nearer to the wire has taken it over, or the call is over."""
        self._description = description
        self._opener = opener
        self._has_inner_layer = has_inner_layer
        self._context: Any = None
        """What is current while the request is sent; None: it is not, or not to be measured."""
        self._sent: Moment | None = None
        """When the request was made whose recording waits for the SDK's own span; None: it does not."""
        self._is_awaited = False
        self._is_entered_late = False
        self._error: BaseException | None = None
        """What the call raised while its recording was being opened, in another thread."""

    @never_raises(Where.STREAM_OPEN, default=False)
    def begin(self) -> bool:
        """Open the recording, or take over that of an outer layer's call: the request is sent now.

        Returns whether it is to be measured.
        """
        description, outer = self._description, _current_call.get()
        recorder = None if outer is None else outer.take_over()
        if recorder is not None:
            self._opener.redescribe(recorder, description.request, description.classify)
        elif description.awaits_sdk_span:
            self._sent = self._opener.read_clocks()
            self._context = context.get_current()
            return True
        else:
            span = recording_span(description.sdk_span)
            recorder = self._opener.open(
                description.request, description.classify, sent=description.sent, sdk_span=span
            )
        return self._follow(recorder)

    def _follow(self, recorder: StreamRecorder | None) -> bool:
        """Have the stream of this call recorded by a recorder; returns False where there is none."""
        if recorder is None:
            return False
        recorder.name_errors_by(self._description.name_error)
        if self._description.on_open is not None:
            self._description.on_open(recorder)
        self._context = recorder.span_handle.context
        self.recorder = recorder
        return True

    @property
    def has_begun(self) -> bool:
        """Whether the request was sent, or is about to be, and is to be measured."""
        return self._context is not None

    def take_over(self) -> StreamRecorder | None:
        """Take the recorder for a layer nearer to the wire; None where this call is of the nearest layer itself."""
        if not self._has_inner_layer:
            return None
        recorder, self.recorder = self.recorder, None
        return recorder

    # --- The SDK's own span ----------------------------------------------------------------------------------------

    def open_recording(self, sdk_span: Any) -> None:
        """Open a recording that waits for the SDK's own span. Called by the SDK, with that span or None.

        Where the SDK's span does not record, ours is current from here on, until the request was sent. An SDK that
        tries again starts another span, to which the recording moves.
        """
        span = recording_span(sdk_span)
        if self._sent is not None:
            self._open_late(span)
            if span is None:
                self._is_entered_late = True
                self.enter_recording()
        elif span is not None and self.recorder is not None:
            self._opener.move(self.recorder, span)

    def enter_recording(self) -> None:
        """Make our span current where it was started during the call; again in the task, if another thread did that."""
        if self._is_entered_late and self.recorder is not None:
            context.attach(self.recorder.span_handle.context)

    def _open_late(self, span: Any) -> None:
        """Open the recording that waits for the SDK's own span, if it does."""
        sent, self._sent = self._sent, None
        if sent is None:
            return
        description = self._description
        self._follow(self._opener.open(description.request, description.classify, sent=sent, sdk_span=span))
        if self._is_awaited and self.recorder is not None:
            self.recorder.follow_running_loop()
        error, self._error = self._error, None
        if error is not None:
            self._fail(error)

    # --- Sending the request ---------------------------------------------------------------------------------------

    def call(self, call_sdk: Callable[[], T]) -> T:
        """Send the request by a function of the SDK that returns the stream; where it raises, the recording ends."""
        try:
            return self.send(call_sdk)
        except BaseException as error:
            self._fail(error)
            raise

    async def acall(self, call_sdk: Callable[[], Awaitable[T]]) -> T:
        """Do what `call` does, for a function that returns an awaitable."""
        self._follow_loop()
        try:
            return await self.asend(call_sdk)
        except BaseException as error:
            self._fail(error)
            raise

    def send(self, call_sdk: Callable[[], T]) -> T:
        """Call a function of the SDK while the span of the request, and this call, are current."""
        attached, reset = context.attach(self._context), _current_call.set(self)
        try:
            return call_sdk()
        finally:
            _current_call.reset(reset)
            context.detach(attached)

    async def asend(self, call_sdk: Callable[[], Awaitable[T]]) -> T:
        """Do what `send` does, for a function that returns an awaitable."""
        attached, reset = context.attach(self._context), _current_call.set(self)
        is_thrown_away = False
        try:
            return await call_sdk()
        except GeneratorExit:
            is_thrown_away = True
            raise
        finally:
            if not is_thrown_away:  # else this may be another context, which is not to be changed
                _current_call.reset(reset)
                context.detach(attached)

    @never_raises(Where.STREAM_OPEN, None)
    def _follow_loop(self) -> None:
        """Follow the lag of the event loop on which the response is awaited."""
        self._is_awaited = True
        if self.recorder is not None:
            self.recorder.follow_running_loop()

    @never_raises(Where.STREAM_OPEN, None)
    def _fail(self, error: BaseException) -> None:
        """End a call that raised, or whose wait was interrupted: there is no stream."""
        self._error = error if self._description.awaits_sdk_span else None
        recorder = self.release()
        if recorder is not None:
            self._error = None
            recorder.end_failed(error)

    def release(self) -> StreamRecorder | None:
        """End the call; returns the recorder, unless another layer has taken it over.

        Whatever the HTTP client started meanwhile keeps a copy of the context: it holds no recorder from here on. A
        recording that still waits for the SDK's own span is opened: the call failed before the SDK started one.
        """
        self._open_late(None)
        recorder, self.recorder = self.recorder, None
        return recorder


def recording_span(span: Any) -> Any:
    """Return a span that an SDK has started; None where it does not record, or there is none."""
    return span if span is not None and span.is_recording() else None


_current_call: ContextVar[OpenCall | None] = ContextVar("otel_itl_call", default=None)
"""The call whose request is being sent."""


def current_call() -> OpenCall | None:
    """Return the call whose request is being sent here; None: there is none."""
    return _current_call.get()


def current_recorder() -> StreamRecorder | None:
    """Return the recorder of the call whose request is being sent here; None: there is none."""
    call = _current_call.get()
    return None if call is None else call.recorder
