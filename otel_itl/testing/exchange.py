"""What happened in one exchange, as the server saw it: the truth that a client's measurements are held against."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ._grpc import decode_request
from .script import Event, Kind, Wire

_POLL_SECONDS: Final = 0.005
"""Between two looks at what is waited for: seldom enough to leave the sender of the events alone."""


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


@dataclass(slots=True)
class Progress:
    """How far the answer to a request has come."""

    status: int | None = None
    headers_ns: int | None = None
    sent: list[Sent] = field(default_factory=list)
    ended_ns: int | None = None
    closed_early: bool = False
    error: str | None = None


@dataclass(eq=False, repr=False)
class Received:
    """A request as it came over the wire."""

    method: str
    """`POST` or `GET`."""
    path: str
    """The request's path with its query."""
    headers: Mapping[str, str]
    """The request's headers, their names in lower case."""
    body: bytes
    """The request's body, byte for byte."""
    arrived_ns: int
    """When the last byte of the request was there. The script's schedule counts from here."""


@dataclass(eq=False, repr=False)
class Exchange(Received):
    """A request and its answer. Readable at any time, also while the answer is being sent. Servers make these."""

    number: int
    """0 for the first exchange of the server, and so on."""
    connection: int
    """The number of the TCP connection, 0 for the server's first."""
    reused: bool
    """Whether the connection had carried a request before."""
    wire: Wire | None
    """The wire format that the path asked for; None for a path that the server does not know."""
    model: str | None
    """The model that the request asked for, in its body or in its path; None: none."""
    ask: Callable[..., Any] | None = None
    """Calls a method of the server's record, by its name; None: `last` is kept up to date."""
    last: Progress = field(default_factory=Progress)
    """The progress that was seen last: it stays readable when the server has ended."""

    def __repr__(self) -> str:
        """Show what distinguishes exchanges."""
        progress = self.progress
        state = "done" if progress.ended_ns is not None else "open"
        return f"<Exchange {self.number} {self.method} {self.path} {progress.status} sent={len(progress.sent)} {state}>"

    @property
    def progress(self) -> Progress:
        """How far the answer has come."""
        if self.last.ended_ns is None and self.ask is not None:
            self.last = self.ask("progress", self.number) or self.last
        return self.last

    @property
    def json(self) -> Any:
        """The request's body, decoded; of a gRPC request the message, by the names of its fields.

        Raises:
            ValueError: it is not JSON, or no such message.

        """
        return decode_body(self.wire, self.body)

    @property
    def status(self) -> int | None:
        """The HTTP status sent; None before that."""
        return self.progress.status

    @property
    def headers_ns(self) -> int | None:
        """Taken immediately before the write of the response headers; None before that."""
        return self.progress.headers_ns

    @property
    def sent(self) -> list[Sent]:
        """The events sent so far. An event is here before the client can have all of it."""
        return list(self.progress.sent)

    @property
    def closed_early(self) -> bool:
        """Whether the client left before everything was sent."""
        return self.progress.closed_early

    @property
    def error(self) -> str | None:
        """Why the script was not played, in one sentence; None when it was."""
        return self.progress.error

    @property
    def ended_ns(self) -> int | None:
        """When the exchange ended; None while it lasts."""
        return self.progress.ended_ns

    @property
    def done(self) -> bool:
        """Whether the exchange has ended, one way or another."""
        return self.ended_ns is not None

    @property
    def output_times_ns(self) -> list[int]:
        """When each output event was sent (its last byte), in order."""
        return [sent.complete_ns for sent in self.progress.sent if sent.output]

    @property
    def first_output_ns(self) -> int | None:
        """When the first output event was sent (its last byte); None without one."""
        return next(iter(self.output_times_ns), None)

    def wait_done(self, timeout: float | None = 5.0) -> Exchange:
        """Wait until the exchange has ended, and return it.

        Raises:
            TimeoutError: it lasts longer than `timeout` seconds.

        """
        ask = self.ask
        if ask is not None and not wait_for(lambda: bool(ask("has_ended", self.number)), timeout):
            raise TimeoutError(f"{self!r} was not done after {timeout} s")
        return self


class Record:
    """The exchanges of a server. Its engine is one; what it leaves when it stops is one of plain data."""

    def __init__(self) -> None:
        self.by_number: dict[int, Exchange] = {}

    def ask(self, method: str, *arguments: object) -> Any:
        """Call a method, and return what it returns."""
        return getattr(self, method)(*arguments)

    def exchanges(self) -> list[Exchange]:
        """Return the exchanges so far, in order of arrival."""
        return list(self.by_number.values())

    def count(self) -> int:
        """Return how many exchanges there are so far."""
        return len(self.by_number)

    def progress(self, number: int) -> Progress | None:
        """Return how far the answer to request `number` has come; None where it was cleared."""
        exchange = self.by_number.get(number)
        return None if exchange is None else exchange.last

    def has_ended(self, number: int) -> bool:
        """Return whether the exchange has ended, or was cleared."""
        progress = self.progress(number)
        return progress is None or progress.ended_ns is not None


def decode_body(wire: Wire | None, body: bytes) -> Any:
    """Decode the body of a request, which is JSON; that of a gRPC request is the message, by the names of its fields.

    Raises:
        ValueError: it is not JSON, or no such message.
    """
    return decode_request(body) if wire == "xai" else json.loads(body)


def wait_for(condition: Callable[[], bool], timeout: float | None) -> bool:
    """Wait up to `timeout` seconds (None: for ever) until a condition holds; returns whether it does."""
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
