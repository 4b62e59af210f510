"""What happened in one exchange, as the server saw it: the truth that a client's measurements are held against."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._grpc import decode_request
from .script import Event, Kind, Wire


@dataclass(slots=True)
class Sent:
    """One event that was sent. Times are `time.perf_counter_ns()` readings."""

    step: int
    """Its place in the script."""
    event: Event
    due_ns: int = 0
    """When the script wanted it sent."""
    at_ns: int = 0
    """Taken immediately before the write of its first byte."""
    complete_ns: int = 0
    """Taken immediately before the write of its last byte: `at_ns`, unless it was written in pieces."""

    @property
    def kind(self) -> Kind:
        """The kind of the event."""
        return self.event.kind

    @property
    def output(self) -> bool:
        """Whether the event carries output of the model."""
        return self.event.output


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as it arrived."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    arrived_ns: int
    connection: int
    reused: bool
    wire: Wire | None


@dataclass(slots=True)
class Progress:
    """How far the answer to a request has come."""

    status: int | None = None
    headers_ns: int | None = None
    sent: list[Sent] = field(default_factory=list)
    ended_ns: int | None = None
    closed_early: bool = False
    error: str | None = None


class Exchange:
    """A request and its answer. Readable at any time, also while the answer is being sent."""

    def __init__(
        self, request: Request, progress: Callable[[], Progress], wait: Callable[[float | None], bool]
    ) -> None:
        """Make the view of an exchange; servers do this, and `ScriptedServer.exchanges` has the result."""
        self._request = request
        self._progress = progress
        self._wait = wait

    def __repr__(self) -> str:
        """Show what distinguishes exchanges."""
        progress = self._progress()
        state = "done" if progress.ended_ns is not None else "open"
        return f"<Exchange {self.number} {self.method} {self.path} {progress.status} sent={len(progress.sent)} {state}>"

    @property
    def number(self) -> int:
        """0 for the first exchange of the server, and so on."""
        return self._request.number

    @property
    def method(self) -> str:
        """`POST` or `GET`."""
        return self._request.method

    @property
    def path(self) -> str:
        """The request's path with its query."""
        return self._request.path

    @property
    def headers(self) -> Mapping[str, str]:
        """The request's headers, their names in lower case."""
        return self._request.headers

    @property
    def body(self) -> bytes:
        """The request's body, byte for byte."""
        return self._request.body

    @property
    def json(self) -> Any:
        """The request's body, decoded; of a gRPC request the message, by the names of its fields.

        Raises:
            ValueError: it is not JSON, or no such message.

        """
        if self.wire == "xai":
            return decode_request(self._request.body)
        return json.loads(self._request.body)

    @property
    def wire(self) -> Wire | None:
        """The wire format that the path asked for; None for a path that the server does not know."""
        return self._request.wire

    @property
    def arrived_ns(self) -> int:
        """When the last byte of the request was there. The script's schedule counts from here."""
        return self._request.arrived_ns

    @property
    def connection(self) -> int:
        """The number of the TCP connection, 0 for the server's first."""
        return self._request.connection

    @property
    def reused(self) -> bool:
        """Whether the connection had carried a request before."""
        return self._request.reused

    @property
    def status(self) -> int | None:
        """The HTTP status sent; None before that."""
        return self._progress().status

    @property
    def headers_ns(self) -> int | None:
        """Taken immediately before the write of the response headers; None before that."""
        return self._progress().headers_ns

    @property
    def sent(self) -> list[Sent]:
        """The events sent so far. An event is here before the client can have all of it."""
        return list(self._progress().sent)

    @property
    def closed_early(self) -> bool:
        """Whether the client left before everything was sent."""
        return self._progress().closed_early

    @property
    def error(self) -> str | None:
        """Why the script was not played, in one sentence; None when it was."""
        return self._progress().error

    @property
    def done(self) -> bool:
        """Whether the exchange has ended, one way or another."""
        return self._progress().ended_ns is not None

    @property
    def ended_ns(self) -> int | None:
        """When the exchange ended; None while it lasts."""
        return self._progress().ended_ns

    @property
    def first_output_ns(self) -> int | None:
        """When the first output event was sent (its last byte); None without one."""
        return next((sent.complete_ns for sent in self._progress().sent if sent.output), None)

    @property
    def output_times_ns(self) -> list[int]:
        """When each output event was sent (its last byte), in order."""
        return [sent.complete_ns for sent in self._progress().sent if sent.output]

    def wait_done(self, timeout: float | None = 5.0) -> Exchange:
        """Wait until the exchange has ended, and return it.

        Raises:
            TimeoutError: it lasts longer than `timeout` seconds.

        """
        if not self._wait(timeout):
            raise TimeoutError(f"{self!r} was not done after {timeout} s")
        return self
