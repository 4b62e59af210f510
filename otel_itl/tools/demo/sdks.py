"""The SDKs that the demo can run: how to make a client of each, and how to request a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, closing
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, NamedTuple

Wire = Literal["chat", "messages", "gemini", "converse"]
"""A wire format: OpenAI chat completions, Anthropic messages, Google's Gemini, or Amazon Bedrock's converse."""

_CLIENT_OPTIONS: Final[Mapping[str, Any]] = {"api_key": "none", "max_retries": 0, "timeout": 30.0}
_QUESTION: Final = "Why is latency important?"
_MESSAGES: Final = ({"role": "user", "content": _QUESTION},)
_WITH_USAGE: Final[Mapping[str, Any]] = {"stream_options": {"include_usage": True}}


class DemoSDK(NamedTuple):
    """One SDK.

    Args:
        package: the distribution to install.
        module: the module with its client classes.
        sync_client: the name of its synchronous client class.
        async_client: the name of its asynchronous client class.
        wire: what its clients speak, which decides on the scripts that it gets.
        base_path: what its `base_url` has after the host.
        request_options: further arguments of its `create()`.
        client_options: further arguments of its clients.
    """

    package: str
    module: str
    sync_client: str
    async_client: str
    wire: Wire = "chat"
    base_path: str = ""
    request_options: Mapping[str, Any] = {}
    client_options: Mapping[str, Any] = {}

    @property
    def is_installed(self) -> bool:
        """Whether its module can be imported."""
        try:
            return find_spec(self.module) is not None
        except ModuleNotFoundError:  # of the package that the module is in
            return False

    def make_client(self, server_url: str, *, is_async: bool) -> Any:
        """Return a context manager of a client of the server at this URL."""
        sdk = import_module(self.module)
        http_client = sdk.DefaultAsyncHttpxClient if is_async else sdk.DefaultHttpxClient
        return getattr(sdk, self.async_client if is_async else self.sync_client)(
            base_url=server_url + self.base_path,
            http_client=http_client(verify=False, trust_env=False),  # neither TLS nor a proxy on this machine
            **_CLIENT_OPTIONS,
            **self.client_options,
        )

    def requester(self, client: Any) -> Callable[[str], Any]:
        """Return a function that requests a stream from a model: a context manager; an async client's is awaited."""
        create = client.chat.completions.create if self.wire == "chat" else client.messages.create
        return lambda model: create(model=model, messages=list(_MESSAGES), stream=True, **self.request_options)


class GoogleGenAI(DemoSDK):
    """Google's SDK, whose streams are generators."""

    def make_client(self, server_url: str, *, is_async: bool) -> Any:
        """Return a context manager of a client of the server at this URL."""
        arguments = {"verify": False, "trust_env": False}
        options = {"base_url": server_url, "client_args": arguments, "async_client_args": arguments}
        client = import_module(self.module).Client(api_key="none", http_options=options)
        return client.aio if is_async else client

    def requester(self, client: Any) -> Callable[[str], Any]:
        """Return a function that requests a stream from a model: a context manager; an async client's is awaited."""
        request = client.models.generate_content_stream

        async def request_async(model: str) -> Any:
            return aclosing(await request(model=model, contents=_QUESTION))

        return (
            request_async
            if hasattr(client, "__aenter__")
            else lambda model: closing(request(model=model, contents=_QUESTION))
        )


class Bedrock(DemoSDK):
    """Bedrock by botocore, which boto3 is made of, and by aiobotocore."""

    def make_client(self, server_url: str, *, is_async: bool) -> Any:
        """Return a context manager of a client of the server at this URL."""
        session = import_module("aiobotocore.session" if is_async else "botocore.session").get_session()
        keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "region_name": "us-east-1"}
        made = session.create_client("bedrock-runtime", endpoint_url=server_url, **keys)
        return made if is_async else closing(made)

    def requester(self, client: Any) -> Callable[[str], Any]:
        """Return a function that requests a stream from a model: a context manager; an async client's is awaited."""
        request = partial(client.converse_stream, messages=[{"role": "user", "content": [{"text": _QUESTION}]}])

        async def request_async(model: str) -> Any:
            return _closed_at_once((await request(modelId=model))["stream"])

        return (
            request_async if hasattr(client, "__aenter__") else lambda model: closing(request(modelId=model)["stream"])
        )


@asynccontextmanager
async def _closed_at_once(stream: Any) -> AsyncIterator[Any]:
    """Close a stream of aiobotocore, whose `close()` need not be awaited."""
    with closing(stream):
        yield stream


SDKS: Final[Mapping[str, DemoSDK]] = {
    "openai": DemoSDK("openai", "openai", "OpenAI", "AsyncOpenAI", base_path="/v1", request_options=_WITH_USAGE),
    "anthropic": DemoSDK(
        "anthropic", "anthropic", "Anthropic", "AsyncAnthropic", "messages", request_options={"max_tokens": 1_024}
    ),
    "groq": DemoSDK("groq", "groq", "Groq", "AsyncGroq"),
    "together": DemoSDK("together", "together", "Together", "AsyncTogether"),
    "fireworks": DemoSDK("fireworks-ai", "fireworks", "Fireworks", "AsyncFireworks"),
    "cerebras": DemoSDK(
        *("cerebras-cloud-sdk", "cerebras.cloud.sdk", "Cerebras", "AsyncCerebras"),
        request_options=_WITH_USAGE,
        client_options={"warm_tcp_connection": False},  # a request of its own, before the first
    ),
    "google-genai": GoogleGenAI("google-genai", "google.genai", "Client", "AsyncClient", "gemini"),
    "bedrock": Bedrock("boto3", "botocore", "BaseClient", "AioBaseClient", "converse"),
}
"""Name of an SDK, as in `otel_itl.sdks.registry` → how the demo runs it."""

DEFAULT_SDKS: Final = ("openai", "anthropic", "google-genai", "bedrock")
"""One for each wire format. The demo runs those that are installed."""
