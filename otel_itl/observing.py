"""`observe()`: measure a stream of chunks that no SDK's hook sees."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TypeVar, overload

from otel_itl.config import load
from otel_itl.conventions import Where
from otel_itl.core.request import Request
from otel_itl.core.stream import ResponseInfo
from otel_itl.export.providers import Providers
from otel_itl.option_values import NotAcceptedError, check_callback
from otel_itl.recording.chunk_log import Classify
from otel_itl.recording.stream_proxy import AsyncRecordedStream, RecordedStream, proxy_stream
from otel_itl.runtime import runtime
from otel_itl.sdks.driver import Description
from otel_itl.sdks.duck_typing import classify_by_shape
from otel_itl.sdks.registry import SDK_NAMES

T = TypeVar("T")


@overload
def observe(
    stream: AsyncIterable[T],
    *,
    provider: str,
    model: str | None,
    operation: str = ...,
    classify: Callable[[T], int] | None = ...,
    server_address: str | None = ...,
    server_port: int | None = ...,
) -> AsyncIterator[T]: ...
@overload
def observe(
    stream: Iterable[T],
    *,
    provider: str,
    model: str | None,
    operation: str = ...,
    classify: Callable[[T], int] | None = ...,
    server_address: str | None = ...,
    server_port: int | None = ...,
) -> Iterator[T]: ...
def observe(  # noqa: PLR0913 - what describes the request
    stream: Any,
    *,
    provider: str,
    model: str | None,
    operation: str = "chat",
    classify: Callable[[Any], int] | None = None,
    server_address: str | None = None,
    server_port: int | None = None,
) -> Any:
    """Measure a stream of chunks from anywhere, as the streams of an instrumented SDK are measured.

    The request counts as made now, so call this where the request is made. Chunks pass untouched. Without
    `instrument()` the stream is measured all the same, and where the application has set no provider, that sets up the
    OpenTelemetry SDK; after `uninstrument()` it is returned as it is, as is a stream that is recorded already.

    Args:
        stream: any iterator or asynchronous iterator, or what makes one; its other attributes stay reachable.
        provider: `gen_ai.provider.name`, such as `mistral_ai`.
        model: the model that was asked for; None: not known.
        operation: `gen_ai.operation.name`.
        classify: what a chunk carried, as flags of `otel_itl.Kind`. By default text that is not empty is an answer,
            chunks in the shape of a known API are read as such, and any other object is an answer.
        server_address: host that serves the stream.
        server_port: its port.

    Raises:
        TypeError: what was given cannot be iterated over.
        ValueError: another argument is not accepted.
    """
    if not hasattr(stream, "__aiter__") and not hasattr(stream, "__iter__"):
        message = f"observe() takes an iterator or an async iterator of chunks: got {type(stream).__qualname__}."
        raise TypeError(message)
    request = Request(
        operation=operation, provider=provider, model=model, server_address=server_address, server_port=server_port
    )
    try:
        refusal = _find_refusal(request, classify)
        observed = stream if refusal or _is_recorded(stream) else _record(stream, request, classify)
    except Exception as error:  # noqa: BLE001 - the guard
        runtime.errors.report(Where.STREAM_OPEN, error)
        return stream
    if refusal:
        raise ValueError(refusal)
    return observed


def _find_refusal(request: Request, classify: object) -> str:
    """Return which argument is not accepted and why, in one sentence; empty where all are."""
    reason = ""
    if classify is not None:
        try:
            check_callback(classify, "the chunk")
        except NotAcceptedError as error:
            reason = error.describe("a function of one chunk that returns flags of otel_itl.Kind, which is not async")
    port: object = request.server_port
    checks: tuple[tuple[str, object, bool, str], ...] = (
        ("provider", request.provider, _is_name(request.provider), "it takes a name such as 'mistral_ai'."),
        ("model", request.model, _is_name(request.model, None), "it takes a name such as 'ministral-8b', or None."),
        ("operation", request.operation, _is_name(request.operation), "it takes a name such as 'chat'."),
        (
            *("server_address", request.server_address, _is_name(request.server_address, None)),
            "it takes the name of a host, or None.",
        ),
        ("server_port", port, port is None or type(port) is int, "it takes a number, or None."),
        ("classify", classify, not reason, reason),
    )
    refused = next(((name, value, why) for name, value, is_accepted, why in checks if not is_accepted), None)
    return "" if refused is None else f"observe({refused[0]}={refused[1]!r}) is not accepted: {refused[2]}"


def _is_name(value: object, *others: object) -> bool:
    """Return whether a value is text with at least one character, or one of the others."""
    return (isinstance(value, str) and bool(value)) or value in others


def _record(stream: Any, request: Request, classify: Callable[[Any], int] | None) -> Any:
    """Open the recording of a request, and return what records its stream; where it is not measured, the stream."""
    if runtime.config is None and not runtime.was_stopped:
        runtime.start(load({}, sdk_names=SDK_NAMES), Providers())
    opening = runtime.installer.driver.begin(Description(request, _make_classify(classify)))
    recorder = None if opening is None else opening.release()
    if recorder is None:
        return stream
    recorder.record_headers(None)
    return proxy_stream(stream, recorder)


def _is_recorded(stream: Any) -> bool:
    """Return whether a stream is recorded already: by a hook of its SDK, or by `observe()`."""
    if type(stream) in {RecordedStream, AsyncRecordedStream}:
        return True
    response = getattr(stream, "response", None)
    return response is not None and runtime.installer.driver.find_recorder(response) is not None


def _make_classify(given: Callable[[Any], int] | None) -> Classify:
    """Make a `Classify` of the caller's function; by default chunks are classified by their shape."""
    if given is None:
        return classify_by_shape

    def classify(chunk: Any, response: ResponseInfo) -> int:
        response.is_terminated = True  # where the caller's iterator ends, the stream is complete
        return int(given(chunk))

    return classify
