"""Notices the end of the process, whichever way it comes, so that what was recorded is exported before."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # no types
import _thread
import atexit
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import reduce
from operator import or_
from pathlib import Path
from types import FrameType
from typing import Any, Final

from otel_itl.core.conventions import Where
from otel_itl.process.flushing import Flusher
from otel_itl.process.interrupted_exit import keep_exit_by_interrupt
from otel_itl.recording.internal_errors import InternalErrors, never_raises

MAX_SECONDS: Final = 2.0
"""How long the end of the process may be delayed by what waits to be exported."""
INIT_PID: Final = 1
"""The first process of a container: the kernel ignores a signal for it that has the default disposition."""
SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name))
"""The signals that ask a process to end, and whose default disposition ends it at once."""
AFTER_THE_APPLICATION: Final = -10
"""Priority among the finalizers of `multiprocessing`: behind those of its pools (15) and queues (-5)."""

Handle = Callable[[int, FrameType | None], None]


class DefaultHandler(int):
    """A handler of a signal that Python's `signal` module shows to the application as `SIG_DFL`.

    `signal.getsignal()` and `signal.signal()` convert numbers to their constants, and this is a number that can be
    called: an application that calls or restores the handler from before finds the one that it would find without us.
    One that restores it restores the default disposition. `_signal.getsignal()` returns the handler itself.
    """

    def __new__(cls, handle: Handle) -> DefaultHandler:  # noqa: PYI034 - Python 3.10 has no `Self`
        """Make a handler that calls `handle` with the signal and the frame."""
        handler = super().__new__(cls, signal.SIG_DFL)
        handler._handle = handle
        return handler

    _handle: Handle

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Handle a signal. Python calls this in the main thread."""
        self._handle(signum, frame)


class ProcessEnd:
    """Ends the open streams and flushes when the process ends, by any way out that Python code can notice.

    | the process ends by | noticed by |
    |---|---|
    | the end of the program, `sys.exit()`, an exception, Ctrl-C | `atexit`; the providers then flush themselves |
    | a signal with the default disposition | a handler of ours |
    | the end of a child of `multiprocessing` | its finalizers: it leaves by `os._exit()`, past `atexit` |
    | the end of a child of Celery | `worker_process_shutdown`: likewise |
    | a server that restores the default disposition and raises the signal again (uvicorn) | its list of signals |

    Args:
        flusher: ends the streams and flushes.
        end_streams: ends every open stream as abandoned, and finalizes it.
        errors: where failures of our own are reported.
    """

    def __init__(self, flusher: Flusher, end_streams: Callable[[], object], errors: InternalErrors) -> None:
        keep_exit_by_interrupt()  # first: it is to run last
        self.errors = errors
        self._awaits_main_thread = False
        self._handler = DefaultHandler(self._handle)
        self._handler_of_sigterm: object = None
        self._flusher = flusher
        self._end_streams = end_streams
        self._finalizer: Any = None

    @property
    def must_watch(self) -> bool:
        """Whether `watch_signals()` is to be called again: it was not in the main thread, or SIGTERM has changed hands.

        A server that is started later handles SIGTERM, and restores the default before it raises the signal again.
        """
        has_changed = _signal.getsignal(signal.SIGTERM) is not self._handler_of_sigterm
        return self._awaits_main_thread or (has_changed and os.name == "posix")

    @never_raises(Where.PROCESS_END, None)
    def register(self) -> None:
        """Have the end of this process noticed. Called in each process, when its first stream opens."""
        # Again for every set of providers: what is registered last runs first, before they shut down.
        atexit.unregister(self._end_at_exit)
        atexit.register(self._end_at_exit)
        self.watch_signals()
        self._register_with_multiprocessing()
        self._register_with_celery()

    # --- Signals ---------------------------------------------------------------------------------------------------

    @never_raises(Where.PROCESS_END, None)
    def watch_signals(self) -> None:
        """Handle the signals that would end the process at once, which are those with the default disposition now.

        An application that sets a handler later replaces ours. One that has set a handler keeps it, and decides when
        the process ends.
        """
        if os.name != "posix":
            return
        _hook_uvicorn(self.end)
        self._awaits_main_thread = threading.current_thread() is not threading.main_thread()
        if not self._awaits_main_thread:
            by_default = [signum for signum in SIGNALS if _is_default(_signal.getsignal(signum))]
            changed = _changed_outside_python() if by_default else 0
            _set_handlers([signum for signum in by_default if not changed >> (signum - 1) & 1], self._handler)
        self._handler_of_sigterm = _signal.getsignal(signal.SIGTERM)

    @never_raises(Where.PROCESS_END, None)
    def leave_signals(self) -> None:
        """Restore the default disposition where the handler is still ours."""
        _set_handlers([each for each in SIGNALS if _signal.getsignal(each) is self._handler], _signal.SIG_DFL)
        self._handler_of_sigterm = None

    def _handle(self, signum: int, _: FrameType | None) -> None:
        """End the streams, flush for at most `MAX_SECONDS`, and let the signal end the process as it would have.

        The main thread runs this between any two instructions, perhaps inside a lock of OpenTelemetry, of logging or
        of ours: so it takes no lock that exists before, and a thread of its own does the work.
        """
        if os.getpid() == INIT_PID:
            # Its default disposition would have ignored the signal: the process goes on, and so do its streams.
            with suppress(RuntimeError):
                _native("start_new_thread")(self._flusher.flush, (MAX_SECONDS,))
            return
        signal.signal(signum, signal.SIG_DFL)  # a second signal is not kept waiting
        try:
            running = _native("allocate_lock")()
            running.acquire()
            _native("start_new_thread")(self._end_and_release, (running,))
            running.acquire(timeout=MAX_SECONDS)
        except Exception as error:  # noqa: BLE001 - the guard; no more threads, for instance
            self.errors.note(Where.PROCESS_END, error)
        finally:
            os.kill(os.getpid(), signum)

    def _end_and_release(self, running: _thread.LockType) -> None:
        try:
            self.end()
        finally:
            running.release()

    # --- Other ways out --------------------------------------------------------------------------------------------

    @never_raises(Where.PROCESS_END, None)
    def end(self) -> None:
        """End the streams and flush, for at most `MAX_SECONDS`. The process is about to end."""
        self._flusher.end_process(MAX_SECONDS)

    def _end_at_exit(self) -> None:
        """End every open stream, and write what waits. A further Ctrl-C ends the waiting, and prints nothing."""
        with suppress(KeyboardInterrupt):
            self._end_streams()

    @never_raises(Where.PROCESS_END, None)
    def _register_with_multiprocessing(self) -> None:
        """Have `end` called by the finalizers of a child that `multiprocessing` started."""
        process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
        if process is None or util is None or process.parent_process() is None:
            return
        if self._finalizer is None or not self._finalizer.still_active():
            self._finalizer = util.Finalize(None, self.end, exitpriority=AFTER_THE_APPLICATION)

    @never_raises(Where.PROCESS_END, None)
    def _register_with_celery(self) -> None:
        """Have `end` called when a child of Celery's prefork pool ends."""
        signals = sys.modules.get("celery.signals")
        if signals is not None:
            # The identifier keeps it from being connected twice.
            signals.worker_process_shutdown.connect(self._end_celery_child, weak=False, dispatch_uid="otel_itl")

    def _end_celery_child(self, **_: object) -> None:
        self.end()


class _RaisedAgain(list[int]):
    """The signals that uvicorn caught: it reads them backwards when all is shut down, to raise each of them again.

    An application that is imported while uvicorn runs finds uvicorn's handlers in place. Those that uvicorn restores in
    the end are from before: the default ones, which end the process at once.
    """

    def __init__(self, signums: Iterable[int], end: Callable[[], object]) -> None:
        super().__init__(signums)
        self._end = end

    def __reversed__(self) -> Iterator[int]:
        if any(_is_default(_signal.getsignal(signum)) for signum in self):
            self._end()
        return super().__reversed__()


def _is_default(handler: object) -> bool:
    """Return whether what `_signal.getsignal()` returned is the default disposition itself, and no handler of ours."""
    return handler == signal.SIG_DFL and not callable(handler)


def _set_handlers(signums: Iterable[int], handler: int) -> None:
    """Set the handler of some signals, where that is possible: not in sub-interpreters, nor in other threads."""
    with suppress(ValueError):
        for signum in signums:
            # Not `signal.signal()`, which would convert the handler to the default.
            _signal.signal(signum, handler)


def _hook_uvicorn(end: Callable[[], object]) -> None:
    """Have `end` called before uvicorn raises SIGTERM again, if it is uvicorn that handles SIGTERM now."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    captured = getattr(server, "_captured_signals", None)
    if type(captured) is list and type(server).__module__.partition(".")[0] == "uvicorn":
        server._captured_signals = _RaisedAgain(captured, end)  # type: ignore[union-attr]  # noqa: SLF001 - no other seam


def _changed_outside_python() -> int:
    """Return the mask of the signals that the process handles or ignores; 0 where the system does not report it.

    `signal.getsignal()` does not know of a handler that C code has set: a server that embeds Python, such as uWSGI.
    """
    with suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        masks = re.findall(r"^Sig(?:Cgt|Ign):\s*([0-9a-f]+)$", status, re.MULTILINE)
        return reduce(or_, (int(mask, 16) for mask in masks), 0)
    return 0


def _native(name: str) -> Any:
    """Return a function of `_thread`, also where gevent has replaced it: a signal handler cannot switch greenlets."""
    monkey = sys.modules.get("gevent.monkey")
    return getattr(_thread, name) if monkey is None else monkey.get_original("_thread", name)
