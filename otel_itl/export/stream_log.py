"""The log events of one stream: its stalls while they happen, and what is worth an event when it ends."""

from __future__ import annotations

from typing import Any

from opentelemetry._logs import Logger, SeverityNumber

from otel_itl.core import conventions as names
from otel_itl.core.encoding import encode
from otel_itl.core.progress import Progress, pack_progress
from otel_itl.core.stalls import Stall
from otel_itl.core.timeline import MICROSECOND, SECOND, Outcome, Timeline
from otel_itl.export import attributes
from otel_itl.export.logs import EventLog
from otel_itl.export.stream_report import StreamReport


class StallLog:
    """Emits a log event when a stall begins and when it ends, for the first `MAX_REPORTED_STALLS` of a stream."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def stall_started(self, stall: Stall) -> None:
        """Emit the event of a stall that has begun."""
        self._emit(names.STALL_STARTED_EVENT, stall, SeverityNumber.WARN)

    def stall_ended(self, stall: Stall) -> None:
        """Emit the event of a stall that is over."""
        self._emit(names.STALL_ENDED_EVENT, stall, SeverityNumber.INFO)

    def _emit(self, name: str, stall: Stall, severity: SeverityNumber) -> None:
        if stall.number <= names.MAX_REPORTED_STALLS:
            offset_ns = round((stall.start + stall.duration) * SECOND)
            self._log.emit_about_request(name, offset_ns, attributes.of_stall(stall), severity)


class ProgressLog:
    """Emits a log event with the chunks of a stream since the last one, while the stream runs."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def __call__(self, progress: Progress) -> None:
        """Emit the event of one look at the stream."""
        packed = pack_progress(progress)
        self._log.emit_about_request(names.PROGRESS_EVENT, progress.looked, packed, SeverityNumber.INFO)


class EndLog:
    """Emits the log events of a stream's end: a failure, a truncation, the onset of a session's degradation.

    Args:
        logger: emits them.
        token_events: the form of the token events; `log`: they are log events as well.
        has_progress: streams that run are shown by progress events: the last one has the outcome.
    """

    def __init__(self, logger: Logger, token_events: str, *, has_progress: bool = False) -> None:
        self._logger = logger
        self._token_events = token_events
        self._has_progress = has_progress
        self._is_verbose = has_progress or token_events == "log"
        """Streams that ended as they should have log events, too."""

    def __call__(self, report: StreamReport) -> None:
        """Emit the events of a stream that ended."""
        handle, finished = report.handle, report.finished
        timeline = finished.timeline
        if timeline.outcome is Outcome.COMPLETED and report.session is None and not self._is_verbose:
            return
        log = EventLog(self._logger, handle.context, finished.request, timeline.request_unix_ns)
        if self._has_progress and not finished.request.is_test:
            log.emit_about_request(names.PROGRESS_EVENT, timeline.end, _last_progress(timeline), SeverityNumber.INFO)
        if self._token_events == "log":
            for event in encode(timeline):
                log.emit(event.name, event.unix_ns, event.attributes)
        if handle.records_standard and timeline.outcome is Outcome.ERROR:
            # Without the exception's text: it may quote the prompt.
            failure: dict[str, Any] = {names.EXCEPTION_TYPE: finished.error_type or "unknown"}
            log.emit(names.EXCEPTION_EVENT, timeline.request_unix_ns + timeline.end, failure, SeverityNumber.WARN)
        if timeline.outcome is Outcome.TRUNCATED:
            count = {names.CHUNK_COUNT: len(timeline) + timeline.unrecorded}
            log.emit_about_request(names.TRUNCATED_EVENT, timeline.end, count, SeverityNumber.WARN)
        if report.session is not None and report.session.onset is not None:
            onset = attributes.of_degradation(report.session.onset)
            log.emit_about_request(names.SESSION_DEGRADED, timeline.end, onset, SeverityNumber.WARN)


def _last_progress(timeline: Timeline) -> dict[str, Any]:
    """Make the attributes of a stream's last progress event: how it ended. Its chunks are in its token events."""
    return {
        names.STREAM_REQUEST_TIME: timeline.request_unix_ns,
        names.PROGRESS_INDEX: len(timeline),
        names.PROGRESS_OFFSET: timeline.end // MICROSECOND,
        names.STREAM_OUTCOME: timeline.outcome.value,
        names.STREAM_END: timeline.end // MICROSECOND,
    }
