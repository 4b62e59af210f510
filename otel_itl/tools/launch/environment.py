"""The environment of a launched program: ours, with what makes its Python processes measure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import otel_itl
from otel_itl.launched import INSPECTOR_VARIABLE, NOTES_VARIABLE

STARTUP_FOLDER = str(Path(otel_itl.__file__).resolve().parent / "startup")
"""What has to stand first on `PYTHONPATH`."""


def launch_environment(environ: Mapping[str, str], notes: Path, *, inspector: str | None = None) -> dict[str, str]:
    """Return a copy of the environment under which every Python process starts measuring.

    Args:
        environ: of this process; it is left as it is.
        notes: the file to which each process appends a line.
        inspector: the module whose `start()` inspects each process.
    """
    others = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry != STARTUP_FOLDER]
    # An empty entry is the current directory: it stays where it was given, and none is added.
    path = [STARTUP_FOLDER] if others == [""] else [STARTUP_FOLDER, *others]
    made = {**environ, "PYTHONPATH": os.pathsep.join(path), NOTES_VARIABLE: str(notes)}
    made.pop(INSPECTOR_VARIABLE, None)
    return made if inspector is None else {**made, INSPECTOR_VARIABLE: inspector}
