"""The driver: records the streams of any SDK, from a table of the calls that make them.

A call may return an iterator, an asynchronous one, a generator, or something to await for one; it may send its request
at once or with the first pull. The driver opens a recording when the request is sent, makes its span current while it
is, and ties the recording to the stream that the call returns.

One HTTP call is one record. Where a layer above another is hooked as well (`has_inner_layer`), the layer nearer to the
wire takes over the recording that the outer one has opened: it sees more.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from otel_itl.core.conventions import Where
from otel_itl.core.request import Request
from otel_itl.recording.chunk_log import Classify
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.recorder import ErrorNamer, StreamRecorder, name_class
from otel_itl.recording.response_recorders import ResponseRecorders
from otel_itl.recording.stream_iterators import record_async_iterator, record_iterator
from otel_itl.recording.stream_proxy import proxy_stream
from otel_itl.sdks.first_pull import FirstPull
from otel_itl.sdks.http_clients import enable_abort
from otel_itl.sdks.open_call import Moment, OpenCall, RecordingOpener, current_call, current_recorder, recording_span
from otel_itl.sdks.patching import Target
from otel_itl.sdks.values import short_str

_GENERATORS: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


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


Describe = Callable[[Call], Description | None]
"""Describes a call; None: it is no inference, or does not stream."""
Bind = Callable[[Any, StreamRecorder], Any]
"""Ties the recording to what the call returned; returns what the caller gets."""
Begin = Callable[[], OpenCall | None]
"""Opens the recording of a request that is sent now; None: the request is not to be measured."""
BindLazily = Callable[[Any, Begin, InternalErrors], Any]
"""Has the recording begin when what the call returned sends the request; returns what the caller gets."""


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
    bind_lazily: BindLazily = field(default=lambda result, *args: iterate_recorded(result, FirstPull(*args)))
    """In place of `bind`, where the request is sent with the first pull."""
    replaces_code: bool = False
    has_inner_layer: bool = False
    """The call may go through another hooked SDK, which takes over the recording then."""
    is_imported_late: bool = False
    """The SDK imports the module when it first needs it, or has it in some releases only: the patch waits for it."""


@dataclass(frozen=True, slots=True)
class HTTPAttempt:
    """One function of an SDK that sends the HTTP request of a streaming call, once for each attempt.

    Where an SDK has one, its streams have the number of attempts and the moment of the headers, and can be aborted.
    """

    module: str
    path: str
    """The function's name in the module, such as `Client.send_once`."""
    response_of: Callable[[Any], Any]
    """Returns the HTTP response in what the function returned."""


@dataclass(frozen=True, slots=True)
class SDK:
    """An SDK, by its name in the registry, as a table of calls: what the module of an SDK defines as `SDK`."""

    name: str
    calls: tuple[StreamingCall, ...]
    attempts: tuple[HTTPAttempt, ...] = ()
    more_targets: Callable[[Driver], tuple[Target, ...]] = lambda _: ()
    """Makes the targets of what is neither: the stream classes that an SDK shares with others."""

    def targets(self, driver: Driver) -> tuple[Target, ...]:
        """Return what is patched."""
        calls, attempts = map(driver.target, self.calls), map(driver.attempt_target, self.attempts)
        return (*calls, *attempts, *self.more_targets(driver))


class Driver:
    """Makes the wrappers of streaming calls.

    Args:
        opener: opens the recordings.
    """

    def __init__(self, opener: RecordingOpener) -> None:
        self._opener = opener
        self.read_clocks, self.errors = opener.read_clocks, opener.errors
        """Where failures of our own are reported."""
        self.response_recorders = ResponseRecorders()
        """The recorders of streams that are read from an HTTP response."""

    def find_recorder(self, response: Any) -> StreamRecorder | None:
        """Return the recorder of the stream that is read from a response; None where its request is not recorded.

        Some SDKs make the stream before the call has returned: the recorder is that of the call then. It waits for no
        span of the SDK any more.
        """
        recorder = self.response_recorders.find(response)
        call = None if recorder is not None else current_call()
        if call is None:
            return recorder
        if call.recorder is None:
            call.open_recording(None)
        return call.recorder

    def target(self, call: StreamingCall) -> Target:
        """Make the patch target of a streaming call.

        Generator functions, and calls that send their request with the first pull, are recorded from that pull on.
        """

        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            """Call the SDK's function, and record what it returns where the call streams."""
            description = self.describe(call, Call(wrapped, instance, args, kwargs))
            if description is None:
                return wrapped(*args, **kwargs)
            begin = partial(self.begin, description, has_inner_layer=call.has_inner_layer)
            flags = getattr(getattr(wrapped, "__code__", None), "co_flags", 0)
            if flags & _GENERATORS or call.sent == "first_pull":
                result = wrapped(*args, **kwargs)
                if inspect.iscoroutine(result):  # it makes the iterator, which sends the request
                    return self._await_lazily(call, begin, result)
                recorded = self._bind_lazily(call, begin, result)
                return result if recorded is None else recorded
            send = self._await if flags & inspect.CO_COROUTINE else self._call
            return send(call, begin, partial(wrapped, *args, **kwargs))

        trigger = call.module if call.is_imported_late else ""
        return Target(call.module, call.path, wrapper, call.replaces_code, trigger=trigger)

    def attempt_target(self, attempt: HTTPAttempt) -> Target:
        """Make the patch target of a function that sends the HTTP request."""

        def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
            """Send the request, and follow its response where the stream of the call is recorded."""
            recorder = self._begin_attempt()
            result = wrapped(*args, **kwargs)
            if recorder is None:
                return result
            if inspect.iscoroutine(result):
                return self._await_attempt(attempt, recorder, result)
            self._follow_response(attempt, recorder, result)
            return result

        return Target(attempt.module, attempt.path, wrapper)

    def result_target(
        self,
        module: str,
        path: str,
        follow: Callable[[Call, Any], Any],
        where: str = Where.RESPONSE_FOLLOW,
        **options: Any,
    ) -> Target:
        """Make the patch target of a function whose results are looked at.

        Args:
            module: the function's module.
            path: the function's name in the module.
            follow: gets the call and what it returned; returns what the caller gets instead, None: what was returned.
            where: the identifier that a failure of `follow` is counted under.
            options: the further fields of the `Target`.
        """

        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            """Call the SDK's function, and look at what it returns."""
            result = wrapped(*args, **kwargs)
            try:
                found = follow(Call(wrapped, instance, args, kwargs), result)
            except Exception as error:  # noqa: BLE001 - the guard
                self.errors.report(where, error)
                return result
            return result if found is None else found

        return Target(module, path, wrapper, **options)

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def _begin_attempt(self) -> StreamRecorder | None:
        """Count an HTTP attempt of the call that is being sent here; returns its recorder, None where there is none."""
        recorder = current_recorder()
        if recorder is not None:
            recorder.count_attempt()
        return recorder

    async def _await_attempt(self, attempt: HTTPAttempt, recorder: StreamRecorder, sending: Awaitable[Any]) -> Any:
        """Await an HTTP attempt, and follow its response."""
        result = await sending
        self._follow_response(attempt, recorder, result)
        return result

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def _follow_response(self, attempt: HTTPAttempt, recorder: StreamRecorder, result: Any) -> None:
        """Record that the headers of an attempt are there, and how its stream is aborted."""
        recorder.record_headers(None)
        enable_abort(recorder, attempt.response_of(result))

    def _call(self, streaming: StreamingCall, begin: Begin, call_sdk: Callable[[], Any]) -> Any:
        """Call a synchronous function that sends its request at once, and record the stream that it returns."""
        opening = begin()
        if opening is None:
            return call_sdk()
        result = opening.call(call_sdk)
        if inspect.iscoroutine(result):  # of a plain function: the request is sent there
            return self._await_opened(streaming, opening, lambda: result)
        bound = self._bind(streaming, opening, result)
        return result if bound is None else bound

    async def _await(self, streaming: StreamingCall, begin: Begin, call_sdk: Callable[[], Awaitable[Any]]) -> Any:
        """Await a coroutine function that sends its request at once, and record the stream that it returns."""
        opening = begin()
        return await (call_sdk() if opening is None else self._await_opened(streaming, opening, call_sdk))

    async def _await_opened(
        self, streaming: StreamingCall, opening: OpenCall, call_sdk: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Await the coroutine in which the request of an open call is sent, and record the stream that it returns."""
        result = await opening.acall(call_sdk)
        bound = self._bind(streaming, opening, result)
        return result if bound is None else bound

    async def _await_lazily(self, streaming: StreamingCall, begin: Begin, making: Awaitable[Any]) -> Any:
        """Await an iterator that sends its request with the first pull, and record it from there on."""
        result = await making
        recorded = self._bind_lazily(streaming, begin, result)
        return result if recorded is None else recorded

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def _bind(self, streaming: StreamingCall, opening: OpenCall, result: Any) -> Any:
        """Attach the recorder to what a call returned; returns what the caller gets, None where that is `result`."""
        recorder = opening.release()
        return None if recorder is None else streaming.bind(result, recorder)

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def _bind_lazily(self, streaming: StreamingCall, begin: Begin, result: Any) -> Any:
        """Return what the caller gets instead of `result`: it opens the recording when it sends the request."""
        return streaming.bind_lazily(result, begin, self.errors)

    @never_raises(Where.STREAM_OPEN, None)
    def begin(self, description: Description, *, has_inner_layer: bool = False) -> OpenCall | None:
        """Open the recording of a request that is sent now, or take over that of an outer layer's call.

        Returns None where the request is not to be measured.
        """
        outer = current_call()
        recorder = None if outer is None else outer.take_over()
        request, classify = description.request, description.classify
        if recorder is not None:
            self._opener.redescribe(recorder, request, classify)
        elif description.awaits_sdk_span:
            open_later = partial(self._opener.open, request, classify, sent=self._opener.read_clocks())
            return OpenCall(None, self._opener, has_inner_layer=has_inner_layer, open_later=open_later)
        else:
            span = recording_span(description.sdk_span)
            recorder = self._opener.open(request, classify, sent=description.sent, sdk_span=span)
        if recorder is None:
            return None
        recorder.name_errors_by(description.name_error)
        return OpenCall(recorder, self._opener, has_inner_layer=has_inner_layer)

    @never_raises(Where.STREAM_OPEN, None)
    def describe(self, streaming: StreamingCall, call: Call) -> Description | None:
        """Build the description of a call: its request, with the session that the option `session_from` names.

        Returns None where the call streams nothing that is to be measured.
        """
        description = streaming.describe(call)
        return None if description is None else self.name_session(description)

    def name_session(self, description: Description) -> Description:
        """Return the description of a call with the session that the option `session_from` names, unless it has one."""
        session_from = self._opener.session_from
        if session_from is None or description.request.session_id is not None:
            return description
        try:
            session_id = short_str(session_from(description.body, description.read_headers()))
        except Exception as error:  # noqa: BLE001 - the application's function
            self.errors.report(Where.CALLBACK_SESSION_FROM, error)
            return description
        return description._replace(request=replace(description.request, session_id=session_id))


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
