"""The SDKs' own clients, pointed at a scripted server."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeVar

import anthropic
import openai
import pytest
from faces import Face, entered, run
from measuring import measured, timeline_of
from surfaces import ANTHROPIC, AZURE, COMPATIBLE, OPENAI, Host, Surface

from otel_itl.core.timeline import Timeline
from otel_itl.testing import Script, ScriptedServer
from otel_itl.testing.exchange import Exchange

T = TypeVar("T")
SDKS: Final[dict[str, ModuleType]] = {"openai": openai, "anthropic": anthropic}
OPTIONS: Final = {"api_key": "none", "max_retries": 0, "timeout": 5.0}


def client_of(host: Host, face: Face, server: ScriptedServer, **options: Any) -> Any:
    """A client of the SDK that asks `host`, whose name leads to the scripted server.

    `request_hooks` are called with each HTTP request; every other option is the client's own.
    """
    hooks = [_to_loopback, *options.pop("request_hooks", ())]
    return _MAKERS[host](face, server, {"request": [_as_face(hook, face) for hook in hooks]}, {**OPTIONS, **options})


def play(
    scenario: Callable[[Surface, Any], Coroutine[Any, Any, T]],
    surface: Surface,
    face: Face,
    server: ScriptedServer,
    **options: Any,
) -> T:
    """What a scenario returns that is given the surface and a client of its own; skips what the SDK lacks."""

    async def played(surface: Surface, client: Any) -> T:
        skip_what_is_missing(surface, client)
        return await scenario(surface, client)

    return run_with_client(played, surface, face, server, **options)


class Undisturbed(NamedTuple):
    """What is told of a stream whose caller the machine did not keep from reading."""

    attributes: dict[str, Any]
    """Of the span."""
    timeline: Timeline
    metrics: dict[str, list[Any]]
    exchange: Exchange


def undisturbed(
    scenario: Callable[[Surface, Any], Coroutine[Any, Any, object]],
    surface: Surface,
    face: Face,
    server: ScriptedServer,
    *scripts: Script,
) -> Undisturbed:
    """What is told of a stream that needs a caller who reads as soon as there is something to read.

    Where the machine had other work, it is asked for again; the fifth time is what it is.
    """
    for _ in range(5):
        server.clear()
        server.play(*scripts)
        with measured() as telemetry:
            play(scenario, surface, face, server)
            (span,) = telemetry.spans
            metrics = telemetry.metrics
        attributes = dict(span.attributes)
        if not disturbed(attributes):
            break
    return Undisturbed(attributes, timeline_of(span), metrics, server.wait_for(len(scripts))[-1])


def disturbed(attributes: dict[str, Any]) -> bool:
    """Whether a caller who did nothing but read was late all the same: the machine had other work."""
    first_is_hidden = attributes["itl.chunk.count"] > 0 and "gen_ai.response.time_to_first_chunk" not in attributes
    late = ("itl.consumer.bound", "itl.latency.imputed", "itl.latency.excluded")
    return first_is_hidden or any(attributes[name] for name in late)


def run_with_client(
    scenario: Callable[[Surface, Any], Coroutine[Any, Any, T]],
    surface: Surface,
    face: Face,
    server: ScriptedServer,
    **options: Any,
) -> T:
    """As `play`, whether or not the SDK has the surface."""

    async def ran() -> T:
        async with entered(client_of(surface.host, face, server, **options)) as client:
            return await scenario(surface, client)

    return run(face, ran())


def keep_what_is_made(client: Any) -> list[Any]:
    """A list that every chunk object is put into when the SDK makes it."""
    made: list[Any] = []
    process = client._process_response_data

    def kept(**data: Any) -> Any:
        chunk = process(**data)
        made.append(chunk)
        return chunk

    client._process_response_data = kept
    return made


def skip_what_is_missing(surface: Surface, client: Any) -> None:
    """Skip a test of a surface that the installed SDK does not have."""
    missing = surface.missing(client)
    if missing is not None:
        release = ".".join(SDKS[surface.sdk].__version__.split(".")[:2])
        pytest.skip(f"{surface.sdk} {release} has no {missing}")


def _openai(face: Face, server: ScriptedServer, hooks: dict[str, Any], options: dict[str, Any]) -> Any:
    make = openai.AsyncOpenAI if face == "async" else openai.OpenAI
    return make(base_url=server.openai_url, http_client=_http_client(openai, face, hooks), **options)


def _compatible(face: Face, server: ScriptedServer, hooks: dict[str, Any], options: dict[str, Any]) -> Any:
    make = openai.AsyncOpenAI if face == "async" else openai.OpenAI
    base_url = f"http://{COMPATIBLE.name}:{server.port}/openai/v1"
    return make(base_url=base_url, http_client=_http_client(openai, face, hooks), **options)


def _azure(face: Face, server: ScriptedServer, hooks: dict[str, Any], options: dict[str, Any]) -> Any:
    make = openai.AsyncAzureOpenAI if face == "async" else openai.AzureOpenAI
    return make(
        azure_endpoint=f"http://{AZURE.name}:{server.port}",
        api_version="2024-06-01",
        http_client=_http_client(openai, face, hooks),
        **options,
    )


def _anthropic(face: Face, server: ScriptedServer, hooks: dict[str, Any], options: dict[str, Any]) -> Any:
    make = anthropic.AsyncAnthropic if face == "async" else anthropic.Anthropic
    return make(base_url=server.anthropic_url, http_client=_http_client(anthropic, face, hooks), **options)


_MAKERS: Final = {OPENAI: _openai, AZURE: _azure, COMPATIBLE: _compatible, ANTHROPIC: _anthropic}


def _http_client(sdk: ModuleType, face: Face, hooks: dict[str, Any]) -> Any:
    make = sdk.DefaultAsyncHttpxClient if face == "async" else sdk.DefaultHttpxClient
    # No certificates: loading them takes longer than most tests, for no TLS.
    return make(verify=False, event_hooks=hooks)


def _as_face(hook: Any, face: Face) -> Any:
    async def awaited(request: Any) -> None:
        hook(request)

    return awaited if face == "async" else hook


def _to_loopback(request: Any) -> None:
    request.url = request.url.copy_with(host="127.0.0.1")
