"""The one table of supported surfaces: every way of asking for a stream and of reading it that is measured.

The tests walk it, and `docs/supported.md` is made from it. Each row knows how to open the stream and how to read it to
the end, with the sync and with the async client. Loads no SDK.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from faces import entered, settled, taken

QUESTION: Final = [{"role": "user", "content": "hello"}]
PLAIN_CHAT: Final = {"model": "m", "messages": QUESTION, "max_tokens": 9}
PLAIN_COMPLETION: Final = {"model": "m", "prompt": "hello", "max_tokens": 9}
CHAT: Final = {**PLAIN_CHAT, "stream_options": {"include_usage": True}}
COMPLETION: Final = {**PLAIN_COMPLETION, "stream_options": {"include_usage": True}}
RESPONSE: Final = {"model": "m", "input": "hello", "max_output_tokens": 9}
MESSAGE: Final = {"model": "m", "messages": QUESTION, "max_tokens": 9}
CONTENT: Final = {"model": "m", "contents": "hello", "config": {"max_output_tokens": 9}}
INTERACTION: Final = {"model": "m", "input": "hello", "generation_config": {"max_output_tokens": 9}}
CONVERSE: Final = {
    "modelId": "m",
    "messages": [{"role": "user", "content": [{"text": "hello"}]}],
    "inferenceConfig": {"maxTokens": 9},
}
OLLAMA_OPTIONS: Final = {"num_predict": 9}
COHERE_CHAT: Final = {"model": "m", "messages": QUESTION, "max_tokens": 9}
COHERE_V1_CHAT: Final = {"model": "m", "message": "hello", "max_tokens": 9}
INVOCATION: Final = {"modelId": "m", "body": json.dumps({"messages": QUESTION, "max_tokens": 9})}


class Host(NamedTuple):
    """Which client asks which host."""

    sdk: str
    client: str
    """The client, as the page shows it."""
    name: str
    """Of the host."""
    provider: str
    """`gen_ai.provider.name`."""


OPENAI: Final = Host("openai", "OpenAI", "127.0.0.1", "openai")
AZURE: Final = Host("openai", "AzureOpenAI", "unit.openai.azure.com", "azure.ai.openai")
COMPATIBLE: Final = Host("openai", 'OpenAI(base_url="https://api.groq.com/openai/v1")', "api.groq.com", "groq")
ANTHROPIC: Final = Host("anthropic", "Anthropic", "127.0.0.1", "anthropic")
GROQ: Final = Host("groq", "Groq", "127.0.0.1", "groq")
TOGETHER: Final = Host("together", "Together", "127.0.0.1", "together_ai")
FIREWORKS: Final = Host("fireworks", "Fireworks", "127.0.0.1", "fireworks_ai")
CEREBRAS: Final = Host("cerebras", "Cerebras", "127.0.0.1", "cerebras")
GEMINI: Final = Host("google-genai", "Client", "127.0.0.1", "gcp.gemini")
VERTEX: Final = Host("google-genai", "Client(vertexai=True)", "127.0.0.1", "gcp.vertex_ai")
BEDROCK: Final = Host("bedrock", 'client("bedrock-runtime")', "127.0.0.1", "aws.bedrock")
OLLAMA: Final = Host("ollama", "Client", "127.0.0.1", "ollama")
COHERE: Final = Host("cohere", "ClientV2", "127.0.0.1", "cohere")
COHERE_V1: Final = Host("cohere", "Client", "127.0.0.1", "cohere")

LITELLM_ROUTES: Final = (
    ("anthropic", "anthropic"),
    ("bedrock", "aws.bedrock"),
    ("deepseek", "deepseek"),
    ("gemini", "gcp.gemini"),
    ("openai", "openai"),
    ("azure", "azure.ai.openai"),
)
"""litellm's name of a provider, and `gen_ai.provider.name`."""


class Reading(NamedTuple):
    """One way to read what was opened to its end: as the page writes it, and as it is done."""

    text: str
    read: Callable[[Any], Awaitable[list[Any]]]
    bytewise: bool = False
    """No chunk object is made: the recording ends properly, and has no tokens."""


def _called(method: str, *, bytewise: bool = False) -> Reading:
    async def read(stream: Any) -> list[Any]:
        result = await settled(getattr(stream, method)())
        return [] if result is stream else [result]

    return Reading(f".{method}()", read, bytewise)


def _looped(method: str, *, bytewise: bool = False) -> Reading:
    async def read(stream: Any) -> list[Any]:
        return await taken(getattr(stream, method)())

    return Reading(f".{method}()", read, bytewise)


async def _texts(stream: Any) -> list[Any]:
    return await taken(stream.text_stream)


LOOP: Final = Reading("for-loop", taken)
TEXT_STREAM: Final = Reading(".text_stream", _texts)
UNTIL_DONE: Final = _called("until_done")
LINES: Final = _looped("iter_lines", bytewise=True)
BYTES: Final = _looped("iter_bytes", bytewise=True)
READ: Final = _called("read", bytewise=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """One way of asking for a stream, and one of reading it."""

    call: str
    """As it is written after `client.`."""
    wire: str
    """Name of the module of `otel_itl.testing` that scripts the answer."""
    open: Callable[[Any], Any]
    """Asks the client: gives a stream, a raw response, or what is to be entered, which may have to be awaited."""
    needs: str
    """What the client must have, a dotted path, perhaps with a parameter: `responses.retrieve(stream)`."""
    host: Host
    needs_module: str = ""
    """A module that the SDK must have; empty: none."""
    operation: str = "chat"
    managed: bool = False
    """What is opened is a context manager."""
    parsed: bool = False
    """The stream is what `.parse()` of the response gives."""
    reading: Reading = LOOP
    yields_errors: bool = False
    """The SDK yields an error of the provider as a chunk, instead of raising it."""
    is_generator: bool = False
    """The caller gets a generator, which sends the request when it is first pulled, and is no context manager."""

    @property
    def sdk(self) -> str:
        """The name of the SDK."""
        return self.host.sdk

    def __str__(self) -> str:
        """The row, as a test's name shows it."""
        client = f"{self.host.client}." if self.host in {AZURE, COMPATIBLE, VERTEX, COHERE_V1} else ""
        return f"{self.sdk}:{client}{self.call}{'.parse()' if self.parsed else ''}:{self.reading.text}"

    @property
    def model(self) -> str | None:
        """The model that the request names."""
        return None if self.operation == "fetch_response" else "m"

    def missing(self, client: Any) -> str | None:
        """What the SDK lacks for this surface, as code; None when it is all there."""
        if self.needs_module and find_spec(self.needs_module) is None:
            return self.needs_module
        path, _, parameter = self.needs.rstrip(")").partition("(")
        found, seen = client, "client"
        for name in path.split("."):
            seen = f"{seen}.{name}"
            if not hasattr(found, name):
                return seen
            found = getattr(found, name)
        if parameter and parameter not in inspect.signature(found).parameters:
            return f"{seen}({parameter}=…)"
        return None

    async def reach(self, opened: Any) -> Any:
        """From what was opened (and entered) to what is read."""
        return await settled(opened.parse()) if self.parsed else opened

    @asynccontextmanager
    async def stream(self, client: Any) -> AsyncIterator[Any]:
        """Open the stream, and leave it at the end of the block where it is a block's."""
        opened = await settled(self.open(client))
        if not self.managed:
            yield await self.reach(opened)
            return
        async with entered(opened) as inside:
            yield await self.reach(inside)


def _chat_helper(client: Any) -> Any:
    """The helper left `beta` in the life of openai 1."""
    home = client.chat.completions if hasattr(client.chat.completions, "stream") else client.beta.chat.completions
    return home.stream(**CHAT)


def _chat() -> list[Surface]:
    def row(call: str, opens: Callable[[Any], Any], needs: str = "", host: Host = OPENAI, **more: Any) -> Surface:
        return Surface(call=call, wire="chat", open=opens, needs=needs or "chat.completions", host=host, **more)

    def create(client: Any) -> Any:
        return client.chat.completions.create(**CHAT, stream=True)

    def raw(client: Any) -> Any:
        return client.chat.completions.with_raw_response.create(**CHAT, stream=True)

    def streaming(client: Any) -> Any:
        return client.chat.completions.with_streaming_response.create(**CHAT, stream=True)

    base = "chat.completions"
    return [
        row(f"{base}.create(stream=True)", create),
        row(f"{base}.create(stream=True)", create, host=AZURE),
        row(f"{base}.create(stream=True)", create, host=COMPATIBLE),
        *(
            row(f"{base}.stream()", _chat_helper, managed=True, reading=reading)
            for reading in (LOOP, UNTIL_DONE, _called("get_final_completion"))
        ),
        row(f"{base}.with_raw_response.create(stream=True)", raw, parsed=True),
        row(f"{base}.with_streaming_response.create(stream=True)", streaming, managed=True, parsed=True),
        *(
            row(f"{base}.with_streaming_response.create(stream=True)", streaming, managed=True, reading=reading)
            for reading in (LINES, BYTES, READ)
        ),
    ]


def _completions() -> list[Surface]:
    return [
        Surface(
            call="completions.create(stream=True)",
            wire="completions",
            open=lambda client: client.completions.create(**COMPLETION, stream=True),
            needs="completions",
            host=OPENAI,
            operation="text_completion",
        )
    ]


def _responses() -> list[Surface]:
    def row(call: str, opens: Callable[[Any], Any], needs: str = "responses", **more: Any) -> Surface:
        return Surface(call=call, wire="responses", open=opens, needs=needs, host=OPENAI, yields_errors=True, **more)

    def raw(client: Any) -> Any:
        return client.responses.with_raw_response.create(**RESPONSE, stream=True)

    def streaming(client: Any) -> Any:
        return client.responses.with_streaming_response.create(**RESPONSE, stream=True)

    return [
        row("responses.create(stream=True)", lambda client: client.responses.create(**RESPONSE, stream=True)),
        *(
            row(
                "responses.stream()",
                lambda client: client.responses.stream(**RESPONSE),
                "responses.stream",
                managed=True,
                reading=reading,
            )
            for reading in (LOOP, UNTIL_DONE, _called("get_final_response"))
        ),
        row(
            "responses.retrieve(stream=True)",
            lambda client: client.responses.retrieve("resp_1", stream=True),
            "responses.retrieve(stream)",
            operation="fetch_response",
        ),
        row("responses.with_raw_response.create(stream=True)", raw, parsed=True),
        row("responses.with_streaming_response.create(stream=True)", streaming, managed=True, parsed=True),
        row("responses.with_streaming_response.create(stream=True)", streaming, managed=True, reading=LINES),
    ]


def _messages() -> list[Surface]:
    def row(call: str, opens: Callable[[Any], Any], needs: str = "messages", **more: Any) -> Surface:
        return Surface(call=call, wire="messages", open=opens, needs=needs, host=ANTHROPIC, **more)

    def raw(client: Any) -> Any:
        return client.messages.with_raw_response.create(**MESSAGE, stream=True)

    def streaming(client: Any) -> Any:
        return client.messages.with_streaming_response.create(**MESSAGE, stream=True)

    return [
        row("messages.create(stream=True)", lambda client: client.messages.create(**MESSAGE, stream=True)),
        *(
            row(
                "messages.stream()",
                lambda client: client.messages.stream(**MESSAGE),
                managed=True,
                reading=reading,
            )
            for reading in (LOOP, TEXT_STREAM, UNTIL_DONE, _called("get_final_message"), _called("get_final_text"))
        ),
        row("messages.with_raw_response.create(stream=True)", raw, parsed=True),
        row("messages.with_streaming_response.create(stream=True)", streaming, managed=True, parsed=True),
        *(
            row("messages.with_streaming_response.create(stream=True)", streaming, managed=True, reading=reading)
            for reading in (LINES, BYTES, READ)
        ),
        row(
            "beta.messages.create(stream=True)",
            lambda client: client.beta.messages.create(**MESSAGE, stream=True),
            "beta.messages",
        ),
        *(
            row(
                "beta.messages.stream()",
                lambda client: client.beta.messages.stream(**MESSAGE),
                "beta.messages.stream",
                managed=True,
                reading=reading,
            )
            for reading in (LOOP, TEXT_STREAM, _called("get_final_message"))
        ),
    ]


def _compatible() -> list[Surface]:
    """The SDKs that stream OpenAI's wire format: one way of asking for each route, as all go through the same code."""
    chat = [
        Surface(
            call="chat.completions.create(stream=True)",
            wire="chat",
            open=lambda client: client.chat.completions.create(**PLAIN_CHAT, stream=True),
            needs="chat.completions",
            host=host,
            yields_errors=host is FIREWORKS,
        )
        for host in (GROQ, TOGETHER, FIREWORKS, CEREBRAS)
    ]
    completions = [
        Surface(
            call="completions.create(stream=True)",
            wire="completions",
            open=lambda client: client.completions.create(**PLAIN_COMPLETION, stream=True),
            needs="completions",
            host=host,
            operation="text_completion",
            yields_errors=host is FIREWORKS,
        )
        for host in (TOGETHER, FIREWORKS, CEREBRAS)
    ]
    return [*chat, *completions]


def _content() -> list[Surface]:
    """Generators of the google-genai SDK, which send their request when they are first pulled."""

    def row(call: str, opens: Callable[[Any], Any], host: Host = GEMINI) -> Surface:
        return Surface(
            call=call,
            wire="gemini",
            open=opens,
            needs="models",
            host=host,
            operation="generate_content",
            is_generator=True,
        )

    def generate(client: Any) -> Any:
        return client.models.generate_content_stream(**CONTENT)

    def send(client: Any) -> Any:
        chat = client.chats.create(model=CONTENT["model"], config=CONTENT["config"])
        return chat.send_message_stream(CONTENT["contents"])

    return [
        row("models.generate_content_stream()", generate),
        row("models.generate_content_stream()", generate, VERTEX),
        row("chats.create().send_message_stream()", send),
    ]


def _interactions() -> list[Surface]:
    def row(call: str, opens: Callable[[Any], Any], **more: Any) -> Surface:
        options = {"operation": "generate_content", **more}
        return Surface(
            call=call,
            wire="interactions",
            open=opens,
            needs="interactions",
            needs_module="google.genai._gaos",
            host=GEMINI,
            yields_errors=True,
            **options,
        )

    def raw(client: Any) -> Any:
        return client.interactions.with_raw_response.create(**INTERACTION, stream=True)

    def streaming(client: Any) -> Any:
        return client.interactions.with_streaming_response.create(**INTERACTION, stream=True)

    return [
        row("interactions.create(stream=True)", lambda client: client.interactions.create(**INTERACTION, stream=True)),
        row(
            "interactions.get(stream=True)",
            lambda client: client.interactions.get("resp_1", stream=True),
            operation="fetch_response",
        ),
        row("interactions.with_raw_response.create(stream=True)", raw, parsed=True),
        row("interactions.with_streaming_response.create(stream=True)", streaming, managed=True, parsed=True),
        row("interactions.with_streaming_response.create(stream=True)", streaming, managed=True, reading=LINES),
    ]


def _bedrock() -> list[Surface]:
    """Both operations of Bedrock that stream, by boto3 and aiobotocore."""

    async def converse(client: Any) -> Any:
        return (await settled(client.converse_stream(**CONVERSE)))["stream"]

    async def invoke(client: Any) -> Any:
        return (await settled(client.invoke_model_with_response_stream(**INVOCATION)))["body"]

    return [
        Surface(call="converse_stream()", wire="converse", open=converse, needs="converse_stream", host=BEDROCK),
        Surface(
            call="invoke_model_with_response_stream()",
            wire="invoke_model",
            open=invoke,
            needs="invoke_model_with_response_stream",
            host=BEDROCK,
        ),
    ]


def _litellm() -> list[Surface]:
    """The functions of litellm, which has no client: by the routes whose every ending is tested."""

    def row(call: str, route: str, provider: str, wire: str = "", **more: Any) -> Surface:
        return Surface(
            call=call,
            wire=wire,
            open=lambda client: client.completion(),
            needs="completion",
            host=Host("litellm", f"{route}/…", "127.0.0.1", provider),
            **more,
        )

    return [
        *(row("completion(stream=True)", route, provider) for route, provider in LITELLM_ROUTES),
        row("text_completion(stream=True)", "text-completion-openai", "openai", operation="text_completion"),
        row("responses(stream=True)", "openai", "openai"),
        *(row("Router().completion(stream=True)", route, route) for route in ("anthropic", "openai")),
    ]


ROUTED: Final = tuple(_litellm())
"""The rows of litellm, which `test_litellm.py` tests: its stream object makes chunks of its own, so that neither the
count nor the ids of the others hold."""


def _ollama() -> list[Surface]:
    """Generators of the ollama SDK, which send their request when they are first pulled."""

    def row(call: str, wire: str, opens: Callable[[Any], Any], operation: str) -> Surface:
        return Surface(
            call=f"{call}(stream=True)",
            wire=wire,
            open=opens,
            needs=call,
            host=OLLAMA,
            operation=operation,
            is_generator=True,
        )

    def chat(client: Any) -> Any:
        return client.chat(model="m", messages=QUESTION, options=OLLAMA_OPTIONS, stream=True)

    def generate(client: Any) -> Any:
        return client.generate(model="m", prompt="hello", options=OLLAMA_OPTIONS, stream=True)

    return [
        row("chat", "ollama_chat", chat, "chat"),
        row("generate", "ollama_generate", generate, "text_completion"),
    ]


@contextmanager
def _chunks_of(block: Any) -> Iterator[Any]:
    """The chunks in the block of a raw client of cohere."""
    with block as response:
        yield response.data


@asynccontextmanager
async def _async_chunks_of(block: Any) -> AsyncIterator[Any]:
    """Do what `_chunks_of` does, for an asynchronous block."""
    async with block as response:
        yield response.data


def _cohere() -> list[Surface]:
    """Generators of the cohere SDK, which send their request when they are first pulled, and the blocks under them."""

    def row(call: str, wire: str, opens: Callable[[Any], Any], host: Host = COHERE, **more: Any) -> Surface:
        return Surface(call=call, wire=wire, open=opens, needs="chat_stream", host=host, yields_errors=True, **more)

    def raw(client: Any) -> Any:
        block = client.v2.with_raw_response.chat_stream(**COHERE_CHAT)
        return _async_chunks_of(block) if hasattr(block, "__aenter__") else _chunks_of(block)

    return [
        row("chat_stream()", "cohere", lambda client: client.chat_stream(**COHERE_CHAT), is_generator=True),
        row(
            "chat_stream()",
            "cohere_v1",
            lambda client: client.chat_stream(**COHERE_V1_CHAT),
            COHERE_V1,
            is_generator=True,
        ),
        row("v2.with_raw_response.chat_stream()", "cohere", raw, COHERE_V1, managed=True),
    ]


SURFACES: Final = (
    *_chat(),
    *_completions(),
    *_responses(),
    *_messages(),
    *_compatible(),
    *_content(),
    *_interactions(),
    *_bedrock(),
    *_ollama(),
    *_cohere(),
)
STREAMS: Final = tuple(
    surface
    for surface in SURFACES
    if surface.reading is LOOP
    and surface.host not in {AZURE, COMPATIBLE, BEDROCK, GEMINI, VERTEX, OLLAMA, COHERE, COHERE_V1}
    and surface.operation == "chat"
    and not surface.call.startswith("beta.")
)
"""The rows of the SDKs of one family (Stainless) that give a caller a stream object: `create`, `.stream()`, raw and
streaming responses of each API."""
OTHER_STREAMS: Final = tuple(
    surface
    for surface in SURFACES
    if surface.host in {BEDROCK, GEMINI, OLLAMA, COHERE, COHERE_V1}
    and surface.reading is LOOP
    and surface.operation != "fetch_response"
    and (not surface.managed or surface.host is GEMINI)
)
"""The rows of the other SDKs that give a caller a stream object, or a generator."""
CREATED: Final = tuple(surface for surface in STREAMS if surface.call.endswith("s.create(stream=True)"))
"""Of these, `create(stream=True)` of each API."""
EVERY_CREATED: Final = (
    *CREATED,
    *(
        surface
        for surface in OTHER_STREAMS
        if (surface.host is GEMINI and surface.call.endswith(("s.create(stream=True)", "generate_content_stream()")))
        or (surface.host in {OLLAMA, COHERE} and surface.operation == "chat")
    ),
)
"""The same, with what corresponds to it in google-genai, ollama and cohere."""
