"""What an SDK's adapter needs of the outside: to open a stream's recording, and to make its span current."""

from __future__ import annotations

from typing import Any, Protocol

from otel_itl.config import SessionFrom
from otel_itl.core.request import Request
from otel_itl.recording.recorder import Classify, StreamRecorder


class Recorder(Protocol):
    """Opens recordings; implemented where spans and metrics are."""

    @property
    def session_from(self) -> SessionFrom | None:
        """Where a request says which session it belongs to; None: nowhere."""
        ...

    def open(self, request: Request, classify: Classify) -> StreamRecorder | None:
        """Begin the recording of a request; None where it is not to be measured (suppressed)."""
        ...

    def attach(self, probe: StreamRecorder) -> Any:
        """Make the span of the request current; returns what `detach` takes."""
        ...

    def detach(self, context: Any) -> None:
        """Give back the context of the caller."""
        ...
