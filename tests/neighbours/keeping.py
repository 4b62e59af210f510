"""Frameworks and instrumentations that keep a session in context: how an application names it, and streams in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from otel_itl.testing import bedrock, chat, gemini

HELLO: Final = "hello"


@dataclass(frozen=True)
class Keeping:
    """One way to name a session: `ask` streams one request or more, from the server at a base URL, in that session."""

    package: str
    module: str
    source: str
    """Name of the source in `otel_itl.recording.kept_sessions`; "span": the current span."""
    call: str
    """How the documentation names the way."""
    ask: Callable[[str, str, str], Any]
    """Gets the base URL, the model and the id of the session; may be async."""
    shown: Callable[[str], str | None] = str
    """Returns the session that the spans show, of the id that the application names; None: they show none."""
    models: tuple[str, str] = ("gpt-4o", "gpt-4o-mini")
    """The models of two sessions at once."""
    reply: ModuleType = chat
    """The wire format of the responses."""
    needs_global_provider: bool = False
    """Its own spans, which carry the session, are those of the global provider."""

    def __str__(self) -> str:
        return f"{self.package}: {self.call}"


def no_session(_: str) -> None:
    """Nothing is shown."""


def stream(url: str, model: str) -> None:
    """Stream with the SDK itself."""
    import openai

    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": HELLO}]
        list(client.chat.completions.create(model=model, messages=messages, stream=True))


async def astream(url: str, model: str) -> None:
    """Stream with the asynchronous client of the SDK."""
    import openai

    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": HELLO}]
        async for _ in await client.chat.completions.create(model=model, messages=messages, stream=True):
            pass


# --- LangChain, LangGraph -------------------------------------------------------------------------------------------


def _chat_model(url: str, model: str) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(base_url=url, api_key="none", max_retries=0, model=model)


def _graph(url: str, model: str, *, is_async: bool = False) -> Any:
    """Two nodes, which stream one after the other, with a checkpointer."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    chat = _chat_model(url, model)

    def call(state: Any) -> Any:
        return {"messages": ["".join(str(chunk.content) for chunk in chat.stream(state["messages"]))]}

    async def acall(state: Any) -> Any:
        return {"messages": ["".join([str(chunk.content) async for chunk in chat.astream(state["messages"])])]}

    graph = StateGraph(MessagesState)
    for name in ("first", "second"):
        graph.add_node(name, acall if is_async else call)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    return graph.compile(checkpointer=InMemorySaver())


def _thread(session: str) -> Any:
    return {"configurable": {"thread_id": session}}


ASKED: Final = {"messages": [("user", HELLO)]}


def langgraph(url: str, model: str, session: str) -> None:
    list(_graph(url, model).stream(ASKED, _thread(session), stream_mode="messages"))


async def langgraph_async(url: str, model: str, session: str) -> None:
    async for _ in _graph(url, model, is_async=True).astream(ASKED, _thread(session), stream_mode="messages"):
        pass


async def langgraph_pool(url: str, model: str, session: str) -> None:
    async for _ in _graph(url, model).astream(ASKED, _thread(session), stream_mode="messages"):
        pass


async def langchain_agent(url: str, model: str, session: str) -> None:
    from langchain.agents import create_agent
    from langgraph.checkpoint.memory import InMemorySaver

    agent = create_agent(_chat_model(url, model), tools=[], checkpointer=InMemorySaver())
    async for _ in agent.astream(ASKED, _thread(session), stream_mode="messages"):
        pass


def langchain_chain(url: str, model: str, session: str) -> None:
    from langchain_core.runnables import RunnableLambda

    chain = RunnableLambda(lambda text: [("user", text)]) | _chat_model(url, model)
    list(chain.stream(HELLO, {"metadata": {"session_id": session}}))


def langchain_direct(url: str, model: str, session: str) -> None:
    list(_chat_model(url, model).stream(HELLO, _thread(session)))


# --- OpenAI Agents --------------------------------------------------------------------------------------------------


def _official(url: str) -> Any:
    """A client of OpenAI's own address, whose requests go to the server."""
    import openai

    base = openai.DefaultAsyncHttpxClient.__mro__[1]
    library = __import__(base.__module__.partition(".")[0])

    class Transport(library.AsyncHTTPTransport):  # type: ignore[name-defined, misc]
        async def handle_async_request(self, request: Any) -> Any:
            request.url = library.URL(url + request.url.path.removeprefix("/v1"))
            return await super().handle_async_request(request)

    return openai.AsyncOpenAI(
        api_key="none", max_retries=0, http_client=library.AsyncClient(transport=Transport()), base_url=None
    )


async def _run_agent(client: Any, model: str, *, is_chat: bool, **options: Any) -> None:
    from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_trace_processors

    set_trace_processors([])  # else it sends its traces to OpenAI
    kind = OpenAIChatCompletionsModel if is_chat else OpenAIResponsesModel
    run = Runner.run_streamed(Agent(name="echo", model=kind(model, client)), HELLO, **options)
    async for _ in run.stream_events():
        pass


async def agents_group(url: str, model: str, session: str) -> None:
    import openai
    from agents import RunConfig

    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        await _run_agent(client, model, is_chat=True, run_config=RunConfig(group_id=session))


async def agents_trace(url: str, model: str, session: str) -> None:
    import openai
    from agents import trace

    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        with trace("work", group_id=session):
            await _run_agent(client, model, is_chat=True)
            await _run_agent(client, model, is_chat=True)


async def agents_session(url: str, model: str, session: str) -> None:
    from agents import SQLiteSession

    async with _official(url) as client:
        for _ in range(2):
            await _run_agent(client, model, is_chat=True, session=SQLiteSession(session))


async def agents_elsewhere(url: str, model: str, session: str) -> None:
    import openai
    from agents import SQLiteSession

    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        await _run_agent(client, model, is_chat=True, session=SQLiteSession(session))


async def agents_run(url: str, model: str, _: str) -> None:
    async with _official(url) as client:
        await _run_agent(client, model, is_chat=True)


def hashed_session(session: str) -> str:
    """The id that OpenAI Agents derives from that of a session."""
    from hashlib import sha256

    return f"agents-sdk:session:{sha256(session.encode()).hexdigest()[:32]}"


# --- Pydantic AI ----------------------------------------------------------------------------------------------------


def _pydantic_agent(url: str, model: str) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return Agent(OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="none")))


async def pydantic_ai(url: str, model: str, session: str) -> None:
    agent = _pydantic_agent(url, model)
    for _ in range(2):
        async with agent.run_stream(HELLO, conversation_id=session) as result:
            async for _ in result.stream_text(delta=True):
                pass


def pydantic_ai_sync(url: str, model: str, session: str) -> None:
    list(_pydantic_agent(url, model).run_stream_sync(HELLO, conversation_id=session).stream_text(delta=True))


async def pydantic_ai_iter(url: str, model: str, session: str) -> None:
    from pydantic_ai import Agent

    async with _pydantic_agent(url, model).iter(HELLO, conversation_id=session) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as request:
                    async for _ in request:
                        pass


async def pydantic_ai_alone(url: str, model: str, _: str) -> None:
    async with _pydantic_agent(url, model).run_stream(HELLO) as result:
        async for _ in result.stream_text(delta=True):
            pass


# --- LlamaIndex -----------------------------------------------------------------------------------------------------


def _llama_model(url: str, model: str) -> Any:
    from llama_index.llms.openai import OpenAI

    return OpenAI(model=model, api_base=url, api_key="none", max_retries=0)


def _llama_messages() -> Any:
    from llama_index.core.llms import ChatMessage

    return [ChatMessage(role="user", content=HELLO)]


def llama_index(url: str, model: str, session: str) -> None:
    from llama_index.core.instrumentation.dispatcher import instrument_tags

    with instrument_tags({"session_id": session}):
        list(_llama_model(url, model).stream_chat(_llama_messages()))


async def llama_index_workflow(url: str, model: str, session: str) -> None:
    from llama_index.core.instrumentation.dispatcher import instrument_tags
    from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

    class Asking(Workflow):
        @step
        async def ask(self, _: StartEvent) -> StopEvent:
            async for _part in await _llama_model(url, model).astream_chat(_llama_messages()):
                pass
            return StopEvent()

    with instrument_tags({"session_id": session}):
        await Asking().run()


# --- AutoGen --------------------------------------------------------------------------------------------------------


async def _run_autogen(url: str, model: str, *, is_team: bool) -> str:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.teams import RoundRobinGroupChat
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    info: Any = {"vision": False, "function_calling": False, "json_output": False, "family": "unknown"}
    info |= {"structured_output": False}
    client = OpenAIChatCompletionClient(model=model, base_url=url, api_key="none", max_retries=0, model_info=info)
    agent = AssistantAgent("echo", client, model_client_stream=True)
    team: Any = RoundRobinGroupChat([agent], max_turns=2) if is_team else agent
    async for _ in team.run_stream(task=HELLO):
        pass
    await client.close()
    return str(team._team_id) if is_team else ""


async def autogen_team(url: str, model: str, _: str) -> str:
    return await _run_autogen(url, model, is_team=True)


async def autogen_agent(url: str, model: str, _: str) -> None:
    await _run_autogen(url, model, is_team=False)


# --- Frameworks whose spans carry the session -----------------------------------------------------------------------


async def google_adk(url: str, model: str, session: str) -> None:
    os.environ.setdefault("GOOGLE_API_KEY", "none")
    from google.adk.agents import Agent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.models import Gemini
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    agent = Agent(name="echo", model=Gemini(model=model, base_url=url.removesuffix("/v1")))
    runner = InMemoryRunner(agent, app_name="app")
    await runner.session_service.create_session(app_name="app", user_id="user", session_id=session)
    async for _ in runner.run_async(
        user_id="user",
        session_id=session,
        new_message=types.Content(role="user", parts=[types.Part(text=HELLO)]),
        run_config=RunConfig(streaming_mode=StreamingMode.SSE),
    ):
        pass
    await runner.close()


async def strands(url: str, model: str, session: str) -> None:
    import boto3
    from strands import Agent
    from strands.models import BedrockModel

    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "region_name": "us-east-1"}
    boto = boto3.Session(**keys)
    chat = BedrockModel(model_id=model, boto_session=boto, endpoint_url=url.removesuffix("/v1"))
    agent = Agent(model=chat, callback_handler=None, trace_attributes={"session.id": session})
    async for _ in agent.stream_async(HELLO):
        pass


# --- Instrumentations -----------------------------------------------------------------------------------------------


def openinference(url: str, model: str, session: str) -> None:
    from openinference.instrumentation import using_session

    with using_session(session):
        stream(url, model)


async def openinference_async(url: str, model: str, session: str) -> None:
    from openinference.instrumentation import using_session

    with using_session(session):
        await astream(url, model)


def util_genai(url: str, model: str, session: str) -> None:
    from opentelemetry import context
    from opentelemetry.util.genai._conversation_context import with_conversation_id

    token = context.attach(with_conversation_id(session))
    try:
        stream(url, model)
    finally:
        context.detach(token)


def langfuse(url: str, model: str, session: str) -> None:
    from langfuse import propagate_attributes

    with propagate_attributes(session_id=session):
        stream(url, model)


def langfuse_baggage(url: str, model: str, session: str) -> None:
    from langfuse import propagate_attributes
    from opentelemetry import baggage, context

    with propagate_attributes(session_id=session, as_baggage=True):
        carried = baggage.get_all()
    token = context.attach(baggage.set_baggage("langfuse_session_id", carried["langfuse_session_id"]))
    try:
        stream(url, model)
    finally:
        context.detach(token)


def traceloop(url: str, model: str, session: str) -> None:
    from opentelemetry import context
    from traceloop.sdk import Traceloop

    token = context.attach(context.get_current())
    try:
        Traceloop.set_association_properties({"session_id": session})
        stream(url, model)
    finally:
        context.detach(token)


def traceloop_conversation(url: str, model: str, session: str) -> None:
    from opentelemetry import context
    from traceloop.sdk.tracing import set_conversation_id

    token = context.attach(context.get_current())
    try:
        set_conversation_id(session)
        stream(url, model)
    finally:
        context.detach(token)


_LANGCHAIN = ("langgraph", "langgraph", "LangChain, LangGraph")
_AGENTS = ("openai-agents", "agents", "OpenAI Agents")
_PYDANTIC = ("pydantic-ai-slim", "pydantic_ai", "Pydantic AI")
_LLAMA = ("llama-index-llms-openai", "llama_index.llms.openai", "LlamaIndex")
_AUTOGEN = ("autogen-agentchat", "autogen_agentchat", "AutoGen")
_LANGFUSE = ("langfuse", "langfuse", "Langfuse")
_TRACELOOP = ("traceloop-sdk", "traceloop.sdk", "Traceloop")
_OPENINFERENCE = ("openinference-instrumentation-openai", "openinference.instrumentation", "OpenInference")
_UTIL_GENAI = (
    "opentelemetry-instrumentation-genai-openai",
    "opentelemetry.util.genai",
    "OpenTelemetry's GenAI instrumentations",
)

KEEPING: Final = (
    Keeping(*_OPENINFERENCE, "`using_session()`", openinference),
    Keeping(*_OPENINFERENCE, "`using_session()` around an asynchronous stream", openinference_async),
    Keeping(*_LANGFUSE, "`propagate_attributes()`", langfuse),
    Keeping(*_LANGFUSE, "`propagate_attributes(as_baggage=True)` in another process", langfuse_baggage),
    Keeping(*_TRACELOOP, "`set_association_properties()`", traceloop),
    Keeping(*_TRACELOOP, "`set_conversation_id()`", traceloop_conversation),
    Keeping(*_UTIL_GENAI, "its context", util_genai),
    Keeping(*_LANGCHAIN, "`graph.stream()`", langgraph),
    Keeping(*_LANGCHAIN, "`graph.astream()`", langgraph_async),
    Keeping(*_LANGCHAIN, "`graph.astream()` with synchronous nodes", langgraph_pool),
    Keeping(*_LANGCHAIN, "`create_agent().astream()`", langchain_agent),
    Keeping(*_LANGCHAIN, "`chain.stream()` with `metadata`", langchain_chain),
    Keeping(*_LANGCHAIN, "`ChatOpenAI.stream(config)` without a chain", langchain_direct, no_session),
    Keeping(*_AGENTS, "`RunConfig(group_id=…)`", agents_group),
    Keeping(*_AGENTS, "`trace(group_id=…)` around two runs", agents_trace),
    Keeping(*_AGENTS, "`session=SQLiteSession(…)` at OpenAI's own address", agents_session, hashed_session),
    Keeping(*_AGENTS, "`session=SQLiteSession(…)` at another address", agents_elsewhere, no_session),
    Keeping(*_AGENTS, "a run without any of them", agents_run, no_session),
    Keeping(*_PYDANTIC, "`run_stream(conversation_id=…)`", pydantic_ai),
    Keeping(*_PYDANTIC, "`run_stream_sync(conversation_id=…)`", pydantic_ai_sync),
    Keeping(*_PYDANTIC, "`iter(conversation_id=…)`", pydantic_ai_iter),
    Keeping(*_PYDANTIC, "a run without a conversation", pydantic_ai_alone, no_session),
    Keeping(*_LLAMA, "`stream_chat()`", llama_index),
    Keeping(*_LLAMA, "a workflow", llama_index_workflow),
    Keeping(*_AUTOGEN, "`RoundRobinGroupChat.run_stream()`", autogen_team, str),
    Keeping(*_AUTOGEN, "`AssistantAgent.run_stream()` without a team", autogen_agent, no_session),
    Keeping(
        *("google-adk", "google.adk", "span", "`Runner.run_async()`", google_adk),
        models=("gemini-2.5-pro", "gemini-2.5-flash"),
        reply=gemini,
        needs_global_provider=True,
    ),
    Keeping(
        *("strands-agents", "strands", "span", "`Agent(trace_attributes=…).stream_async()`", strands),
        models=("amazon.nova-lite-v1:0", "amazon.nova-pro-v1:0"),
        reply=bedrock,
        needs_global_provider=True,
    ),
)

SESSIONS: Final = ("first-session", "second-session")


async def ask_both(keeping: Keeping, url: str) -> dict[str, str | None]:
    """Stream in two sessions at once, a synchronous way in two threads; returns model → session that spans show."""

    async def ask(model: str, session: str) -> tuple[str, str | None]:
        asked = await asyncio.to_thread(keeping.ask, url, model, session)
        own_id = await asked if asyncio.iscoroutine(asked) else asked
        return model, own_id or keeping.shown(session)

    pairs = zip(keeping.models, SESSIONS, strict=True)
    return dict(await asyncio.gather(*(ask(model, session) for model, session in pairs)))
