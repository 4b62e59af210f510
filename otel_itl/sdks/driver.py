"""The driver: records the streams of any SDK, from a table of the functions that are patched.

A call may return an iterator, an asynchronous one, a generator, or something to await for one; it may send its request
at once or with the first pull. The driver opens a recording when the request is sent, makes its span current while it
is, and ties the recording to the stream that the call returns.

One HTTP call is one record. Where a layer above another is hooked as well (`has_inner_layer`), the layer nearer to the
wire takes over the recording that the outer one has opened: it sees more.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple
from weakref import WeakKeyDictionary, ref

from otel_itl.core.conventions import Where
from otel_itl.core.request import Request
from otel_itl.recording.internal_errors import never_raises
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.response_body import watch_body
from otel_itl.recording.response_recorders import ResponseRecorders
from otel_itl.recording.session_scope import find_session
from otel_itl.recording.stream_iterators import record_async_iterator, record_iterator
from otel_itl.recording.stream_proxy import proxy_stream
from otel_itl.sdks.first_pull import FirstPull
from otel_itl.sdks.http_clients import MakeError, count_attempts, enable_abort, find_response
from otel_itl.sdks.open_call import Description, EmitEvent, OpenCall, RecordingOpener, current_call, current_recorder
from otel_itl.sdks.patching import Hook
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


Describe = Callable[[Call], Description | None]
"""Describes a call; None: it is no inference, or does not stream."""


@dataclass(frozen=True, slots=True)
class StreamingCall(Hook):
    """A function that makes a stream."""

    describe: Describe
    sent: Literal["call", "first_pull"] = "call"
    """When the request is sent. A generator function sends it with the first pull, whatever this says."""
    bind: Callable[[Driver, Any, Any], Any] | None = None
    """Ties the recording to what the call returned, and returns what the caller gets; None: by the default way.

    It gets the driver, what was returned, and the recorder: the `OpenCall`, where `sent` is "first_pull"."""
    has_inner_layer: bool = False
    """The call may go through another hooked SDK, which takes over the recording then."""

    def wrap(self, driver: Driver, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """Call the SDK's function, and record what it returns where the call streams."""
        opening = driver.describe(self, Call(wrapped, instance, args, kwargs))
        if opening is None:
            return wrapped(*args, **kwargs)
        call_sdk = partial(wrapped, *args, **kwargs)
        flags = getattr(getattr(wrapped, "__code__", None), "co_flags", 0)
        is_lazy = self.sent == "first_pull" or flags & _GENERATORS
        if flags & inspect.CO_COROUTINE and not is_lazy:
            return self._begin_and_await(driver, opening, call_sdk)
        if not is_lazy and not opening.begin():
            return call_sdk()
        result = call_sdk() if is_lazy else opening.call(call_sdk)
        if inspect.iscoroutine(result):  # of a plain function: the request, or what sends it, is made there
            making = [result].pop  # which calls no function of ours
            return self._await(driver, opening, making if is_lazy else partial(opening.acall, making))
        bound = driver.bind(self, opening, result)
        return result if bound is None else bound

    async def _begin_and_await(self, driver: Driver, opening: OpenCall, call_sdk: Callable[[], Awaitable[Any]]) -> Any:
        """Await a coroutine function that sends its request at once, and record the stream that it returns."""
        is_measured = opening.begin()
        return await (self._await(driver, opening, partial(opening.acall, call_sdk)) if is_measured else call_sdk())

    async def _await(self, driver: Driver, opening: OpenCall, make: Callable[[], Awaitable[Any]]) -> Any:
        """Await what the call returns, and record it."""
        result = await make()
        bound = driver.bind(self, opening, result)
        return result if bound is None else bound


@dataclass(frozen=True, slots=True)
class HTTPAttempt(Hook):
    """A function that sends the HTTP request of a streaming call, once for each attempt.

    Where an SDK has one, its streams have the number of attempts and the moment of the headers, and can be aborted.
    """

    response_of: Callable[[Any], Any]
    """Returns the HTTP response in what the function returned."""

    def wrap(self, driver: Driver, wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        """Send the request, and follow its response where the stream of the call is recorded."""
        recorder = driver.begin_attempt()
        result = wrapped(*args, **kwargs)
        if recorder is None:
            return result
        if inspect.iscoroutine(result):
            return self._await_attempt(driver, recorder, result)
        driver.follow_response(self, recorder, result)
        return result

    async def _await_attempt(self, driver: Driver, recorder: StreamRecorder, sending: Awaitable[Any]) -> Any:
        """Await an HTTP attempt, and follow its response."""
        result = await sending
        driver.follow_response(self, recorder, result)
        return result


@dataclass(frozen=True, slots=True)
class ResultHook(Hook):
    """A function whose results are looked at."""

    follow: Callable[[Driver, Call, Any], Any]
    """Gets the call and what it returned; returns what the caller gets instead, None: what was returned."""
    where: str = Where.RESPONSE_FOLLOW
    """The identifier that a failure of `follow` is counted under."""

    def wrap(self, driver: Driver, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """Call the SDK's function, and look at what it returns."""
        result = wrapped(*args, **kwargs)
        try:
            found = self.follow(driver, Call(wrapped, instance, args, kwargs), result)
        except Exception as error:  # noqa: BLE001 - the guard
            driver.errors.report(self.where, error)
            return result
        return result if found is None else found


@dataclass(frozen=True, slots=True)
class Around(Hook):
    """A function that is called by a wrapper of its own, which guards what it adds."""

    wrapper: Callable[[Driver, Any, Any, Any, Any], Any]
    """Gets the driver, the function, its instance, and its positional and keyword arguments."""

    def wrap(self, driver: Driver, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """Call the wrapper."""
        return self.wrapper(driver, wrapped, instance, args, kwargs)


class Driver:
    """What the hooks of all SDKs share.

    Args:
        opener: opens the recordings.
    """

    def __init__(self, opener: RecordingOpener) -> None:
        self._opener = opener
        self.read_clocks, self.errors = opener.read_clocks, opener.errors
        """Where failures of our own are reported."""
        self.response_recorders = ResponseRecorders()
        """The recorders of streams that are read from an HTTP response, or (of Bedrock) from an event stream."""
        self.stream_twins: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        """Event stream → a second stream object over the same response, which its recorded loops read."""
        self.followers: set[ref[Any]] = set()
        """What follows connections over WebSockets."""

    def forget_after_fork(self) -> None:
        """Leave the connections to the parent, which reads them: their functions are their own again here."""
        for reference in list(self.followers):
            follower = reference()
            if follower is not None:
                follower.restore()
        self.followers.clear()

    def connection_log(self, request: Request) -> EmitEvent | None:
        """Return what emits events about a connection that carries several requests; None: nothing is measured now."""
        return self._opener.connection_log(request)

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

    @never_raises(Where.STREAM_OPEN, None)
    def describe(self, streaming: StreamingCall, call: Call) -> OpenCall | None:
        """Describe a call; returns None where it streams nothing that is to be measured."""
        description = streaming.describe(call)
        return None if description is None else self.prepare(description, has_inner_layer=streaming.has_inner_layer)

    def prepare(self, description: Description, *, has_inner_layer: bool) -> OpenCall:
        """Make what opens the recording of a call, with the session that the request belongs to."""
        request, body = description.request, description.body
        named, session_from = request.session_id, self._opener.session_from
        if session_from is not None and named is None:
            try:
                named = short_str(session_from(body, description.read_headers()))
            except Exception as error:  # noqa: BLE001 - the application's function
                self.errors.report(Where.CALLBACK_SESSION_FROM, error)
        session_id = find_session(named, body)
        if session_id != request.session_id:
            description = description._replace(request=replace(request, session_id=session_id))
        return OpenCall(description, self._opener, has_inner_layer=has_inner_layer)

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def bind(self, streaming: StreamingCall, opening: OpenCall, result: Any) -> Any:
        """Tie the recording to what a call returned; returns what the caller gets, None where that is `result`."""
        if not opening.has_begun:
            tie = streaming.bind if streaming.sent == "first_pull" else None  # else it was a generator that sends
            return (tie or bind_lazily)(self, result, opening)
        recorder = opening.release()
        return None if recorder is None else (streaming.bind or bind_stream)(self, result, recorder)

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def begin_attempt(self) -> StreamRecorder | None:
        """Count an HTTP attempt of the call that is being sent here; returns its recorder, None where there is none."""
        recorder = current_recorder()
        if recorder is not None:
            recorder.count_attempt()
        return recorder

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def follow_response(self, attempt: HTTPAttempt, recorder: StreamRecorder, result: Any) -> None:
        """Record that the headers of an attempt are there, and how its stream is aborted."""
        recorder.record_headers(None)
        enable_abort(recorder, attempt.response_of(result))


def iterate_recorded(source: Any, recorder: Any) -> Any:
    """Return what the caller iterates over instead of `source`: a generator for a generator, else a proxy."""
    if inspect.isgenerator(source):
        return record_iterator(source, recorder)
    if inspect.isasyncgen(source):
        return record_async_iterator(source, recorder)
    return proxy_stream(source, recorder)


def bind_stream(_: Driver, result: Any, recorder: StreamRecorder) -> Any:
    """Record the stream that a call returned: the default way."""
    recorder.record_headers(None)
    if not hasattr(result, "__iter__") and not hasattr(result, "__aiter__"):
        recorder.end_exhausted()
        return result
    return iterate_recorded(result, recorder)


def bind_to_response(driver: Driver, result: Any, recorder: StreamRecorder, make_error: MakeError | None = None) -> Any:
    """Have the recorder found by the HTTP response of a stream or of a raw response, which is returned as it is.

    `make_error` makes the error of an aborted stream; None: that of the HTTP client.
    """
    response = find_response(result)
    recorder.record_headers(count_attempts(response))
    recorder.add_owner(response)
    driver.response_recorders.add(response, recorder)
    enable_abort(recorder, response, make_error)
    watch_body(response, recorder)
    return result


def bind_lazily(_: Driver, result: Any, opening: OpenCall) -> Any:
    """Record a stream from its first pull on: the default way, where that sends the request."""
    return iterate_recorded(result, FirstPull(opening))
