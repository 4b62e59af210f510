"""The exit codes of `otel-itl`, besides 0."""

from __future__ import annotations

from typing import Final

NOTHING_USABLE: Final = 1
"""Nothing in the input can be used, or nothing was measured."""
NOT_FINE: Final = 1
"""The doctor found something that is not fine."""
BAD_USAGE: Final = 2
"""Arguments that are not accepted, a file that cannot be read or written, or a missing package."""
INTERRUPTED: Final = 130
"""Ctrl-C: 128 and the number of SIGINT, as shells have it."""
NOTHING_COMPARED: Final = 3
"""A side of a comparison has no stream, so that nothing is known."""
