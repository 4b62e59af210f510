"""Asks the endpoint through the SDKs' own clients: one attempt a request, and no redirect."""

# ruff: noqa: PLC0415 - an SDK is imported when it is used

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from otel_itl.tools.sweep.endpoint import Endpoint, EndpointError
from otel_itl.tools.sweep.prompts import Prompt

MAX_IDLE_CONNECTIONS: Final = 1_000
"""Connections that are kept for the next request. The number of open ones has no limit: that would be a queue."""
MAX_CONNECT_SECONDS: Final = 10.0
_OWN_DOMAIN: Final = "openai.com"

_OUTPUTS: Final = ("content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call", "audio")

OnToken = Callable[[], None]
"""Called with the first piece of the answer."""


class Client(Protocol):
    """Sends requests to one endpoint."""

    async def ask(self, prompt: Prompt, on_token: OnToken) -> None:
        """Send a request and read its stream to the end.

        Raises:
            Exception: the SDK's own, of any failure.
        """

    async def close(self) -> None:
        """Close the connections."""


class OpenAIClient:
    """Asks an OpenAI-compatible endpoint for chat completions."""

    def __init__(self, endpoint: Endpoint) -> None:
        import openai

        self._endpoint = endpoint
        # Other services than OpenAI's own know the older name only, which OpenAI's newer models refuse.
        is_own = endpoint.host.endswith(_OWN_DOMAIN)
        self._max_tokens = "max_completion_tokens" if is_own else "max_tokens"
        # Untyped: the arguments are the user's, for whatever release is installed.
        self._client: Any = openai.AsyncOpenAI(**_client_options(openai, endpoint))
        # Here, for it imports a lot: in the first request it would block the event loop for a second.
        self._completions: Any = self._client.chat.completions

    async def ask(self, prompt: Prompt, on_token: OnToken) -> None:
        """Send a request and read its stream to the end; see `Client`."""
        limit = {self._max_tokens: prompt.max_tokens}
        arguments: dict[str, Any] = {**self._endpoint.arguments, **limit, **prompt.arguments}
        stream = await self._completions.create(
            **{"model": self._endpoint.model, **arguments},
            messages=prompt.messages,
            stream=True,
            stream_options={"include_usage": True},
        )
        is_begun = False
        async with stream:
            async for chunk in stream:
                if not is_begun and chunk.choices and _has_output(chunk.choices[0].delta):
                    is_begun = True
                    on_token()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


class AnthropicClient:
    """Asks an endpoint for Anthropic's messages."""

    def __init__(self, endpoint: Endpoint) -> None:
        import anthropic

        self._endpoint = endpoint
        self._client: Any = anthropic.AsyncAnthropic(**_client_options(anthropic, endpoint))
        self._messages: Any = self._client.messages

    async def ask(self, prompt: Prompt, on_token: OnToken) -> None:
        """Send a request and read its stream to the end; see `Client`."""
        arguments: dict[str, Any] = {**self._endpoint.arguments, **prompt.arguments}
        stream = await self._messages.create(
            **{"model": self._endpoint.model, **arguments},
            max_tokens=prompt.max_tokens,
            messages=prompt.messages,
            stream=True,
        )
        is_begun = False
        async with stream:
            async for event in stream:
                if not is_begun and event.type == "content_block_delta":
                    is_begun = True
                    on_token()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def open_client(endpoint: Endpoint) -> Client:
    """Make the client of an endpoint.

    Raises:
        EndpointError: the SDK is not installed, there is no key, or the base URL is none.
    """
    try:
        return OpenAIClient(endpoint) if endpoint.sdk == "openai" else AnthropicClient(endpoint)
    except ImportError as error:
        message = f"{endpoint.sdk} is not installed: pip install 'otel-itl[sweep]'."
        raise EndpointError(message) from error


def _client_options(sdk: Any, endpoint: Endpoint) -> dict[str, Any]:
    """Return the arguments of an SDK's client: one attempt, no redirect, as many connections as there are streams."""
    # A small server, such as llama.cpp's, closes a connection while the next request is sent on it. SDKs hide that by a
    # second attempt. On this machine a new connection costs nothing.
    idle = 0 if endpoint.is_loopback else MAX_IDLE_CONNECTIONS
    # The classes of the SDK's own defaults: which HTTP client an SDK uses differs between its releases.
    limits = type(sdk.DEFAULT_CONNECTION_LIMITS)(max_connections=None, max_keepalive_connections=idle)
    timeout = type(sdk.DEFAULT_TIMEOUT)(endpoint.timeout, connect=min(endpoint.timeout, MAX_CONNECT_SECONDS))
    return {
        "api_key": endpoint.find_key(),
        "base_url": endpoint.url,
        "max_retries": 0,
        "timeout": timeout,
        "http_client": sdk.DefaultAsyncHttpxClient(follow_redirects=False, limits=limits, timeout=timeout),
    }


def _has_output(delta: Any) -> bool:
    """Return whether a chunk's delta carries a piece of the answer, of the reasoning before it, or of a tool call."""
    return any(getattr(delta, name, None) for name in _OUTPUTS)
