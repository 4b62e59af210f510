"""Processes of the fleet that run the real package: starting one, and asking it for the truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from fleet import ROOT, Fleet


class Truth(NamedTuple):
    """What the processes of one service know of what they did, pooled."""

    samples: list[float]
    streams: int
    began: list[float]
    """Unix times of the phases."""


def start_worker(fleet: Fleet, service: str, plan: dict[str, Any], **variables: str) -> subprocess.Popen[str]:
    """Start a process that carries out a plan, and exports to the agent."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "OPENAI_"))}
    environ = inherited | {
        "PYTHONPATH": str(ROOT),
        "OTEL_SERVICE_NAME": service,
        "OTEL_EXPORTER_OTLP_ENDPOINT": fleet.agent.http_url,
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
    }
    worker = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("worker.py"))],
        env=environ | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(plan))
    worker.stdin.close()
    worker.stdin = None
    return worker


def truth_of(worker: subprocess.Popen[str]) -> Truth:
    """Return what a process prints when it ends."""
    printed, _ = worker.communicate(timeout=120)
    assert worker.returncode == 0
    truth = json.loads(printed)
    return Truth([sample / 1e9 for sample in truth["samples"]], truth["streams"], truth["began"])
