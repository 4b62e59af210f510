"""Reads and writes JSON, by orjson where that is installed."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

try:
    import orjson
except ImportError:

    def parse_json(text: bytes) -> Any:
        """Parse JSON; raises ValueError where it is none, as with NaN."""
        return json.loads(text, parse_constant=_refuse_constant)

    def encode_json(value: Any, *, is_indented: bool = False) -> bytes:
        """Encode a value, without spaces or indented; what is no number in JSON (NaN) becomes null."""
        layout: dict[str, Any] = {"indent": 2} if is_indented else {"separators": (",", ":")}
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, **layout)
        except ValueError:
            text = json.dumps(_without_nan(value), ensure_ascii=False, **layout)
        return text.encode("utf-8", "replace")

    def _refuse_constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    def _without_nan(value: Any) -> Any:
        """Return a value with None in place of NaN and the infinities."""
        if isinstance(value, dict):
            return {key: _without_nan(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [_without_nan(item) for item in value]
        return None if isinstance(value, float) and not isfinite(value) else value

else:

    def parse_json(text: bytes) -> Any:
        """Parse JSON; raises ValueError where it is none, as with NaN."""
        return orjson.loads(text)

    def encode_json(value: Any, *, is_indented: bool = False) -> bytes:
        """Encode a value, without spaces or indented."""
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 if is_indented else None)
