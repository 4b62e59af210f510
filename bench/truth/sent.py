"""The truth about a stream: when what carries its tokens left the server, or the proxy before it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from bench.truth.figures import Stream
from otel_itl.testing import Event, Exchange


def true_stream(called_ns: int, exchange: Exchange, *, counted: bool, left: Sequence[int] | None = None) -> Stream:
    """What an ideal client of an exchange would have measured.

    Args:
        called_ns: when the caller entered the SDK.
        exchange: with the server, as the server saw it.
        counted: the server says how many tokens are in each chunk: a gap before three of them is three thirds of it.
        left: when each event left what is in between.
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
