"""The flags of `Kind` as plain integers: the flags of an enumeration are combined a hundred times slower."""

from __future__ import annotations

from otel_itl.core.timeline import Kind

REASONING, ANSWER, TOOL = int(Kind.REASONING), int(Kind.ANSWER), int(Kind.TOOL)
ROLE, EMPTY, LIFECYCLE = int(Kind.ROLE), int(Kind.EMPTY), int(Kind.LIFECYCLE)
PING, FINISH, USAGE = int(Kind.PING), int(Kind.FINISH), int(Kind.USAGE)
