"""A part of a stream that runs: the chunks since the last look at it, for `itl.stream.progress` events."""

from __future__ import annotations

from operator import sub
from typing import Any, NamedTuple

from otel_itl.core import conventions as names
from otel_itl.core.chunk_code import unpack_codes
from otel_itl.core.encoding import encode_runs
from otel_itl.core.timeline import MICROSECOND


class Progress(NamedTuple):
    """The chunks of a stream that arrived since the last look. Moments are nanoseconds after the request."""

    request_unix_ns: int
    """Wall-clock time of the request, nanoseconds since the epoch."""
    first: int
    """How many chunks there were before these."""
    asked: list[int]
    """When the consumer asked for each chunk."""
    arrived: list[int]
    """When each chunk arrived."""
    codes: list[int]
    """What each chunk carried, as `chunk_code()` packs it."""
    headers: int | None
    """When the response headers were there; None: not yet."""
    looked: int
    """The moment of this look."""
    waited: int | None
    """For how long the consumer has been waiting for the next chunk; None: it holds the stream."""


def pack_progress(progress: Progress) -> dict[str, Any]:
    """Make the attributes of a progress event: those of token events for the chunks, in microseconds."""
    attributes: dict[str, Any] = {
        names.STREAM_REQUEST_TIME: progress.request_unix_ns,
        names.PROGRESS_INDEX: progress.first,
        names.PROGRESS_OFFSET: progress.looked // MICROSECOND,
    }
    if progress.headers is not None:
        attributes[names.STREAM_HEADERS] = progress.headers // MICROSECOND
    if progress.waited is not None:
        attributes[names.PROGRESS_WAITED] = progress.waited // MICROSECOND
    if progress.arrived:
        unpacked = unpack_codes(progress.codes)
        attributes[names.TOKENS_OFFSETS] = [moment // MICROSECOND for moment in progress.arrived]
        waits = map(sub, progress.arrived, progress.asked)
        attributes[names.TOKENS_WAITS] = [wait // MICROSECOND for wait in waits]
        attributes[names.TOKENS_KINDS] = encode_runs(unpacked.kinds)
        if unpacked.tokens:
            attributes[names.TOKENS_COUNTS] = unpacked.tokens.tolist()
        if unpacked.choices:
            attributes[names.TOKENS_CHOICES] = list(unpacked.choices)
    return attributes
