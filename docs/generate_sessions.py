"""Writes the table of kept sessions of docs/sessions.md from the code and its tests: run it without arguments."""  # noqa: INP001 - a script, no package

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "sessions.md"
TESTS: Final = HERE.parent / "tests" / "neighbours"
sys.path[:0] = [str(HERE.parent), str(TESTS), str(HERE)]

from generate_neighbours import LATE, OPENAI, OTHERS, pinned  # noqa: E402 - found only now
from keeping import KEEPING, SESSIONS  # noqa: E402 - as above

from otel_itl.recording.kept_sessions import CONTEXT_SOURCES, FRAMEWORK_SOURCES  # noqa: E402 - as above

BEGIN: Final = "<!-- generated: kept sessions -->\n"
END: Final = "<!-- end of generated: kept sessions -->"
HEAD: Final = "| kept by | how an application names the session | tested | no session |\n|---|---|---|---|\n"
ON_SPANS: Final = "`session.id`, else `gen_ai.conversation.id`, of the current span"


def table() -> str:
    """Return the table as it is to be."""
    named: dict[str, list[str]] = {}
    for source in (*CONTEXT_SOURCES, *FRAMEWORK_SOURCES):
        named.setdefault(source.name, []).append(source.named_by)
    named["span"] = [ON_SPANS]
    rows = ("| " + " | ".join([_title(name), "; ".join(ways), *_tested(name)]) + " |\n" for name, ways in named.items())
    return HEAD + "".join(rows)


def _title(name: str) -> str:
    return "a span, such as those of Google ADK and Strands" if name == "span" else name


def _tested(source: str) -> tuple[str, str]:
    """Return what is tested of a source, with versions: the ways that give a session, and those that give none."""
    versions: dict[str, str] = {}
    for file in (*OPENAI.values(), *OTHERS.values(), *LATE.values()):
        versions = pinned(file) | versions
    gives: dict[str, list[str]] = {}
    gives_none = []
    for keeping in KEEPING:
        if keeping.source != source:
            continue
        if keeping.shown(SESSIONS[0]) is None:
            gives_none.append(keeping.call)
        else:
            gives.setdefault(keeping.package, []).append(keeping.call)
    packages = (f"{package} {versions[package]}: {', '.join(calls)}" for package, calls in gives.items())
    return "<br>".join(packages), ", ".join(gives_none) or "-"


def page(text: str) -> str:
    """Return the page with the table as it is to be."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
