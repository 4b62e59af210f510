"""`OTEL_ITL_FILE`: an application in a process of its own leaves a file that `otel-itl report` reads."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import otel_itl
from otel_itl.testing import CapturedTelemetry, ScriptedServer, chat
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams

if TYPE_CHECKING:
    from conftest import App, Clients, Instrument, Receiver

BEGIN = """
import otel_itl

otel_itl.instrument()

def stream(model="m", chunks="abc"):
    return list(otel_itl.observe(iter(chunks), provider="test", model=model))

"""
"""A stream that needs no SDK to be imported; it is reported as every other stream."""

SDK = """
from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
tracing = TracerProvider()
tracing.add_span_processor(SimpleSpanProcessor(exporter))

def names():
    return [span.name for span in exporter.get_finished_spans()]

"""
"""Providers of the application's own."""


class Contents:
    """What a telemetry file holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.documents = [json.loads(line) for line in path.read_text().splitlines()]

    def records(self, resources: str, scopes: str, records: str) -> Iterator[Any]:
        for document in self.documents:
            for resource in document.get(resources, ()):
                for scope in resource[scopes]:
                    yield from scope[records]

    @property
    def spans(self) -> list[str]:
        """The names of the spans."""
        return [span["name"] for span in self.records("resourceSpans", "scopeSpans", "spans")]

    @property
    def events(self) -> list[str]:
        """The names of the log events."""
        return [event["eventName"] for event in self.records("resourceLogs", "scopeLogs", "logRecords")]

    @property
    def outcomes(self) -> dict[str, int]:
        """Requested model → streams that the metric counts, as of the last collection that has it."""
        counts = {}
        for metric in self.records("resourceMetrics", "scopeMetrics", "metrics"):
            if metric["name"] == "itl.client.stream.outcomes":
                for point in metric["sum"]["dataPoints"]:
                    attributes = {each["key"]: each["value"]["stringValue"] for each in point["attributes"]}
                    counts[attributes["gen_ai.request.model"]] = int(point["asInt"])
        return counts

    def streams(self) -> list[tuple[str, int]]:
        """Model and number of chunks of each stream, as a report reads them; nothing of the file is skipped."""
        skipped = SkippedInput()
        found = [(stream.model, len(stream.timeline)) for stream in read_streams([str(self.path)], skipped)]
        assert list(skipped.describe()) == []
        return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "otel-itl.jsonl"


# --- Without providers of the application ----------------------------------------------------------------------------


def test_a_script_leaves_its_streams_in_the_file_and_sends_and_prints_nothing(
    start_app: Callable[..., App], path: Path
) -> None:
    finished = start_app(f"{BEGIN}stream(); stream('n', 'ab')", OTEL_ITL_FILE=str(path)).wait()
    contents = Contents(path)
    assert (finished.stdout, finished.stderr) == ("", "")
    assert contents.streams() == [("m", 3), ("n", 2)]
    assert contents.outcomes == {"m": 1, "n": 1}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.requirement("R67")
def test_the_providers_of_the_file_are_not_the_global_ones_and_those_of_the_application_take_over(
    start_app: Callable[..., App], path: Path
) -> None:
    app = start_app(
        f"""{BEGIN}{SDK}
stream("before")
print(type(trace.get_tracer_provider()).__name__)
trace.set_tracer_provider(tracing)
stream("between")
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
stream("after")
print(names())
print("otel_itl" in str(reader.get_metrics_data()))
""",
        OTEL_ITL_FILE=str(path),
    )
    finished = app.wait()
    contents = Contents(path)
    assert finished.stdout == "ProxyTracerProvider\n['chat between', 'chat after']\nTrue\n"
    assert finished.stderr == ""
    assert contents.spans == ["chat before", "chat between", "chat after"]
    assert contents.outcomes == {"before": 1, "between": 1, "after": 1}


def test_a_variable_about_otlp_has_telemetry_sent_beside_the_file(
    start_app: Callable[..., App], receiver: Receiver, path: Path
) -> None:
    finished = start_app(f"{BEGIN}stream()", receiver=receiver, OTEL_ITL_FILE=str(path)).wait()
    contents = Contents(path)
    assert finished.stderr == receiver.setup_notice
    assert (contents.spans, [span.name for span in receiver.spans]) == (["chat m"], ["chat m"])
    assert (contents.outcomes, "itl.client.stream.outcomes" in receiver.metrics) == ({"m": 1}, True)


def test_a_stream_that_is_open_when_the_process_ends_and_its_log_event_are_in_the_file(
    start_app: Callable[..., App], path: Path
) -> None:
    with ScriptedServer() as server:
        server.always(chat.reply(3).cut(2))
        app = start_app(
            f"""{BEGIN}
import openai
client = openai.OpenAI()
list(client.chat.completions.create(model="cut", messages=[], stream=True))
left = otel_itl.observe(iter("abc"), provider="test", model="left")
next(left)
""",
            server,
            OTEL_ITL_FILE=str(path),
        )
        app.wait()
    contents = Contents(path)
    assert (contents.spans, contents.events) == (["chat cut", "chat left"], ["itl.stream.truncated"])


# --- With providers of the application -------------------------------------------------------------------------------


@pytest.mark.requirement("R68")
def test_the_file_is_attached_to_the_providers_of_the_application(start_app: Callable[..., App], path: Path) -> None:
    app = start_app(
        f"""{BEGIN}{SDK}
trace.set_tracer_provider(tracing)
metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
_logs.set_logger_provider(LoggerProvider())
with trace.get_tracer("foreign").start_as_current_span("POST /patients/Jane") as span:
    span.set_attribute("http.request.method", "POST")
    span.set_attribute("gen_ai.prompt.0.content", "the prompt")
    stream()
    with trace.get_tracer("foreign").start_as_current_span("SELECT Jane"):
        pass
tracing.force_flush()
print(open({str(path)!r}).read().count("internal"))
""",
        OTEL_ITL_FILE=str(path),
    )
    finished = app.wait()
    contents = Contents(path)
    assert (finished.stdout, finished.stderr) == ("1\n", "")
    assert (contents.spans, contents.outcomes) == (["chat m", "internal", "POST"], {"m": 1})
    assert [text in path.read_text() for text in ("the prompt", "Jane")] == [False, False]


def test_what_a_provider_does_not_let_be_attached_is_said_once_and_the_rest_is_written(
    start_app: Callable[..., App], path: Path
) -> None:
    app = start_app(
        f"""{BEGIN}{SDK}
class Meters(metrics.MeterProvider):
    def get_meter(self, *arguments, **options):
        return metrics.NoOpMeterProvider().get_meter("none")

trace.set_tracer_provider(tracing)
metrics.set_meter_provider(Meters())
stream(); stream()
""",
        OTEL_ITL_FILE=str(path),
    )
    finished = app.wait()
    assert finished.stderr == (
        f"otel_itl writes no metrics to {path}: the application's provider of them does not take another exporter.\n"
    )
    assert Contents(path).spans == ["chat m"] * 2


def test_the_file_may_be_given_in_code_and_changed_and_ended(
    instrument: Instrument, clients: Clients, server: ScriptedServer, captured_telemetry: CapturedTelemetry, path: Path
) -> None:
    server.always(chat.reply(2))
    second = path.with_name("second.jsonl")
    instrument(file=path)
    clients.chat(model="one")
    otel_itl.uninstrument()
    instrument(file=second)
    clients.chat(model="two")
    otel_itl.uninstrument()
    instrument()
    clients.chat(model="three")
    captured_telemetry.tracer_provider.force_flush()
    assert (Contents(path).spans, Contents(second).spans) == (["chat one"], ["chat two"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this platform")
def test_a_file_that_cannot_be_written_any_more_is_one_warning_and_the_application_goes_on(
    start_app: Callable[..., App], path: Path
) -> None:
    app = start_app(
        f"""{BEGIN}
import os
from otel_itl.runtime import runtime
os.mkfifo({str(path)!r})
for _ in range(3):
    print(len(stream()))
    runtime.file.flush(10)
""",
        OTEL_ITL_FILE=str(path),
    )
    finished = app.wait()
    assert finished.stdout == "3\n3\n3\n"
    assert finished.stderr == (
        f"otel_itl cannot write to {path} (it is no regular file): telemetry is missing from it until it can. "
        "Logged once.\n"
    )


# --- Several processes -----------------------------------------------------------------------------------------------

PROCESSES = """
import multiprocessing, os, sys

def work(model):
    for _ in range(20):
        stream(model)

if __name__ == "__main__":
    stream("parent")
    started = []
    for method in ("fork", "spawn"):
        started += [multiprocessing.get_context(method).Process(target=work, args=(method,)) for _ in range(2)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    stream("parent")
    print([process.exitcode for process in started])
"""


@pytest.mark.requirement("R69")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_processes_that_were_forked_and_spawned_write_to_one_file(start_app: Callable[..., App], path: Path) -> None:
    finished = start_app(BEGIN + PROCESSES, OTEL_ITL_FILE=str(path)).wait()
    contents = Contents(path)
    assert (finished.stdout, finished.stderr) == ("[0, 0, 0, 0]\n", "")
    assert Counter(contents.streams()) == {("parent", 3): 2, ("fork", 3): 40, ("spawn", 3): 40}


# --- What is named as the file ---------------------------------------------------------------------------------------


def test_an_argument_that_is_no_file_raises_with_the_reason(path: Path) -> None:
    with pytest.raises(ValueError, match="file") as raised:
        otel_itl.instrument(file=path.parent)
    assert str(raised.value) == (
        f"instrument(file={path.parent!r}) is not accepted: it is a directory; "
        "it takes the path of a file that may be written, or off."
    )


def test_a_file_that_holds_something_else_is_refused_and_left_as_it_is(path: Path) -> None:
    path.write_text("import os\n")
    with pytest.raises(ValueError, match="it holds something else than OTLP JSON lines"):
        otel_itl.instrument(file=path)
    assert path.read_text() == "import os\n"


def test_a_variable_that_is_no_file_is_one_warning_with_the_reason(start_app: Callable[..., App], path: Path) -> None:
    named = str(path / "x.jsonl")
    finished = start_app(
        f"{BEGIN}print(stream())", OTEL_ITL_FILE=named, OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none",
        OTEL_LOGS_EXPORTER="none",
    ).wait()  # fmt: skip
    warning = (
        f"OTEL_ITL_FILE is not accepted: there is no directory {str(path)!r}; "
        "it takes the path of a file that may be written, or off. The default None is used.\n"
    )
    assert (finished.stdout, finished.stderr) == ("['a', 'b', 'c']\n", warning)
