"""Replaces the generated sections of a page of the documentation; everything around them stays as it was written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def replace_section(page: Path, section: str, text: str) -> None:
    """Replace the text between the two markers of a section of a page.

    Raises:
        SystemExit: the page does not have these markers.
    """
    begin, end = f"<!-- generated: {section} -->", f"<!-- end of generated: {section} -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page} has no section between {begin} and {end}.")
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")


def without_write(given: Sequence[str]) -> list[str]:
    """Return the arguments without `--write`, so that the page does not depend on its own path."""
    shown, rest = [], iter(given)
    for argument in rest:
        if argument == "--write":
            next(rest, None)
        elif not argument.startswith("--write="):
            shown.append(argument)
    return shown
