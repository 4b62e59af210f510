"""`otel-itl doctor`: examines this environment, or a program from inside."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Final

from otel_itl.runtime import runtime
from otel_itl.sdks.registry import REGISTRY, SDK_NAMES
from otel_itl.testing import ScriptedServer
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.doctor.checks import check
from otel_itl.tools.doctor.collect import collect_facts
from otel_itl.tools.doctor.conclude import conclude
from otel_itl.tools.doctor.finding import Check, put_wrong_first
from otel_itl.tools.doctor.inspector import SERVER_VARIABLE
from otel_itl.tools.doctor.scripted_stream import scripts, send_scripted_stream
from otel_itl.tools.launch.command import CannotLaunchError, resolve_command
from otel_itl.tools.launch.environment import launch_environment
from otel_itl.tools.launch.notes import open_notes
from otel_itl.tools.launch.process import run_program

INSPECTOR: Final = "otel_itl.tools.doctor.inspector"
_STANDARD_ERROR: Final = 2


def examine_here() -> tuple[str | None, list[Check]]:
    """Examine this environment: instrument this very process, and stream once.

    Installed SDKs are imported. The OpenTelemetry SDK is set up as a program's first stream would set it up.

    Returns:
        The trace id of the scripted stream, None where it has none; and the findings.
    """
    from otel_itl.launched import start  # noqa: PLC0415 - reads the environment

    start()
    usable = [name for name in SDK_NAMES if name in runtime.installer.installed]
    for name in usable:
        with suppress(Exception):  # an SDK that cannot be imported is not imported, which is reported
            import_module(REGISTRY[name].package)
    with _run_scripted_server() as server:
        stream = send_scripted_stream(server.url, usable)
    return None if stream is None else stream.trace_id, put_wrong_first(check(collect_facts(stream)))


def examine_program(words: Sequence[str], module: str | None) -> tuple[str | None, list[Check]]:
    """Run a program to its end, and examine it from inside. Its standard output goes to standard error.

    Args:
        words: the program and its arguments; with `module`, the arguments.
        module: a Python module to run.

    Returns:
        As `conclude` does.

    Raises:
        CommandError: it cannot be started.
    """
    try:
        command = resolve_command(words, module=module)
    except CannotLaunchError as error:
        raise CommandError(str(error)) from error  # exit code 2: the doctor has not the program's codes
    print("otel-itl doctor: the findings follow at the end of the program; Ctrl-C ends a server.", file=sys.stderr)
    with _run_scripted_server() as server, open_notes() as notes:
        environ = launch_environment(os.environ, notes.path, inspector=INSPECTOR)
        exit_code = run_program(command, {**environ, SERVER_VARIABLE: server.url}, stdout=_STANDARD_ERROR)
        return conclude(notes, exit_code)


@contextmanager
def _run_scripted_server() -> Iterator[ScriptedServer]:
    """Run a scripted server that plays the doctor's scripts, in a process of its own.

    This process has to stay without threads, so that it forwards signals.
    """
    with ScriptedServer(process=True) as server:
        for model, script in scripts().items():
            server.always(script, model=model)
        yield server
