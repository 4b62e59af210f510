"""What the scripted models do: scripts drawn from a seed, enough of them to fill so many seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from random import Random
from typing import Literal

from otel_itl.testing import Script, chat, faults, messages

Provider = Literal["openai", "anthropic"]

_SPREAD = 0.25
"""Sigma of the log-normal gaps: steady, as a decoder on a quiet machine is."""


_TURNS_AT_PACE = 5


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scripted model and the client that asks it, one request after the other."""

    model: str
    provider: Provider
    is_async: bool
    script: Callable[[Random, int], Script]
    """Makes the answer to the request of this number, from 0."""
    leaves_after: int | None = None
    """The caller closes the stream after so many chunks."""
    smooth: bool = False
    """Nothing happens but tokens: what is measured can be held against what was sent."""
    session: str | None = None
    """All its requests belong to it."""
    at_most: int | None = None
    """So many requests, however much time there is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A scenario and the scripts of all its requests."""

    scenario: Scenario
    scripts: Sequence[Script]


def plan(seed: int, seconds: float) -> list[Plan]:
    """The requests of every model: as many as fit into so many seconds, at least one. Equal seeds give equal plans."""
    plans = []
    for scenario in SCENARIOS:
        random = Random(f"{seed} {scenario.model}")  # noqa: S311 - a pace, not a secret
        scripts = [scenario.script(random, 0)]
        left = seconds - _length(scripts[0], scenario)
        while len(scripts) != scenario.at_most:
            script = scenario.script(random, len(scripts))
            left -= _length(script, scenario)
            if left < 0:
                break
            scripts.append(script)
        plans.append(Plan(scenario, scripts))
    return plans


def _length(script: Script, scenario: Scenario) -> float:
    """How long a script takes to play, in seconds, for as much of it as the caller stays."""
    played = script if scenario.leaves_after is None else script.cut(scenario.leaves_after)
    return sum(step.delay for step in played)


def _gaps(random: Random, count: int, median: float) -> list[float]:
    return [random.lognormvariate(log(median), _SPREAD) for _ in range(count)]


def _first(random: Random, median: float) -> float:
    return random.lognormvariate(log(median), 0.1)


def _smooth_chat(random: Random, _: int) -> Script:
    return chat.reply(60, first=_first(random, 0.18), gaps=_gaps(random, 59, 0.020))


def _smooth_messages(random: Random, _: int) -> Script:
    return messages.reply(70, first=_first(random, 0.25), gaps=_gaps(random, 69, 0.015))


def _bursty(random: Random, _: int) -> Script:
    """A buffering proxy lets several events go at once."""
    return faults.coalesce(chat.reply(64, first=_first(random, 0.2), gaps=_gaps(random, 63, 0.020)), 8)


def _reasoning(random: Random, _: int) -> Script:
    gaps = [*_gaps(random, 50, 0.010), *_gaps(random, 34, 0.022)]
    return chat.reply(35, reasoning=50, first=_first(random, 0.3), gaps=gaps)


def _cut_off(random: Random, _: int) -> Script:
    whole = chat.reply(40, first=_first(random, 0.2), gaps=_gaps(random, 39, 0.020))
    return whole.cut(random.randrange(15, 35)) + faults.reset(after=0.05)


def _slow_start(random: Random, _: int) -> Script:
    return messages.reply(40, first=_first(random, 1.1), gaps=_gaps(random, 39, 0.018))


def _stalling(random: Random, _: int) -> Script:
    """Thinks, answers, falls silent in the middle of a sentence, goes on, and calls a tool."""
    gaps = [*_gaps(random, 25, 0.012), *_gaps(random, 44, 0.018), *_gaps(random, 14, 0.009)]
    gaps[random.randrange(34, 56)] = random.lognormvariate(log(1.2), 0.1)
    call = ("look_up", [f"piece{index}" for index in range(14)])
    return messages.reply(44, thinking=25, tools=[call], first=_first(random, 0.3), gaps=gaps)


def _degrading(random: Random, number: int) -> Script:
    """Every request is slower than the one before."""
    return messages.reply(40, first=_first(random, 0.2), gaps=_gaps(random, 39, 0.012 * 1.2**number))


def _agent(random: Random, number: int) -> Script:
    """Calls a tool in every turn; from the sixth on, its tokens take twice as long."""
    gaps = _gaps(random, 47, 0.007 if number < _TURNS_AT_PACE else 0.015)
    call = ("run", [f"piece{index}" for index in range(35)])
    return chat.reply(12, tools=[call], first=_first(random, 0.15), gaps=gaps)


def _long_winded(random: Random, _: int) -> Script:
    return messages.reply(200, first=_first(random, 0.15), gaps=_gaps(random, 199, 0.016))


SCENARIOS = (
    Scenario("smooth-1", "openai", is_async=False, script=_smooth_chat, smooth=True, session="chat-1"),
    Scenario("bursty-1", "openai", is_async=True, script=_bursty),
    Scenario("reasoning-1", "openai", is_async=True, script=_reasoning),
    Scenario("cut-off-1", "openai", is_async=False, script=_cut_off),
    Scenario("smooth-2", "anthropic", is_async=True, script=_smooth_messages, smooth=True),
    Scenario("slow-start-1", "anthropic", is_async=True, script=_slow_start),
    Scenario("stalling-1", "anthropic", is_async=False, script=_stalling),
    Scenario("degrading-1", "anthropic", is_async=False, script=_degrading, session="chat-2"),
    Scenario("agent-1", "openai", is_async=True, script=_agent, session="agent-7", at_most=8),
    Scenario("left-early-1", "anthropic", is_async=True, script=_long_winded, leaves_after=40),
)
"""All that the demonstration shows."""
