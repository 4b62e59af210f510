"""Connections of the `websockets` package: what is sent and what arrives is shown to a wire, which records responses.

A connection is chosen by the path of its opening handshake. On that one instance `send` and `close` are replaced, and
of its queue what takes the frames as they come in and what lets it be read again: a frame has arrived when it is put
into the queue, whether or not anybody is reading. See docs/adr/0057-a-recorder-that-is-fed.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, NamedTuple, Protocol
from weakref import ref

from otel_itl.core.conventions import Where
from otel_itl.core.timeline import Outcome
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.sdks.driver import Driver
from otel_itl.sdks.patching import Hook
from otel_itl.sdks.weak_methods import bind_weakly

MODULES: Final = ("websockets.asyncio.client", "websockets.sync.client")
CLOSED_NORMALLY: Final = 1000
NOT_CLOSED: Final = 1006
"""The close code of a connection that was lost without one."""
_NO_LOCK: Final = nullcontext()


class Handshake(NamedTuple):
    """What the opening handshake of a connection asked for."""

    url: str
    headers: dict[str, str]


class Asked(Protocol):
    """A response that a message asks for."""

    recorder: StreamRecorder
    is_sent: bool
    """The message was sent: until then, it is the failure to send it that ends the response."""


class Wire(Protocol):
    """Records the responses of one connection. A method that raises is counted, and the connection goes on."""

    def send(self, message: str | bytes) -> Asked | None:
        """Take a message that is about to be sent; returns the response that it asks for, if any."""
        ...

    def receive(self, message: bytes, now: int) -> None:
        """Take a message whose last frame has arrived at `now` (ns)."""
        ...

    def pause(self) -> None:
        """Note that the queue is full: nothing is read from the connection until its consumer has caught up."""
        ...

    def resume(self, now: int) -> None:
        """Note that the connection is read again, from `now` (ns) on."""
        ...

    def end(self, outcome: Outcome, close_code: int) -> None:
        """End the responses that are open. Called when the connection is over, perhaps more than once."""
        ...


MakeWire = Callable[[Driver, Handshake], Wire]


@dataclass(frozen=True, slots=True)
class ConnectionHook(Hook):
    """The opening handshake of the connections whose path matches."""

    paths: re.Pattern[str]
    """Is searched in the path of the request, without its query."""
    make_wire: MakeWire

    def wrap(self, driver: Driver, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """Make the handshake, and follow the connection from there on if it is one of these."""
        result = wrapped(*args, **kwargs)
        if inspect.isawaitable(result):
            return self._await(driver, instance, result)
        self._follow(driver, instance)
        return result

    async def _await(self, driver: Driver, instance: Any, result: Any) -> Any:
        made = await result
        self._follow(driver, instance)
        return made

    def _follow(self, driver: Driver, connection: Any) -> None:
        """Follow a connection whose handshake was made, if its path matches; never raises."""
        try:
            path = connection.request.path
            if not self.paths.search(path.partition("?")[0]):
                return
            protocol = connection.protocol
            uri = getattr(protocol, "uri", None) or protocol.wsuri  # its name before websockets 15
            scheme = "https" if uri.secure else "http"
            host = f"[{uri.host}]" if ":" in uri.host else uri.host
            handshake = Handshake(f"{scheme}://{host}:{uri.port}{path}", dict(connection.request.headers.raw_items()))
            follower = ConnectionFollower(connection, self.make_wire(driver, handshake), driver)
            follower.replace()
            driver.followers.add(ref(follower, driver.followers.discard))
        except Exception as error:  # noqa: BLE001 - the guard
            driver.errors.report(Where.RESPONSE_FOLLOW, error)

    def withdraw(self, driver: Driver) -> None:
        """Give the connections that are open their own functions back."""
        for reference in list(driver.followers):
            follower = reference()
            if follower is not None:
                follower.withdraw()


class ConnectionFollower:
    """Shows one connection to its wire. It is held by the functions on the connection alone, and dies with it.

    Args:
        connection: has made its handshake.
        wire: records its responses.
        driver: shares the clock and the failures of our own.
    """

    def __init__(self, connection: Any, wire: Wire, driver: Driver) -> None:
        self.errors: InternalErrors = driver.errors
        """Where failures of our own are reported."""
        self._connection = ref(connection)
        self._queue = ref(connection.recv_messages)
        self._is_blocking = not hasattr(connection.recv_messages, "paused")
        """The queue takes one message, and blocks until that was read: `websockets.sync` before 14."""
        self._wire = wire
        self._read_clocks = driver.read_clocks
        self._fragments: list[bytes] = []
        self._replaced: list[tuple[ref[Any], str, ref[Any], Any]] = []
        """Object, name, our function in place of its own, and what somebody had put there before: no cycle."""

    # --- What is put on the connection -----------------------------------------------------------------------------

    def replace(self) -> None:
        """Put functions that show what passes in place of the connection's own."""
        connection, queue = self._connection(), self._queue()
        is_async = not hasattr(connection, "close_socket")
        self._put_in_place(connection, "send", self._make_async_send if is_async else self._make_send)
        self._put_in_place(connection, "close", self._make_async_close if is_async else self._make_close)
        self._put_in_place(queue, "put", self._make_blocking_put if self._is_blocking else self._make_put)
        if not self._is_blocking:
            self._put_in_place(queue, "resume", self._make_resume)
        # Where the synchronous client closes its queue, it holds a lock.
        self._put_in_place(*((queue, "close") if is_async else (connection, "close_socket")), self._make_lose)

    def withdraw(self) -> None:
        """Give the connection its own functions back, and abandon what is open on it."""
        self.restore()
        self._end(Outcome.ABANDONED)

    def restore(self) -> None:
        """Give the connection its own functions back: what somebody has put there since stays, and leads here."""
        for owner_ref, name, ours, before in self._replaced:
            owner = owner_ref()
            if owner is None or vars(owner).get(name) is not ours():
                continue
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

    def _put_in_place(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Any]) -> None:
        """Put what `make` makes of a function in its place, on the object alone."""
        before = vars(owner).get(name)
        own = bind_weakly(owner, name) if before is None else before
        ours = wraps(own)(make(own))
        setattr(owner, name, ours)
        self._replaced.append((ref(owner), name, ref(ours), before))

    def _make_send(self, own: Callable[..., Any]) -> Any:
        """Make a `send` that shows the message before it is sent."""

        def send(message: Any, *args: Any, **kwargs: Any) -> Any:
            """Send a message; where that raises, the response that it asks for ends."""
            with _Sending(self, self._send(message)):
                return own(message, *args, **kwargs)

        return send

    def _make_async_send(self, own: Callable[..., Any]) -> Any:
        """Do what `_make_send` does, for the asynchronous client."""

        async def send(message: Any, *args: Any, **kwargs: Any) -> Any:
            """Send a message; where that raises, the response that it asks for ends."""
            asked = self._send(message)
            if asked is not None:
                asked.recorder.follow_running_loop()
            with _Sending(self, asked):
                return await own(message, *args, **kwargs)

        return send

    def _make_close(self, own: Callable[..., Any]) -> Any:
        """Make a `close` that ends what is open, as closed by the caller."""

        def close(*args: Any, **kwargs: Any) -> Any:
            self._end(Outcome.CLOSED)
            return own(*args, **kwargs)

        return close

    def _make_async_close(self, own: Callable[..., Any]) -> Any:
        """Do what `_make_close` does, for the asynchronous client."""

        async def close(*args: Any, **kwargs: Any) -> Any:
            self._end(Outcome.CLOSED)
            return await own(*args, **kwargs)

        return close

    def _make_put(self, own: Callable[..., Any]) -> Any:
        """Make a `put` that shows the frame, and then whether the queue is full."""

        def put(frame: Any) -> Any:
            """Put a frame into the queue."""
            self._receive(frame, self._read_clocks().clock_ns)
            try:
                return own(frame)
            finally:
                self._pause_if_full()

        return put

    def _make_blocking_put(self, own: Callable[..., Any]) -> Any:
        """Make a `put` that shows the frame, for a queue of one message: nothing is read until that was taken."""

        def put(frame: Any) -> Any:
            """Put a frame into the queue, and wait until its message was taken."""
            self._receive(frame, self._read_clocks().clock_ns)
            self._pause()
            try:
                return own(frame)
            finally:
                self._resume()

        return put

    def _make_resume(self, own: Callable[..., Any]) -> Any:
        """Make a `resume` that shows that the connection is read again."""

        def resume() -> Any:
            self._resume()
            return own()

        return resume

    def _make_lose(self, own: Callable[..., Any]) -> Any:
        """Make what ends what is open after the connection was lost."""

        def lose() -> Any:
            """Note that the connection is lost."""
            try:
                return own()
            finally:
                self._end(None)

        return lose

    # --- What passes -----------------------------------------------------------------------------------------------

    @never_raises(Where.STREAM_OPEN, None)
    def _send(self, message: Any) -> Asked | None:
        # What is sent in fragments, from an iterator, is not looked at.
        return self._wire.send(message) if isinstance(message, (str, bytes)) else None

    @never_raises(Where.STREAM_END, None)
    def note_sent(self, asked: Asked) -> None:
        """Note that the message that asks for a response was sent."""
        asked.is_sent = True
        connection = self._connection()
        if connection is None or connection.protocol.state.name == "CLOSED":  # lost meanwhile
            self._end(None)

    @never_raises(Where.CHUNK_CLASSIFY, None)
    def _receive(self, frame: Any, now: int) -> None:
        """Take a frame that has arrived at `now` (ns), and show the message that it completes."""
        data = bytes(frame.data)
        if not frame.fin or self._fragments:
            self._fragments.append(data)
            if not frame.fin:
                return
            data = b"".join(self._fragments)
            self._fragments.clear()
        self._wire.receive(data, now)

    @never_raises(Where.STREAM_READ, None)
    def _pause_if_full(self) -> None:
        """Note that nothing is read any more, if the queue is full."""
        queue = self._queue()
        if queue is not None and queue.paused:
            with getattr(queue, "mutex", _NO_LOCK):  # in which the synchronous client resumes
                if queue.paused:
                    self._wire.pause()

    @never_raises(Where.STREAM_READ, None)
    def _pause(self) -> None:
        self._wire.pause()

    @never_raises(Where.STREAM_READ, None)
    def _resume(self) -> None:
        self._wire.resume(self._read_clocks().clock_ns)

    @never_raises(Where.STREAM_END, None)
    def _end(self, outcome: Outcome | None) -> None:
        """End what is open with an outcome; None: the connection was lost."""
        connection = self._connection()
        code = None if connection is None else connection.protocol.close_code
        if outcome is None:
            outcome = Outcome.TRUNCATED if code == CLOSED_NORMALLY else Outcome.ERROR
        self._wire.end(outcome, NOT_CLOSED if code is None else code)


class _Sending:
    """The time in which a message is sent: where that raises, the response that it asks for ends."""

    def __init__(self, follower: ConnectionFollower, asked: Asked | None) -> None:
        self._follower, self._asked = follower, asked

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._asked is None:
            return
        if error is None:
            self._follower.note_sent(self._asked)
        else:
            self._asked.recorder.end_failed(error)


def connection_hooks(paths: str, make_wire: MakeWire) -> Iterator[ConnectionHook]:
    """Yield the hooks that follow the connections whose path matches a regular expression."""
    pattern = re.compile(paths)
    for module in MODULES:
        yield ConnectionHook(
            module, "ClientConnection.handshake", pattern, make_wire, is_imported_late=True, is_optional=True
        )
