"""Generated sections of a page of the documentation."""

from __future__ import annotations

from pathlib import Path


def replace_section(page: Path, section: str, text: str) -> None:
    """Put `text` in place of what stands between the two markers of a section.

    Raises:
        SystemExit: the page has no such markers.
    """
    begin, end = f"<!-- generated: {section} -->", f"<!-- end of generated: {section} -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page} has no section between {begin} and {end}.")
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")
