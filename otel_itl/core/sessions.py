"""Sessions: which request of an agent loop or a chat this is, and whether its tokens come slower than they used to.

Every ended request is one observation of how fast tokens come: the log of its mean ITL, with a standard error that
follows the number of its samples. A session compares it with its own baseline for the same model by a sequential test
(CUSUM of log-likelihood ratios). The other sessions on that model say whether it is this session or the model.

With `x` the log of the mean ITL of a request and `s` its standard error:

* Baseline `b`: the median `x` of the first three requests, then an average that follows slowly, by no more than a part
  of `SOUGHT / 2` for any one request, and not at all while the session is degraded. `p` is its variance.
* Ordinary spread `t`: the standard deviation of `x` from request to request, learned for each model from those requests
  of its sessions that were *faster* than the baseline, so that a slowdown does not widen what counts as ordinary.
* Evidence of a request: `SOUGHT / (t² + s² + p) · (x - b - SOUGHT / 2)`, the log-likelihood ratio of "1.75 times
  slower" against "as ever", in nats, and no more than two thirds of an alarm.
* `W`, the evidence so far, is kept between 0 and `ALARM` = ln 10,000. A session is degraded from when `W` reaches
  `ALARM` until `W` is back at 0. The same test upside down finds a session that became faster: its baseline is learned
  anew.

Worked example. A session at 20 ms with t = 0.15, s = 0.1 and p = 0.01: a variance of 0.0425 is expected. A request at
40 ms has x - b = ln 2 = 0.693, and its evidence is 0.560 / 0.0425 · (0.693 - 0.280) = 5.4 of the 9.2 nats of an alarm.
A second one like it, and the session is degraded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import exp, log
from operator import mul
from threading import Lock
from time import perf_counter_ns
from typing import Final, Generic, NamedTuple, TypeVar

from otel_itl.core.measures import percentile

SOUGHT: Final = log(1.75)
"""The slowdown that the test is made for, in log ITL. Half of it, a factor of 1.32, is not evidence of one."""
ALARM: Final = log(10_000)
"""Nats of evidence. Independent requests reach them by chance less than once in ten thousand (Lorden's bound)."""
LOUDEST: Final = ALARM * 2 / 3
"""What one request can say: a single slow one never is a degradation."""
AGREEMENT: Final = log(10)
"""Nats that the other sessions have to say for it together before a slowdown is put down to the model."""
LEARNED_AFTER: Final = 3
"""Requests whose median is the first baseline."""
WANDERING: Final = 0.02**2
"""What a baseline may change by from one request to the next, as a variance: how fast its average forgets."""
TYPICAL_SPREAD: Final = 0.15**2
"""Variance of the log ITL from request to request, before any was seen."""
LEAST_SPREAD: Final = 0.1**2
"""The least that is believed."""
SPREAD_RATE: Final = 0.02
CLUSTERED: Final = 2.0
"""How much more the mean of the gaps of one request varies than if each gap were drawn on its own."""
LOOKED_AT: Final = 128
"""Order statistics of the samples that a level is computed from."""
SLOWEST: Final = 0.02
"""Part of the samples that counts as no slower than the next: a stall is not the pace."""
SUPPOSED: Final = 10
"""Gaps that are added to those of a request when it is asked how much they vary."""
HEARD_NS: Final = 600_000_000_000
"""For how long (ns) a session that ended no request since still speaks for its model."""
SPEAKING: Final = 32
"""Sessions that speak for a model: those heard last."""
MODELS_A_SESSION: Final = 8
LONGEST_KEY: Final = 64
"""Longer ids and names are kept by their beginning and their hash."""

Link = TypeVar("Link")
Entry = TypeVar("Entry")


class Scope(Enum):
    """Who degrades."""

    SESSION = "session"
    """This session, and not the others on the same model; or there are no others to compare it with."""
    MODEL = "model"
    """Everybody who uses the model in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degradation:
    """The onset of a degradation: told once, and again only after a recovery."""

    request_index: int
    scope: Scope
    latency_ratio: float
    """This request's ITL over the session's own baseline."""
    model_ratio: float | None
    """This request's ITL over that of the other sessions on the model since it began; None where there are none."""

    def describe(self) -> str:
        """One sentence for a log or a terminal."""
        whose = "The model" if self.scope is Scope.MODEL else "The session"
        others = f" and {self.model_ratio:.1f} times that of the model's other sessions" if self.model_ratio else ""
        return (
            f"{whose} became slower: at request {self.request_index} the inter-token latency is "
            f"{self.latency_ratio:.1f} times the session's baseline{others}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a session stands once one of its requests has ended."""

    request_index: int
    """From 1, in the order in which the session's requests were started."""
    latency_ratio: float | None
    """This request's ITL over the session's baseline for the model; None without samples or a baseline."""
    stall_count: int
    """Stalls of the session's requests so far, those that ended."""
    decode_duration: float
    """Seconds from first to last token, summed over the session's requests that ended."""
    degraded: bool
    """Requests of this session to this model are slower than they were."""
    scope: Scope | None
    """Who degrades, where `degraded`."""
    onset: Degradation | None
    """What is to be told now, if anything. Of a model's degradation only the first session that notices tells."""


class _Level(NamedTuple):
    """How fast the tokens of one request came."""

    log: float
    """Log of the mean ITL in nanoseconds."""
    variance: float
    """Squared standard error of that."""


class _Pace:
    """How fast one session's requests to one model are, and whether that has changed. Moments are nanoseconds."""

    __slots__ = (
        "baseline",
        "degraded",
        "evidence",
        "faster",
        "first",
        "heard",
        "learned",
        "level",
        "precision",
        "since",
        "slower",
        "uncertainty",
    )

    def __init__(self) -> None:
        self.heard = self.since = 0
        """When a request ended last; when the first of those began that say "slower"."""
        self.level = 0.0
        """Log ITL of the last request."""
        self._start()

    def _start(self) -> None:
        self.degraded = False
        self.first: list[float] = []
        self.precision = 0.0
        self.baseline = self.uncertainty = 0.0
        self.learned: int | None = None
        """When the baseline stood."""
        self.slower = self.faster = 0.0
        """Evidence so far."""
        self.evidence = 0.0
        """That of the last request."""

    def over_baseline(self, level: _Level) -> float | None:
        """Difference in log ITL, from the second request on."""
        return level.log - self.baseline if self.first or self.learned is not None else None

    def take(self, level: _Level, spread: float, started: int, ended: int) -> bool:
        """Take in an ended request. Returns whether the degradation begins with it."""
        self.heard, self.level = ended, level.log
        if self.learned is None:
            self._learn(level, spread, ended)
            return False
        variance = spread + level.variance + self.uncertainty
        difference = level.log - self.baseline
        self.evidence = _said(SOUGHT / variance * (difference - SOUGHT / 2))
        if self.slower == 0:
            self.since = started
        self.slower = min(max(self.slower + self.evidence, 0), ALARM)
        self.faster = max(self.faster + _said(SOUGHT / variance * (-difference - SOUGHT / 2)), 0)
        onset = not self.degraded and self.slower == ALARM
        self.degraded = onset or (self.degraded and self.slower > 0)
        if self.faster >= ALARM:
            self._start()
            self._learn(level, spread, ended)
        elif not self.degraded:
            self._follow(difference, spread + level.variance)
        return onset

    def _learn(self, level: _Level, spread: float, ended: int) -> None:
        self.first.append(level.log)
        self.precision += 1 / (spread + level.variance)
        self.baseline = _median(self.first)
        if len(self.first) == LEARNED_AFTER:
            # The variance of a median is about half again that of a mean.
            self.uncertainty = 1.5 / self.precision
            self.learned = ended
            self.first = []

    def _follow(self, difference: float, variance: float) -> None:
        uncertainty = self.uncertainty + WANDERING
        gain = uncertainty / (uncertainty + variance)
        self.baseline += gain * min(max(difference, -SOUGHT / 2), SOUGHT / 2)
        self.uncertainty = uncertainty * (1 - gain)


class _Model:
    """What is known of a model over the sessions of this process."""

    __slots__ = ("degraded", "paces", "since", "spread")

    def __init__(self) -> None:
        self.paces: OrderedDict[str, _Pace] = OrderedDict()
        """Of the sessions heard last."""
        self.spread = TYPICAL_SPREAD
        self.degraded = False
        self.since = 0
        """When its degradation began."""

    def hear(self, session: str, pace: _Pace) -> None:
        self.paces[session] = pace
        self.paces.move_to_end(session)
        if len(self.paces) > SPEAKING:
            self.paces.popitem(last=False)

    def widen(self, pace: _Pace, level: _Level) -> None:
        """Learn the ordinary spread from a request that is about to be taken in."""
        difference = level.log - pace.baseline
        if pace.learned is None or pace.degraded or difference >= 0:
            return
        known = level.variance + pace.uncertainty
        shown = min(difference * difference, 4 * (self.spread + known)) - known
        self.spread = max(self.spread + SPREAD_RATE * (shown - self.spread), LEAST_SPREAD)

    def judge(self, pace: _Pace, now: int, *, begins: bool) -> Scope | None:
        """Whose degradation is to be told now: a session begins to be slower, and its model was not known to be."""
        if self.degraded:
            self.degraded = self.agreement(self.since, now - HEARD_NS) > 0
        if self.degraded or not begins:
            return None
        if self.agreement(pace.since, pace.since, besides=pace) < AGREEMENT:
            return Scope.SESSION
        self.degraded, self.since = True, pace.since
        return Scope.MODEL

    def agreement(self, since: int, heard: int, besides: _Pace | None = None) -> float:
        """Evidence of the sessions that were heard and knew their baselines before it began."""
        return sum(
            pace.evidence
            for pace in self.paces.values()
            if pace is not besides and pace.heard >= heard and pace.learned is not None and pace.learned < since
        )

    def level(self, pace: _Pace) -> float | None:
        """Median log ITL of the other sessions since one began to be slower."""
        others = [other.level for other in self.paces.values() if other is not pace and other.heard >= pace.since]
        return _median(others) if others else None


class _Session(Generic[Link]):
    """What is kept of one session."""

    __slots__ = ("decode", "key", "link", "linked", "paces", "requests", "stalls")

    def __init__(self, key: str) -> None:
        self.key = key
        self.requests = self.stalls = self.linked = 0
        self.decode = 0.0
        self.link: Link | None = None
        self.paces: OrderedDict[str, _Pace] = OrderedDict()


class _Models:
    """The models of this process, and the one lock over all that is known of sessions."""

    __slots__ = ("_known", "_limit", "clock", "lock")

    def __init__(self, limit: int, clock: Callable[[], int]) -> None:
        self.lock = Lock()
        self.clock = clock
        self._known: OrderedDict[str, _Model] = OrderedDict()
        self._limit = limit

    def __getitem__(self, key: str) -> _Model:
        return _latest(self._known, key, _Model, self._limit)


class Turn(Generic[Link]):
    """One request of a session."""

    __slots__ = ("_model", "_models", "_session", "_standing", "_started", "index", "previous")

    def __init__(self, models: _Models, session: _Session[Link], model: str) -> None:
        self._models, self._session, self._model = models, session, model
        self._started = models.clock()
        self._standing: Standing | None = None
        self.index = session.requests
        """From 1, in the order in which the session's requests were started."""
        self.previous: Link | None = session.link
        """What the session's previous request left for this one."""

    def leave(self, link: Link) -> None:
        """Leave something for the session's next request to refer to. Of concurrent requests the latest counts."""
        with self._models.lock:
            if self.index > self._session.linked:
                self._session.linked, self._session.link = self.index, link

    def end(self, samples: Sequence[float], *, stalls: int = 0, decode: float = 0.0) -> Standing:
        """Take in how the request went. A second call changes nothing, and returns the same.

        Args:
            samples: its ITL samples in nanoseconds, ascending. Fewer than two say nothing of its latency; give none
                where the consumer was too slow to tell.
            stalls: how many stalls it had.
            decode: seconds from its first to its last token.
        """
        level = _level(samples)
        with self._models.lock:
            if self._standing is None:
                self._standing = self._end(level, stalls, decode)
            return self._standing

    def _end(self, level: _Level | None, stalls: int, decode: float) -> Standing:
        session, model = self._session, self._models[self._model]
        pace = _latest(session.paces, self._model, _Pace, MODELS_A_SESSION)
        session.stalls += stalls
        session.decode += decode
        difference, onset = None, None
        if level is not None:
            now = self._models.clock()
            difference = pace.over_baseline(level)
            model.widen(pace, level)
            begins = pace.take(level, model.spread, self._started, now)
            model.hear(session.key, pace)
            scope = model.judge(pace, now, begins=begins)
            if scope is not None and difference is not None:
                others = model.level(pace)
                onset = Degradation(
                    request_index=self.index,
                    scope=scope,
                    latency_ratio=exp(difference),
                    model_ratio=None if others is None else exp(level.log - others),
                )
        return Standing(
            request_index=self.index,
            latency_ratio=None if difference is None else exp(difference),
            stall_count=session.stalls,
            decode_duration=session.decode,
            degraded=pace.degraded,
            scope=(Scope.MODEL if model.degraded else Scope.SESSION) if pace.degraded else None,
            onset=onset,
        )


class Sessions(Generic[Link]):
    """The sessions that this process has seen lately. Safe to use from any thread, but not from a finaliser: it locks.

    Args:
        limit: sessions that are remembered; beyond it the one that has not begun a request for longest is forgotten.
        model_limit: models that are remembered, likewise.
        clock: a monotonic clock in nanoseconds.

    Raises:
        ValueError: a limit below 1.
    """

    def __init__(
        self, limit: int = 10_000, *, model_limit: int = 128, clock: Callable[[], int] = perf_counter_ns
    ) -> None:
        for name, value in (("limit", limit), ("model_limit", model_limit)):
            if value < 1:
                raise ValueError(f"{name} is a number from 1 up, not {value!r}.")
        self._limit = limit
        self._known: OrderedDict[str, _Session[Link]] = OrderedDict()
        self._models = _Models(model_limit, clock)

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._known)

    def enter(self, session: str, model: str | None = None) -> Turn[Link]:
        """Begin a request of a session to a model."""
        key = _short(session)
        with self._models.lock:
            known = _latest(self._known, key, lambda: _Session(key), self._limit)
            known.requests += 1
            return Turn(self._models, known, _short(model or ""))


def _latest(table: OrderedDict[str, Entry], key: str, make: Callable[[], Entry], limit: int) -> Entry:
    """An entry of a table of bounded size, made where it is not there; the one not asked for for longest gives way."""
    entry = table.get(key)
    if entry is not None:
        table.move_to_end(key)
        return entry
    entry = table[key] = make()
    if len(table) > limit:
        table.popitem(last=False)
    return entry


def _short(key: str) -> str:
    """A key of bounded length: an id may come from a peer."""
    return key if len(key) <= LONGEST_KEY else f"{key[: LONGEST_KEY // 2]}{len(key)} {hash(key)}"


def _median(values: Iterable[float]) -> float:
    return percentile(sorted(values), 50)


def _said(evidence: float) -> float:
    return min(max(evidence, -LOUDEST), LOUDEST)


def _level(samples: Sequence[float]) -> _Level | None:
    """The log of the mean of ascending samples, their slowest few held back, and its variance.

    A mean, for the median of a stream that arrives in bursts says nothing of its pace. Many samples are represented by
    order statistics at even distances.
    """
    count = len(samples)
    if count < 2:  # noqa: PLR2004 - one gap has no spread
        return None
    step = max(count // LOOKED_AT, 1)
    picked = list(samples[step // 2 :: step])
    held = int(len(picked) * SLOWEST)
    if held:
        picked[-held:] = [picked[-held - 1]] * held
    mean = sum(picked) / len(picked)
    if not mean >= 1:  # a nanosecond
        return None
    relative_variance = max(sum(map(mul, picked, picked)) / len(picked) / mean**2 - 1, 0)
    # Few gaps do not know how much gaps vary: ten of a memoryless upstream are added, whose relative variance is 1.
    believed = (count * relative_variance + SUPPOSED) / (count + SUPPOSED)
    return _Level(log(mean), CLUSTERED * believed / count)
