"""A call whose recording is opened in another thread than the one in which it fails."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from otel_itl.core.request import Request
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.sdks.open_call import Description, Moment, OpenCall


class Recorder:
    """Notes what ended it."""

    def __init__(self) -> None:
        self.ended_by: list[BaseException] = []
        self.span_handle = SimpleNamespace(context=None)

    def name_errors_by(self, name_error: Any) -> None:
        pass

    def end_failed(self, error: BaseException) -> None:
        self.ended_by.append(error)


def make_call(open_recording: Any) -> OpenCall:
    """A call whose recording waits for the SDK's own span."""
    opener: Any = SimpleNamespace(errors=InternalErrors(), open=open_recording, read_clocks=lambda: Moment(0, 0))
    description = Description(Request(operation="chat", provider="p"), lambda *_: 0, awaits_sdk_span=True)
    call = OpenCall(description, opener, has_inner_layer=False)
    assert call.begin()
    return call


def test_a_call_that_is_cancelled_while_its_recording_is_being_opened_ends_it() -> None:
    recorder, error = Recorder(), asyncio.CancelledError()

    def open_recording(*_: Any, **__: Any) -> Recorder:
        call._fail(error)  # in the task, meanwhile
        return recorder

    call = make_call(open_recording)
    call.open_recording(SimpleNamespace(is_recording=lambda: True))
    assert recorder.ended_by == [error]


def test_a_call_that_fails_before_its_recording_is_opened_opens_and_ends_it() -> None:
    recorder, error = Recorder(), OSError()
    make_call(lambda *_, **__: recorder)._fail(error)
    assert recorder.ended_by == [error]


def test_a_call_that_has_failed_keeps_no_error() -> None:
    call = make_call(lambda *_, **__: Recorder())
    call._fail(OSError())
    assert call._error is None
