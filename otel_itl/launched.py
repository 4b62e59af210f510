"""Starts measuring in a process that a command of ours has launched, directly or not, and writes notes for it.

`otel_itl.startup.sitecustomize` calls it. Under `opentelemetry-instrument`, which puts a `sitecustomize` of its own
before ours and runs no other, an entry point does (`opentelemetry_pre_instrument`).
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from otel_itl.config import is_disabled, load
from otel_itl.export.providers import Providers
from otel_itl.runtime import runtime

NOTES_VARIABLE: Final = "_OTEL_ITL_NOTES"
"""Environment variable: the file to which each process appends lines for the command. `sitecustomize` has it, too."""
INSPECTOR_VARIABLE: Final = "_OTEL_ITL_INSPECTOR"
"""Environment variable: the module whose `start()` inspects the process for the command; absent: none does."""


def start() -> None:
    """Start measuring as an entry point does, so that options of the application's own `instrument()` still count.

    A second call does nothing.
    """
    if runtime.config is not None:
        return
    if not is_disabled():
        config = load({})
        runtime.start(config, Providers())
        for name in config.sdks:
            runtime.installer.install(name, is_required=False)
    write_note({"pid": os.getpid(), "python": sys.executable, "sdks": sorted(runtime.installer.installed)})
    atexit.register(_note_exception)
    inspector = os.environ.get(INSPECTOR_VARIABLE)
    if inspector:
        import_module(inspector).start()


def start_if_launched() -> None:
    """Start measuring if a command of ours has launched this process: for the entry point, which every process has."""
    if os.environ.get(NOTES_VARIABLE):
        start()


def _note_exception() -> None:
    """Note the exception that has ended this process, for the command, if one has."""
    raised = getattr(sys, "last_value", None)
    if raised is not None and not isinstance(raised, KeyboardInterrupt):
        name = f"{type(raised).__module__}.{type(raised).__qualname__}".removeprefix("builtins.")
        write_note({"pid": os.getpid(), "raised": name, "where": _locate_in_program(raised)})


def _locate_in_program(raised: BaseException) -> str:
    """Return file and line of the program, rather than of a package, that an exception came through last."""
    frames = traceback.extract_tb(raised.__traceback__)
    own = [frame for frame in frames if not {"site-packages", "otel_itl"} & set(Path(frame.filename).parts)]
    return ", line ".join(map(str, (own or frames)[-1][:2])) if frames else "an unknown place"


def write_note(note: Mapping[str, Any]) -> None:
    """Append a line for the command, in one write; nothing where the command has ended."""
    with suppress(OSError):
        file = os.open(os.environ.get(NOTES_VARIABLE, ""), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, (json.dumps(note) + "\n").encode())
        finally:
            os.close(file)
