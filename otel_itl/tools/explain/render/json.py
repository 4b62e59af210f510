"""Renders an explanation as JSON; docs/explain.md has the schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from otel_itl.core.moments import format_time
from otel_itl.core.timeline import SECOND
from otel_itl.tools.explain.findings import Change, Effect, Explanation, Finding, ModelFacts, Switch
from otel_itl.tools.explain.render import words

SCHEMA = "otel-itl.explain.v1"


def explanation_to_json(explanation: Explanation, skipped_input: Mapping[str, int]) -> str:
    """Return an explanation as indented JSON. Times are seconds, shares are between 0 and 1; what is absent is null.

    Args:
        explanation: the findings.
        skipped_input: kind of what was skipped in the input → how often.
    """
    data = explanation_to_data(explanation) | {"skipped_input": dict(skipped_input)}
    return json.dumps(data, indent=2, ensure_ascii=False)


def explanation_to_data(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation in the types of JSON, with stable keys."""
    others = {id(switch) for switch in words.other_switches(explanation)}
    return {
        "schema": SCHEMA,
        "streams": explanation.streams,
        "known": {target: asdict(known) for target, known in explanation.known.items()},
        "instances": explanation.instances,
        "own_load": "all processes" if explanation.own_load_is_fleet_wide else "this input",
        "zone": explanation.zone,
        "first": format_time(explanation.first_unix_ns) if explanation.first_unix_ns else None,
        "last": format_time(explanation.last_unix_ns) if explanation.last_unix_ns else None,
        "models": [_model(model.facts, explanation) for model in words.describe_models(explanation)],
        "findings": [_finding(finding, explanation) for finding in explanation.findings],
        "undecided": [
            _finding(finding, explanation) | {"sentence": words.describe_undecided(finding, explanation)}
            for finding in explanation.undecided
        ],
        "switches": [_switch(switch, explanation, is_sole=id(switch) in others) for switch in explanation.switches],
    }


def _model(facts: ModelFacts, explanation: Explanation) -> dict[str, Any]:
    """Return what the findings of a model rest on."""
    return asdict(facts) | {"silence": words.describe_silence(facts, explanation) or None}


def _finding(finding: Finding, explanation: Explanation) -> dict[str, Any]:
    """Return a finding with its sentences, its size and its picture."""
    return asdict(finding) | {
        "sentence": words.describe_finding(finding, explanation),
        "points_to": finding.origin,
        "points_to_sentence": finding.origin.words,
        "effect": _effect(finding.effect),
        "change": finding.change and _change(finding.change),
        "bend": finding.bend
        and {"at": finding.bend.at, "below": _effect(finding.bend.below), "above": _effect(finding.bend.above)},
    }


def _effect(effect: Effect) -> dict[str, Any]:
    """Return a size with its interval."""
    fields = effect._asdict()
    return fields | {"interval": [fields.pop("low"), fields.pop("high")]}


def _switch(switch: Switch, explanation: Explanation, *, is_sole: bool) -> dict[str, Any]:
    """Return a silent change; `sentence` is null where a finding has it."""
    return {
        "sentence": words.describe_switch(switch, explanation) if is_sole else None,
        "model": switch.model,
        "driver": switch.driver,
        **_change(switch.change),
        "streams_before": switch.streams_before,
        "streams_after": switch.streams_after,
    }


def _change(change: Change) -> dict[str, Any]:
    """Return a change; its moment in Unix seconds."""
    at = None if change.unix_ns is None else change.unix_ns / SECOND
    return {"before": change.before, "after": change.after, "at": at}
