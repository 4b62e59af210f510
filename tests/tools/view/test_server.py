"""The server of the page: who is answered, what is received, and what is kept of it."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import socket
import zlib
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from made import REQUESTED, document_of, log_of, make_span, make_stream, make_timeline

from otel_itl.core import conventions as names
from otel_itl.core.encoding import encode

pytest.importorskip("starlette", reason="the extra `view` is not installed")

from browsers import wait_for

from otel_itl.tools.view.bundle import join_modules
from otel_itl.tools.view.server.safety import MAX_BODY_BYTES, MAX_DECOMPRESSED_BYTES
from otel_itl.tools.view.server.serve import CannotServeError, ServerOptions, ViewServer

if TYPE_CHECKING:
    from conftest import Client

Serve = Callable[..., "Client"]
STREAM = make_timeline([20, 25, 2_500, 20])
SCRIPT_HASH = f"'sha256-{b64encode(hashlib.sha256(join_modules().encode()).digest()).decode()}'"


def progress_of(span: dict[str, Any], chunks: range, **more: Any) -> dict[str, Any]:
    """A progress event about a stream that has a chunk every 20 ms after 200 ms."""
    values = {
        names.STREAM_REQUEST_TIME: REQUESTED,
        names.PROGRESS_INDEX: chunks.start,
        names.PROVIDER_NAME: "test",
        names.REQUEST_MODEL: "m",
        names.TOKENS_OFFSETS: [200_000 + 20_000 * chunk for chunk in chunks],
        names.TOKENS_WAITS: [20_000 for _ in chunks],
        names.TOKENS_KINDS: [2, len(chunks)] if chunks else [],
        **more,
    }
    return log_of(names.PROGRESS_EVENT, REQUESTED, values, span)


@pytest.mark.parametrize("path", ["/", "/events", "/save"])
def test_a_name_that_was_made_to_resolve_to_this_machine_is_refused(serve: Serve, path: str) -> None:
    client = serve()
    assert client.get(path, Host=f"evil.example:{client.server.port}") == 403


@pytest.mark.parametrize("path", ["/events", "/save"])
def test_a_page_of_another_origin_cannot_read(serve: Serve, path: str) -> None:
    client = serve()
    assert [client.get(path, Origin="https://evil.example"), client.get(path, Sec_Fetch_Site="cross-site")] == [
        403,
        403,
    ]


def test_a_page_of_another_origin_cannot_send(serve: Serve) -> None:
    client = serve()
    assert client.send(document_of(make_stream(STREAM)), Origin="https://evil.example") == 403
    assert client.streams() == []


def test_a_form_of_another_page_has_a_content_type_that_is_refused(serve: Serve) -> None:
    assert serve().send(document_of(make_stream(STREAM)), Content_Type="text/plain") == 415


def test_the_page_itself_may_read(serve: Serve) -> None:
    client = serve()
    origin = f"http://127.0.0.1:{client.server.port}"
    assert client.get("/save", Origin=origin, Sec_Fetch_Site="same-origin") == 200


def test_beyond_loopback_the_data_needs_the_token_of_the_printed_address(serve: Serve) -> None:
    client = serve(address="0.0.0.0", token="s3cret")
    assert client.server.url.endswith("/?token=s3cret")
    paths = ["/", "/events", "/save", "/save?token=wrong", "/save?token=s3cret"]
    assert [client.get(path) for path in paths] == [200, 401, 401, 401, 200]


def test_beyond_loopback_telemetry_needs_the_token(serve: Serve) -> None:
    client = serve(address="0.0.0.0", token="s3cret")
    document = document_of(make_stream(STREAM))
    assert [client.send(document), client.send(document, Authorization="Bearer s3cret")] == [401, 200]


def test_every_answer_has_a_policy_that_runs_no_foreign_script(serve: Serve) -> None:
    policies = [serve().request("GET", path)[1]["content-security-policy"] for path in ("/", "/save")]
    assert [policy.startswith("default-src 'none'; ") for policy in policies] == [True, True]
    assert re.findall(r"script-src ([^;]*)", "; ".join(policies)) == [SCRIPT_HASH]


def test_a_body_beyond_the_limit_is_refused(serve: Serve) -> None:
    client = serve()
    body = b" " * (MAX_BODY_BYTES + 1)
    assert client.request("POST", "/v1/traces", body, Content_Type="application/json")[0] == 413


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_body_that_is_large_only_once_decompressed_is_refused(
    serve: Serve, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    body = compress(b"0" * (MAX_DECOMPRESSED_BYTES + 1))
    headers = {"Content_Type": "application/json", "Content_Encoding": encoding}
    assert serve().request("POST", "/v1/traces", body, **headers)[0] == 413


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"resourceSpans": 3}', b'{"resourceSpans": [{"scopeSpans": 1}]}'])
def test_a_body_that_is_no_otlp_is_refused_with_a_sentence(serve: Serve, body: bytes) -> None:
    status, _, answer = serve().request("POST", "/v1/traces", body, Content_Type="application/json")
    assert (status, json.loads(answer)) == (400, {"message": "the body is no OTLP request of traces."})


def test_a_protobuf_body_that_is_none_is_refused(serve: Serve) -> None:
    assert serve().request("POST", "/v1/logs", b"\xff" * 9, Content_Type="application/x-protobuf")[0] == 400


def test_a_stream_in_otlp_json_is_shown_with_its_figures(serve: Serve) -> None:
    client = serve()
    client.send(document_of(make_stream(STREAM, model="gpt")))
    (stream,) = client.streams()
    assert (stream["model"], stream["measures"]["time_to_first_token"], stream["measures"]["itl_max"]) == (
        "gpt",
        0.2,
        2.5,
    )


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_stream_arrives_from_the_exporters_of_opentelemetry(serve: Serve, protocol: str) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    client = serve(grpc_port=0)
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        exporter: Any = GrpcExporter(f"http://127.0.0.1:{client.server.grpc_port}", insecure=True)
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

        exporter = HttpExporter(f"http://127.0.0.1:{client.server.port}/v1/traces")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    known = {names.PROVIDER_NAME: "test", names.REQUEST_MODEL: "m", names.STREAM_OUTCOME: "completed"}
    span = provider.get_tracer("t").start_span("chat m", attributes=known)
    for event in encode(STREAM):
        span.add_event(event.name, event.attributes, event.unix_ns)
    span.end()
    provider.shutdown()
    (stream,) = client.streams()
    assert (stream["measures"]["output_chunk_count"], stream["measures"]["itl_max"]) == (5, 2.5)


def test_prompts_and_completions_of_foreign_spans_are_dropped_as_they_come_in(serve: Serve) -> None:
    client = serve()
    foreign = {
        "gen_ai.request.model": "gpt",
        "gen_ai.prompt.0.content": "SECRET",
        "gen_ai.input.messages": '[{"content": "SECRET"}]',
        "llm.input_messages.0.message.content": "SECRET",
        "session.id": "SECRET " * 400,
    }
    client.send(document_of(make_span(None, foreign), make_stream(STREAM, **{"input.value": "SECRET"})))
    shown = json.dumps(client.streams())
    assert (shown.count('"id"'), "SECRET" in shown, b"SECRET" in client.request("GET", "/save")[2]) == (2, False, False)


def test_a_span_of_another_instrumentation_is_a_plain_bar(serve: Serve) -> None:
    client = serve()
    client.send(document_of(make_span(None, {"gen_ai.request.model": "gpt"}), make_span(None, {"http.method": "GET"})))
    assert [(one["kind"], one["model"], one["end"]) for one in client.streams()] == [("span", "gpt", 900_000)]


def test_only_so_many_streams_are_kept_and_the_page_gets_the_number_of_the_others(serve: Serve) -> None:
    client = serve(keep=3)
    client.send(document_of(*(make_stream(make_timeline([20] * 3, start_ms=number)) for number in range(10))))
    assert len(client.streams()) == 3
    connection = client.request("GET", "/save")[2].decode()
    assert 'id="data"' in connection


def test_a_stream_that_runs_is_shown_from_its_progress_and_is_replaced_by_its_span(serve: Serve) -> None:
    client = serve()
    span = make_stream(make_timeline([20] * 9))
    client.send(progress_of(span, range(3)), "logs")
    client.send(progress_of(span, range(3, 7)), "logs")
    (running,) = client.streams()
    assert ([part["n"] for part in running["parts"]], "end" in running) == ([3, 4], False)
    client.send(document_of(span))
    (ended,) = client.streams()
    assert (ended["id"] == running["id"], ended["outcome"], ended["t"]["n"]) == (True, "completed", 10)


def test_a_stall_is_shown_while_it_lasts_with_its_cause(serve: Serve) -> None:
    client = serve()
    span = make_stream(make_timeline([20] * 9))
    client.send(progress_of(span, range(3)), "logs")
    stall = {
        names.STALL_START: 0.24,
        names.STALL_DURATION: 2.0,
        names.STALL_PHASE: "decode",
        names.STALL_CAUSE: "upstream",
    }
    client.send(log_of(names.STALL_STARTED_EVENT, REQUESTED + 2_240_000_000, stall, span), "logs")
    (stalled,) = client.streams()
    assert stalled["stalls"] == [
        {"at": 240_000, "waited": 2_000_000, "phase": "decode", "cause": "upstream", "open": True}
    ]
    client.send(progress_of(span, range(3, 5)), "logs")
    assert "open" not in client.streams()[0]["stalls"][0]


def test_a_progress_event_that_is_late_does_not_bring_an_ended_stream_back(serve: Serve) -> None:
    client = serve()
    span = make_stream(make_timeline([20] * 9))
    client.send(progress_of(span, range(3)), "logs")
    client.send(document_of(span))
    client.send(progress_of(span, range(3, 5)), "logs")
    assert [stream.get("outcome") for stream in client.streams()] == ["completed"]


def test_a_file_is_followed_while_it_grows_and_after_it_was_rotated(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(document_of(make_stream(STREAM, model="first"))) + "\n")
    client = serve(sources=(str(path),))

    def models() -> set[str]:
        return {stream["model"] for stream in client.streams()}

    wait_for(lambda: models() == {"first"}, 5, "the first stream")
    with path.open("a") as file:
        line = json.dumps(document_of(make_stream(STREAM, model="second"))) + "\n"
        file.write(line[:100])
        file.flush()
        file.write(line[100:])
    wait_for(lambda: models() == {"first", "second"}, 5, "the second stream")
    path.rename(tmp_path / "spans.jsonl.1")
    path.write_text(json.dumps(document_of(make_stream(STREAM, model="third"))) + "\n")
    wait_for(lambda: models() == {"first", "second", "third"}, 5, "the stream in the new file")


@pytest.mark.parametrize(
    ("content", "skipped"),
    [
        (b"garbage\n", "1 line is not JSON"),
        (b"garbage", "1 last line is half-written"),
        (b'{"a": 1}\n[1, 2]\n', "3 lines are JSON, but not OTLP"),
        (gzip.compress(b'{"resourceSpans": []}\n' * 400)[:-12], "1 last line is half-written"),
        (
            json.dumps(document_of(make_stream(STREAM))).replace(names.TOKENS_OFFSETS, "other").encode() + b"\n",
            "1 stream has token events that do not decode",
        ),
        (json.dumps(document_of(make_span(None, {"http.method": "GET"}))).encode(), "1 span without a model"),
    ],
    ids=["no JSON", "a half line", "no OTLP", "a gzip that ends early", "no timeline", "no model"],
)
def test_the_page_names_what_is_skipped_in_a_file(serve: Serve, tmp_path: Path, content: bytes, skipped: str) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(content)
    client = serve(sources=(str(path),))
    wait_for(lambda: client.server.describe()["skipped"], 5, "what is skipped")
    assert client.server.describe()["skipped"] == skipped


def test_a_last_line_without_a_newline_is_read_once(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(document_of(make_stream(STREAM, model="first"))))
    client = serve(sources=(str(path),))
    wait_for(lambda: len(client.streams()) == 1, 5, "the first stream")
    with path.open("a") as file:
        file.write("\n" + json.dumps(document_of(make_stream(STREAM, model="second"))) + "\nx\n")
    wait_for(lambda: len(client.streams()) == 2, 5, "the second stream")
    assert list(client.server.describe_skipped()) == [
        f"{path}:3: not JSON: it cannot be parsed from column 1 on",
    ]


def test_the_status_names_a_file_that_was_truncated_or_deleted(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(document_of(make_stream(STREAM, model="first"))) + "\n")
    client = serve(sources=(str(path),))

    def has_status(status: str) -> None:
        wait_for(lambda: client.server.describe()["status"] == status, 5, status)

    has_status("following spans.jsonl")
    path.write_text("")
    has_status("following spans.jsonl, which was begun anew")
    path.unlink()
    has_status("spans.jsonl was deleted")


def test_with_files_no_telemetry_is_received(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.touch()
    assert serve(sources=(str(path),)).send(document_of(make_stream(STREAM))) == 404


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_the_printed_address_answers_on_ipv6(serve: Serve) -> None:
    try:
        client = serve(address="::1")
    except CannotServeError:
        pytest.skip("this machine has no IPv6 loopback")
    assert urlopen(client.server.url, timeout=10).status == 200  # noqa: S310 - ours
    assert client.server.url == f"http://[::1]:{client.server.port}/"


def test_the_address_for_other_machines_is_none_of_loopback_and_holds_the_token(serve: Serve) -> None:
    server = serve(address="0.0.0.0").server
    remote = urlsplit(server.remote_url or "")
    assert (remote.port, remote.query) == (server.port, urlsplit(server.url).query)
    assert remote.query.startswith("token=")
    assert (remote.hostname or "").startswith("127.") is False


def test_on_loopback_there_is_no_address_for_other_machines(serve: Serve) -> None:
    assert serve().server.remote_url is None


def test_two_ports_in_use_are_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        port, grpc_port = taken.getsockname()[1], other.getsockname()[1]
        with pytest.raises(CannotServeError) as error:
            ViewServer(ServerOptions(port=port, grpc_port=grpc_port))
    assert str(error.value) == (
        f"port {port} and port {grpc_port} for OTLP over gRPC are in use: "
        "give --port and --grpc-port others, or 0 for any that is free."
    )


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotServeError) as error:
            ViewServer(ServerOptions(port=port, grpc_port=None))
    assert str(error.value) == f"port {port} is in use: give --port another one, or 0 for any that is free."


def test_a_host_that_is_no_host_is_refused(serve: Serve) -> None:
    client = serve()
    own = f"127.0.0.1:{client.server.port}"
    assert [client.get("/", Host="["), client.get("/events", Host=own, Origin="http://[")] == [403, 403]


def test_one_bad_span_is_refused_and_the_others_of_its_batch_are_kept(serve: Serve) -> None:
    client = serve()
    good, bad = make_stream(STREAM), {**make_stream(STREAM), "startTimeUnixNano": "soon"}
    status, _, answer = client.request(
        "POST", "/v1/traces", json.dumps(document_of(bad, good)).encode(), Content_Type="application/json"
    )
    rejected = json.loads(answer)["partialSuccess"]["rejectedSpans"]
    assert (status, rejected, [stream["span"] for stream in client.streams()]) == (200, "1", [good["spanId"]])


def test_one_bad_log_record_is_refused_in_protobuf_words_too(serve: Serve) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    from otel_itl.tools.view.server.protobuf import make_response

    client = serve()
    record = log_of(names.TOKENS_EVENT, REQUESTED, {}, make_span(None, {}))
    bad = record["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0] | {"timeUnixNano": []}
    record["resourceLogs"][0]["scopeLogs"][0]["logRecords"] = [bad]
    response = ExportTraceServiceResponse.FromString(make_response("traces", 2).SerializeToString())
    assert (client.send(record, "logs"), response.partial_success.rejected_spans) == (200, 2)


def in_two_files(folder: Path, streams: int) -> list[str]:
    """Streams with their spans in one file, and their token events as log records in another one."""
    spans, logs = folder / "spans.jsonl", folder / "logs.jsonl"
    with spans.open("w") as span_file, logs.open("w") as log_file:
        for number in range(streams):
            timeline = make_timeline([20], start_ms=number)
            span = make_stream(timeline, model=f"model-{number % 3}")
            span_file.write(json.dumps(document_of({**span, "events": []})) + "\n")
            (event,) = encode(timeline)
            log_file.write(json.dumps(log_of(event.name, event.unix_ns, event.attributes, span)) + "\n")
    return [str(spans), str(logs)]


@pytest.mark.parametrize("is_logs_first", [False, True])
def test_spans_and_their_token_events_in_two_files_are_all_shown(
    serve: Serve, tmp_path: Path, is_logs_first: bool
) -> None:
    sources = in_two_files(tmp_path, 6_000)
    client = serve(sources=tuple(reversed(sources) if is_logs_first else sources))
    wait_for(lambda: client.server.describe()["status"].startswith("following"), 60, "the files are read")
    models = [stream["model"] for stream in client.streams()]
    assert (len(models), "unknown" in models, client.server.describe()["skipped"]) == (6_000, False, "")


def test_streams_that_wait_in_vain_are_counted(serve: Serve, tmp_path: Path) -> None:
    client = serve(sources=tuple(in_two_files(tmp_path, 30)), keep=10)
    wait_for(lambda: client.server.describe()["status"].startswith("following"), 60, "the files are read")
    waited = "30 let go while spans and token events waited for each other (--keep keeps more)"
    assert client.server.describe()["skipped"] == waited


def test_each_file_of_a_comparison_is_a_side_even_the_same_one_twice(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(document_of(make_stream(STREAM))))
    client = serve(sources=(str(path), str(path)), compares=True)
    wait_for(lambda: len(client.streams()) == 2, 20, "both sides are read")
    sides = sorted(stream["side"] for stream in client.streams())
    assert (sides, client.server.describe()["sides"]) == ([0, 1], [f"{path} (1)", f"{path} (2)"])
