"""A scripted server, the SDKs' clients, and the telemetry of what they stream."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from clients import SDKS, run_with_client
from faces import FACES, Face, taken
from measuring import bare, measured
from surfaces import OTHER_STREAMS, STREAMS, Surface

from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, ScriptedServer


@pytest.fixture(scope="session")
def running_server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def _warm(running_server: ScriptedServer) -> None:
    """What an SDK does when it is first used, such as making its types, is not part of any test of timing."""

    async def read(surface: Surface, client: Any) -> None:
        if surface.missing(client) is None:
            async with surface.stream(client) as stream:
                await taken(stream)

    for surface in (*STREAMS, *OTHER_STREAMS):
        for face in FACES if surface.sdk in SDKS else ():
            run_with_client(read, surface, face, running_server)


@pytest.fixture(scope="module", autouse=True)
def _settled(_warm: None) -> Iterator[None]:
    """What is there by now stays: the garbage collector need not look at it in each test that drops a stream.

    Other folders' tests find the SDKs, and the garbage collector, as they are.
    """
    gc.collect()
    gc.freeze()
    yield
    bare()
    gc.unfreeze()


@pytest.fixture
def server(running_server: ScriptedServer) -> ScriptedServer:
    """A server that knows nothing of the tests before: stopping one takes longer than most tests."""
    running_server.clear()
    return running_server


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Face:
    chosen: Face = request.param
    return chosen


@pytest.fixture
def telemetry() -> Iterator[CapturedTelemetry]:
    with measured() as captured:
        yield captured


@pytest.fixture
def brisk_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was dropped is swept up ten times as often as usual: tests are not to wait for it."""
    monkeypatch.setattr(runtime.finalizer.thread, "interval", 0.025)
