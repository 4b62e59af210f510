"""Why a request failed, in words: the status with the endpoint's message, a redirect, or the connection."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import pytest

from otel_itl.tools.sweep.clients import Client
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.failures import MAX_MESSAGE, Failure, describe_failure
from otel_itl.tools.sweep.prompts import Prompt

pytest.importorskip("openai")

JSON: Final = b"content-type: application/json\r\n"


def fail(answer: bytes | None) -> Failure:
    """Ask a server that writes this answer and closes the connection; None: no server listens."""

    async def ask() -> Failure:
        async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer or b"")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(write, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if answer is None:
            server.close()
            await server.wait_closed()
        client = Client(Endpoint(sdk="openai", model="m", base_url=f"http://127.0.0.1:{port}/v1"))
        try:
            await client.ask(Prompt([{"role": "user", "content": "x"}], 5), lambda: None)
        except Exception as error:
            return describe_failure(error)
        finally:
            await client.close()
            server.close()
        raise AssertionError("the request did not fail")

    return asyncio.run(ask())


def http(status: str, headers: bytes = b"", body: bytes = b"") -> bytes:
    return b"HTTP/1.1 " + status.encode() + b"\r\nconnection: close\r\n" + headers + b"\r\n" + body


EVENTS: Final = b"content-type: text/event-stream\r\n"
FAILURES: Final = {
    "error.message": (http("401 U", JSON, b'{"error": {"message": "wrong key"}}'), 401, "wrong key"),
    "key": (http("401 U", JSON, b'{"error": {"message": "wrong key: none."}}'), 401, "wrong key: …."),
    "error": (http("404 N", JSON, b'{"error": "model m is not loaded"}'), 404, "model m is not loaded"),
    "detail": (http("404 N", JSON, b'{"detail": "Not Found"}'), 404, "Not Found"),
    "text": (
        http("500 I", b"content-type: text/plain\r\n", b"out of\r\n memory\x1b[31m"),
        500,
        "out of memory\\x1b[31m",
    ),
    "page": (http("502 B", b"content-type: text/html\r\n", b"<html>Bad Gateway</html>"), 502, None),
    "redirect": (
        http("307 T", b"location: https://u:p@h/v1/?token=1\r\n"),
        307,
        "a redirect to https://h/v1/, which is not followed",
    ),
    "event": (http("200 OK", EVENTS, b'data: {"error": {"message": "no memory"}}\n\n'), None, "no memory"),
    "no JSON": (http("200 OK", EVENTS, b"data: {x\n\n"), None, "an event of the stream is no JSON"),
    "refused": (None, None, "connection refused"),
    "closed": (b"", None, "the connection was closed without an answer"),
    "cut": (
        http("200 OK", b"content-length: 100\r\n" + EVENTS, b"data"),
        None,
        "the connection was closed in the middle of the answer",
    ),
}


@pytest.mark.parametrize(("answer", "status", "detail"), FAILURES.values(), ids=FAILURES)
def test_a_failure_has_its_status_and_its_reason(answer: bytes | None, status: int | None, detail: str | None) -> None:
    failure = fail(answer)
    assert (failure.status, failure.detail) == (status, detail)


def test_an_answer_that_is_no_http_is_quoted() -> None:
    assert (fail(b"SSH-2.0 hello\r\n\r\n").detail or "").startswith("the answer is no HTTP: illegal status line")


def test_a_long_message_is_cut_off() -> None:
    body = json.dumps({"error": {"message": "x" * 10_000}}).encode()
    assert len(fail(http("400 B", JSON, body)).detail or "") == MAX_MESSAGE
