"""Finds the session that frameworks and other instrumentations keep in context at the moment of a request.

Nothing is imported and nothing is hooked: a framework is looked up in `sys.modules`, and a variable is read that the
framework itself sets. Named keys alone are read: others hold text of prompts. An id that a framework makes for one run
is no session (ADR 0058).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from opentelemetry.context import get_current
from opentelemetry.trace import get_current_span

from otel_itl.core.conventions import CONVERSATION_ID, SESSION_ID

MAX_ID_LENGTH: Final = 256
_LANGCHAIN_KEYS: Final = ("thread_id", "session_id", "conversation_id")
_GENERATED_UUID_VERSIONS: Final = "57"
"""pydantic-ai makes a UUID 7 for a run without a conversation, in a durable workflow a UUID 5."""
_UUID_LENGTH: Final = 36
_UUID_VERSION_AT: Final = 14
"""The place of the version in the text of a UUID."""
_PYDANTIC_AI: Final = "pydantic_ai._run_context"
_SESSION_CACHE_KEYS: Final = tuple(f"agents-sdk:{kind}:" for kind in ("session", "conversation", "group"))


def as_session_id(value: object) -> str | None:
    """Return a value as the id of a session; None for what is none: no text, number or UUID, too long, or of lines."""
    if type(value) is int or isinstance(value, UUID):
        value = str(value)
    is_id = isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and value.isprintable()
    return str(value) if is_id else None


# --- OpenTelemetry's context ------------------------------------------------------------------------------------------


class ContextSource(NamedTuple):
    """An instrumentation that keeps the session in OpenTelemetry's context."""

    name: str
    """How the documentation names it."""
    named_by: str
    """What the application calls there, with the session."""
    key: str
    """Its key in the context."""
    read: Callable[[Any], Iterable[object]] = lambda value: (value,)
    """Returns what may be the id; gets the value of the key."""


CONTEXT_SOURCES: Final = (
    ContextSource("OpenInference", "`using_session(…)`", SESSION_ID),
    ContextSource("Langfuse", "`propagate_attributes(session_id=…)`", "langfuse.propagated.session_id"),
    ContextSource("Traceloop", "`set_conversation_id(…)`", "conversation_id"),
    ContextSource(
        "Traceloop",
        '`set_association_properties({"session_id": …})`',
        "association_properties",
        lambda properties: (properties.get("session_id"),),
    ),
)
_CONTEXT_KEYS: Final = frozenset(source.key for source in CONTEXT_SOURCES)


# --- Frameworks -------------------------------------------------------------------------------------------------------


def _read_util_genai(module: Any) -> Iterable[object]:
    return (module.get_ambient_conversation_id(),)


def _read_langchain(module: Any) -> Iterable[object]:
    config = module.var_child_runnable_config.get() or {}
    for place in ("configurable", "metadata"):
        yield from map((config.get(place) or {}).get, _LANGCHAIN_KEYS)


def _read_openai_agents(module: Any) -> Iterable[object]:
    trace = module.get_current_trace()
    return (getattr(trace, "group_id", None),)


def _read_pydantic_ai(module: Any) -> Iterable[object]:
    run = module.get_current_run_context()
    session_id = None if run is None else as_session_id(run.conversation_id)
    return () if session_id is None or is_made_for_run(session_id) else (session_id,)


def is_made_for_run(session_id: str) -> bool:
    """Return whether pydantic-ai has made an id for the one run that asks here. Never raises.

    It puts the id on its spans and into the baggage, too. An id that an earlier run has left in the message history is
    that of a conversation, which this run continues.
    """
    module = sys.modules.get(_PYDANTIC_AI)
    is_uuid = len(session_id) == _UUID_LENGTH and session_id[_UUID_VERSION_AT] in _GENERATED_UUID_VERSIONS
    if module is None or not is_uuid:
        return False
    try:
        run = module.get_current_run_context()
        if run is None or run.conversation_id != session_id:
            return False
        return not any(
            message.conversation_id == session_id and message.run_id not in {None, run.run_id}
            for message in run.messages
        )
    except Exception:  # noqa: BLE001 - another project's code
        return False


def _read_llama_index(module: Any) -> Iterable[object]:
    return (module.active_instrument_tags.get().get("session_id"),)


def _read_autogen(module: Any) -> Iterable[object]:
    agent = module.MessageHandlerContext._MESSAGE_HANDLER_CONTEXT.get(None)  # noqa: SLF001 - the public one raises
    # Only the agents of a team have its id in their type; of others the key may be "default".
    if agent is not None and agent.type.endswith(f"_{agent.key}"):
        yield agent.key


class FrameworkSource(NamedTuple):
    """A framework that keeps the session in a variable of its own."""

    name: str
    """How the documentation names it."""
    named_by: str
    """Where the application names the session there."""
    module: str
    """Its module that has the variable: looked up, never imported."""
    read: Callable[[Any], Iterable[object]]
    """Returns what may be the id, the best first; gets the module."""


FRAMEWORK_SOURCES: Final = (
    FrameworkSource(
        "OpenTelemetry's GenAI instrumentations",
        "`conversation_id=…` of their handlers",
        "opentelemetry.util.genai._conversation_context",
        _read_util_genai,
    ),
    FrameworkSource(
        "LangChain, LangGraph",
        "`thread_id`, else `session_id`, else `conversation_id`, in `configurable` or `metadata` of the config",
        "langchain_core.runnables.config",
        _read_langchain,
    ),
    FrameworkSource(
        "OpenAI Agents",
        "`RunConfig(group_id=…)`, `trace(group_id=…)`",
        "agents.tracing",
        _read_openai_agents,
    ),
    FrameworkSource(
        "Pydantic AI",
        "`conversation_id=…` of a run, or the `message_history` of an earlier one",
        _PYDANTIC_AI,
        _read_pydantic_ai,
    ),
    FrameworkSource(
        "LlamaIndex",
        '`instrument_tags({"session_id": …})`',
        "llama_index_instrumentation.dispatcher",
        _read_llama_index,
    ),
    FrameworkSource(
        "AutoGen",
        "a team: the team's own id",
        "autogen_core._message_handler_context",
        _read_autogen,
    ),
)


_MODULES: Final = frozenset(source.module for source in FRAMEWORK_SOURCES)


# --- All of them ------------------------------------------------------------------------------------------------------


def find_kept_session() -> str | None:
    """Return the session that is kept in context here; None: there is none. Never raises.

    A framework whose variable has another form than those that were tested keeps none.
    """
    context = get_current()
    if not _CONTEXT_KEYS.isdisjoint(context):
        for in_context in CONTEXT_SOURCES:
            value = context.get(in_context.key)
            session_id = None if value is None else _first_id(in_context.read, value)
            if session_id is not None:
                return session_id
    if not sys.modules.keys().isdisjoint(_MODULES):
        for framework in FRAMEWORK_SOURCES:
            module = sys.modules.get(framework.module)
            session_id = None if module is None else _first_id(framework.read, module)
            if session_id is not None:
                return session_id
    return _find_on_span(get_current_span(context)) if context else None


def _find_on_span(span: Any) -> str | None:
    """Return the session that a span carries, if it records; None: it carries none."""
    attributes = getattr(span, "attributes", None)
    if not attributes:
        return None
    for key in (SESSION_ID, CONVERSATION_ID):
        try:
            session_id = as_session_id(attributes[key])
            if session_id is not None and not is_made_for_run(session_id):
                return session_id
        except Exception:  # noqa: BLE001, S112 - nearly always a KeyError, which `get()` would raise as well, and slower
            continue
    return None


def find_field_session(body: Mapping[str, Any]) -> str | None:
    """Return the session that a request names by a field that its provider defines; None: there is none. Never raises.

    That is OpenAI's `conversation`, and the cache key that OpenAI Agents derives from a session, not that of a run.
    """
    try:
        conversation, cache_key = body.get("conversation"), body.get("prompt_cache_key")
        if conversation is not None and not isinstance(conversation, str):
            conversation = conversation.get("id")
    except Exception:  # noqa: BLE001 - the application's object
        return None
    if isinstance(conversation, str) and conversation.startswith("conv_"):
        return as_session_id(conversation)
    is_of_session = isinstance(cache_key, str) and cache_key.startswith(_SESSION_CACHE_KEYS)
    return as_session_id(cache_key) if is_of_session else None


def _first_id(read: Callable[[Any], Iterable[object]], source: Any) -> str | None:
    """Return the first id that is read from a source; None: there is none, or its code raised."""
    try:
        for value in read(source):
            session_id = None if value is None else as_session_id(value)
            if session_id is not None:
                return session_id
    except Exception:  # noqa: BLE001 - another project's code
        return None
    return None
