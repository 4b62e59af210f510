"""Reads and writes JSON, by orjson where that is installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

try:
    import orjson
except ImportError:
    parse_json: Callable[[bytes], Any] = json.loads

    def encode_json(value: Any, *, is_indented: bool = False) -> bytes:
        """Encode a value, without spaces or indented."""
        layout: dict[str, Any] = {"indent": 2} if is_indented else {"separators": (",", ":")}
        return json.dumps(value, ensure_ascii=False, **layout).encode("utf-8", "replace")

else:
    parse_json = orjson.loads

    def encode_json(value: Any, *, is_indented: bool = False) -> bytes:
        """Encode a value, without spaces or indented."""
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 if is_indented else None)
