"""The environment of a launched program: ours, with what makes its Python processes measure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import otel_itl
from otel_itl.launched import INSPECTOR_VARIABLE, NOTES_VARIABLE

LAUNCHER_VARIABLE = "_OTEL_ITL_LAUNCHER"
"""Environment variable, for the doctor: the command of ours that it has launched, and that launches the program."""
STARTUP_FOLDER = str(Path(otel_itl.__file__).resolve().parent / "startup")
"""What has to stand first on `PYTHONPATH`."""


def launch_environment(environ: Mapping[str, str], notes: Path, *, inspector: str | None = None) -> dict[str, str]:
    """Return a copy of the environment under which every Python process starts measuring.

    Under the doctor, which has launched `otel-itl run`, the processes are inspected as well.

    Args:
        environ: of this process; it is left as it is.
        notes: the file to which each process appends a line.
        inspector: the module whose `start()` inspects each process.
    """
    others = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry != STARTUP_FOLDER]
    # An empty entry is the current directory: it stays where it was given, and none is added.
    path = [STARTUP_FOLDER] if others == [""] else [STARTUP_FOLDER, *others]
    made = {**environ, "PYTHONPATH": os.pathsep.join(path), NOTES_VARIABLE: str(notes)}
    if inspector is not None:
        return {**made, INSPECTOR_VARIABLE: inspector}
    return {**made, LAUNCHER_VARIABLE: "otel-itl run"} if INSPECTOR_VARIABLE in environ else made
