"""Processes that are forked or spawned: workers of a server, pools, and a fork in the middle of streams."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from processes import PATIENCE_SECONDS, UnixConnection, needs

if TYPE_CHECKING:
    from processes import Ran

pytestmark = [
    pytest.mark.requirement("R69"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]

# --- A pre-fork server -----------------------------------------------------------------------------------------------

APPLICATION: Final = """
import json, os, time
from told import ASKED, client, instrument, text, told

instrument()
asking = client()
text(list(asking.chat.completions.create(**ASKED)))
imported_in = os.getpid()
told()  # in the parent, where it is loaded before the fork

def application(environ, start_response):
    texts = [text(list(asking.chat.completions.create(**ASKED)))]
    dropped = asking.chat.completions.create(**ASKED)
    next(dropped), next(dropped)
    del dropped
    report = {"outcomes": []}
    until = time.monotonic() + 10
    while len(report["outcomes"]) < 2 and time.monotonic() < until:
        time.sleep(0.05)
        found = told(flush=False)
        report = {**found, "outcomes": report["outcomes"] + found["outcomes"]}
    start_response("200 OK", [("content-type", "application/json")])
    return [json.dumps({**report, "texts": texts, "same": imported_in == os.getpid()}).encode()]
"""


def asked(path: Path) -> dict[str, Any]:
    """The report of a worker, as soon as one is there."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        worker = UnixConnection(path)
        try:
            worker.request("GET", "/")
            report: dict[str, Any] = json.loads(worker.getresponse().read())
        except (FileNotFoundError, ConnectionError):
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return report
        finally:
            worker.close()


@pytest.fixture(scope="module", params=["--preload", ""], ids=["preloaded", "loaded by each worker"])
def served(
    request: pytest.FixtureRequest, start: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], str]:
    """What a worker of gunicorn reports, and what was printed until all of them had ended."""
    path = tmp_path_factory.mktemp("gunicorn") / "socket"
    options = ["--bind", f"unix:{path}", "--workers", "1", "--log-level", "error", *filter(None, [request.param])]
    process = start(APPLICATION, sys.executable, "-m", "gunicorn", *options, argument="program:application")
    try:
        report = asked(path)
    finally:
        process.terminate()
        _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    return {**report, "preloaded": bool(request.param)}, stderr


gunicorn = needs("gunicorn")


@gunicorn
def test_streams_of_a_worker_are_read_as_without_us(served: tuple[dict[str, Any], str]) -> None:
    assert served[0]["texts"] == ["abcde"]


@gunicorn
def test_streams_of_a_worker_are_recorded_there_also_one_that_is_dropped(served: tuple[dict[str, Any], str]) -> None:
    assert sorted(served[0]["outcomes"]) == ["abandoned", "completed"]


@gunicorn
def test_a_preloaded_application_is_forked_with_its_hooks(served: tuple[dict[str, Any], str]) -> None:
    assert served[0]["same"] is not served[0]["preloaded"]


@gunicorn
def test_a_server_and_its_workers_end_without_a_word(served: tuple[dict[str, Any], str]) -> None:
    assert (served[0]["failures"], served[1]) == ({}, "")


# --- multiprocessing -------------------------------------------------------------------------------------------------

POOL: Final = """
import multiprocessing, warnings
from told import ASKED, CAPTURED, client, instrument, tell, text, told

warnings.simplefilter("ignore", DeprecationWarning)  # of forks while threads run

METHOD = "METHOD OF THE TEST"

def work(_):
    if METHOD == "spawn":
        instrument()
    CAPTURED.clear()
    with client() as asking:
        read = text(list(asking.chat.completions.create(**ASKED)))
    return {**told(), "read": read}

if __name__ == "__main__":
    instrument()
    with client() as asking:
        with asking.chat.completions.create(**ASKED) as mine:
            begun = text([next(mine), next(mine)])
            with multiprocessing.get_context(METHOD).Pool(2) as pool:
                children = pool.map(work, range(2))
            rest = text(list(mine))
    tell(children=children, read=begun + rest)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
class TestAPoolOfProcessesMadeWhileAStreamIsOpen:
    @pytest.fixture
    def report(self, method: str, run: Callable[..., Ran]) -> dict[str, Any]:
        """What the parent reports, with the reports of its children."""
        assert method in multiprocessing.get_all_start_methods()
        ran = run(POOL.replace("METHOD OF THE TEST", method))
        return {**ran.reports[0], "stderr": ran.stderr}

    def test_the_children_read_their_streams(self, report: dict[str, Any]) -> None:
        assert [child["read"] for child in report["children"]] == ["abcde"] * 2

    def test_the_children_record_their_own_streams_alone(self, report: dict[str, Any]) -> None:
        assert [child["outcomes"] for child in report["children"]] == [["completed"]] * 2

    def test_the_children_see_true_times(self, report: dict[str, Any]) -> None:
        assert [0.035 < child["ttft"][0] < 5 for child in report["children"]] == [True] * 2

    def test_the_parent_reads_its_stream_to_the_end(self, report: dict[str, Any]) -> None:
        assert report["read"] == "abcde"

    def test_the_parent_records_its_own_stream_alone(self, report: dict[str, Any]) -> None:
        assert (report["outcomes"], report["chunks"], report["counted"]) == (["completed"], [5], 1)

    def test_nothing_fails_and_nothing_is_printed(self, report: dict[str, Any]) -> None:
        assert ([child["failures"] for child in report["children"]], report["stderr"]) == ([{}, {}], "")


# --- A process that is stopped ---------------------------------------------------------------------------------------

FROZEN: Final = """
from told import ASKED, client, instrument, tell, text

instrument()
with client() as asking:
    stream = asking.chat.completions.create(**ASKED)
    chunks = [next(stream), next(stream)]
    print("first", flush=True)
    chunks += list(stream)
tell(read=text(chunks))
"""


@pytest.mark.requirement("R70")
def test_a_process_that_is_stopped_and_goes_on_has_read_and_recorded_everything_once(start: Callable[..., Any]) -> None:
    process: subprocess.Popen[str] = start(FROZEN)
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    process.send_signal(signal.SIGCONT)
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    report = json.loads(stdout)
    assert (report["read"], report["outcomes"], report["chunks"]) == ("abcde", ["completed"], [5])
    assert (report["failures"], stderr) == ({}, "")
