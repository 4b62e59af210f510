"""Recordings without a network: a clock that moves when it is told to, and a registry whose sweeper stays out of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from otel_itl.core.request import Request
from otel_itl.core.stream import FinishedStream, ResponseInfo
from otel_itl.core.timeline import Timeline
from otel_itl.recording import internal_errors as fence
from otel_itl.recording.open_streams import OpenStreams
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.testing import FakeClock

WALL = 1_700_000_000_000_000_000
REQUEST = Request(operation="chat", provider="openai", model="m")


@dataclass(frozen=True)
class Chunk:
    """A chunk of no SDK, which says itself what it carries."""

    code: int = 2
    text: str = ""


def classify(chunk: Any, answer: ResponseInfo) -> int:
    """What a `Chunk` says of itself; the text `done` is a terminator."""
    if chunk.text == "done":
        answer.is_terminated = True
    code: int = chunk.code
    return code


@dataclass
class Recording:
    """A stream that is being recorded, and what was reported of it."""

    clock: FakeClock
    registry: OpenStreams
    probe: StreamRecorder
    ended: list[FinishedStream] = field(default_factory=list)

    @property
    def timeline(self) -> Timeline:
        """Of the one report that there is to be."""
        (ended,) = self.ended
        return ended.timeline

    @property
    def outcome(self) -> str:
        """How the stream was reported to have ended; a stream that is open still was not."""
        self.registry.sweep()
        return self.timeline.outcome.value if self.ended else "open"


@pytest.fixture(scope="module")
def registry() -> Iterator[OpenStreams]:
    """A registry of open streams of this module's own; its thread sleeps, so that a test sweeps when it says so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("otel_itl.recording.open_streams.SWEEP_SECONDS", 3_600.0)
        fresh = OpenStreams()
        patch.setattr("otel_itl.recording.recorder.open_streams", fresh)
        yield fresh


@pytest.fixture
def record(registry: OpenStreams) -> Callable[..., Recording]:
    """Open a recording: the request is made now, at 1 s on the clock."""

    def opened(classify: Callable[[Any, ResponseInfo], int] = classify, request: Request = REQUEST) -> Recording:
        clock = FakeClock()
        ended: list[FinishedStream] = []
        probe = StreamRecorder(request, classify, ended.append, unix_ns=WALL, requested=clock(), clock=clock)
        return Recording(clock, registry, probe, ended)

    return opened


@pytest.fixture
def failures() -> Iterator[dict[str, int]]:
    """The failures that were contained in this test, by where they happened."""
    before = dict(fence.failures)
    fence.failures.clear()
    yield fence.failures
    fence.failures.clear()
    fence.failures.update(before)


@pytest.fixture
def chunk() -> type[Chunk]:
    """The class of chunks that a recording classifies."""
    return Chunk


@pytest.fixture
def unraisable() -> Iterator[list[Any]]:
    """What was raised where nobody could catch it."""
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", seen.append)
        yield seen
