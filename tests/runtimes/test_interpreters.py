"""Interpreters that are not the usual one, what is left when streams have ended, and the declarative configuration."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from processes import Ran

Run = Callable[..., "Ran"]

# --- What is left ----------------------------------------------------------------------------------------------------

LEFT: Final = """
import asyncio, threading
import otel_itl
from told import ASKED, async_client, client, instrument, open_files, tell, text

async def read():
    async with async_client() as asking:
        return [chunk async for chunk in await asking.chat.completions.create(**ASKED)]

def all_of_it():
    with client() as asking:
        list(asking.chat.completions.create(**ASKED))
        asking.chat.completions.create(**ASKED).close()
    asyncio.run(read())

all_of_it()
before, threads = open_files(), threading.active_count()
instrument()
for _ in range(3):
    all_of_it()
otel_itl.uninstrument()
tell(before=before, after=open_files(), others=threading.active_count() - threads)
"""


@pytest.mark.requirement("R4")
def test_no_file_descriptor_is_left_open(run: Run) -> None:
    (report,) = run(LEFT).reports
    assert report["after"] == report["before"]


@pytest.mark.requirement("R46")
def test_no_thread_is_left_but_one_of_a_kind_of_ours(run: Run) -> None:
    (report,) = run(LEFT).reports
    assert (report["others"], len(set(report["threads"]))) == (len(report["threads"]), len(report["threads"]))


# --- Other interpreters ----------------------------------------------------------------------------------------------

SUBINTERPRETER: Final = """
import os, sys

# One that shares the interpreter lock: pydantic, which the openai SDK needs, does not load in one with its own.
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    made = interpreters.create("legacy")
else:
    import _xxsubinterpreters as interpreters
    made = interpreters.create(isolated=False)

interpreters.run_string(made, '''
import sys
sys.path[:0] = {paths!r}
from told import ASKED, client, instrument, tell, text
instrument()
with client() as asking:
    read = text(list(asking.chat.completions.create(**ASKED)))
tell(read=read)
'''.format(paths=sys.path))
# CPython aborts where an interpreter ends that has a daemon thread, as ours has.
os._exit(0)
"""


def test_a_stream_in_a_subinterpreter_is_recorded_there(run: Run) -> None:
    (report,) = run(SUBINTERPRETER).reports
    assert (report["read"], report["outcomes"]) == ("abcde", ["completed"])


THREADS: Final = """
from concurrent.futures import ThreadPoolExecutor
from told import ASKED, client, instrument, tell, text

instrument()
with client() as asking, ThreadPoolExecutor(8) as pool:
    texts = list(pool.map(lambda _: text(list(asking.chat.completions.create(**ASKED))), range(32)))
tell(texts=texts)
"""


def test_streams_of_threads_that_run_at_once_are_each_recorded_once(run: Run) -> None:
    (report,) = run(THREADS).reports
    assert (set(report["texts"]), report["counted"], report["failures"]) == ({"abcde"}, 32, {})


# --- Without a line of code, from a configuration file ---------------------------------------------------------------

LAUNCHER: Final = Path(sys.executable).with_name("opentelemetry-instrument")
CONFIGURATION: Final = """
file_format: "1.0"
resource:
  attributes:
    - name: service.name
      value: configured
tracer_provider:
  processors:
    - simple:
        exporter:
          console: {}
meter_provider:
  readers:
    - periodic:
        interval: 60000
        exporter:
          console: {}
"""
STREAMS: Final = """
from told import ASKED, client, text

with client() as asking:
    print(text(list(asking.chat.completions.create(**ASKED))))
"""

configurable = pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry.configuration") is None
    or importlib.util.find_spec("opentelemetry.distro") is None
    or not LAUNCHER.exists(),
    reason="opentelemetry-distro or opentelemetry-configuration (opentelemetry-sdk[file-configuration]) is missing",
)


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that the SDK is set up from."""
    file = tmp_path_factory.mktemp("configuration") / "otel.yaml"
    file.write_text(CONFIGURATION, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def configured(run: Run, configuration: Path) -> Ran:
    """A program that is instrumented by `opentelemetry-instrument`, with the SDK set up from a file."""
    others = {point.name for point in importlib.metadata.entry_points(group="opentelemetry_instrumentor")}
    disabled = ",".join(sorted(name for name in others if not name.startswith("itl_")))
    return run(
        STREAMS,
        str(LAUNCHER),
        sys.executable,
        OTEL_CONFIG_FILE=str(configuration),
        OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=disabled,
    )


def documents(text: str) -> list[dict[str, Any]]:
    """The JSON documents that the console exporters printed."""
    found, at = [], text.find("{")
    while at >= 0:
        document, end = json.JSONDecoder().raw_decode(text, at)
        found.append(document)
        at = text.find("{", end)
    return found


@configurable
def test_with_a_configuration_file_each_stream_is_one_span(configured: Ran) -> None:
    spans = [document for document in documents(configured.stdout) if document.get("name") == "chat m"]
    assert [
        (span["attributes"]["itl.stream.outcome"], span["resource"]["attributes"]["service.name"]) for span in spans
    ] == [("completed", "configured")]


@configurable
def test_with_a_configuration_file_metrics_are_recorded(configured: Ran) -> None:
    assert '"itl.client.inter_token_latency"' in configured.stdout


@configurable
def test_with_a_configuration_file_the_program_prints_what_it_did_and_nothing_of_ours(configured: Ran) -> None:
    has_text = configured.stdout.startswith("abcde\n") or "\nabcde\n" in configured.stdout
    assert (has_text, "otel_itl" in configured.stderr) == (True, False)
