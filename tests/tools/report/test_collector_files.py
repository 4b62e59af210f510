"""Files as the OpenTelemetry Collector's file exporter writes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from otel_itl.core.encoding import encode, encode_each
from otel_itl.core.measures import measure
from otel_itl.core.timeline import Kind
from otel_itl.tools.report.reading.skipped_input import SkipReason

# A role chunk after 200 ms; output after 500, 540 and 1,540 ms; the provider counts 6 tokens.
COLLECTOR_LINE = (
    '{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":'
    '[{"scope":{"name":"otel_itl"},"spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174",'
    '"parentSpanId":"","flags":256,"name":"chat gpt-4o","kind":3,"startTimeUnixNano":"1700000000000000000",'
    '"endTimeUnixNano":"1700000001600000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"'
    '}},{"key":"gen_ai.provider.name","value":{"stringValue":"openai"}},{"key":"gen_ai.request.model","value":'
    '{"stringValue":"gpt-4o"}},{"key":"gen_ai.request.stream","value":{"boolValue":true}},{"key":"itl.latency.p50",'
    '"value":{"doubleValue":123.5}}],"events":[{"timeUnixNano":"1700000001540000000","name":"itl.tokens","attributes":['
    '{"key":"itl.tokens.offsets","value":{"arrayValue":{"values":[{"intValue":"200000"},{"intValue":"500000"},'
    '{"intValue":"540000"},{"intValue":"1540000"}]}}},{"key":"itl.tokens.waits","value":{"arrayValue":{"values":['
    '{"intValue":"199000"},{"intValue":"299990"},{"intValue":"39990"},{"intValue":"999990"}]}}},{"key":'
    '"itl.tokens.kinds","value":{"arrayValue":{"values":[{"intValue":"8"},{"intValue":"1"},{"intValue":"2"},'
    '{"intValue":"3"}]}}},{"key":"itl.stream.outcome","value":{"stringValue":"completed"}},{"key":"itl.stream.end",'
    '"value":{"intValue":"1600000"}},{"key":"itl.stream.request_time","value":{"intValue":"1700000000000000000"}},'
    '{"key":"itl.tokens.recorded","value":{"intValue":"4"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":"6"}}]}],"status":{}}]}]}]}\n'
)


def test_a_collector_line_gives_the_numbers_worked_out_by_hand(read: Any) -> None:
    (stream,) = read(COLLECTOR_LINE).streams
    measures = stream.measures
    expected = (0.2, 0.5, 0.52, 0.9904, 1.0, 0.52, 0.208, 1.6)
    assert expected == (
        measures.time_to_first_chunk,
        measures.time_to_first_token,
        measures.itl_p50,
        measures.itl_p99,
        measures.itl_max,
        measures.itl_mean,
        measures.time_per_output_token,
        measures.duration,
    )


def test_a_stream_is_named_by_its_span(read: Any) -> None:
    (stream,) = read(COLLECTOR_LINE).streams
    expected = ("openai", "gpt-4o", "chat", "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174")
    assert expected == (stream.provider, stream.model, stream.operation, stream.trace_id, stream.span_id)


@pytest.mark.parametrize("number_of_ints", [str, int], ids=["strings", "numbers"])
def test_integers_may_be_strings_or_numbers(made: Any, read: Any, number_of_ints: Any) -> None:
    timeline = made.timeline(20, 30, 512)
    document = made.spans(made.span(timeline, number_of_ints=number_of_ints))
    assert [timeline] == [stream.timeline for stream in read(document).streams]


def test_one_event_per_chunk_is_read_as_well(made: Any, read: Any) -> None:
    timeline = made.timeline(20, 30, 40, kinds=[Kind.ROLE, Kind.REASONING, Kind.ANSWER, Kind.FINISH])
    document = made.spans(made.span(events=encode_each(timeline)))
    assert [timeline] == [stream.timeline for stream in read(document).streams]


def test_a_line_may_hold_several_resources(made: Any, read: Any) -> None:
    timelines = [made.timeline(20, 30), made.timeline(40, 50)]
    parts = [made.spans(made.span(timeline)) for timeline in timelines]
    document = {"resourceSpans": [part["resourceSpans"][0] for part in parts]}
    assert timelines == [stream.timeline for stream in read(document).streams]


def test_several_streams_on_one_span_are_separated(made: Any, read: Any) -> None:
    timelines = [made.timeline(20, 30), made.timeline(40, 50)]
    document = made.spans(made.span(events=[event for timeline in timelines for event in encode(timeline)]))
    assert timelines == [stream.timeline for stream in read(document).streams]


def test_spans_of_other_instrumentations_are_ignored(made: Any, read: Any) -> None:
    reading = read(made.spans({"traceId": "1" * 32, "spanId": "2" * 16, "name": "GET /", "kind": 2}))
    assert (reading.streams, reading.skip_counts) == ([], {})


def test_metrics_are_ignored(read: Any) -> None:
    reading = read({"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "itl.client.stream.count"}]}]}]})
    assert (reading.streams, reading.skip_counts) == ([], {})


def test_lines_of_an_indented_document_are_not_json(made: Any, read: Any) -> None:
    text = json.dumps(made.spans(made.span(made.timeline(20, 30))), indent=2)
    reading = read(text + "\n")
    assert (reading.streams, reading.skipped.counts[SkipReason.NOT_JSON] > 0) == ([], True)


def test_a_file_may_be_a_list_of_documents(made: Any, read: Any) -> None:
    reading = read(json.dumps([made.spans(made.span(made.timeline(20, 30))) for _ in range(3)]))
    assert (len(reading.streams), reading.skip_counts) == (3, {})


def test_blank_lines_and_a_byte_order_mark_are_ignored(made: Any, read: Any) -> None:
    reading = read("\ufeff", made.spans(made.span(made.timeline(20, 30))), "\n  \n")
    assert (len(reading.streams), reading.skip_counts) == (1, {})


def test_gzip_is_recognized_by_its_content(tmp_path: Path, read_files: Any) -> None:
    file = tmp_path / "spans.jsonl"
    file.write_bytes(gzip.compress(COLLECTOR_LINE.encode()) + gzip.compress(b"\n"))
    assert [stream.model for stream in read_files(str(file)).streams] == ["gpt-4o"]


def test_a_stream_that_is_read_twice_counts_once(write: Any, read_files: Any) -> None:
    file = write(COLLECTOR_LINE)
    reading = read_files(file, file)
    assert (len(reading.streams), reading.skip_counts) == (1, {"duplicate": 1})


# --- token events as logs ---------------------------------------------------------------------------------------------


def test_logs_take_their_name_from_their_span(made: Any, read: Any) -> None:
    timeline = made.timeline(20, 30, 512)
    span = made.span(model="claude", provider="anthropic")
    (stream,) = read(made.logs(*encode(timeline), of=span), made.spans(span)).streams
    assert ("anthropic", "claude", timeline) == (stream.provider, stream.model, stream.timeline)


def test_logs_without_their_span_are_of_an_unknown_model(made: Any, read: Any) -> None:
    (stream,) = read(made.logs(*encode(made.timeline(20, 30)), of=made.span())).streams
    assert (stream.provider, stream.model, stream.operation) == ("unknown", "unknown", "unknown")


def test_logs_whose_event_name_is_an_attribute_are_read(made: Any, read: Any) -> None:
    assert len(read(made.logs(*encode(made.timeline(20, 30)), named=False)).streams) == 1


def test_the_logs_of_streams_without_spans_are_not_mixed_up(made: Any, read: Any) -> None:
    timelines = [made.timeline(*[20] * 1_500), made.timeline(*[30] * 1_500)]
    first, second = (encode(timeline) for timeline in timelines)
    mixed = [event for pair in zip(first, second, strict=True) for event in pair]
    assert timelines == [stream.timeline for stream in read(made.logs(*mixed)).streams]


def test_the_order_of_logs_does_not_matter(made: Any, read: Any) -> None:
    timeline = made.timeline(*[20] * 40)
    events = encode(timeline)
    assert [measure(timeline)] == [stream.measures for stream in read(made.logs(*reversed(events))).streams]


def test_a_stream_that_was_measured_without_token_events_is_counted(made: Any, read: Any) -> None:
    reading = read(made.spans(made.span(**{"itl.stream.outcome": "completed"})))
    assert (reading.streams, reading.skip_counts) == ([], {"without_token_events": 1})


def test_a_span_whose_token_events_are_logs_is_not_counted_as_without(made: Any, read: Any) -> None:
    span = made.span(**{"itl.stream.outcome": "completed"})
    assert read(made.spans(span), made.logs(*encode(made.timeline(20, 30)), of=span)).skip_counts == {}
