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
    _check_name("provider", provider, "a name such as 'mistral_ai'")
    _check_name("model", model, "a name such as 'ministral-8b', or None", is_optional=True)
    _check_name("operation", operation, "a name such as 'chat'")
    _check_name("server_address", server_address, "the name of a host, or None", is_optional=True)
    if server_port is not None and (isinstance(server_port, bool) or not isinstance(server_port, int)):
        raise ValueError(_refusal("server_port", server_port, "it takes a number, or None."))
    if classify is not None:
        try:
            check_callback(classify, "the chunk")
        except NotAcceptedError as error:
            reason = error.describe("a function of one chunk that returns flags of otel_itl.Kind, which is not async")
            raise ValueError(_refusal("classify", classify, reason)) from None
    request = Request(
        operation=operation, provider=provider, model=model, server_address=server_address, server_port=server_port
    )
    try:
        if _is_recorded(stream):
            return stream
        if runtime.config is None and not runtime.was_stopped:
            runtime.start(load({}, sdk_names=SDK_NAMES), Providers())
        opening = runtime.installer.driver.begin(Description(request, _make_classify(classify)))
        recorder = None if opening is None else opening.release()
        if recorder is None:
            return stream
        recorder.record_headers(None)
        return proxy_stream(stream, recorder)
    except Exception as error:  # noqa: BLE001 - the guard
        runtime.errors.report(Where.STREAM_OPEN, error)
        return stream


def _check_name(argument: str, value: object, accepted: str, *, is_optional: bool = False) -> None:
    """Raise ValueError unless the value is text with at least one character, or None where that is accepted."""
    if not (is_optional and value is None) and not (isinstance(value, str) and value):
        raise ValueError(_refusal(argument, value, f"it takes {accepted}."))


def _refusal(argument: str, value: object, reason: str) -> str:
    return f"observe({argument}={value!r}) is not accepted: {reason}"


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
