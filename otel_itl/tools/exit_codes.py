"""The exit codes of `otel-itl`, besides 0."""

from __future__ import annotations

from typing import Final

NOTHING_FOUND: Final = 1
"""Nothing was measured, or there are too few streams to explain anything."""
NOT_FINE: Final = 1
"""The doctor found something that is not fine."""
BAD_USAGE: Final = 2
"""Arguments that are not accepted, a file that cannot be read or written, no usable stream, or a missing package."""
CANNOT_TELL: Final = 3
"""A comparison or a sweep has too little to answer by."""
INTERRUPTED: Final = 130
"""Ctrl-C: 128 and the number of SIGINT, as shells have it."""
