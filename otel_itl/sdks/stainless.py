"""The SDKs that Stainless generates: one base client and one stream class, hooked the same way in each.

An SDK of this family is a table: its provider, its routes, and a `classify` for each kind of chunk.

`request()` of the base client is where every streaming call passes, whatever helper made it: the recording begins
there. `__stream__()` is the generator that every stream object iterates over: chunks are recorded there, so that the
caller keeps the genuine stream. Between the two the recorder is found by the HTTP response. `_iter_events()` sees the
server-sent events that the SDK swallows.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from otel_itl.core.conventions import Where
from otel_itl.recording.chunk_log import Classify
from otel_itl.recording.ownership import Owner, refer_to
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.stream_iterators import AsyncEventTap, record_async_iterator, record_iterator, tap_events
from otel_itl.sdks.driver import Call, Driver, ResultHook, StreamingCall, bind_to_response
from otel_itl.sdks.formats.openai_chat import classify_reasoning_chat, classify_text_completion
from otel_itl.sdks.open_call import Description
from otel_itl.sdks.own_spans import span_start
from otel_itl.sdks.patching import Hook
from otel_itl.sdks.registry import REGISTRY
from otel_itl.sdks.values import make_request

MAX_PATHS: Final = 256
"""Paths of requests that are remembered: a path may hold an id."""
MAX_CLIENT_CLASSES: Final = 64
"""Classes of clients that are remembered."""
STREAMS: Final = (("Stream", record_iterator, tap_events), ("AsyncStream", record_async_iterator, AsyncEventTap))
"""Stream class → what records its chunks, and what taps its events."""


@dataclass(frozen=True, slots=True)
class Route:
    """One streaming endpoint: its path (`*` stands for one segment), its operation, and how to read its chunks."""

    path: str
    operation: str
    classify: Classify
    method: str = "post"
    resumed_by: str = ""
    """Parameter of the query by which a response is fetched from its middle on; empty: there is none."""

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request goes to this endpoint, under any prefix of the path."""
        pattern = self.path.replace("*", "[^/?]*")
        return method.lower() == self.method and bool(re.fullmatch(rf"([^?]*/)?{pattern}(\?.*)?", path))


class OwnSpans(NamedTuple):
    """The spans that an SDK starts itself for its requests."""

    starter: str
    """The function of the base client's module that starts one, and returns it or None."""
    is_asked: Callable[[Any, Any], bool]
    """Returns whether the SDK calls `starter` for a request, from its client and the options of the request."""


OPENAI_LIKE: Final = (
    Route("chat/completions", "chat", classify_reasoning_chat),
    Route("completions", "text_completion", classify_text_completion),
)
"""The streaming endpoints of most services that are compatible with OpenAI's."""
See = Callable[[Any], None]
"""Looks at one server-sent event."""


def see_done(recorder: StreamRecorder) -> See:
    """Return what keeps the last event until the stream ends, which may be the terminator of OpenAI's formats.

    Appending to a deque calls no Python function.
    """
    last: deque[Any] = deque(maxlen=1)
    recorder.set_before_outcome(partial(_mark_terminated, last))
    return last.append


def _mark_terminated(last: deque[Any], recorder: StreamRecorder) -> None:
    """Mark the response as terminated if its last event is `[DONE]`."""
    if last and getattr(last.pop(), "data", None) == "[DONE]":
        recorder.response.is_terminated = True


@dataclass(frozen=True, slots=True)
class StainlessSDK:
    """One SDK of the family."""

    name: str
    """Its name in the registry."""
    provider: str
    routes: tuple[Route, ...] = OPENAI_LIKE
    see_events: Callable[[StreamRecorder], See] = see_done
    """Makes what looks at each server-sent event, also at those that the SDK does not hand out."""
    clients: Mapping[str, str] = field(default_factory=dict)
    """Client class for another provider → that provider, for hosts that do not show it."""
    more_hooks: tuple[Hook, ...] = ()
    """What is hooked besides: of other packages that the SDK speaks through."""
    own_spans: OwnSpans | None = None
    """The spans that newer releases of the SDK start themselves; None: none does."""

    def __iter__(self) -> Iterator[Hook]:
        """Yield every function of the SDK that is patched."""
        package = REGISTRY[self.name].package
        base, streaming = f"{package}._base_client", f"{package}._streaming"
        bind = partial(bind_to_response, make_error=partial(_make_timeout_error, package))
        describe = RequestDescriber(self).describe
        for client in ("SyncAPIClient", "AsyncAPIClient"):
            yield StreamingCall(base, f"{client}.request", describe, bind=bind, replaces_code=True)
        if self.own_spans is not None:
            yield span_start(base, self.own_spans.starter)
        for stream, record, tap in STREAMS:
            yield ResultHook(streaming, f"{stream}.__stream__", partial(_record, record))
            watch = partial(_watch, self.see_events, tap)
            yield ResultHook(streaming, f"{stream}._iter_events", watch, Where.SSE_READ)
        yield from self.more_hooks


class RequestDescriber:
    """Describes the requests of one SDK.

    Args:
        sdk: the SDK.
    """

    def __init__(self, sdk: StainlessSDK) -> None:
        self._sdk = sdk
        self._find_route = lru_cache(MAX_PATHS)(self._match_route)
        self._find_provider = lru_cache(MAX_CLIENT_CLASSES)(self._choose_provider)

    def describe(self, call: Call) -> Description | None:
        """Describe a call of `request(cast_to, options, stream=…)`; None for what is no streaming inference."""
        if not call.kwargs.get("stream"):
            return None
        options = call.kwargs["options"] if "options" in call.kwargs else call.args[1]
        client, path = call.instance, str(options.url)
        route = self._find_route(options.method, path)
        if route is None:
            return None
        body = {**_as_mapping(options.json_data), **_as_mapping(getattr(options, "extra_json", None))}
        is_resumed = bool(route.resumed_by) and _as_mapping(options.params).get(route.resumed_by) is not None
        # Together asks another host than that of the client, unless the client was given one.
        url = client.base_url.join(path) if "://" in path else client.base_url
        kind: Any = type(client)
        server = url.host or None, url.port or (443 if url.scheme == "https" else 80)
        request = make_request(
            route.operation, server, self._find_provider(kind), body.get("model"), body, is_resumed=is_resumed
        )
        return Description(
            request,
            route.classify,
            body,
            lambda: {**_as_mapping(client.default_headers), **_as_mapping(options.headers)},
            awaits_sdk_span=self._starts_span(client, options),
        )

    def _match_route(self, method: str, path: str) -> Route | None:
        """Return the streaming endpoint that a request goes to; None: it is none."""
        return next((route for route in self._sdk.routes if route.matches(method, path)), None)

    def _starts_span(self, client: Any, options: Any) -> bool:
        """Return whether the SDK is about to start a span of its own, by a function that is hooked."""
        own_spans = self._sdk.own_spans
        if own_spans is None or not own_spans.is_asked(client, options):
            return False
        return hasattr(import_module(f"{REGISTRY[self._sdk.name].package}._base_client"), own_spans.starter)

    def _choose_provider(self, client: type) -> str:
        """Return the provider that a class of clients asks, where the host does not show it."""
        names = (self._sdk.clients.get(kind.__name__) for kind in client.__mro__)
        return next(filter(None, names), self._sdk.provider)


def _record(record: Callable[[Any, StreamRecorder, Owner], Any], driver: Driver, call: Call, chunks: Any) -> Any:
    """Return the chunks of a stream recorded; None: they are not. `call` is that of `__stream__()`."""
    recorder = driver.find_recorder(call.instance.response)
    return None if recorder is None else record(chunks, recorder, refer_to(call.instance))


def _watch(
    see_events: Callable[[StreamRecorder], See], tap: Callable[[Any, See], Any], driver: Driver, call: Call, events: Any
) -> Any:
    """Return the events of a stream with a tap; None: it is not recorded. `call` is that of `_iter_events()`."""
    recorder = driver.find_recorder(call.instance.response)
    return None if recorder is None else tap(events, see_events(recorder))


def _make_timeout_error(package: str, request: Any, message: str) -> Exception:
    error: Any = import_module(package).APITimeoutError(request=request)
    error.message = message
    error.args = (message,)
    return error  # type: ignore[no-any-return]


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
