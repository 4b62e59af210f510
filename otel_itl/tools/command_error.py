"""The error that ends a command of `otel-itl` with one sentence."""

from __future__ import annotations

from otel_itl.tools.exit_codes import BAD_USAGE


class CommandError(Exception):
    """What was asked for cannot be done; the message is one sentence with the reason, and what to do about it."""

    exit_code = BAD_USAGE
    """Exit code of the command."""
