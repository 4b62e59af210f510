"""The scripted models of the demo: scripts drawn from a seed, as many as fit into a number of seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from random import Random

from otel_itl.testing import Script, bedrock, chat, faults, gemini, messages
from otel_itl.tools.demo.sdks import DEFAULT_SDKS, SDKS, Wire

_SPREAD = 0.25
"""Sigma of the log-normal gaps: as even as those of a decoder on a quiet machine."""
_REQUESTS_AT_PACE = 5
"""Requests of the agent before its tokens come slower."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scripted model, and the client that sends it one request after the other."""

    model: str
    wire: Wire
    is_async: bool
    script: Callable[[Random, int], Script]
    """Makes the response to a request, given its number from 0."""
    leaves_after: int | None = None
    """The caller closes the stream after this chunk."""
    is_smooth: bool = False
    """Nothing happens but tokens, so that measured times can be compared with the script's."""
    session: str | None = None
    """The session of all its requests."""
    max_requests: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The requests of one scenario to one SDK."""

    scenario: Scenario
    sdk: str
    model: str
    session: str | None
    scripts: Sequence[Script]
    """One for each request."""


def plan_requests(seed: int, seconds: float, sdks: Sequence[str] = DEFAULT_SDKS) -> list[Plan]:
    """Plan the requests to every model: as many as fit into these seconds, at least one.

    Equal arguments give equal plans. Of several SDKs of one wire format, the first has the models as they are, the
    others have the name of the SDK added to those of models and sessions.

    Args:
        seed: of the scripts' times.
        seconds: for how long requests are sent.
        sdks: names in `SDKS`.
    """
    plans = []
    for scenario in SCENARIOS:
        same_wire = [sdk for sdk in sdks if SDKS[sdk].wire == scenario.wire]
        for index, sdk in enumerate(same_wire):
            suffix = f"-{sdk}" if index else ""
            model = scenario.model + suffix
            session = None if scenario.session is None else scenario.session + suffix
            plans.append(Plan(scenario, sdk, model, session, _scripts(scenario, f"{seed} {model}", seconds)))
    return plans


def _scripts(scenario: Scenario, seed: str, seconds: float) -> list[Script]:
    """Make the scripts of a scenario's requests from a seed, at least one."""
    random = Random(seed)  # noqa: S311 - times, not a secret
    scripts = [scenario.script(random, 0)]
    left = seconds - _duration(scripts[0], scenario)
    while len(scripts) != scenario.max_requests:
        script = scenario.script(random, len(scripts))
        left -= _duration(script, scenario)
        if left < 0:
            break
        scripts.append(script)
    return scripts


def _duration(script: Script, scenario: Scenario) -> float:
    """Return the seconds that a script takes, up to the chunk after which the caller leaves."""
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
    """Make a stream whose events a buffering proxy releases eight at a time."""
    return faults.coalesce(chat.reply(64, first=_first(random, 0.2), gaps=_gaps(random, 63, 0.020)), 8)


def _reasoning(random: Random, _: int) -> Script:
    # Less than twice as fast as the answer, whatever the machine adds: else it would be taken for a summary.
    gaps = [*_gaps(random, 50, 0.016), *_gaps(random, 34, 0.022)]
    return chat.reply(35, reasoning=50, first=_first(random, 0.3), gaps=gaps)


def _cut_off(random: Random, _: int) -> Script:
    whole = chat.reply(40, first=_first(random, 0.2), gaps=_gaps(random, 39, 0.020))
    return whole.cut(random.randrange(15, 35)) + faults.reset(after=0.05)


def _slow_start(random: Random, _: int) -> Script:
    return messages.reply(40, first=_first(random, 1.1), gaps=_gaps(random, 39, 0.018))


def _stalling(random: Random, _: int) -> Script:
    """Make a stream that reasons, answers, stalls in the middle of a sentence, goes on, and calls a tool."""
    gaps = [*_gaps(random, 25, 0.012), *_gaps(random, 44, 0.018), *_gaps(random, 14, 0.009)]
    gaps[random.randrange(34, 56)] = random.lognormvariate(log(1.2), 0.1)
    call = ("look_up", [f"piece{index}" for index in range(14)])
    return messages.reply(44, thinking=25, tools=[call], first=_first(random, 0.3), gaps=gaps)


def _degrading(random: Random, number: int) -> Script:
    """Make a stream that is slower the later its request comes in the session."""
    return messages.reply(40, first=_first(random, 0.2), gaps=_gaps(random, 39, 0.012 * 1.2**number))


def _agent(random: Random, number: int) -> Script:
    """Make a stream that calls a tool; from the sixth request on, its tokens take twice as long."""
    gaps = _gaps(random, 47, 0.007 if number < _REQUESTS_AT_PACE else 0.015)
    call = ("run", [f"piece{index}" for index in range(35)])
    return chat.reply(12, tools=[call], first=_first(random, 0.15), gaps=gaps)


def _long(random: Random, _: int) -> Script:
    return messages.reply(200, first=_first(random, 0.15), gaps=_gaps(random, 199, 0.016))


def _smooth_gemini(random: Random, _: int) -> Script:
    return gemini.reply(50, first=_first(random, 0.2), gaps=_gaps(random, 49, 0.024))


def _thinking(random: Random, _: int) -> Script:
    return gemini.reply(30, thoughts=20, first=_first(random, 0.3), gaps=_gaps(random, 49, 0.030))


def _smooth_converse(random: Random, _: int) -> Script:
    return bedrock.reply(60, first=_first(random, 0.22), gaps=_gaps(random, 59, 0.018))


def _cut_by_service(random: Random, _: int) -> Script:
    """Make a stream that the service ends with an exception event."""
    whole = bedrock.reply(50, first=_first(random, 0.2), gaps=_gaps(random, 49, 0.020))
    return whole.cut(random.randrange(20, 45)) + Script([bedrock.error("Too many tokens", kind="throttlingException")])


SCENARIOS = (
    Scenario("smooth-1", "chat", is_async=False, script=_smooth_chat, is_smooth=True, session="chat-1"),
    Scenario("bursty-1", "chat", is_async=True, script=_bursty),
    Scenario("reasoning-1", "chat", is_async=True, script=_reasoning),
    Scenario("cut-off-1", "chat", is_async=False, script=_cut_off),
    Scenario("smooth-2", "messages", is_async=True, script=_smooth_messages, is_smooth=True),
    Scenario("slow-start-1", "messages", is_async=True, script=_slow_start),
    Scenario("stalling-1", "messages", is_async=False, script=_stalling),
    Scenario("degrading-1", "messages", is_async=False, script=_degrading, session="chat-2"),
    Scenario("agent-1", "chat", is_async=True, script=_agent, session="agent-7", max_requests=8),
    Scenario("left-early-1", "messages", is_async=True, script=_long, leaves_after=40),
    Scenario("smooth-3", "gemini", is_async=False, script=_smooth_gemini, is_smooth=True),
    Scenario("thinking-1", "gemini", is_async=True, script=_thinking),
    Scenario("smooth-4", "converse", is_async=False, script=_smooth_converse, is_smooth=True),
    Scenario("throttled-1", "converse", is_async=False, script=_cut_by_service),
)
"""All scenarios, in the order of their requests' threads and tasks."""
