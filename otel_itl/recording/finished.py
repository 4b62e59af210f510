"""From a recorder to a finished stream: its timeline, with how late each chunk may have been recorded."""

from __future__ import annotations

from array import array

from otel_itl.core.chunk_code import unpack_codes
from otel_itl.core.columns import FEW, Columns, LaneError
from otel_itl.core.conventions import FETCH_OPERATIONS
from otel_itl.core.stream import ALONE, Concurrency, FinishedStream, ResponseInfo
from otel_itl.core.timeline import MICROSECOND, SECOND, Outcome, Timeline
from otel_itl.recording.recorder import StreamRecorder


def finish_stream(recorder: StreamRecorder, concurrency: Concurrency) -> FinishedStream:
    """Build the finished stream of a recorder whose stream ended.

    Args:
        recorder: holds the facts.
        concurrency: how many streams were open beside it.
    """
    return _finish(recorder, concurrency, is_over=True)


def finish_without_facts(recorder: StreamRecorder) -> FinishedStream:
    """Build a finished stream that holds the request, the outcome and the end alone: what is left if the rest fails."""
    timeline = Timeline(
        request_unix_ns=recorder.unix_ns,
        end=_since_request(recorder, recorder.ended),
        outcome=recorder.outcome,
    )
    return FinishedStream(recorder.request, recorder.response, timeline, ALONE, recorder.error_type)


def snapshot_stream(recorder: StreamRecorder, concurrency: Concurrency) -> FinishedStream:
    """Build the finished stream of a recorder as if its stream ended now, for a span that ends before the stream."""
    if not recorder.is_over:
        recorder.ended = recorder.clock()
        recorder.evidence.stop()
        outcome = recorder.exhausted_outcome()
        recorder.outcome = outcome if recorder.response.is_finished else Outcome.CLOSED
    return _finish(recorder, concurrency, is_over=recorder.is_over)


def _finish(recorder: StreamRecorder, concurrency: Concurrency, *, is_over: bool) -> FinishedStream:
    """Collect what was recorded of a stream; `is_over` is False for a snapshot of a stream that goes on."""
    monitor = recorder.stall_monitor
    is_read_as_bytes = recorder.headers is not None and not recorder.has_reader
    return FinishedStream(
        recorder.request,
        recorder.response,
        build_timeline(recorder),
        concurrency,
        recorder.error_type,
        stalls=() if monitor is None else monitor.finish(is_over=is_over),
        # Stalls are not detected where bytes are read.
        stall_threshold=None if monitor is None or is_read_as_bytes else monitor.threshold,
        host_delay=_to_seconds(recorder.evidence.host.delay),
    )


def build_timeline(recorder: StreamRecorder) -> Timeline:
    """Build the timeline of a recorder, moments in nanoseconds after the request, rounded down to microseconds."""
    # The usage of a response that is fetched again, or from its middle on, is that of other chunks than these.
    log, response = recorder.log, recorder.response
    usage = ResponseInfo() if recorder.request.operation in FETCH_OPERATIONS else response
    chunks = min(len(log.codes), len(log.arrived), len(log.asked))
    codes = unpack_codes(log.codes[:chunks])
    asked, arrived, headers = log.asked[:chunks], log.arrived[:chunks], recorder.headers
    placed = recorder.evidence.date_chunks(asked, arrived, headers)
    if placed is not None:
        asked, arrived, headers = placed.asked, placed.arrived, placed.headers
    lateness = recorder.evidence.find_lateness(asked, arrived, headers, recorder.ended)
    if lateness is not None:
        headers = lateness.headers
    columns = Columns(chunks) if chunks > FEW else None
    return Timeline(
        request_unix_ns=recorder.unix_ns,
        asked=_all_since_request(recorder, columns, asked),
        arrived=_all_since_request(recorder, columns, arrived),
        kinds=codes.kinds,
        tokens=codes.tokens,
        choices=codes.choices,
        lateness=array("q", map(_round_up, () if lateness is None else lateness.chunks)),
        unrecorded=log.unrecorded,
        headers=None if headers is None else _since_request(recorder, headers),
        end=_since_request(recorder, recorder.ended),
        outcome=recorder.outcome,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        is_reasoning_partial=response.is_reasoning_partial,
        attempts=recorder.attempts,
    )


def _to_seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / SECOND


def _round_up(nanoseconds: int) -> int:
    return -(-nanoseconds // MICROSECOND) * MICROSECOND


def _since_request(recorder: StreamRecorder, moment: int) -> int:
    return (moment - recorder.requested) // MICROSECOND * MICROSECOND


def _all_since_request(recorder: StreamRecorder, columns: Columns | None, moments: array[int]) -> array[int]:
    """Return moments in nanoseconds after the request, rounded down to microseconds; without columns, one by one."""
    if columns is None:
        requested = recorder.requested
        return array("q", [(moment - requested) // MICROSECOND * MICROSECOND for moment in moments])
    try:
        offsets = columns.subtract(columns.pack(moments), columns.repeat(recorder.requested))
        return columns.unpack(columns.divide(offsets, MICROSECOND) * MICROSECOND)
    except LaneError:  # a moment before the request
        return array("q", [_since_request(recorder, moment) for moment in moments])
