"""One run of a scenario: the server plays a script, a tool measures, and both results are compared."""

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
    """Figures of each tool in one run, and how punctual the server was."""

    measured: dict[str, Measured]
    """The figures by tool."""
    sent: int
    """Number of events."""
    late: int
    """Number of events that left the server more than 0.5 ms late, as the machine was busy."""


def run(scenario: Scenario, server: ScriptedServer, seed: int) -> Trial:
    """Run a scenario once with each instrumentation, with equal scripts; the caller's clock runs beside `otel_itl`."""
    found: dict[str, Measured] = {}
    lateness: list[int] = []
    for tool, instrumentation in instrumentations(scenario.caller.sdk).items():
        models = _play(scenario, server, seed)
        gc.collect()
        gc.freeze()
        with (
            _between(scenario, server) as between,
            instrumentation(partial(_warm_up, scenario, server)) as readings,
        ):
            reads = scenario.caller.read(server.url if between is None else between.url, models)
            left = None if between is None else between.left()
        exchanges = {exchange.model: exchange.wait_done() for exchange in server.exchanges if exchange.status == 200}
        true = {
            one.model: true_stream(one.called_ns, exchanges[one.model], counted=scenario.counted, left=left)
            for one in reads
        }
        lateness += [sent.at_ns - sent.due_ns for model in models for sent in exchanges[model].sent]
        # An exchange is fetched from the server when it is first read: only after that the server may be cleared.
        server.clear()
        for name, measured in {tool: readings, **({NAIVE: naive(reads)} if tool == OURS else {})}.items():
            assert measured.keys() == true.keys(), f"{name} has measured {len(measured)} of {len(true)} streams"
            found[name] = compared(
                [measured[model] for model in models], [true[model] for model in models], scenario.knowable
            )
    return Trial(found, sent=len(lateness), late=sum(ns > LATE_NS for ns in lateness))


def _between(scenario: Scenario, server: ScriptedServer) -> AbstractContextManager[Between | None]:
    return nullcontext() if scenario.between is None else scenario.between(server.port)


def _warm_up(scenario: Scenario, server: ScriptedServer) -> None:
    """Read a stream that is not measured, because the first one pays for what is set up then."""
    warming = warm_up(scenario.caller)
    warming.caller.read(server.url, _play(warming, server, 0))


def _play(scenario: Scenario, server: ScriptedServer, seed: int) -> list[str]:
    """Queue the scripts of each stream under a model of its own; return the models."""
    models = [f"{scenario.name}, stream {number}" for number in range(scenario.streams)]
    for model in models:
        server.play(*scenario.scripts(Random(f"{model}, run {seed}")), model=model)  # noqa: S311 - gaps
    return models
