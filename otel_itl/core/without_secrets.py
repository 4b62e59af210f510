"""Takes what may be a secret out of texts that are shown or logged: addresses, and error messages of other packages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

HIDDEN: Final = "…"
"""Stands for what was taken out."""
MIN_SECRET: Final = 4
"""Characters from which on a value is looked for in a text: a shorter one would be found in words."""

_WORD: Final = re.compile(r"[a-z]{1,20}(?:[-_][a-z]{1,20})*|v\d{1,2}(?:(?:alpha|beta)\d{0,2})?")
"""A segment of a path that is no key: `otlp`, `v1`, `traces`."""
_URL: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>]+")
_SECRET_NAMES: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH")


def show_address(address: str) -> str:
    """Return a URL, or host and port, without user, password, query and fragment, and its path without keys.

    A segment of the path stays where it is a word or a version, as in `/api/otlp/v1/traces`; any other may be a key,
    and `…` stands for it. So it does for all but the scheme where an `@` follows the first slash: what is before it may
    be a password with a slash in it.
    """
    scheme, separator, rest = address.strip().partition("://")
    if not separator:
        scheme, rest = "", scheme
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = place.partition("/")
    if "@" in rest[len(authority) :]:
        return f"{scheme}{separator}{HIDDEN}"
    segments = [segment if not segment or _WORD.fullmatch(segment) else HIDDEN for segment in path.split("/")]
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{'/'.join(segments)}"


def hide_secrets(text: str, environ: Mapping[str, str]) -> str:
    """Return a message of another package without the secrets of the `OTEL_*` variables, and with addresses as shown.

    Args:
        text: the message.
        environ: the environment variables. Headers, endpoints and what is named like a key are taken as secrets.
    """
    for secret in sorted(_secrets(environ), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _URL.sub(lambda found: show_address(found[0]), text)


def _secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in `OTEL_*` variables, and the parts of them that a message may have alone."""
    for name, value in environ.items():
        if not name.startswith("OTEL_"):
            continue
        parts: list[str] = []
        if name.endswith("_HEADERS"):
            pairs = [pair.partition("=")[2] for pair in value.split(",")]
            parts = [value, *pairs, *(word for pair in pairs for word in unquote(pair).split())]
        elif name.endswith("_ENDPOINT"):
            rest = value.partition("://")[2] or value
            credentials, at, _ = rest.rpartition("@")
            parts = [f"{credentials}{at}", *re.split(r"[:/@]", credentials), rest.partition("?")[2]]
        elif _SECRET_NAMES.search(name):
            parts = [value]
        yield from (part for part in (part.strip() for part in parts) if len(part) >= MIN_SECRET)
