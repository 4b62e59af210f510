"""The description of one streaming request, as its span and its metrics name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One streaming request to a provider. It never holds text of the prompt."""

    operation: str
    """`gen_ai.operation.name`, such as `chat`."""
    provider: str
    """`gen_ai.provider.name`, such as `openai`."""
    model: str | None = None
    server_address: str | None = None
    server_port: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """`gen_ai.request.*` attributes of the parameters that the caller set."""
    session_id: str | None = None
    is_resumed: bool = False
    """The request fetches a response from where an earlier stream of it broke off."""
    is_test: bool = False
    """A scripted stream of `otel-itl doctor`, which is in no metric."""
