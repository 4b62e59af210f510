"""Clients of xai-sdk over calls in memory, which pass the SDK's own interceptor as those over a channel do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from clients import sdk_of
from surfaces import XAI

if TYPE_CHECKING:
    from faces import Face
    from wires import Line

_METHOD: Final = "/xai_api.Chat/GetCompletionChunk"
_PREFIX_BYTES: Final = 5


def client_on(line: Line, face: Face) -> Any:
    """A context manager of a client at the near end of `line`."""
    sdk_of(XAI)
    module = import_module(f"xai_sdk.{'aio' if face == 'async' else 'sync'}.chat")
    return nullcontext(SimpleNamespace(chat=module.Client(_Channel(line, face)), _api_channel=None))


class _Channel:
    """Makes calls, as a channel of gRPC with the SDK's interceptors."""

    def __init__(self, line: Line, face: Face) -> None:
        interceptors = import_module("xai_sdk.interceptors")
        kind = "UnaryStreamTimeoutAioInterceptor" if face == "async" else "TimeoutInterceptor"
        self._interceptor = getattr(interceptors, kind)(5.0)
        self._line = line
        self._is_async = face == "async"

    def unary_unary(self, *_: Any, **__: Any) -> Any:
        return None

    def unary_stream(self, _: str, *, request_serializer: Any, response_deserializer: Any, **__: Any) -> Any:
        def call(request: Any) -> Any:
            self._line.take(request_serializer(request))
            kind = _AsyncCall if self._is_async else _Call
            return kind(self._line, response_deserializer)

        async def call_async(request: Any) -> Any:
            return call(request)

        async def responses(request: Any) -> AsyncIterator[Any]:
            made = await self._interceptor.intercept_unary_stream(lambda _, sent: call_async(sent), _details(), request)
            async for response in made:
                yield response

        if self._is_async:
            return responses
        return lambda request: self._interceptor.intercept_unary_stream(lambda _, sent: call(sent), _details(), request)


def _details() -> Any:
    grpc_interceptor = import_module("grpc._interceptor")
    return grpc_interceptor._ClientCallDetails(_METHOD, None, (), None, None, None)


class _Call:
    """One call whose responses come in the pieces of a line."""

    def __init__(self, line: Line, deserialize: Any) -> None:
        self._line = line
        self._deserialize = deserialize
        self._responses = self._read()

    def done(self) -> bool:
        return False

    def cancel(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._responses)

    def _read(self) -> Iterator[Any]:
        try:
            if self._line.wire.status != 200 or self._line.wire.refused is not None:
                raise _make_error("UNAVAILABLE")
            received = b""
            for piece in self._line.wire.pieces:
                self._line.sent += 1
                received += piece
                while (end := _end_of_message(received)) <= len(received):
                    message, received = received[_PREFIX_BYTES:end], received[end:]
                    yield self._decode(message)
            if self._line.wire.fault is not None:
                raise _make_error("UNAVAILABLE")
        finally:
            self._line.closed += 1

    def _decode(self, message: bytes) -> Any:
        try:
            return self._deserialize(message)
        except Exception:
            raise _make_error("INTERNAL") from None


def _end_of_message(received: bytes) -> int:
    """Where the first message ends, which begins with its length: perhaps behind what has been received."""
    return max(_PREFIX_BYTES, _PREFIX_BYTES + int.from_bytes(received[1:_PREFIX_BYTES], "big"))


class _AsyncCall(_Call):
    """The same, of an asynchronous client."""

    async def __aiter__(self) -> AsyncIterator[Any]:
        for response in self._responses:
            await asyncio.sleep(0)  # where a task can be cancelled, and others run
            yield response


def _make_error(code: str) -> Exception:
    grpc: Any = import_module("grpc")
    metadata = grpc.aio.Metadata()
    error: Exception = grpc.aio.AioRpcError(grpc.StatusCode[code], metadata, metadata, details="in memory")
    return error
