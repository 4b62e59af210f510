"""The driver: records the streams of any SDK, from a table of the calls that make them.

A call may return an iterator, an asynchronous one, a generator, or something to await for one; it may send its request
at once or with the first pull. The driver opens a recording when the request is sent, makes its span current while it
is, and ties the recording to the stream that the call returns.

One HTTP call is one record. Where a layer above another is hooked as well (`has_inner_layer`), the layer nearer to the
wire takes over the recording that the outer one has opened: it sees more.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from time import perf_counter_ns
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from otel_itl.config import SessionFrom
from otel_itl.conventions import Where
from otel_itl.core.request import Request
from otel_itl.core.stream import ResponseInfo
from otel_itl.recording.chunk_log import AppendTargets, Classify, record_nothing
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.ownership import Owner
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.stream_iterators import record_async_iterator, record_iterator
from otel_itl.recording.stream_proxy import proxy_stream
from otel_itl.sdks.patching import Target, Wrapper
from otel_itl.sdks.values import short_str

T = TypeVar("T")


class Call(NamedTuple):
    """One call of a function of an SDK."""

    function: Any
    """The function, bound to its instance."""
    instance: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that were given, by the names of the function's parameters."""
        return inspect.signature(self.function).bind_partial(*self.args, **self.kwargs).arguments


class Description(NamedTuple):
    """What a call asks for, and how to read what it streams."""

    request: Request
    classify: Classify
    body: Mapping[str, Any] = {}
    """The request's parameters, where `session_from` may find the session."""
    headers: Mapping[str, Any] = {}
    """The request's headers, likewise."""


Describe = Callable[[Call], Description | None]
"""Describes a call; None: it is no inference, or does not stream."""
Bind = Callable[[Any, StreamRecorder], Any]
"""Ties the recording to what the call returned; returns what the caller gets."""


@dataclass(frozen=True, slots=True)
class StreamingCall:
    """One function of an SDK that makes a stream."""

    module: str
    path: str
    """The function's name in the module, such as `Client.stream_chat`."""
    describe: Describe
    sent: Literal["call", "first_pull"] = "call"
    """When the request is sent. A generator function sends it with the first pull, whatever this says."""
    bind: Bind = field(default=lambda result, recorder: bind_stream(result, recorder))  # noqa: PLW0108 - defined below
    replaces_code: bool = False
    has_inner_layer: bool = False
    """The call may go through another hooked SDK, which takes over the recording then."""


@dataclass(frozen=True, slots=True)
class SDK:
    """An SDK as a table of the calls that make its streams: what the module of an SDK defines as `SDK`."""

    name: str
    """Its name in the registry."""
    calls: tuple[StreamingCall, ...]

    def targets(self, driver: Driver) -> tuple[Target, ...]:
        """Return what is patched."""
        return tuple(map(driver.target, self.calls))


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

    @property
    def attach(self) -> Callable[[Any], Any]:
        """Makes a context current, and returns what `detach` takes: OpenTelemetry's own function."""
        ...

    @property
    def detach(self) -> Callable[[Any], object]:
        """Makes the caller's context current again: OpenTelemetry's own function."""
        ...


class OpenCall:
    """A call whose request is being sent: its recorder waits for the stream.

    The request is sent by `send` or `asend`. These change the caller's context and restore it by no function of ours in
    between, so that no failure of ours leaves the caller in another context.
    """

    __slots__ = ("_context", "_has_inner_layer", "_opener", "_recorder")

    def __init__(self, recorder: StreamRecorder, opener: RecordingOpener, *, has_inner_layer: bool) -> None:
        self._context: Any = recorder.span_handle.context
        self._opener = opener
        self._recorder: StreamRecorder | None = recorder
        self._has_inner_layer = has_inner_layer

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

        Whatever the HTTP client started meanwhile keeps a copy of the context: it holds no recorder from here on.
        """
        recorder, self._recorder = self._recorder, None
        return recorder


_current_call: ContextVar[OpenCall | None] = ContextVar("otel_itl_call", default=None)
"""The call whose request is being sent."""


def current_recorder() -> StreamRecorder | None:
    """Return the recorder of the call whose request is being sent here; None: there is none."""
    call = _current_call.get()
    return None if call is None else call.recorder


class Driver:
    """Makes the wrappers of streaming calls.

    Args:
        opener: opens the recordings.
    """

    def __init__(self, opener: RecordingOpener) -> None:
        self._opener = opener

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        return self._opener.errors

    def target(self, call: StreamingCall) -> Target:
        """Make the patch target of a streaming call."""
        return Target(call.module, call.path, self._wrapper(call), replaces_code=call.replaces_code)

    def _wrapper(self, streaming: StreamingCall) -> Wrapper:
        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            description = self.describe(streaming, Call(wrapped, instance, args, kwargs))
            if description is None:
                return wrapped(*args, **kwargs)
            flags = getattr(getattr(wrapped, "__code__", None), "co_flags", 0)
            if flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR) or streaming.sent == "first_pull":
                result = wrapped(*args, **kwargs)
                return self._bind_lazily(streaming, description, result) or result
            if flags & inspect.CO_COROUTINE:
                return self._await(streaming, description, wrapped, args, kwargs)
            return self._call(streaming, description, wrapped, args, kwargs)

        return wrapper

    def _call(self, streaming: StreamingCall, description: Description, wrapped: Any, args: Any, kwargs: Any) -> Any:
        opening = self.begin(description, has_inner_layer=streaming.has_inner_layer)
        if opening is None:
            return wrapped(*args, **kwargs)
        try:
            result = opening.send(partial(wrapped, *args, **kwargs))
        except BaseException as error:
            opening.fail(error)
            raise
        bound = self._bind(streaming, result, opening)
        return result if bound is None else bound

    async def _await(
        self, streaming: StreamingCall, description: Description, wrapped: Any, args: Any, kwargs: Any
    ) -> Any:
        opening = self.begin(description, has_inner_layer=streaming.has_inner_layer)
        if opening is None:
            return await wrapped(*args, **kwargs)
        opening.follow_loop()
        try:
            result = await opening.asend(partial(wrapped, *args, **kwargs))
        except BaseException as error:
            opening.fail(error)
            raise
        bound = self._bind(streaming, result, opening)
        return result if bound is None else bound

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def _bind(self, streaming: StreamingCall, result: Any, opening: OpenCall) -> Any:
        """Tie the recording to what the call returned; returns what the caller gets, None where that is `result`."""
        recorder = opening.release()
        return None if recorder is None else streaming.bind(result, recorder)

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def _bind_lazily(self, streaming: StreamingCall, description: Description, result: Any) -> Any:
        """Return what the caller iterates over instead of `result`, which sends the request with the first pull."""
        return iterate_recorded(result, _FirstPull(self, description, streaming.has_inner_layer))

    @never_raises(Where.STREAM_OPEN, None)
    def begin(self, description: Description, *, has_inner_layer: bool = False) -> OpenCall | None:
        """Open the recording of a request that is sent now, or take over that of an outer layer's call.

        Returns None where the request is not to be measured.
        """
        outer = _current_call.get()
        recorder = None if outer is None else outer.take_over()
        if recorder is not None:
            self._opener.redescribe(recorder, description.request, description.classify)
        else:
            recorder = self._opener.open(description.request, description.classify)
        if recorder is None:
            return None
        return OpenCall(recorder, self._opener, has_inner_layer=has_inner_layer)

    @never_raises(Where.STREAM_OPEN, None)
    def describe(self, streaming: StreamingCall, call: Call) -> Description | None:
        """Describe a call, with the session that `session_from` finds; None where it is not to be recorded."""
        description = streaming.describe(call)
        session_from = self._opener.session_from
        if description is None or session_from is None or description.request.session_id is not None:
            return description
        try:
            session_id = short_str(session_from(description.body, description.headers))
        except Exception as error:  # noqa: BLE001 - the application's function
            self.errors.report(Where.CALLBACK_SESSION_FROM, error)
            return description
        return description._replace(request=replace(description.request, session_id=session_id))


class _FirstPull:
    """Records a stream whose request is sent with the first pull: the recording begins there, not at the call.

    It stands in for the recorder in `record_iterator`. Where the request is not to be measured, nothing is recorded;
    where the first pull goes through another hooked SDK, that takes over the recording and chunks pass.
    """

    def __init__(self, driver: Driver, description: Description, has_inner_layer: bool) -> None:  # noqa: FBT001
        self._driver = driver
        self._description = description
        self._has_inner_layer = has_inner_layer
        self._recorder: StreamRecorder | None = None
        self._opening: OpenCall | None = None
        self._asked: list[int] = []
        self._arrived: list[int] = []
        self._is_async = False
        self.is_taken_over = False
        self.clock: Callable[[], int] = perf_counter_ns
        self.response = ResponseInfo()

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        return self._driver.errors

    @property
    def is_collected(self) -> bool:
        """Whether the stream is in the hands of the garbage collector."""
        return self._recorder is not None and self._recorder.is_collected

    @never_raises(Where.STREAM_OPEN, None)
    def start_reading(self, source: object, owner: Owner | None) -> None:
        """Open the recording."""
        self._is_async = hasattr(source, "__anext__")
        self._opening = self._driver.begin(self._description, has_inner_layer=self._has_inner_layer)
        self._recorder = None if self._opening is None else self._opening.recorder
        if self._recorder is not None:
            self.clock, self.response = self._recorder.clock, self._recorder.response
            self._recorder.start_reading(source, owner)

    @never_raises(Where.EVENT_LOOP_WATCH, None)
    def follow_running_loop(self) -> None:
        """Follow the lag of the event loop that the stream is awaited on."""
        if self._recorder is not None:
            self._recorder.follow_running_loop()

    def append_targets(self, pull: Callable[[], Any]) -> Iterable[AppendTargets]:
        """Yield targets that send the request with the first pull, then those of the recorder."""
        if self._recorder is None or self._opening is None:
            yield record_nothing(pull)
            return
        yield AppendTargets(
            self._asked.append, self._arrived.append, self._take_code, self._classify,
            self._pull_first(pull, self._opening), repeat(None, 1),
        )  # fmt: skip
        if self.is_taken_over:
            yield record_nothing(pull)
        else:
            yield from self._recorder.append_targets(pull) or (record_nothing(pull),)

    @never_raises(Where.STREAM_END, None)
    def end_exhausted(self) -> BaseException | None:
        """End a stream that is exhausted."""
        return None if self._recorder is None else self._recorder.end_exhausted()

    @never_raises(Where.STREAM_END, None)
    def end_failed(self, error: BaseException) -> BaseException | None:
        """End a stream whose SDK raised."""
        return None if self._recorder is None else self._recorder.end_failed(error)

    @never_raises(Where.STREAM_END, None)
    def end_thrown(self, error: BaseException) -> None:
        """End a stream that its caller threw an exception into."""
        if self._recorder is not None:
            self._recorder.end_thrown(error)

    @never_raises(Where.STREAM_END, None)
    def end_closed(self) -> None:
        """End a stream that its caller closed."""
        if self._recorder is not None:
            self._recorder.end_closed()

    @never_raises(Where.STREAM_DROP, None, in_finalizer=True)
    def abandon_from_gc(self) -> None:
        """End a stream that was dropped."""
        if self._recorder is not None and not self.is_taken_over:
            self._recorder.abandon_from_gc()

    # --- The first chunk -------------------------------------------------------------------------------------------

    def _pull_first(self, pull: Callable[[], Any], opening: OpenCall) -> Callable[[], Any]:
        """Return a pull that sends the request, and sees whether a layer nearer to the wire took over the recording."""

        def pull_first() -> Any:
            try:
                return opening.send(pull)
            finally:
                self.is_taken_over = opening.release() is None

        async def await_first() -> Any:
            try:
                return await opening.asend(pull)
            finally:
                self.is_taken_over = opening.release() is None

        return await_first if self._is_async else pull_first

    def _classify(self, chunk: Any, response: ResponseInfo) -> int:
        return 0 if self.is_taken_over or self._recorder is None else self._recorder.classify(chunk, response)

    def _take_code(self, code: int) -> None:
        """Record the first chunk, unless the layer nearer to the wire has done so."""
        if not self.is_taken_over and self._recorder is not None:
            log = self._recorder.log
            log.asked.extend(self._asked)
            log.arrived.extend(self._arrived)
            log.codes.append(code)


def iterate_recorded(source: Any, recorder: Any) -> Any:
    """Return what the caller iterates over instead of `source`: a generator for a generator, else a proxy."""
    if inspect.isgenerator(source):
        return record_iterator(source, recorder)
    if inspect.isasyncgen(source):
        return record_async_iterator(source, recorder)
    return proxy_stream(source, recorder)


def bind_stream(result: Any, recorder: StreamRecorder) -> Any:
    """Record the stream that a call returned: `StreamingCall.bind` by default."""
    recorder.record_headers(None)
    if not hasattr(result, "__iter__") and not hasattr(result, "__aiter__"):
        recorder.end_exhausted()
        return result
    return iterate_recorded(result, recorder)
