"""The streams of this process that are open, those that wait to be concluded, and the one thread that sees to both."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from time import monotonic, perf_counter_ns, sleep
from typing import TYPE_CHECKING
from weakref import ref

from otel_itl.core.stream import Concurrency
from otel_itl.recording.internal_errors import never_raises, report_error, tell
from otel_itl.recording.watchdog import watchdog

if TYPE_CHECKING:
    from otel_itl.recording.recorder import StreamRecorder

SWEEP_SECONDS = 0.1
CONCLUDING_SECONDS = 1.0
SECOND = 1_000_000_000
SETTLING_SECONDS = 0.001


class OpenStreams:
    """Registry of open streams, their number over time, and the thread that looks after them.

    Streams are held weakly: being registered keeps nothing alive. `orphans` takes streams from finalisers, which may
    run anywhere, even inside a lock of the metrics SDK: appending to a deque takes no lock.
    """

    def __init__(self) -> None:
        self.orphans: deque[StreamRecorder] = deque()
        self.chores: list[Callable[[], None]] = []
        """What else the sweeper does on its rounds."""
        self._keys = count()
        self._open: dict[int, ref[StreamRecorder]] = {}
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._reset)

    def _before_fork(self) -> None:
        """Let the thread finish its round: what it holds locked in the SDK would stay locked in the child."""
        self._round.acquire(timeout=CONCLUDING_SECONDS)

    def _after_fork(self) -> None:
        with suppress(RuntimeError):  # it was not to be had
            self._round.release()

    def _reset(self) -> None:
        """A fork leaves the parent's streams and its thread behind."""
        for probe in [*self.probes(), *self.orphans]:
            probe.forget_after_fork()
        self.orphans.clear()
        self._lock = threading.Lock()
        self._concluding = threading.RLock()
        self._round = threading.RLock()
        self._open = {}
        self._load_ns = 0
        self._changed = perf_counter_ns()
        self._sweeper: threading.Thread | None = None
        self._wake = threading.Event()
        watchdog.reset()
        self._hurry = threading.Event()

    def __len__(self) -> int:
        return len(self._open)

    def probes(self) -> list[StreamRecorder]:
        """The open streams that are still reachable."""
        return [probe for reference in list(self._open.values()) if (probe := reference()) is not None]

    def admit(self, probe: StreamRecorder) -> tuple[int, int]:
        """Register an open stream; returns its key and the number of streams in flight, this one included."""
        with self._lock:
            self._advance()
            key = next(self._keys)
            self._open[key] = ref(probe)
            probe.load_ns = self._load_ns
            in_flight = len(self._open)
        self._keep_sweeping()
        return key, in_flight

    def release(self, probe: StreamRecorder) -> Concurrency:
        """Strike a stream that ended; returns how many ran beside it."""
        with self._lock:
            self._advance()
            self._open.pop(probe.key, None)
            return self._beside(probe)

    def share(self, probe: StreamRecorder) -> Concurrency:
        """How many streams have run beside one that is still open."""
        with self._lock:
            self._advance()
            return self._beside(probe)

    def _beside(self, probe: StreamRecorder) -> Concurrency:
        load, lifetime = self._load_ns - probe.load_ns, self._changed - probe.opened
        mean = load / lifetime if lifetime > 0 else float(probe.in_flight)
        return Concurrency(at_start=probe.in_flight, mean=max(mean, 1.0))

    def put_off(self, probe: StreamRecorder) -> None:
        """Have the sweeper conclude a stream at once: who ended it has better things to do."""
        self.orphans.append(probe)
        self._keep_sweeping()
        self._hurry.set()

    def settle(self) -> None:
        """Wait until the sweeper has concluded what was left to it, but not for ever: see `sweep`.

        For callers that hold locks which concluding may need: sweeping themselves, they would wait for themselves.
        """
        patience = monotonic() + CONCLUDING_SECONDS
        while self.orphans and monotonic() < patience:
            self._hurry.set()
            sleep(SETTLING_SECONDS)
        if self._concluding.acquire(timeout=CONCLUDING_SECONDS):
            self._concluding.release()

    @never_raises("sweeping up", None)
    def sweep(self) -> None:
        """Conclude every stream that a finaliser left or that was put off, and do the chores."""
        # Who sweeps before a flush wants what another thread's sweep is still concluding too. It waits for it, but not
        # for ever: a span processor may be waiting for the very locks that this caller holds.
        mine = self._concluding.acquire(timeout=CONCLUDING_SECONDS)
        try:
            with suppress(IndexError):
                while True:
                    self.orphans.popleft().conclude()
        finally:
            if mine:
                self._concluding.release()
        self._forget_the_lost()
        tell()
        for chore in self.chores:
            try:
                chore()
            except Exception as error:  # noqa: BLE001 - the fence
                report_error("recording metrics", error)

    @never_raises("sweeping up", None)
    def abandon(self) -> None:
        """End every open stream as abandoned, and conclude it: the process or the instrumentation is going away."""
        for probe in self.probes():
            probe.abandon_from_gc()
        self.sweep()

    def _forget_the_lost(self) -> None:
        """Strike streams that are gone without a word: where a failure of ours kept them from being concluded."""
        with self._lock:
            lost = [key for key, reference in self._open.items() if reference() is None]
            if lost:
                self._advance()
            for key in lost:
                del self._open[key]

    def _advance(self) -> None:
        now = perf_counter_ns()
        self._load_ns += len(self._open) * (now - self._changed)
        self._changed = now

    def _keep_sweeping(self) -> None:
        if not self._wake.is_set():
            self._wake.set()
        if self._sweeper is None or not self._sweeper.is_alive():
            with self._lock:
                if self._sweeper is None or not self._sweeper.is_alive():
                    self._sweeper = threading.Thread(target=self._run, name="otel_itl watchdog", daemon=True)
                    self._sweeper.start()

    def _run(self) -> None:
        wake, hurry = self._wake, self._hurry
        while wake.wait():
            watchdog.due = perf_counter_ns() + int(SWEEP_SECONDS * SECOND)
            hurry.wait(SWEEP_SECONDS)
            hurry.clear()
            with self._round:
                watchdog.round(perf_counter_ns())
                self.sweep()
            if not self._open and not self.orphans:
                wake.clear()
                if self._open or self.orphans:
                    wake.set()


open_streams = OpenStreams()
"""The one registry of this process."""
