"""Files that the official OTLP JSON file exporter writes of really instrumented streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

import otel_itl
from otel_itl.core.measures import Measures, measure
from otel_itl.testing import Script, ScriptedServer, capture_telemetry, chat, faults
from otel_itl.tools.report.render.json import report_to_data
from otel_itl.tools.report.set_aside import find_set_aside_cause
from otel_itl.tools.report.summary import summarize

json_file = pytest.importorskip("opentelemetry.exporter.otlp.json.file", reason="needs OpenTelemetry 1.45 or later")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "telemetry.jsonl"


@pytest.fixture
def streamed(file: Path) -> Iterator[Any]:
    """Stream scripts through the openai client with an instrumentation that exports to the file."""
    from opentelemetry.exporter.otlp.json.file._log_exporter import FileLogExporter
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    def stream(*scripts: Script, token_events: str = "packed") -> Any:
        with capture_telemetry() as captured, ScriptedServer() as server:
            captured.tracer_provider.add_span_processor(SimpleSpanProcessor(json_file.FileSpanExporter(file)))
            captured.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(FileLogExporter(file)))
            otel_itl.instrument(
                tracer_provider=captured.tracer_provider,
                meter_provider=captured.meter_provider,
                logger_provider=captured.logger_provider,
                token_events=token_events,
            )
            server.play(*scripts)
            http_client = openai.DefaultHttpxClient(verify=False)
            with openai.OpenAI(
                base_url=server.openai_url, api_key="none", max_retries=0, http_client=http_client
            ) as client:
                for _ in scripts:
                    _drain(client)
            otel_itl.uninstrument()
        return captured.spans

    yield stream
    otel_itl.uninstrument()


def _drain(client: openai.OpenAI) -> None:
    asked: Any = [{"role": "user", "content": "hello"}]
    # How a dropped connection is reported differs from release to release.
    with suppress(Exception):
        for _ in client.chat.completions.create(model="gpt-4o", messages=asked, stream=True):
            pass


SCRIPTS = (
    chat.reply(12, first=0.02, gaps=0.004),
    chat.reply(9, reasoning=5, first=0.02, gaps=[0.003] * 8 + [0.06] + [0.003] * 4),
    chat.reply(8, first=0.01, gaps=0.003).cut(5) + faults.reset(),
)


@pytest.mark.parametrize("form", ["packed", "each", "log"])
def test_the_report_equals_the_measures_of_the_same_streams(
    streamed: Any, file: Path, read_files: Any, form: str
) -> None:
    spans = streamed(*SCRIPTS, token_events=form)
    reading = read_files(str(file))
    (row,) = report_to_data(summarize(reading.streams))["rows"]
    measures = [measure(stream.timeline) for stream in reading.streams]
    expected = [span.attributes["itl.latency.p99"] for span in spans]
    assert [round(one.itl_p99 or 0, 6) for one in measures] == expected

    def pooled(figure: str) -> list[Measures]:
        """The measures of the streams that are not set aside, as they may be on a busy machine."""
        return [one.measures for one in reading.streams if find_set_aside_cause(one, figure) is None]

    first_tokens = [one.time_to_first_token for one in pooled("time_to_first_token")]
    assert row["time_to_first_token"]["max"] == max(first_tokens, default=None)
    known = pooled("itl_p99")
    assert row["inter_token_latency"]["max"] == max((one.itl_max for one in known), default=None)
    assert row["known"]["inter_token_latency"]["streams"] == len(known)
    assert row["outcomes"] == {"completed": 2, "error": 1}


@pytest.mark.parametrize("form", ["packed", "each", "log"])
def test_one_stream_alone_is_reported_with_its_own_measures(
    streamed: Any, file: Path, read_files: Any, form: str
) -> None:
    (span,) = streamed(SCRIPTS[1], token_events=form)
    reading = read_files(str(file))
    (row,) = report_to_data(summarize(reading.streams))["rows"]
    if not reading.streams[0].measures.upstream_samples:
        pytest.skip("the machine is too busy for the pace to be known")
    attributes = span.attributes
    expected = {
        "count": 13,
        **{name: attributes[f"itl.latency.{name}"] for name in ("p50", "p95", "p99", "max", "mean")},
    }
    assert {
        name: round(value, 6) for name, value in row["inter_token_latency"].items() if name != "too_few"
    } == expected
    assert round(row["time_per_output_token"], 6) == attributes["itl.time_per_output_token"]
    assert (row["provider"], row["model"], row["operations"]) == ("openai", "gpt-4o", ["chat"])


@pytest.mark.requirement("R42")
def test_a_broken_stream_keeps_its_partial_timing(streamed: Any, file: Path, read_files: Any) -> None:
    streamed(SCRIPTS[2])
    reading = read_files(str(file))
    (row,) = report_to_data(summarize(reading.streams))["rows"]
    assert (row["output_chunks"], len(reading.streams[0].measures.itl_samples)) == (5, 4)


def test_a_stream_without_token_events_is_not_made_up_from_its_attributes(
    streamed: Any, file: Path, read_files: Any
) -> None:
    streamed(SCRIPTS[0], token_events="none")
    reading = read_files(str(file))
    assert (reading.streams, reading.skip_counts) == ([], {"without_token_events": 1})


def test_the_attributes_of_the_span_are_not_what_is_reported(streamed: Any, file: Path, read_files: Any) -> None:
    (span,) = streamed(SCRIPTS[0])
    text = file.read_text(encoding="utf-8")
    forged = text.replace(json.dumps(span.attributes["itl.latency.p50"]), "77.5")
    assert forged != text
    file.write_text(forged, encoding="utf-8")
    (stream,) = read_files(str(file)).streams
    assert round(stream.measures.itl_p50, 6) == span.attributes["itl.latency.p50"]
