"""The one table of what streams and is not measured: `docs/supported.md` lists it, and tests make each call.

Loads no SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

LIVE_SESSION: Final = {"session_id": "s"}
AUDIO: Final = ("a.wav", b"RIFF", "audio/wav")
IMAGE: Final = ("a.png", b"\x89PNG", "image/png")


TLS: Final = "(TLS)"
"""For a path: the client asks by TLS alone, which the tests' server does not speak."""


class Gap(NamedTuple):
    """One call that streams and yields no span."""

    sdk: str
    """Name of the SDK in the registry."""
    topic: str
    """As the page has it."""
    call: str
    """As it is written after `client.`."""
    path: str
    """The end of the path that the call asks for, as a pattern: `*` stands for one segment."""
    make: Callable[[Any], Any]
    """Makes the call with a client; returns what is to be read, which may be a context manager."""
    service: str = ""
    """Of boto3: the service of the client; empty: of another SDK."""


def _asynchronously(connect: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what enters an asynchronous connection, and reads what comes."""

    def run(client: Any) -> None:
        async def read() -> None:
            async with connect(client) as connection:
                async for _ in connection.receive():
                    pass

        asyncio.run(read())

    return run


_ASSISTANTS: Final = "Assistants"
_AGENTS: Final = "agents that the provider runs"
_REALTIME: Final = "Realtime and Live (WebSocket)"
_AUDIO: Final = "speech and transcription"
_IMAGES: Final = "images"
_LEGACY: Final = "an older API"
_OTHER_MODELS: Final = "other models"

NOT_MEASURED: Final = (
    Gap(
        "openai",
        _ASSISTANTS,
        "beta.threads.runs.create(stream=True)",
        "threads/*/runs",
        lambda client: client.beta.threads.runs.create(thread_id="t", assistant_id="a", stream=True),
    ),
    Gap(
        "openai",
        _ASSISTANTS,
        "beta.threads.runs.stream()",
        "threads/*/runs",
        lambda client: client.beta.threads.runs.stream(thread_id="t", assistant_id="a"),
    ),
    Gap(
        "openai",
        _ASSISTANTS,
        "beta.threads.runs.submit_tool_outputs(stream=True)",
        "threads/*/runs/*/submit_tool_outputs",
        lambda client: client.beta.threads.runs.submit_tool_outputs(
            thread_id="t", run_id="r", tool_outputs=[], stream=True
        ),
    ),
    Gap(
        "openai",
        _ASSISTANTS,
        "beta.threads.create_and_run(stream=True)",
        "threads/runs",
        lambda client: client.beta.threads.create_and_run(assistant_id="a", stream=True),
    ),
    Gap(
        "openai",
        _AGENTS,
        "beta.agents.sessions.create(stream=True)",
        "agents/sessions",
        lambda client: client.beta.agents.sessions.create(environment={"type": "none"}, agent_id="a", stream=True),
    ),
    Gap(
        "openai",
        _AGENTS,
        "beta.agents.sessions.stream()",
        "agents/sessions/*",
        lambda client: client.beta.agents.sessions.stream("s", input="hello"),
    ),
    Gap(
        "openai",
        _AGENTS,
        "beta.agents.sessions.events.stream()",
        "agents/sessions/*/events",
        lambda client: client.beta.agents.sessions.events.stream("s"),
    ),
    Gap("openai", _REALTIME, "realtime.connect()", "realtime", lambda client: client.realtime.connect(model="m")),
    Gap(
        "openai",
        _REALTIME,
        "realtime.translations.connect()",
        "realtime/translations",
        lambda client: client.realtime.translations.connect(model="m"),
    ),
    Gap(
        "openai",
        _REALTIME,
        "beta.realtime.connect()",
        "realtime",
        lambda client: client.beta.realtime.connect(model="m"),
    ),
    Gap("openai", _REALTIME, "live.connect()", "live/sessions", lambda client: client.live.connect()),
    Gap(
        "openai",
        _REALTIME,
        "live.forks.connect()",
        "live/sessions/*/fork",
        lambda client: client.live.forks.connect(**LIVE_SESSION),
    ),
    Gap(
        "openai",
        _REALTIME,
        "live.sideband.connect()",
        "live/sessions/*/attach",
        lambda client: client.live.sideband.connect(**LIVE_SESSION),
    ),
    Gap(
        "openai",
        _AUDIO,
        "audio.transcriptions.create(stream=True)",
        "audio/transcriptions",
        lambda client: client.audio.transcriptions.create(model="m", file=AUDIO, stream=True),
    ),
    Gap(
        "openai",
        _IMAGES,
        "images.generate(stream=True)",
        "images/generations",
        lambda client: client.images.generate(prompt="p", model="m", stream=True),
    ),
    Gap(
        "openai",
        _IMAGES,
        "images.edit(stream=True)",
        "images/edits",
        lambda client: client.images.edit(image=IMAGE, prompt="p", model="m", stream=True),
    ),
    Gap(
        "anthropic",
        _AGENTS,
        "beta.sessions.events.stream()",
        "sessions/*/events/stream",
        lambda client: client.beta.sessions.events.stream("s"),
    ),
    Gap(
        "anthropic",
        _AGENTS,
        "beta.sessions.threads.events.stream()",
        "sessions/*/threads/*/stream",
        lambda client: client.beta.sessions.threads.events.stream("t", session_id="s"),
    ),
    Gap(
        "together",
        _REALTIME,
        "beta.realtime.connect()",
        "realtime",
        lambda client: client.beta.realtime.connect(model="m"),
    ),
    Gap(
        "together",
        _REALTIME,
        "beta.realtime.transcription()",
        "realtime",
        lambda client: client.beta.realtime.transcription(model="m"),
    ),
    Gap(
        "together",
        _AUDIO,
        "audio.speech.create(stream=True)",
        "audio/speech",
        lambda client: client.audio.speech.create(model="m", input="i", voice="v", stream=True, response_format="raw"),
    ),
    Gap(
        "google-genai",
        _REALTIME,
        "aio.live.connect()",
        TLS,
        _asynchronously(lambda client: client.aio.live.connect(model="m")),
    ),
    Gap(
        "google-genai",
        _REALTIME,
        "aio.live.music.connect()",
        TLS,
        _asynchronously(lambda client: client.aio.live.music.connect(model="m")),
    ),
    Gap(
        "bedrock",
        _AGENTS,
        "invoke_agent()",
        "agents/*/agentAliases/*/sessions/*/text",
        lambda client: client.invoke_agent(agentId="a" * 10, agentAliasId="b" * 10, sessionId="ss", inputText="i")[
            "completion"
        ],
        "bedrock-agent-runtime",
    ),
    Gap(
        "bedrock",
        _AGENTS,
        "retrieve_and_generate_stream()",
        "retrieveAndGenerateStream",
        lambda client: client.retrieve_and_generate_stream(input={"text": "i"})["stream"],
        "bedrock-agent-runtime",
    ),
    Gap(
        "bedrock",
        _OTHER_MODELS,
        "invoke_endpoint_with_response_stream()",
        "endpoints/*/invocations-response-stream",
        lambda client: client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"{}")["Body"],
        "sagemaker-runtime",
    ),
    Gap(
        "cohere",
        _LEGACY,
        "generate_stream()",
        "generate",
        lambda client: client.generate_stream(prompt="p", model="m"),
    ),
    Gap(
        "mistralai",
        _AUDIO,
        "audio.transcriptions.stream()",
        "audio/transcriptions*",
        lambda client: client.audio.transcriptions.stream(model="m", file_url="https://example.com/a.wav"),
    ),
    Gap(
        "mistralai",
        _AUDIO,
        "audio.speech.complete(stream=True)",
        "audio/speech",
        lambda client: client.audio.speech.complete(input="i", model="m", voice_id="v", stream=True),
    ),
    Gap(
        "mistralai",
        _AGENTS,
        "workflows.executions.stream()",
        "executions/*/stream",
        lambda client: client.workflows.executions.stream(execution_id="e"),
    ),
    Gap(
        "mistralai",
        _AGENTS,
        "events.get_stream_events()",
        "events/stream",
        lambda client: client.events.get_stream_events(),
    ),
    Gap(
        "ollama",
        "the progress of a download",
        "pull(stream=True)",
        "api/pull",
        lambda client: client.pull("m", stream=True),
    ),
)
"""Every call that is known to stream and not to be measured, with the SDK's synchronous client where it has one."""

PACKAGES_NOT_MEASURED: Final = (
    ("claude-agent-sdk", "the model is asked by a program of its own, `claude`"),
    ("dspy", "its own engine; `dspy.LM` over litellm or openai is measured there"),
    ("google-cloud-aiplatform, google-generativeai", "the predecessors of google-genai"),
    ("azure-ai-inference", "`ChatCompletionsClient.complete(stream=True)`"),
    ("ibm-watsonx-ai, replicate, ai21, writerai", "and every other SDK that is not in a table above"),
    ("transformers, vllm, llama-cpp-python", "engines in the process itself: there is no request"),
)
"""Packages that stream and are not hooked, and a remark. An iterator of theirs can be given to `observe()`."""
