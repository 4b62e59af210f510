"""One Collector on a laptop: what it writes is what the report reads; and an agent that drops token events."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from emitter import Emitter
from fleet import ROOT, Backend, Collector, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def start(programs: None, tmp_path: Path) -> Iterator[Callable[..., Collector]]:
    started: list[Collector] = []

    def starting(*configurations: str, **variables: str) -> Collector:
        started.append(Collector(configurations[0], configurations, tmp_path, variables))
        started[-1].start()
        return started[-1]

    yield starting
    for collector in started:
        collector.stop()


def demo(collector: Collector, folder: Path) -> None:
    """Play the demonstration to a Collector."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    environ = inherited | {"PYTHONPATH": str(ROOT), "OTEL_EXPORTER_OTLP_ENDPOINT": collector.http_url}
    environ["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http/protobuf"
    command = [sys.executable, "-m", "otel_itl", "demo", "--seconds", "3", "--quiet"]
    subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True, timeout=60)


def test_the_report_reads_the_file_of_the_local_collector(start: Callable[..., Collector], tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    collector = start("local.yaml", ITL_FILE=str(file))
    demo(collector, tmp_path)
    collector.stop()
    command = [sys.executable, "-m", "otel_itl", "report", str(file)]
    shown = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert "smooth-1" in shown.stdout


@pytest.mark.parametrize(("setting", "kept"), [("keep", 5), ("drop", 0)])
def test_the_agent_keeps_or_drops_token_events(start: Callable[..., Collector], setting: str, kept: int) -> None:
    backend = Backend()
    backend.start()
    try:
        gateway = start(
            "gateway.yaml", "gateway-traces.yaml", ITL_OTLP_URL=backend.url, ITL_METRICS_EXPORTERS="[otlp_http]"
        )
        gateways = f"{{static: {{hostnames: [127.0.0.1:{gateway.grpc_port}]}}}}"
        agent = start("agent.yaml", ITL_GATEWAYS=gateways, ITL_TOKEN_EVENTS=setting)
        emitter = Emitter("tokens", agent.http_url)
        emitter.stream(itl_stall_count=1, events=5)
        emitter.close()
        (span,) = wait_until(lambda: backend.spans("tokens"), "the span")
        assert kept == len(span.events)
    finally:
        backend.stop()
