"""A provider that goes slow, and one that falls silent: the pages, the end of the pages, and what is kept of the streams."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from fleet import SHORTENED, Fleet, wait_until
from workers import Truth, start_worker, truth_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

LONG_WINDOW_SECONDS = 3600 / SHORTENED
"""Of the page at 14.4 times the allowed burn rate."""

HEALTHY, SLOW = [8, 0.06, 0.1, 0.0], [12, 0.2, 0.8, 0.0]
FLOWING, SILENT = [2, 0.02, 0.1, 0.0], [4, 0.02, 0.1, 8.0]


class Played(NamedTuple):
    """A service whose processes have ended."""

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


@pytest.fixture(scope="module")
def played(fleet: Fleet) -> dict[str, Played]:
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
            OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION="base2_exponential_bucket_histogram",
            OTEL_ITL_SLO="chat",
            OTEL_ITL_STALL="first_token=1,next_token=1",
        )
        for service, plan in plans.items()
    }
    return {service: Played(fleet, service, truth_of(worker)) for service, worker in workers.items()}


@pytest.mark.parametrize(
    ("service", "labels"),
    [
        ("slow", {"alertname": "LatencyBudgetBurning", "burn_rate": "14.4", "objective": "itl"}),
        ("slow", {"alertname": "LatencyBudgetBurning", "burn_rate": "14.4", "objective": "ttft"}),
        ("silent", {"alertname": "StreamsStalledNow"}),
    ],
    ids=["itl", "ttft", "stalled"],
)
def test_trouble_pages_while_it_lasts_and_is_resolved_after(
    played: dict[str, Played], service: str, labels: dict[str, str]
) -> None:
    of = played[service]
    labels = {**labels, "job": service, "severity": "page", "gen_ai_request_model": f"{service}-1"}
    fired = of.fleet.webhook.find("firing", **labels)
    assert fired is not None, "nobody was paged"
    assert fired[1] == "/pages"
    assert 0 < fired[0] - of.trouble < LONG_WINDOW_SECONDS
    resolved = wait_until(lambda: of.fleet.webhook.find("resolved", since=of.relief, **labels), "the page is resolved")
    assert resolved[0] - of.relief < LONG_WINDOW_SECONDS


def test_a_page_says_what_users_feel_and_where_to_look(played: dict[str, Played]) -> None:
    told = played["slow"].fleet.webhook.find("firing", alertname="LatencyBudgetBurning", objective="itl", job="slow")
    assert told is not None
    annotations = told[2]["annotations"]
    assert annotations["summary"] == "Answers of slow-1 stutter: text appears slower than people read (slow, openai)"
    assert played["slow"].fleet.prometheus.exemplars(annotations["exemplars"])


def test_nobody_is_paged_for_a_service_that_is_well(played: dict[str, Played]) -> None:
    jobs = {alert["labels"]["job"] for _, path, alert in played["slow"].fleet.webhook.told if path == "/pages"}
    assert jobs <= played.keys()


def test_every_stream_that_stalled_is_kept(played: dict[str, Played]) -> None:
    of = played["silent"]
    stalled = 'sum(itl_client_stalls_total{job="silent", itl_stall_cause="upstream", itl_stall_phase="decode"})'
    counted = wait_until(lambda: of.fleet.prometheus.value(stalled), stalled)
    kept = Counter(
        span.span_id
        for span in of.fleet.backend.spans("silent")
        if any(item.key == "itl.stall.count" and item.value.int_value > 0 for item in span.attributes)
    )
    assert (counted, {1}) == (len(kept), set(kept.values()))


def test_stalls_are_logged_when_they_begin_and_when_they_end(played: dict[str, Played]) -> None:
    of = played["silent"]
    events = Counter(of.fleet.backend.log_events("silent"))
    assert 0 < events["itl.stall.started"] == events["itl.stall.ended"]
