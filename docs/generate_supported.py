"""Writes docs/supported.md and the README's table from the surfaces that the tests cover: run it without arguments."""  # noqa: INP001 - a script, no package

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "supported.md"
README: Final = HERE.parent / "README.md"
MARKS: Final = "<!-- supported:begin -->\n", "<!-- supported:end -->"
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "sdks")]

from not_measured import NOT_MEASURED, PACKAGES_NOT_MEASURED, Gap  # noqa: E402 - found only now
from surfaces import ROUTED, SURFACES, Surface  # noqa: E402 - found only now

from otel_itl.sdks.registry import REGISTRY, SDKEntry  # noqa: E402 - as above

HEAD: Final = """\
<!-- Made from tests/sdks/surfaces.py by docs/generate_supported.py. -->

# Supported surfaces

Every row is tested over real sockets with the SDK's own client, sync and async, from the oldest supported release to
the newest: what is measured, and that the stream, its chunks and the request stay what they are without it.
Clients that were made before `instrument()` are measured like those made after. `pip install 'otel-itl[EXTRA]'`
installs an SDK beside otel_itl; the extras are called as the SDKs are in `instrument(sdks=…)`:
{extras}.
"""
GAPS: Final = """
## Not measured

These calls stream, and **yield no span**, no metric and no line of a report. A test makes each of them with the
installed SDK, and another one finds what streams in an SDK and is in no table. An iterator of chunks can be given to
[`otel_itl.observe()`](any-provider.md).

| SDK | what | `client.` (sync and async) |
|---|---|---|
{rows}

Nor are the streams of these packages:

| package | remark |
|---|---|
{packages}

What is measured of a call that does other things first (an agent's framework, a gateway's client) is the request that
it makes by an SDK of a table above, and nothing else of it.
"""
FOOT: Final = """
## Remarks

* A release that lacks a call (openai 1.40 has no `client.responses`) is measured in all the others.
* `.iter_lines()`, `.iter_bytes()` and `.read()` give bytes: the SDK makes no chunk objects, so that the span has the
  duration and the outcome, but no tokens and no time to first token.
* `provider` is `gen_ai.provider.name`. It follows the host that is asked, also of clients of compatible servers; where
  the host is not known, it follows the class of the client (`AzureOpenAI`, `AnthropicBedrock`, `AnthropicVertex`), else
  the SDK.
* Responses over WebSockets (`responses.connect()`, `beta.responses.connect()`, the sessions of openai's
  `ResponsesWebSocketSession`, and the model of openai-agents that speaks them without the openai SDK) are measured with
  websockets 13 or later, sync and async: each response is a record, whatever reads it. A connection is recognized by
  the end of its path, `/responses`. `abort_after` cannot abort one. In the synchronous client of websockets before 14,
  a message waits until the one before was read, so that a consumer that holds hides arrivals, as over HTTP.
* Not every request streams: groq's audio does not, and `Fireworks().messages` has no stream objects.
* Bedrock: the synchronous client is boto3's or botocore's, the asynchronous one is aioboto3's or aiobotocore's. The
  stream is `["stream"]` of the response of `converse_stream`, and `["body"]` of that of
  `invoke_model_with_response_stream`. The answers of Anthropic's, Nova, Llama, Mistral's and Titan models are
  distinguished by their fields; chat formats like OpenAI's and the text of Command models are recognized, too. What a
  release of botocore does not know, such as reasoning before 1.37, it drops before it is seen. `abort_after` works with
  both clients. Other AWS calls are left alone, and so are agents (`invoke_inline_agent`, `invoke_flow`, AgentCore, Q
  Business) and the bidirectional streams.
* A stream over aiohttp (the default of `AsyncFireworks`) is measured; `abort_after` cannot abort it.
* google-genai: a call of `models` or `chats` is one record for each HTTP request that it makes (automatic function
  calling, continuation), which begins when the request is sent: with the first pull. What the caller gets is a
  generator, and closing it looks like dropping it from inside: a stream that is left early is `abandoned`.
  `interactions` are measured from google-genai 2.9 on; an error that breaks one has the type of the HTTP client's
  exception. `abort_after` aborts streams over httpx, httpx2 and aiohttp, and none over requests (with mTLS).
* litellm has no client: the first column is the model, and the functions are `litellm.completion` and
  `litellm.acompletion` (`text_completion`, `responses`, and the methods of `Router`, likewise), wherever they were
  imported, also before `instrument()`. A route that goes through the openai SDK is recorded there where that is
  measured as well, else by litellm. All routes of litellm's common HTTP handler are measured, which are most of its
  providers; those with a handler of their own are not, apart from Anthropic's, Gemini's, Vertex AI's, Bedrock's, and
  Databricks' kind (`openai_like`): SageMaker, Replicate, Predibase, Codestral and NLP Cloud are not measured. An
  answer that litellm makes up (`mock_response`, its cache, a stream that it fakes) is no record. litellm gives each
  chunk of Gemini a finish reason, so that a truncated one counts as `completed`, and passes on no response id of
  Anthropic's or Bedrock's. It holds the last call until there is another one: a stream that is dropped may be
  reported only then. `abort_after` works over httpx and aiohttp.
* ollama: the request is sent with the first pull, and what the caller gets is a generator, as with google-genai. The
  functions `ollama.chat()` and `ollama.generate()` are measured, too. The server's own times are on the span
  ([telemetry](telemetry.md)). `abort_after` can abort a stream from its first chunk on. `generate` for an image streams
  the progress, and then the image as one output chunk. Where a program ends right after it has left an asynchronous
  stream, asyncio may log before Python 3.13 that a generator cannot be closed.
* cohere: the request is sent with the first pull, or where the block of `with_raw_response` is entered. Cohere's
  Bedrock, SageMaker and OCI clients pass the same hook. A plan for tool calls
  (`tool_plan`) counts as reasoning. A generation that fails within the stream is an event to the SDK: the span has the
  error `error`. `generate_stream` of the first API is not measured. `abort_after` works as over any httpx.
* xai-sdk: `chat.stream()` and `chat.stream_batch()` are measured at the gRPC call under them, of which the caller gets
  the SDK's own generator: a stream that is left early is `abandoned`, as closing a generator looks like dropping it.
  Where the SDK's own span records, it is the one span. `error.type` is the status of the call, such as `UNAVAILABLE`.
  `abort_after` cancels the call, and its reader gets a `grpc.RpcError` with the status `DEADLINE_EXCEEDED`. `sample`,
  `parse` and `defer` do not stream.
* mistralai: `MistralAzure` and `MistralGCP` are in packages of their own, and so is everything before 2.0. Each call
  has an asynchronous twin, `chat.stream_async` and so on. The SDK starts spans of its own from 1.10 on, from 3.0 on
  only where it is asked to: where one of them records, it is the one span of the request, with the SDK's description
  of request and response, and ours of the latency. A span that the SDK exports to Mistral itself does not count.
  `conversations` have no finish reason. `abort_after` aborts streams over httpx and httpx2.
* huggingface_hub: the caller gets a generator for the SDK's, and closing it looks like dropping it from inside: a
  stream that is left early is `abandoned`. Of `text_generation(stream=True)` without `details=True`, which gives
  texts, finish reason and token counts are read from the last line of the response. `abort_after` aborts streams
  over httpx, httpx2, requests and aiohttp.
* A gateway (`base_url` of LiteLLM's proxy, nginx, Envoy) changes what the figures mean: [gateways.md](gateways.md).
* An iterator that no hook sees is measured by `otel_itl.observe()`.
"""


def page() -> str:
    """Return the page as it must be."""
    return (
        HEAD.format(extras=", ".join(f"`{name}`" for name in REGISTRY))
        + "".join(map(_section, REGISTRY.values()))
        + GAPS.format(rows="\n".join(_gap_rows()), packages="\n".join(_package_rows()))
        + FOOT
    )


def _gap_rows() -> list[str]:
    """Return the rows of what streams and is not measured: one for each SDK and topic."""
    rows: dict[tuple[str, str], list[Gap]] = {}
    for gap in NOT_MEASURED:
        rows.setdefault((gap.sdk, gap.topic), []).append(gap)
    return [
        f"| {REGISTRY[sdk].distribution} | {topic} | {', '.join(map(_name_gap, gaps))} |"
        for (sdk, topic), gaps in rows.items()
    ]


def _name_gap(gap: Gap) -> str:
    return f"`{gap.call}`" + (f" of `{gap.service}`" if gap.service else "")


def _package_rows() -> list[str]:
    return [f"| {packages} | {remark} |" for packages, remark in PACKAGES_NOT_MEASURED]


def _section(sdk: SDKEntry) -> str:
    """Return the table of one SDK: a row for each call of a client, with the ways to read the stream."""
    rows: dict[tuple[Any, ...], list[str]] = {}
    for surface in _surfaces_of(sdk):
        rows.setdefault(_call(surface), []).append(f"`{surface.reading.text}`".replace("`for-loop`", "a loop"))
    lines = [
        f"\n## {sdk.distribution} {_release(sdk)} or later\n",
        "| client, sync and async | `client.` | read by | operation | provider |",
        "|---|---|---|---|---|",
        *(
            f"| `{client}` | `{call}` | {', '.join(readings)} | `{operation}` | `{provider}` |"
            for (client, call, operation, provider), readings in rows.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _surfaces_of(sdk: SDKEntry) -> list[Surface]:
    return [surface for surface in (*SURFACES, *ROUTED) if surface.sdk == sdk.name]


def _release(sdk: SDKEntry) -> str:
    return ".".join(map(str, sdk.oldest))


def _call(surface: Surface) -> tuple[str, str, str, str]:
    parsed = ".parse()" if surface.parsed else ""
    return surface.host.client, surface.call + parsed, surface.operation, surface.host.provider


def table() -> str:
    """Return the README's table: a row for each SDK, with what its clients stream."""
    lines = ["| SDK | `pip install` | from | streams of `client.` (sync and async) |", "|---|---|---|---|"]
    for sdk in REGISTRY.values():
        resources = dict.fromkeys(_resource(surface) for surface in _surfaces_of(sdk))
        lines.append(
            f"| `{sdk.package}` | `{sdk.distribution}` | {_release(sdk)} | "
            f"{', '.join(f'`{resource}`' for resource in resources)} |"
        )
    return "\n".join(lines) + "\n"


def _resource(surface: Surface) -> str:
    """Return the part of a call that names what streams, such as `chat.completions`."""
    resource = re.sub(r"\.(with_\w+|create|stream|start_stream|retrieve|get)\b.*", "", surface.call)
    return re.sub(r"\(.+\)$", "()", resource)


def readme() -> str:
    """Return the README with the table that it must hold."""
    before, _, rest = README.read_text(encoding="utf-8").partition(MARKS[0])
    return before + MARKS[0] + table() + MARKS[1] + rest.partition(MARKS[1])[2]


if __name__ == "__main__":
    README.write_text(readme(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
