"""What recorded telemetry shows of the traffic: its peak, when requests came, and how long prompts and answers were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from otel_itl.core.conventions import USAGE_INPUT_TOKENS
from otel_itl.core.timeline import SECOND
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream, read_streams

MAX_LENGTHS: Final = 10_000
"""Pairs of lengths that are kept, evenly chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The requests of some files. Times are seconds."""

    requests: int
    peak: int
    """Streams open at a time, at most."""
    mean_duration: float
    """Mean duration of a request."""
    inter_arrivals: tuple[float, ...]
    """Between each request and the next, in their order."""
    lengths: tuple[tuple[int, int], ...]
    """Input and output tokens of requests of which both are known."""

    def find_lengths(self) -> tuple[tuple[int, int], ...]:
        """Return the lengths of prompts and answers.

        Raises:
            CommandError: no request has both.
        """
        if not self.lengths:
            raise CommandError("no recorded request has its input and output tokens: give prompts.")
        return self.lengths


def read_traffic(sources: Sequence[str], skipped: SkippedInput, model: str | None = None) -> Traffic:
    """Read what telemetry files show of the traffic.

    Args:
        sources: paths of files; `-` is standard input.
        skipped: receives what cannot be used.
        model: model of the requests that count; None: requests of all models.

    Raises:
        UnreadableSourceError: a file cannot be read.
        CommandError: there is no request (of that model).
    """
    # The group of a stream is the value of any attribute; here the tokens of its prompt.
    streams = read_streams(sources, skipped, group_by=USAGE_INPUT_TOKENS)
    found = sorted(
        (_reduce(stream) for stream in streams if model is None or stream.model == model), key=lambda one: one.start
    )
    if not found:
        message = "no request is recorded" if model is None else f"no request of model {model!r} is recorded"
        raise CommandError(f"{message} in {', '.join(sources)}.")
    lengths = [(one.input_tokens, one.output_tokens) for one in found if one.input_tokens and one.output_tokens]
    return Traffic(
        requests=len(found),
        peak=find_peak(found),
        mean_duration=sum(one.end - one.start for one in found) / len(found),
        inter_arrivals=tuple(later.start - earlier.start for earlier, later in pairwise(found)),
        lengths=tuple(lengths[:: len(lengths) // MAX_LENGTHS + 1]),
    )


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request. Times are Unix times in seconds."""

    start: float
    end: float
    input_tokens: int
    """0: not known."""
    output_tokens: int


def find_peak(requests: Iterable[RecordedRequest]) -> int:
    """Return how many requests were open at a time, at most. One that begins as another ends is not beside it."""
    changes = sorted([change for one in requests for change in ((one.start, 1), (one.end, -1))])
    return max(accumulate(change for _, change in changes), default=0)


def _reduce(stream: StoredStream) -> RecordedRequest:
    """Reduce a stream to its times and lengths."""
    start = stream.timeline.request_unix_ns / SECOND
    tokens = stream.group or ""
    return RecordedRequest(
        start=start,
        end=start + stream.timeline.end / SECOND,
        input_tokens=int(tokens) if tokens.isdecimal() else 0,
        output_tokens=stream.measures.token_count,
    )
