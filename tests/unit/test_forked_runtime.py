"""After a fork each process has its own streams, threads and reports, and the parent's are the parent's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [
    pytest.mark.requirement("R69"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork"),
]

START = """
import gc, json, os, sys, time
import otel_itl
from otel_itl.core.request import Request
from otel_itl.runtime import runtime
from otel_itl.testing import capture_telemetry

def opened(model):
    return runtime.open(Request(operation="chat", provider="openai", model=model), lambda chunk, response: 0)

def eventually(fact):
    limit = time.monotonic() + 10
    while not fact() and time.monotonic() < limit:
        time.sleep(0.01)

with capture_telemetry() as telemetry:
    otel_itl.instrument(
        tracer_provider=telemetry.tracer_provider,
        meter_provider=telemetry.meter_provider,
        logger_provider=telemetry.logger_provider,
        stall=otel_itl.StallPolicy(first_token=0.3),
    )
"""

STREAMS = (
    START
    + """
    ended, dropped = opened("ended"), opened("dropped")
    parents_thread = runtime.watchdog.thread._alarm
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        facts = {"open": len(runtime.open_streams), "thread": runtime.watchdog.thread.is_alive}
        ended.end_closed()
        del dropped
        gc.collect()
        runtime.finalizer.finalize_pending()
        facts["reported of the parent's"] = len(telemetry.spans)
        own = opened("own")
        facts["open with its own"] = len(runtime.open_streams)
        facts["a thread of its own"] = runtime.watchdog.thread._alarm is not parents_thread
        del own
        gc.collect()
        eventually(lambda: telemetry.spans)
        facts["reported of its own"] = len(telemetry.spans)
        os.write(writing, json.dumps(facts).encode())
        os._exit(0)
    os.waitpid(child, 0)
    ended.end_closed()
    del dropped
    gc.collect()
    runtime.finalizer.finalize_pending()
    print(json.dumps({"child": json.loads(os.read(reading, 10_000)), "parent": len(telemetry.spans)}))
    sys.stdout.flush()
    os._exit(0)
"""
)

STALLS = (
    START
    + """
    def stalled():
        return sorted({log.attributes["gen_ai.request.model"] for log in telemetry.logs})

    parents = opened("parent's")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        telemetry.clear()
        own = opened("child's")
        eventually(stalled)
        time.sleep(0.3)
        os.write(writing, json.dumps(stalled()).encode())
        os._exit(0)
    eventually(stalled)
    os.waitpid(child, 0)
    print(json.dumps([json.loads(os.read(reading, 10_000)), stalled()]))
    sys.stdout.flush()
    os._exit(0)
"""
)


def run(program: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], check=True, capture_output=True, text=True, timeout=30
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def forked() -> dict[str, Any]:
    """What a process and its fork find of two streams that were open when it forked."""
    found: dict[str, Any] = run(STREAMS)
    return found


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("open", 0),
        ("thread", False),
        ("reported of the parent's", 0),
        ("open with its own", 1),
        ("a thread of its own", True),
        ("reported of its own", 1),
    ],
)
def test_a_fork_leaves_the_parents_streams_and_thread_behind(
    forked: dict[str, Any], fact: str, expected: object
) -> None:
    assert forked["child"][fact] == expected


def test_a_fork_takes_nothing_from_the_parent(forked: dict[str, Any]) -> None:
    assert forked["parent"] == 2


@pytest.mark.requirement("R46")
def test_after_a_fork_each_process_watches_its_own_streams() -> None:
    assert run(STALLS) == [["child's"], ["parent's"]]
