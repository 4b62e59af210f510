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
import weakref
from pathlib import Path
from typing import Any

from ._engine import Engine
from .exchange import Record

_STOP_SECONDS = 10.0
_ROOT = str(Path(__file__).resolve().parents[2])
# Isolated: PYTHON* variables would bring the parent's auto-instrumentation along.
_CHILD = f"import sys; sys.path.insert(0, {_ROOT!r}); from otel_itl.testing._process import serve; serve()"


class ChildEngine:
    """An `Engine` in a child process, which ends with this process, however this one ends."""

    def __init__(self) -> None:
        """Start the process; it does not listen yet."""
        self._lock = threading.Lock()
        # In a session of its own, a Ctrl-C in the terminal does not reach it: this process's end is its end.
        self._child = subprocess.Popen(  # noqa: S603 - our own interpreter, our own code
            [sys.executable, "-I", "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._end = weakref.finalize(self, _end, self._child)

    def stop(self) -> Record:
        """End the child process; returns what it knows, which stays readable."""
        record = Record()
        if self._end.alive:
            with contextlib.suppress(RuntimeError):
                record = self.ask("stop")
            self._end()
        return record

    def ask(self, method: str, *arguments: object) -> Any:
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the parent, whose end is ours
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
            answer = (False, engine.ask(method, *arguments))
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
