"""Routes of litellm: how each is asked, and the answer that it gets from a scripted server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest
from faces import Face, settled

from otel_itl.testing import ScriptedServer, bedrock, chat, gemini, messages

if TYPE_CHECKING:
    from otel_itl.testing import Script

QUESTION: Final = [{"role": "user", "content": "hello"}]
CREDENTIALS: Final = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "aws_region_name": "us-east-1"}


@cache
def library() -> ModuleType:
    """litellm, which takes seconds to import; skips the test where it is not installed."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would load its prices from the network
    litellm = pytest.importorskip("litellm", reason="litellm is not installed")
    litellm.suppress_debug_info = True  # it would print advice with every failure
    litellm.telemetry = False
    return litellm


def is_newest() -> bool:
    """Whether the installed litellm is one of today, and not the oldest supported release."""
    return hasattr(library().CustomStreamWrapper, "aclose")


@dataclass(frozen=True, slots=True)
class Route:
    """One way in which litellm asks a provider."""

    name: str
    model: str
    """As the caller writes it, with litellm's name of the provider."""
    provider: str
    """`gen_ai.provider.name`."""
    wire: ModuleType
    """The module of `otel_itl.testing` that scripts the answer."""
    address: Callable[[ScriptedServer], str]
    options: dict[str, Any] = field(default_factory=lambda: {"api_key": "none"})
    address_option: str = "api_base"
    by_sdk: bool = False
    """litellm asks by the openai SDK: where that is measured as well, it records the stream."""

    def __str__(self) -> str:
        return self.name

    @property
    def asked(self) -> str:
        """The model that the request names: without the provider."""
        return self.model.partition("/")[2]

    def script(self, tokens: int = 4) -> Script:
        """A whole answer with this many tokens, 2 ms from each other."""
        made: Script = self.wire.reply(tokens, first=0.004, gaps=0.002)
        return made


def _gemini_address(server: ScriptedServer) -> str:
    # Old releases add no more than the method to it, new ones the path as well, which the server takes either way.
    return f"{server.url}/v1beta/models/m"


ANTHROPIC: Final = Route("anthropic", "anthropic/m", "anthropic", messages, lambda server: server.anthropic_url)
GEMINI: Final = Route("gemini", "gemini/m", "gcp.gemini", gemini, _gemini_address)
BEDROCK: Final = Route(
    "bedrock",
    "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0",
    "aws.bedrock",
    bedrock,
    lambda server: server.url,
    CREDENTIALS,
    "aws_bedrock_runtime_endpoint",
)
DEEPSEEK: Final = Route("deepseek", "deepseek/m", "deepseek", chat, lambda server: server.openai_url)
OPENAI: Final = Route("openai", "openai/m", "openai", chat, lambda server: server.openai_url, by_sdk=True)
AZURE: Final = Route(
    "azure",
    "azure/m",
    "azure.ai.openai",
    chat,
    lambda server: server.url,
    {"api_key": "none", "api_version": "2024-06-01"},
    by_sdk=True,
)
ROUTES: Final = (ANTHROPIC, GEMINI, BEDROCK, DEEPSEEK, OPENAI, AZURE)


class LiteLLMClient:
    """Asks one route of litellm, by `completion()` or by `acompletion()`.

    Args:
        route: the route.
        face: which of the two.
        server: the scripted server.
        timeout: seconds.
        http: the HTTP client of litellm's own make; None: of a make of litellm's choice, which it keeps.
    """

    def __init__(self, route: Route, face: Face, server: ScriptedServer, timeout: float, http: Any) -> None:
        self.face = face
        self._options = {
            "model": route.model,
            "messages": QUESTION,
            "max_tokens": 9,
            "timeout": timeout,
            "num_retries": 0,
            "max_retries": 0,
            **route.options,
            route.address_option: route.address(server),
            **({} if http is None else {"client": http}),
        }

    def completion(self, **options: Any) -> Any:
        """Ask for a stream, to be awaited of the asynchronous function."""
        call = library().acompletion if self.face == "async" else library().completion
        return call(**{**self._options, "stream": True, **options})


@asynccontextmanager
async def client_of(
    route: Route, face: Face, server: ScriptedServer, *, timeout: float = 5.0, aiohttp: bool = True
) -> AsyncIterator[LiteLLMClient]:
    """A client whose connections end with the block.

    Args:
        route: the route.
        face: `completion()` or `acompletion()`.
        server: the scripted server.
        timeout: seconds.
        aiohttp: over aiohttp, as litellm does by itself where it is asynchronous; else over httpx.
    """
    litellm = library()
    if route.by_sdk:
        yield LiteLLMClient(route, face, server, timeout, None)
        return
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler, HTTPHandler

    before, litellm.disable_aiohttp_transport = litellm.disable_aiohttp_transport, not aiohttp
    try:
        http = (AsyncHTTPHandler if face == "async" else HTTPHandler)(timeout=timeout)
        try:
            yield LiteLLMClient(route, face, server, timeout, http)
        finally:
            await settled(http.close())
    finally:
        litellm.disable_aiohttp_transport = before
