"""Streams made by hand, in OTLP JSON as the OpenTelemetry Collector writes it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, count
from pathlib import Path
from typing import Any

import pytest

from otel_itl.core import conventions as names
from otel_itl.core.encoding import TokenEvent, encode
from otel_itl.core.measures import measure
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream, read_streams
from tests.otlp_json import to_otlp_attributes

MS = 1_000_000
REQUESTED = 1_700_000_000_000_000_000


def store(
    timeline: Timeline, *, provider: str = "openai", model: str = "m", operation: str = "chat", **more: Any
) -> StoredStream:
    """Return a stream as if it had been read back from a span."""
    return StoredStream(
        provider=provider,
        model=model,
        operation=operation,
        trace_id="a" * 32,
        span_id="b" * 16,
        where="spans.jsonl:1",
        timeline=timeline,
        measures=measure(timeline),
        **more,
    )


class Made:
    """Makes what tests write into files."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def timeline(
        self,
        *gaps: float,
        first: float = 200,
        kinds: Sequence[int] = (),
        outcome: Outcome = Outcome.COMPLETED,
        tokens: int | None = None,
        after: float = 10,
    ) -> Timeline:
        """Make a stream without holds: its first output chunk arrives after `first` ms, the others `gaps` ms apart."""
        arrived = [round(moment * MS) for moment in accumulate([first, *gaps])]
        return Timeline(
            request_unix_ns=REQUESTED + next(self._numbers) * 1_000_000_000,
            asked=array("q", [0, *arrived[:-1]]),
            arrived=array("q", arrived),
            kinds=bytes(kinds or [Kind.ANSWER] * len(arrived)),
            end=arrived[-1] + round(after * MS),
            outcome=outcome,
            output_tokens=len(arrived) if tokens is None else tokens,
        )

    def span(
        self,
        timeline: Timeline | None = None,
        *,
        provider: str = "openai",
        model: str = "gpt-4o",
        events: Iterable[TokenEvent] | None = None,
        number_of_ints: Callable[[int], Any] = str,
        **attributes: Any,
    ) -> dict[str, Any]:
        """Make a span with token events, in the Collector's JSON; `number_of_ints` writes its 64-bit integers."""
        number = next(self._numbers)
        carried = events if events is not None else encode(timeline) if timeline is not None else ()
        identity = {names.OPERATION_NAME: "chat", names.PROVIDER_NAME: provider, names.REQUEST_MODEL: model}
        return {
            "traceId": f"{number:032x}",
            "spanId": f"{number:016x}",
            "parentSpanId": "",
            "flags": 256,
            "name": f"chat {model}",
            "kind": 3,
            "startTimeUnixNano": number_of_ints(REQUESTED),
            "endTimeUnixNano": number_of_ints(REQUESTED + 1),
            "attributes": to_otlp_attributes({**identity, **attributes}, number_of_ints),
            "events": [
                {
                    "timeUnixNano": number_of_ints(event.unix_ns),
                    "name": event.name,
                    "attributes": to_otlp_attributes(event.attributes, number_of_ints),
                }
                for event in carried
            ],
            "status": {},
        }

    def spans(self, *spans: dict[str, Any]) -> dict[str, Any]:
        """Make one OTLP document with these spans."""
        resource = {"attributes": to_otlp_attributes({"service.name": "shop"}, str)}
        scope = {"scope": {"name": "otel_itl"}, "spans": list(spans)}
        return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}

    def logs(self, *events: TokenEvent, of: dict[str, Any] | None = None, named: bool = True) -> dict[str, Any]:
        """Make one OTLP document with token events as log records of a span; not `named`: event name as attribute."""
        ids = {} if of is None else {key: of[key] for key in ("traceId", "spanId")}
        records = [
            {
                "timeUnixNano": str(event.unix_ns),
                "severityNumber": 9,
                "severityText": "INFO",
                "body": {},
                "attributes": to_otlp_attributes(
                    event.attributes if named else {**event.attributes, "event.name": event.name}, str
                ),
                **({"eventName": event.name} if named else {}),
                **ids,
            }
            for event in events
        ]
        return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {}, "logRecords": records}]}]}


class Reading:
    """The streams that were read from a file, and what was skipped."""

    def __init__(self, *sources: str) -> None:
        self.skipped = SkippedInput()
        self.streams: list[StoredStream] = list(read_streams(sources, self.skipped))

    @property
    def skip_counts(self) -> dict[str, int]:
        """Reason → number of skipped parts, of the reasons that occurred."""
        return {reason.value: number for reason, number in self.skipped.counts.items()}


@pytest.fixture
def made() -> Made:
    return Made()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Write documents (JSON, one per line) and strings (as they are) into a file, and return its path."""

    def written(*lines: Any, name: str = "spans.jsonl") -> str:
        file = tmp_path / name
        texts = [line if isinstance(line, str) else json.dumps(line, separators=(",", ":")) + "\n" for line in lines]
        file.write_text("".join(texts), encoding="utf-8")
        return str(file)

    return written


@pytest.fixture
def read(write: Callable[..., str]) -> Callable[..., Reading]:
    """Write lines as `write` does, and read the streams back."""
    return lambda *lines: Reading(write(*lines))


@pytest.fixture
def read_files() -> Callable[..., Reading]:
    return Reading
