"""How late a thread wakes up because other threads keep the interpreter."""

from __future__ import annotations

import threading
import time

import pytest

from otel_itl.core.host_bound import is_process_bound
from otel_itl.core.measures import measure
from otel_itl.core.timeline import Timeline
from otel_itl.recording.host_delay import HostClock, HostDelay
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.wake_lateness import MAX_WAKES, WakeLateness

MS = 1_000_000


def woken(*late_ms: float, host_ms: float = 0.0) -> WakeLateness:
    """The lateness of a thread that woke up this late, of which the host delayed it by `host_ms` each time."""
    readings = iter(index * host_ms * MS for wake in range(len(late_ms)) for index in (wake, wake + 1))
    lateness = WakeLateness(lambda: int(next(readings)))
    for late in late_ms:
        lateness.begin_sleep()
        lateness.end_sleep(int(late * MS))
    return lateness


def test_the_typical_lateness_is_the_median() -> None:
    assert woken(5, 0.1, 6).since(0) == 5 * MS


def test_one_late_wake_of_three_is_not_typical() -> None:
    assert woken(9, 0.1, 0.1).since(0) == MS // 10


def test_what_the_host_added_is_left_out() -> None:
    assert woken(5, 5, host_ms=4).since(0) == 1 * MS


def test_wakes_before_a_stream_do_not_count() -> None:
    assert woken(9, 9, 9, 0.1).since(3) == MS // 10


def test_a_stream_without_a_wake_shows_nothing() -> None:
    assert woken(9).since(1) is None


def test_where_the_hosts_share_is_unknown_nothing_is_known() -> None:
    lateness = WakeLateness(lambda: None)
    lateness.begin_sleep()
    lateness.end_sleep(9 * MS)
    assert lateness.since(0) is None


def test_the_oldest_wakes_are_dropped() -> None:
    assert woken(*[9] * MAX_WAKES, *[0.1] * MAX_WAKES).since(0) == MS // 10


@pytest.mark.parametrize(("delay", "expected"), [(None, False), (0.0009, False), (0.0011, True)])
def test_a_stream_is_bound_by_its_process_from_a_millisecond_on(delay: float | None, expected: bool) -> None:
    assert is_process_bound(delay, measure(Timeline(request_unix_ns=0))) is expected


# --- Stalls whose time the host took --------------------------------------------------------------------------------


class OtherThread(HostClock):
    """The clock of a host that delayed the reader for as long as the readings say."""

    def __init__(self, *readings: int) -> None:
        super().__init__(InternalErrors(), lambda: lambda: 0)
        self._readings = iter(readings)

    def read_of(self, thread: int, now: int) -> int | None:
        return next(self._readings)


@pytest.mark.parametrize(("taken", "expected"), [(600, [(1_000, 2_000)]), (500, [])])
def test_the_host_took_an_interval_if_it_took_more_than_half_of_it(taken: int, expected: list[tuple[int, int]]) -> None:
    delay = HostDelay(OtherThread(50, 50 + taken))
    delay.mark(1_000)
    assert delay.find_host_pause(2_000) == expected


def test_without_a_mark_nothing_is_known_of_an_interval() -> None:
    assert HostDelay(OtherThread(50)).find_host_pause(2_000) == []


def test_the_delay_of_another_thread_is_read_by_its_native_id() -> None:
    clock = HostClock(InternalErrors())
    if clock.read() is None:
        pytest.skip("this system does not count it for each thread")
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    assert other.native_id is not None
    known = clock.read_of(other.native_id, 1)
    over.set()
    other.join()
    time.sleep(0.01)
    assert (type(known), clock.read_of(other.native_id, 2)) == (int, None)
