"""Writes the Grafana dashboards of `collector/dashboards` to a folder."""

from __future__ import annotations

from pathlib import Path

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.fleet.packaged_files import find_file
from otel_itl.tools.output import CannotWriteError, open_output


def write_dashboards(name: str) -> list[Path]:
    """Write each dashboard to a file in a folder, which is made if need be; returns their paths.

    Raises:
        CommandError: the folder has no name; or a file is there with other content, which is left as it is.
        CannotWriteError: the folder cannot be made, or a file cannot be written.
    """
    if not name.strip():
        raise CommandError("the folder has no name: give one, or . for the current folder.")
    folder = Path(name)
    texts = {folder / path.name: path.read_text(encoding="utf-8") for path in find_file("dashboards").glob("*.json")}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        changed = [path for path, text in texts.items() if path.exists() and path.read_text(encoding="utf-8") != text]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CannotWriteError(f"{folder} cannot be written to ({reason}).") from error
    if changed:
        raise CommandError(f"{changed[0]} is there already, and is another one: name another folder, or remove it.")
    for path, text in texts.items():
        with open_output(path) as file:
            file.write(text)
    return sorted(texts)
