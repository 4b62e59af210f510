"""The facts of one stream: when each chunk was asked for and arrived, what it carried, and how the stream ended."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import Enum, IntFlag
from operator import sub

MICROSECOND = 1_000
"""Nanoseconds in a microsecond, which is the resolution of a timeline once it is recorded or stored."""
SECOND = 1_000_000_000
"""Nanoseconds in a second."""


class Kind(IntFlag):
    """What a chunk carried, one byte of flags.

    A chunk with none of `REASONING`, `ANSWER` or `TOOL` is not an output chunk; a chunk with no flag at all is empty.
    `FINISH` and `USAGE` may stand beside an output flag.
    """

    EMPTY = 0
    REASONING = 1
    ANSWER = 2
    TOOL = 4
    ROLE = 8
    LIFECYCLE = 16
    PING = 32
    FINISH = 64
    USAGE = 128


OUTPUT = int(Kind.REASONING | Kind.ANSWER | Kind.TOOL)
"""The flags that make a chunk an output chunk."""
_IS_OUTPUT = bytes(1 if kind & OUTPUT else 0 for kind in range(256))
"""Translation table: the kind of a chunk → 1 for an output chunk, else 0."""


class Outcome(str, Enum):
    """How a stream ended."""

    COMPLETED = "completed"
    """Exhausted, after the provider's finish reason or end-of-stream marker."""
    TRUNCATED = "truncated"
    """Exhausted without a finish reason or an end-of-stream marker: the upstream broke it off without an error."""
    CLOSED = "closed"
    """Closed by the caller: `close()`, `aclose()` or the end of a `with` block."""
    ABANDONED = "abandoned"
    """Dropped by the caller without closing it, or still open when the process or the instrumentation ended."""
    CANCELLED = "cancelled"
    """The task was cancelled, or the program interrupted, while it waited for a chunk."""
    INTERRUPTED = "interrupted"
    """The provider ended the response early, because the caller gave it other input meanwhile."""
    ERROR = "error"
    """The SDK raised, or the provider reported a failure."""


def _empty_moments() -> array[int]:
    return array("q")


def _empty_counts() -> array[int]:
    return array("I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The facts of one stream. Every number of `otel_itl` is derived from these and nothing else.

    Moments are integer nanoseconds after the request (`r` = 0) on a monotonic clock; only `request_unix_ns` is wall
    time. `asked`, `arrived` and `kinds` are parallel, one entry per chunk.

    Raises:
        ValueError: parallel fields of different lengths.
    """

    request_unix_ns: int
    """Wall-clock time of the request, nanoseconds since the epoch: the anchor of exported timestamps."""
    asked: array[int] = field(default_factory=_empty_moments)
    """When the consumer asked for each chunk (entered `__next__` or `__anext__`)."""
    arrived: array[int] = field(default_factory=_empty_moments)
    """When each chunk left the SDK's iterator."""
    kinds: bytes = b""
    """What each chunk carried, as flags of `Kind`."""
    tokens: array[int] = field(default_factory=_empty_counts)
    """Tokens in each chunk by the provider's count (0: not reported), of each choice where a chunk has several; empty
    when it reports none at all."""
    choices: bytes = b""
    """Which of several choices each chunk belongs to, as `chunk_code.choice_byte()` has it; empty when there is only
    one."""
    lateness: array[int] = field(default_factory=_empty_moments)
    """By how much each chunk may have come before `arrived`: the evidence does not show when it came, but no earlier
    than that (ns; 0 where that is less than 1 ms); empty: by less than 1 ms each."""
    skipped: array[int] = field(default_factory=_empty_counts)
    """Chunks left out before each one, in a timeline that was thinned to be stored; else empty."""
    unrecorded: int = 0
    """Chunks that arrived after the recording limit: they are counted, not timed."""
    headers: int | None = None
    """When the response headers were there (the SDK call returned the stream); None: not known."""
    end: int = 0
    """When the stream was exhausted or left."""
    outcome: Outcome = Outcome.COMPLETED
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    is_reasoning_partial: bool = False
    """The provider's format shows that the chunks carry a summary of the reasoning, or none of it."""
    attempts: int | None = None
    """HTTP attempts that the SDK made, the successful one included; None: the SDK does not report them."""

    def __post_init__(self) -> None:
        chunks = len(self.kinds)
        if (
            chunks == len(self.asked) == len(self.arrived)
            and len(self.tokens) in {0, chunks}
            and len(self.choices) in {0, chunks}
            and not (self.skipped or self.lateness)
        ):
            return
        for name in ("asked", "arrived", "tokens", "choices", "lateness", "skipped"):
            length = len(getattr(self, name))
            if length != chunks and (length or name in {"asked", "arrived"}):
                message = f"Timeline.{name} has {length} entries for {chunks} chunks: it needs one for each."
                raise ValueError(message)

    def __len__(self) -> int:
        """Return the number of chunks that were timed."""
        return len(self.kinds)

    @property
    def waits(self) -> array[int]:
        """How long the consumer was kept waiting for each chunk, in nanoseconds."""
        return array("q", map(sub, self.arrived, self.asked))

    @property
    def output_flags(self) -> bytes:
        """One byte per chunk: 1 for an output chunk, else 0."""
        return self.kinds.translate(_IS_OUTPUT)

    @property
    def output_bounds(self) -> tuple[int, int]:
        """Index of the first and of the last output chunk; -1 each where there is none."""
        flags = self.output_flags
        return flags.find(1), flags.rfind(1)

    @property
    def output_duration(self) -> float:
        """Seconds from the first output chunk to the last; 0.0 where there is none."""
        first, last = self.output_bounds
        return (self.arrived[last] - self.arrived[first]) / SECOND if first >= 0 else 0.0
