"""Which session frameworks and instrumentations keep in context: which value counts, in which order, what is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider

from bench.overhead.instructions import counted_bytecodes
from otel_itl import session
from otel_itl.recording.kept_sessions import FRAMEWORK_SOURCES, as_session_id, find_field_session, find_kept_session
from otel_itl.recording.session_scope import find_session

LANGCHAIN, AGENTS = "langchain_core.runnables.config", "agents.tracing"
PYDANTIC, LLAMA = "pydantic_ai._run_context", "llama_index_instrumentation.dispatcher"
AUTOGEN, GENAI = "autogen_core._message_handler_context", "opentelemetry.util.genai._conversation_context"
UUID4, UUID5, UUID7 = (f"00000000-0000-{version}000-8000-000000000000" for version in (4, 5, 7))

Keep = Callable[..., None]


def variable(value: Any) -> Any:
    """A context variable that has this value."""
    return ContextVar("test", default=value)


@pytest.fixture(autouse=True)
def _no_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    for source in FRAMEWORK_SOURCES:
        monkeypatch.delitem(sys.modules, source.module, raising=False)


@pytest.fixture
def keep(monkeypatch: pytest.MonkeyPatch) -> Keep:
    """Make a module of a framework, with these variables."""

    def make(name: str, **variables: Any) -> None:
        module = ModuleType(name)
        vars(module).update(variables)
        monkeypatch.setitem(sys.modules, name, module)

    return make


@contextmanager
def in_context(key: str, value: object) -> Iterator[None]:
    token = context.attach(context.set_value(key, value))
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def in_span(scope: str = "any", **attributes: str) -> Iterator[None]:
    named = {name.replace("_id", ".id").replace("gen_ai_", "gen_ai."): value for name, value in attributes.items()}
    with TracerProvider().get_tracer(scope).start_as_current_span("span", attributes=named):
        yield


def keep_langchain(keep: Keep, **config: Any) -> None:
    keep(LANGCHAIN, var_child_runnable_config=variable(config))


def keep_pydantic(keep: Keep, conversation: str, *messages: tuple[str, str]) -> None:
    """A run `run` of a conversation, with messages: conversation and run of each."""
    history = [SimpleNamespace(conversation_id=of, run_id=run) for of, run in messages]
    run = SimpleNamespace(conversation_id=conversation, run_id="run", messages=history)
    keep(PYDANTIC, get_current_run_context=lambda: run)


def keep_autogen(keep: Keep, kind: str, key: str) -> None:
    held = variable(None)
    held.set(SimpleNamespace(type=kind, key=key))
    handler = SimpleNamespace(_MESSAGE_HANDLER_CONTEXT=held)
    keep(AUTOGEN, MessageHandlerContext=handler)


def test_without_any_of_them_there_is_no_session() -> None:
    assert find_kept_session() is None


# --- Frameworks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["thread_id", "session_id", "conversation_id"])
@pytest.mark.parametrize("place", ["configurable", "metadata"])
def test_each_key_of_langchains_config_names_the_session(keep: Keep, place: str, key: str) -> None:
    keep_langchain(keep, **{place: {key: "a"}})
    assert find_kept_session() == "a"


def test_of_langchains_keys_the_thread_counts_first_and_what_is_configurable_before_metadata(keep: Keep) -> None:
    keep_langchain(keep, configurable={"session_id": "b", "thread_id": "a"}, metadata={"thread_id": "c"})
    assert find_kept_session() == "a"


def test_other_keys_of_langchains_config_are_not_read(keep: Keep) -> None:
    keep_langchain(keep, configurable={"prompt": "text"}, metadata={"input": "text"}, run_id="random")
    assert find_kept_session() is None


def test_outside_of_a_run_langchain_keeps_none(keep: Keep) -> None:
    keep(LANGCHAIN, var_child_runnable_config=variable(None))
    assert find_kept_session() is None


def test_the_group_of_a_trace_of_openai_agents_is_the_session(keep: Keep) -> None:
    keep(AGENTS, get_current_trace=lambda: SimpleNamespace(group_id="a", trace_id="random"))
    assert find_kept_session() == "a"


@pytest.mark.parametrize("trace", [None, SimpleNamespace(group_id=None, trace_id="random"), SimpleNamespace()])
def test_a_trace_of_openai_agents_without_a_group_is_no_session(keep: Keep, trace: object) -> None:
    keep(AGENTS, get_current_trace=lambda: trace)
    assert find_kept_session() is None


@pytest.mark.parametrize("given", ["a", UUID4])
def test_a_conversation_that_a_run_of_pydantic_ai_is_given_is_the_session(keep: Keep, given: str) -> None:
    keep_pydantic(keep, given)
    assert find_kept_session() == given


@pytest.mark.parametrize("made", [UUID5, UUID7])
def test_an_id_that_pydantic_ai_made_for_one_run_is_no_session(keep: Keep, made: str) -> None:
    keep_pydantic(keep, made, (made, "run"))
    assert find_kept_session() is None


def test_a_conversation_that_an_earlier_run_of_pydantic_ai_left_is_the_session(keep: Keep) -> None:
    keep_pydantic(keep, UUID7, (UUID7, "earlier"), (UUID7, "run"))
    assert find_kept_session() == UUID7


def test_of_llama_indexs_tags_that_of_the_session_is_read_alone(keep: Keep) -> None:
    keep(LLAMA, active_instrument_tags=variable({"llamaindex.run_id": "random", "input": "text"}))
    none = find_kept_session()
    keep(LLAMA, active_instrument_tags=variable({"llamaindex.run_id": "random", "session_id": "a"}))
    assert (none, find_kept_session()) == (None, "a")


def test_the_id_of_an_autogen_team_is_the_session(keep: Keep) -> None:
    keep_autogen(keep, f"writer_{UUID4}", UUID4)
    assert find_kept_session() == UUID4


def test_the_key_of_an_autogen_agent_without_a_team_is_no_session(keep: Keep) -> None:
    keep_autogen(keep, "writer", "default")
    assert find_kept_session() is None


def test_the_conversation_of_opentelemetrys_genai_instrumentations_is_the_session(keep: Keep) -> None:
    keep(GENAI, get_ambient_conversation_id=lambda: "a")
    assert find_kept_session() == "a"


@pytest.mark.parametrize("source", FRAMEWORK_SOURCES, ids=lambda source: source.module)
def test_a_framework_of_another_form_keeps_none_and_hides_no_other(keep: Keep, source: Any) -> None:
    keep(source.module)
    with in_span(session_id="a"):
        assert find_kept_session() == "a"


# --- OpenTelemetry's context ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("session.id", "a"),
        ("langfuse.propagated.session_id", "a"),
        ("conversation_id", "a"),
        ("association_properties", {"session_id": "a"}),
    ],
)
def test_each_instrumentations_key_in_the_context_names_the_session(key: str, value: object) -> None:
    with in_context(key, value):
        assert find_kept_session() == "a"


@pytest.mark.parametrize("properties", [None, "text", {}, {"user": "u"}])
def test_association_properties_without_a_session_name_none(properties: object) -> None:
    with in_context("association_properties", properties):
        assert find_kept_session() is None


def test_langfuses_session_in_the_baggage_counts() -> None:
    token = context.attach(baggage.set_baggage("langfuse_session_id", "a"))
    try:
        assert find_session(None, {}) == "a"
    finally:
        context.detach(token)


@pytest.mark.parametrize("attribute", ["session_id", "gen_ai_conversation_id"])
def test_the_current_span_names_the_session(attribute: str) -> None:
    with in_span(**{attribute: "a"}):
        assert find_kept_session() == "a"


def test_an_id_that_pydantic_ai_made_for_one_run_is_none_on_a_span_and_in_the_baggage_either(keep: Keep) -> None:
    keep_pydantic(keep, UUID7)
    token = context.attach(baggage.set_baggage("gen_ai.conversation.id", UUID7))
    with in_span("pydantic-ai", gen_ai_conversation_id=UUID7):
        found = find_session(None, {})
    context.detach(token)
    assert found is None


# --- The request ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"conversation": "conv_1"}, "conv_1"),
        ({"conversation": {"id": "conv_1"}}, "conv_1"),
        ({"conversation": "what we talked about"}, None),
        ({"prompt_cache_key": "agents-sdk:session:0af1"}, "agents-sdk:session:0af1"),
        ({"prompt_cache_key": "agents-sdk:conversation:0af1"}, "agents-sdk:conversation:0af1"),
        ({"prompt_cache_key": "agents-sdk:run:0af1"}, None),
        ({"prompt_cache_key": "mine"}, None),
        ({"user": "u", "previous_response_id": "resp_1"}, None),
    ],
)
def test_a_field_that_the_provider_or_openai_agents_defines_names_the_session(body: Any, expected: str | None) -> None:
    assert find_field_session(body) == expected


def test_a_body_that_cannot_be_read_names_none() -> None:
    assert find_field_session(SimpleNamespace()) is None  # type: ignore[arg-type]


# --- The order ------------------------------------------------------------------------------------------------------


def test_each_source_wins_over_those_after_it(keep: Keep) -> None:
    body = {"conversation": "conv_field"}
    found = [find_session(None, body)]
    with in_span(session_id="span"):
        found.append(find_session(None, body))
        keep_langchain(keep, configurable={"thread_id": "framework"})
        found.append(find_session(None, body))
        with in_context("session.id", "context"):
            found += [find_session(None, body), find_session("session_from", body)]
            token = context.attach(baggage.set_baggage("session.id", "baggage"))
            found.append(find_session("session_from", body))
            with session("scope"):
                found.append(find_session("session_from", body))
            context.detach(token)
    assert found == ["conv_field", "span", "framework", "context", "session_from", "baggage", "scope"]


def test_frameworks_count_in_the_order_of_the_table(keep: Keep) -> None:
    keep(AGENTS, get_current_trace=lambda: SimpleNamespace(group_id="agents"))
    keep_langchain(keep, configurable={"thread_id": "langchain"})
    assert find_kept_session() == "langchain"


# --- Ids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "expected"), [("a", "a"), (7, "7"), (UUID(UUID4), UUID4), ("ü" * 256, "ü" * 256)])
def test_a_text_a_number_and_a_uuid_are_ids(value: object, expected: str) -> None:
    assert as_session_id(value) == expected


@pytest.mark.parametrize("value", [None, "", True, 1.5, b"a", ["a"], "x" * 257, "two\nlines", "\ud800"])
def test_what_is_long_or_of_lines_or_no_text_is_no_id(value: object) -> None:
    assert as_session_id(value) is None


# --- Cost -----------------------------------------------------------------------------------------------------------


def bytecodes(function: Callable[[], object]) -> int:
    function()
    with counted_bytecodes() as read:
        function()
        return read()


def test_where_none_is_kept_looking_for_one_costs_little_more_than_reading_the_baggage() -> None:
    assert bytecodes(find_kept_session) <= 2 * bytecodes(baggage.get_all)


def test_on_a_span_without_a_session_looking_for_one_costs_a_few_lookups_of_attributes() -> None:
    with TracerProvider().get_tracer("any").start_as_current_span("span", attributes={"a": 1}):
        assert bytecodes(find_kept_session) <= 4 * bytecodes(baggage.get_all)
