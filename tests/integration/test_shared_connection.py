"""Threads that read many streams over one HTTP/2 connection get every chunk, while its lists are being replaced."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

import otel_itl
from otel_itl.testing import ScriptedServer, capture_telemetry, chat

THREADS, STREAMS, CHUNKS = 8, 6, 20


def count_chunks(client: openai.OpenAI) -> set[int]:
    """Read streams one after the other; returns how many chunks with output they had."""
    counts = set()
    for _ in range(STREAMS):
        stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}], stream=True)
        try:
            counts.add(sum(bool(chunk.choices and chunk.choices[0].delta.content) for chunk in stream))
        except openai.APIConnectionError:  # httpcore may send the headers of two requests in disorder
            continue
    return counts


@pytest.mark.skipif(importlib.util.find_spec("h2") is None, reason="h2 is not installed")
def test_no_chunk_of_any_stream_is_lost() -> None:
    http_client = openai.DefaultHttpxClient(http1=False, http2=True)
    with ScriptedServer(process=True) as server, capture_telemetry() as captured:
        server.always(chat.reply(CHUNKS, first=0.005, gaps=0.001))
        otel_itl.instrument(tracer_provider=captured.tracer_provider)
        try:
            with (
                openai.OpenAI(base_url=server.openai_url, api_key="none", http_client=http_client) as client,
                ThreadPoolExecutor(THREADS) as pool,
            ):
                counts = set().union(*pool.map(count_chunks, [client] * THREADS))
        finally:
            otel_itl.uninstrument()
    ended = [span.attributes or {} for span in captured.spans]
    recorded = {one["itl.output_chunk.count"] for one in ended if one["itl.stream.outcome"] == "completed"}
    assert (counts, recorded) == ({CHUNKS}, {CHUNKS})
