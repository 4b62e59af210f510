"""Programs that are killed in mid-run, and input that is no telemetry: nothing is lost, and nothing else breaks."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections import Counter

import pytest
from emitter import Emitter
from fleet import Fleet, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

STREAMS = 300


def outcomes(service: str) -> str:
    return f'sum(itl_client_stream_outcomes_total{{job="{service}"}})'


def assert_all_arrived(fleet: Fleet, emitter: Emitter, service: str) -> None:
    """Every span is kept, and every stream is in the count."""
    emitter.close()
    wait_until(lambda: emitter.span_ids <= set(fleet.backend.received(service)), f"every span of {service}")
    expected = len(emitter.sent)
    wait_until(lambda: fleet.prometheus.value(outcomes(service)) == expected, f"{outcomes(service)} is {expected}")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\xff\xff no protobuf", "application/x-protobuf"),
        (b'{"resourceSpans": 1}', "application/json"),
        (b"\x0a\xff\xff\xff\xff\x0f", "application/x-protobuf"),
    ],
    ids=["garbage", "json", "length"],
)
@pytest.mark.parametrize("signal", ["traces", "metrics", "logs"])
def test_malformed_input_is_refused_with_400(fleet: Fleet, body: bytes, kind: str, signal: str) -> None:
    body = body.replace(
        b"resourceSpans", {"traces": b"resourceSpans", "metrics": b"resourceMetrics"}.get(signal, b"resourceLogs")
    )
    request = urllib.request.Request(f"{fleet.agent.http_url}/v1/{signal}", body, {"content-type": kind})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert refused.value.code == 400


def test_after_malformed_input_all_goes_on(fleet: Fleet) -> None:
    emitter = Emitter("undisturbed", fleet.agent.http_url)
    for _ in range(10):
        emitter.stream(itl_stall_count=1)
    assert_all_arrived(fleet, emitter, "undisturbed")


def test_an_agent_that_is_killed_with_everything_undelivered_delivers_it_once(fleet: Fleet) -> None:
    emitter = Emitter("undelivered", fleet.agent.http_url)
    for gateway in fleet.gateways:
        gateway.kill()
    for _ in range(STREAMS):
        emitter.stream(itl_stall_count=1)
    emitter.flush()
    fleet.agent.kill()
    fleet.agent.start()
    for gateway in fleet.gateways:
        gateway.start()
    assert_all_arrived(fleet, emitter, "undelivered")
    assert Counter(emitter.span_ids) == fleet.backend.received("undelivered")


def test_an_agent_that_is_killed_in_mid_run_loses_no_span_and_no_count(fleet: Fleet) -> None:
    emitter = Emitter("interrupted", fleet.agent.http_url)
    killed = threading.Timer(1.0, lambda: (fleet.agent.kill(), time.sleep(1), fleet.agent.start()))
    killed.start()
    for _ in range(STREAMS):
        emitter.stream(itl_stall_count=1)
        time.sleep(0.01)
    killed.join()
    assert_all_arrived(fleet, emitter, "interrupted")


def test_a_gateway_that_is_down_gets_its_share_when_it_is_back_and_the_other_gets_nothing_twice(fleet: Fleet) -> None:
    emitter = Emitter("one-down", fleet.agent.http_url)
    fleet.gateways[0].kill()
    for _ in range(STREAMS):
        emitter.stream(itl_stall_count=1)
    emitter.flush()
    time.sleep(3)
    fleet.gateways[0].start()
    assert_all_arrived(fleet, emitter, "one-down")
    assert Counter(emitter.span_ids) == fleet.backend.received("one-down")
