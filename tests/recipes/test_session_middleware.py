"""The middleware in servers: FastAPI on uvicorn, and a WSGI application, each with two sessions at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from urllib.request import Request, urlopen
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import openai
import pytest

import otel_itl
from otel_itl.testing import CapturedTelemetry, ScriptedServer, captured_telemetry, chat

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

__all__ = ["captured_telemetry"]


def ask(url: str, model: str) -> Iterator[str]:
    """Stream an answer."""
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": "hello"}]
        for chunk in client.chat.completions.create(model=model, messages=messages, stream=True):
            yield str(chunk.id)


@contextmanager
def fastapi(upstream: str) -> Iterator[str]:
    """An application with a synchronous body, which Starlette makes in a thread of its pool."""
    import uvicorn
    from fastapi import FastAPI
    from fastapi.responses import StreamingResponse

    app = FastAPI()
    app.add_middleware(otel_itl.ASGISessionMiddleware, session_header="x-chat")

    @app.get("/{model}")
    async def answer(model: str) -> StreamingResponse:
        return StreamingResponse(ask(upstream, model))

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each request."""


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def wsgi(upstream: str) -> Iterator[str]:
    """An application whose body is made part by part after it has returned."""

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (part.encode() for part in ask(upstream, environ["PATH_INFO"].strip("/")))

    middleware: Any = otel_itl.WSGISessionMiddleware(app, session_header="x-chat")
    with make_server("127.0.0.1", 0, middleware, _Server, _Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


@pytest.mark.parametrize("serve", [fastapi, wsgi])
def test_each_of_two_sessions_at_once_has_the_requests_that_its_header_names(
    serve: Callable[[str], Any], captured_telemetry: CapturedTelemetry
) -> None:
    otel_itl.instrument(
        tracer_provider=captured_telemetry.tracer_provider, meter_provider=captured_telemetry.meter_provider
    )
    try:
        with ScriptedServer(chat.reply(3, gaps=0.01)) as upstream, serve(upstream.openai_url) as url:

            def get(name: str) -> None:
                headers = {} if name == "none" else {"X-Chat": f"session-{name}"}
                urlopen(Request(f"{url}/{name}", headers=headers), timeout=10).read()  # noqa: S310 - a server of ours

            with ThreadPoolExecutor() as pool:
                list(pool.map(get, ["a", "b", "none", "a", "b"]))
    finally:
        otel_itl.uninstrument()
    attributes = [dict(span.attributes or {}) for span in captured_telemetry.spans]
    shown = sorted((found["gen_ai.request.model"], found.get("session.id")) for found in attributes)
    assert shown == [("a", "session-a")] * 2 + [("b", "session-b")] * 2 + [("none", None)]
