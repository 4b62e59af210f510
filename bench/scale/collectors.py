"""CPU time per request of a real agent and a real gateway, with the configurations of `collector/`."""

from __future__ import annotations

import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from bench.scale.telemetry import FORMS, Batch, batch
from tests.collector.fleet import COLLECTOR, Backend, Collector, wait_until

KEPT_PERCENT = 10
SENDERS = 4


class Spent(NamedTuple):
    """CPU time (ms) per request, for one form of the token events."""

    form: str
    tokens: str
    """What the agent does with token events: `keep` or `drop`."""
    agent: float
    gateway: float


def measured(requests: int, tokens: int) -> list[Spent]:
    """Return the CPU time of every form, and of the default form with its token events dropped at the agent.

    Empty where the Collector is not built.
    """
    if not COLLECTOR.exists():
        return []
    forms = [(form, "keep") for form in FORMS] + [("packed", "drop")]
    return [_spent(form, token_events, requests, tokens) for form, token_events in forms]


def _spent(form: str, token_events: str, requests: int, tokens: int) -> Spent:
    batches = [batch(form, 64, tokens, seed) for seed in range(max(1, requests // 64))]
    sent = 64 * len(batches)
    backend = Backend()
    with tempfile.TemporaryDirectory() as folder:
        roomy = {"ITL_MEMORY_MIB": "4096"}  # all requests arrive at once, and none may be refused
        settings = roomy | {"ITL_OTLP_URL": backend.url, "ITL_METRICS_EXPORTERS": "[otlp_http]"}
        gateway = Collector(
            "gateway",
            ["gateway.yaml", "gateway-traces.yaml"],
            Path(folder),
            settings | {"ITL_KEEP_PERCENT": str(KEPT_PERCENT)},
        )
        gateways = f"{{static: {{hostnames: [127.0.0.1:{gateway.grpc_port}]}}}}"
        settings = roomy | {"ITL_GATEWAYS": gateways, "ITL_TOKEN_EVENTS": token_events}
        agent = Collector("agent", ["agent.yaml"], Path(folder), settings)
        parts = (backend, gateway, agent)
        try:
            for part in parts:
                part.start()
            before = agent.cpu_seconds, gateway.cpu_seconds
            with ThreadPoolExecutor(SENDERS) as senders:
                list(senders.map(lambda each: _send(agent, each), batches))
            wait_until(lambda: _done(gateway, "traces") >= sent, "all spans have arrived")
            if form == "log":
                wait_until(lambda: _done(gateway, "logs") >= sent, "all log records have arrived")
            wait_until(lambda: gateway.own_metric("otelcol_exporter_queue_size") == 0, "the gateway's queue is empty")
            after = agent.cpu_seconds, gateway.cpu_seconds
        finally:
            for part in reversed(parts):
                part.stop()
    milliseconds = [1_000 * (end - start) / sent for start, end in zip(before, after, strict=True)]
    return Spent(form, token_events, *milliseconds)


def _done(gateway: Collector, signal: str) -> float:
    item = {"traces": "spans", "logs": "log_records"}[signal]
    return gateway.own_metric(f"otelcol_receiver_accepted_{item}")


def _send(agent: Collector, each: Batch) -> None:
    for signal, body in (("traces", each.traces), ("logs", each.logs)):
        if body:
            url, headers = f"{agent.http_url}/v1/{signal}", {"content-type": "application/x-protobuf"}
            request = urllib.request.Request(url, body, headers)  # noqa: S310 - the address of our own program
            urllib.request.urlopen(request, timeout=60).close()  # noqa: S310 - likewise
