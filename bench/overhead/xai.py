"""`python -m bench.overhead.xai`: what measuring the xai-sdk's streams costs, over calls in memory.

The SDK reads messages that are decoded already, so that what it spends is its own work on each message alone, without
gRPC's. Bare and measured streams alternate.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from importlib import import_module
from time import perf_counter_ns, process_time_ns
from types import SimpleNamespace
from typing import Any, Final

import otel_itl
from bench.overhead.variants import Pipeline
from otel_itl.testing import xai

_METHOD: Final = "/xai_api.Chat/GetCompletionChunk"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead.xai", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs")
    quick = parser.parse_args(arguments).quick
    tokens, rounds = (20, 2) if quick else (1_000, 60)
    messages = _messages(tokens)
    least = dict.fromkeys(("bare", "floor", "otel_itl"), float("inf"))
    pipeline = Pipeline()
    for turn in range(-1, rounds):
        for variant in least:
            if variant == "otel_itl":
                otel_itl.instrument(sdks=["xai"], **pipeline.providers())
            taken = _read(messages, floor=variant == "floor") / len(messages)
            otel_itl.uninstrument()
            if turn >= 0:  # the first turn is for warming up
                least[variant] = min(least[variant], taken)
    print("| a chunk of | bare | floor | otel_itl | of the bare |\n|---|---|---|---|---|")
    floor, added = least["floor"] - least["bare"], least["otel_itl"] - least["bare"]
    print(f"| `chat.stream()`, sync | {least['bare'] / 1e3:.2f} µs | {floor / 1e3:+.2f} µs | {added / 1e3:+.2f} µs "
          f"| {added / least['bare']:+.1%} |")  # fmt: skip


def _messages(tokens: int) -> list[Any]:
    """Return the decoded messages of a stream."""
    decode = import_module("xai_sdk.proto").chat_pb2.GetChatCompletionChunk.FromString
    return [decode(step.event.encode()[5:]) for step in xai.reply(tokens)]


def _read(messages: Sequence[Any], *, floor: bool) -> int:
    """Return the CPU time up to the last message: the end of the stream is not among it."""
    interceptor = import_module("xai_sdk.interceptors").TimeoutInterceptor(5.0)
    call = _Call(_floor(iter(messages)) if floor else iter(messages))
    details = SimpleNamespace(method=_METHOD, metadata=(), _replace=lambda **_: details)
    stub = SimpleNamespace(
        GetCompletionChunk=lambda request: interceptor.intercept_unary_stream(lambda *_: call, details, request)
    )
    chat = import_module("xai_sdk.sync.chat")
    conversation = chat.Chat(stub, None, batch_request_id=None, model="m", messages=[_user()])
    left, drained = len(messages), 0
    began = process_time_ns()
    for _ in conversation.stream():
        left -= 1
        if not left:
            drained = process_time_ns()
    return drained - began


def _user() -> Any:
    return import_module("xai_sdk.chat").user("hello")


class _Call:
    """A call of gRPC, as far as it is used here."""

    def __init__(self, responses: Iterator[Any]) -> None:
        self._next = responses.__next__

    def done(self) -> bool:
        """Return False."""
        return False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._next()


def _floor(chunks: Iterator[Any]) -> Iterator[Any]:
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


if __name__ == "__main__":
    main()
