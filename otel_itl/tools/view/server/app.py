"""The ASGI application: the page, its events, a saved copy of it, and the OTLP receiver over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Any, Final

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from otel_itl.tools.report.json_text import parse_json
from otel_itl.tools.report.reading.otlp import SHAPE_ERRORS
from otel_itl.tools.view.bundle import LIVE, OWN, make_policy, render_page
from otel_itl.tools.view.document import describe_page
from otel_itl.tools.view.server.assembler import Assembler
from otel_itl.tools.view.server.events import generate_events
from otel_itl.tools.view.server.protobuf import make_response, read_protobuf
from otel_itl.tools.view.server.safety import HEADERS, Guard, RefusedError, read_body

Handler = Callable[[Request], Awaitable[Response]]

PROTOBUF: Final = "application/x-protobuf"
MAX_READERS: Final = 32
"""Pages that are connected at once."""


class ViewApp:
    """The page's server.

    Args:
        assembler: takes what is received, and has the store of streams.
        guard: decides who is answered.
        describe: returns the facts that the page shows of this server: `name`, `status`, `skipped`, `hints`.
        is_closing: returns whether the server is about to end, and with it the events of every page.
        receives: telemetry is received over HTTP.
    """

    def __init__(
        self,
        assembler: Assembler,
        guard: Guard,
        describe: Callable[[], dict[str, Any]],
        is_closing: Callable[[], bool],
        *,
        receives: bool,
    ) -> None:
        self._store = assembler.store
        self._assembler = assembler
        self._guard = guard
        self._describe = describe
        self._run = token_hex(8)
        self._readers = 0
        self._is_closing = is_closing
        routes = [
            Route("/", self._guarded(self._get_page, needs_token=False)),
            Route("/events", self._guarded(self._get_events)),
            Route("/save", self._guarded(self._save)),
        ]
        if receives:
            routes.append(Route("/v1/{signal}", self._guarded(self._receive), methods=["POST"]))
        self.asgi = Starlette(routes=routes)

    def _guarded(self, handler: Handler, *, needs_token: bool = True) -> Handler:
        """Return a handler that answers only whom the guard lets through, with the headers of safety."""

        async def answer(request: Request) -> Response:
            """Answer a request."""
            try:
                self._guard.check(request, needs_token=needs_token)
                response = await handler(request)
            except RefusedError as refusal:
                # In OTLP an error is a google.rpc.Status; its JSON form is what a person reads in a log, too.
                response = JSONResponse({"message": refusal.sentence}, refusal.status)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return answer

    async def _get_page(self, _request: Request) -> Response:
        policy = f"{make_policy(OWN)}; frame-ancestors 'none'"
        return HTMLResponse(render_page(LIVE), headers={"Content-Security-Policy": policy})

    def _refresh(self) -> dict[str, Any]:
        """End the streams that were lost, and return what the page shows of the server."""
        self._assembler.end_lost_streams()
        return self._describe()

    async def _get_events(self, request: Request) -> Response:
        """Return the page's events, which do not end."""
        if self._readers >= MAX_READERS:
            raise RefusedError(503, f"{MAX_READERS} pages are connected already: close one.")
        last = request.headers.get("last-event-id", "")
        events = generate_events(self._store, self._refresh, self._run, last, self._is_closing)

        async def count_reader() -> Any:
            """Yield the events, and count the page among the readers meanwhile."""
            self._readers += 1
            try:
                async for event in events:
                    yield event
            finally:
                self._readers -= 1

        return StreamingResponse(count_reader(), media_type="text/event-stream")

    async def _save(self, _request: Request) -> Response:
        """Return the page with all that is kept, as one file."""
        facts = self._describe()

        def render() -> str:
            more = {"let_go": self._store.let_go} | {key: facts[key] for key in ("sides", "selected") if key in facts}
            return render_page(describe_page(self._store.documents(), name=str(facts["name"]), more=more))

        attachment = {"Content-Disposition": 'attachment; filename="otel-itl.html"'}
        return HTMLResponse(await run_in_threadpool(render), headers=attachment)

    async def _receive(self, request: Request) -> Response:
        """Take in one OTLP request, in protobuf or JSON."""
        signal = request.path_params["signal"]
        if signal not in {"traces", "logs", "metrics"}:
            raise RefusedError(404, "there is /v1/traces, /v1/logs and /v1/metrics.")
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in {PROTOBUF, "application/json"}:
            accepted = f"{PROTOBUF} or application/json"
            raise RefusedError(415, f"Content-Type {media_type[:60]!r} is not accepted: it takes {accepted}.")
        body = await read_body(request)
        try:
            read = read_protobuf if media_type == PROTOBUF else _read_json
            refused = await run_in_threadpool(lambda: self._assembler.add(read(signal, body)))
        except (*SHAPE_ERRORS, RecursionError) as error:
            raise RefusedError(400, f"the body is no OTLP request of {signal}.") from error
        response = make_response(signal, refused)
        if media_type == PROTOBUF:
            return Response(response.SerializeToString(), media_type=PROTOBUF)
        return JSONResponse(MessageToDict(response))


def _read_json(_signal: str, body: bytes) -> dict[str, Any]:
    """Parse a JSON object; raises ValueError or TypeError where it is none."""
    document = parse_json(body)
    if not isinstance(document, dict):
        raise TypeError("no JSON object")
    return document
