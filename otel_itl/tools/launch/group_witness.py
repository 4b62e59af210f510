"""Finds out whether a signal reached this process alone, or its whole process group, the launched program included."""

from __future__ import annotations

import os
import select
import signal
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

SECONDS: Final = 0.1
"""How long the witness has to report a signal; so long is one delayed that was sent to the command alone."""
_MAX_SIGNALS: Final = 4_096
_MAX_DESCRIPTORS: Final = 4_096
"""Descriptors of this process that the witness closes: it must not keep the page's port open, nor its own life."""


class GroupWitness:
    """A process of our group that does nothing but report each signal that it gets.

    Nothing in a signal distinguishes one that was sent to a process from one that was sent to its group, or to each
    process of a service. What the witness gets as well, the program has got, too.

    Args:
        pid: of the witness.
        reports: the descriptor from which a byte is read for each signal.
    """

    def __init__(self, pid: int, reports: int) -> None:
        self.pid = pid
        self._reports = reports
        self._seen: set[int] = set()

    def has_got(self, number: int) -> bool:
        """Return whether the witness got a signal that this process has just got; waits for `SECONDS` at most."""
        deadline = monotonic() + SECONDS
        while number not in self._seen:
            left = deadline - monotonic()
            if left <= 0 or not self._read(left):
                return False
        self._seen.discard(number)
        return True

    def forget_but(self, pending: Iterable[int]) -> None:
        """Forget the signals that the witness got and this process did not: only the pending ones are still to come."""
        while self._read(0):
            pass
        self._seen.intersection_update(pending)

    def _read(self, seconds: float) -> bool:
        """Read what the witness reports within some seconds; returns False where that is nothing, or it has ended."""
        if not select.select([self._reports], [], [], seconds)[0]:
            return False
        read = os.read(self._reports, _MAX_SIGNALS)
        self._seen.update(read)  # of several that came together, this process gets one
        return bool(read)


@contextmanager
def run_witness(numbers: Iterable[int]) -> Iterator[GroupWitness | None]:
    """Run a witness of these signals for the `with` block, which has them blocked; None where none can be started.

    It ends with this process, however that ends.
    """
    reports, to_reports = os.pipe()
    ours, of_witness = os.pipe()
    try:
        pid = _fork()
    except OSError:
        pid = -1
    if pid == 0:
        _be_witness(numbers, to_reports, ours)
    os.close(to_reports)
    os.close(ours)
    try:
        yield None if pid < 0 else GroupWitness(pid, reports)
    finally:
        os.close(of_witness)
        os.close(reports)
        if pid > 0:
            with suppress(ChildProcessError):  # who has reaped every child has reaped it, too
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    os.kill(pid, signal.SIGKILL)  # it may have been stopped
                    os.waitpid(pid, 0)


def _fork() -> int:
    """Fork this process. Python warns where it has threads: those of the page, and the witness needs none of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _be_witness(numbers: Iterable[int], to_reports: int, life: int) -> None:
    """Report signals until the other process has ended. Never returns.

    Args:
        numbers: the signals, which are blocked.
        to_reports: the descriptor to which a byte is written for each signal.
        life: the descriptor that is at its end when the other process has ended.
    """
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # what reads our output is not to wait for the witness
            os.dup2(nowhere, standard)
        kept = sorted((to_reports, life))
        for first, last in zip((2, *kept), (*kept, _MAX_DESCRIPTORS), strict=True):
            os.closerange(first + 1, last)
        os.set_blocking(to_reports, False)
        signal.set_wakeup_fd(to_reports, warn_on_full_buffer=False)  # Python's C handler writes the byte
        for number in numbers:
            signal.signal(number, _ignore)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        while os.read(life, 1):
            pass
    finally:
        os._exit(0)


def _ignore(*_: object) -> None:
    """Do nothing with a signal: it has been reported."""
