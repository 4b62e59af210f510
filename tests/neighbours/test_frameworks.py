"""What frameworks on top of the SDK give back is unchanged, and each of their requests is measured once: R18."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from beside import Pair, exchanged
from frameworks import FRAMEWORKS, Framework, _pydantic_ai
from providers import PROVIDERS

from otel_itl.sdks.registry import REGISTRY

pytestmark = pytest.mark.requirement("R18")


def missing(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:
        return True


def case(framework: Framework) -> Any:
    modules = (framework.module, REGISTRY[framework.sdk].package)
    skip = pytest.mark.skipif(any(map(missing, modules)), reason=f"{framework.package} or its SDK is not installed")
    return pytest.param(framework, id=str(framework), marks=skip)


each = pytest.mark.parametrize("framework", [case(framework) for framework in (*FRAMEWORKS, *PROVIDERS)])


@each
def test_what_the_framework_gives_and_sends_is_unchanged_and_each_request_is_one_record(
    framework: Framework, pair: Pair
) -> None:
    bare = exchanged(framework.ask)
    pair.put_on("ours")
    measured = exchanged(framework.ask)
    assert (measured, pair.records()) == (bare, len(bare.bodies))


@each
def test_every_output_chunk_of_the_framework_is_measured(framework: Framework, pair: Pair) -> None:
    pair.put_on("ours")
    exchanged(framework.ask)
    pair.records()
    (span,) = pair.spans("otel_itl")
    # A framework may block the loop while the first chunk comes: then its time is not known.
    first = span.attributes.get("itl.time_to_first_token", 0.02)
    assert (span.attributes["itl.output_chunk.count"], first > 0.01) == (5, True)


@pytest.mark.skipif(missing("pydantic_ai"), reason="pydantic-ai-slim is not installed")
@pytest.mark.requirement("R65")
def test_what_pydantic_ais_own_instrumentation_records_is_not_recorded_twice(pair: Pair) -> None:
    from pydantic_ai.models.instrumented import InstrumentationSettings

    settings = InstrumentationSettings(
        tracer_provider=pair.captured.tracer_provider, meter_provider=pair.captured.meter_provider
    )
    pair.put_on("ours")
    exchanged(lambda url: _pydantic_ai(url, settings))
    pair.records()
    metrics = pair.captured.metrics
    counted = {
        name: sum(point.count for point in metrics[name] if point.attributes.get("gen_ai.token.type") != "input")
        for name in (
            "gen_ai.client.operation.duration",
            "gen_ai.client.operation.time_to_first_chunk",
            "gen_ai.client.token.usage",
        )
    }
    assert counted == dict.fromkeys(counted, 1)
