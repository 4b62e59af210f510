"""The server's own Prometheus metrics beside the figures of a sweep."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from threading import Thread

import pytest

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.render.terminal import open_terminal
from otel_itl.tools.sweep import server_metrics
from otel_itl.tools.sweep.knee import analyze
from otel_itl.tools.sweep.records import Sweep
from otel_itl.tools.sweep.render.json import sweep_to_json
from otel_itl.tools.sweep.render.server import describe_server, note_server
from otel_itl.tools.sweep.render.terminal import print_sweep
from otel_itl.tools.sweep.server_metrics import MetricsReader, Reading, ServerFigures, summarize
from tests.tools.sweep.sweeps import due_request, measured, one_round, sweep_of

pytest.importorskip("prometheus_client")

BOUNDS = ("0.1", "0.2", "0.4", "+Inf")


def histogram(name: str, counts: Sequence[int], model: str = "m") -> str:
    """The lines of a histogram, given how many are at most each bound."""
    labels = f'model_name="{model}"'
    lines = [f'{name}_bucket{{le="{bound}",{labels}}} {float(n)}' for bound, n in zip(BOUNDS, counts, strict=True)]
    return "\n".join([f"# TYPE {name} histogram", f"{name}_sum{{{labels}}} 1.0", *lines, ""])


def reading(text: str, moment: float = 0.0) -> Reading:
    return Reading(moment, server_metrics._LINES.findall(text.encode()))


def figures(*texts: str, model: str = "m", tail: float = 99.0) -> ServerFigures:
    return summarize([[reading(text) for text in texts]], model, tail)


VLLM = "vllm:time_to_first_token_seconds"


def test_a_percentile_is_of_what_was_counted_between_the_first_and_the_last_reading() -> None:
    # Ten are new: five in the second bucket, five in the third.
    found = figures(
        histogram(VLLM, (90, 90, 90, 90)), histogram(VLLM, (90, 93, 97, 97)), histogram(VLLM, (90, 95, 100, 100))
    )
    assert (found.percentiles["ttft_p50"], found.percentiles["ttft_p99"]) == pytest.approx((0.2, 0.396))


def test_a_percentile_beyond_the_last_bound_is_infinite() -> None:
    assert figures(histogram(VLLM, (0,) * 4), histogram(VLLM, (0, 0, 0, 9))).percentiles["ttft_p50"] == inf


def test_a_server_that_began_anew_shows_nothing() -> None:
    assert figures(histogram(VLLM, (9,) * 4), histogram(VLLM, (1, 2, 3, 4))).percentiles["ttft_p50"] is None


def test_rounds_are_pooled() -> None:
    fast = [reading(histogram(VLLM, (0,) * 4)), reading(histogram(VLLM, (10,) * 4))]
    slow = [reading(histogram(VLLM, (10,) * 4)), reading(histogram(VLLM, (10, 10, 20, 20)))]
    assert summarize([fast, slow], "m", 75.0).percentiles["ttft_p75"] == pytest.approx(0.3)


def test_only_the_model_counts() -> None:
    before = histogram(VLLM, (0,) * 4) + histogram(VLLM, (0,) * 4, "other")
    after = histogram(VLLM, (4,) * 4) + histogram(VLLM, (0, 0, 99, 99), "other")
    assert figures(before, after).percentiles["ttft_p50"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    "name",
    [
        *("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        *("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
    ],
)
def test_the_names_of_each_server_are_known(name: str) -> None:
    assert figures(histogram(name, (0,) * 4), histogram(name, (2,) * 4)).percentiles["itl_p50"] == pytest.approx(0.05)


def test_the_queue_is_of_all_engines_and_the_cache_of_the_fullest() -> None:
    lines = [
        f'vllm:num_requests_waiting{{engine="{n}"}} {n + 1}\nvllm:kv_cache_usage_perc{{engine="{n}"}} 0.{n}\n'
        for n in (3, 5)
    ]
    found = figures("".join(lines))
    assert (found.means["waiting"], found.largest["cache"]) == (10.0, 0.5)


def test_a_sample_that_is_no_number_spoils_no_other() -> None:
    assert figures("vllm:num_requests_waiting{} x\nvllm:num_requests_running{} 4\n").means == {
        "running": 4.0,
        "waiting": None,
        "cache": None,
    }


# --- Over a socket ---------------------------------------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[tuple[str, list[bytes]]]:
    """The URL of a server of metrics, and what it answers: the last one again and again; none: 404."""
    answers: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if answers else 404)
            self.end_headers()
            self.wfile.write((answers.pop(0) if len(answers) > 1 else answers[0]) if answers else b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/metrics", answers
    server.shutdown()
    server.server_close()


def watched(url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Reading], str | None]:
    """What is read until there are two readings or a problem."""
    monkeypatch.setattr(server_metrics, "READ_SECONDS", 0.01)

    async def watch() -> tuple[list[Reading], str | None]:
        reader, readings = MetricsReader(url), list[Reading]()
        task = asyncio.ensure_future(reader.watch(readings))
        while len(readings) < 2 and reader.problem is None:  # noqa: ASYNC110 - the reader has no event
            await asyncio.sleep(0.005)
        task.cancel()
        return readings, reader.problem

    return asyncio.run(watch())


def test_metrics_are_read_again_and_again(served: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    url, answers = served
    answers += [histogram(VLLM, (0,) * 4).encode(), histogram(VLLM, (7,) * 4).encode()]
    readings, problem = watched(url, monkeypatch)
    assert (summarize([readings[:2]], "m", 99.0).percentiles["ttft_p50"], problem) == (pytest.approx(0.05), None)


def test_what_cannot_be_read_is_a_problem(served: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(served[0], monkeypatch) == ([], "HTTPError: HTTP Error 404: Not Found")


@pytest.mark.parametrize("url", ["localhost:8000/metrics", "file:///etc/passwd"])
def test_what_is_no_http_is_refused(url: str) -> None:
    with pytest.raises(CommandError, match=r"it takes a URL, as http://localhost:8000/metrics\.$"):
        MetricsReader(url)


# --- In the answer ---------------------------------------------------------------------------------------------------


def swept(*texts: str, problem: str | None = None) -> Sweep:
    one = one_round()
    one.server = [reading(text) for text in texts]
    requests = [due_request(number / 10, of=measured()) for number in range(200)]
    return sweep_of([one], requests, has_server_metrics=True, metrics_problem=problem)


def test_the_table_and_the_json_have_the_servers_figures() -> None:
    gauge = "vllm:num_requests_waiting{} 3\n"
    result = analyze(swept(gauge + histogram(VLLM, (0,) * 4), gauge + histogram(VLLM, (10,) * 4)))
    rows = dict(describe_server(result.levels))
    assert rows == {"server TTFT p50, ms": ["50.0"], "server TTFT p99, ms": ["99.0"], "server waiting": ["3.00"]}
    out = io.StringIO()
    print_sweep(result, open_terminal(out, 80))
    assert "server waiting" in out.getvalue()
    (level,) = json.loads(sweep_to_json(result, "", 0))["levels"]
    assert (level["server"]["ttft_p50"], level["server"]["waiting"]) == (0.05, {"mean": 3.0, "max": 3.0})


@pytest.mark.parametrize(
    ("texts", "problem", "expected"),
    [
        ((), "HTTPError: 404", ["The server's metrics could not be read: HTTPError: 404."]),
        (("other 1\n",), None, ["The server's metrics have none of the names of vLLM, SGLang and llama.cpp."]),
        (("vllm:num_requests_waiting 1\n",), "HTTPError: 404", []),
    ],
)
def test_what_could_not_be_read_is_one_sentence(texts: Sequence[str], problem: str | None, expected: list[str]) -> None:
    assert list(note_server(analyze(swept(*texts, problem=problem)))) == expected
