"""Streams by the hundred thousand leave nothing behind, and the garbage collector may come at any moment."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any, Final

import pytest
from measuring import SHARED, measured
from replies import whole
from surfaces import CREATED
from wires import Line, client_on

from otel_itl import observe
from otel_itl.export.measured_spans import MAX_MEASURED_SPANS
from otel_itl.runtime import runtime

SECONDS: Final = float(os.environ.get("ITL_TEST_SECONDS", "20"))
"""How long the stress of the garbage collector goes on."""
STREAMS: Final = 100_000
ROOT: Final = Path(__file__).parents[2]


def abandon(streams: int) -> None:
    for _ in range(streams):
        next(observe(iter("ab"), provider="p", model="m"))


def settle() -> None:
    runtime.finalizer.finalize_pending()
    runtime.watchdog.forget_after_fork()  # a stream's deadline is forgotten when it comes, and that is seconds away
    SHARED.tracer_provider.force_flush()
    assert "itl.client.stream.outcomes" in SHARED.metrics
    SHARED.clear()
    gc.collect()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("R26")
def test_a_hundred_thousand_abandoned_streams_return_memory_and_registries_to_where_they_were() -> None:
    with measured():
        for _ in range(MAX_MEASURED_SPANS // 2_000 + 1):  # what is bounded is full
            abandon(2_000)
            settle()
        before = sys.getallocatedblocks()
        for _ in range(STREAMS // 2_000):
            abandon(2_000)
            settle()
        grown = sys.getallocatedblocks() - before
        # A twentieth of a block a stream is not a thing that is kept for each.
        assert (grown < STREAMS // 20, len(runtime.open_streams), runtime.finalizer.pending) == (True, 0, 0)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.requirement("R25")
def test_streams_that_the_collector_ends_while_metrics_are_collected_do_not_hang() -> None:
    until = time.monotonic() + SECONDS
    dropped, collections = [0] * 3, [0]

    def drop(place: int) -> None:
        with client_on(Line(whole("chat")), CREATED[0], "sync") as client:
            while time.monotonic() < until:
                cycle: list[Any] = [CREATED[0].open(client)]
                next(cycle[0])
                cycle.append(cycle)
                dropped[place] += 1

    def collect() -> None:
        while time.monotonic() < until:
            SHARED.meter_provider.force_flush()
            assert SHARED.metrics is not None
            SHARED.tracer_provider.force_flush()
            SHARED.clear()
            collections[0] += 1

    threshold = gc.get_threshold()
    with measured():
        threads = [
            *(threading.Thread(target=drop, args=(place,), daemon=True) for place in range(3)),
            *(threading.Thread(target=collect, daemon=True) for _ in range(2)),
        ]
        gc.set_threshold(20, 2, 2)  # often, and so within whatever is under way
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(SECONDS + 60)
        finally:
            gc.set_threshold(*threshold)
        assert ([thread.is_alive() for thread in threads], all(dropped), collections[0] > 0) == (
            [False] * 5,
            True,
            True,
        )
        gc.collect()
        runtime.finalizer.finalize_pending()
        assert (len(runtime.open_streams), dict(runtime.errors.counts)) == (0, {})


def test_nothing_listens_on_anything_but_this_machine(tmp_path: Path) -> None:
    """Neither the processes of the demo nor those of the scripted server do."""
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent(
            f"""
            import sys
            def heard(event, args):
                if event == "socket.bind":
                    with open({str(tmp_path / "bound")!r}, "a") as file:
                        print(args[1], file=file)
            sys.addaudithook(heard)
            """
        )
    )
    program = """
        from otel_itl.testing import ScriptedServer
        for process in (False, True):
            with ScriptedServer():
                pass
        from otel_itl.runtime import runtime
        import otel_itl
        otel_itl.instrument(token_events="none")
        list(otel_itl.observe(iter("ab"), provider="p", model="m"))
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "OTEL_TRACES_EXPORTER": "none"}
        | {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"},
        check=True,
        timeout=50,
    )
    bound = (tmp_path / "bound").read_text().splitlines()
    assert {address.partition(",")[0] for address in bound} == {"('127.0.0.1'"}
