"""What flushes the providers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

Export = Callable[[float], object]
"""Exports what waits, within seconds; returns False where that failed."""


def flushes_of(*providers: Any) -> list[Export]:
    """Return what flushes those providers that can be flushed: the API's own, which stand for none, cannot."""
    return [partial(_flush_provider, provider) for provider in providers if hasattr(provider, "force_flush")]


def _flush_provider(provider: Any, seconds: float) -> Any:
    return provider.force_flush(int(seconds * 1_000))
