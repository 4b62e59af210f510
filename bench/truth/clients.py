"""The SDKs whose streams are compared with the truth: how to make a client of each, and how to ask it for a stream."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, NamedTuple

Wire = Literal[
    "chat", "responses", "messages", "converse", "gemini", "ollama", "cohere", "xai", "mistral", "hugging", "litellm"
]

_TEXT: Final = "Tell me a story."
_PROMPT: Final[Any] = [{"role": "user", "content": _TEXT}]
_AWS: Final = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}

MakeClient = Callable[..., Any]
"""Makes a client of the server at a URL, which is the only argument by position."""
Prepare = Callable[[Any, str], Callable[[], Any]]
"""Returns a function that asks a client for the stream of a model; what it returns may have to be awaited."""


class SDKClients(NamedTuple):
    """How one SDK is asked for streams in one wire format."""

    sdk: str
    """Name of the SDK, as `otel_itl.instrument` has it."""
    module: str
    """Module that has to be there."""
    make_client: MakeClient
    make_async_client: MakeClient
    prepare: Prepare
    prepare_async: Prepare | None = None
    """None: the same as `prepare`."""

    @property
    def missing(self) -> str:
        """Why it cannot be run; '' where it can."""
        try:
            is_there = find_spec(self.module) is not None
        except ModuleNotFoundError:  # nor is the package that it would be in
            is_there = False
        return "" if is_there else f"the module {self.module} is not installed"


def _class_of(module: str, name: str, options: Callable[[str], dict[str, Any]]) -> MakeClient:
    """Return what makes a client of this class, with the options that lead it to a URL."""
    return lambda url, **more: getattr(import_module(module), name)(**options(url), **more)


def _classes_of(module: str, names: tuple[str, str], options: Callable[[str], dict[str, Any]]) -> tuple[Any, Any, Any]:
    """Return a module, and what makes clients of its sync and its async class."""
    make_client, make_async_client = (_class_of(module, name, options) for name in names)
    return module, make_client, make_async_client


def _aws_client(module: str, url: str) -> Any:
    return import_module(module).get_session().create_client("bedrock-runtime", endpoint_url=url, **_AWS)


def _google_client(url: str) -> Any:
    return import_module("google.genai").Client(api_key="none", http_options={"base_url": url})


def _chat(client: Any, model: str) -> Callable[[], Any]:
    # `client.chat.completions` is made on first access, which is not part of the call.
    create = client.chat.completions.create
    return partial(create, model=model, messages=_PROMPT, stream=True, stream_options={"include_usage": True})


def _responses(client: Any, model: str) -> Callable[[], Any]:
    return partial(client.responses.create, model=model, input=_TEXT, stream=True)


def _messages(client: Any, model: str) -> Callable[[], Any]:
    return partial(client.messages.create, model=model, max_tokens=1_000, messages=_PROMPT, stream=True)


def _converse_request(client: Any, model: str) -> Callable[[], Any]:
    return partial(client.converse_stream, modelId=model, messages=[{"role": "user", "content": [{"text": _TEXT}]}])


def _converse(client: Any, model: str) -> Callable[[], Any]:
    request = _converse_request(client, model)
    return lambda: request()["stream"]


def _converse_async(client: Any, model: str) -> Callable[[], Any]:
    request = _converse_request(client, model)

    async def stream() -> Any:
        return (await request())["stream"]

    return stream


def _content(client: Any, model: str) -> Callable[[], Any]:
    return partial(client.models.generate_content_stream, model=model, contents=_TEXT)


def _xai(client: Any, model: str) -> Callable[[], Any]:
    message = import_module("xai_sdk.chat").user(_TEXT)
    stream: Callable[[], Any] = client.chat.create(model=model, messages=[message]).stream
    return stream


def _litellm(function: str) -> Prepare:
    """Return what asks litellm for a stream by its route to Anthropic, for which it uses an HTTP client of its own."""

    def prepare(url: str, model: str) -> Callable[[], Any]:
        call = getattr(import_module("litellm"), function)
        return partial(call, f"anthropic/{model}", _PROMPT, api_base=url, api_key="none", stream=True)

    return prepare


_OPENAI: Final = _classes_of(
    "openai", ("OpenAI", "AsyncOpenAI"), lambda url: {"base_url": f"{url}/v1", "api_key": "none"}
)

CLIENTS: Final[Mapping[Wire, SDKClients]] = {
    "chat": SDKClients("openai", *_OPENAI, _chat),
    "responses": SDKClients("openai", *_OPENAI, _responses),
    "messages": SDKClients(
        "anthropic",
        *_classes_of("anthropic", ("Anthropic", "AsyncAnthropic"), lambda url: {"base_url": url, "api_key": "none"}),
        _messages,
    ),
    "converse": SDKClients(
        "bedrock",
        "aiobotocore.session",
        partial(_aws_client, "botocore.session"),
        partial(_aws_client, "aiobotocore.session"),
        _converse,
        _converse_async,
    ),
    "gemini": SDKClients("google-genai", "google.genai", _google_client, lambda url: _google_client(url).aio, _content),
    "ollama": SDKClients(
        "ollama",
        *_classes_of("ollama", ("Client", "AsyncClient"), lambda url: {"host": url}),
        lambda client, model: partial(client.chat, model=model, messages=_PROMPT, stream=True),
    ),
    "cohere": SDKClients(
        "cohere",
        *_classes_of("cohere", ("ClientV2", "AsyncClientV2"), lambda url: {"base_url": url, "api_key": "none"}),
        lambda client, model: partial(client.chat_stream, model=model, messages=_PROMPT),
    ),
    "xai": SDKClients(
        "xai",
        *_classes_of(
            "xai_sdk",
            ("Client", "AsyncClient"),
            lambda url: {"api_key": "none", "api_host": url.rpartition("/")[2], "use_insecure_channel": True},
        ),
        _xai,
    ),
    "mistral": SDKClients(
        "mistralai",
        *_classes_of("mistralai.client", ("Mistral", "Mistral"), lambda url: {"server_url": url, "api_key": "none"}),
        lambda client, model: partial(client.chat.stream, model=model, messages=_PROMPT),
        lambda client, model: partial(client.chat.stream_async, model=model, messages=_PROMPT),
    ),
    "hugging": SDKClients(
        "huggingface-hub",
        *_classes_of(
            "huggingface_hub",
            ("InferenceClient", "AsyncInferenceClient"),
            lambda url: {"base_url": f"{url}/v1", "api_key": "none"},
        ),
        lambda client, model: partial(client.chat_completion, _PROMPT, model=model, stream=True),
    ),
    # litellm has no client: what is made of a URL is the URL.
    "litellm": SDKClients("litellm", "litellm", str, nullcontext, _litellm("completion"), _litellm("acompletion")),
}
"""How to ask for a stream in each wire format."""


def transport_options(wire: Wire, *, http2: bool, certificate: str, is_async: bool) -> dict[str, Any]:
    """Return the options of a client of OpenAI or Anthropic for its way to the server.

    Args:
        wire: the wire format.
        http2: use HTTP/2, without negotiation where there is no TLS.
        certificate: file of the certificate to trust; '': those that the client trusts anyway.
        is_async: for the asynchronous client.
    """
    if not http2 and not certificate:
        return {}
    module = import_module(CLIENTS[wire].module)
    make = module.DefaultAsyncHttpxClient if is_async else module.DefaultHttpxClient
    verify = ssl.create_default_context(cafile=certificate) if certificate else True
    return {"http_client": make(http1=not http2, http2=http2, verify=verify)}
