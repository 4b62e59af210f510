"""Looks at the streams that run every few tenths of a second, and hands over the chunks since the last look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Final
from weakref import ref

from otel_itl.core.conventions import Where
from otel_itl.core.progress import Progress
from otel_itl.core.timeline import SECOND
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.periodic_thread import PeriodicThread
from otel_itl.recording.recorder import StreamRecorder

MAX_CHUNKS_PER_LOOK: Final = 1_024
"""Chunks of one event; what is left follows with the next look, and the span has all of them anyway."""
MAX_LOOKS_PER_ROUND: Final = 512
"""Streams of one round; the others come with the next one."""
MAX_FOLLOWED: Final = 4_096
"""Streams that are followed; further ones are seen when they end."""
QUIET_NS: Final = SECOND
"""A stream without a new chunk gets an event this often, which shows that its process is alive."""

Emit = Callable[[Progress], None]


@dataclass(slots=True)
class _Followed:
    """A stream that runs, held weakly."""

    recorder: ref[StreamRecorder]
    emit: Emit
    chunks: int = 0
    """Chunks that were handed over."""
    emitted: int | None = None
    """When the last event was handed over (ns); None: none was."""


class ProgressRounds:
    """Follows the streams that run, in a thread of its own: a log processor that blocks delays nothing but progress.

    A stream that flows appends to its arrays as ever; the rounds read what is there. It is off until `follow` is called
    for a stream.

    Args:
        errors: where failures of our own are reported.
        sections: the critical sections of the process.
        clock: a monotonic clock in nanoseconds.
    """

    def __init__(
        self, errors: InternalErrors, sections: CriticalSections, clock: Callable[[], int] = perf_counter_ns
    ) -> None:
        self.errors = errors
        self._clock = clock
        self.thread = PeriodicThread(
            "otel_itl progress",
            0.25,
            make_round=self._make_round,
            has_work=self._has_work,
            errors=errors,
            sections=sections,
        )
        self.forget_after_fork()

    def forget_after_fork(self) -> None:
        """Drop the parent's streams and its thread."""
        self._followed: dict[int, _Followed] = {}
        self.thread.forget_after_fork()

    def follow(self, recorder: StreamRecorder, emit: Emit, interval: float) -> None:
        """Follow a stream that has been registered, until it ends.

        Args:
            recorder: of the stream; it is held weakly.
            emit: takes the chunks since the last look.
            interval: seconds between two looks, for all streams.
        """
        if len(self._followed) < MAX_FOLLOWED:
            self._followed[recorder.key] = _Followed(ref(recorder), emit)
            self.thread.interval = interval
            self.thread.wake()

    @never_raises(Where.STREAM_PROGRESS, None)
    def make_round(self, now: int) -> None:
        """Look at each stream that is followed, at `now` (ns), and drop those that have ended."""
        for key in list(self._followed)[:MAX_LOOKS_PER_ROUND]:
            followed = self._followed.pop(key)
            recorder = followed.recorder()
            if recorder is None or recorder.is_over:
                continue
            self._followed[key] = followed  # behind the others: each has its turn
            progress = _look(recorder, followed.chunks, now)
            is_quiet = followed.emitted is not None and now - followed.emitted < QUIET_NS
            if progress.arrived or not is_quiet:
                followed.chunks += len(progress.arrived)
                followed.emitted = now
                self._emit(followed.emit, progress)

    def _make_round(self) -> float | None:
        self.make_round(self._clock())
        return self.thread.interval if self._followed else None

    def _has_work(self) -> bool:
        return bool(self._followed)

    def _emit(self, emit: Emit, progress: Progress) -> None:
        try:
            emit(progress)
        except Exception as error:  # noqa: BLE001 - the guard: one stream keeps no other from being shown
            self.errors.report(Where.STREAM_PROGRESS, error)


def _look(recorder: StreamRecorder, since: int, now: int) -> Progress:
    """Return the chunks of a stream from index `since` on. The code of a chunk is appended last."""
    log, requested = recorder.log, recorder.requested
    until = min(len(log.codes), since + MAX_CHUNKS_PER_LOOK)
    is_pulling = len(log.asked) > len(log.codes)
    last_asked = log.asked[-1:]  # empty where the stream has just been reported
    headers = recorder.headers
    return Progress(
        request_unix_ns=recorder.unix_ns,
        first=since,
        asked=[moment - requested for moment in log.asked[since:until]],
        arrived=[moment - requested for moment in log.arrived[since:until]],
        codes=log.codes[since:until].tolist(),
        headers=None if headers is None else headers - requested,
        looked=now - requested,
        waited=max(now - last_asked[0], 0) if is_pulling and last_asked else None,
    )
