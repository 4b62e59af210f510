"""What goes wrong between a client and a service: steps and scripts for every wire format.

`script.cut(n) + faults.reset()` breaks a reply after its n-th output event; `script.cut()` alone truncates it: the
response ends properly, without finish reason and terminator.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

from .script import Event, Script, Step


def reset(*, after: float = 0.0) -> Step:
    """Drop the connection with a TCP reset."""
    return Step(after, Event("reset"))


def close(*, after: float = 0.0) -> Step:
    """Drop the connection with a plain FIN, without the end of the HTTP body."""
    return Step(after, Event("close"))


def close_frame(code: int, *, after: float = 0.0) -> Step:
    """Close a WebSocket with this code, as RFC 6455 has it; on any other wire these are bytes that mean nothing."""
    return raw(b"\x88\x02" + code.to_bytes(2, "big"), after=after)


def hold(*, after: float = 0.0) -> Step:
    """Send nothing more, keep the connection open until the client leaves or the server stops."""
    return Step(after, Event("hold"))


def raw(data: bytes, *, after: float = 0.0) -> Step:
    """Send any bytes as part of the body."""
    return Step(after, Event("raw", raw=data))


def invalid_json(*, after: float = 0.0) -> Step:
    """Send an event whose data is cut-off JSON. Its name, `content_block_delta`, has Anthropic's SDK parse it, too."""
    return raw(b'event: content_block_delta\ndata: {"choices": [\n\n', after=after)


def invalid_utf8(*, after: float = 0.0) -> Step:
    """Send an event whose data is not UTF-8."""
    return raw(b'event: content_block_delta\ndata: {"choices": "\xff\xfe"}\n\n', after=after)


def not_sse(*, after: float = 0.0) -> Step:
    """Send a piece of a web page in place of events, as an intercepting proxy does."""
    return raw(b"<html><body>502 Bad Gateway</body></html>\n", after=after)


def never() -> Script:
    """Make a script that sends nothing, not even headers, until the client leaves or the server stops."""
    return Script(headers_delay=math.inf)


def status(
    code: int,
    message: str = "The server had an error",
    *,
    kind: str = "server_error",
    headers: Mapping[str, str] | None = None,
    after: float = 0.0,
) -> Script:
    """Refuse the request with this HTTP status after `after` seconds, in JSON that both SDKs understand.

    `headers` is the place for `retry-after-ms`; `x-should-retry: false` keeps both SDKs from trying again.
    """
    error = {"type": kind, "message": message, "code": None, "param": None}
    body = json.dumps({"type": "error", "error": error}).encode()
    return Script(status=code, headers=headers or {}, headers_delay=after, body=body)


def coalesce(script: Script, events: int) -> Script:
    """Send `events` events in each write, when the last of them is due: a buffering proxy.

    Raises:
        ValueError: `events` is below 1.
    """
    if events < 1:
        raise ValueError(f"events is how many go into one write, from 1 up, not {events!r}")
    steps: list[Step] = []
    for _, group in groupby(enumerate(script.steps), lambda pair: pair[0] // events):
        batch = [step for _, step in group]
        steps.append(replace(batch[0], delay=sum(step.delay for step in batch), joined=False))
        steps += [replace(step, delay=0.0, joined=True) for step in batch[1:]]
    return replace(script, steps=tuple(steps))


def together(*steps: Step) -> list[Step]:
    """Put these steps into one write, made when the first is due."""
    return [replace(step, joined=place > 0) for place, step in enumerate(steps)]


def dribble(script: Script, size: int, delay: float) -> Script:
    """Write each step in pieces of `size` bytes, `delay` seconds apart."""
    return replace(script, steps=tuple(replace(step, piece_bytes=size, piece_delay=delay) for step in script.steps))
