"""`observe()`: measure a stream of chunks that no SDK's hook sees."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, TypeVar, overload

from otel_itl.config import load
from otel_itl.core.chunk_code import chunk_code
from otel_itl.core.conventions import Where
from otel_itl.core.option_values import Form, NotAcceptedError, callback, check_callback
from otel_itl.core.request import Request
from otel_itl.core.stream import ResponseInfo
from otel_itl.export.providers import Providers
from otel_itl.recording.abort import CallbackAborter
from otel_itl.recording.chunk_log import Classify
from otel_itl.recording.kept_sessions import MAX_ID_LENGTH
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.stream_proxy import AsyncRecordedStream, RecordedStream, proxy_stream
from otel_itl.runtime import runtime
from otel_itl.sdks.duck_typing import classify_by_shape
from otel_itl.sdks.first_pull import FirstPull
from otel_itl.sdks.open_call import Description
from otel_itl.sdks.response_facts import ResponseFacts
from otel_itl.sdks.values import request_parameters

T = TypeVar("T")
Sent = Literal["call", "first_pull"]


@overload
def observe(
    stream: AsyncIterable[T],
    *,
    provider: str,
    model: str | None,
    operation: str = ...,
    classify: Callable[[T], int] | Callable[[T, ResponseFacts], int] | None = ...,
    server_address: str | None = ...,
    server_port: int | None = ...,
    parameters: Mapping[str, Any] | None = ...,
    session_id: str | None = ...,
    sent: Sent | None = ...,
    abort: Callable[[], object] | None = ...,
) -> AsyncIterator[T]: ...
@overload
def observe(
    stream: Iterable[T],
    *,
    provider: str,
    model: str | None,
    operation: str = ...,
    classify: Callable[[T], int] | Callable[[T, ResponseFacts], int] | None = ...,
    server_address: str | None = ...,
    server_port: int | None = ...,
    parameters: Mapping[str, Any] | None = ...,
    session_id: str | None = ...,
    sent: Sent | None = ...,
    abort: Callable[[], object] | None = ...,
) -> Iterator[T]: ...
def observe(  # noqa: PLR0913 - what describes the request
    stream: Any,
    *,
    provider: str,
    model: str | None,
    operation: str = "chat",
    classify: Callable[[Any], int] | Callable[[Any, ResponseFacts], int] | None = None,
    server_address: str | None = None,
    server_port: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    session_id: str | None = None,
    sent: Sent | None = None,
    abort: Callable[[], object] | None = None,
) -> Any:
    """Measure a stream of chunks from anywhere, as the streams of an instrumented SDK are measured.

    Call this where the request is made. Chunks pass untouched. Without `instrument()` the stream is measured all the
    same, and reported as after `instrument()`; after `uninstrument()` it is returned as it is, as is a stream that is
    recorded already.

    Args:
        stream: any iterator or asynchronous iterator, or what makes one; its other attributes stay reachable.
        provider: `gen_ai.provider.name`, such as `mistral_ai`.
        model: the model that was asked for; None: not known.
        operation: `gen_ai.operation.name`.
        classify: what a chunk carried, as flags of `otel_itl.Kind`; a function that takes two arguments also gets the
            `otel_itl.ResponseFacts` of the stream, to report token counts, ids and finish reasons. By default text that
            is not empty is an answer, chunks in the shape of a known API are read as such, and any other object is an
            answer.
        server_address: host that serves the stream.
        server_port: its port.
        parameters: those of the request, such as `max_tokens` and `temperature`, by the names of OpenAI's API: the
            request's body will do, as everything else is left out. The option `session_from` gets it.
        session_id: the session that the request belongs to; an enclosing `otel_itl.session()` comes first.
        sent: when the request is sent: with the `call` of `observe()`, or with the `first_pull` of the stream. None: a
            generator function sends it with the first pull, anything else has sent it.
        abort: ends the wait of the stream's reader, for the option `stall` with `abort_after`; returns False where it
            cannot. Called from another thread; the reader gets a `TimeoutError`.

    Raises:
        TypeError: what was given cannot be iterated over.
        ValueError: another argument is not accepted.
    """
    if not hasattr(stream, "__aiter__") and not hasattr(stream, "__iter__"):
        message = f"observe() takes an iterator or an async iterator of chunks: got {type(stream).__qualname__}."
        raise TypeError(message)
    given = locals()
    try:
        refusals = (form.find_refusal("observe", name, given[name]) for name, form in _ARGUMENTS.items())
        refusal = next(filter(None, refusals), "")
        observed = stream
        if not refusal and not _is_recorded(stream):
            body = parameters or {}
            request = Request(
                operation=operation,
                provider=provider,
                model=model,
                server_address=server_address,
                server_port=server_port,
                session_id=session_id,
                parameters=request_parameters(body),
            )
            is_lazy = _is_generator_function(stream) if sent is None else sent == "first_pull"
            description = Description(
                request,
                _make_classify(classify),
                body,
                on_open=None if abort is None else partial(_enable_abort, abort),
            )
            observed = _record(stream, description, is_lazy=is_lazy)
    except Exception as error:  # noqa: BLE001 - the guard
        runtime.errors.report(Where.STREAM_OPEN, error)
        return stream
    if refusal:
        raise ValueError(refusal)
    return observed


def _form(accepted: str, is_accepted: Callable[[Any], bool], *, is_optional: bool = True) -> Form:
    """Make the form of an argument that is taken as it is, or (`is_optional`) as None."""

    def check(given: Any) -> None:
        if not (is_optional and given is None) and not is_accepted(given):
            raise NotAcceptedError

    return Form(accepted, check)


def _is_name(given: Any) -> bool:
    return isinstance(given, str) and given != ""


def _can_be_called(given: Any, *parameters: str) -> bool:
    """Return whether a value is a function that is not async, and takes these arguments."""
    try:
        check_callback(given, *parameters)
    except NotAcceptedError:
        return False
    return True


def _check_classify(given: Any) -> None:
    if given is not None and not _can_be_called(given, "the chunk", "the response"):
        check_callback(given, "the chunk")


_ARGUMENTS: Final = {
    "provider": _form("a name such as 'mistral_ai'", _is_name, is_optional=False),
    "model": _form("a name such as 'ministral-8b', or None", _is_name),
    "operation": _form("a name such as 'chat'", _is_name, is_optional=False),
    "server_address": _form("the name of a host, or None", _is_name),
    "server_port": _form("a number, or None", lambda given: type(given) is int),
    "classify": Form(
        "a function of one chunk that returns flags of otel_itl.Kind, which is not async", _check_classify
    ),
    "parameters": _form("a mapping such as {'max_tokens': 100}, or None", lambda given: isinstance(given, Mapping)),
    "session_id": _form(
        f"a text of 1 to {MAX_ID_LENGTH} characters, or None",
        lambda given: _is_name(given) and len(given) <= MAX_ID_LENGTH,
    ),
    "sent": _form("'call', 'first_pull', or None", lambda given: given in ("call", "first_pull")),
    "abort": callback("a function without arguments, which is not async"),
}
"""Argument of `observe()` → its form."""


def _is_generator_function(stream: Any) -> bool:
    """Return whether a stream is a generator that a function made: its body has not begun when it is made.

    The iterable of a generator expression has been evaluated by then, so that the request is sent.
    """
    if not inspect.isgenerator(stream) and not inspect.isasyncgen(stream):
        return False
    code = stream.gi_code if inspect.isgenerator(stream) else stream.ag_code
    return bool(code.co_name != "<genexpr>")


def _record(stream: Any, description: Description, *, is_lazy: bool) -> Any:
    """Return a proxy that records the stream; the stream itself if it is not measured.

    Starts the runtime with the options of the environment, unless it was started or stopped before. A request that is
    sent with the first pull may go through a hooked SDK, which records it instead then.
    """
    if runtime.config is None and not runtime.was_stopped:
        runtime.start(load({}), Providers())
    opening = runtime.installer.driver.prepare(description, has_inner_layer=is_lazy)
    if is_lazy:
        return proxy_stream(stream, FirstPull(opening)) if runtime.config is not None else stream
    recorder = opening.release() if opening.begin() else None
    if recorder is None:
        return stream
    recorder.record_headers(None)
    return proxy_stream(stream, recorder)


def _enable_abort(abort: Callable[[], object], recorder: StreamRecorder) -> None:
    """Have a stream aborted by a function of the application."""
    recorder.enable_abort(CallbackAborter(abort))
    recorder.set_before_outcome(_clear_termination_if_aborted)


def _clear_termination_if_aborted(recorder: StreamRecorder) -> None:
    """Clear `is_terminated` of an aborted stream: its iterator ended because of the abort, not with the answer.

    Called before the outcome is computed.
    """
    if recorder.is_aborting:
        recorder.response.is_terminated = False


def _is_recorded(stream: Any) -> bool:
    """Return whether a stream is recorded already: by a hook of its SDK, or by `observe()`."""
    if type(stream) in {RecordedStream, AsyncRecordedStream}:
        return True
    response = getattr(stream, "response", None)
    return response is not None and runtime.installer.driver.find_recorder(response) is not None


def _make_classify(given: Callable[..., int] | None) -> Classify:
    """Make a `Classify` of the caller's function; by default chunks are classified by their shape."""
    if given is None:
        return classify_by_shape
    if _can_be_called(given, "the chunk"):

        def classify(chunk: Any, response: ResponseInfo) -> int:
            response.is_terminated = True  # where the caller's iterator ends, the stream is complete
            return int(given(chunk))

        return classify
    facts: ResponseFacts | None = None

    def classify_with_facts(chunk: Any, response: ResponseInfo) -> int:
        """Classify a chunk by the caller's function, which reports what it reveals about the response."""
        nonlocal facts
        if facts is None:
            facts = ResponseFacts(response)
        response.is_terminated = True
        kind = int(given(chunk, facts))
        return chunk_code(kind, facts.take_new_tokens(kind))

    return classify_with_facts
