"""The SDKs that Speakeasy generates: calls that return a stream object, which iterates over a generator of its own.

A call returns a stream, or a raw response whose `parse()` makes one later: the recorder is found by the HTTP response.
What a stream iterates over is exchanged where the stream is made, so that the caller keeps the genuine object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from otel_itl.core.conventions import Where
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.response_body import watch_body
from otel_itl.sdks.driver import Driver, StreamingCall, iterate_recorded
from otel_itl.sdks.http_clients import find_response, make_aborter
from otel_itl.sdks.patching import Target, Wrapper


@dataclass(frozen=True, slots=True)
class SpeakeasyCalls:
    """The streaming calls of such an SDK, and the stream classes that they return."""

    calls: tuple[StreamingCall, ...]
    modules: tuple[str, ...]
    """The modules of the stream classes."""
    streams: tuple[str, ...]
    """The names of these in each module, such as `Stream` and `AsyncStream`."""
    is_imported_late: bool = False
    """The SDK imports the module when it first needs it, or has it in some releases only."""

    def targets(self, driver: Driver) -> tuple[Target, ...]:
        """Return what is patched: the calls, and the constructors of the stream classes."""
        bind = partial(_bind_to_response, driver)
        constructor = _recording(driver)
        return (
            *(driver.target(replace(call, bind=bind)) for call in self.calls),
            *(
                Target(module, f"{name}.__init__", constructor, trigger=module if self.is_imported_late else "")
                for module in self.modules
                for name in self.streams
            ),
        )


def _recording(driver: Driver) -> Wrapper:
    """Make the wrapper of the constructor of a stream class."""
    errors = driver.errors

    def construct(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> None:
        """Construct the stream, and record it where the request of its response is recorded."""
        wrapped(*args, **kwargs)
        try:
            recorder = driver.find_recorder(instance.response)
            if recorder is not None:
                recorder.set_holder(instance)
                instance.generator = iterate_recorded(instance.generator, recorder)
        except Exception as error:  # noqa: BLE001 - the guard
            errors.report(Where.RESPONSE_FOLLOW, error)

    return construct


def _bind_to_response(driver: Driver, result: Any, recorder: StreamRecorder) -> Any:
    """Register the recorder for the HTTP response of a stream or a raw response, and return that unchanged."""
    response = find_response(result)
    recorder.record_headers(None)
    recorder.add_owner(response)
    driver.response_recorders.add(response, recorder)
    aborter = make_aborter(response)
    if aborter is not None:
        recorder.enable_abort(aborter)
    watch_body(response, recorder)
    return result
