"""The SDKs that Speakeasy generates: calls that return a stream object, which iterates over a generator of its own.

A call returns a stream, or a raw response whose `parse()` makes one later: the recorder is found by the HTTP response.
What a stream iterates over is exchanged where the stream is made, so that the caller keeps the genuine object.
"""

from __future__ import annotations

from collections.abc import Iterator

from otel_itl.sdks.driver import Call, Driver, ResultHook, iterate_recorded
from otel_itl.sdks.patching import Hook


def stream_hooks(module: str, *names: str) -> Iterator[Hook]:
    """Make the hooks of the constructors of stream classes, in a module that such an SDK imports when it needs it."""
    for name in names:
        yield ResultHook(module, f"{name}.__init__", _record, is_imported_late=True)


def _record(driver: Driver, construction: Call, _: None) -> None:
    """Record the stream that was constructed, where the request of its response is recorded."""
    stream = construction.instance
    recorder = driver.find_recorder(stream.response)
    if recorder is not None:
        recorder.set_holder(stream)
        stream.generator = iterate_recorded(stream.generator, recorder)
