"""What a Python process imports first under `otel-itl run`: starts measuring, then runs the next `sitecustomize`.

It also runs in interpreters that have no `otel_itl`, and imports nothing but the standard library itself.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

NOTES_VARIABLE = "_OTEL_ITL_NOTES"
"""Environment variable: the file to which each process appends a line about its start."""


def start_measuring() -> None:
    """Start measuring in this process. Where that fails, note it for the command, and let the application go on."""
    try:
        from otel_itl.launched import start  # noqa: PLC0415 - may be missing here

        start()
    except Exception as error:  # noqa: BLE001 - whatever fails here must not keep the application from starting
        note = {"pid": os.getpid(), "python": sys.executable, "error": f"{type(error).__name__}: {error}"}
        try:
            notes = os.open(os.environ.get(NOTES_VARIABLE, ""), os.O_WRONLY | os.O_APPEND)
            os.write(notes, (json.dumps(note) + "\n").encode())
            os.close(notes)
        except OSError:
            pass


def run_next() -> None:
    """Run the `sitecustomize` that Python would have imported without this one, and leave its place to it."""
    here = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - `pathlib` would be imported for this alone
    path = [entry for entry in sys.path if os.path.realpath(entry) != here]
    found = PathFinder.find_spec("sitecustomize", path)
    if found is not None and found.loader is not None:
        module = module_from_spec(found)
        sys.modules["sitecustomize"] = module
        found.loader.exec_module(module)


if __name__ == "sitecustomize":
    start_measuring()
    run_next()
