"""What a forked child takes over from its parent: the instrumentation, and nothing that is the parent's to report."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

FORKED = """
import json, os, threading
import otel_itl
from otel_itl.runtime import runtime
from otel_itl.testing import capture_telemetry

runtime.finalizer.thread.interval = 60  # nothing is recorded before somebody collects

def read():
    with otel_itl.session("s"):
        list(otel_itl.observe(iter(["a", "b", "c"]), provider="p", model="m"))

def outcomes(telemetry):
    return sum(point.value for point in telemetry.metrics.get("itl.client.stream.outcomes", []))

with capture_telemetry() as telemetry:
    otel_itl.instrument(meter_provider=telemetry.meter_provider, tracer_provider=telemetry.tracer_provider)
    read()
    sessions = runtime._pipeline.spans.sessions
    reading, writing = os.pipe()
    with sessions._models.lock, runtime._lock:
        child = os.fork()
    if not child:
        counted = [outcomes(telemetry)]
        read()
        counted.append(outcomes(telemetry))
        os.write(writing, json.dumps(counted).encode())
        os._exit(0)
    os.waitpid(child, 0)
    print(json.dumps([outcomes(telemetry), json.loads(os.read(reading, 99))]))
"""


@pytest.mark.requirement("R69")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_child_counts_its_own_streams_whatever_its_parent_was_doing() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stderr, json.loads(ran.stdout)) == ("", [1, [0, 1]])
