"""The family of SDKs that Stainless generates: one base client and one stream class, hooked the same way in each.

A member of the family is a table (its package, oldest version, routes) and a `classify` for each kind of chunk.

`request()` of the base client is where every streaming call passes, whatever helper made it: the probe begins there.
`__stream__()` is the generator that every stream object iterates over: it is timed there, so that the caller keeps the
genuine stream. Between the two the probe travels on the HTTP response. `_iter_events()` sees what the SDK swallows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from otel_itl.config import SessionFrom
from otel_itl.conventions import provider_of
from otel_itl.core.stream import Request
from otel_itl.recording.abort import Connection
from otel_itl.recording.internal_errors import never_raises, report_error
from otel_itl.recording.opener import Recorder
from otel_itl.recording.recorder import Classify, Owner, StreamRecorder, owner_of
from otel_itl.recording.stream_iterators import AsyncTapped, Body, record_async_iterator, record_iterator, tapped
from otel_itl.sdks.patching import Target, Wrapper
from otel_itl.sdks.values import request_parameters, short_str

PROBE: Final = "otel_itl.probe"
"""Key of a response's `extensions` that holds its probe."""

_RETRY_COUNT = "x-stainless-retry-count"
_opening: ContextVar[list[StreamRecorder] | None] = ContextVar("otel_itl_opening", default=None)
"""The probe of the request that is being made: some SDKs make the stream before anyone holds its response. In a list
that is emptied afterwards, because whatever the HTTP client starts meanwhile keeps a copy of the context."""


@dataclass(frozen=True, slots=True)
class Route:
    """One streaming endpoint: its path (`*` stands for one segment), what it does, and how to read its chunks."""

    path: str
    operation: str
    classify: Classify
    method: str = "post"

    def serves(self, method: str, path: str) -> bool:
        """Whether a request goes here, under whatever prefix."""
        pattern = self.path.split("/")
        segments = path.partition("?")[0].split("/")[-len(pattern) :]
        return (
            method.lower() == self.method
            and all(wanted in {"*", segment} for wanted, segment in zip(pattern, segments, strict=False))
            and len(segments) == len(pattern)
        )


class SwallowedEvent(NamedTuple):
    """A server-sent event that the SDK swallows: a field of it, the value that gives it away, and what it means."""

    field: str
    value: str
    signal: Callable[[StreamRecorder], None]
    last: bool = False
    """It is the last event of a stream, so that it is early enough to look for it then."""


@dataclass(frozen=True, slots=True)
class Member:
    """One SDK of the family."""

    package: str
    provider: str
    oldest: tuple[int, ...]
    routes: tuple[Route, ...]
    marker: SwallowedEvent
    clients: Mapping[str, str] = field(default_factory=dict)
    """Class of the clients of another provider → that provider, for hosts that do not tell."""

    def describe(
        self, client: Any, options: Any, session_from: SessionFrom | None = None
    ) -> tuple[Request, Classify] | None:
        """What a request asks of whom, and how to read its chunks; None for what is no inference."""
        path = str(options.url)
        route = _route(self.routes, options.method, path)
        if route is None:
            return None
        body = {**_mapping(options.json_data), **_mapping(getattr(options, "extra_json", None))}
        base_url = client.base_url
        if "://" in path:  # together asks another host than that of the client, unless the client was given one
            base_url = base_url.join(path)
        request = Request(
            operation=route.operation,
            provider=provider_of(base_url.host, self._provider_of(client)),
            model=short_str(body.get("model")),
            server_address=base_url.host or None,
            server_port=base_url.port or (443 if base_url.scheme == "https" else 80),
            parameters=request_parameters(body),
            session_id=None if session_from is None else _session_id(session_from, client, options, body),
        )
        return request, route.classify

    def _provider_of(self, client: Any) -> str:
        for kind in type(client).__mro__:
            if kind.__name__ in self.clients:
                return self.clients[kind.__name__]
        return self.provider


def _session_id(session_from: SessionFrom, client: Any, options: Any, body: Mapping[str, Any]) -> str | None:
    try:
        return short_str(session_from(body, {**_mapping(client.default_headers), **_mapping(options.headers)}))
    except Exception as error:  # noqa: BLE001 - the application's function
        report_error("calling session_from", error)
        return None


@lru_cache(maxsize=256)
def _route(routes: tuple[Route, ...], method: str, path: str) -> Route | None:
    return next((route for route in routes if route.serves(method, path)), None)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


class Stainless:
    """The hooks of one member: what its `request()`, `__stream__()` and `_iter_events()` do when measured."""

    def __init__(self, member: Member, recorder: Recorder) -> None:
        self._member = member
        self._recorder = recorder

    def targets(self) -> tuple[Target, ...]:
        """The one table of what is wrapped, walked to install and to remove."""
        base, streaming = f"{self._member.package}._base_client", f"{self._member.package}._streaming"
        return (
            Target(base, "SyncAPIClient.request", self._request),
            Target(base, "AsyncAPIClient.request", self._arequest),
            Target(streaming, "Stream.__stream__", self._stream(record_iterator)),
            Target(streaming, "AsyncStream.__stream__", self._stream(record_async_iterator)),
            Target(streaming, "Stream._iter_events", self._events(tapped)),
            Target(streaming, "AsyncStream._iter_events", self._events(AsyncTapped)),
        )

    def _request(self, wrapped: Any, client: Any, args: Any, kwargs: Any) -> Any:
        opening = self._begin(client, args, kwargs)
        if opening is None:
            return wrapped(*args, **kwargs)
        try:
            result = wrapped(*args, **kwargs)
        except BaseException as error:
            opening.failed(error)
            raise
        opening.returned(result)
        return result

    def _arequest(self, wrapped: Any, client: Any, args: Any, kwargs: Any) -> Any:
        if not kwargs.get("stream"):
            return wrapped(*args, **kwargs)
        return self._awaited(wrapped, client, args, kwargs)

    async def _awaited(self, wrapped: Any, client: Any, args: Any, kwargs: Any) -> Any:
        opening = self._begin(client, args, kwargs)
        if opening is None:
            return await wrapped(*args, **kwargs)
        opening.awaited()
        try:
            result = await wrapped(*args, **kwargs)
        except BaseException as error:
            opening.failed(error)
            raise
        opening.returned(result)
        return result

    @never_raises("opening a stream", None)
    def _begin(self, client: Any, args: Any, kwargs: Any) -> _Opening | None:
        if not kwargs.get("stream"):
            return None
        options = kwargs["options"] if "options" in kwargs else args[1]
        described = self._member.describe(client, options, self._recorder.session_from)
        probe = None if described is None else self._recorder.open(*described)
        if probe is None:
            return None
        return _Opening(probe, self._recorder, self._member.package)

    def _stream(self, face: Callable[[Any, StreamRecorder, Owner], Any]) -> Wrapper:
        def stream(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            source = wrapped(*args, **kwargs)
            try:
                probe = _probe_of(instance.response)
                if probe is None:
                    return source
                return face(source, probe, owner_of(instance))
            except Exception as error:  # noqa: BLE001 - the fence
                report_error("timing a stream", error)
                return source

        return stream

    def _events(self, tap: Callable[[Any, Callable[[Any], None]], Any]) -> Wrapper:
        marker = self._member.marker

        def events(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            source = wrapped(*args, **kwargs)
            try:
                probe = _probe_of(instance.response)
                if probe is None:
                    return source
                return tap(source, _remembered(marker, probe) if marker.last else _watched(marker, probe))
            except Exception as error:  # noqa: BLE001 - the fence
                report_error("watching a stream's events", error)
                return source

        return events


class _Opening:
    """The time in which a request is made: its span is current, and its probe waits for the response."""

    __slots__ = ("_cell", "_context", "_package", "_probe", "_recorder", "_reset")

    def __init__(self, probe: StreamRecorder, recorder: Recorder, package: str) -> None:
        self._probe = probe
        self._recorder = recorder
        self._package = package
        self._cell = [probe]
        # Last: what was set before a failure would stay for the caller's next request.
        self._context = recorder.attach(probe)
        self._reset = _opening.set(self._cell)

    @never_raises("watching an event loop", None)
    def awaited(self) -> None:
        """The response is awaited on an event loop, which may be blocked when it comes."""
        self._probe.read_on_running_loop()

    @never_raises("following a response", None)
    def returned(self, result: Any) -> None:
        """The headers came: the response carries the probe from here on."""
        self._over()
        response: Any = next(
            found
            for found in (getattr(result, "response", None), getattr(result, "http_response", None), result)
            if isinstance(getattr(found, "extensions", None), dict)
        )
        self._probe.responded(_attempts(response))
        self._probe.owned_by(response)
        self._probe.breaker = Connection(response, self._package)
        response.extensions[PROBE] = self._probe
        response.stream = Body(response.stream, self._probe)

    @never_raises("leaving the context of a request", None)
    def failed(self, error: BaseException) -> None:
        """There is no stream: the request failed, or the wait for it was interrupted."""
        self._probe.failed(error)
        if not isinstance(error, GeneratorExit):
            # Else the coroutine is being thrown away, perhaps in another context: this one is nobody's any more.
            self._over()

    @never_raises("leaving the context of a request", None)
    def _over(self) -> None:
        self._cell.clear()
        self._recorder.detach(self._context)
        _opening.reset(self._reset)


def _probe_of(response: Any) -> StreamRecorder | None:
    probe: StreamRecorder | None = response.extensions.get(PROBE)
    if probe is None:
        cell = _opening.get()
        probe = cell[0] if cell else None
    return probe


def _attempts(response: Any) -> int | None:
    retries = response.request.headers.get(_RETRY_COUNT, "")
    return int(retries) + 1 if retries.isdigit() else None


def _remembered(marker: SwallowedEvent, probe: StreamRecorder) -> Callable[[Any], None]:
    """Notes each event, and forgets the one before it: appending to a deque is no call of a Python function."""
    last: deque[Any] = deque(maxlen=1)
    probe.before_outcome = partial(_look_back, marker, last)
    return last.append


def _look_back(marker: SwallowedEvent, last: deque[Any], probe: StreamRecorder) -> None:
    if last:
        _watched(marker, probe)(last.pop())


def _watched(marker: SwallowedEvent, probe: StreamRecorder) -> Callable[[Any], None]:
    field, value, signal = marker.field, marker.value, marker.signal

    def watched(event: Any) -> None:
        try:
            if getattr(event, field) == value:
                signal(probe)
        except Exception as error:  # noqa: BLE001 - the fence
            report_error("reading an event", error)

    return watched
