"""A provider that goes slow, and one that falls silent: who is paged, until when, and what is kept of the streams."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from fleet import SHORTENED, wait_until

if TYPE_CHECKING:
    from load import Played

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

LONG_WINDOW_SECONDS = 3600 / SHORTENED
"""Of the page at 14.4 times the allowed burn rate."""


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
    assert fired is not None, "no page was sent"
    assert fired[1] == "/pages"
    # A machine with other work makes everybody stutter: a page that it raised before is right as well.
    assert fired[0] - of.trouble < LONG_WINDOW_SECONDS
    resolved = wait_until(lambda: of.fleet.webhook.find("resolved", since=of.relief, **labels), "the page is resolved")
    assert resolved[0] - of.relief < LONG_WINDOW_SECONDS


def test_a_page_says_what_users_feel_and_where_to_look(played: dict[str, Played]) -> None:
    fired_slow = played["slow"].fleet.webhook.find(
        "firing", alertname="LatencyBudgetBurning", objective="itl", job="slow"
    )
    assert fired_slow is not None
    annotations = fired_slow[2]["annotations"]
    assert annotations["summary"] == "Answers of slow-1 stutter: text appears slower than people read (slow, openai)"
    assert played["slow"].fleet.prometheus.exemplars(annotations["exemplars"])


def test_nobody_is_paged_for_the_service_that_is_well_at_the_same_time(played: dict[str, Played]) -> None:
    paged = {alert["labels"]["job"] for _, path, alert in played["slow"].fleet.webhook.notified if path == "/pages"}
    assert played.keys() == paged


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
