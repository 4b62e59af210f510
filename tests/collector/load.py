"""What the fleet is put to, each once for all tests: streams of every kind, percentiles worth merging, and trouble."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from emitter import Emitter
from fleet import Fleet, wait_until
from workers import Truth, start_worker, truth_of

KEEP_PERCENT: Final = 25
HOLD_SECONDS: Final = 5

REASONS: Final[dict[str, dict[str, Any]]] = {
    "stalled": {"itl_stall_count": 1},
    "truncated": {"itl_stream_outcome": "truncated"},
    "failed": {"itl_stream_outcome": "error", "error": True},
    "objective-missed": {"itl_slo_met": False},
    "session-degraded": {"itl_session_degraded": True, "session_id": "s"},
    "session-stalled-before": {"itl_session_stall_count": 2, "session_id": "s"},
}
"""By service, why its streams are kept."""

NO_REASONS: Final[list[dict[str, Any]]] = [
    {"itl_stream_outcome": "completed", "itl_stall_count": 0, "itl_slo_met": True},
    {"itl_stream_outcome": "closed", "itl_session_degraded": False, "itl_session_stall_count": 0, "session_id": "s"},
    {"itl_stream_outcome": "cancelled"},
    {"itl_stream_outcome": "abandoned"},
]
STREAMS: Final = 50
ORDINARY: Final = 2_000

PACES: Final = ((0.010, 4), (0.050, 1))
"""Of each process: its gap in seconds, and how many streams at once. Averaging their percentiles would be far off."""

NATIVE: Final = "base2_exponential_bucket_histogram"
FORMS: Final = {"native": NATIVE, "classic": "explicit_bucket_histogram"}
"""By service, the form of its histograms."""

HEALTHY, SLOW = [8, 0.06, 0.1, 0.0], [12, 0.2, 0.8, 0.0]
FLOWING, SILENT = [2, 0.02, 0.1, 0.0], [4, 0.02, 0.1, 8.0]


class Played(NamedTuple):
    """A service after its processes have ended."""

    fleet: Fleet
    service: str
    truth: Truth

    @property
    def trouble(self) -> float:
        """The Unix time at which it began."""
        return self.truth.began[1]

    @property
    def relief(self) -> float:
        """The Unix time at which it was over."""
        return self.truth.began[2]


@pytest.fixture(scope="session")
def steady(fleet: Fleet) -> Iterator[None]:
    """A service that goes on and on, and pauses now and then: there is a past to compare with."""
    plan = {"model": "steady-1", "streams": 2, "tokens": 20, "phases": [[600, 0.05, 0.1, 1.5]]}
    worker = start_worker(fleet, "steady", plan, OTEL_ITL_STALL="first_token=1,next_token=1")
    yield
    worker.kill()
    worker.communicate()


@pytest.fixture(scope="session")
def emitted(fleet: Fleet) -> dict[str, Emitter]:
    """Return the streams of each service, once all that will be kept has been stored."""
    emitters: dict[str, Emitter] = {}

    def emitter(service: str) -> Emitter:
        if service not in emitters:
            emitters[service] = Emitter(service, fleet.agent.http_url)
        return emitters[service]

    outlived = [emitter("outlived").stream() for _ in range(STREAMS)]
    emitter("outlived").flush()
    let_go = time.monotonic() + HOLD_SECONDS + 2
    for reason, attributes in REASONS.items():
        for _ in range(STREAMS):
            emitter(reason).stream(**attributes)
    for index in range(ORDINARY):
        emitter("ordinary").stream(**NO_REASONS[index % len(NO_REASONS)])
    earlier = [emitter("whole").stream() for _ in range(STREAMS)]
    emitter("whole").flush()
    for span in earlier:
        emitter("whole").stream(within=span, itl_stall_count=1)
        emitter("whole").stream(within=span)
    time.sleep(max(0.0, let_go - time.monotonic()))
    for span in outlived:
        emitter("late").stream(within=span, itl_stall_count=1)
    for each in emitters.values():
        each.close()
    for service in ("late", "whole", *REASONS):
        wait_until(lambda service=service: emitters[service].span_ids <= set(fleet.backend.received(service)), service)
    return emitters


@pytest.fixture(scope="session")
def truths(fleet: Fleet) -> dict[str, Truth]:
    """By form of the histogram, the truth of processes that have exported everything."""
    running = {
        form: [
            start_worker(
                fleet,
                form,
                {"model": "scripted", "streams": streams, "tokens": 40, "phases": [[8, gap, 0.1, 0.0]]},
                OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=aggregation,
            )
            for gap, streams in PACES
        ]
        for form, aggregation in FORMS.items()
    }
    running_truths = {form: [truth_of(worker) for worker in workers] for form, workers in running.items()}
    return {
        form: Truth([sample for truth in each for sample in truth.samples], sum(truth.streams for truth in each), [])
        for form, each in running_truths.items()
    }


@pytest.fixture(scope="session")
def played(fleet: Fleet, steady: None) -> dict[str, Played]:
    """By service: `slow` and `silent`, each well at first, then not, then well again."""
    plans = {
        "slow": {"streams": 4, "tokens": 12, "phases": [HEALTHY, SLOW, HEALTHY]},
        "silent": {"streams": 4, "tokens": 20, "phases": [FLOWING, SILENT, FLOWING]},
    }
    workers = {
        service: start_worker(
            fleet,
            service,
            {"model": f"{service}-1", **plan},
            OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=NATIVE,
            OTEL_ITL_SLO="chat",
            OTEL_ITL_STALL="first_token=1,next_token=1",
        )
        for service, plan in plans.items()
    }
    return {service: Played(fleet, service, truth_of(worker)) for service, worker in workers.items()}
