"""Exporters whose endpoint refuses connections or does not take a signal: reported once, and the process goes on."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

from otel_itl.export import delivery
from otel_itl.export.delivery import DeliveryNotices, Endpoint, GuardedExporter
from otel_itl.recording.internal_errors import InternalErrors

SET_UP = "The SDK was set up."


class Result(Enum):
    SUCCESS = 0
    FAILURE = 1


class Status(Enum):
    """As gRPC has it."""

    UNIMPLEMENTED = 12
    UNAVAILABLE = 14


class Exporter:
    """An exporter of OpenTelemetry's: it may log why its backend rejects a batch."""

    __module__ = "opentelemetry.exporter.test"

    def __init__(self) -> None:
        self.exported: list[Any] = []
        self.status: Any = None
        self.was_shut_down = False

    def export(self, batch: Any) -> Result:
        if self.status is not None:
            logging.getLogger("opentelemetry.exporter.test").error("Failed, code: %s, reason: %s", self.status, "no")
            return Result.FAILURE
        self.exported += batch
        return Result.SUCCESS

    def shutdown(self, timeout_millis: float = 30_000) -> None:
        self.was_shut_down = True


class Backend:
    """A port on this machine, which may or may not be listened to."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1/traces"

    def listen(self) -> None:
        self._socket.listen()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def backend() -> Iterator[Backend]:
    made = Backend()
    yield made
    made.close()


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    yield Exporter()
    logging.getLogger("opentelemetry.exporter.test").filters.clear()


@pytest.fixture
def errors() -> InternalErrors:
    return InternalErrors()


@pytest.fixture
def notices() -> DeliveryNotices:
    return DeliveryNotices(SET_UP, "leave it")


@pytest.fixture
def guarded(exporter: Exporter, backend: Backend, notices: DeliveryNotices, errors: InternalErrors) -> GuardedExporter:
    return GuardedExporter(exporter, "traces", backend.url, notices, errors)


# --- Endpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:4317", ("localhost:4317", "localhost", 4317)),
        ("http://localhost:4318/v1/traces", ("http://localhost:4318", "localhost", 4318)),
        ("https://collector/v1/traces", ("https://collector", "collector", 443)),
        ("collector", ("collector", "collector", 443)),
        ("http://[::1]:4318", ("http://[::1]:4318", "::1", 4318)),
    ],
)
def test_an_endpoint_is_a_url_or_host_and_port(text: str, expected: tuple[str, str, int]) -> None:
    found = Endpoint.parse(text, {})
    assert found is not None
    assert (found.address, found.host, found.port) == expected


@pytest.mark.parametrize("text", ["", "unix:///run/otel.sock", "dns:///collector:4317", "http://a:b"])
def test_what_is_no_address_of_the_network_is_not_connected_to(text: str) -> None:
    assert Endpoint.parse(text, {}) is None


def test_behind_a_proxy_only_this_machine_is_connected_to_directly() -> None:
    environ = {"HTTPS_PROXY": "http://proxy:3128"}
    found = [Endpoint.parse(text, environ) for text in ("https://collector:4318", "http://localhost:4318")]
    assert [endpoint is not None for endpoint in found] == [False, True]


def test_an_endpoint_refuses_where_its_port_is_closed_and_where_its_name_is_unknown(backend: Backend) -> None:
    endpoints = [Endpoint.parse(text, {}) for text in (backend.url, "http://collector.invalid:4318")]
    assert [endpoint is not None and endpoint.find_refusal() is not None for endpoint in endpoints] == [True, True]


def test_an_endpoint_that_is_slow_to_accept_does_not_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def time_out(*_: Any, **__: Any) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", time_out)
    assert Endpoint("http://collector:4318", "collector", 4318).find_refusal() is None


def test_a_name_server_that_is_slow_to_refuse_is_asked_once_for_all_signals(
    monkeypatch: pytest.MonkeyPatch, notices: DeliveryNotices
) -> None:
    asked: list[Endpoint] = []

    def refuse_slowly(endpoint: Endpoint) -> str:
        asked.append(endpoint)
        time.sleep(0.02)
        return "Name or service not known"

    monkeypatch.setattr(delivery, "CONNECT_SECONDS", 0.01)
    monkeypatch.setattr(Endpoint, "find_refusal", refuse_slowly)
    found = [notices.find_refusal(Endpoint("collector:4317", "collector", 4317)) for _ in range(3)]
    assert (found, len(asked)) == (["Name or service not known"] * 3, 1)


# --- An endpoint that refuses ----------------------------------------------------------------------------------------


def test_a_refusal_is_logged_once_with_the_endpoint_and_both_ways_out(
    guarded: GuardedExporter, backend: Backend, exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    started = time.monotonic()
    for number in range(20):
        guarded.export([number])
    sentence = (
        f"Telemetry is not delivered, as {backend.url.removesuffix('/v1/traces')} does not accept connections "
        "(Connection refused): set OTEL_EXPORTER_OTLP_ENDPOINT to an endpoint that does, or leave it."
    )
    assert caplog.messages == [sentence]
    assert (exporter.exported, time.monotonic() - started < 5) == ([], True)


def test_when_the_endpoint_listens_again_what_was_kept_is_sent(
    guarded: GuardedExporter, backend: Backend, exporter: Exporter
) -> None:
    guarded.export([1, 2])
    backend.listen()
    guarded.export([3])
    guarded.export([4])
    assert exporter.exported == [1, 2, 3, 4]


def test_what_was_kept_is_sent_at_the_end_and_else_counted(
    exporter: Exporter, backend: Backend, notices: DeliveryNotices, errors: InternalErrors
) -> None:
    refused = GuardedExporter(exporter, "traces", backend.url, notices, errors)
    refused.export([1])
    refused.shutdown()
    assert (exporter.exported, exporter.was_shut_down, errors.counts) == ([], True, {"queue.unsent": 1})
    recovered = GuardedExporter(exporter, "traces", backend.url, notices, errors)
    recovered.export([2])
    backend.listen()
    recovered.shutdown()
    assert (exporter.exported, errors.counts) == ([2], {"queue.unsent": 1})


def test_the_oldest_that_are_too_many_are_dropped_and_counted(
    guarded: GuardedExporter,
    backend: Backend,
    exporter: Exporter,
    errors: InternalErrors,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery, "MAX_KEPT", 3)
    guarded.export([1, 2])
    guarded.export([3, 4, 5])
    backend.listen()
    guarded.export([])
    assert (exporter.exported, errors.counts) == ([3, 4, 5], {"queue.unsent": 2})


def test_a_forked_process_sends_nothing_and_leaves_the_exporter_of_its_parent_alone(
    guarded: GuardedExporter, backend: Backend, exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.export([1])
    backend.listen()
    monkeypatch.setattr("os.getpid", lambda: 0)
    guarded.export([2])
    guarded.shutdown()
    assert (exporter.exported, exporter.was_shut_down) == ([], False)


def test_an_exporter_that_was_shut_down_logs_as_ever(
    guarded: GuardedExporter, exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    guarded.shutdown()
    assert logging.getLogger("opentelemetry.exporter.test").filters == []


# --- A backend that takes some signals -------------------------------------------------------------------------------


def test_an_endpoint_to_which_a_path_was_added_twice_is_to_be_corrected_first(
    backend: Backend,
    exporter: Exporter,
    notices: DeliveryNotices,
    errors: InternalErrors,
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend.listen()
    exporter.status = 404
    GuardedExporter(exporter, "traces", f"{backend.url}/v1/traces", notices, errors).export([1])
    assert "(404): leave /v1/traces out of OTEL_EXPORTER_OTLP_ENDPOINT, to which exporters add it;" in caplog.text


@pytest.mark.parametrize("status", [404, 405, 501, Status.UNIMPLEMENTED], ids=str)
def test_a_rejected_signal_is_logged_once_with_the_variable_and_nothing_else_is(
    status: Any,
    guarded: GuardedExporter,
    backend: Backend,
    exporter: Exporter,
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend.listen()
    exporter.status = status
    for _ in range(3):
        guarded.export([1])
    shown = getattr(status, "name", status)
    assert caplog.messages == [
        f"{backend.url} does not take traces ({shown}): OTEL_TRACES_EXPORTER=none keeps them from being sent."
    ]


@pytest.mark.parametrize("status", [400, 401, 503, Status.UNAVAILABLE], ids=str)
def test_any_other_failure_is_logged_as_the_exporter_does(
    status: Any,
    guarded: GuardedExporter,
    backend: Backend,
    exporter: Exporter,
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend.listen()
    exporter.status = status
    guarded.export([1])
    assert caplog.messages == [f"Failed, code: {status}, reason: no"]


def test_exporters_of_the_application_log_as_ever(
    guarded: GuardedExporter, exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    exporter.status = 404
    exporter.export([1])
    assert caplog.messages == ["Failed, code: 404, reason: no"]


def test_the_set_up_is_logged_with_the_first_delivery(
    guarded: GuardedExporter, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.listen()
    guarded.export([1])
    guarded.export([2])
    assert caplog.messages == [SET_UP]
