"""The truth about a stream: when its tokens left the server, or the proxy in front of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from bench.truth.figures import Stream
from otel_itl.testing import Event, Exchange


def true_stream(called_ns: int, exchange: Exchange, *, counted: bool, left: Sequence[int] | None = None) -> Stream:
    """Return what an ideal client would have measured.

    Args:
        called_ns: when the caller called the SDK.
        exchange: request and response, as the server recorded them.
        counted: whether the server reports the number of tokens in each chunk: a gap before a chunk of three tokens
            is three samples of a third.
        left: when each event left the program in front of the server; None where there is none.
    """
    sent_at = [sent.complete_ns for sent in exchange.sent] if left is None else left
    outputs = [(sent.event, at) for sent, at in zip(exchange.sent, sent_at, strict=True) if sent.output]
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
