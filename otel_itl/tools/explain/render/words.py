"""The sentences of an explanation, which all its forms share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final, NamedTuple

from otel_itl.core.timeline import SECOND
from otel_itl.tools.explain.findings import (
    Bend,
    Change,
    Driver,
    Explanation,
    Finding,
    ModelFacts,
    Switch,
    Target,
    Unit,
)
from otel_itl.tools.explain.render.amounts import (
    Amount,
    format_amount,
    format_moment,
    format_share_of_variance,
    format_silence,
    format_window,
)
from otel_itl.tools.report.certainty import Cause, describe_figures, describe_set_aside, find_remedy
from otel_itl.tools.report.render.number_format import pluralize
from otel_itl.tools.report.set_aside import MAX_SET_ASIDE_SHARE

MIN_KNOWN_SHARE: Final = 0.95
"""Where a latency is known for fewer of the streams, those that lack it may be the slow ones."""
_WORDS: Final = {driver.value: driver.words for driver in Driver}
"""Driver → its words; any other name is that of an attribute."""
_MINUTE: Final = 60
_HOUR: Final = 3_600


def describe_finding(finding: Finding, explanation: Explanation) -> str:
    """Return a finding as one sentence: what, by how much, and the 95 % interval in brackets.

    A second one names what varies together with it.
    """
    twins = " and ".join(f"the {_WORDS.get(name, f'attribute {name}')}" for name in finding.twins)
    vary = "vary" if len(finding.twins) > 1 else "varies"
    doubt = f" {twins[0].upper()}{twins[1:]} {vary} together with it: the effect may be of either." if twins else ""
    return _describe_effect(finding, explanation) + doubt


def _describe_effect(finding: Finding, explanation: Explanation) -> str:
    """Return what a driver does, as one sentence."""
    amount = format_amount(finding.effect)
    if finding.driver is Driver.CALENDAR and finding.window is not None:
        at_load = f"at the same load {_describe_whose(explanation)}"
        return f"{format_window(finding.window)} {_slower(finding, amount)} {at_load}."
    if finding.driver is Driver.IDLE and finding.idle_threshold is not None:
        return f"After {format_silence(finding.idle_threshold)} of silence {_longer(finding, amount)}."
    if finding.attribute is not None and finding.change is not None and finding.change.unix_ns is None:
        where = f"Where {finding.attribute} is {finding.change.after}"
        return f"{where}, {_longer(finding, amount)} than {finding.change.before}."
    if finding.change is not None:
        clause = _describe_change(finding.attribute or finding.driver, finding.model, finding.change)
        return f"{clause}: {_longer(finding, amount)}."
    bend = finding.bend
    if finding.driver is Driver.OWN_LOAD:
        subject = f"With each further open stream {_describe_whose(explanation)}"
        runs = f", over {finding.runs:,} whole runs" if finding.runs is not None else ""
        predicate = _longer(finding, format_amount(bend.above) if bend else amount)
    else:
        subject, runs = _each(finding, explanation), ""
        predicate = _costs(finding, format_amount(bend.above) if bend else amount)
    return f"{subject} {predicate}{'' if bend is None else _describe_bend(finding, bend)}{runs}."


def _describe_bend(finding: Finding, bend: Bend) -> str:
    """Return from where on a cost is that, and what it is up to there, as the end of a sentence."""
    below = format_amount(bend.below)
    unit = "" if finding.driver is Driver.OWN_LOAD else " prompt tokens"
    size = f"{below.size}{' less' if below.is_negative else ''} ({below.interval})"
    return f" from about {bend.at:,.0f}{unit} on, and {size} up to there"


def describe_undecided(finding: Finding, explanation: Explanation) -> str:
    """Return what depends on when chunks came: that the caller's machine decides, and what to do."""
    return (
        f"The caller's machine decides whether {finding.target.words} depends on the {finding.driver.words}: as "
        f"measured it does, and not if all chunks came as early, or all gaps were as long, as they may have. "
        f"{find_remedy(explanation.known.values())}"
    )


def describe_switch(switch: Switch, explanation: Explanation) -> str:
    """Return a silent change that no finding has as one sentence."""
    of_model = [facts for facts in explanation.models if facts.model == switch.model]
    is_examined = any(switch.driver in drivers for facts in of_model for drivers in facts.tested.values())
    result = "no latency is seen to have changed with it" if is_examined else "it was not examined apart"
    return f"{_describe_change(switch.driver, switch.model, switch.change)}; {result}."


def describe_silence(facts: ModelFacts, explanation: Explanation) -> str:
    """Return which latencies of a model nothing explains, and what was examined; empty where each has a finding."""
    if not facts.tested:
        return "Too few streams to explain anything."
    if not any(facts.tested.values()):
        return f"Nothing could be examined, over {pluralize(facts.streams, 'stream')}."
    findings = [*explanation.findings, *explanation.undecided]
    found = {finding.target for finding in findings if finding.model == facts.model}
    silent = [target for target in (Target.TTFT, Target.ITL) if target not in found and facts.tested.get(target)]
    if not silent:
        return ""
    drivers = [one for one in Driver if one is not Driver.ATTRIBUTE]
    tested = [one.words for one in drivers if any(one in facts.tested[target] for target in silent)]
    tested += sorted({key for target in silent for key in facts.attributes.get(target, ())})
    latencies = " or ".join(target.words for target in silent)
    return (
        f"Nothing that was examined explains {latencies}, over {pluralize(facts.streams, 'stream')}; "
        f"examined: {', '.join(tested)}."
    )


def describe_untested(facts: ModelFacts) -> Iterator[str]:
    """Yield a sentence on each latency of which something was not examined, and why."""
    for target, count in facts.known.items():
        if target in facts.tested:
            if count < MIN_KNOWN_SHARE * facts.streams:
                yield (
                    f"{target.words} is known for {count:,} of {pluralize(facts.streams, 'stream')}; what kept the "
                    "others from having it was not examined, and may hide a part of an effect."
                )
            reasons = facts.untested.get(target, {})
            grouped = {
                reason: [_WORDS.get(name, name) for name, why in reasons.items() if why == reason]
                for reason in dict.fromkeys(reasons.values())
            }
            if grouped:
                listed = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in grouped.items())
                yield f"Not examined for {target.words}: {listed}."
        elif facts.tested:
            yield f"{target.words} was not examined: {_describe_too_little(facts, target)}."


def _describe_too_little(facts: ModelFacts, target: Target) -> str:
    """Return why a latency was not examined at all."""
    known, set_aside = facts.known[target], facts.set_aside.get(target, {})
    if sum(set_aside.values()) > MAX_SET_ASIDE_SHARE * (known + sum(set_aside.values())):
        aside = describe_set_aside({Cause(cause): count for cause, count in set_aside.items()}, facts.streams)
        return f"{aside}; those that are left may be faster, or slower, than all are"
    return f"it is known for {pluralize(known, 'stream')}, and more are needed"


def describe_too_few(explanation: Explanation, minimum: int) -> str:
    """Return that no model has enough streams, and how many would be."""
    most = max(explanation.models, key=lambda facts: facts.streams, default=None)
    if most is not None and any(count >= minimum or most.set_aside.get(target) for target, count in most.known.items()):
        reasons = (f"{target.words}: {_describe_too_little(most, target)}." for target in most.known)
        over = pluralize(most.streams, "stream")
        return f"--explain can examine no latency of {most.model}, over {over}. {' '.join(reasons)}"
    have = "none can be used" if most is None else f"{most.model} has {pluralize(most.streams, 'stream')}"
    if most is not None and (known := max(most.known.values(), default=0)) < min(minimum, most.streams):
        have += f", {known:,} of them with tokens"
    needed = f"{minimum:,} streams of one model, and five days of them for hours and weekdays"
    return f"--explain needs {needed}: {have}." + "".join(f" {note}." for note in _describe_known(explanation))


def describe_short_input(explanation: Explanation) -> str:
    """Return a warning where all requests lie within an hour; empty where they do not, or nothing is explained."""
    seconds = (explanation.last_unix_ns - explanation.first_unix_ns) / SECOND
    if seconds >= _HOUR or not any(facts.tested.values() for facts in explanation.models):
        return ""
    return (
        f"all requests lie within {pluralize(ceil(seconds / _MINUTE) or 1, 'minute')}: effects of the hour, of the "
        f"weekday and of silences cannot be seen in them."
    )


def _describe_shares(facts: ModelFacts) -> str:
    """Return how much of the variance the findings of a model explain together; empty where there are none."""
    shares = [
        f"{format_share_of_variance(share)} of the variance of {target.words}"
        for target in (Target.ITL, Target.TTFT)
        if (share := facts.explained.get(target, 0.0)) > 0
    ]
    return f"together {' and '.join(shares)}" if shares else ""


def describe_basis(explanation: Explanation) -> str:
    """Return what the sentences rest on: streams, processes, time zone, what was set aside, how well it is known."""
    processes = f" of {explanation.instances:,} processes" if explanation.own_load_is_fleet_wide else ""
    return (
        f"Over {pluralize(explanation.streams, 'stream')}{processes}, hours in {explanation.zone}. Shares are of the "
        "variance between streams; in brackets, 95 % intervals."
    ) + "".join(f" {note}." for note in _describe_known(explanation))


class ModelWords(NamedTuple):
    """What is said of one model."""

    facts: ModelFacts
    note: str
    """Over how many streams, and how much is explained."""
    findings: Sequence[Finding]
    """The largest share first."""
    others: Sequence[str]
    """Sentences: what is undecided, silent changes, and which latencies nothing explains."""


def describe_models(explanation: Explanation) -> Iterator[ModelWords]:
    """Yield what is said of each model; models with a larger share come first."""
    largest = {one.model: -one.share_of_variance for one in reversed(explanation.findings)}
    for facts in sorted(explanation.models, key=lambda facts: (largest.get(facts.model, 0.0), facts.model)):
        undecided = [one for one in explanation.undecided if one.model == facts.model]
        switches = [one for one in other_switches(explanation) if one.model == facts.model]
        yield ModelWords(
            facts,
            ": ".join(filter(None, (pluralize(facts.streams, "stream"), _describe_shares(facts)))),
            [one for one in explanation.findings if one.model == facts.model],
            [
                *(describe_undecided(one, explanation) for one in undecided),
                *(describe_switch(one, explanation) for one in switches),
                *filter(None, [describe_silence(facts, explanation)]),
                *describe_untested(facts),
            ],
        )


def other_switches(explanation: Explanation) -> list[Switch]:
    """Return the silent changes that no finding names."""
    named = {(finding.driver, finding.model, finding.change) for finding in explanation.findings if finding.change}
    return [one for one in explanation.switches if (one.driver, one.model, one.change) not in named]


def _describe_known(explanation: Explanation) -> list[str]:
    """Return of how many streams a latency is uncertain or set aside, and why."""
    return describe_figures({target.words: known for target, known in explanation.known.items()})


def _describe_whose(explanation: Explanation) -> str:
    """Return whose own load it is: of all processes, as far as they are in the input."""
    if explanation.own_load_is_fleet_wide:
        return f"of your own {explanation.instances:,} processes"
    return "in this file"


def _slower(finding: Finding, amount: Amount) -> str:
    """Return how much slower a window is, as a predicate."""
    where = "from token to token" if finding.target is Target.ITL else "to the first token"
    return f"is {amount.size} {'faster' if amount.is_negative else 'slower'} ({amount.interval}) {where}"


def _longer(finding: Finding, amount: Amount) -> str:
    """Return how much longer a token takes, as a clause."""
    token = "a token" if finding.target is Target.ITL else "the first token"
    return f"{token} takes {amount.size} {'less' if amount.is_negative else 'longer'} ({amount.interval})"


def _costs(finding: Finding, amount: Amount) -> str:
    """Return what a unit of a driver costs, as a predicate."""
    plural = "" if (finding.effect.per or 1) != 1 else "s"
    is_itl = finding.target is Target.ITL
    if finding.effect.unit is Unit.SECONDS:
        verb = "save" if amount.is_negative else "cost"
        return f"{verb}{plural} {amount.size} {'a token' if is_itl else 'before the first token'} ({amount.interval})"
    how = ("faster" if amount.is_negative else "slower") if is_itl else ("earlier" if amount.is_negative else "later")
    return f"make{plural} {'a token' if is_itl else 'the first token'} {amount.size} {how} ({amount.interval})"


def _each(finding: Finding, explanation: Explanation) -> str:
    """Return the unit of a driver that an effect is for, as a subject."""
    per = finding.effect.per or 1
    one, several, more = *finding.driver.units, ""
    if finding.driver is Driver.PROMPT:
        tested = next((facts.tested for facts in explanation.models if facts.model == finding.model), {})
        more = " outside the cache" if Driver.CACHED_PROMPT in tested.get(finding.target, ()) else ""
    if per == 1:
        return f"Each {'' if finding.driver is Driver.RETRIES else 'further '}{one}{more}"
    return f"Each further {per:,.4g} {several}{more}"


def _describe_change(what: str, model: str, change: Change) -> str:
    """Return who answers instead of whom, or which value an attribute has, and since when, as a clause.

    `what` is the driver, or the name of the attribute.
    """
    is_model, is_attribute = what == Driver.RESPONSE_MODEL, what not in {Driver.RESPONSE_MODEL, Driver.SERVER_ADDRESS}
    name = model.rpartition(" / ")[2]
    if is_attribute and change.unix_ns is not None:
        return f"From {format_moment(change.unix_ns)} {what} was {change.after} instead of {change.before}"
    if change.unix_ns is None:
        return f"Where {name} {'answers as' if is_model else 'is at'} {change.after} instead of {change.before}"
    verb = "answered as" if is_model else "was at"
    return f"From {format_moment(change.unix_ns)} {name} {verb} {change.after} instead of {change.before}"
