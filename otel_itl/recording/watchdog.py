"""The watchdog: reports stalls while the streams are silent, from one thread, at no cost to streams that flow.

Each stream has a deadline before which nothing can be wrong with it. When one comes up and the stream has moved on
meanwhile, it gets another. A stream that has stalled is looked at on every round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Protocol
from weakref import ref

from otel_itl.core.stall_detector import Silence, StallDetector, judge_cause
from otel_itl.core.stalls import NEVER, RECOVERED, Cause, Stall, StallPolicy
from otel_itl.core.timeline import SECOND
from otel_itl.recording.internal_errors import never_raises, report_error
from otel_itl.recording.loop_lag import Lag

if TYPE_CHECKING:
    from otel_itl.recording.recorder import StreamRecorder

FROZEN_NS = 200_000_000
"""A round that comes this late tells that the process did not run."""
FREEZES_KEPT = 512


class StallReporter(Protocol):
    """Told of stalls as they happen, from the watchdog's thread, or from the stream's own when both end at once."""

    def stall_started(self, stall: Stall) -> None:
        """A stream has stalled."""
        ...

    def stall_ended(self, stall: Stall) -> None:
        """It goes on, or is over."""
        ...


OnStall = Callable[[Stall], object]


class StreamStallMonitor:
    """The watch over one stream.

    Args:
        probe: its recording.
        policy: when a silence is a stall.
        reporter: told of each, once when it begins and once when it ends.
        on_stall: the application's own callback, for each that begins while it lasts.
    """

    __slots__ = (
        "__weakref__", "_lock", "_lookout", "_on_stall", "_over", "_policy", "_probe", "_reporter", "_stalls",
    )  # fmt: skip

    def __init__(
        self, probe: StreamRecorder, policy: StallPolicy, reporter: StallReporter, on_stall: OnStall | None = None
    ) -> None:
        self._probe = ref(probe)
        self._policy = policy
        self._reporter = reporter
        self._on_stall = on_stall
        self._lookout = StallDetector(policy, probe.asked, probe.arrived, probe.codes, probe.requested)
        self._lock = Lock()
        self._stalls: dict[int, Stall] = {}
        self._over = False

    @property
    def due(self) -> int:
        """From when on there may be something to see (ns)."""
        return self._lookout.next_check

    @property
    def threshold(self) -> float:
        """The threshold in force, in seconds; infinite: there is none."""
        return inf if self._lookout.threshold >= NEVER else self._lookout.threshold / SECOND

    @property
    def stalled(self) -> bool:
        """The stream is silent for too long, right now."""
        return any(stall.end is None for stall in list(self._stalls.values()))

    def lasts(self, after: int, now: int) -> bool:
        """Whether the stall behind that chunk goes on; the stream may have recovered since it was told."""
        self.look(now)
        stall = self._stalls.get(after)
        return stall is not None and stall.end is None

    def look(self, now: int) -> bool:
        """Report what has become of the stream, and break it off in time; False when it is over."""
        probe = self._probe()
        if probe is None or probe.over:
            return False
        with self._lock:
            if self._over or not probe.open:
                return False
            begun = self._judge(probe, self._lookout.check(now, probe.headers), now)
        self._break_off(probe)
        for stall in begun:
            self._tell(stall)
        return True

    def stalls(self, *, over: bool) -> tuple[Stall, ...]:
        """Every stall so far, reported; `over`: the stream has ended, and with it the one that was going on."""
        probe = self._probe()
        with self._lock:
            if probe is not None and not self._over:
                self._over = over
                self._judge(probe, self._lookout.check(probe.ended, probe.headers, is_over=over), probe.ended)
            return tuple(self._stalls.values())

    def _judge(self, probe: StreamRecorder, found: list[Silence], now: int) -> list[Stall]:
        """Report each silence that begins or ends to be a stall; returns those that begin and go on."""
        begun = []
        for silence in found:
            stall = self._stalls.get(silence.after)
            if stall is None:
                stall = self._stall(probe, silence, now)
                _report(self._reporter.stall_started, stall)
                begun += [] if silence.is_over else [stall]
            stall = replace(stall, duration=silence.waited / SECOND, is_alive=silence.is_alive)
            if silence.is_over and stall.end is None:
                ended_with_it = self._over and silence.until == probe.ended
                stall = replace(stall, end=probe.outcome.value if ended_with_it else RECOVERED)
                _report(self._reporter.stall_ended, stall)
            self._stalls[silence.after] = stall
        return begun

    def _stall(self, probe: StreamRecorder, silence: Silence, now: int) -> Stall:
        blocked = [] if probe.loop_lag is None else probe.loop_lag.until(now, probe.requested)
        return Stall(
            request=probe.request,
            number=len(self._stalls) + 1,
            phase=silence.phase,
            cause=judge_cause(silence, watchdog.frozen(now), blocked),
            start=(silence.since - probe.requested) / SECOND,
            duration=silence.waited / SECOND,
            threshold=silence.threshold / SECOND,
            is_alive=silence.is_alive,
            abort=partial(_abort, self._probe, silence.after),
        )

    def _tell(self, stall: Stall) -> None:
        if self._on_stall is not None:
            try:
                self._on_stall(stall)
            except BaseException as error:  # noqa: BLE001 - whatever it raises, the thread is there for every stream
                report_error("calling on_stall", error)

    def _break_off(self, probe: StreamRecorder) -> None:
        limit = self._policy.abort_after
        if limit is None or not (probe.pulled and probe.pulling):
            return
        last = next(reversed(self._stalls.values()), None)
        if last is not None and last.end is None and last.duration >= limit and last.cause is Cause.UPSTREAM:
            probe.abort(last.duration)


def _report(report: Callable[[Stall], None], stall: Stall) -> None:
    try:
        report(stall)
    except Exception as error:  # noqa: BLE001 - the fence: what is told once is not told again
        report_error("reporting a stall", error)


def _abort(reference: ref[StreamRecorder], after: int) -> bool:
    probe = reference()
    if probe is None or probe.watch is None or not probe.watch.lasts(after, probe.clock()):
        return False
    return probe.abort()


class Watchdog:
    """Looks after every stream of this process whose deadline has come."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget every stream: those of a parent process are not ours."""
        self.freezes: deque[Lag] = deque(maxlen=FREEZES_KEPT)
        """Intervals (ns) in which the process did not run."""
        self.due = NEVER
        """When the next round is to be (ns), while the thread sleeps until then."""
        self._new: deque[StreamStallMonitor] = deque()
        self._keys = count()
        self._deadlines: list[tuple[int, int, ref[StreamStallMonitor]]] = []

    def attend(self, watch: StreamStallMonitor) -> None:
        """Look after a stream from here on. Takes no lock."""
        self._new.append(watch)

    def frozen(self, now: int) -> list[Lag]:
        """The intervals in which the process did not run: `freezes`, and one that no round has found yet.

        A thread that reads a stream may wake up before this one does.
        """
        return [*tuple(self.freezes), *self._overdue(now)]

    @never_raises("watching for stalls", None)
    def round(self, now: int) -> None:
        """Look at the streams whose deadline has come.

        Args:
            now: the time (ns).
        """
        self.freezes.extend(self._overdue(now))
        self.due = NEVER
        while self._new:
            self._await(self._new.popleft())
        waiting = []
        while self._deadlines and self._deadlines[0][0] <= now:
            watch = heappop(self._deadlines)[2]()
            if watch is not None:
                waiting.append(watch)
        for watch in waiting:
            try:
                if watch.look(now):
                    self._await(watch)
            except Exception as error:  # noqa: BLE001 - the fence
                report_error("watching for stalls", error)

    def _overdue(self, now: int) -> list[Lag]:
        due = self.due
        return [Lag(due, now)] if now - due > FROZEN_NS else []

    def _await(self, watch: StreamStallMonitor) -> None:
        if watch.due < NEVER:
            heappush(self._deadlines, (watch.due, next(self._keys), ref(watch)))


watchdog = Watchdog()
"""The one of this process."""
