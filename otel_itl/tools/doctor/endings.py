"""Counts how the streams of this process end, and reports those that failed or ended without a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from otel_itl.config import Config
from otel_itl.core.stream import FinishedStream
from otel_itl.core.timeline import Outcome
from otel_itl.export.pipeline import Pipeline
from otel_itl.export.providers import Providers
from otel_itl.export.stream_report import SpanHandle
from otel_itl.runtime import runtime
from otel_itl.tools.doctor.finding import Check, State
from otel_itl.tools.report.render.number_format import pluralize

NO_TOKEN: Final = "no token"
"""What stands for an error where a stream broke off without one, before its first token."""


class StreamEndings:
    """How many streams have ended, those of tests aside, and how many of them failed, by error."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: no stream has ended."""
        self.total = 0
        self.failed: Counter[str] = Counter()

    def watch(self) -> None:
        """Count every stream of this process from now on."""
        connect = runtime.connection.connect

        def connect_and_watch(config: Config, providers: Providers, former: Pipeline | None) -> Pipeline:
            """Have the pipeline that is made count what it gets."""
            pipeline = connect(config, providers, former)
            if pipeline is not former:
                pipeline.compute = partial(self._count_and_compute, pipeline.compute)  # type: ignore[method-assign]
            return pipeline

        runtime.connection.connect = connect_and_watch  # type: ignore[method-assign,assignment]

    def _count_and_compute(
        self, compute: Callable[[SpanHandle, FinishedStream], None], handle: SpanHandle, finished: FinishedStream
    ) -> None:
        """Count a stream, and have its report computed."""
        if handle.report is None:
            self._count(finished)
        compute(handle, finished)

    def _count(self, finished: FinishedStream) -> None:
        """Count a stream, unless it is a test."""
        if finished.request.is_test:
            return
        self.total += 1
        timeline = finished.timeline
        if timeline.outcome is Outcome.ERROR:
            self.failed[finished.error_type or "error"] += 1
        elif timeline.outcome is Outcome.TRUNCATED and timeline.output_bounds[0] < 0:
            self.failed[NO_TOKEN] += 1


def check_endings(noted: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Yield the finding on the streams of all processes that failed: wrong where none succeeded.

    Args:
        noted: what the processes noted; of each, what it noted last counts.
    """
    last = {note["pid"]: note for note in noted if "ended" in note}
    total = sum(note["ended"] for note in last.values())
    failed = sum((Counter(note["failed"]) for note in last.values()), Counter[str]())
    if not failed:
        return
    errors = ", ".join(f"{error} ({count})" for error, count in failed.most_common())
    finding = f"{failed.total()} of {pluralize(total, 'stream')} failed or ended without a token: {errors}"
    if failed.total() < total:
        yield Check("streams", "ended", State.NOTE, finding)
    else:
        remedy = "check the base URL and the key that the SDK is given, and have the program log the errors it catches"
        yield Check("streams", "ended", State.WRONG, finding, remedy)
