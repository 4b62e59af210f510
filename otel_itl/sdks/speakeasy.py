"""The SDKs that Speakeasy generates: calls that return a stream object, which iterates over a generator of its own.

A call returns a stream, or a raw response whose `parse()` makes one later: the recorder is found by the HTTP response.
What a stream iterates over is exchanged where the stream is made, so that the caller keeps the genuine object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.response_body import watch_body
from otel_itl.sdks.driver import Call, Driver, StreamingCall, iterate_recorded
from otel_itl.sdks.http_clients import enable_abort, find_response
from otel_itl.sdks.patching import Target


@dataclass(frozen=True, slots=True)
class SpeakeasyCalls:
    """The streaming calls of such an SDK, and the stream classes that they return."""

    calls: tuple[StreamingCall, ...]
    modules: tuple[str, ...]
    """The modules of the stream classes, which such an SDK imports when it first needs them."""
    streams: tuple[str, ...]
    """The names of these in each module, such as `Stream` and `AsyncStream`."""

    def targets(self, driver: Driver) -> tuple[Target, ...]:
        """Return what is patched: the calls, and the constructors of the stream classes."""
        bind = partial(_bind_to_response, driver)
        record = partial(_record, driver)
        return (
            *(driver.target(replace(call, bind=bind)) for call in self.calls),
            *(
                driver.result_target(module, f"{name}.__init__", record, trigger=module)
                for module in self.modules
                for name in self.streams
            ),
        )


def _record(driver: Driver, construction: Call, _: None) -> None:
    """Record the stream that was constructed, where the request of its response is recorded."""
    stream = construction.instance
    recorder = driver.find_recorder(stream.response)
    if recorder is not None:
        recorder.set_holder(stream)
        stream.generator = iterate_recorded(stream.generator, recorder)


def _bind_to_response(driver: Driver, result: Any, recorder: StreamRecorder) -> Any:
    """Register the recorder for the HTTP response of a stream or a raw response, and return that unchanged."""
    response = find_response(result)
    recorder.record_headers(None)
    recorder.add_owner(response)
    driver.response_recorders.add(response, recorder)
    enable_abort(recorder, response)
    watch_body(response, recorder)
    return result
