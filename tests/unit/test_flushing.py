"""Flushes are bounded in time, and one provider that hangs or fails keeps no other from being flushed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from threading import Event, active_count
from time import monotonic

import pytest

import otel_itl
from otel_itl.export.flushes import flushes_of
from otel_itl.process.flushing import Flusher

SECONDS = 10.0
SHORT_SECONDS = 0.2


class Provider:
    """Counts its flushes; waits in them while it is blocked, and fails with `error`."""

    def __init__(self, blocked: Event | None = None, *, result: bool = True, error: Exception | None = None) -> None:
        self.flushes = 0
        self._blocked = blocked
        self._result = result
        self._error = error

    def force_flush(self, timeout_millis: int) -> bool:
        self.flushes += 1
        if self._blocked is not None:
            self._blocked.wait(SECONDS)
        if self._error is not None:
            raise self._error
        return self._result


@pytest.fixture
def blocked() -> Iterator[Event]:
    """Set at the end of the test, so that no thread stays blocked."""
    event = Event()
    yield event
    event.set()


def flusher(*providers: Provider, calls: list[str] | None = None) -> Flusher:
    """A flusher of these providers, which lists what it has called."""
    calls = [] if calls is None else calls
    exports = flushes_of(*providers)
    return Flusher(lambda: calls.append("end"), lambda: calls.append("finalize"), lambda: exports)


def test_a_flush_finalizes_and_then_flushes_every_provider() -> None:
    calls: list[str] = []
    providers = [Provider(), Provider(), Provider()]
    assert flusher(*providers, calls=calls).flush(SECONDS)
    assert (calls, [provider.flushes for provider in providers]) == (["finalize"], [1, 1, 1])


def test_the_end_of_the_process_ends_the_open_streams() -> None:
    calls: list[str] = []
    assert flusher(Provider(), calls=calls).end_process(SECONDS)
    assert calls == ["end"]


def test_without_providers_there_is_nothing_to_do() -> None:
    calls: list[str] = []
    assert (flusher(calls=calls).flush(SECONDS), calls) == (True, [])


@pytest.mark.parametrize("failing", [Provider(result=False), Provider(error=ValueError("endpoint"))])
def test_a_flush_that_fails_is_reported_and_keeps_no_other_from_being_done(failing: Provider) -> None:
    healthy = Provider()
    assert (flusher(failing, healthy).flush(SECONDS), healthy.flushes) == (False, 1)


def test_a_flush_ends_in_time_though_an_exporter_hangs(blocked: Event) -> None:
    healthy = Provider()
    begin = monotonic()
    assert not flusher(Provider(blocked), healthy).flush(SHORT_SECONDS)
    assert (monotonic() - begin < SECONDS / 2, healthy.flushes) == (True, 1)


def test_flushes_of_an_exporter_that_hangs_do_not_pile_up(blocked: Event) -> None:
    hanging = Provider(blocked)
    flushing = flusher(hanging)
    before = active_count()
    for _ in range(3):
        flushing.flush(SHORT_SECONDS)
    assert (hanging.flushes, active_count() - before <= 1) == (1, True)


def test_streams_that_cannot_be_finalized_in_time_keep_no_provider_from_being_flushed(blocked: Event) -> None:
    provider = Provider()
    flushing = Flusher(lambda: blocked.wait(SECONDS), lambda: None, lambda: flushes_of(provider))
    assert (flushing.end_process(SHORT_SECONDS), provider.flushes) == (False, 1)


def test_a_forked_process_does_not_wait_for_a_flush_of_its_parent(blocked: Event) -> None:
    hanging = Provider(blocked)
    flushing = flusher(hanging)
    flushing.flush(SHORT_SECONDS)
    flushing.forget_after_fork()
    flushing.flush(SHORT_SECONDS)
    assert hanging.flushes == 2


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "2", None, True])
def test_a_number_of_seconds_that_is_none_is_refused(seconds: object) -> None:
    with pytest.raises(ValueError, match=r"flush\(seconds=.*\) is not accepted: it takes a number of seconds above 0"):
        otel_itl.flush(seconds)  # type: ignore[arg-type]


def test_a_process_that_has_recorded_nothing_is_flushed_at_once() -> None:
    # A process of its own: others have recorded streams in this one.
    command = [sys.executable, "-c", "import otel_itl; print(otel_itl.flush())"]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "True\n"
