"""Writes docs/supported.md and the README's table from the surfaces that the tests walk: run it without arguments."""  # noqa: INP001 - a script, no package

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "supported.md"
README: Final = HERE.parent / "README.md"
MARKS: Final = "<!-- supported:begin -->\n", "<!-- supported:end -->"
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "sdks")]

from surfaces import SURFACES, Surface  # noqa: E402 - found only now

from otel_itl.sdks import MEMBERS  # noqa: E402 - as above

HEAD: Final = """\
<!-- Made from tests/sdks/surfaces.py by docs/generate_supported.py. -->

# Supported surfaces

Every row is tested over real sockets with the SDK's own client, sync and async, from the oldest supported release to
the newest: what is measured, and that the stream, its chunks and the request stay what they are without it.
Clients that were made before `instrument()` are measured like those made after.
"""
FOOT: Final = """
* A release that lacks a call (openai 1.40 has no `client.responses`) is measured in all the others.
* `.iter_lines()`, `.iter_bytes()` and `.read()` give bytes: the SDK makes no chunk objects, so that the span has the
  duration and the outcome, but no tokens and no time to first token.
* `provider` is `gen_ai.provider.name`. It follows the host that is asked, also of clients of compatible servers; where
  the host is not known, it follows the class of the client (`AzureOpenAI`, `AnthropicBedrock`, `AnthropicVertex`).
* An iterator that no hook sees is measured by `otel_itl.observe()`.
"""


def page() -> str:
    """The page, as it is to be."""
    return HEAD + "".join(_section(sdk) for sdk in MEMBERS) + FOOT


def _section(sdk: str) -> str:
    oldest = ".".join(map(str, import_module(MEMBERS[sdk]).MEMBER.oldest))
    rows: dict[tuple[Any, ...], list[str]] = {}
    for surface in SURFACES:
        if surface.sdk == sdk:
            rows.setdefault(_call(surface), []).append(f"`{surface.reading.text}`".replace("`for-loop`", "a loop"))
    lines = [
        f"\n## {sdk} {oldest} or later\n",
        "| client, sync and async | `client.` | read by | operation | provider |",
        "|---|---|---|---|---|",
        *(
            f"| `{client}` | `{call}` | {', '.join(readings)} | `{operation}` | `{provider}` |"
            for (client, call, operation, provider), readings in rows.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _call(surface: Surface) -> tuple[str, str, str, str]:
    parsed = ".parse()" if surface.parsed else ""
    return surface.host.client, surface.call + parsed, surface.operation, surface.host.provider


def table() -> str:
    """The README's table: what is called, and who serves it."""
    lines = ["| SDK | `client.` (sync and async) | read by |", "|---|---|---|"]
    rows: dict[tuple[str, str], dict[str, None]] = {}
    for surface in SURFACES:
        call = _call(surface)[1]
        reading = "a loop" if surface.reading.text == "for-loop" else f"`{surface.reading.text}`"
        rows.setdefault((surface.sdk, call), {})[reading] = None
    lines += [f"| {sdk} | `{call}` | {', '.join(readings)} |" for (sdk, call), readings in rows.items()]
    return "\n".join(lines) + "\n"


def readme() -> str:
    """The README, with the table that it is to hold."""
    before, _, rest = README.read_text(encoding="utf-8").partition(MARKS[0])
    return before + MARKS[0] + table() + MARKS[1] + rest.partition(MARKS[1])[2]


if __name__ == "__main__":
    README.write_text(readme(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
