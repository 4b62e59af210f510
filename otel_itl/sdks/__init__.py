"""The SDKs whose streams are measured: one file for each family, and a table of members."""

from __future__ import annotations

from typing import Final

MEMBERS: Final = {
    "openai": "otel_itl.sdks.openai",
    "anthropic": "otel_itl.sdks.anthropic",
}
"""Package of the SDK → module that holds its `MEMBER`, loaded when it is instrumented."""
