"""Turns the figures of a fleet into Markdown tables."""

from __future__ import annotations

import gzip
from collections.abc import Iterable

from bench.overhead.tables import NONE, table
from bench.scale.collectors import KEPT_PERCENT, Spent
from bench.scale.merging import Merged
from bench.scale.telemetry import Batch, Series

PROCESSES = 100
RATE = 1_000
EXPORTS_SECONDS = 60
DAY_SECONDS = 86_400


def traces_table(batches: dict[str, Batch], spent: Iterable[Spent], tokens: int) -> str:
    """Return the cost of traces and logs, by form of the token events."""
    cpu = {(each.form, each.tokens): each for each in spent}
    rows = []
    for form, token_events in [*((form, "keep") for form in batches), ("packed", "drop")]:
        measured = cpu.get((form, token_events))
        each = batches[form]
        traces, logs = len(each.traces), len(each.logs)
        if token_events == "drop":
            traces = len(batches["none"].traces)
        kept = (traces * KEPT_PERCENT / 100 + logs) / each.requests * RATE * DAY_SECONDS
        rows.append(
            [
                f"`{form}`" + (", dropped at the agent" if token_events == "drop" else ""),
                f"{each.size / each.requests:,.0f}",
                f"{each.size / each.requests / tokens:.1f}",
                f"{each.size / each.requests * RATE / 1e6:.1f}",
                f"{len(gzip.compress(each.traces + each.logs)) / each.requests * RATE / 1e6:.1f}",
                NONE if measured is None else f"{measured.agent * RATE / 1_000:.2f}",
                NONE if measured is None else f"{measured.gateway * RATE / 1_000:.2f}",
                f"{kept / 1e9:,.0f}",
            ]
        )
    return table(
        f"Traces and logs of {RATE:,} requests a second, by `token_events`",
        f"Responses of {tokens} tokens, 20 ms apart. *Bytes*: OTLP protobuf, from process to agent. *Cores*: CPU time "
        "of all agents, and of all gateways, in user and in system mode. *Kept*: "
        f"{KEPT_PERCENT} % of the traces and all log records, uncompressed.",
        (
            "form",
            "bytes a request",
            "a token",
            "MB/s",
            "MB/s gzipped",
            "cores, agents",
            "cores, gateways",
            "GB a day kept",
        ),
        rows,
    )


def series_table(by_models: dict[tuple[int, str], Series]) -> str:
    """Return the cost of metrics, by form of the histograms and number of models."""
    rows = [
        [
            form,
            str(models),
            f"{each.series:,}",
            f"{each.series * PROCESSES:,}",
            f"{each.series * PROCESSES / EXPORTS_SECONDS:,.0f}",
            f"{each.export:,}",
            f"{each.export * PROCESSES / EXPORTS_SECONDS / 1e3:,.0f}",
        ]
        for (models, form), each in by_models.items()
    ]
    return table(
        "Metrics, by form of the histograms",
        "The cost depends on the number of processes and models, not on that of requests. Shown is a process whose "
        "streams all completed, with an objective and the standard metrics. Every other outcome, phase or cause of a "
        f"stall adds a series. The fleet has {PROCESSES} processes, which export every {EXPORTS_SECONDS} s and use all "
        "models.",
        (
            "histograms",
            "models",
            "series a process",
            "series of the fleet",
            "samples a second",
            "bytes an export",
            "kB/s of the fleet",
        ),
        rows,
    )


def merging_table(merged: Iterable[Merged], processes: int) -> str:
    """Return the error of the percentiles of a fleet, by the way of merging."""
    rows = [
        [
            each.fleet,
            f"p{each.quantile * 100:g}",
            f"{each.true * 1_000:.1f}",
            *(f"{value / each.true - 1:+.1%}" for value in (each.averaged, each.classic, each.exponential)),
        ]
        for each in merged
    ]
    return table(
        f"Percentiles over {processes:,} processes",
        "*Averaged*: the mean of the exact percentiles of the processes. *Classic*: from the sum of the buckets of "
        "`itl.client.inter_token_latency`. *Exponential*: from the sum of exponential histograms of 160 buckets. Both "
        "are read as Prometheus's `histogram_quantile` does.",
        ("fleet", "", "exact, ms", "averaged", "classic", "exponential"),
        rows,
    )
