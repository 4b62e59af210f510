"""An error reaches the caller unchanged, and is on the span."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Final

import pytest
from clients import keep_what_is_made, play
from faces import FACES, Face, taken
from measuring import bare, measured, span_of
from opentelemetry.trace import StatusCode
from surfaces import CREATED, EVERY_CREATED, STREAMS, Surface

from otel_itl.testing import (
    CapturedTelemetry,
    Script,
    ScriptedServer,
    Step,
    chat,
    cohere,
    faults,
    gemini,
    interactions,
    messages,
    mistral,
    ollama,
    responses,
)
from tests.pairwise import mark_beyond_pairs

CANARY: Final = "the-prompt-was-quoted-here"
BUILDERS: Final[dict[str, ModuleType]] = {
    "chat": chat,
    "responses": responses,
    "messages": messages,
    "gemini": gemini,
    "interactions": interactions,
    "ollama_chat": ollama,
    "cohere": cohere,
    "mistral": mistral,
}
REPLIES: Final[dict[str, Script]] = {wire: builder.reply(3) for wire, builder in BUILDERS.items()}
FAULTS: Final[dict[str, Step]] = {
    "connection closed": faults.close(),
    "connection reset": faults.reset(after=0.02),
    "invalid JSON": faults.invalid_json(),
    "invalid UTF-8": faults.invalid_utf8(),
}

created = pytest.mark.parametrize("surface", CREATED, ids=str)
every_created = pytest.mark.parametrize("surface", EVERY_CREATED, ids=str)
streams = pytest.mark.parametrize("surface", STREAMS, ids=str)


async def failure(surface: Surface, client: Any) -> Exception | None:
    """What reaches the caller who reads a stream to its end."""
    try:
        async with surface.stream(client) as stream:
            await taken(stream)
    except Exception as error:
        return error
    return None


def broken(surface: Surface, fault: str) -> Script:
    return REPLIES[surface.wire].cut(1) + (
        BUILDERS[surface.wire].error(CANARY) if fault == "error event" else FAULTS[fault]
    )


def factors(surface: Surface, face: Face, cause: Any) -> tuple[object, ...]:
    """What may make a difference to an error."""
    return surface.wire, face, cause


def each_cause(causes: Iterable[Any], surfaces: Iterable[Surface]) -> list[Any]:
    """Every surface, face and cause of an error."""
    params = [
        pytest.param(surface, face, cause, id=f"{cause}-{surface}-{face}")
        for cause in causes
        for surface in surfaces
        for face in FACES
    ]
    return mark_beyond_pairs(params, factors, lambda surface, *_: surface is CREATED[0])


@pytest.mark.parametrize(("surface", "face", "fault"), each_cause(["error event", *FAULTS], EVERY_CREATED))
@pytest.mark.requirement("R17")
def test_an_error_has_the_same_type_and_message(
    surface: Surface, face: Face, fault: str, server: ScriptedServer
) -> None:
    server.always(broken(surface, fault))
    bare()
    expected = play(failure, surface, face, server)
    with measured():
        actual = play(failure, surface, face, server)
    assert (type(actual), str(actual)) == (type(expected), str(expected))


@streams
@pytest.mark.requirement("R17", "R21")
def test_an_error_is_the_very_object_that_the_sdk_raised(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    raised = LookupError("from inside the SDK")

    async def scenario(surface: Surface, client: Any) -> Exception | None:
        made = keep_what_is_made(client)
        process = client._process_response_data

        def failing(**data: Any) -> Any:
            if len(made) == 2:
                raise raised
            return process(**data)

        client._process_response_data = failing
        return await failure(surface, client)

    assert play(scenario, surface, face, server) is raised
    assert [span.attributes["error.type"] for span in telemetry.spans] == ["LookupError"]


@every_created
@pytest.mark.requirement("R68")
def test_the_text_of_an_error_is_nowhere_in_the_telemetry(
    surface: Surface,
    face: Face,
    server: ScriptedServer,
    telemetry: CapturedTelemetry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.always(broken(surface, "error event"))
    play(failure, surface, face, server)
    (span,) = telemetry.spans
    assert span.status.status_code is StatusCode.ERROR
    emitted = [span.to_json(), *(str(log.raw) for log in telemetry.logs), str(telemetry.metrics)]
    own = [record.getMessage() for record in caplog.records if record.name.startswith("otel_itl")]
    assert [CANARY in text for text in [*emitted, *own]] == [False] * len([*emitted, *own])


@created
def test_a_failed_operation_is_a_log_event_of_its_type(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.always(broken(surface, "connection closed"))
    error = play(failure, surface, face, server)
    (span,) = telemetry.spans
    assert [(log.event_name, log.attributes["exception.type"], log.span_id) for log in telemetry.logs] == [
        ("gen_ai.client.operation.exception", type(error).__qualname__, span.context.span_id)
    ]


# --- before there is a stream ----------------------------------------------------------------------------------------


def refusals(status: int) -> Script:
    return faults.status(status, "no", headers={"retry-after-ms": "1"})


def known_attempts(server: ScriptedServer, attempts: int) -> int | None:
    """The attempts, where the SDK sends their number to the server; else None."""
    return attempts if "x-stainless-retry-count" in server.exchanges[-1].headers else None


@created
@pytest.mark.requirement("R7", "R40")
def test_a_retry_that_succeeds_is_one_span_of_two_attempts(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(refusals(429), REPLIES[surface.wire])
    assert play(failure, surface, face, server, max_retries=1) is None
    assert [exchange.status for exchange in server.exchanges] == [429, 200]
    assert [
        (span.attributes["itl.stream.outcome"], span.attributes.get("itl.request.attempts")) for span in telemetry.spans
    ] == [("completed", known_attempts(server, 2))]


@created
@pytest.mark.requirement("R40")
def test_a_request_that_succeeds_at_once_is_one_attempt(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(REPLIES[surface.wire])
    play(failure, surface, face, server, max_retries=1)
    assert [span.attributes.get("itl.request.attempts") for span in telemetry.spans] == [known_attempts(server, 1)]


@created
@pytest.mark.requirement("R40")
def test_the_time_to_first_token_includes_the_attempts_that_failed(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    refused = faults.status(429, "no", headers={"retry-after-ms": "40"})
    server.play(refused, BUILDERS[surface.wire].reply(1, first=0.03))
    play(failure, surface, face, server, max_retries=1)
    first, second = server.wait_for(2)
    served = (second.output_times_ns[0] - first.arrived_ns) / 1e9
    assert span_of(telemetry).attributes["itl.time_to_first_token"] >= served >= 0.07


REFUSALS: Final = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    429: "RateLimitError",
    500: "InternalServerError",
}


@pytest.mark.parametrize(("surface", "face", "status"), each_cause(REFUSALS, CREATED))
@pytest.mark.requirement("R7", "R21")
def test_a_refused_request_is_one_failed_span_with_the_type_of_the_exception(
    surface: Surface,
    face: Face,
    status: int,
    server: ScriptedServer,
    telemetry: CapturedTelemetry,
) -> None:
    server.always(refusals(status))
    play(failure, surface, face, server, max_retries=1)
    assert [
        (span.status.status_code, span.attributes["error.type"], span.attributes["itl.stream.outcome"])
        for span in telemetry.spans
    ] == [(StatusCode.ERROR, REFUSALS[status], "error")]


@created
@pytest.mark.requirement("R21", "R41")
def test_a_server_that_is_not_there_is_one_failed_span(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and never listens

        async def scenario(surface: Surface, client: Any) -> Exception | None:
            client.base_url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
            return await failure(surface, client)

        play(scenario, surface, face, server)
    assert [
        (span.status.status_code, span.attributes["error.type"], span.attributes["itl.chunk.count"])
        for span in telemetry.spans
    ] == [(StatusCode.ERROR, "APIConnectionError", 0)]


@created
@pytest.mark.requirement("R21")
def test_headers_that_never_come_are_one_failed_span(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.always(faults.never())
    play(failure, surface, face, server, timeout=0.05)
    assert [(span.status.status_code, span.attributes["error.type"]) for span in telemetry.spans] == [
        (StatusCode.ERROR, "APITimeoutError")
    ]
