"""Reads the files of the page, and joins its modules to one script for a page that is a single file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

MAIN: Final = "main.js"

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def read_page_file(name: str) -> str:
    """Return a file of the page: `index.html`, `page.css` or a module.

    Raises:
        FileNotFoundError: there is none of this name.
    """
    if not re.fullmatch(r"[a-z]+\.(?:html|css|js|json)", name):
        raise FileNotFoundError(name)
    return files("otel_itl.tools.view").joinpath("page").joinpath(name).read_text(encoding="utf-8")


def read_glossary() -> dict[str, str]:
    """Return the terms that the page explains on hover: the sentences of docs/glossary.md, without links."""
    terms: dict[str, str] = json.loads(read_page_file("glossary.json"))
    return terms


@cache
def join_modules() -> str:
    """Return all modules of the page as one, each after those that it imports.

    It is a plain concatenation: no two modules have a top-level name in common, and none renames what it imports.
    """
    sources = {name: _EXPORT.sub("", _IMPORT.sub("", source)) for name, source in _modules_in_order(MAIN, set())}
    return "\n".join(sources.values())


def _modules_in_order(name: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    """Yield name and source of a module behind those of the modules that it imports, each once."""
    if name in seen:
        return
    seen.add(name)
    source = read_page_file(name)
    for imported in _IMPORT.findall(source):
        yield from _modules_in_order(imported, seen)
    yield name, source
