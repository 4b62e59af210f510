"""Damaged, half-written or other input: described, counted, never the end of a report."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_itl.core.encoding import encode
from otel_itl.tools.report.reading import documents
from otel_itl.tools.report.reading.documents import UnreadableSourceError
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams


@pytest.fixture
def good(made: Any) -> dict[str, Any]:
    document: dict[str, Any] = made.spans(made.span(made.timeline(20, 30)))
    return document


def test_a_broken_line_is_described_and_the_others_are_read(made: Any, good: Any, read: Any) -> None:
    reading = read(good, "not json\n", made.spans(made.span(made.timeline(20, 30))))
    (line,) = reading.skipped.describe()
    assert (len(reading.streams), reading.skip_counts, "spans.jsonl:2: not JSON: " in line) == (
        2,
        {"not_json": 1},
        True,
    )


def test_a_line_that_breaks_off_after_a_bracket_does_not_swallow_the_next(made: Any, good: Any, read: Any) -> None:
    reading = read('{"resourceSpans":[{"scopeSpans":[{\n', good, made.spans(made.span(made.timeline(20, 30))))
    assert (len(reading.streams), reading.skip_counts) == (2, {"not_json": 1})


def test_a_half_written_last_line_is_no_error(good: Any, read: Any) -> None:
    reading = read(good, json.dumps(good)[:100])
    assert (len(reading.streams), reading.skip_counts) == (1, {"half_written": 1})


def test_gzip_that_ends_early_is_half_written(tmp_path: Path, good: Any, read_files: Any) -> None:
    file = tmp_path / "spans.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(good).encode() + b"\n" + bytes(range(33, 127)) * 99)[:-30])
    reading = read_files(str(file))
    assert (len(reading.streams), reading.skip_counts) == (1, {"half_written": 1})


def test_damaged_gzip_is_named_and_what_came_before_is_read(tmp_path: Path, good: Any, read_files: Any) -> None:
    file = tmp_path / "spans.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(good).encode() + b"\n") + gzip.compress(b"{}")[:10] + b"\xff" * 40)
    reading = read_files(str(file))
    assert (len(reading.streams), reading.skip_counts) == (1, {"not_json": 1})


@pytest.mark.parametrize("line", ["5\n", '"text"\n', "null\n", "{}\n", '{"message": "started"}\n'])
def test_json_of_another_kind_is_not_otlp(good: Any, read: Any, line: str) -> None:
    reading = read(line, good)
    assert (len(reading.streams), reading.skip_counts) == (1, {"not_otlp": 1})


@pytest.mark.parametrize(
    "document",
    [
        {"resourceSpans": 5},
        {"resourceSpans": ["text"]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"events": [5]}]}]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": "a", "value": {"intValue": "x"}}]}]}]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [7]}]}]},
    ],
)
def test_a_document_of_the_wrong_shape_is_not_otlp(good: Any, read: Any, document: Any) -> None:
    reading = read(document, good)
    assert (len(reading.streams), reading.skip_counts) == (1, {"not_otlp": 1})


def test_deeply_nested_json_is_refused_like_any_other(good: Any, read: Any) -> None:
    reading = read("[" * 100_000 + "]" * 100_000 + "\n", good)
    assert (len(reading.streams), reading.skip_counts) == (1, {"not_json": 1})


def test_token_events_that_do_not_decode_are_named_with_their_span(made: Any, good: Any, read: Any) -> None:
    (event,) = encode(made.timeline(20, 30))
    event.attributes["itl.tokens.waits"] = [1]
    span = made.span(events=[event])
    reading = read(made.spans(span), good)
    (line,) = reading.skipped.describe()
    expected = f"spans.jsonl:1: token events that do not decode: span {span['spanId']}: "
    assert (len(reading.streams), reading.skip_counts, expected in line) == (1, {"not_decodable": 1}, True)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("itl.tokens.offsets", [500_000, 400_000, 300_000]),
        ("itl.tokens.waits", [-5, 1, 1]),
        ("itl.tokens.kinds", [2, 10**15]),
        ("itl.stream.outcome", "exploded"),
        ("itl.stream.end", "late"),
        ("itl.stream.headers", "late"),
        ("itl.tokens.offsets", ["a", "b", "c"]),
    ],
)
def test_token_events_that_make_no_sense_are_skipped(made: Any, read: Any, attribute: str, value: Any) -> None:
    (event,) = encode(made.timeline(20, 30))
    event.attributes[attribute] = value
    reading = read(made.spans(made.span(events=[event])))
    assert (reading.streams, reading.skip_counts) == ([], {"not_decodable": 1})


PYTHONS_WORDS = re.compile(
    r"Error|Exception|NoneType|'(?:str|int|dict|list|float)'|object|argument|literal|subscript|operand|iterable|enum"
    r"|unpack|convert|__|out of range|decompress|code \d"
)
OTLP_MISFITS: list[Any] = [
    {"resourceSpans": 5},
    {"resourceSpans": ["text"]},
    {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"value": {"intValue": "1"}}]}]}]}]},
    {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": "a", "value": {"intValue": "x"}}]}]}]}]},
    {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": "a", "value": 3}]}]}]}]},
    {"resourceLogs": [{"scopeLogs": [{"logRecords": [7]}]}]},
    "{'a': 1}\n",
    '{"a": 1}}\n',
    "[1, 2\n",
    "9" * 5_000 + "\n",
    '{"a": "\x01"}\n',
    "[" * 100_000 + "\n",
    '{"resourceSpans": [{"sco',
]
TOKEN_MISFITS: list[tuple[str, Any]] = [
    ("itl.tokens.offsets", [500_000, 400_000, 300_000]),
    ("itl.tokens.offsets", ["a", "b", "c"]),
    ("itl.tokens.offsets", [2**62, 2**62, 2**62]),
    ("itl.tokens.offsets", 7),
    ("itl.tokens.waits", [1]),
    ("itl.tokens.waits", [-5, 1, 1]),
    ("itl.tokens.kinds", [2, 10**15]),
    ("itl.tokens.kinds", [300, 3]),
    ("itl.tokens.kinds", ["x", 3]),
    ("itl.tokens.counts", [-1, 0, 0]),
    ("itl.tokens.recorded", "many"),
    ("itl.stream.outcome", "exploded"),
    ("itl.stream.outcome", ["completed"]),
    ("itl.stream.end", "late"),
    ("itl.stream.end", None),
    ("itl.stream.headers", "late"),
]


@pytest.mark.parametrize("document", OTLP_MISFITS)
def test_a_line_that_cannot_be_used_is_described_without_pythons_words(read: Any, document: Any) -> None:
    (line,) = read(document).skipped.describe()
    assert PYTHONS_WORDS.search(line.partition("spans.jsonl:1")[2]) is None, line


@pytest.mark.parametrize("has_orjson", [True, False])
def test_a_line_that_is_not_json_is_described_alike_by_either_parser(
    read: Any, has_orjson: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_orjson:
        monkeypatch.setattr(documents, "parse_json", json.loads)
    (line,) = read("not json\n").skipped.describe()
    assert line.endswith("spans.jsonl:1: not JSON: it cannot be parsed from column 1 on")


@pytest.mark.parametrize(("attribute", "value"), TOKEN_MISFITS)
def test_token_events_that_do_not_decode_are_described_without_pythons_words(
    made: Any, read: Any, attribute: str, value: Any
) -> None:
    (event,) = encode(made.timeline(20, 30))
    if value is None:
        del event.attributes[attribute]
    else:
        event.attributes[attribute] = value
    (line,) = read(made.spans(made.span(events=[event]))).skipped.describe()
    assert PYTHONS_WORDS.search(line.partition("spans.jsonl:1")[2]) is None, line


def test_a_token_event_without_an_attribute_is_described_with_its_name(made: Any, read: Any) -> None:
    (event,) = encode(made.timeline(20, 30))
    del event.attributes["itl.stream.end"]
    (line,) = read(made.spans(made.span(events=[event]))).skipped.describe()
    assert line.endswith("token events do not make a timeline: itl.stream.end is missing.")


def test_a_stream_that_lost_its_last_token_event_is_named(made: Any, read: Any) -> None:
    reading = read(made.spans(made.span(events=encode(made.timeline(*[20] * 2_000))[:-1])))
    assert (reading.streams, reading.skip_counts) == ([], {"not_decodable": 1})


def test_five_of_a_kind_are_described_and_the_others_counted(good: Any, read: Any) -> None:
    described = list(read(*["oops\n"] * 12, good).skipped.describe())
    assert (len(described), described[-1]) == (6, "... and 7 more: not JSON")


def test_a_line_longer_than_the_limit_is_skipped(made: Any, write: Any, read_files: Any, monkeypatch: Any) -> None:
    file = write(*(made.spans(made.span(made.timeline(*[20] * chunks))) for chunks in (3, 3_000, 3)))
    monkeypatch.setattr(documents, "MAX_LINE_BYTES", 20_000)
    reading = read_files(file)
    assert (len(reading.streams), reading.skip_counts) == (2, {"not_json": 1})


def test_an_empty_file_is_counted(read: Any) -> None:
    assert read().skip_counts == {"empty": 1}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\x7fELF\x02\x01\x01\x00\x00", "is binary: a report is made from OTLP JSON, plain, gzip or Zstandard."),
        (gzip.compress(b"\x00\x01\x02"), "is binary: a report is made from OTLP JSON, plain, gzip or Zstandard."),
        ('{"resourceSpans": []}'.encode("utf-16"), "is UTF-16 text: OTLP JSON is UTF-8."),
    ],
    ids=["binary", "binary in gzip", "UTF-16"],
)
def test_a_file_that_is_no_json_at_all_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(UnreadableSourceError) as refused:
        list(read_streams([str(file)], SkippedInput()))
    assert f"{file} {sentence}" == str(refused.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSourceError, match=r"nothing\.jsonl does not exist\."):
        list(read_streams([str(tmp_path / "nothing.jsonl")], SkippedInput()))


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSourceError, match="is a directory: name the files in it"):
        list(read_streams([str(tmp_path)], SkippedInput()))


_SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
_OTLP_WORDS = st.sampled_from(
    [
        *(
            "resourceSpans",
            "scopeSpans",
            "spans",
            "events",
            "attributes",
            "name",
            "key",
            "value",
            "arrayValue",
            "values",
        ),
        *("intValue", "itl.tokens", "itl.tokens.offsets", "itl.stream.outcome", "completed", "resourceLogs"),
    ]
)
_JSON = st.recursive(
    _SCALARS | _OTLP_WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_OTLP_WORDS, inner, max_size=4),
    max_leaves=30,
)


@given(content=st.binary(max_size=300) | _JSON.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_in_a_file_makes_reading_fail(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    try:
        streams = list(read_streams([str(file)], SkippedInput()))
    except UnreadableSourceError as refused:
        assert str(file) in str(refused)  # noqa: PT017 - either outcome is right
    else:
        assert streams == []
