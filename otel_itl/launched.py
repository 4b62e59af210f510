"""Starts measuring in a process that a command of ours has launched, directly or not, and writes notes for it.

`otel_itl.startup.sitecustomize` calls it. Under `opentelemetry-instrument`, which puts a `sitecustomize` of its own
before ours and runs no other, an entry point does (`opentelemetry_pre_instrument`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
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
    inspector = os.environ.get(INSPECTOR_VARIABLE)
    if inspector:
        import_module(inspector).start()


def start_if_launched() -> None:
    """Start measuring if a command of ours has launched this process: for the entry point, which every process has."""
    if os.environ.get(NOTES_VARIABLE):
        start()


def write_note(note: Mapping[str, Any]) -> None:
    """Append a line for the command, in one write; nothing where the command has ended."""
    with suppress(OSError):
        file = os.open(os.environ.get(NOTES_VARIABLE, ""), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, (json.dumps(note) + "\n").encode())
        finally:
            os.close(file)
