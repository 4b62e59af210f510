"""Any attribute of the span or its resource: which are kept, which are compared, and what is said of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the extra `explain` is not installed")

from bench.explain.fleets import ALONE, ATTRIBUTES, NOTHING, SLOW_HOURS, simulate
from otel_itl.tools.explain.attribute_reader import MAX_READ, AttributeReader
from otel_itl.tools.explain.explaining import explain_observations
from otel_itl.tools.explain.findings import Driver, Explanation, Finding, Origin, Target
from otel_itl.tools.explain.observations import Observations
from otel_itl.tools.explain.render.words import describe_finding

TENANT, CONFOUNDED, PROMPTS = ATTRIBUTES


@cache
def fleet(kind: Any = TENANT) -> Observations:
    return simulate(kind, np.random.default_rng(1))


@cache
def explained(kind: Any = TENANT) -> Explanation:
    return explain_observations(fleet(kind))


def with_attribute(observations: Observations, key: str, value: Any) -> Observations:
    """The streams with one attribute more: a function of the stream and its number, None where it has none."""
    used = []
    for number, one in enumerate(observations.used):
        made = value(one, number)
        used.append(one if made is None else replace(one, attributes={**one.attributes, key: made}))
    return replace(observations, used=used)


def of_attributes(explanation: Explanation) -> list[Finding]:
    return [one for one in explanation.findings if one.driver is Driver.ATTRIBUTE]


def test_a_tenant_that_is_slow_is_named_with_its_size_and_not_as_the_cause() -> None:
    (finding,) = of_attributes(explained())
    said = describe_finding(finding, explained())
    assert said.startswith("Where tenant.id is acme, a token takes ")
    assert said.endswith(" than elsewhere.")
    assert (finding.origin, finding.effect.low <= 0.3 <= finding.effect.high) == (Origin.ATTRIBUTE, True)


def test_a_tenant_that_has_long_prompts_is_not_named_for_what_they_cost() -> None:
    assert [one.driver for one in explained(PROMPTS).findings] == [Driver.PROMPT]


def test_all_attributes_of_few_values_are_examined() -> None:
    expected = ["cloud.region", "host.name", "service.version", "template", "tenant.id"]
    assert explained().models[0].attributes == dict.fromkeys(Target, expected)


def test_with_by_no_other_attribute_is_examined() -> None:
    kept = [{"template": one.attributes["template"]} for one in fleet().used]
    used = [replace(one, attributes=attributes) for one, attributes in zip(fleet().used, kept, strict=True)]
    explanation = explain_observations(replace(fleet(), used=used, by="template"))
    assert (explanation.models[0].attributes[Target.ITL], of_attributes(explanation)) == (["template"], [])


def test_an_attribute_that_was_asked_for_and_is_nowhere_is_named_with_the_reason() -> None:
    explanation = explain_observations(replace(fleet(), by="nowhere"))
    assert explanation.models[0].untested[Target.ITL]["nowhere"] == "not recorded"


def test_an_attribute_with_a_value_of_its_own_for_each_stream_is_not_examined_and_it_says_so() -> None:
    found = explain_observations(with_attribute(fleet(), "request.id", lambda _, number: f"{number}"))
    assert found.models[0].untested[Target.ITL]["request.id"] == "too many values"


def test_an_attribute_that_goes_with_another_is_named_beside_it() -> None:
    """Of tenant acme, and of no other, the plan is gold: nothing in the data tells them apart."""
    found = explain_observations(
        with_attribute(fleet(), "plan", lambda one, _: "gold" if one.attributes["tenant.id"] == "acme" else "free")
    )
    (finding,) = of_attributes(found)
    assert {finding.attribute, *finding.twins} == {"plan", "tenant.id"}


def test_a_value_that_two_sessions_have_is_compared_over_two() -> None:
    """Two slow sessions of many streams are no tenant."""
    observations = simulate(NOTHING[0], np.random.default_rng(2))
    slow = {one.session for one in observations.used[100:101]} | {one.session for one in observations.used[400:401]}
    lasting = [
        replace(one, session=f"slow {number % 2}", itl=2 * (one.itl or 0.02), attributes={"tenant": "slow"})
        if number % 40 == 0 or one.session in slow
        else one
        for number, one in enumerate(observations.used)
    ]
    assert of_attributes(explain_observations(replace(observations, used=lasting))) == []


def test_streams_without_an_attribute_are_compared_with_those_that_have_it() -> None:
    observations = simulate(TENANT, np.random.default_rng(1))
    used = [
        replace(one, attributes={"flag": "on"} if one.attributes["tenant.id"] == "acme" else {})
        for one in observations.used
    ]
    (finding,) = of_attributes(explain_observations(replace(observations, used=used)))
    assert (finding.attribute, finding.change and finding.change.after) == ("flag", "on")


def test_a_deployment_after_which_tokens_are_slower_has_its_moment() -> None:
    observations = simulate(NOTHING[0], np.random.default_rng(1))
    used = [
        replace(one, itl=(one.itl or 0.02) * (1.6 if one.attributes["service.version"] == "2.1" else 1.0))
        for one in observations.used
    ]
    explanation = explain_observations(replace(observations, used=used))
    (finding,) = of_attributes(explanation)
    assert finding.change is not None
    assert (finding.attribute, finding.change[:2]) == ("service.version", ("2.0", "2.1"))
    assert " service.version was 2.1 instead of 2.0: a token takes " in describe_finding(finding, explanation)


def test_what_follows_from_the_answer_is_no_driver() -> None:
    read = {"itl.stall.count": 1, "gen_ai.usage.output_tokens": 3, "error.type": "x", "tenant": "a", "is_beta": True}
    assert AttributeReader().read(read) == {"tenant": "a", "is_beta": "true"}


def test_an_attribute_that_was_asked_for_is_kept_whatever_it_is() -> None:
    assert AttributeReader("error.type").read({"error.type": "x", "tenant": "a"}) == {"error.type": "x"}


def test_an_attribute_with_too_many_values_is_no_longer_kept() -> None:
    reader = AttributeReader()
    for number in range(MAX_READ + 1):
        reader.read({"id": f"{number}"})
    assert (reader.read({"id": "1"}), reader.many) == ({}, {"id"})


def test_streams_with_the_same_attributes_share_them() -> None:
    reader = AttributeReader()
    assert reader.read({"tenant": "a"}) is reader.read({"tenant": "a"})


def slowed(observations: Observations, key: str, factor: dict[str, float]) -> Observations:
    """The streams, each with a value of an attribute in turn, and with the pace of that value."""
    names = list(factor)
    named = with_attribute(observations, key, lambda _, number: names[number % len(names)])
    used = [replace(one, itl=(one.itl or 0.0) * factor[one.attributes[key]]) for one in named.used]
    return replace(named, used=used)


def test_one_value_of_several_is_compared_with_all_others() -> None:
    zones = {"a": 2.0, "b": 0.7, "c": 1.0}
    explanation = explain_observations(slowed(fleet(NOTHING[0]), "zone", zones))
    (finding,) = [one for one in of_attributes(explanation) if one.attribute == "zone"]
    # The geometric mean of the others is 0.84.
    assert (finding.change and finding.change.after, finding.effect.low < 2.0 / 0.84 - 1 < finding.effect.high) == (
        "a",
        True,
    )


def test_a_tenant_of_some_hours_is_named_beside_the_window_and_nothing_points_upstream() -> None:
    slow_hours = next(one for one in ALONE if one.name.startswith("every day"))

    def tenant(one: Any, _: int) -> str:
        return "morning" if one.start_ns // 3_600_000_000_000 % 24 in range(*SLOW_HOURS) else "day"

    explanation = explain_observations(with_attribute(fleet(slow_hours), "tenant.kind", tenant))
    (finding,) = [one for one in explanation.findings if one.driver is Driver.CALENDAR]
    said = describe_finding(finding, explanation)
    assert said.endswith(" The attribute tenant.kind varies together with it: the effect may be of either.")
    assert finding.origin is Origin.ATTRIBUTE
