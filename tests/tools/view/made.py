"""Streams made by hand, as OTLP JSON documents."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate, count
from pathlib import Path
from typing import Any

from otel_itl.core import conventions as names
from otel_itl.core.encoding import encode
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from otel_itl.tools.view.document import describe_stream
from tests.otlp_json import to_otlp_attributes

MS = 1_000_000
REQUESTED = 1_700_000_000_000_000_000
NUMBERS = count(1)


def make_timeline(
    gaps: Sequence[float], *, first: float = 200, start_ms: float = 0, outcome: Outcome = Outcome.COMPLETED
) -> Timeline:
    """A stream without holds: its first output chunk after `first` ms, the others `gaps` ms apart."""
    arrived = [round(moment * MS) for moment in accumulate([first, *gaps])]
    return Timeline(
        request_unix_ns=REQUESTED + round(start_ms * MS),
        asked=array("q", [0, *arrived[:-1]]),
        arrived=array("q", arrived),
        kinds=bytes([Kind.ANSWER] * len(arrived)),
        end=arrived[-1] + 5 * MS,
        headers=0,
        outcome=outcome,
    )


def make_span(timeline: Timeline | None, attributes: Mapping[str, Any], name: str = "chat m") -> dict[str, Any]:
    """A span in OTLP JSON; with a timeline, it carries its token events."""
    number = next(NUMBERS)
    start = timeline.request_unix_ns if timeline else REQUESTED
    events = encode(timeline) if timeline else []
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + (timeline.end if timeline else 900 * MS)),
        "attributes": to_otlp_attributes(attributes),
        "events": [
            {"name": event.name, "timeUnixNano": str(event.unix_ns), "attributes": to_otlp_attributes(event.attributes)}
            for event in events
        ],
    }


def make_stream(timeline: Timeline, model: str = "m", **more: Any) -> dict[str, Any]:
    """The span of a measured stream."""
    known = {names.PROVIDER_NAME: "test", names.REQUEST_MODEL: model, names.STREAM_OUTCOME: timeline.outcome.value}
    return make_span(timeline, {**known, **more}, name=f"chat {model}")


def document_of(*spans: dict[str, Any]) -> dict[str, Any]:
    """An OTLP JSON request with these spans."""
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def log_of(name: str, unix_ns: int, values: Mapping[str, Any], span: Mapping[str, Any]) -> dict[str, Any]:
    """An OTLP JSON request with one log event about a span."""
    record = {"eventName": name, "timeUnixNano": str(unix_ns), "attributes": to_otlp_attributes(values)}
    record |= {"traceId": span["traceId"], "spanId": span["spanId"]}
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}


def describe(tmp_path: Path, gap: float, model: str = "m", **more: Any) -> dict[str, Any]:
    """A described stream of 20 gaps."""
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(document_of(make_stream(make_timeline([gap] * 20), model=model, **more))))
    return describe_stream(next(read_streams([str(path)], SkippedInput())))


def repeat(stream: dict[str, Any], count: int, apart_s: float, since: int = 0) -> list[dict[str, Any]]:
    """The same stream again and again."""
    starts = [stream["start"] + round((since + number) * apart_s * 1e6) for number in range(count)]
    return [stream | {"id": f"{stream['id']}-{start}", "start": start} for start in starts]
