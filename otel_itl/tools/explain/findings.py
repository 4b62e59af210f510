"""The findings of an explanation: each driver that moves TTFT or ITL, by how much, and how surely."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from otel_itl.tools.report.certainty import Known
from otel_itl.tools.worded import WordedEnum


class Target(str, Enum):
    """The latency that is explained."""

    TTFT = "ttft"
    ITL = "itl"

    @property
    def words(self) -> str:
        """Its abbreviation, as it is printed: `TTFT` or `ITL`."""
        return self.value.upper()


class Origin(WordedEnum):
    """Where a driver points, as a sentence."""

    UPSTREAM = "upstream", "Points upstream."
    """Slower at the same own load."""
    OWN_LOAD = (
        "own_load",
        (
            "It goes with your own load; where requests follow slowness (retries, hedging) it looks the same, and "
            "otel-itl sweep decides."
        ),
    )
    """Slower with one's own load: which of the two causes the other is not known."""
    REQUEST = "request", "It comes with the request."
    """Slower by what was asked, or by how often."""
    ATTRIBUTE = "attribute", "It goes with the attribute, which need not be the cause."
    """Slower where streams have a value of an attribute."""


class Driver(WordedEnum):
    """What may move a latency: its name, where it points, and what one unit of it and several are called."""

    def __init__(self, _identifier: str, _words: str, origin: Origin, one: str = "", several: str = "") -> None:
        self.origin = origin
        self.units = (one, several)

    CALENDAR = "calendar", "hour and weekday", Origin.UPSTREAM
    """A window of the week, in the time zone of the explanation."""
    OWN_LOAD = "own_load", "own load", Origin.OWN_LOAD, "open stream", "open streams"
    """Open streams of one's own to the same model."""
    PROMPT = "prompt_tokens", "prompt tokens", Origin.REQUEST, "prompt token", "prompt tokens"
    """Input tokens: for TTFT those that were not read from the cache, for ITL all."""
    CACHED_PROMPT = (
        *("cached_prompt_tokens", "cached prompt tokens", Origin.REQUEST),
        *("prompt token from the cache", "prompt tokens from the cache"),
    )
    """Input tokens that were read from the cache; for TTFT alone."""
    POSITION = (
        *("position", "position in the answer", Origin.REQUEST),
        *("token into the answer", "tokens into the answer"),
    )
    """Output tokens before; for ITL alone."""
    IDLE = "idle", "silence before the request", Origin.UPSTREAM
    """Silence of all of one's own streams to the model before the request: longer than a threshold."""
    TOKENS_PER_CHUNK = "tokens_per_chunk", "tokens per chunk", Origin.UPSTREAM, "token per chunk", "tokens per chunk"
    """Output tokens in a chunk, on average; for ITL alone."""
    SERVER_ADDRESS = "server_address", "server address", Origin.UPSTREAM
    RESPONSE_MODEL = "response_model", "response model", Origin.UPSTREAM
    RETRIES = "retries", "retries", Origin.REQUEST, "retry", "retries"
    """HTTP attempts before the one that succeeded."""
    ATTRIBUTE = "attribute", "attribute", Origin.ATTRIBUTE
    """Any other attribute of the span or its resource."""


ABSENT: Final = "not set"
"""The value of an attribute that a stream does not have."""
ELSEWHERE: Final = "elsewhere"
"""What streams with one value of an attribute are compared with: those with any other."""


class Unit(str, Enum):
    """What an effect is a number of."""

    SECONDS = "s"
    """Added to the latency; for ITL, to each token."""
    SHARE = "share"
    """0.4: 40 % slower; negative: faster."""


class Effect(NamedTuple):
    """The size of an effect with its 95 % interval, at the same value of all other drivers."""

    estimate: float
    low: float
    high: float
    unit: Unit
    per: float | None = None
    """By how much the driver rises for it, in its own unit: 1,000 prompt tokens, 1 stream, 1,000 tokens of the answer,
    1 token per chunk, 1 retry. None: it is the effect of the window, of the silence or of the change as a whole."""

    @classmethod
    def of_logarithms(cls, difference: float, low: float, high: float) -> Effect:
        """Return a difference of logarithms, with both ends of its interval, as a share."""
        return cls(math.expm1(difference), math.expm1(low), math.expm1(high), Unit.SHARE)


@dataclass(frozen=True, slots=True)
class Window:
    """A window of the week."""

    weekdays: tuple[int, ...]
    """0 is Monday; all seven: every day."""
    first_hour: int
    end_hour: int
    """The hour at which it ends, 1 to 24."""


class Bend(NamedTuple):
    """Where the cost of a driver changes, and what each unit costs on either side of it."""

    at: float
    """In the driver's own unit."""
    below: Effect
    above: Effect


class Change(NamedTuple):
    """A value of the server's address, of the response model or of an attribute, and another one instead of it."""

    before: str
    after: str
    unix_ns: int | None
    """When the first request met the new value; None: both answer side by side, and `before` is the usual one."""


class Switch(NamedTuple):
    """A silent change of who answers, whether or not a latency changed with it."""

    driver: Driver
    """`SERVER_ADDRESS` or `RESPONSE_MODEL`."""
    model: str
    change: Change
    streams_before: int
    streams_after: int


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of the picture of a finding: the latency with the other drivers at their usual values."""

    x: float
    """The driver in its own unit: tokens, streams, seconds, retries; hour of the day for a window; Unix seconds for a
    change that has a moment; else 0 (`before`) and 1 (`after`)."""
    y: float
    """Typical latency in seconds."""
    low: float
    high: float
    """The 95 % interval of `y`."""
    streams: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One driver that moves one latency of one model."""

    driver: Driver
    target: Target
    model: str
    """`PROVIDER / MODEL`."""
    effect: Effect
    share_of_variance: float
    """Share of the variance of the logarithm of the target between the streams of the model, outliers included; for ITL
    the variance between the parts of answers counts as well. Drivers divide what they explain together (LMG, see
    `shares.py`)."""
    p: float
    """p-value of the test, adjusted by Holm's method over all that was tested."""
    typical: float
    """The usual latency in seconds (geometric mean)."""
    usual_range: tuple[float, float] | None = None
    """The driver's 10th and 90th percentile, in its own unit; None for a window, a silence and a change."""
    change_over_range: float = 0.0
    """How much slower from one end of the usual range to the other, as a share of `typical`; the estimate itself where
    there is no range."""
    window: Window | None = None
    """The window of the week; for `CALENDAR` alone."""
    idle_threshold: float | None = None
    """Silence in seconds from which on the effect is there; for `IDLE` alone."""
    change: Change | None = None
    """The change of value; for `SERVER_ADDRESS`, `RESPONSE_MODEL` and `ATTRIBUTE` alone."""
    attribute: str | None = None
    """The attribute; for `ATTRIBUTE` alone."""
    bend: Bend | None = None
    """Where what a unit costs changes; `effect` is the average then. None: a straight line says it as well."""
    runs: int | None = None
    """Whole runs at one load that the own load was compared over; None: it was within hours and blocks of time."""
    twins: Sequence[str] = ()
    """Other drivers, or names of attributes, that vary together with it: an effect of theirs looks like one of this."""
    own_load: float | None = None
    """The usual number of one's own open streams to the model (median at the requests); inside the window for
    `CALENDAR`."""
    curve: Sequence[CurvePoint] = ()

    @property
    def identity(self) -> tuple[str, Target, Driver, str | None, str | None, bool]:
        """What other findings of the same driver of the same latency have in common, if in the same direction."""
        value = self.change.after if self.change and self.attribute else None
        return self.model, self.target, self.driver, self.attribute, value, self.effect.estimate > 0

    @property
    def origin(self) -> Origin:
        """Where it points: a window of the week that an attribute varies together with, not upstream."""
        is_either = self.driver is Driver.CALENDAR and self.twins
        return Origin.ATTRIBUTE if is_either else self.driver.origin


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What an explanation rests on, for one model."""

    model: str
    streams: int
    sessions: int
    """Sessions, and streams outside of any."""
    days: int
    tested: Mapping[Target, Sequence[Driver]]
    """Drivers that vary and are known: those without a finding made no difference that could be seen."""
    known: Mapping[Target, int] = field(default_factory=dict)
    """Streams of which each latency is known."""
    set_aside: Mapping[Target, Mapping[str, int]] = field(default_factory=dict)
    """Cause → streams that are set aside from each latency. They count for the own load all the same."""
    untested: Mapping[Target, Mapping[str, str]] = field(default_factory=dict)
    """Why drivers, and attributes by their name, were not examined, of each latency that has streams enough."""
    attributes: Mapping[Target, Sequence[str]] = field(default_factory=dict)
    """Names of the attributes that were examined."""
    explained: Mapping[Target, float]
    """Share of the variance that the findings explain together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What drives the latency of a number of streams."""

    findings: Sequence[Finding]
    """Findings by the share of variance that they explain, the largest first."""
    switches: Sequence[Switch]
    """All silent changes, in order of time."""
    models: Sequence[ModelFacts]
    streams: int
    """Streams in the figures."""
    undecided: Sequence[Finding] = ()
    """Likewise what is not there at both ends of what the latencies can be: the caller's machine decides."""
    known: Mapping[Target, Known] = field(default_factory=dict)
    """Of how many streams each latency is uncertain, how many are set aside from it, and why."""
    instances: int
    """Processes that the streams come from; 0: their spans do not have it."""
    zone: str
    """Name of the time zone of hours and weekdays."""
    first_unix_ns: int
    last_unix_ns: int
    """Times of the first and the last request; 0 without any stream."""

    @property
    def own_load_is_fleet_wide(self) -> bool:
        """The own load is summed over several processes; else it is that in this input."""
        return self.instances > 1
