"""Reads the attributes of streams that may move a latency and have few values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from otel_itl.core import conventions as names
from otel_itl.tools.report.reading.span_facts import format_attribute

MAX_READ: Final = 100
"""Values of an attribute, above which it is not kept: it is an id, or a number."""

_RESULTS: Final = ("itl.", "error.", "exception.", "gen_ai.response.", "gen_ai.usage.", "http.response.", "otel.")
"""Beginnings of the names of what follows from an answer, and moves no latency."""
_KNOWN: Final = frozenset(
    {
        *(names.PROVIDER_NAME, names.REQUEST_MODEL, names.SESSION_ID, names.CONVERSATION_ID),
        *(names.SERVER_ADDRESS, names.SERVER_PORT, "gen_ai.system", "llm.provider", "llm.system", "llm.model_name"),
        *("telemetry.sdk.name", "telemetry.sdk.language", "telemetry.sdk.version"),
    }
)
"""What has a driver of its own, or separates models and sessions."""


class AttributeReader:
    """Keeps the attributes of streams that have few values. Streams with the same attributes share one mapping.

    Args:
        only: the one attribute to keep; None: every one that may move a latency.
    """

    def __init__(self, only: str | None = None) -> None:
        self._only = only
        self._values: dict[str, dict[str, str]] = {}
        self._shared: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self.many: set[str] = set()
        """Attributes with too many values to be kept."""

    def read(self, attributes: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the attributes of a stream that are kept, as text."""
        keys = [self._only] if self._only is not None else attributes
        kept = []
        for key in keys:
            if key in self.many or (self._only is None and (key in _KNOWN or key.startswith(_RESULTS))):
                continue
            value = attributes.get(key)
            if isinstance(value, (str, bool, int, float)):
                values = self._values.setdefault(key, {})
                text = format_attribute(value)
                kept.append((key, values.setdefault(text, text)))
                if len(values) > MAX_READ:
                    self.many.add(key)
                    del self._values[key]
        pairs = tuple(sorted(kept))
        return self._shared.setdefault(pairs, dict(pairs))
