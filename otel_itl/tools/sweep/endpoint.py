"""The endpoint of a sweep: its address, its model and the SDK that asks it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from otel_itl.core.without_secrets import show_address
from otel_itl.tools.command_error import CommandError

SDK = Literal["openai", "anthropic"]

_KEY_VARIABLES: Final = {"openai": ("OPENAI_API_KEY",), "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where requests go. Nothing is sent to any other address: redirects are not followed.

    Args:
        sdk: asks it: `openai` for any OpenAI-compatible one, `anthropic` for Anthropic's messages.
        model: model to ask for.
        base_url: as the SDK takes it.
        headers: added to each request; never shown.
        body: added to the body of each request.
        is_exact: answers are to be as long as they may be, which a server has to know: `ignore_eos`.
    """

    sdk: SDK
    model: str
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    is_exact: bool = False

    @property
    def address(self) -> str:
        """The base URL without what may be a secret, to be shown."""
        return show_address(self.base_url)

    @property
    def host(self) -> str:
        """The name or the IP address of the host.

        Raises:
            CommandError: the base URL names none.
        """
        parts = urlsplit(self.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise CommandError(
                f"base URL {self.address!r} is not accepted: it takes one such as http://localhost:8000/v1."
            )
        return parts.hostname

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine, so that a sweep harms no other one."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    def find_key(self) -> str | None:
        """Return the API key to give to the SDK; None: it finds one in its environment variable.

        An endpoint of this machine may have none: `none` is sent.

        Raises:
            CommandError: there is none.
        """
        variables = _KEY_VARIABLES[self.sdk]
        if any(os.environ.get(name) for name in variables):
            return None
        if not self.is_loopback:
            raise CommandError(f"{self.address} needs an API key: set {variables[0]}.")
        return "none"
