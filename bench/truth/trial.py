"""One run of a scenario: a script is played, a tool measures, and both say what they saw."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from random import Random

from bench.truth.callers import read
from bench.truth.figures import Measured, compared
from bench.truth.proxy import BufferingProxy
from bench.truth.scenarios import Scenario, warm_up
from bench.truth.sent import true_stream
from bench.truth.tools import NAIVE, OURS, instrumentations, naive
from otel_itl.testing import ScriptedServer


def measured(scenario: Scenario, server: ScriptedServer, seed: int) -> Mapping[str, Measured]:
    """Run it once under each instrumentation, with equal scripts; the caller's stopwatch runs beside `otel_itl`."""
    found: dict[str, Measured] = {}
    for tool, instrumentation in instrumentations(scenario.wire).items():
        models = _play(scenario, server, seed)
        gc.collect()
        gc.freeze()
        buffering = scenario.buffering
        proxy = (
            nullcontext()
            if buffering is None
            else BufferingProxy(server.port, size=buffering.size, delay=buffering.delay)
        )
        with proxy as between, instrumentation(partial(_warm_up, scenario, server)) as readings:
            url = server.url if between is None else f"http://127.0.0.1:{between.port}"
            reads = read(scenario.wire, scenario.face, url, models, scenario.pause, scenario.block)
            forwards = None if between is None else between.forwarded()
        exchanges = {
            exchange.json["model"]: exchange.wait_done() for exchange in server.exchanges if exchange.status == 200
        }
        true = {
            one.model: true_stream(one.called_ns, exchanges[one.model], counted=scenario.counted, forwards=forwards)
            for one in reads
        }
        # Exchanges are read from the server when they are looked at: not before they have been.
        server.clear()
        for name, said in {tool: readings, **({NAIVE: naive(reads)} if tool == OURS else {})}.items():
            assert said.keys() == true.keys(), f"{name} has measured {len(said)} of {len(true)} streams"
            found[name] = compared(
                [said[model] for model in models], [true[model] for model in models], scenario.knowable
            )
    return found


def _warm_up(scenario: Scenario, server: ScriptedServer) -> None:
    """The first stream pays for what is set up then: let it be one that nothing is measured of."""
    warming = warm_up(scenario.wire)
    read(scenario.wire, "sync", server.url, _play(warming, server, 0))


def _play(scenario: Scenario, server: ScriptedServer, seed: int) -> list[str]:
    """Queue the scripts of each stream under a model of its own; returns the models."""
    models = [f"{scenario.name}, stream {number}" for number in range(scenario.streams)]
    for model in models:
        server.play(*scenario.scripts(Random(f"{model}, run {seed}")), model=model)
    return models
