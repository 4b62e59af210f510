"""What a stall is: its phase, its cause, and the thresholds from which a silence is one.

A silence begins when an output chunk (reasoning, answer or tool output) was delivered, the first one with the request,
and lasts until the next. Only the time in which the consumer waited counts: holding a chunk is never a stall. A silence
in which the consumer waited for longer than the threshold of its phase is a stall. Pings and empty chunks do not end
it; they mark it *alive*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property

from otel_itl.core.request import Request
from otel_itl.core.timeline import SECOND

MAX_THRESHOLD_SECONDS = 1e9
"""The longest threshold that is accepted, thirty years; None is the way to switch one off."""
MAX_RELATIVE_THRESHOLD = 10 * SECOND
"""A multiple of the stream's own pace asks for no longer wait than this (ns)."""
NEVER = 1 << 62
"""The threshold (ns) of a phase in which no silence is a stall."""
RECOVERED = "recovered"


class Phase(str, Enum):
    """What the consumer was waiting for when a stall began."""

    FIRST_TOKEN = "first_token"
    """The first output chunk."""
    REASONING = "reasoning"
    """The chunk after a reasoning chunk: more reasoning, or the answer."""
    DECODE = "decode"
    """The chunk after a piece of the answer or of a tool call, or the end of the stream."""


class Cause(str, Enum):
    """What kept the consumer waiting during a stall."""

    UPSTREAM = "upstream"
    """The server or the network: the consumer was waiting, its event loop and its process were running."""
    EVENT_LOOP = "event_loop"
    """The event loop that reads the stream was blocked while data were there, or may have been."""
    PROCESS = "process"
    """Likewise the whole process, or the thread that reads the stream: suspended, frozen, or starved."""


class Evidence(str, Enum):
    """What showed the cause of a stall."""

    CONNECTION = "connection"
    """Nothing came on the connection, or nothing was left unread."""
    BYTES = "bytes"
    """Bytes had come on the connection, and were not read."""
    LOOP = "loop"
    """The event loop was blocked at one time for most of the silence."""
    RUN_QUEUE = "run_queue"
    """The process, or the thread that reads the stream, did not run at one time for most of the silence."""
    NONE = "none"
    """Nothing kept the consumer from seeing a chunk, as far as is known."""


@dataclass(frozen=True, kw_only=True)
class StallPolicy:
    """How long the consumer has to wait, in seconds, before a silence is a stall. None switches a threshold off.

    Args:
        first_token: before the first output chunk, counted from the request.
        reasoning: after a reasoning chunk.
        next_token: after a chunk of the answer or of a tool call.
        relative: and this many times the stream's own pace, where that is longer than `reasoning` or `next_token`
            (10 makes 5 s a stall of a stream that has a chunk every half second). It asks for no more than 10 s. The
            pace is the median of the last waits for a chunk.
        abort_after: abort a stalled stream after this time. Off by default: by default nothing is changed.

    Raises:
        ValueError: a time or a multiple that is not positive, or that is no finite number.
    """

    first_token: float | None = 10.0
    reasoning: float | None = 10.0
    next_token: float | None = 1.0
    relative: float | None = 10.0
    abort_after: float | None = None

    def __post_init__(self) -> None:
        for name, value in self._values():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 < value <= MAX_THRESHOLD_SECONDS):
                message = (
                    f"StallPolicy({name}={value!r}) is not accepted: it takes a number above 0 and up to "
                    f"{MAX_THRESHOLD_SECONDS:g}, or None for never."
                )
                raise ValueError(message)

    def __str__(self) -> str:
        """Return the policy in the form that `OTEL_ITL_STALL` takes."""
        return ",".join(f"{name}={value:g}" for name, value in self._values() if value is not None)

    def _values(self) -> list[tuple[str, float | None]]:
        return [(each.name, getattr(self, each.name)) for each in fields(self)]

    def find_fixed_threshold(self, phase: Phase) -> int:
        """Return the threshold (ns) of a phase for a stream of any pace: no shorter wait is a stall."""
        return self._fixed_thresholds[phase]

    def find_threshold(self, phase: Phase, pace: float | None) -> int:
        """Return the threshold (ns) of a phase for a stream of one pace.

        Args:
            phase: what the consumer is waiting for.
            pace: how long the stream's consumer usually waits for a chunk (ns); None: it has not waited yet.
        """
        fixed = self.find_fixed_threshold(phase)
        if phase is Phase.FIRST_TOKEN or self.relative is None or pace is None:
            return fixed
        return max(fixed, min(int(self.relative * pace), MAX_RELATIVE_THRESHOLD))

    @cached_property
    def _fixed_thresholds(self) -> dict[Phase, int]:
        seconds = {Phase.FIRST_TOKEN: self.first_token, Phase.REASONING: self.reasoning, Phase.DECODE: self.next_token}
        return {phase: NEVER if value is None else round(value * SECOND) for phase, value in seconds.items()}

    @cached_property
    def min_threshold(self) -> int:
        """Return the shortest threshold (ns) that any phase can have."""
        return min(self._fixed_thresholds.values())


def _refuse_abort() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One stall of a stream. Times are seconds."""

    request: Request
    """The request of the stalled stream."""
    number: int
    """Its number among the stalls of the stream, from 1."""
    phase: Phase
    cause: Cause
    start: float
    """When the consumer began to wait, after the request."""
    duration: float
    """How long the consumer waited: so far, while `end` is None."""
    threshold: float
    """The threshold that was exceeded."""
    is_alive: bool
    """Pings or empty chunks arrived during the stall: the upstream responds, but makes no progress."""
    evidence: Evidence = Evidence.NONE
    """What showed the cause."""
    end: str | None = None
    """How the stall ended: `recovered`, or the outcome of the stream that ended with it. None: it lasts."""
    abort: Callable[[], bool] = field(default=_refuse_abort, repr=False, compare=False)
    """Aborts the stream: the reader gets what had arrived already, then a timeout error of the SDK's own, and the
    connection is closed. Returns False where that is not possible: the stream is over, or its connection is shared."""
