"""`python -m bench.overhead.lazy_sdks`: what measuring the streams of ollama and cohere costs.

Their iterators are generators, which no stub of another SDK fits. Responses come from bytes in memory by httpx; bare
and measured samples alternate.
"""

from __future__ import annotations

import argparse
import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from importlib import import_module
from inspect import isawaitable
from time import process_time_ns
from typing import Any, Final, NamedTuple

import httpx

from bench.overhead.bedrock import Line, alternate, async_floor, print_lines, sync_floor
from otel_itl.testing import Script, cohere, ollama

_QUESTION: Final = [{"role": "user", "content": "hello"}]


class Subject(NamedTuple):
    """One way of asking one SDK."""

    name: str
    """As the table shows it."""
    sdk: str
    client: str
    """Name of the class of its client; of the asynchronous one, after `Async`."""
    options: Callable[[Any], dict[str, Any]]
    """Returns the options of a client whose httpx client is given."""
    request: Callable[[Any], Any]
    reply: Callable[[int], Script]
    extra_chunks: int
    """Chunks of a stream that carry no token."""


SUBJECTS: Final = (
    Subject(
        name="ollama `chat`",
        sdk="ollama",
        client="Client",
        options=lambda http: {"transport": http._transport},  # noqa: SLF001 - it makes an httpx client of its own
        request=lambda client: client.chat(model="m", messages=_QUESTION, stream=True),
        reply=ollama.reply,
        extra_chunks=1,
    ),
    Subject(
        name="cohere `chat_stream`",
        sdk="cohere",
        client="ClientV2",
        options=lambda http: {"httpx_client": http, "api_key": "none"},
        request=lambda client: client.chat_stream(model="m", messages=_QUESTION),
        reply=cohere.reply,
        extra_chunks=4,
    ),
    Subject(
        name="cohere `chat_stream` of the first API",
        sdk="cohere",
        client="Client",
        options=lambda http: {"httpx_client": http, "api_key": "none"},
        request=lambda client: client.chat_stream(model="m", message="hello"),
        reply=cohere.v1_reply,
        extra_chunks=2,
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead.lazy_sdks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs")
    quick = parser.parse_args(arguments).quick
    warnings.simplefilter("ignore")  # cohere's, about pydantic
    tokens, rounds = (20, 2) if quick else (1_000, 20)
    print_lines([_line(subject, tokens, rounds, is_async=face) for subject in SUBJECTS for face in (False, True)])


def _line(subject: Subject, tokens: int, rounds: int, *, is_async: bool) -> Line:
    """Measure what a chunk costs while a stream runs: the least over streams that alternate."""
    blocks = [step.event.encode() for step in subject.reply(tokens)]
    chunks = tokens + subject.extra_chunks

    def read(*, floor: bool) -> int:
        client = _make_client(subject, blocks, is_async=is_async)
        if is_async:
            return asyncio.run(_read_async(subject, client, chunks, floor=floor))
        return _read(subject, client, chunks, floor=floor)

    samples = alternate(
        {
            "bare": lambda: read(floor=False),
            "floor": lambda: read(floor=True),
            "measured": lambda: read(floor=False),
        },
        rounds,
        subject.sdk,
    )
    bare, floor, measured = (min(samples[variant]) / chunks for variant in ("bare", "floor", "measured"))
    return Line(f"a chunk of {subject.name}, {'async' if is_async else 'sync'}", bare, floor, measured)


def _make_client(subject: Subject, blocks: Sequence[bytes], *, is_async: bool) -> Any:
    """Make a client whose every response has these blocks."""

    async def stream() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block

    def answer(_: Any) -> Any:
        content = stream() if is_async else iter(blocks)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=content)

    http = (httpx.AsyncClient if is_async else httpx.Client)(transport=httpx.MockTransport(answer))
    sdk = import_module(subject.sdk)
    return getattr(sdk, f"Async{subject.client}" if is_async else subject.client)(**subject.options(http))


def _read(subject: Subject, client: Any, left: int, *, floor: bool) -> int:
    """Return the CPU time from the first chunk to the last of those that are `left`."""
    chunks = iter(subject.request(client))
    if floor:
        chunks = sync_floor(chunks)
    next(chunks)
    began = process_time_ns()
    for _ in range(left - 1):
        next(chunks)
    return process_time_ns() - began


async def _read_async(subject: Subject, client: Any, left: int, *, floor: bool) -> int:
    """Do the same as `_read`, for an asynchronous stream."""
    stream = subject.request(client)
    chunks = aiter(await stream if isawaitable(stream) else stream)
    if floor:
        chunks = async_floor(chunks)
    await anext(chunks)
    began = process_time_ns()
    for _ in range(left - 1):
        await anext(chunks)
    return process_time_ns() - began


if __name__ == "__main__":
    main()
