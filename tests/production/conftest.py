"""What the tests of production share: the modules of the SDKs' tests, and streams that are measured or bare."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from clients import SDKS
from faces import FACES, Face, entered, run, taken
from measuring import bare
from replies import whole
from surfaces import OTHER_STREAMS, STREAMS, Surface
from wires import Line, client_on


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Face:
    chosen: Face = request.param
    return chosen


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:
    """What an SDK does when it is first used, such as making its types."""

    async def read(surface: Surface, face: Face) -> None:
        async with entered(client_on(Line(whole(surface.wire)), surface, face)) as client:
            if surface.missing(client) is None:
                async with surface.stream(client) as stream:
                    await taken(stream)

    for surface in (*STREAMS, *OTHER_STREAMS):
        for face in FACES if surface.sdk in SDKS else ():
            run(face, read(surface, face))


@pytest.fixture(scope="module", autouse=True)
def _settled(_warm: None) -> Iterator[None]:
    """What is there by now stays: the garbage collector need not look at it whenever a test drops a stream.

    Other folders' tests find the SDKs, and the garbage collector, as they are.
    """
    gc.collect()
    gc.freeze()
    yield
    bare()
    gc.unfreeze()
    gc.collect()
