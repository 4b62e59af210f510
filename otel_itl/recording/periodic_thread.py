"""A daemon thread that makes rounds while there is work, and sleeps when there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable


class PeriodicThread:
    """Calls a function every `interval` seconds while `has_work()`; started when it is first woken.

    Args:
        name: the thread's name.
        interval: seconds between two rounds.
        make_round: one round; returns True where more work waits already, and the next round is to follow at once.
        has_work: whether another round is to be made; else the thread sleeps until `wake()`.
        before_sleep: called with the seconds until the next round, just before the thread waits for it.
    """

    def __init__(
        self,
        name: str,
        interval: float,
        make_round: Callable[[], bool],
        has_work: Callable[[], bool],
        before_sleep: Callable[[float], None] | None = None,
    ) -> None:
        self.interval = interval
        self._name = name
        self._make_round = make_round
        self._has_work = has_work
        self._before_sleep = before_sleep
        self.forget_after_fork()

    def forget_after_fork(self) -> None:
        """Drop the parent's thread: the next `wake()` starts one."""
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._running: list[None] = []
        """Has an entry while the thread runs: looking at the thread itself takes ten times as long."""

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs, asleep or not."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_awake(self) -> bool:
        """Whether rounds are being made."""
        return self._awake.is_set()

    def wake(self) -> None:
        """Have rounds made from here on. Costs nothing while they are."""
        if not self._awake.is_set():
            self._awake.set()
        if not self._running:
            with self._lock:
                if not self.is_alive:
                    self._thread = threading.Thread(
                        target=self._run, args=(self._awake, self._hurry, self._running), name=self._name, daemon=True
                    )
                    self._thread.start()

    def hurry(self) -> None:
        """Have the next round made at once."""
        self._hurry.set()
        self.wake()

    def _run(self, awake: threading.Event, hurry: threading.Event, running: list[None]) -> None:
        """Make rounds until the process ends, and note that the thread runs. Runs on the thread."""
        running.append(None)
        try:
            self._make_rounds(awake, hurry)
        finally:
            running.clear()

    def _make_rounds(self, awake: threading.Event, hurry: threading.Event) -> None:
        """Make one round per interval while there is work, and wait for more."""
        while awake.wait():
            if self._before_sleep is not None:
                self._before_sleep(self.interval)
            hurry.wait(self.interval)
            hurry.clear()
            while self._make_round():
                pass
            if not self._has_work():
                awake.clear()
                if self._has_work():  # something came in between
                    awake.set()
