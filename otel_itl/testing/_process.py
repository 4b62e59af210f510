"""The scripted server in a process of its own, steered through pipes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ._engine import Engine
from .exchange import Progress, Request
from .script import Script

# The parent waits for the child in slices, so that a long wait does not keep its other threads from asking.
_SLICE_SECONDS = 0.02
_STOP_SECONDS = 10.0
_ROOT = str(Path(__file__).resolve().parents[2])
# Isolated: PYTHON* variables would bring the parent's auto-instrumentation along.
_CHILD = f"import sys; sys.path.insert(0, {_ROOT!r}); from otel_itl.testing._process import serve; serve()"


class ChildEngine:
    """An `Engine` in a child process, which ends with this process, however this one ends."""

    def __init__(self) -> None:
        """Start the process; it does not listen yet."""
        self._lock = threading.Lock()
        # What remains readable after the end.
        self._requests: list[Request] = []
        self._progress: dict[int, Progress] = {}
        with _interrupts_held_back():
            self._child = subprocess.Popen(  # noqa: S603 - our own interpreter, our own code
                [sys.executable, "-I", "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        self._end = weakref.finalize(self, _end, self._child)

    def start(self, port: int) -> int:
        """See `Engine.start`."""
        started: int = self._ask("start", port)
        return started

    def stop(self) -> None:
        """End the child process, after a last look at what it knows."""
        if self._end.alive:
            with contextlib.suppress(RuntimeError):
                self._ask("stop")
                self._requests, self._progress = self._ask("snapshot")
            self._end()

    def play(self, scripts: Iterable[Script], model: str | None) -> None:
        """See `Engine.play`."""
        self._ask("play", list(scripts), model)

    def always(self, script: Script, model: str | None) -> None:
        """See `Engine.always`."""
        self._ask("always", script, model)

    def clear(self) -> None:
        """See `Engine.clear`."""
        self._ask("clear")

    def requests(self, count: int = 0, timeout: float | None = 0.0) -> list[Request]:
        """See `Engine.requests`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._end.alive:
            found: list[Request] = self._ask("requests", count, _slice(deadline))
            if len(found) >= count or (deadline is not None and time.monotonic() >= deadline):
                return found
        return list(self._requests)

    def progress(self, number: int) -> Progress | None:
        """See `Engine.progress`."""
        if not self._end.alive:
            return self._progress.get(number)
        found: Progress | None = self._ask("progress", number)
        return found

    def wait_ended(self, number: int, timeout: float | None) -> bool:
        """See `Engine.wait_ended`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._end.alive and not self._ask("wait_ended", number, _slice(deadline)):
            if deadline is not None and time.monotonic() >= deadline:
                return False
        return True

    def _ask(self, method: str, *arguments: object) -> Any:
        """Call a method of the engine in the child process, and return what it returns.

        Raises:
            RuntimeError: the server is stopped, or its process has died.
            Exception: whatever the method raised.
        """
        question = pickle.dumps((method, arguments))
        with self._lock:
            if not self._end.alive:
                raise RuntimeError("the scripted server is stopped")
            # Set by Popen, because both were asked for.
            asked, answered = self._child.stdin, self._child.stdout
            assert asked is not None and answered is not None  # noqa: S101, PT018
            try:
                asked.write(question)
                asked.flush()
                raised, answer = pickle.load(answered)  # noqa: S301 - written by our own child
            except (OSError, EOFError) as error:
                raise RuntimeError("the process of the scripted server has died") from error
            except BaseException:
                # Interrupted between question and answer: the next answer would be this question's.
                self._end()
                raise
        if raised:
            raise answer
        return answer


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Block SIGINT in this thread, and in a process that it starts meanwhile until that one has its own handling.

    A Ctrl-C in the terminal goes to both: the child would print a traceback while its interpreter starts. This process
    gets the signal at the end of the block.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _slice(deadline: float | None) -> float:
    return _SLICE_SECONDS if deadline is None else max(0.0, min(_SLICE_SECONDS, deadline - time.monotonic()))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Close the pipes, which ends the child; kill it if that does not."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def serve() -> None:
    """Run the child's loop: call the methods that the parent asks for, until it closes the pipe."""
    # A Ctrl-C in the terminal is meant for the parent, whose end is ours.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # before this, the parent had it blocked here
    _sleep_exactly()
    # What is printed here must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    engine = Engine()
    while True:
        try:
            method, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by our own parent
        except EOFError:
            break
        try:
            answer = (False, getattr(engine, method)(*arguments))
        except Exception as error:  # noqa: BLE001 - the parent raises it
            answer = (True, error)
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except BrokenPipeError:
            break
    engine.stop()


def _sleep_exactly() -> None:
    """Keep Linux from rounding the sleeps of this process up by 50 µs, which it does to save power."""
    if sys.platform == "linux":
        set_timer_slack = 29
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(set_timer_slack, 1, 0, 0, 0)
