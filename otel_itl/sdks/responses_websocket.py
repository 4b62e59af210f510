"""OpenAI Responses over WebSockets: each `response.create` that is sent is a request, answered by the events of SSE.

Without a `stream_id`, a connection has one response at a time; with it, one in each lane. A steered response ends, and
the response that goes on in its place begins without a `response.create`: the request is the `response.steer`.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from json import loads
from typing import Any, Final, NamedTuple

from otel_itl.core import conventions as names
from otel_itl.core.request import Request
from otel_itl.core.timeline import SECOND, Outcome
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.sdks.driver import Driver
from otel_itl.sdks.formats.openai_responses import ENDS, classify_response_event
from otel_itl.sdks.open_call import Description, Moment
from otel_itl.sdks.values import fields_of, make_request, short_str
from otel_itl.sdks.websocket_connections import Handshake

MAX_STEERS: Final = 64
"""Steers of one connection that are remembered until their responses begin."""
MAX_ITEMS: Final = 4_096
"""Output items of one response that are remembered."""


class _Steer(NamedTuple):
    """A `response.steer` that was sent."""

    request: Request
    """The request of the response that is steered."""
    sent: Moment
    context: Context
    """What was current where it was sent."""


class _Response:
    """A response that was asked for, and has not ended."""

    __slots__ = ("id", "is_sent", "items", "lane", "recorder")

    def __init__(self, recorder: StreamRecorder, lane: str | None, *, is_sent: bool) -> None:
        self.recorder, self.lane, self.is_sent = recorder, lane, is_sent
        self.id: str | None = None
        """None: it has not begun."""
        self.items: set[str] = set()
        """Ids of its output items."""


class ResponsesWire:
    """Records the responses of one connection.

    What is in flight is a list, which any thread may add to and remove from: no lock is held while a stream ends.

    Args:
        driver: opens the recordings.
        handshake: of the connection.
    """

    def __init__(self, driver: Driver, handshake: Handshake) -> None:
        self._driver, self._handshake = driver, handshake
        self._open: list[_Response] = []
        self._steers: dict[str, _Steer] = {}
        self._began = driver.read_clocks().clock_ns
        self._responses = self._messages = self._bytes = 0
        request = make_request("chat", handshake.url, "openai", None, {})
        self._log = driver.connection_log(request)
        if self._log is not None:
            self._log(names.CONNECTION_OPENED_EVENT, {})

    # --- What is sent ----------------------------------------------------------------------------------------------

    def send(self, message: str | bytes) -> _Response | None:
        """Take a message that is about to be sent; returns the response that it asks for, if any."""
        is_text = isinstance(message, str)
        if ("response." if is_text else b"response.") not in message:  # type: ignore[operator]
            return None
        event = _fields_in(message)
        kind = event.get("type")
        if kind == "response.steer":
            self._remember(event)
        return self._begin(event) if kind == "response.create" else None

    def _begin(self, event: dict[str, Any]) -> _Response | None:
        """Open the recording of a response that is asked for, in the context of who asks."""
        # Some clients put what is asked for into a member.
        body = {**fields_of(event.get("response")), **event}
        handshake = self._handshake
        request = make_request("chat", handshake.url, "openai", body.get("model"), body)
        description = Description(request, classify_response_event, body, lambda: handshake.headers)
        return self._open_recording(description, short_str(event.get("stream_id")), is_sent=False)

    def _open_recording(self, description: Description, lane: str | None, *, is_sent: bool) -> _Response | None:
        """Open the recording of a response; None where it is not to be measured."""
        opening = self._driver.prepare(description, has_inner_layer=False)
        recorder = opening.release() if opening.begin() else None
        if recorder is None:
            return None
        recorder.begin_feeding()
        self._in_flight()  # drops those that could not be sent
        response = _Response(recorder, lane, is_sent=is_sent)
        self._open.append(response)
        self._responses += 1
        return response

    def _remember(self, event: dict[str, Any]) -> None:
        """Remember a steer of a response that is open, until the response in its place begins."""
        parent = short_str(event.get("previous_response_id"))
        steered = next((response for response in self._in_flight() if response.id == parent), None)
        if parent is not None and steered is not None and len(self._steers) < MAX_STEERS:
            steer = _Steer(steered.recorder.request, self._driver.read_clocks(), copy_context())
            self._steers.setdefault(parent, steer)

    # --- What arrives ----------------------------------------------------------------------------------------------

    def receive(self, message: bytes, now: int) -> None:
        """Record an event that has arrived at `now` (ns)."""
        self._messages += 1
        self._bytes += len(message)
        if not self._open and not self._steers:
            return
        event = _fields_in(message)
        kind = event.get("type")
        if not isinstance(kind, str) or kind.startswith("response.steer."):
            self._follow_steer(kind, event)
            return
        response = self._find(event, kind)
        if response is None:
            return
        response.recorder.feed(event, now)
        if kind == "response.output_item.added" and len(response.items) < MAX_ITEMS:
            response.items.add(str(fields_of(event.get("item")).get("id")))
        if kind in ENDS or kind == "error":
            self._remove(response)
            response.recorder.end_exhausted()

    def _find(self, event: dict[str, Any], kind: str) -> _Response | None:
        """Return the response that an event belongs to; None: one that was not seen to be asked for."""
        lane = event.get("stream_id")
        found = [response for response in self._open if response.lane == lane and not response.recorder.is_over]
        if "delta" in event and not found[1:]:  # nearly every event is one of these
            return found[0] if found else None
        about = event.get("response")
        response_id = about.get("id") if type(about) is dict else event.get("response_id")
        if isinstance(response_id, str):
            known = next((response for response in found if response.id == response_id), None)
            if known is None:
                known = next((response for response in found if response.id is None), None)
                if known is None and kind == "response.created":
                    known = self._succeed(fields_of(about), lane if isinstance(lane, str) else None)
                if known is not None:
                    known.id = response_id
            return known
        if not found[1:]:
            return found[0] if found else None
        if kind == "error":  # that of the request which has no response yet, if there is one
            return next((response for response in found if response.id is None), found[0])
        item = event.get("item_id") or fields_of(event.get("item")).get("id")
        begun = [response for response in found if response.id is not None] or found
        return next((response for response in begun if item in response.items), begun[-1])

    def _follow_steer(self, kind: object, event: dict[str, Any]) -> None:
        """Forget a steer that failed, or that waits for the caller's next `response.create`."""
        if kind in {"response.steer.failed", "response.steer.pending"}:
            steer = fields_of(event.get("steer"))
            self._steers.pop(str(steer.get("previous_response_id") or event.get("previous_response_id")), None)

    def _succeed(self, about: dict[str, Any], lane: str | None) -> _Response | None:
        """Open the recording of a response that goes on in place of a steered one, from the moment of the steer."""
        steer = self._steers.pop(str(about.get("previous_response_id")), None)
        if steer is None:
            return None
        description = Description(steer.request, classify_response_event, sent=steer.sent)
        return steer.context.run(partial(self._open_recording, description, lane, is_sent=True))

    # --- How fast it is read, and how it ends ----------------------------------------------------------------------

    def pause(self) -> None:
        """Note that nothing is read from the connection until its consumer has caught up."""
        for response in self._in_flight():
            response.recorder.log.hold()

    def resume(self, now: int) -> None:
        """Note that the connection is read again, from `now` (ns) on."""
        for response in self._in_flight():
            response.recorder.log.wait(now)

    def end(self, outcome: Outcome, close_code: int) -> None:
        """End the responses that are open, and emit the totals of the connection, once."""
        for response in self._in_flight():
            if outcome is not Outcome.ABANDONED and not response.is_sent:
                continue
            self._remove(response)
            if outcome is Outcome.ABANDONED:
                response.recorder.abandon_from_gc()
            else:
                error_type = f"websocket_closed_{close_code}" if outcome is Outcome.ERROR else None
                response.recorder.end_fed(outcome, error_type)
        self._steers.clear()
        log, self._log = self._log, None
        if log is not None:
            duration = (self._driver.read_clocks().clock_ns - self._began) / SECOND
            totals = {
                names.CONNECTION_DURATION: round(duration, 6),
                names.CONNECTION_RESPONSES: self._responses,
                names.CONNECTION_MESSAGES: self._messages,
                names.CONNECTION_BYTES: self._bytes,
            }
            log(names.CONNECTION_CLOSED_EVENT, totals)

    def _in_flight(self) -> list[_Response]:
        """Return the responses that are open, and drop those that something else has ended."""
        for response in list(self._open):
            if response.recorder.is_over:
                self._remove(response)
        return list(self._open)

    def _remove(self, response: _Response) -> None:
        with suppress(ValueError):  # another thread was first
            self._open.remove(response)


def _fields_in(message: str | bytes) -> dict[str, Any]:
    """Return the object that a message is in JSON; an empty one where it is anything else: the caller judges it."""
    try:
        return fields_of(loads(message))
    except (ValueError, RecursionError):
        return {}
