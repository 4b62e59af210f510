"""`observe()`: measure an iterator of chunks that no SDK's hook sees."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TypeVar, cast, overload

from wrapt import ObjectProxy

from otel_itl.core.request import Request
from otel_itl.core.stream import ResponseInfo
from otel_itl.recording.internal_errors import report_error
from otel_itl.recording.recorder import Classify, StreamRecorder
from otel_itl.recording.stream_iterators import record_async_iterator, record_iterator
from otel_itl.runtime import runtime
from otel_itl.sdks.duck_typing import classify_by_shape

T = TypeVar("T")


@overload
def observe(
    stream: AsyncIterable[T],
    *,
    provider: str,
    model: str,
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
    model: str,
    operation: str = ...,
    classify: Callable[[T], int] | None = ...,
    server_address: str | None = ...,
    server_port: int | None = ...,
) -> Iterator[T]: ...
def observe(  # noqa: PLR0913 - what names the request
    stream: Any,
    *,
    provider: str,
    model: str,
    operation: str = "chat",
    classify: Callable[[Any], int] | None = None,
    server_address: str | None = None,
    server_port: int | None = None,
) -> Any:
    """Measure a stream of chunks from anywhere, as the streams of an instrumented SDK are measured.

    The request counts as made now, so call it where the request is made. Chunks pass through untouched.

    Args:
        stream: any iterator or async iterator (or something that makes one); its other attributes stay reachable.
        provider: `gen_ai.provider.name`, such as `mistral_ai`.
        model: the model that was asked for.
        operation: `gen_ai.operation.name`.
        classify: what a chunk carried, as flags of `otel_itl.Kind`. By default text that is not empty is an answer,
            chunks in the shape of a known API are read as such, and any other object is an answer.
        server_address: host that serves the stream.
        server_port: its port.

    Raises:
        TypeError: what was given cannot be iterated over.
    """
    is_async = hasattr(stream, "__aiter__")
    if not is_async and not hasattr(stream, "__iter__"):
        message = f"observe() takes an iterator or an async iterator of chunks: got {type(stream).__qualname__}."
        raise TypeError(message)
    request = Request(
        operation=operation, provider=provider, model=model, server_address=server_address, server_port=server_port
    )
    try:
        probe = runtime.open_observed(request, _classify(classify))
        if probe is not None:
            probe.responded(None)
    except Exception as error:  # noqa: BLE001 - the fence
        report_error("opening a stream", error)
        probe = None
    if probe is None:
        return stream
    return (_AsyncObserved if is_async else _Observed)(stream, probe)


def _classify(given: Callable[[Any], int] | None) -> Classify:
    if given is None:
        return classify_by_shape

    def classify(chunk: Any, answer: ResponseInfo) -> int:
        answer.is_terminated = True
        return int(given(chunk))

    return classify


class _Observed(ObjectProxy):  # type: ignore[type-arg]  # subscripted, it would need wrapt 2
    """A stream whose iterator is timed; everything else is its own."""

    def __init__(self, stream: Any, probe: StreamRecorder) -> None:
        super().__init__(stream)
        self._self_probe = probe
        self._self_face = record_iterator(iter(stream), probe)

    def __iter__(self) -> Iterator[Any]:
        return cast("Iterator[Any]", self)

    def __next__(self) -> Any:
        return next(self._self_face)

    def __enter__(self) -> Any:
        entered = self.__wrapped__.__enter__()
        return self if entered is self.__wrapped__ else entered

    def __exit__(self, *error: object) -> Any:
        try:
            return self.__wrapped__.__exit__(*error)
        finally:
            self._self_probe.closed()

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return _closing(found, self._self_probe) if name == "close" else found


class _AsyncObserved(ObjectProxy):  # type: ignore[type-arg]  # subscripted, it would need wrapt 2
    """The async face of `_Observed`."""

    def __init__(self, stream: Any, probe: StreamRecorder) -> None:
        super().__init__(stream)
        self._self_probe = probe
        self._self_face = record_async_iterator(aiter(stream), probe)

    def __aiter__(self) -> AsyncIterator[Any]:
        return cast("AsyncIterator[Any]", self)

    async def __anext__(self) -> Any:
        return await anext(self._self_face)

    async def __aenter__(self) -> Any:
        entered = await self.__wrapped__.__aenter__()
        return self if entered is self.__wrapped__ else entered

    async def __aexit__(self, *error: object) -> Any:
        try:
            return await self.__wrapped__.__aexit__(*error)
        finally:
            self._self_probe.closed()

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return _aclosing(found, self._self_probe) if name in {"aclose", "close"} else found


def _closing(close: Callable[..., Any], probe: StreamRecorder) -> Callable[..., Any]:
    def closing(*args: Any, **kwargs: Any) -> Any:
        try:
            return close(*args, **kwargs)
        finally:
            probe.closed()

    return closing


def _aclosing(close: Callable[..., Any], probe: StreamRecorder) -> Callable[..., Any]:
    async def closing(*args: Any, **kwargs: Any) -> Any:
        try:
            return await close(*args, **kwargs)
        finally:
            probe.closed()

    return closing
