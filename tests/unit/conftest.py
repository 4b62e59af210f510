"""Recordings without a network: a clock that moves when a test moves it, and threads that never make a round."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from otel_itl.core.request import Request
from otel_itl.core.stream import FinishedStream, ResponseInfo
from otel_itl.core.timeline import Timeline
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.evidence.of_process import ProcessEvidence
from otel_itl.recording.finalizer import Finalizer
from otel_itl.recording.finished import build_timeline
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.open_streams import OpenStreams
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.watchdog import Watchdog
from otel_itl.testing import FakeClock

WALL = 1_700_000_000_000_000_000
REQUEST = Request(operation="chat", provider="openai", model="m")
NEVER_SECONDS = 3_600.0


@dataclass(frozen=True)
class Chunk:
    """A chunk of no SDK, which holds its own code."""

    code: int = 2
    text: str = ""


def classify(chunk: Any, response: ResponseInfo) -> int:
    """Return the code of a `Chunk`; the text `done` is a terminator."""
    if chunk.text == "done":
        response.is_terminated = True
    code: int = chunk.code
    return code


class Machinery:
    """What a `Runtime` owns while streams are open, on a clock of the test's own. It touches no global."""

    def __init__(self, clock: FakeClock | None = None, interval: float = NEVER_SECONDS) -> None:
        self.clock = FakeClock() if clock is None else clock
        self.errors = InternalErrors()
        self.open_streams = OpenStreams(self.clock)
        self.evidence = ProcessEvidence(self.errors, self.clock)
        self.sections = CriticalSections()
        self.watchdog = Watchdog(
            self.open_streams, self.errors, self.sections, self.clock, evidence=self.evidence, interval=interval
        )
        self.finalizer = Finalizer(self.open_streams, self.errors, self.sections, interval=interval)

    def open(
        self,
        on_finished: Callable[[FinishedStream], None] = lambda finished: None,
        classify: Callable[[Any, ResponseInfo], int] = classify,
        request: Request = REQUEST,
        *,
        may_be_deferred: bool = False,
    ) -> StreamRecorder:
        """Open a recording: its request is made now."""
        recorder = StreamRecorder(
            request,
            classify,
            self.finalizer,
            self.evidence,
            unix_ns=WALL,
            requested=self.clock(),
            clock=self.clock,
        )
        recorder.report_to(on_finished, lambda: None, None, may_be_deferred=may_be_deferred)
        self.open_streams.add(recorder)
        return recorder


@dataclass
class Recording:
    """A stream that is being recorded, and what was reported of it."""

    machinery: Machinery
    recorder: StreamRecorder
    finished: list[FinishedStream] = field(default_factory=list)

    @property
    def clock(self) -> FakeClock:
        """The clock of the recording."""
        return self.machinery.clock

    @property
    def timeline(self) -> Timeline:
        """The timeline of the one report that there is to be."""
        (finished,) = self.finished
        return finished.timeline

    @property
    def timeline_so_far(self) -> Timeline:
        """The timeline of the chunks that were recorded, reported or not."""
        return build_timeline(self.recorder)

    @property
    def outcome(self) -> str:
        """The outcome that was reported; `open` where none was."""
        self.machinery.finalizer.finalize_pending()
        return self.timeline.outcome.value if self.finished else "open"

    def chunk_after(self, wait_ms: float, code: int = 2) -> None:
        """Record a chunk that is asked for now and arrives that number of milliseconds later."""
        log = self.recorder.log
        log.asked.append(self.clock())
        self.clock.advance(wait_ms / 1e3)
        log.arrived.append(self.clock())
        log.codes.append(code)


@pytest.fixture
def machinery() -> Machinery:
    """The machinery of this test's own; its threads sleep, so that rounds are made when the test makes them."""
    return Machinery()


@pytest.fixture
def brisk() -> Machinery:
    """The machinery of this test's own, whose threads make their rounds at once."""
    return Machinery(interval=0.005)


@pytest.fixture
def record() -> Callable[..., Recording]:
    """Open a recording of its own machinery: the request is made now, at 1 s on its clock."""

    def opened(**options: Any) -> Recording:
        machinery = Machinery()
        finished: list[FinishedStream] = []
        return Recording(machinery, machinery.open(finished.append, **options), finished)

    return opened


@pytest.fixture
def chunk() -> type[Chunk]:
    """The class of chunks that a recording classifies."""
    return Chunk


@pytest.fixture
def unraisable() -> Iterator[list[Any]]:
    """What was raised where nothing could catch it."""
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", seen.append)
        yield seen
