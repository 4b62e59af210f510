"""Abort a stream from another thread: shut down the connection under it, so that its reader gets a timeout error."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from asyncio import CancelledError, current_task
from collections.abc import Callable
from typing import Any, Protocol
from weakref import ref

from otel_itl.core.conventions import Where
from otel_itl.recording.evidence.connection import Source, make_source, not_known
from otel_itl.recording.internal_errors import InternalErrors


class Aborter(Protocol):
    """How to end the wait of a stream's reader. Called from any thread."""

    def shut_down(self) -> bool:
        """End the wait; returns False where the connection serves other streams, or cannot be reached."""
        ...

    def has_interrupted(self, error: BaseException) -> bool:
        """Return whether what interrupted the reader's wait, which is no `Exception`, is the effect of the abort."""
        ...

    def make_error(self, message: str) -> BaseException:
        """Make the exception that the reader gets in place of a broken connection."""
        ...


def shut_down_socket(descriptor: int) -> None:
    """Shut a TCP socket down: its reader gets what was received already, then the end of the data."""
    # Through a second descriptor: a TLS socket that is shut down itself stops decrypting for its reader.
    with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as same:
        same.shutdown(socket.SHUT_RDWR)


class SocketAborter(ABC):
    """Aborts a stream that is read over a connection of its own, by shutting down the connection's socket."""

    __slots__ = ()

    @property
    def is_shared(self) -> bool:
        """Whether other streams are read from the connection as well: then it is not shut down."""
        return False

    @property
    def shared_body(self) -> Any:
        """The body of a response that is read from a shared connection, as its HTTP client holds it; None: of none."""
        return None

    @abstractmethod
    def find_source(self) -> Source | None:
        """Return what the stream is read from; None where it cannot be reached."""

    def shut_down(self) -> bool:
        """Shut the socket down; returns False where it is shared, or cannot be reached."""
        if self.is_shared:
            return False
        source = self.find_source()
        if source is None:
            return False
        shut_down_socket(source.socket.fileno())
        return True

    def has_interrupted(self, _: BaseException) -> bool:
        """Return False: a reader of a socket gets an `Exception`."""
        return False


class HTTPAborter(SocketAborter):
    """Aborts a stream that httpx, httpx2, requests or aiohttp reads over an HTTP/1.x connection of its own.

    Args:
        response: the HTTP response, held weakly.
        request: the HTTP request, for the error.
        make_error: makes the SDK's own timeout error, from the HTTP request and a message.
    """

    __slots__ = ("_make_error", "_request", "_response")

    def __init__(self, response: Any, request: Any, make_error: Callable[[Any, str], Exception]) -> None:
        self._response = ref(response)
        self._request = request
        self._make_error = make_error

    @property
    def is_shared(self) -> bool:
        """Whether other streams are read from the connection as well, as over HTTP/2."""
        response: Any = self._response()
        # aiohttp's responses have no such field.
        return not str(getattr(response, "http_version", "HTTP/1.1")).startswith("HTTP/1")

    @property
    def shared_body(self) -> Any:
        """The body of a response over HTTP/2; None over HTTP/1.x."""
        return getattr(self._response(), "stream", None) if self.is_shared else None

    def find_source(self) -> Source | None:
        """Return what the response is read from; None where it cannot be reached."""
        source = _find_source(self._response())
        if source is None:
            return None
        has_read_ahead, find_response = source.is_ready, self._response
        return Source(
            source.socket,
            lambda: getattr(find_response(), "is_closed", False) is True or has_read_ahead(),
        )

    def make_error(self, message: str) -> Exception:
        """Make the SDK's timeout error with this message."""
        return self._make_error(self._request, message)


def _find_source(response: Any) -> Source | None:
    """Return what a response is read from; None where it cannot be reached."""
    stream = getattr(response, "extensions", {}).get("network_stream")
    if stream is not None:
        return make_source(stream)
    response = _find_aiohttp_response(response)
    if hasattr(response, "raw"):  # of requests: urllib3's response, which has the descriptor of its socket
        return Source(response.raw)
    return find_aiohttp_source(response)


def find_aiohttp_source(response: Any) -> Source | None:
    """Return what a response of aiohttp, which is HTTP/1.1 only, is read from; None where it cannot be reached."""
    transport = getattr(getattr(response, "connection", None), "transport", None)
    connected = None if transport is None else transport.get_extra_info("socket")
    if connected is None:
        return None
    body = getattr(response, "content", None)
    return Source(connected, not_known if body is None else lambda: getattr(body, "_size", 0) > 0)


def _find_aiohttp_response(response: Any) -> Any:
    """Return aiohttp's response under one of httpx, whose transport was made to ask by aiohttp; else the response."""
    body = getattr(response, "stream", None)  # httpx puts an object of its own around that of the transport
    for inner in (body, getattr(body, "_stream", None)):
        found = getattr(inner, "_aiohttp_response", None)
        if found is not None:
            return found
    return response


class CallbackAborter:
    """Aborts a stream by a function of the application, which ends the wait of the stream's reader.

    Args:
        end_wait: ends the wait, from any thread; returns False where that is not possible.
    """

    __slots__ = ("_end_wait",)

    def __init__(self, end_wait: Callable[[], object]) -> None:
        self._end_wait = end_wait

    def shut_down(self) -> bool:
        """Call the function."""
        return self._end_wait() is not False

    def has_interrupted(self, error: BaseException) -> bool:
        """Return whether the function has cancelled what the reader awaits, rather than another the reader's task."""
        return is_cancelled_below(error)

    def make_error(self, message: str) -> TimeoutError:
        """Make the error that the reader gets."""
        return TimeoutError(message)


def is_cancelled_below(error: BaseException) -> bool:
    """Return whether this is the cancellation of what the running task awaits, rather than of that task itself.

    Before Python 3.11 tasks do not count their cancellations: every one is taken for that of what is awaited.
    """
    return isinstance(error, CancelledError) and not getattr(current_task(), "cancelling", int)()


class AbortSwitch:
    """Whether a stream can be aborted, is being aborted, and what its reader gets then."""

    __slots__ = ("_aborter", "_errors", "_message")

    def __init__(self, errors: InternalErrors) -> None:
        self._errors = errors
        self._aborter: Aborter | None = None
        self._message: str | None = None

    def enable(self, aborter: Aborter) -> None:
        """Set how the stream is aborted: from here on it can be."""
        self._aborter = aborter

    def abort(self, waited: float | None) -> bool:
        """Abort the stream; returns False where that is not possible. Called from any thread.

        Args:
            waited: seconds that the reader has waited, for the message; None: the caller asked for the abort.
        """
        if self._aborter is None or self._message is not None:
            return False
        after = "" if waited is None else f" after {waited:.1f} s without a token"
        self._message = f"The stream was aborted{after}: it had stalled."
        try:
            is_shut_down = self._aborter.shut_down()
        except Exception as error:  # noqa: BLE001 - the guard
            self._errors.report(Where.STREAM_ABORT, error)
            is_shut_down = False
        if not is_shut_down:
            self._message = None
        return is_shut_down

    @property
    def is_aborting(self) -> bool:
        """Whether the stream is being aborted: its reader is to get an error."""
        return self._message is not None

    def has_interrupted(self, error: BaseException) -> bool:
        """Return whether the abort has interrupted the reader's wait by this, which is no `Exception`."""
        return self._message is not None and self._aborter is not None and self._aborter.has_interrupted(error)

    def take_error(self) -> BaseException | None:
        """Return what the reader gets in place of the broken connection, once; None: the stream was not aborted."""
        if self._message is None or self._aborter is None:
            return None
        message, self._message = self._message, None
        return self._aborter.make_error(message)
