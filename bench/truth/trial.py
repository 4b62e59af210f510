"""One run of a scenario: a script is played, a tool measures, and both say what they saw."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from random import Random
from typing import NamedTuple

from bench.truth.between import Between
from bench.truth.figures import Measured, compared
from bench.truth.scenarios import Scenario, warm_up
from bench.truth.sent import true_stream
from bench.truth.tools import NAIVE, OURS, instrumentations, naive
from otel_itl.testing import ScriptedServer

LATE_NS = 500_000


class Trial(NamedTuple):
    """What each tool said in one run with it, and how well the server kept to its script."""

    measured: dict[str, Measured]
    """By tool."""
    sent: int
    """Events."""
    late: int
    """Those that left the server more than half a millisecond late: the machine had other things to do."""


def run(scenario: Scenario, server: ScriptedServer, seed: int) -> Trial:
    """Run a scenario once under each instrumentation, with equal scripts; a stopwatch runs beside `otel_itl`."""
    found: dict[str, Measured] = {}
    lateness: list[int] = []
    for tool, instrumentation in instrumentations(scenario.caller.sdk).items():
        models = _play(scenario, server, seed)
        gc.collect()
        gc.freeze()
        with (
            _between(scenario, server) as between,
            instrumentation(partial(_warm_up, scenario, server, between)) as readings,
        ):
            reads = scenario.caller.read(server.url if between is None else between.url, models)
            left = None if between is None else between.left()
        exchanges = {
            exchange.json["model"]: exchange.wait_done() for exchange in server.exchanges if exchange.status == 200
        }
        true = {
            one.model: true_stream(one.called_ns, exchanges[one.model], counted=scenario.counted, left=left)
            for one in reads
        }
        lateness += [sent.at_ns - sent.due_ns for model in models for sent in exchanges[model].sent]
        # Exchanges are read from the server when they are looked at: not before they have been.
        server.clear()
        for name, said in {tool: readings, **({NAIVE: naive(reads)} if tool == OURS else {})}.items():
            assert said.keys() == true.keys(), f"{name} has measured {len(said)} of {len(true)} streams"
            found[name] = compared(
                [said[model] for model in models], [true[model] for model in models], scenario.knowable
            )
    return Trial(found, sent=len(lateness), late=sum(ns > LATE_NS for ns in lateness))


def _between(scenario: Scenario, server: ScriptedServer) -> AbstractContextManager[Between | None]:
    return nullcontext() if scenario.between is None else scenario.between(server.port)


def _warm_up(scenario: Scenario, server: ScriptedServer, between: Between | None) -> None:
    """The first stream pays for what is set up then: let it be one that nothing is measured of."""
    warming = warm_up(scenario.caller)
    url = between.url if between is not None and scenario.caller.http2 else server.url
    warming.caller.read(url, _play(warming, server, 0))
    if between is not None:
        between.left()


def _play(scenario: Scenario, server: ScriptedServer, seed: int) -> list[str]:
    """Queue the scripts of each stream under a model of its own; returns the models."""
    models = [f"{scenario.name}, stream {number}" for number in range(scenario.streams)]
    for model in models:
        server.play(*scenario.scripts(Random(f"{model}, run {seed}")), model=model)  # noqa: S311 - gaps
    return models
