"""Clients whose responses come from blocks of bytes in memory: the cheapest transport that there is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

KEYS = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}
QUESTION = [{"role": "user", "content": "hello"}]


class _Response:
    """The response under an event stream, of urllib3 and of aiohttp."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        self._blocks = blocks

    def stream(self) -> Iterator[bytes]:
        return iter(self._blocks)

    @property
    def content(self) -> _Response:
        return self

    async def iter_chunks(self) -> AsyncIterator[tuple[bytes, bool]]:
        for block in self._blocks:
            yield block, True

    def close(self) -> None:
        """Do nothing."""


def request_bedrock(operation: str, request: Any, blocks: Sequence[bytes], *, is_async: bool) -> Callable[[], Any]:
    """Return what requests a stream of botocore, or of aiobotocore."""
    session: Any = import_module("aiobotocore.session" if is_async else "botocore.session").get_session()
    requests: Any = import_module("aiobotocore.awsrequest" if is_async else "botocore.awsrequest")
    response_type: Any = requests.AioAWSResponse if is_async else requests.AWSResponse
    session.register(
        "before-send.bedrock-runtime", lambda request, **_: response_type(request.url, 200, {}, _Response(blocks))
    )

    async def read_async() -> Any:
        async with session.create_client("bedrock-runtime", **KEYS) as client:
            return aiter(_chunks_of(await getattr(client, operation)(**request)))

    if is_async:
        return read_async
    client = session.create_client("bedrock-runtime", **KEYS)
    return lambda: _chunks_of(getattr(client, operation)(**request))


def _chunks_of(response: Any) -> Any:
    return response.get("stream") or response["body"]


def _transport(http: Any, blocks: Sequence[bytes], *, is_async: bool, content_type: str = "text/event-stream") -> Any:
    """Return a transport of httpx, or of httpx2, whose every response has these blocks."""

    async def stream() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block

    def answer(_: Any) -> Any:
        content = stream() if is_async else iter(blocks)
        return http.Response(200, headers={"content-type": content_type}, content=content)

    return http.MockTransport(answer)


def _http_client(http: Any, blocks: Sequence[bytes], *, is_async: bool) -> Any:
    """Return a client of httpx, or of httpx2, whose every response has these blocks."""
    return (http.AsyncClient if is_async else http.Client)(transport=_transport(http, blocks, is_async=is_async))


def request_google(blocks: Sequence[bytes], *, is_async: bool) -> Callable[[], Any]:
    """Return what requests a stream of google-genai."""
    module: Any = import_module("google.genai._api_client")
    http: Any = getattr(module, "httpx2", None) or module.httpx
    arguments = {"transport": _transport(http, blocks, is_async=is_async)}
    options = {"client_args": arguments, "async_client_args": arguments}
    # A client closes its connections when it is dropped.
    client = import_module("google.genai").Client(api_key="none", http_options=options)
    models = (client.aio if is_async else client).models
    return lambda: models.generate_content_stream(model="m", contents="hello") if client else None


def request_ollama(blocks: Sequence[bytes], *, is_async: bool) -> Callable[[], Any]:
    """Return what requests a stream of ollama."""
    transport = _transport(import_module("httpx"), blocks, is_async=is_async)
    client = getattr(import_module("ollama"), "AsyncClient" if is_async else "Client")(transport=transport)
    return partial(client.chat, model="m", messages=QUESTION, stream=True)


def request_cohere(name: str, request: Any, blocks: Sequence[bytes], *, is_async: bool) -> Callable[[], Any]:
    """Return what requests a stream of one of cohere's clients."""
    http_client = _http_client(import_module("httpx"), blocks, is_async=is_async)
    make = getattr(import_module("cohere"), f"Async{name}" if is_async else name)
    return partial(make(httpx_client=http_client, api_key="none").chat_stream, **request)


def request_mistral(blocks: Sequence[bytes], *, is_async: bool) -> Callable[[], Any]:
    """Return what requests a stream of mistralai."""
    http_client = _http_client(import_module("mistralai.client.sdk").httpx, blocks, is_async=is_async)
    options = {"async_client" if is_async else "client": http_client}
    client = import_module("mistralai.client").Mistral(api_key="none", **options)
    stream = client.chat.stream_async if is_async else client.chat.stream
    return partial(stream, model="m", messages=QUESTION)


def request_hugging_face(blocks: Sequence[bytes], *, is_async: bool) -> Callable[[], Any]:
    """Return what requests a stream of huggingface_hub."""
    sdk: Any = import_module("huggingface_hub")
    make_http_client = partial(_http_client, import_module("httpx2"), blocks, is_async=is_async)
    # The SDK's clients share one HTTP client, or (async) make one for each of themselves.
    (sdk.set_async_client_factory if is_async else sdk.set_client_factory)(make_http_client)
    make = sdk.AsyncInferenceClient if is_async else sdk.InferenceClient
    kept: list[Any] = []  # a client that is dropped closes its streams

    def request() -> Any:
        kept[:] = [make(base_url="http://127.0.0.1/v1", api_key="none")]
        return kept[0].chat_completion(QUESTION, model="m", stream=True)

    return request


def request_xai(blocks: Sequence[bytes], *, is_async: bool) -> Callable[[], Any]:
    """Return what requests a stream of the xai-sdk, from messages that are decoded already: gRPC is not measured."""
    decode: Any = import_module("xai_sdk.proto").chat_pb2.GetChatCompletionChunk.FromString
    messages = [decode(block[5:]) for block in blocks]
    interceptors: Any = import_module("xai_sdk.interceptors")
    details = SimpleNamespace(method="/xai_api.Chat/GetCompletionChunk", metadata=(), _replace=lambda **_: details)

    async def call_later(*_: Any) -> Any:
        return _AsyncCall(messages)

    if is_async:
        interceptor, continuation = interceptors.UnaryStreamTimeoutAioInterceptor(5.0), call_later
    else:
        interceptor, continuation = interceptors.TimeoutInterceptor(5.0), lambda *_: _Call(messages)

    def call(request: Any) -> Any:
        called = interceptor.intercept_unary_stream(continuation, details, request)
        return _await_call(called) if is_async else called

    question = import_module("xai_sdk.chat").user("hello")
    make = import_module("xai_sdk.aio.chat" if is_async else "xai_sdk.sync.chat").Chat
    stub = SimpleNamespace(GetCompletionChunk=call)
    return lambda: make(stub, None, batch_request_id=None, model="m", messages=[question]).stream()


async def _await_call(called: Any) -> AsyncIterator[Any]:
    """Do what gRPC's `InterceptedUnaryStreamCall` does: hand on the messages of the call that is awaited."""
    async for message in await called:
        yield message


class _Call:
    """A call of gRPC, as far as it is used here."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._next = iter(messages).__next__

    def done(self) -> bool:
        """Return False."""
        return False

    def __iter__(self) -> _Call:
        return self

    def __next__(self) -> Any:
        return self._next()


class _AsyncCall:
    """A call of gRPC's asynchronous client, as far as it is used here."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._messages = messages

    def done(self) -> bool:
        """Return False."""
        return False

    async def __aiter__(self) -> AsyncIterator[Any]:
        for message in self._messages:
            yield message
