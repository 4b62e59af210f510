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


def render_single_file(document: dict[str, Any]) -> str:
    """Return the page with this document, as `describe_page` makes it.

    The document is compressed: neither HTML nor script is made of what streams hold. The content-security policy lets
    the page's own script and style run, by their hashes, and nothing be loaded or sent.
    """
    script, style = join_modules(), read_page_file("page.css")
    policy = (
        f"default-src 'none'; script-src {_hash_source(script)}; style-src {_hash_source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    packed = b64encode(zlib.compress(encode_json({**document, "glossary": read_glossary()}), 9)).decode()
    data = (
        f'<script type="application/octet-stream" id="data">{packed}</script>\n<script type="module">{script}</script>'
    )
    return read_page_file("index.html").replace(HEAD, head, 1).replace(DATA, data, 1)


def _hash_source(text: str) -> str:
    """Return the source expression of a content-security policy that allows exactly this inline text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
