"""Writes observed streams as OTLP JSON lines, as the processes of a fleet would have."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_itl.core import conventions as names
from otel_itl.core.encoding import encode
from otel_itl.core.timeline import SECOND, Kind, Outcome, Timeline
from tests.otlp_json import to_otlp_attributes

if TYPE_CHECKING:
    from otel_itl.tools.explain.observations import Observation


def write_streams(path: Path, streams: Iterable[Observation], instances: int = 1) -> Path:
    """Write streams to a file, a document each; sessions are spread over this many processes."""
    with path.open("w", encoding="utf-8") as file:
        for number, stream in enumerate(streams, start=1):
            file.write(json.dumps(_document(stream, number, instances)) + "\n")
    return path


def _document(stream: Observation, number: int, instances: int) -> dict[str, Any]:
    """Return a stream as an OTLP JSON request."""
    timeline = _timeline(stream)
    provider, _, model = stream.model.partition(" / ")
    attributes = {
        names.OPERATION_NAME: "chat",
        names.PROVIDER_NAME: provider,
        names.REQUEST_MODEL: model,
        names.STREAM_OUTCOME: timeline.outcome.value,
        names.SESSION_ID: stream.session,
        names.RESPONSE_MODEL: stream.response_model,
        names.USAGE_CACHE_READ_TOKENS: stream.cached_tokens,
        **stream.attributes,
    }
    if stream.server is not None:
        address, _, port = stream.server.partition(":")
        attributes |= {names.SERVER_ADDRESS: address, names.SERVER_PORT: int(port or 443)}
    span = {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": f"chat {model}",
        "startTimeUnixNano": str(stream.start_ns),
        "endTimeUnixNano": str(stream.start_ns + timeline.end),
        "attributes": _attributes(attributes),
        "events": [
            {"name": event.name, "timeUnixNano": str(event.unix_ns), "attributes": _attributes(event.attributes)}
            for event in encode(timeline)
        ],
    }
    instance = f"process-{hash_of(stream.session) % instances}"
    resource = {"attributes": _attributes({"service.name": "shop", "service.instance.id": instance})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}


def hash_of(text: str) -> int:
    """Return a number for a text, the same in every process."""
    return sum(index * code for index, code in enumerate(text.encode(), start=1))


def _timeline(stream: Observation) -> Timeline:
    """Return a timeline without holds that has the latencies of a stream."""
    gaps = _gaps(stream)
    arrived = array("q", accumulate([round((stream.ttft or 0.1) * SECOND), *(round(gap * SECOND) for gap in gaps)]))
    return Timeline(
        request_unix_ns=stream.start_ns,
        asked=array("q", [0, *arrived[:-1]]),
        arrived=arrived,
        kinds=bytes([Kind.ANSWER] * len(arrived)),
        end=arrived[-1] + 1_000_000,
        headers=0,
        outcome=Outcome.COMPLETED,
        input_tokens=stream.prompt_tokens,
        output_tokens=len(arrived),
        attempts=stream.attempts,
    )


def _gaps(stream: Observation) -> list[float]:
    """Return the gaps of a stream in seconds: those of its parts, else its typical gap."""
    count = stream.tokens - 1
    levels = [gap for _, gap in stream.parts] or [stream.itl or 0.02]
    return [levels[index * len(levels) // count] for index in range(count)]


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return attributes in OTLP JSON, without those that are None."""
    return to_otlp_attributes({key: value for key, value in values.items() if value is not None})
