"""Where a request names its session: a field of its body, or a header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BodyField:
    """Reads a session's id from a field of the request's body, at any depth."""

    path: tuple[str, ...]

    def __call__(self, body: Mapping[str, Any], _: Mapping[str, Any]) -> object:
        """Return the value of the field; None: the body has no such field."""
        found: Any = body
        for field in self.path:
            found = found.get(field) if isinstance(found, Mapping) else None
        return found


@dataclass(frozen=True, slots=True)
class Header:
    """Reads a session's id from a header of the request."""

    name: str
    """In lower case."""

    def __call__(self, _: Mapping[str, Any], headers: Mapping[str, Any]) -> object:
        """Return the value of the header, whatever its case; None: there is no such header."""
        # The request's own come last; the client may have a header of that name in another case.
        return next((headers[name] for name in reversed([*headers]) if name.lower() == self.name), None)
