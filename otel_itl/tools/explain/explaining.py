"""Explains stored streams: tests every driver of every latency, and keeps what is certain and matters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timezone, tzinfo
from itertools import groupby

import numpy as np

from otel_itl.tools.explain.candidates import Candidate, Trial, find_changes
from otel_itl.tools.explain.curves import MIN_OWN_LOAD, draw_curve, draw_position
from otel_itl.tools.explain.facts import Facts, Floats, lay_out
from otel_itl.tools.explain.findings import Driver, Explanation, Finding, ModelFacts, Target
from otel_itl.tools.explain.observations import (
    Collectors,
    Observation,
    Observations,
    make_collectors,
    observe_streams,
)
from otel_itl.tools.explain.shares import divide_variance
from otel_itl.tools.explain.trials import Trials, run_trials
from otel_itl.tools.explain.untested import find_untested
from otel_itl.tools.report.certainty import Known
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.set_aside import MAX_SET_ASIDE_SHARE
from otel_itl.tools.statistics.holm import adjust_p_values

ALPHA = 0.02
"""A finding has a smaller p, after Holm's adjustment over everything that was tested."""
OF_ATTRIBUTES = 0.2
"""The part of it that all attributes share; the other drivers have the rest."""
MIN_SHARE = 0.01
"""Least share of the variance that a finding explains."""
MIN_CHANGE = 0.02
"""Least change of the latency over the usual range of the driver, as a share."""
SEED = 20_240_229


def explain(streams: Iterable[StoredStream], zone: tzinfo = timezone.utc, by: str | None = None) -> Explanation:
    """Explain what drives the latency of streams. The same streams have the same explanation.

    Args:
        streams: in any order; they are taken one at a time and not kept.
        zone: the time zone of hours and weekdays.
        by: the one attribute to examine; None: all that have few values.
    """
    return explain_observations(observe_streams(streams, by), zone)


def explain_observations(observations: Observations, zone: tzinfo = timezone.utc) -> Explanation:
    """Explain what drives the latency of streams that were reduced to observations.

    Where latencies are known within bounds, a finding has to be there with the least and with the most that they can
    be, too.
    """
    models, measured = _find(observations, zone)
    ends = () if observations.are_exact else (0, 1)
    bounds = [_find(observations.at_end(end), zone)[1] for end in ends]
    findings, undecided = _weigh(measured, bounds)
    switches = [change.switch(model.facts.model) for model in models for change in find_changes(model.facts)]
    starts = [one.start_ns for one in observations.used]
    return Explanation(
        findings=findings,
        undecided=undecided,
        switches=sorted(
            (one for one in switches if one.change.unix_ns is not None), key=lambda one: one.change.unix_ns or 0
        ),
        models=[model.describe(findings) for model in models],
        streams=len(observations.used),
        known={target: _collect_known(observations, target) for target in Target},
        instances=len(observations.instances),
        zone=str(zone),
        first_unix_ns=min(starts, default=0),
        last_unix_ns=max(starts, default=0),
    )


def _find(observations: Observations, zone: tzinfo) -> tuple[list[_Tested], list[Finding]]:
    """Return the models and their findings, the largest share of variance first."""
    random = np.random.default_rng(SEED)
    models = [
        _Tested(
            lay_out(streams, zone, observations.many_valued), observations.known.get(model, {}), random, observations.by
        )
        for model, streams in _by_model(observations.used)
    ]
    tests = [test for model in models for test in model.tests]
    by_test = dict[int, float]()
    # Attributes have a part of the chance of an error to themselves: many of them do not hide the other drivers.
    for is_attribute, part in ((False, 1 - OF_ATTRIBUTES), (True, OF_ATTRIBUTES)):
        family = [test for test in tests if (test.driver is Driver.ATTRIBUTE) is is_attribute]
        adjusted = adjust_p_values([min(test.p / part, 1.0) for test in family])
        by_test |= {id(test): p for test, p in zip(family, adjusted, strict=True)}
    findings = [finding for model in models for finding in model.find(by_test)]
    return models, sorted(findings, key=lambda finding: -finding.share_of_variance)


def _by_model(observations: Sequence[Observation]) -> Iterator[tuple[str, list[Observation]]]:
    ordered = sorted(observations, key=lambda one: one.model)
    yield from ((model, list(of_model)) for model, of_model in groupby(ordered, key=lambda one: one.model))


def _collect_known(observations: Observations, target: Target) -> Known:
    """Return how well a latency of all models together is known."""
    together = make_collectors()[target]
    for collectors in observations.known.values():
        together.add_all(collectors[target])
    return together.summary()


def _weigh(measured: Sequence[Finding], bounds: Sequence[Sequence[Finding]]) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that are there at both ends of what all latencies can be, too, and the others.

    The interval of an effect then contains all three.
    """
    found, undecided = [], []
    for finding in measured:
        same = [finding, *(one for findings in bounds for one in findings if one.identity == finding.identity)]
        if len(same) <= len(bounds):
            undecided.append(finding)
        else:
            low, high = min(one.effect.low for one in same), max(one.effect.high for one in same)
            places = {one.bend.at if one.bend else None for one in same}
            bend = finding.bend if len(places) == 1 else None
            found.append(replace(finding, effect=finding.effect._replace(low=low, high=high), bend=bend))
    return found, undecided


class _Tested:
    """One model with its tests."""

    def __init__(self, facts: Facts, collectors: Collectors, random: np.random.Generator, by: str | None) -> None:
        self.facts = facts
        known = {target: collector.summary() for target, collector in collectors.items()}
        self._set_aside = {target: one.left_out or {} for target, one in known.items()}
        enough = [
            target for target in Target if target not in known or known[target].share_set_aside <= MAX_SET_ASIDE_SHARE
        ]
        self._trials = [trials for target in enough if (trials := run_trials(facts, target, random, by)) is not None]

    @property
    def tests(self) -> list[Trial]:
        """Every test."""
        return [test for trials in self._trials for test in trials.tests]

    def find(self, adjusted_p: dict[int, float]) -> Iterable[Finding]:
        """Yield the findings, given the adjusted p of each test by the test's `id`."""
        for trials in self._trials:
            certain = [one for one in trials.trials if adjusted_p[id(one)] < ALPHA and not _is_no_cold_start(one)]
            between, position = float(np.var(trials.log_latency)), trials.position
            total = trials.variance if position is None else trials.variance + position.variance + position.noise
            shares = divide_variance(trials.log_latency, [trial.contribution for trial in certain])
            found = [
                _finding(trials, trial, share * between / (total or 1.0), adjusted_p[id(trial)])
                for trial, share in zip(certain, shares, strict=True)
            ]
            if position is not None and (p := adjusted_p[id(position.trial)]) < ALPHA:
                found.append(_finding(trials, position.trial, position.variance / total, p))
            yield from (
                one for one in found if one.share_of_variance >= MIN_SHARE and abs(one.change_over_range) >= MIN_CHANGE
            )

    def describe(self, findings: Iterable[Finding]) -> ModelFacts:
        """Describe what the findings of the model rest on."""
        own = [one for one in findings if one.model == self.facts.model]
        tested = {trials.target: {trial.driver for trial in trials.tests} for trials in self._trials}
        known = {target: int(np.sum(self.facts.column(target.value) > 0)) for target in Target}
        return ModelFacts(
            model=self.facts.model,
            streams=len(self.facts),
            sessions=len(np.unique(self.facts.session)),
            days=len(np.unique(self.facts.day)),
            known=known,
            set_aside=self._set_aside,
            untested={trials.target: find_untested(trials) for trials in self._trials},
            attributes={trials.target: trials.tested_attributes for trials in self._trials},
            tested={target: [driver for driver in Driver if driver in drivers] for target, drivers in tested.items()},
            explained={
                target: min(sum(one.share_of_variance for one in own if one.target is target), 1.0) for target in tested
            },
        )


def _is_no_cold_start(trial: Trial) -> bool:
    """Return whether a silence is followed by less latency: there is then more of it in a crowd, and no cold start."""
    return trial.driver is Driver.IDLE and trial.effect.estimate < 0


def _finding(trials: Trials, trial: Trial, share: float, adjusted_p: float) -> Finding:
    """Make the finding of a trial, given its share of the variance and its adjusted p."""
    candidate = trial.candidate
    position = trials.position if trial.driver is Driver.POSITION else None
    typical = trials.typical if position is None else position.typical
    usual = _usual_range(candidate.column) if candidate.per is not None else None
    change = trial.effect.estimate / (typical if candidate.adds else 1.0)
    if usual is not None:
        change *= usual[1] - usual[0]
    if usual is not None and trial.bend is not None:
        order = np.argsort(candidate.column)
        low, high = np.interp(np.array(usual), candidate.column[order], trial.contribution[order])
        change = float(high - low) / typical
    inside = trials.own_load if candidate.window is None else trials.own_load[candidate.column > 0]
    return Finding(
        driver=trial.driver,
        target=trials.target,
        model=trials.facts.model,
        effect=trial.effect,
        share_of_variance=share,
        p=adjusted_p,
        typical=typical,
        usual_range=None if usual is None else _in_own_unit(usual, candidate),
        change_over_range=change,
        window=candidate.window,
        idle_threshold=candidate.threshold,
        change=None if candidate.replacement is None else candidate.replacement.change,
        attribute=candidate.attribute,
        bend=trial.bend,
        runs=candidate.runs,
        twins=candidate.twins,
        own_load=max(float(np.median(inside)), MIN_OWN_LOAD) if position is None else None,
        curve=draw_curve(trials, trial) if position is None else draw_position(position),
    )


def _in_own_unit(usual: tuple[float, float], candidate: Candidate) -> tuple[float, float]:
    """Return the usual range of a driver's column in the driver's own unit; of the own load, from one stream on."""
    low, high = (end * (candidate.per or 1.0) for end in usual)
    return (max(low, MIN_OWN_LOAD), max(high, MIN_OWN_LOAD)) if candidate.driver is Driver.OWN_LOAD else (low, high)


def _usual_range(column: Floats) -> tuple[float, float]:
    """Return the 10th and 90th percentile; the whole range where these are equal, as for retries."""
    low, high = (float(one) for one in np.quantile(column, [0.1, 0.9]))
    return (low, high) if low < high else (float(column.min()), float(column.max()))
