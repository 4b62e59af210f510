"""`python -m bench.overhead.bedrock`: what measuring Bedrock's streams costs, and every other call of AWS.

botocore hands out dicts and not the objects of the other SDKs, over a transport of its own, so that it is measured here
and not among them. Responses come from bytes in memory; bare and measured samples alternate.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from statistics import median
from time import perf_counter_ns, process_time_ns
from typing import Any, NamedTuple

from aiobotocore.awsrequest import AioAWSResponse
from aiobotocore.session import get_session as get_async_session
from botocore.awsrequest import AWSResponse
from botocore.session import get_session

import otel_itl
from bench.overhead.variants import Pipeline
from otel_itl.testing import Script, bedrock

_KEYS = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}
_REQUEST = {"modelId": "m", "messages": [{"role": "user", "content": [{"text": "hello"}]}]}


class Line(NamedTuple):
    """One line of the table: nanoseconds per chunk, or per call."""

    name: str
    bare: float
    floor: float | None
    measured: float


class _Response:
    """The response under an event stream, of urllib3 and of aiohttp."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        self._blocks = blocks

    def stream(self) -> Iterator[bytes]:
        return iter(self._blocks)

    @property
    def content(self) -> _Response:
        return self

    async def iter_chunks(self) -> AsyncIterator[tuple[bytes, bool]]:
        for block in self._blocks:
            yield block, True

    def close(self) -> None:
        """Do nothing."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead.bedrock", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs")
    quick = parser.parse_args(arguments).quick
    tokens, rounds = (20, 2) if quick else (1_000, 60)
    lines = [
        _streams("`converse_stream`, sync", bedrock.reply(tokens), "ConverseStream", rounds),
        _streams("`converse_stream`, async", bedrock.reply(tokens), "ConverseStream", rounds, is_async=True),
        _streams("`invoke_model…`, sync", bedrock.anthropic_reply(tokens), "InvokeModelWithResponseStream", rounds),
        _streams(
            *("`invoke_model…`, async", bedrock.anthropic_reply(tokens), "InvokeModelWithResponseStream", rounds),
            is_async=True,
        ),
        _other_calls(20 if quick else 6_000),
    ]
    print_lines(lines)


def print_lines(lines: Sequence[Line]) -> None:
    """Print the table."""
    print("| | bare | floor | otel_itl | added | of the bare |\n|---|---|---|---|---|---|")
    for line in lines:
        floor = "-" if line.floor is None else f"{(line.floor - line.bare) / 1e3:+.2f} µs"
        added = line.measured - line.bare
        print(f"| {line.name} | {line.bare / 1e3:.1f} µs | {floor} | {line.measured / 1e3:.1f} µs "
              f"| {added / 1e3:+.2f} µs | {added / line.bare:+.1%} |")  # fmt: skip


def _streams(name: str, script: Script, operation: str, rounds: int, *, is_async: bool = False) -> Line:
    """Measure what a chunk costs while a stream runs: the least over streams that alternate."""
    blocks = [step.event.encode() for step in script]
    request = _REQUEST if operation == "ConverseStream" else {"modelId": "m", "body": "{}"}
    read, make_client = _read_async if is_async else _read, _client_maker(blocks, is_async=is_async)
    call = partial(read, make_client, operation, request, len(blocks))
    samples = alternate(
        {
            "bare": lambda: call(floor=False),
            "floor": lambda: call(floor=True),
            "measured": lambda: call(floor=False),
        },
        rounds,
    )
    bare, floor, measured = (min(samples[variant]) / len(blocks) for variant in ("bare", "floor", "measured"))
    return Line(f"a chunk of {name}", bare, floor, measured)


def _other_calls(rounds: int) -> Line:
    """Measure a call of another service, whose response is read at once."""
    client: Any = get_session().create_client("s3", **_KEYS)
    raw: Any = type("Raw", (BytesIO,), {"stream": lambda self, **_: iter([self.read()])})
    client.meta.events.register(
        "before-send", lambda request, **_: AWSResponse(request.url, 200, {"content-length": "5"}, raw(b"hello"))
    )

    def call() -> int:
        began = process_time_ns()
        client.get_object(Bucket="b", Key="k")["Body"].read()
        return process_time_ns() - began

    samples = alternate({"bare": call, "measured": call}, rounds, batch=200)
    return Line("a call of S3's `get_object`", median(samples["bare"]), None, median(samples["measured"]))


def alternate(
    variants: dict[str, Callable[[], int]], rounds: int, sdk: str = "bedrock", batch: int = 1
) -> dict[str, list[int]]:
    """Take samples of each variant in turns; `measured` with the instrumentation of `sdk` on, the others without."""
    samples: dict[str, list[int]] = {name: [] for name in variants}
    pipeline = Pipeline()
    for turn in range(-1, -(-rounds // batch)):
        for name, sample in variants.items():
            if name == "measured":
                otel_itl.instrument(sdks=[sdk], **pipeline.providers())
            taken = [sample() for _ in range(batch + batch // 4)][batch // 4 :]
            otel_itl.uninstrument()
            if turn >= 0:  # the first turn is for warming up
                samples[name] += taken
    return samples


def _client_maker(blocks: Sequence[bytes], *, is_async: bool) -> Callable[[], Any]:
    """Return what makes a client whose every response is an event stream of these blocks; it makes a sync one once."""

    def answer(request: Any, **_: Any) -> Any:
        return response_type(request.url, 200, {}, _Response(blocks))

    response_type: Any = AioAWSResponse if is_async else AWSResponse
    session: Any = get_async_session() if is_async else get_session()
    session.register("before-send.bedrock-runtime", answer)
    make = partial(session.create_client, "bedrock-runtime", **_KEYS)
    return make if is_async else partial(_as_it_is, make())


def _as_it_is(client: Any) -> Any:
    return client


def _read(make_client: Callable[[], Any], operation: str, request: Any, left: int, *, floor: bool) -> int:
    """Return the CPU time up to the last of the chunks that are `left`: the end of the stream is not among it."""
    response = make_client()._make_api_call(operation, request)  # noqa: SLF001 - what every method of a client calls
    chunks = iter(response.get("stream") or response["body"])
    began, drained = process_time_ns(), 0
    for _ in sync_floor(chunks) if floor else chunks:
        left -= 1
        if not left:
            drained = process_time_ns()
    return drained - began


def _read_async(make_client: Callable[[], Any], operation: str, request: Any, left: int, *, floor: bool) -> int:
    """Do the same as `_read`, for an asynchronous stream."""

    async def read(left: int) -> int:
        async with make_client() as entered:
            response = await entered._make_api_call(operation, request)  # noqa: SLF001 - as above
            chunks = aiter(response.get("stream") or response["body"])
            began, drained = process_time_ns(), 0
            async for _ in async_floor(chunks) if floor else chunks:
                left -= 1
                if not left:
                    drained = process_time_ns()
            return drained - began

    return asyncio.run(read(left))


def sync_floor(chunks: Iterator[Any]) -> Iterator[Any]:
    """Take two moments of each chunk, and nothing else."""
    moments: list[int] = []
    append, pull = moments.append, chunks.__next__
    while True:
        append(perf_counter_ns())
        try:
            chunk = pull()
        except StopIteration:
            return
        append(perf_counter_ns())
        yield chunk


async def async_floor(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Do the same as `sync_floor`, for an asynchronous stream."""
    moments: list[int] = []
    append, pull = moments.append, chunks.__anext__
    while True:
        append(perf_counter_ns())
        try:
            chunk = await pull()
        except StopAsyncIteration:
            return
        append(perf_counter_ns())
        yield chunk


if __name__ == "__main__":
    main()
