"""Concludes from the end of a program, and from what its processes noted, what there is to report on it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from signal import Signals
from typing import Any, Final

from otel_itl.tools.doctor.endings import check_endings
from otel_itl.tools.doctor.finding import Check, State, put_wrong_first
from otel_itl.tools.launch.notes import Notes, name_exception
from otel_itl.tools.report.render.number_format import pluralize

_ASKED_TO_END: Final = frozenset({"SIGINT", "SIGTERM", "SIGHUP"})
_SHELLS_SIGNAL: Final = 128
"""What a program adds to the number of the signal that ended it, where it returns that as its exit code."""
_WITHOUT_STREAMS: Final = frozenset({"packages", "environment"})
"""Topics whose findings hold for a program that made no stream, whatever it would have done."""


def conclude(notes: Notes, exit_code: int, environ: Mapping[str, str] = os.environ) -> tuple[str | None, list[Check]]:
    """Return the trace id and the findings of the process that matters most, what is not fine first.

    Args:
        notes: of the processes of the program.
        exit_code: of the program; -n where signal n ended it.
        environ: in which the program was started.
    """
    noted = notes.read()
    examined = [note for note in noted if "checks" in note]
    chosen: Mapping[str, Any] = {"importance": [False, False], "trace_id": None, "checks": []}
    for note in examined:  # of a process, what it wrote last
        if note["importance"] > chosen["importance"] or note["pid"] == chosen.get("pid") or chosen["checks"] == []:
            chosen = note
    has_streams = chosen["importance"][0]
    end = _check_end(noted, exit_code, has_streams=has_streams)
    lost = list(_check_lost(noted))
    if not examined:
        return None, put_wrong_first([end, _explain_nothing(notes, noted, environ)])
    checks = [Check(topic, name, State(state), *rest) for topic, name, state, *rest in chosen["checks"]]
    if end.state is State.WRONG and not has_streams:
        return None, put_wrong_first([end, *(each for each in checks if each.topic in _WITHOUT_STREAMS)])
    at = next((index for index, each in enumerate(checks) if each.topic == "streams"), len(checks))
    return chosen["trace_id"], put_wrong_first([end, *lost, *checks[:at], *check_endings(noted), *checks[at:]])


def _check_end(noted: Sequence[Mapping[str, Any]], exit_code: int, *, has_streams: bool) -> Check:
    """Return the finding on the end of the program: wrong where it failed, as that explains what else there is."""
    before = "" if has_streams else ", before its first stream"
    if exit_code < 0:
        name = Signals(-exit_code).name
        if name in _ASKED_TO_END:
            return Check("program", "end", State.NOTE, f"was ended by {name}")
        cause = " (on a server: often for want of memory)" if name == "SIGKILL" else ""
        remedy = "find out what has killed it: what it had not exported by then is lost"
        return Check("program", "end", State.WRONG, f"was killed by {name}{cause}{before}", remedy)
    ended = f"ended with exit code {exit_code}"
    raised = name_exception(noted)
    if exit_code and raised:
        remedy = "correct that first: its traceback is above"
        return Check("program", "end", State.WRONG, f"{ended}{raised}{before}", remedy)
    is_asked = exit_code > _SHELLS_SIGNAL and _name_signal(exit_code - _SHELLS_SIGNAL) in _ASKED_TO_END
    if exit_code and not has_streams and not is_asked:
        remedy = "correct what it has printed: what it would measure is not known before"
        return Check("program", "end", State.WRONG, f"{ended}{before}", remedy)
    return Check("program", "end", State.NOTE, ended)


def _name_signal(number: int) -> str:
    return next((each.name for each in Signals if each == number), "")


def _check_lost(noted: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Yield the finding on what processes lost that called `os._exit()`."""
    lost = sum(note.get("lost", 0) for note in noted)
    if lost:
        finding = f"os._exit() ends a process before {pluralize(lost, 'span')} of its streams left it"
        yield Check("program", "os._exit", State.WRONG, finding, "call otel_itl.flush() before os._exit()")


def _explain_nothing(notes: Notes, noted: Sequence[Mapping[str, Any]], environ: Mapping[str, str]) -> Check:
    """Return the finding where no process of the program could be examined."""
    failed = next((note["inspection_error"] for note in noted if "inspection_error" in note), None)
    if failed is not None:
        return Check("program", "inspection", State.WRONG, f"failed ({failed})", "report it: see CONTRIBUTING.md")
    finding = f"no process of it could be examined: {notes.explain_no_stream(environ)}"
    remedy = "install otel-itl in the environment that runs the program, and let the program end by itself or by Ctrl-C"
    return Check("program", "inspection", State.WRONG, finding, remedy)
