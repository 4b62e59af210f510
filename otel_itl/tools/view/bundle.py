"""Reads the files of the page, and renders it as one file with its data, which works offline."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from otel_itl.tools.report.json_text import encode_json

MAIN: Final = "main.js"
HEAD, DATA = "<!--head-->", "<!--data-->"
"""The places of `index.html` for the style and the scripts."""
LIVE: Final = {"live": True}
"""The document of a page that gets its streams from a server."""
OWN, NOTHING = "'self'", "'none'"
"""What a page may connect to, in the words of a content-security policy: its own server, or nothing."""

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def read_page_file(name: str) -> str:
    """Return a file of the page: `index.html`, `page.css`, `glossary.json` or a module."""
    return (files("otel_itl.tools.view") / "page" / name).read_text(encoding="utf-8")


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


@cache
def make_policy(connections: str) -> str:
    """Return a content-security policy that runs the page's own script and style, by their hashes, and loads nothing.

    Args:
        connections: `OWN` or `NOTHING`.
    """
    return (
        f"default-src 'none'; script-src {_hash_source(join_modules())}; "
        f"style-src {_hash_source(read_page_file('page.css'))}; connect-src {connections}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def render_page(document: dict[str, Any]) -> str:
    """Return the page as one file, with this document: as `describe_page` makes it, or `LIVE`.

    The document is compressed: neither HTML nor script is made of what streams hold. A page with streams connects to
    nothing.
    """
    policy = make_policy(OWN if document is LIVE else NOTHING)
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{read_page_file("page.css")}</style>'
    )
    packed = b64encode(zlib.compress(encode_json({**document, "glossary": read_glossary()}), 9)).decode()
    data = (
        f'<script type="application/octet-stream" id="data">{packed}</script>\n'
        f'<script type="module">{join_modules()}</script>'
    )
    return read_page_file("index.html").replace(HEAD, head, 1).replace(DATA, data, 1)


def _hash_source(text: str) -> str:
    """Return the source expression of a content-security policy that allows exactly this inline text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
