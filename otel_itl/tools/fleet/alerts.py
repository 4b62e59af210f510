"""Writes the rules of `collector/rules.yml` for an objective: what is recorded, and when an alert is raised."""

from __future__ import annotations

from typing import Final

from otel_itl.core.slo import Objectives
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.fleet.packaged_files import find_file

FASTEST_BURN: Final = 14.4
"""The highest of the burn rates that raise an alert: 2 % of a month's budget in an hour."""
_HEAD: Final = "\ngroups:"
_BUDGET: Final = " / 0.01"
"""How the rules divide by the error budget of a target of 99 %."""


def write_rules(objectives: Objectives) -> str:
    """Return rules for Prometheus, whose error budget is that of the objectives.

    Args:
        objectives: those of the applications, of one target: the rules hold for every model.

    Raises:
        CommandError: the objectives differ in their target, or allow more misses than any alert needs.
    """
    targets = sorted({slo.target for _, slo in objectives.by_model if slo.ttft is not None or slo.itl is not None})
    if len(targets) > 1:
        raise CommandError(
            f"the objectives have the targets {' and '.join(f'{target:g}' for target in targets)}, and rules are for "
            "one: write a file for each, and keep the models apart in Prometheus."
        )
    budget = 1 - targets[0]
    if FASTEST_BURN * budget >= 1:
        raise CommandError(
            f"a target of {targets[0]:g} lets {budget:.3g} of all tokens miss, and the fastest alert is raised at "
            f"{FASTEST_BURN:g} times that, which is more than all: name a target above {1 - 1 / FASTEST_BURN:.4f}."
        )
    rules = find_file("rules.yml").read_text(encoding="utf-8")
    head = (
        "# Recording rules and alerts on what otel-itl emits, for Prometheus 2.42 and later. An alert stands for one\n"
        "# job, provider and model. By the objective in force in the application (OTEL_ITL_SLO)\n"
        f"# {targets[0]:.6g} of the tokens, and of the streams, are to meet it; {budget:.3g}, in the rates, may not.\n"
    )
    return head + rules[rules.index(_HEAD) :].replace(_BUDGET, f" / {budget:.6g}")
