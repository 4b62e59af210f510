"""What the launched processes noted for the command, and why nothing may have been measured."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from otel_itl.config import is_disabled
from otel_itl.launched import INSPECTOR_VARIABLE, NOTES_VARIABLE
from otel_itl.sdks.registry import SDK_NAMES


class Notes:
    """A file, readable by its owner only, to which processes append lines of JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch(mode=0o600)

    def read(self) -> list[dict[str, Any]]:
        """Return the notes so far, in order; a line that is still being written is left out."""
        notes = []
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                notes.append(json.loads(line))
            except ValueError:
                continue
        return notes

    def explain_no_stream(self, environ: Mapping[str, str], exit_code: int = 0) -> str:
        """Return the likely reason why no stream was measured, without a full stop.

        Args:
            environ: of this process.
            exit_code: of the program; not 0: that it failed is the reason, if it was started as a Python process.
        """
        notes = self.read()
        failed = next((note for note in notes if "error" in note), None)
        started = [note for note in notes if "sdks" in note]
        if started and exit_code > 0:
            return f"the program has ended with exit code {exit_code}{name_exception(notes)}"
        if is_disabled():
            return "OTEL_ITL_DISABLED or OTEL_SDK_DISABLED is true"
        if started and any(note["sdks"] for note in started):
            return (
                "no supported SDK was asked for a stream (stream=True), or the program names a file of its own, or it "
                "ended without cleaning up (os._exit, kill -9)"
            )
        if started:
            return f"{started[0]['python']} has none of the supported SDKs: {', '.join(SDK_NAMES)}"
        if failed is not None:
            return f"otel_itl cannot start in {failed['python']} ({failed['error']})"
        ignored = " (PYTHONPATH is ignored there)" if environ.get("PYTHONPATH") else ""
        return f"no Python process was started, or only with -I, -E or -S{ignored}"


def name_exception(noted: Sequence[Mapping[str, Any]]) -> str:
    """Return by which exception a process ended, and where it was raised, to follow how it ended; may be empty."""
    raised = next((note for note in noted if "raised" in note), None)
    return f" by {raised['raised']} in {raised['where']}" if raised else ""


@contextmanager
def open_notes() -> Iterator[Notes]:
    """Make an empty file of notes, and remove it at the end of the `with` block; under the doctor, use that of it."""
    if os.environ.get(INSPECTOR_VARIABLE) and os.environ.get(NOTES_VARIABLE):
        yield Notes(Path(os.environ[NOTES_VARIABLE]))
        return
    with TemporaryDirectory(prefix="otel-itl-") as folder:
        os.chmod(folder, 0o700)  # noqa: PTH101 - as `mkdtemp` makes it, whatever the system
        yield Notes(Path(folder, "notes.jsonl"))
