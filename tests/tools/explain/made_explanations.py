"""Explanations made by hand."""

from __future__ import annotations

from typing import Any

from otel_itl.tools.explain.findings import (
    Change,
    CurvePoint,
    Driver,
    Effect,
    Explanation,
    Finding,
    ModelFacts,
    Switch,
    Target,
    Unit,
    Window,
)

MODEL = "openai / gpt-4o"
AT = 1_793_715_600_000_000_000  # 2026-11-03 14:20 UTC
SWITCHED = Change("gpt-4o-2026-08", "gpt-4o-2026-11", AT)
CURVE = (CurvePoint(0, 0.02, 0.019, 0.021, 40), CurvePoint(4_000, 0.023, 0.022, 0.024, 60))


def make_finding(
    driver: Driver, effect: Effect, target: Target = Target.ITL, share: float = 0.1, **more: Any
) -> Finding:
    """A finding of one model."""
    made = {"model": MODEL, "p": 0.001, "typical": 0.021, "curve": CURVE, **more}
    return Finding(driver=driver, effect=effect, target=target, share_of_variance=share, **made)


PROMPT = make_finding(Driver.PROMPT, Effect(0.0008, 0.0007, 0.0009, Unit.SECONDS, 1_000), share=0.22)
IDLE = make_finding(
    Driver.IDLE, Effect(4.0, 3.1, 4.8, Unit.SECONDS), Target.TTFT, share=0.41, idle_threshold=600, typical=0.4
)
TUESDAY = make_finding(
    Driver.CALENDAR, Effect(0.40, 0.31, 0.50, Unit.SHARE), share=0.3, window=Window((1,), 9, 11), own_load=12
)
OWN_LOAD = make_finding(Driver.OWN_LOAD, Effect(0.0004, 0.0003, 0.0005, Unit.SECONDS, 1), share=0.05, own_load=12)
CHANGED = make_finding(
    Driver.RESPONSE_MODEL, Effect(0.12, 0.08, 0.16, Unit.SHARE), share=0.004, change=SWITCHED, curve=()
)


def make_facts(model: str = MODEL, **more: Any) -> ModelFacts:
    """What the findings of a model rest on."""
    tested = {
        Target.TTFT: (Driver.CALENDAR, Driver.PROMPT, Driver.IDLE),
        Target.ITL: (Driver.CALENDAR, Driver.OWN_LOAD, Driver.PROMPT),
    }
    made = {"streams": 480, "sessions": 96, "days": 14, "tested": tested, "explained": {}, **more}
    return ModelFacts(model=model, **made)


def make_explanation(*findings: Finding, **more: Any) -> Explanation:
    """An explanation with these findings, of a fleet of 12 processes."""
    made: dict[str, Any] = {
        "switches": (),
        "models": (make_facts(),),
        "streams": 480,
        "instances": 12,
        "zone": "UTC",
        "first_unix_ns": AT,
        "last_unix_ns": AT + 86_400_000_000_000,
    }
    return Explanation(findings=findings, **made | more)


def make_switch(change: Change = SWITCHED, driver: Driver = Driver.RESPONSE_MODEL) -> Switch:
    """A silent change of who answers."""
    return Switch(driver, MODEL, change, 200, 280)
