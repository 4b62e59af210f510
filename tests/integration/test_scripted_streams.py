"""Streams that are marked as tests: they have a span, and are in no metric and no report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_itl.recording.test_scope import mark_as_test
from otel_itl.testing import CapturedTelemetry, ScriptedServer, chat, messages
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams

pytest.importorskip("openai")

if TYPE_CHECKING:
    from conftest import Clients, Instrument


@pytest.fixture
def marked(
    server: ScriptedServer, clients: Clients, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> CapturedTelemetry:
    """One stream that is marked, and one that is not."""
    server.always(chat.reply(3, first=0.01, gaps=0.01))
    instrument(slo="chat")
    with mark_as_test():
        clients.chat(model="marked")
    clients.chat(model="plain")
    return captured_telemetry


def test_a_test_is_marked_on_its_span(marked: CapturedTelemetry) -> None:
    found = {span.name: (span.attributes or {}).get("itl.test") for span in marked.spans}
    assert found == {"chat marked": True, "chat plain": None}


def test_a_test_is_marked_on_the_span_that_an_sdk_starts_itself(
    server: ScriptedServer, clients: Clients, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    pytest.importorskip("anthropic")
    server.always(messages.reply(3), model="claude-opus")
    instrument()
    with mark_as_test():
        clients.messages()
    measured = [
        span.attributes or {} for span in captured_telemetry.spans if "itl.stream.outcome" in (span.attributes or {})
    ]
    assert [attributes.get("itl.test") for attributes in measured] == [True]
    assert not captured_telemetry.metrics.get("itl.client.stream.outcomes")


def test_a_test_is_in_no_metric(marked: CapturedTelemetry) -> None:
    models = {point.attributes.get("gen_ai.request.model") for points in marked.metrics.values() for point in points}
    assert models - {None} == {"plain"}


def test_a_test_that_is_open_is_not_counted(
    server: ScriptedServer, clients: Clients, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    server.always(chat.reply(3))
    instrument()
    with mark_as_test():
        stream = clients.openai().chat.completions.create(model="open", messages=[], stream=True)
    next(iter(stream))
    assert not captured_telemetry.metrics.get("itl.client.stream.count")
    stream.close()


def test_a_test_is_in_no_report(tmp_path: Path, marked: CapturedTelemetry) -> None:
    from otel_itl.export.file.encoding import encode_spans

    file = tmp_path / "spans.jsonl"
    file.write_text(json.dumps(encode_spans(marked.spans)) + "\n")
    skipped = SkippedInput()
    assert [stream.model for stream in read_streams([str(file)], skipped)] == ["plain"]
    assert not skipped.counts
