"""Renders the page as one HTML file with its data, which works offline and sends nothing anywhere."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from hashlib import sha256
from typing import Any

from otel_itl.tools.view.bundle import join_modules, read_glossary, read_page_file

HEAD, DATA = "<!--head-->", "<!--data-->"
"""The places of `index.html` for the style and the scripts."""


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
    packed = b64encode(zlib.compress(_to_json({**document, "glossary": read_glossary()}), 9)).decode()
    data = (
        f'<script type="application/octet-stream" id="data">{packed}</script>\n<script type="module">{script}</script>'
    )
    return read_page_file("index.html").replace(HEAD, head, 1).replace(DATA, data, 1)


def _hash_source(text: str) -> str:
    """Return the source expression of a content-security policy that allows exactly this inline text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _to_json(document: dict[str, Any]) -> bytes:
    """Encode a document as JSON."""
    try:
        import orjson  # noqa: PLC0415 - an extra
    except ImportError:
        return json.dumps(document, separators=(",", ":")).encode()
    return orjson.dumps(document)
