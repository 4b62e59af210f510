"""Streams whose span is not sampled, or that have no tracer provider at all, are measured all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final

import pytest
from clients import play
from faces import Face, taken
from measuring import bare, measured_by
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from surfaces import CREATED, Surface

import otel_itl
from otel_itl.testing import CapturedTelemetry, ScriptedServer, capture_telemetry, chat, messages, responses

REPLIES: Final = {
    "chat": chat.reply(4, first=0.01, gaps=0.01),
    "responses": responses.reply(4, first=0.01, gaps=0.01),
    "messages": messages.reply(4, first=0.01, gaps=0.01),
}
CHUNKS: Final = {"chat": 7, "responses": 12, "messages": 9}


@contextmanager
def metered() -> Iterator[CapturedTelemetry]:
    """Streams are measured with a meter provider alone."""
    bare()
    with capture_telemetry() as captured:
        otel_itl.instrument(meter_provider=captured.meter_provider)
        try:
            yield captured
        finally:
            otel_itl.uninstrument()


Measuring = Callable[[], AbstractContextManager[CapturedTelemetry]]
WAYS: Final[dict[str, Measuring]] = {
    "sampled": measured_by,
    "not sampled": partial(measured_by, sampler=ALWAYS_OFF),
    "no tracer provider": metered,
}

created = pytest.mark.parametrize("surface", CREATED, ids=str)


async def read(surface: Surface, client: Any) -> None:
    async with surface.stream(client) as stream:
        await taken(stream)


@pytest.mark.parametrize("way", WAYS)
@created
@pytest.mark.requirement("R43")
def test_a_stream_is_in_the_metrics_with_and_without_its_span(
    surface: Surface, face: Face, way: str, server: ScriptedServer
) -> None:
    for _ in range(5):
        server.always(REPLIES[surface.wire])
        with WAYS[way]() as telemetry:
            play(read, surface, face, server)
            spans = len(telemetry.spans)
            counts = {name: sum(point.count for point in points) for name, points in telemetry.metrics.items()}
        if counts.get("itl.client.inter_token_latency") == 3:
            break  # else the machine kept the client from reading: no matter of this test
    for observed in ("itl.self.errors", "itl.client.stream.count", "itl.client.uncertain_streams"):  # of the machine
        counts.pop(observed, None)
    assert (spans, counts) == (
        1 if way == "sampled" else 0,
        {
            "gen_ai.client.operation.duration": 1,
            "gen_ai.client.operation.time_to_first_chunk": 1,
            "gen_ai.client.operation.time_per_output_chunk": CHUNKS[surface.wire] - 1,
            "gen_ai.client.token.usage": 2,
            "itl.client.inter_token_latency": 3,
            "itl.client.time_to_first_token": 1,
            "itl.client.time_per_output_token": 1,
            "itl.client.stream.outcomes": 1,
        },
    )


@created
@pytest.mark.requirement("R43")
def test_the_metrics_of_a_stream_without_span_have_the_same_attributes(
    surface: Surface, face: Face, server: ScriptedServer
) -> None:
    attributes = []
    for way in WAYS.values():
        server.always(REPLIES[surface.wire])
        with way() as telemetry:
            play(read, surface, face, server)
            attributes.append(dict(telemetry.metrics["itl.client.stream.outcomes"][0].attributes))
    assert attributes == [attributes[0]] * len(WAYS)
