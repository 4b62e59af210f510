"""The scenarios: what is streamed, how it is read, and which figures a client can know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import chain
from random import Random
from typing import Final, NamedTuple

from bench.truth.between import Between
from bench.truth.callers import Block, Caller, PauseOnce
from bench.truth.clients import CLIENTS, Wire
from bench.truth.figures import FIGURES
from bench.truth.proxy import buffering_proxy
from otel_itl.testing import Script, bedrock, chat, cohere, faults, gemini, messages, mistral, ollama, responses, xai

MISSING_HTTP2: Final = "" if find_spec("h2") else "the h2 package is not installed"
"""Why HTTP/2 cannot be used; '' where it can."""
EVERYTHING: Final = frozenset(FIGURES)
_BUFFERING: Final = partial(buffering_proxy, size=2_000, delay=0.08)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One scenario: what is streamed, how it is read, and which figures a client can know."""

    name: str
    about: str
    """Description in a few words, for a table."""
    scripts: Callable[[Random], list[Script]]
    """Returns the responses to the requests of one stream; all but the last make the client retry."""
    caller: Caller = field(default_factory=Caller)
    streams: int = 1
    between: Callable[[int], Between] | None = None
    """Returns the program in front of the server, given the server's port."""
    counted: bool = False
    """Whether the server reports the number of tokens in each chunk."""
    knowable: frozenset[str] = EVERYTHING
    impossible: str = ""
    """Why it cannot be run; '' where it can."""


def _each(script: Callable[[Random], Script]) -> Callable[[Random], list[Script]]:
    return lambda random: [script(random)]


def _even(tokens: int, gap: float, first: float = 0.05) -> Callable[[Random], list[Script]]:
    return _each(lambda _: chat.reply(tokens, first=first, gaps=gap))


def _heavy_tailed(random: Random) -> Script:
    return chat.reply(60, first=0.05, gaps=[random.lognormvariate(-5.3, 1.0) for _ in range(59)])


def _stalled(_: Random) -> Script:
    gaps = [0.01] * 39
    gaps[20] = 0.5
    return chat.reply(40, first=0.05, gaps=gaps)


def _jittered(reply: Callable[..., Script]) -> Callable[[Random], list[Script]]:
    """Stream gaps of 20 to 40 ms in one wire format."""

    def jittered(random: Random) -> Script:
        gaps = [random.uniform(0.02, 0.04) for _ in range(19)]
        return reply(20, first=0.05 + 0.2 * random.random(), gaps=gaps)

    return _each(jittered)


def _tool_call(_: Random) -> Script:
    return chat.reply(0, first=0.05, gaps=0.01, tools=[("get_weather", [f'"{index}",' for index in range(30)])])


def _three_a_chunk(random: Random) -> Script:
    """Stream as vLLM with `continuous_usage_stats` and speculative decoding."""
    steps = [chat.delta("role", {"role": "assistant", "content": ""}, usage=chat.usage_object(0))]
    for index in range(30):
        usage = chat.usage_object(3 * index + 3)
        delay = random.uniform(0.01, 0.02) if index else 0.05
        steps.append(chat.delta("answer", {"content": "one two three "}, tokens=3, usage=usage, after=delay))
    return Script([*steps, chat.finish(), chat.usage(90), chat.done()])


def _two_choices(random: Random) -> Script:
    # The choices take turns: each has its own pace, and a token of the other follows almost at once.
    return chat.reply(
        30, first=0.05, gaps=[gap for _ in range(30) for gap in (0.002, random.uniform(0.008, 0.018))][:-1], choices=2
    )


def _refused_first(_: Random) -> list[Script]:
    return [faults.status(429, "Slow down", headers={"retry-after-ms": "100"}), *_even(40, 0.01)(_)]


class _Format(NamedTuple):
    """A wire format whose SDK is compared with the truth, too."""

    wire: Wire
    name: str
    """Name of the SDK, in the names of its scenarios."""
    about: str
    """What is asked of it."""
    reply: Callable[..., Script]
    crowd: int = 20
    """Streams on one event loop: as many as the SDK can decode there at their pace."""


_FORMATS: Final = (
    _Format("messages", "anthropic", "the anthropic SDK", messages.reply),
    _Format("responses", "responses", "the Responses API", responses.reply),
    _Format("converse", "Bedrock", "converse_stream of boto3 or aiobotocore", bedrock.reply),
    _Format("ollama", "ollama", "ollama's chat", ollama.reply),
    _Format("cohere", "cohere", "cohere's second API", cohere.reply),
    _Format("xai", "xai", "the xai-sdk over gRPC", xai.reply),
    _Format("gemini", "Gemini", "generate_content_stream of google-genai", gemini.reply),
    _Format("mistral", "mistralai", "mistralai's chat", mistral.reply, crowd=5),
    _Format("litellm", "litellm", "litellm's route to Anthropic", messages.reply),
    _Format("hugging", "huggingface_hub", "chat_completion of huggingface_hub", chat.reply),
)


def _scenarios_of(format_: _Format) -> Iterator[Scenario]:
    """Yield the two scenarios of every SDK: one stream, and a crowd on an event loop."""
    wire, name, about, reply, crowd = format_
    yield Scenario(
        name=f"{name} 25 ms",
        about=f"{about}, 25 ms",
        scripts=_each(lambda _: reply(20, first=0.05, gaps=0.025)),
        caller=Caller(wire=wire),
        impossible=CLIENTS[wire].missing,
    )
    yield Scenario(
        name=f"{name}, {crowd} on a loop",
        about=f"{crowd} streams of {about} on one event loop, gaps of 20 to 40 ms",
        scripts=_jittered(reply),
        caller=Caller(wire=wire, face="loop"),
        streams=crowd,
        impossible=CLIENTS[wire].missing,
    )


SCENARIOS: Final = (
    Scenario(name="steady 1.4 ms", about="713 tokens/s", scripts=_even(300, 0.0014)),
    Scenario(name="steady 25 ms", about="40 tokens/s", scripts=_even(20, 0.025)),
    Scenario(name="heavy tail", about="log-normal gaps, median 5 ms, sigma 1", scripts=_each(_heavy_tailed)),
    Scenario(name="one stall", about="500 ms once, else 10 ms", scripts=_each(_stalled)),
    Scenario(
        name="consumer 5 ms",
        about="the caller works 5 ms on each chunk of a 10 ms stream",
        scripts=_even(40, 0.01),
        caller=Caller(pause=lambda _: 0.005),
    ),
    Scenario(
        name="consumer 200 ms",
        about="the caller works 200 ms on each chunk of a 10 ms stream",
        scripts=_even(5, 0.01),
        caller=Caller(pause=lambda _: 0.2),
        knowable=frozenset(),
    ),
    Scenario(
        name="consumer pauses",
        about="the caller pauses once for 2 s; 25 ms stream",
        scripts=_even(95, 0.025),
        caller=Caller(pause=PauseOnce(8, 2.0)),
        knowable=frozenset({"ttft", "mean"}),
    ),
    Scenario(
        name="consumer late",
        about="the caller works 300 ms on the role chunk; 10 ms stream",
        scripts=_even(40, 0.01),
        caller=Caller(pause=PauseOnce(0, 0.3)),
        knowable=frozenset(),
    ),
    Scenario(
        name="loop blocked",
        about="other work blocks the event loop for 300 ms; 10 ms stream",
        scripts=_even(60, 0.01),
        caller=Caller(face="loop", block=Block(after=0.3, lasts=0.3)),
        knowable=frozenset({"ttft", "mean"}),
    ),
    Scenario(
        name="loop blocked early",
        about="other work blocks the event loop for 300 ms before the headers come; 10 ms stream",
        scripts=_each(lambda _: replace(chat.reply(40, first=0.05, gaps=0.01), headers_delay=0.1)),
        caller=Caller(face="loop", block=Block(after=0.03, lasts=0.3)),
        knowable=frozenset(),
    ),
    Scenario(
        name="50 on a loop",
        about="50 streams on one event loop, gaps of 20 to 40 ms",
        scripts=_jittered(chat.reply),
        caller=Caller(face="loop"),
        streams=50,
    ),
    Scenario(
        name="8 threads",
        about="8 streams in threads, gaps of 20 to 40 ms",
        scripts=_jittered(chat.reply),
        caller=Caller(face="threads"),
        streams=8,
    ),
    Scenario(name="role first", about="a role chunk 300 ms before the first token", scripts=_even(25, 0.01, first=0.3)),
    Scenario(
        name="reasoning",
        about="20 reasoning tokens, then 20 of the answer",
        scripts=_each(lambda _: chat.reply(20, reasoning=20, first=0.05, gaps=0.012)),
    ),
    Scenario(name="tool call", about="nothing but a tool call, 10 ms", scripts=_each(_tool_call)),
    Scenario(
        name="5 a write",
        about="5 events in each write, every 50 ms",
        scripts=_each(lambda _: faults.coalesce(chat.reply(45, first=0.05, gaps=0.01), 5)),
    ),
    Scenario(
        name="gzip",
        about="compressed, flushed with each event, 10 ms",
        scripts=_each(lambda _: replace(chat.reply(40, first=0.05, gaps=0.01), gzip=True)),
    ),
    Scenario(
        name="buffering proxy",
        about="forwards every 2,000 bytes or 80 ms; 10 ms stream",
        scripts=_even(60, 0.01),
        between=_BUFFERING,
    ),
    Scenario(
        name="gzip, buffering proxy",
        about="compressed, forwarded every 80 ms; 10 ms stream",
        scripts=_each(lambda _: replace(chat.reply(60, first=0.05, gaps=0.01), gzip=True)),
        between=_BUFFERING,
    ),
    Scenario(
        name="3 tokens a chunk",
        about="continuous usage counts 3 tokens in each chunk, 10 to 20 ms",
        scripts=_each(_three_a_chunk),
        counted=True,
    ),
    Scenario(name="n=2", about="two choices take turns; each 10 to 20 ms", scripts=_each(_two_choices)),
    Scenario(name="retry", about="429, again after 100 ms; then 10 ms", scripts=_refused_first),
    *chain.from_iterable(map(_scenarios_of, _FORMATS)),
    Scenario(
        name="HTTP/2",
        about="25 ms over HTTP/2",
        scripts=_even(20, 0.025),
        caller=Caller(http2=True),
        impossible=MISSING_HTTP2,
    ),
)


_SHORT: Final[Mapping[Wire, Script]] = {
    "chat": chat.reply(3),
    **{format_.wire: format_.reply(3) for format_ in _FORMATS},
}


def warm_up(caller: Caller) -> Scenario:
    """Return a stream of a few tokens, so that what happens once has happened before anything is measured."""
    plain = Caller(wire=caller.wire, http2=caller.http2)
    return Scenario(name="warm-up", about="", scripts=_each(lambda _: _SHORT[plain.wire]), caller=plain)
