"""The latency baseline of one session for one model, and the sequential test that finds a lasting change from it.

Every ended request is one observation of how fast tokens come: the log of its mean ITL, with a standard error that
follows the number of its samples. The test is a CUSUM of log-likelihood ratios. With `x` the log of the mean ITL of a
request and `s` its standard error:

* Baseline `b`: the median `x` of the first three requests, then an average that follows slowly, by no more than a part
  of `TARGET_SLOWDOWN / 2` for any one request, and not at all while the session is degraded. `p` is its variance.
* Ordinary spread `t`: the standard deviation of `x` from request to request. `sessions` learns it for each model.
* Evidence of a request: `TARGET_SLOWDOWN / (t² + s² + p) · (x - b - TARGET_SLOWDOWN / 2)`, the log-likelihood ratio of
  "1.75 times slower" against "no slower", in nats, and no more than two thirds of an alarm.
* `W`, the evidence so far, is kept between 0 and `ALARM` = ln 10,000. A session is degraded from when `W` reaches
  `ALARM` until `W` is back at 0. The same test upside down finds a session that became faster: its baseline is learned
  anew.

Worked example. A session at 20 ms with t = 0.15, s = 0.1 and p = 0.01: a variance of 0.0425 is expected. A request at
40 ms has x - b = ln 2 = 0.693, and its evidence is 0.560 / 0.0425 · (0.693 - 0.280) = 5.4 of the 9.2 nats of an alarm.
A second one like it, and the session is degraded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from operator import mul
from typing import Final, NamedTuple

from otel_itl.core.percentiles import percentile

TARGET_SLOWDOWN: Final = log(1.75)
"""The slowdown that the test is made for, in log ITL. Half of it, a factor of 1.32, is not evidence of one."""
ALARM: Final = log(10_000)
"""Nats of evidence. Independent requests reach them by chance less than once in ten thousand (Lorden's bound)."""
MAX_EVIDENCE: Final = ALARM * 2 / 3
"""The evidence that one request can add: a single slow one never is a degradation."""
BASELINE_REQUESTS: Final = 3
"""Requests whose median is the first baseline."""
BASELINE_DRIFT: Final = 0.02**2
"""How much a baseline may change from one request to the next, as a variance: how fast its average forgets."""
AUTOCORRELATION: Final = 2.0
"""How much more the mean of the gaps of one request varies than if each gap were drawn on its own."""
SUBSAMPLE_SIZE: Final = 128
"""From twice as many samples on, the mean is taken over this many order statistics, or up to twice as many."""
CLIPPED_SHARE: Final = 0.02
"""The slowest part of the samples, which counts as no slower than the next: a stall is not the pace."""
PRIOR_SAMPLES: Final = 10
"""Gaps of a memoryless upstream that are added to those of a request when their variance is estimated."""


class RequestLatency(NamedTuple):
    """How fast the tokens of one request came."""

    log: float
    """Log of the mean ITL in nanoseconds."""
    variance: float
    """Squared standard error of `log`."""


class Baseline:
    """The baseline of one session's requests to one model, and whether they have become slower.

    Moments are nanoseconds. Not thread-safe: the owner holds a lock.
    """

    __slots__ = (
        "_baseline",
        "_evidence_faster",
        "_evidence_slower",
        "_first_logs",
        "_precision",
        "is_degraded",
        "last_ended",
        "last_evidence",
        "last_log",
        "learned_at",
        "slower_since",
        "uncertainty",
    )

    def __init__(self) -> None:
        self.last_ended = 0
        """When a request ended last."""
        self.slower_since = 0
        """When the first of those requests began that are evidence of a slowdown."""
        self.last_log = 0.0
        """Log ITL of the last request."""
        self._reset()

    def _reset(self) -> None:
        """Forget the baseline, to learn another one from the next requests."""
        self.is_degraded = False
        self._first_logs: list[float] = []
        self._precision = 0.0
        self._baseline = 0.0
        self.uncertainty = 0.0
        """Variance of the baseline."""
        self.learned_at: int | None = None
        """When the baseline was learned; None: fewer than `BASELINE_REQUESTS` requests have ended."""
        self._evidence_slower = self._evidence_faster = 0.0
        self.last_evidence = 0.0
        """Evidence that the last request added for a slowdown."""

    def compare(self, latency: RequestLatency) -> float | None:
        """Return a request's log ITL less the baseline's; None for the first request, as there is no baseline yet."""
        return latency.log - self._baseline if self._first_logs or self.learned_at is not None else None

    def add_request(self, latency: RequestLatency, spread: float, started: int, ended: int) -> bool:
        """Add an ended request to the test. Returns whether a degradation begins with it.

        Args:
            latency: how fast its tokens came.
            spread: the ordinary variance of the log ITL from request to request.
            started: when the request was made.
            ended: when it ended.
        """
        self.last_ended, self.last_log = ended, latency.log
        if self.learned_at is None:
            self._learn(latency, spread, ended)
            return False
        variance = spread + latency.variance + self.uncertainty
        difference = latency.log - self._baseline
        self.last_evidence = _clip_evidence(TARGET_SLOWDOWN / variance * (difference - TARGET_SLOWDOWN / 2))
        if self._evidence_slower == 0:
            self.slower_since = started
        self._evidence_slower = min(max(self._evidence_slower + self.last_evidence, 0), ALARM)
        evidence_faster = _clip_evidence(TARGET_SLOWDOWN / variance * (-difference - TARGET_SLOWDOWN / 2))
        self._evidence_faster = max(self._evidence_faster + evidence_faster, 0)
        is_onset = not self.is_degraded and self._evidence_slower == ALARM
        self.is_degraded = is_onset or (self.is_degraded and self._evidence_slower > 0)
        if self._evidence_faster >= ALARM:
            self._reset()
            self._learn(latency, spread, ended)
        elif not self.is_degraded:
            self._follow(difference, spread + latency.variance)
        return is_onset

    def _learn(self, latency: RequestLatency, spread: float, ended: int) -> None:
        """Add one of the first requests, whose median becomes the baseline."""
        self._first_logs.append(latency.log)
        self._precision += 1 / (spread + latency.variance)
        self._baseline = median(self._first_logs)
        if len(self._first_logs) == BASELINE_REQUESTS:
            # The variance of a median is about half again that of a mean.
            self.uncertainty = 1.5 / self._precision
            self.learned_at = ended
            self._first_logs = []

    def _follow(self, difference: float, variance: float) -> None:
        """Move the baseline towards a request, as a Kalman filter of a slowly wandering level does."""
        uncertainty = self.uncertainty + BASELINE_DRIFT
        gain = uncertainty / (uncertainty + variance)
        self._baseline += gain * min(max(difference, -TARGET_SLOWDOWN / 2), TARGET_SLOWDOWN / 2)
        self.uncertainty = uncertainty * (1 - gain)


def estimate_latency(samples: Sequence[float], uncertainty: float = 0.0) -> RequestLatency | None:
    """Estimate how fast the tokens of a request came.

    It is the log of the mean with the slowest samples clipped: the median of a stream that arrives in bursts would not
    show its pace. Many samples are represented by order statistics at even distances.

    Args:
        samples: its ITL samples in nanoseconds, ascending.
        uncertainty: how far the bounds of their mean are apart, as a share of it.

    Returns:
        None: fewer than two samples, or a mean below a nanosecond.
    """
    count = len(samples)
    if count < 2:  # noqa: PLR2004 - one gap has no spread
        return None
    step = max(count // SUBSAMPLE_SIZE, 1)
    picked = list(samples[step // 2 :: step])
    clipped = int(len(picked) * CLIPPED_SHARE)
    if clipped:
        picked[-clipped:] = [picked[-clipped - 1]] * clipped
    mean = sum(picked) / len(picked)
    if not mean >= 1:  # a nanosecond
        return None
    relative_variance = max(sum(map(mul, picked, picked)) / len(picked) / mean**2 - 1, 0)
    # A few gaps do not show how much gaps vary: ten of a memoryless upstream are added, whose relative variance is 1.
    expected_variance = (count * relative_variance + PRIOR_SAMPLES) / (count + PRIOR_SAMPLES)
    return RequestLatency(log(mean), AUTOCORRELATION * expected_variance / count + uncertainty * uncertainty)


def median(values: Iterable[float]) -> float:
    """Compute the median of values in any order."""
    return percentile(sorted(values), 50)


def _clip_evidence(evidence: float) -> float:
    return min(max(evidence, -MAX_EVIDENCE), MAX_EVIDENCE)
