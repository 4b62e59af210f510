"""Sessions: counts the requests of an agent loop or a chat, and finds when their tokens come slower than before.

Each session has a `Baseline` for each model that it uses; this module keeps the baselines of all sessions, bounded in
number, learns the ordinary spread of each model, and decides whether a degradation is the session's own or the model's:
when one session degrades, the evidence of the other sessions on the model is added up.

The ordinary spread is learned from those requests that were *faster* than their baseline, so that a slowdown does not
widen what counts as ordinary.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import exp, log
from threading import RLock
from time import perf_counter_ns
from typing import Final, TypeVar

from otel_itl.core.baseline import Baseline, RequestLatency, estimate_latency, median

MIN_PEER_EVIDENCE: Final = log(10)
"""Nats of evidence that a model's other sessions need together before a slowdown is put down to the model."""
INITIAL_SPREAD: Final = 0.15**2
"""Variance of the log ITL from request to request, before it is learned."""
MIN_SPREAD: Final = 0.1**2
"""The smallest variance that is learned."""
SPREAD_RATE: Final = 0.02
"""By which part of its difference from a request the learned variance moves."""
PEER_TTL_NS: Final = 600_000_000_000
"""For how long (ns) after its last request a session still counts as evidence on its model."""
MAX_PEERS: Final = 32
"""Sessions of a model that are compared: those whose requests ended last."""
MAX_MODELS_PER_SESSION: Final = 8
MAX_KEY_LENGTH: Final = 64
"""Longer ids and names are kept by their beginning and their hash."""

Entry = TypeVar("Entry")


class DegradationScope(Enum):
    """Which requests became slower."""

    SESSION = "session"
    """Those of this session, and not those of the others on the model; or there are no others to compare with."""
    MODEL = "model"
    """Those of the other sessions of this process on the model as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degradation:
    """The onset of a degradation: reported once, and again only after a recovery."""

    request_index: int
    scope: DegradationScope
    latency_ratio: float
    """This request's ITL over the session's own baseline."""
    model_ratio: float | None
    """This request's ITL over that of the other sessions on the model since it began; None: there are no others."""

    def describe(self) -> str:
        """Return one sentence for a log or a terminal."""
        subject = "The model" if self.scope is DegradationScope.MODEL else "The session"
        others = f" and {self.model_ratio:.1f} times that of the model's other sessions" if self.model_ratio else ""
        return (
            f"{subject} became slower: at request {self.request_index} the inter-token latency is "
            f"{self.latency_ratio:.1f} times the session's baseline{others}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """The status of a session when one of its requests ended."""

    request_index: int
    """From 1, in the order in which the session's requests were started."""
    latency_ratio: float | None
    """This request's ITL over the session's baseline for the model; None without samples or a baseline."""
    stall_count: int
    """Stalls of the session's requests so far, of those that ended."""
    decode_duration: float
    """Seconds from first to last token, summed over the session's requests that ended."""
    is_degraded: bool
    """The session's requests to this model are slower than they were."""
    scope: DegradationScope | None
    """Which requests became slower; None: the session is not degraded."""
    onset: Degradation | None
    """The degradation that begins with this request; None: none does, or another session reported it for the model."""


class _Model:
    """The baselines of the sessions that use one model, its ordinary spread, and whether the model is degraded."""

    __slots__ = ("baselines", "degraded_since", "is_degraded", "spread")

    def __init__(self) -> None:
        self.baselines: OrderedDict[str, Baseline] = OrderedDict()
        """Session → its baseline, the one whose request ended last at the end."""
        self.spread = INITIAL_SPREAD
        self.is_degraded = False
        self.degraded_since = 0

    def add_baseline(self, session: str, baseline: Baseline) -> None:
        """Make a session the one whose request ended last; beyond `MAX_PEERS` the oldest is dropped."""
        self.baselines[session] = baseline
        self.baselines.move_to_end(session)
        if len(self.baselines) > MAX_PEERS:
            self.baselines.popitem(last=False)

    def learn_spread(self, baseline: Baseline, latency: RequestLatency) -> None:
        """Learn the ordinary spread from a request that is about to be added to its baseline, if it was faster."""
        difference = baseline.compare(latency)
        if baseline.learned_at is None or baseline.is_degraded or difference is None or difference >= 0:
            return
        estimated = latency.variance + baseline.uncertainty
        observed = min(difference * difference, 4 * (self.spread + estimated)) - estimated
        self.spread = max(self.spread + SPREAD_RATE * (observed - self.spread), MIN_SPREAD)

    def find_onset(self, baseline: Baseline, now: int, *, is_session_onset: bool) -> DegradationScope | None:
        """Decide which degradation begins with a request of a session; None: none, or the model's was reported."""
        if self.is_degraded:
            self.is_degraded = self._sum_evidence(self.degraded_since, now - PEER_TTL_NS) > 0
        if self.is_degraded or not is_session_onset:
            return None
        if self._sum_evidence(baseline.slower_since, baseline.slower_since, excluded=baseline) < MIN_PEER_EVIDENCE:
            return DegradationScope.SESSION
        self.is_degraded, self.degraded_since = True, baseline.slower_since
        return DegradationScope.MODEL

    def _sum_evidence(self, learned_before: int, ended_from: int, excluded: Baseline | None = None) -> float:
        """Add up the evidence of sessions that ended a request from a moment on, with baselines from before another."""
        return sum(
            baseline.last_evidence
            for baseline in self.baselines.values()
            if baseline is not excluded
            and baseline.last_ended >= ended_from
            and baseline.learned_at is not None
            and baseline.learned_at < learned_before
        )

    def find_peer_log(self, baseline: Baseline) -> float | None:
        """Return the median log ITL of the other sessions since this one became slower; None: there are none."""
        logs = [
            peer.last_log
            for peer in self.baselines.values()
            if peer is not baseline and peer.last_ended >= baseline.slower_since
        ]
        return median(logs) if logs else None


class _Session:
    """The counts, the link and the baselines of one session."""

    __slots__ = ("baselines", "decode_duration", "key", "link", "link_index", "request_count", "stall_count")

    def __init__(self, key: str) -> None:
        self.key = key
        self.request_count = self.stall_count = self.link_index = 0
        self.decode_duration = 0.0
        self.link: object | None = None
        self.baselines: OrderedDict[str, Baseline] = OrderedDict()


class _Models:
    """The models of this process, and the one lock over the state of all sessions."""

    __slots__ = ("_by_name", "_limit", "clock", "lock")

    def __init__(self, limit: int, clock: Callable[[], int]) -> None:
        self.lock = RLock()  # a handler of a signal may begin a request while this thread ends another one
        self.clock = clock
        self._by_name: OrderedDict[str, _Model] = OrderedDict()
        self._limit = limit

    def __getitem__(self, name: str) -> _Model:
        return _get_or_add(self._by_name, name, _Model, self._limit)


class TrackedRequest:
    """One request of a session, from its start to its end."""

    __slots__ = ("_model", "_models", "_session", "_started", "_status", "index", "previous_link")

    def __init__(self, models: _Models, session: _Session, model: str) -> None:
        self._models, self._session, self._model = models, session, model
        self._started = models.clock()
        self._status: SessionStatus | None = None
        self.index = session.request_count
        """From 1, in the order in which the session's requests were started."""
        self.previous_link: object | None = session.link
        """The link of the session's previous request, such as its span context; None: it set none."""

    def set_link(self, link: object) -> None:
        """Set the link that the session's next request gets. Of concurrent requests the latest one wins."""
        with self._models.lock:
            if self.index > self._session.link_index:
                self._session.link_index, self._session.link = self.index, link

    def end(
        self,
        samples: Sequence[float],
        *,
        uncertainty: float = 0.0,
        stall_count: int = 0,
        decode_duration: float = 0.0,
    ) -> SessionStatus:
        """Add the ended request to its session. A second call changes nothing, and returns the same status.

        Args:
            samples: its ITL samples in nanoseconds, ascending. With fewer than two the request has no latency; pass
                none where the samples do not show the upstream's pace.
            uncertainty: how far the bounds of their mean are apart, as a share of it.
            stall_count: how many stalls it had.
            decode_duration: seconds from its first to its last token.
        """
        latency = estimate_latency(samples, uncertainty)
        with self._models.lock:
            if self._status is None:
                self._status = self._update(latency, stall_count, decode_duration)
            return self._status

    def _update(self, latency: RequestLatency | None, stall_count: int, decode_duration: float) -> SessionStatus:
        """Update the session and its model. The lock is held."""
        session, model = self._session, self._models[self._model]
        baseline = _get_or_add(session.baselines, self._model, Baseline, MAX_MODELS_PER_SESSION)
        session.stall_count += stall_count
        session.decode_duration += decode_duration
        difference, onset = None, None
        if latency is not None:
            now = self._models.clock()
            difference = baseline.compare(latency)
            model.learn_spread(baseline, latency)
            is_onset = baseline.add_request(latency, model.spread, self._started, now)
            model.add_baseline(session.key, baseline)
            scope = model.find_onset(baseline, now, is_session_onset=is_onset)
            if scope is not None and difference is not None:
                peer_log = model.find_peer_log(baseline)
                onset = Degradation(
                    request_index=self.index,
                    scope=scope,
                    latency_ratio=exp(difference),
                    model_ratio=None if peer_log is None else exp(latency.log - peer_log),
                )
        degraded_scope = DegradationScope.MODEL if model.is_degraded else DegradationScope.SESSION
        return SessionStatus(
            request_index=self.index,
            latency_ratio=None if difference is None else exp(difference),
            stall_count=session.stall_count,
            decode_duration=session.decode_duration,
            is_degraded=baseline.is_degraded,
            scope=degraded_scope if baseline.is_degraded else None,
            onset=onset,
        )


class Sessions:
    """The latest sessions of this process. Safe to use from any thread, but not from a finalizer: it takes a lock.

    Args:
        limit: sessions that are kept; beyond it the one that has not begun a request for longest is dropped.
        model_limit: models that are kept, likewise.
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
        self._by_key: OrderedDict[str, _Session] = OrderedDict()
        self._models = _Models(model_limit, clock)

    def __len__(self) -> int:
        """Return the number of sessions that are kept."""
        return len(self._by_key)

    def begin_request(self, session_id: str, model: str | None = None) -> TrackedRequest:
        """Count a request of a session to a model, when it is made; the session is added if it is new."""
        key = _shorten_key(session_id)
        with self._models.lock:
            session = _get_or_add(self._by_key, key, lambda: _Session(key), self._limit)
            session.request_count += 1
            return TrackedRequest(self._models, session, _shorten_key(model or ""))


def _get_or_add(table: OrderedDict[str, Entry], key: str, make: Callable[[], Entry], limit: int) -> Entry:
    """Return an entry of a table, added if it is missing; beyond `limit` the least recently used one is dropped."""
    entry = table.get(key)
    if entry is not None:
        table.move_to_end(key)
        return entry
    entry = table[key] = make()
    if len(table) > limit:
        table.popitem(last=False)
    return entry


def _shorten_key(key: str) -> str:
    """Return a key of bounded length: an id may come from another process."""
    return key if len(key) <= MAX_KEY_LENGTH else f"{key[: MAX_KEY_LENGTH // 2]}{len(key)} {hash(key)}"
