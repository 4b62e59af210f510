"""Asks the endpoint through the SDKs' own clients: one attempt a request, and no redirect."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.prompts import Prompt

MAX_IDLE_CONNECTIONS: Final = 1_000
"""Connections that are kept for the next request. The number of open ones has no limit: that would be a queue."""
MAX_CONNECT_SECONDS: Final = 10.0
MAX_SILENT_SECONDS: Final = 600.0
"""A request that gets no byte for so long has failed."""
_OWN_DOMAIN: Final = "openai.com"

_OUTPUTS: Final = ("content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call", "audio")

OnToken = Callable[[], None]
"""Called with the first piece of the answer."""


class Client:
    """Sends requests to one endpoint: chat completions of an OpenAI-compatible one, or Anthropic's messages.

    Raises:
        CommandError: the SDK is not installed, there is no key, or the base URL is none.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._model, self._endpoint = endpoint.model, endpoint
        is_openai = endpoint.sdk == "openai"
        try:
            sdk = import_module(endpoint.sdk)
        except ImportError as error:
            raise CommandError(f"{endpoint.sdk} is not installed: pip install 'otel-itl[sweep]'.") from error
        make = sdk.AsyncOpenAI if is_openai else sdk.AsyncAnthropic
        # Untyped: the arguments are the user's, for whatever release is installed.
        self._client: Any = make(**_client_options(sdk, endpoint))
        # Here, for it imports a lot: in the first request it would block the event loop for a second.
        self._create: Any = (self._client.chat.completions if is_openai else self._client.messages).create
        self._has_output = _has_chat_output if is_openai else lambda event: event.type == "content_block_delta"
        self._options: dict[str, Any] = {"stream_options": {"include_usage": True}} if is_openai else {}
        # Other services than OpenAI's own know the older name only, which OpenAI's newer models refuse.
        is_own = is_openai and endpoint.host.endswith(_OWN_DOMAIN)
        self._max_tokens = "max_completion_tokens" if is_own else "max_tokens"

    async def ask(self, prompt: Prompt, on_token: OnToken) -> None:
        """Send a request and read its stream to the end.

        Raises:
            Exception: the SDK's own, of any failure.
        """
        arguments = {"model": self._model, self._max_tokens: prompt.max_tokens}
        required = {"messages": prompt.messages, "stream": True, **self._options}
        given = {**arguments, **prompt.arguments, **required, **self._extend(prompt)}
        stream = await self._create(**given)
        is_begun = False
        async with stream:
            async for chunk in stream:
                if not is_begun and self._has_output(chunk):
                    is_begun = True
                    on_token()

    def _extend(self, prompt: Prompt) -> dict[str, Any]:
        """Return what is added to the headers and the body of a request; what its prompt adds itself goes first."""
        exact = {"ignore_eos": True, "min_tokens": prompt.max_output_tokens} if self._endpoint.is_exact else {}
        added = {
            "extra_headers": {**self._endpoint.headers, **(prompt.arguments.get("extra_headers") or {})},
            "extra_body": {**exact, **self._endpoint.body, **(prompt.arguments.get("extra_body") or {})},
        }
        return {name: value for name, value in added.items() if value}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _client_options(sdk: Any, endpoint: Endpoint) -> dict[str, Any]:
    """Return the arguments of an SDK's client: one attempt, no redirect, as many connections as there are streams."""
    # A small server, such as llama.cpp's, closes a connection while the next request is sent on it. SDKs hide that by a
    # second attempt. On this machine a new connection costs nothing.
    idle = 0 if endpoint.is_loopback else MAX_IDLE_CONNECTIONS
    # The classes of the SDK's own defaults: which HTTP client an SDK uses differs between its releases.
    limits = type(sdk.DEFAULT_CONNECTION_LIMITS)(max_connections=None, max_keepalive_connections=idle)
    timeout = type(sdk.DEFAULT_TIMEOUT)(MAX_SILENT_SECONDS, connect=MAX_CONNECT_SECONDS)
    return {
        "api_key": endpoint.find_key(),
        "base_url": endpoint.base_url,
        "max_retries": 0,
        "timeout": timeout,
        "http_client": sdk.DefaultAsyncHttpxClient(follow_redirects=False, limits=limits, timeout=timeout),
    }


def _has_chat_output(chunk: Any) -> bool:
    """Return whether a chunk carries a piece of the answer, of the reasoning before it, or of a tool call."""
    return bool(chunk.choices) and any(getattr(chunk.choices[0].delta, name, None) for name in _OUTPUTS)
