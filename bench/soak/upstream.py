"""The upstream of the soak: a small HTTP server in a process of its own, which stores nothing about its requests.

The model of a request selects how its stream goes on and ends.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

CHUNKS: Final = 12
GAP_SECONDS: Final = 0.02
HOLDING: Final = "holding"
"""The response goes on after its last chunk until the client closes the connection."""
STALLING: Final = "stalling"
"""Models with this prefix are silent once, after `EVENTS_BEFORE_SILENCE` events, for `SILENCE_SECONDS`."""
EVENTS_BEFORE_SILENCE: Final = 4
SILENCE_SECONDS: Final = 5.0
WELL, TRUNCATED, FAILING, BROKEN, REFUSED = "well", "truncated", "failing", "broken", "refused"
_HEADERS: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_REFUSAL: Final = b'{"error": {"message": "too many", "type": "rate_limit_error"}}'
_ROOT: Final = str(Path(__file__).parents[2])


@contextmanager
def upstream() -> Iterator[int]:
    """Run an upstream until the end of the block; yield its port."""
    command = [sys.executable, "-m", "bench.soak.upstream"]
    process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.communicate()


def serve() -> None:
    """Serve until standard input ends; the port is the first line of standard output."""
    asyncio.run(_serve())


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, partial(sys.stdin.buffer.read))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await _served(reader, writer):
            pass
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request; return whether the connection can take another one."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    model = json.loads(await reader.readexactly(length))["model"]
    if model == REFUSED:
        writer.write(
            b"HTTP/1.1 429 No\r\nx-should-retry: false\r\ncontent-length: %d\r\n\r\n" % len(_REFUSAL) + _REFUSAL
        )
        return True
    events = _message if b"/messages" in head.partition(b"\r\n")[0] else _chat
    writer.write(_HEADERS)
    is_stalling = model.startswith(STALLING)
    for number, event in enumerate(events(WELL if is_stalling else model), 1):
        writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        await writer.drain()
        is_silence = is_stalling and number == EVENTS_BEFORE_SILENCE
        await asyncio.sleep(SILENCE_SECONDS if is_silence else GAP_SECONDS)
    if model == HOLDING:
        await reader.read()
    if model in {HOLDING, BROKEN}:
        return False
    writer.write(b"0\r\n\r\n")
    return True


def _chat(model: str) -> Iterator[bytes]:
    def chunk(delta: str, reason: str = "null") -> bytes:
        choice = f'{{"index": 0, "delta": {delta}, "finish_reason": {reason}}}'
        return f'data: {{"id": "c", "model": "m", "choices": [{choice}]}}\n\n'.encode()

    yield chunk('{"role": "assistant"}')
    for _ in range(CHUNKS):
        yield chunk('{"content": "word "}')
    if model == FAILING:
        yield b'data: {"error": {"message": "failed", "type": "server_error"}}\n\n'
    if model == WELL:
        yield chunk("{}", '"stop"')
        yield b"data: [DONE]\n\n"


def _message(model: str) -> Iterator[bytes]:
    def event(name: str, rest: str) -> bytes:
        return f'event: {name}\ndata: {{"type": "{name}"{rest}}}\n\n'.encode()

    usage = '"usage": {"input_tokens": 3, "output_tokens": 1}'
    message = '"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null'
    yield event("message_start", f', "message": {{{message}, {usage}}}')
    yield event("content_block_start", ', "index": 0, "content_block": {"type": "text", "text": ""}')
    for _ in range(CHUNKS):
        yield event("content_block_delta", ', "index": 0, "delta": {"type": "text_delta", "text": "word "}')
    if model == FAILING:
        yield event("error", ', "error": {"type": "overloaded_error", "message": "failed"}')
    if model == WELL:
        yield event("message_delta", ', "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 12}')
        yield event("message_stop", "")


if __name__ == "__main__":
    serve()
