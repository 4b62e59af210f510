"""Frameworks on top of the openai SDK, and what a row of the table is: how each streams, from a server of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

HELLO: Final = "hello"


@dataclass(frozen=True)
class Framework:
    """One framework, and a way to stream with it.

    `ask` streams from the server at a base URL and returns what its caller gets.
    """

    package: str
    module: str
    call: str
    """How the documentation names the way."""
    ask: Callable[[str], Any]
    sdk: str = "openai"
    """Name of the SDK that it uses, as in `otel_itl.sdks.registry`."""

    def __str__(self) -> str:
        return f"{self.package}: {self.call}"


def _run(coroutine: Any) -> Any:
    import asyncio

    return asyncio.run(coroutine)


# --- LangChain ------------------------------------------------------------------------------------------------------


def _langchain_model(url: str, **options: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(base_url=url, api_key="none", max_retries=0, **{"model": "gpt-4o", **options})


def _langchain_chunk(chunk: Any) -> Any:
    # Beside the content there is an id of the run, which is new each time.
    return [type(chunk).__name__, chunk.content, chunk.response_metadata, chunk.usage_metadata]


def langchain(url: str) -> Any:
    return [_langchain_chunk(chunk) for chunk in _langchain_model(url).stream(HELLO)]


def langchain_async(url: str) -> Any:
    async def ask() -> Any:
        return [_langchain_chunk(chunk) async for chunk in _langchain_model(url).astream(HELLO)]

    return _run(ask())


def langchain_responses(url: str) -> Any:
    model = _langchain_model(url, model="gpt-5", use_responses_api=True)
    return [[type(chunk).__name__, chunk.content, chunk.usage_metadata] for chunk in model.stream(HELLO)]


# --- OpenAI Agents --------------------------------------------------------------------------------------------------


def _agents(url: str, model: Callable[[Any], Any]) -> Any:
    from agents import Agent, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(disabled=True)  # it would send its traces to OpenAI

    async def ask() -> Any:
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            run = Runner.run_streamed(Agent(name="echo", model=model(client)), HELLO)
            events = [[event.type, getattr(event, "data", None)] async for event in run.stream_events()]
            return [run.final_output, [event for event in events if event[0] == "raw_response_event"]]

    return _run(ask())


def agents_chat(url: str) -> Any:
    from agents import OpenAIChatCompletionsModel

    final, events = _agents(url, lambda client: OpenAIChatCompletionsModel("gpt-4o", client))
    return [final, [event.type for _, event in events]]


def agents_responses(url: str) -> Any:
    from agents import OpenAIResponsesModel

    return _agents(url, lambda client: OpenAIResponsesModel("gpt-5", client))


def agents_websocket(url: str) -> Any:
    from agents import OpenAIResponsesWSModel

    return _agents(url, lambda client: OpenAIResponsesWSModel("gpt-5", client))


# --- pydantic-ai ----------------------------------------------------------------------------------------------------


def _pydantic_ai(url: str, instrument: Any = None) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def ask() -> Any:
        model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=url, api_key="none"))
        agent = Agent(model)
        agent.instrument = instrument
        async with agent.run_stream(HELLO) as result:
            texts = [text async for text in result.stream_text(delta=True, debounce_by=None)]
            return [texts, str(result.usage)]

    return _run(ask())


def pydantic_ai(url: str) -> Any:
    return _pydantic_ai(url)


# --- instructor -----------------------------------------------------------------------------------------------------


def instructor(url: str) -> Any:
    import instructor as patching
    import openai
    from pydantic import BaseModel

    class ResponseInfo(BaseModel):
        name: str | None = None
        age: int | None = None

    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        partials = patching.from_openai(client).chat.completions.create_partial(
            model="gpt-4o-tools", response_model=ResponseInfo, messages=[{"role": "user", "content": HELLO}]
        )
        return [[partial.name, partial.age] for partial in partials]


# --- LiteLLM --------------------------------------------------------------------------------------------------------


def _litellm() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would load its prices from the network
    import litellm as library

    library.telemetry = False
    return library


def _litellm_asked(url: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": HELLO}]
    return {"model": "openai/gpt-4o", "api_base": url, "api_key": "none", "messages": messages, "stream": True}


def litellm(url: str) -> Any:
    return [chunk.choices[0].delta.content for chunk in _litellm().completion(**_litellm_asked(url))]


def litellm_async(url: str) -> Any:
    async def ask() -> Any:
        stream = await _litellm().acompletion(**_litellm_asked(url))
        return [chunk.choices[0].delta.content async for chunk in stream]

    return _run(ask())


# --- LlamaIndex -----------------------------------------------------------------------------------------------------


def llama_index(url: str) -> Any:
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai import OpenAI

    model = OpenAI(model="gpt-4o", api_base=url, api_key="none", max_retries=0)
    return [[part.delta, part.message.content] for part in model.stream_chat([ChatMessage(role="user", content=HELLO)])]


FRAMEWORKS: Final = (
    Framework("langchain-openai", "langchain_openai", "`ChatOpenAI.stream()`", langchain),
    Framework("langchain-openai", "langchain_openai", "`ChatOpenAI.astream()`", langchain_async),
    Framework("langchain-openai", "langchain_openai", "`ChatOpenAI.stream()`, Responses API", langchain_responses),
    Framework("openai-agents", "agents", "`Runner.run_streamed()`, chat completions", agents_chat),
    Framework("openai-agents", "agents", "`Runner.run_streamed()`, Responses API", agents_responses),
    Framework("openai-agents", "agents", "`Runner.run_streamed()`, Responses over WebSockets", agents_websocket),
    Framework("pydantic-ai-slim", "pydantic_ai", "`Agent.run_stream()`", pydantic_ai),
    Framework("instructor", "instructor", "`create_partial()`", instructor),
    Framework("litellm", "litellm", "`completion(stream=True)`", litellm),
    Framework("litellm", "litellm", "`acompletion(stream=True)`", litellm_async),
    Framework("llama-index-llms-openai", "llama_index.llms.openai", "`OpenAI.stream_chat()`", llama_index),
)
