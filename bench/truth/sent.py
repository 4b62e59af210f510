"""The truth about a stream: when what carries its tokens left the server, or the proxy before it."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

import h11

from bench.truth.figures import Stream
from bench.truth.proxy import Forwards
from otel_itl.testing import Event, Exchange

_GZIP = 16 + zlib.MAX_WBITS


def true_stream(called_ns: int, exchange: Exchange, *, counted: bool, forwards: Forwards | None = None) -> Stream:
    """What an ideal client of an exchange would have measured.

    Args:
        called_ns: when the caller entered the SDK.
        exchange: with the server, as the server saw it.
        counted: the server says how many tokens are in each chunk: a gap before three of them is three thirds of it.
        forwards: what a proxy in between did.
    """
    left = [sent.complete_ns for sent in exchange.sent] if forwards is None else list(_left(forwards))
    outputs = [(sent.event, at) for sent, at in zip(exchange.sent, left, strict=True) if sent.output]
    by_choice = defaultdict(list)
    for event, at in outputs:
        by_choice[_choice(event)].append((at, event.tokens if counted else 1))
    return Stream(
        ttft=outputs[0][1] - called_ns,
        samples=[
            (after - before) / tokens
            for sent in by_choice.values()
            for (before, _), (after, tokens) in pairwise(sent)
            for _ in range(tokens)
        ],
    )


def _choice(event: Event) -> int:
    if event.wire != "chat":
        return 0
    index: int = json.loads(event.data)["choices"][0]["index"]
    return index


def _left(forwards: Forwards) -> Iterator[int]:
    """When the last byte of each server-sent event left the proxy."""
    unread = b""
    for at, data in _bodies(forwards):
        *events, unread = (unread + data).split(b"\n\n")
        yield from (at for _ in events)


def _bodies(forwards: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The body of the one response that was forwarded, without its framing and compression."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "proxy")]))
    connection.send(h11.EndOfMessage())
    gunzip = None
    for at, data in forwards:
        connection.receive_data(data)
        while not isinstance(event := connection.next_event(), type):  # NEED_DATA and PAUSED are types
            if isinstance(event, h11.Response) and (b"content-encoding", b"gzip") in list(event.headers):
                gunzip = zlib.decompressobj(_GZIP)
            elif isinstance(event, h11.Data):
                yield at, bytes(event.data) if gunzip is None else gunzip.decompress(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
