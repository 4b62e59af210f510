"""Frameworks on top of other SDKs than openai's: how each streams, from a server of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from beside import CLAUDE, GEMINI, LLAMA, MISTRAL, NOVA
from frameworks import HELLO, Framework, _run

KEYS: Final = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "region_name": "us-east-1"}


def _origin(url: str) -> str:
    """The server without the path of OpenAI's API."""
    return url.removesuffix("/v1")


def _bedrock(url: str) -> Any:
    import boto3

    return boto3.client("bedrock-runtime", endpoint_url=_origin(url), **KEYS)


def _google(url: str) -> Any:
    from google import genai

    return genai.Client(api_key="none", http_options={"base_url": _origin(url)})


# --- aioboto3, with the aiobotocore that it pins --------------------------------------------------------------------


def aioboto3(url: str) -> Any:
    async def ask() -> Any:
        import aioboto3 as library

        messages = [{"role": "user", "content": [{"text": HELLO}]}]
        async with library.Session().client("bedrock-runtime", endpoint_url=_origin(url), **KEYS) as client:
            response = await client.converse_stream(modelId=NOVA, messages=messages)
            return [event async for event in response["stream"]]

    return _run(ask())


# --- LangChain ------------------------------------------------------------------------------------------------------


def _langchain_anthropic(url: str) -> Any:
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model=CLAUDE, base_url=_origin(url), api_key="none", max_retries=0)


def _langchain_google(url: str) -> Any:
    from langchain_google_genai import ChatGoogleGenerativeAI

    return ChatGoogleGenerativeAI(model=GEMINI, base_url=_origin(url), api_key="none", max_retries=0)


def _langchain_aws(url: str) -> Any:
    from langchain_aws import ChatBedrockConverse

    return ChatBedrockConverse(model=NOVA, provider="amazon", client=_bedrock(url), region_name="us-east-1")


def _langchain_ollama(url: str) -> Any:
    from langchain_ollama import ChatOllama

    return ChatOllama(model=LLAMA, base_url=_origin(url))


def langchain(make: Callable[[str], Any], url: str) -> Any:
    return [[str(chunk.content), chunk.usage_metadata] for chunk in make(url).stream(HELLO)]


def langchain_async(make: Callable[[str], Any], url: str) -> Any:
    async def ask() -> Any:
        return [[str(chunk.content), chunk.usage_metadata] async for chunk in make(url).astream(HELLO)]

    return _run(ask())


# --- pydantic-ai ----------------------------------------------------------------------------------------------------


def _pydantic_anthropic(url: str) -> Any:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return AnthropicModel(CLAUDE, provider=AnthropicProvider(api_key="none", base_url=_origin(url)))


def _pydantic_google(url: str) -> Any:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel(GEMINI, provider=GoogleProvider(client=_google(url)))


def _pydantic_bedrock(url: str) -> Any:
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    return BedrockConverseModel(NOVA, provider=BedrockProvider(bedrock_client=_bedrock(url)))


def _pydantic_mistral(url: str) -> Any:
    from mistralai.client import Mistral
    from pydantic_ai.models.mistral import MistralModel
    from pydantic_ai.providers.mistral import MistralProvider

    client = Mistral(api_key="none", server_url=_origin(url))
    return MistralModel(MISTRAL, provider=MistralProvider(mistral_client=client))


def pydantic_ai(make: Callable[[str], Any], url: str) -> Any:
    from pydantic_ai import Agent

    async def ask() -> Any:
        agent = Agent(make(url))
        async with agent.run_stream(HELLO) as result:
            texts = [text async for text in result.stream_text(delta=True, debounce_by=None)]
            return [texts, str(result.usage)]

    return _run(ask())


# --- Google's and Amazon's own agents -------------------------------------------------------------------------------


def google_adk(url: str) -> Any:
    os.environ.setdefault("GOOGLE_API_KEY", "none")
    from google.adk.agents import Agent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.models import Gemini
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    async def ask() -> Any:
        agent = Agent(name="echo", model=Gemini(model=GEMINI, base_url=_origin(url)))
        runner = InMemoryRunner(agent, app_name="app")
        await runner.session_service.create_session(app_name="app", user_id="user", session_id="session")
        events = runner.run_async(
            user_id="user",
            session_id="session",
            new_message=types.Content(role="user", parts=[types.Part(text=HELLO)]),
            run_config=RunConfig(streaming_mode=StreamingMode.SSE),
        )
        texts = [[part.text for part in event.content.parts] async for event in events if event.content]
        await runner.close()
        return texts

    return _run(ask())


def strands(url: str) -> Any:
    import boto3
    from strands import Agent
    from strands.models import BedrockModel

    session = boto3.Session(**KEYS)
    model = BedrockModel(model_id=NOVA, boto_session=session, endpoint_url=_origin(url))

    async def ask() -> Any:
        agent = Agent(model=model, callback_handler=None)
        return [event["data"] async for event in agent.stream_async(HELLO) if "data" in event]

    return _run(ask())


# --- LlamaIndex -----------------------------------------------------------------------------------------------------


def _llama_google(url: str) -> Any:
    from llama_index.llms.google_genai import GoogleGenAI

    return GoogleGenAI(
        model=GEMINI, api_key="none", context_window=1_000, max_tokens=100, http_options={"base_url": _origin(url)}
    )


def _llama_bedrock(url: str) -> Any:
    from llama_index.llms.bedrock_converse import BedrockConverse

    return BedrockConverse(model=NOVA, client=_bedrock(url), region_name="us-east-1")


def llama_index(make: Callable[[str], Any], url: str) -> Any:
    from llama_index.core.llms import ChatMessage

    return [
        [part.delta, part.message.content] for part in make(url).stream_chat([ChatMessage(role="user", content=HELLO)])
    ]


def _langchain_rows(sdk: str, package: str, name: str, make: Callable[[str], Any]) -> list[Framework]:
    return [
        Framework(package, package.replace("-", "_"), f"`{name}.{call}()`", partial(ask, make), sdk)
        for call, ask in {"stream": langchain, "astream": langchain_async}.items()
    ]


def _pydantic_row(sdk: str, name: str, make: Callable[[str], Any]) -> Framework:
    module = name.removesuffix("Model").removesuffix("Converse").lower()
    call = f"`Agent.run_stream()`, `{name}`"
    return Framework("pydantic-ai-slim", f"pydantic_ai.models.{module}", call, partial(pydantic_ai, make), sdk)


def _llama_row(sdk: str, package: str, name: str, make: Callable[[str], Any]) -> Framework:
    module = package.replace("llama-index-llms-", "llama_index.llms.").replace("-", "_")
    return Framework(package, module, f"`{name}.stream_chat()`", partial(llama_index, make), sdk)


PROVIDERS: Final = (
    Framework("aioboto3", "aioboto3", "`Session.client().converse_stream()`", aioboto3, "bedrock"),
    *_langchain_rows("anthropic", "langchain-anthropic", "ChatAnthropic", _langchain_anthropic),
    *_langchain_rows("google-genai", "langchain-google-genai", "ChatGoogleGenerativeAI", _langchain_google),
    *_langchain_rows("bedrock", "langchain-aws", "ChatBedrockConverse", _langchain_aws),
    *_langchain_rows("ollama", "langchain-ollama", "ChatOllama", _langchain_ollama),
    _pydantic_row("anthropic", "AnthropicModel", _pydantic_anthropic),
    _pydantic_row("google-genai", "GoogleModel", _pydantic_google),
    _pydantic_row("bedrock", "BedrockConverseModel", _pydantic_bedrock),
    _pydantic_row("mistralai", "MistralModel", _pydantic_mistral),
    Framework("google-adk", "google.adk", "`Runner.run_async()`, SSE", google_adk, "google-genai"),
    _llama_row("google-genai", "llama-index-llms-google-genai", "GoogleGenAI", _llama_google),
    _llama_row("bedrock", "llama-index-llms-bedrock-converse", "BedrockConverse", _llama_bedrock),
    Framework("strands-agents", "strands", "`Agent.stream_async()`, `BedrockModel`", strands, "bedrock"),
)
