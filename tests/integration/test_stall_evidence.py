"""What caused a stall, of a caller that does not run: a silence of the server stays the server's, on real sockets.

The server, and what stands before it, run in processes of their own. Each stream has a thread, and a loop, of its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx
import openai
import pytest

import otel_itl
from otel_itl import StallPolicy
from otel_itl.core.stalls import Evidence
from otel_itl.testing import Script, ScriptedServer, capture_telemetry, chat

if TYPE_CHECKING:
    from conftest import App

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows when data came")

ASKED: Final[Any] = [{"role": "user", "content": "hello"}]
POLICY: Final = StallPolicy(next_token=2.0, relative=None)
SILENCE: Final = 3.0
"""Seconds on the wire, between the second token and the third."""
BLOCK: Final = 2.7
"""Seconds in which the caller does not run, from shortly after the second token on."""
SILENT: Final = chat.reply(4, gaps=[0.0, SILENCE, 0.0])
FLOWING: Final = chat.reply(200, gaps=[0.0, *[0.02] * 198])

TLS_FRONT: Final = """
import asyncio, ssl, sys

async def pump(reader, writer):
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def serve(reader, writer):
    upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    await asyncio.gather(pump(reader, upstream_writer), pump(upstream_reader, writer), return_exceptions=True)

async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


@contextmanager
def tls_front(port: int, folder: Path) -> Iterator[str]:
    """Run what speaks TLS before the server; gives its URL."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    front = [sys.executable, "-c", TLS_FRONT, str(port), str(certificate), str(key)]
    with subprocess.Popen(front, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield f"https://localhost:{int(child.stdout.readline())}/v1"
        finally:
            child.stdin.close()


# --- A loop that is blocked ------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One stream of a caller that blocks its own loop."""

    transport: str
    script: Script
    expected: list[tuple[str, str]]
    """Cause and evidence of each stall; empty: they may differ."""


CASES: Final = {
    "a silence, plain": Case("plain", SILENT, [("upstream", "connection")]),
    "a silence, TLS": Case("TLS", SILENT, [("upstream", "connection")]),
    "a silence, HTTP/2": Case("HTTP/2", SILENT, [("upstream", "connection")]),
    "bytes that wait, plain": Case("plain", FLOWING, [("event_loop", "bytes")]),
    "bytes that wait, TLS": Case("TLS", FLOWING, [("event_loop", "bytes")]),
    "bytes that wait, HTTP/2": Case("HTTP/2", FLOWING, []),  # by the loop or, where it has just read them, by bytes
}
KNOWN: Final = [name for name, case in CASES.items() if case.expected]


async def read_and_block(url: str, model: str, *, http2: bool) -> None:
    """Read a stream on a loop that is blocked soon after the second token."""
    http_client = httpx.AsyncClient(verify=False, http1=not http2, http2=http2)  # noqa: S501 - a certificate of our own

    async def block() -> None:
        await asyncio.sleep(0.1)
        time.sleep(BLOCK)  # noqa: ASYNC251 - the point

    async with openai.AsyncOpenAI(base_url=url, api_key="none", http_client=http_client, max_retries=0) as client:
        tokens = 0
        async for chunk in await client.chat.completions.create(model=model, messages=ASKED, stream=True):
            tokens += bool(chunk.choices and chunk.choices[0].delta.content)
            if tokens == 2:
                tokens += 1
                blocking = asyncio.create_task(block())
        await blocking


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, Any]]]:
    """Cause and evidence of the stalls of each case; all are played at once."""
    with (
        ScriptedServer(process=True) as server,
        capture_telemetry() as telemetry,
        tls_front(server.port, tmp_path_factory.mktemp("tls")) as tls,
    ):
        otel_itl.instrument(
            tracer_provider=telemetry.tracer_provider,
            meter_provider=telemetry.meter_provider,
            logger_provider=telemetry.logger_provider,
            stall=POLICY,
        )
        urls = {"HTTP/2": server.openai_url, "TLS": tls, "plain": server.openai_url}
        readers = []
        for name, case in CASES.items():
            server.play(case.script, model=name)
            reading = read_and_block(urls[case.transport], name, http2=case.transport == "HTTP/2")
            readers.append(threading.Thread(target=asyncio.run, args=(reading,)))
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        otel_itl.uninstrument()
        return {str((span.attributes or {})["gen_ai.request.model"]): stalls_of(span) for span in telemetry.spans}


def stalls_of(span: Any) -> list[tuple[Any, Any]]:
    return [
        (event.attributes["itl.stall.cause"], event.attributes["itl.stall.evidence"])
        for event in span.events
        if event.name == "itl.stall"
    ]


@pytest.mark.requirement("R48")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.skipif(importlib.util.find_spec("h2") is None, reason="h2 is not installed")
@pytest.mark.parametrize("case", KNOWN)
def test_while_a_loop_is_blocked_the_connection_is_the_witness(
    case: str, found: dict[str, list[tuple[Any, Any]]]
) -> None:
    assert found[case] == CASES[case].expected


@pytest.mark.requirement("R48")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.skipif(importlib.util.find_spec("h2") is None, reason="h2 is not installed")
def test_a_loop_that_is_blocked_while_bytes_wait_on_a_shared_connection_is_to_blame(
    found: dict[str, list[tuple[Any, Any]]],
) -> None:
    assert [cause for cause, _ in found["bytes that wait, HTTP/2"]] == ["event_loop"]


# --- A process that is starved, or suspended -------------------------------------------------------------------------

APP: Final = """
import asyncio, json, os
import openai
import otel_itl
from otel_itl.testing import capture_telemetry

ASKED = {"messages": [{"role": "user", "content": "hello"}], "stream": True}

def saw(chunk, tokens):
    if chunk.choices and chunk.choices[0].delta.content:
        tokens.append(None)
        if len(tokens) == 2:
            print("second token", flush=True)

def read():
    client, tokens = openai.OpenAI(), []
    list(client.chat.completions.create(model="warm", **ASKED))
    for chunk in client.chat.completions.create(model=os.environ["MODEL"], **ASKED):
        saw(chunk, tokens)

async def aread():
    client, tokens = openai.AsyncOpenAI(), []
    [chunk async for chunk in await client.chat.completions.create(model="warm", **ASKED)]
    async for chunk in await client.chat.completions.create(model=os.environ["MODEL"], **ASKED):
        saw(chunk, tokens)

with capture_telemetry() as telemetry:
    otel_itl.instrument(
        tracer_provider=telemetry.tracer_provider,
        meter_provider=telemetry.meter_provider,
        logger_provider=telemetry.logger_provider,
        stall=otel_itl.StallPolicy(next_token=2.0, relative=None),
    )
    asyncio.run(aread()) if os.environ["READER"] == "asyncio" else read()
    events = [event.attributes for event in telemetry.spans[-1].events if event.name == "itl.stall"]
    print(json.dumps([[event["itl.stall.cause"], event["itl.stall.evidence"]] for event in events]), flush=True)
"""

Suspend = Callable[[Any], None]
"""Suspends a process, for some time."""


def suspend(process: Any) -> None:
    """Suspend a process at once, for most of the silence."""
    time.sleep(0.1)
    process.send_signal(signal.SIGSTOP)
    time.sleep(BLOCK)
    process.send_signal(signal.SIGCONT)


def starve(process: Any) -> None:
    """Let a process run for 10 of every 100 ms, until the silence is over."""
    until = time.monotonic() + SILENCE + 0.5
    while time.monotonic() < until:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.09)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)


class Disturbed(NamedTuple):
    """One stream of a process that hardly runs."""

    script: Script
    disturb: Suspend
    cause: str
    """Of its one stall."""
    evidence: set[str]
    """Any of these."""


DISTURBED: Final = {
    "suspended in a silence": Disturbed(SILENT, suspend, "upstream", {"connection"}),
    "starved in a silence": Disturbed(SILENT, starve, "upstream", {"connection"}),
    "suspended while tokens came": Disturbed(FLOWING, suspend, "process", {evidence.value for evidence in Evidence}),
}
READERS: Final = ("sync", "asyncio")


@pytest.fixture(scope="module")
def found_in_processes(start_app: Callable[..., App]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Cause and evidence of the stalls of each case and reader; all are played at once."""

    def play(name: str, reader: str) -> list[tuple[str, str]]:
        model = f"{name}, {reader}"
        server.play(DISTURBED[name].script, model=model)
        app = start_app(APP, server, READER=reader, MODEL=model)
        process = app._process
        assert process.stdout is not None
        process.stdout.readline()
        DISTURBED[name].disturb(process)
        return [(cause, evidence) for cause, evidence in json.loads(app.wait().stdout.splitlines()[-1])]

    played = [(name, reader) for name in DISTURBED for reader in READERS]
    with ScriptedServer(process=True) as server, ThreadPoolExecutor(len(played)) as players:
        stalls = players.map(lambda one: play(*one), played)
        return dict(zip(played, stalls, strict=True))


@pytest.mark.requirement("R48")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", DISTURBED)
def test_a_silence_is_whose_it_is_however_little_the_process_runs(
    case: str, reader: str, found_in_processes: dict[tuple[str, str], list[tuple[str, str]]]
) -> None:
    stalls = found_in_processes[case, reader]
    assert [cause for cause, _ in stalls] == [DISTURBED[case].cause]
    assert {evidence for _, evidence in stalls} <= DISTURBED[case].evidence
