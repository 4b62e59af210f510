"""Turns samples into Markdown tables: the cost of each variant beyond the bare SDK, compared round by round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from bench.inside import FUNCTIONS
from bench.overhead.instructions import PARSED, Count, Readings, count
from bench.overhead.memory import Held, Scale
from bench.overhead.payload import FORMS as PAYLOAD_FORMS
from bench.overhead.payload import Payload
from bench.overhead.pieces import Spent
from bench.overhead.subjects import Subject
from bench.overhead.times import BURST, FACES, Cell, Sample, Samples
from bench.overhead.variants import FLOOR, OFFICIAL, OURS, UNINSTRUMENTED, Variant

NOT_INSTALLED = "not installed"
NONE = "-"


class Spread(NamedTuple):
    """Median and range of a figure over the rounds."""

    median: float
    low: float
    high: float

    def text(self, unit: float = 1) -> str:
        """Return median and range as text, in multiples of `unit`."""
        median, low, high = (_number(value / unit) for value in self)
        return f"{median} ({low}…{high})"


def spread(values: Iterable[float]) -> Spread:
    """Return median and range of the values."""
    known = list(values)
    return Spread(statistics.median(known), min(known), max(known))


def table(title: str, notes: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns, below a heading and notes."""
    lines = [list(header), *(list(row) + [NONE] * (len(header) - len(row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    lines.insert(1, ["-" * width for width in widths])
    drawn = "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)
    return f"### {title}\n\n{notes}\n\n{drawn}\n"


def stubbed_table(subject: Subject, face: str, variants: Sequence[Variant], samples: Samples, sdk_ns: float) -> str:
    """Return the cost per chunk and per stream beyond the SDK, measured with stubs in place of HTTP and parsing."""
    added = _Added(samples, face)
    whole = {name: added.per_chunk(name, _all) for name in added.names}
    floor, official = added.per_chunk(FLOOR, _streaming), whole.get(OFFICIAL)

    def figures(name: str) -> list[str]:
        streaming = added.per_chunk(name, _streaming)
        return [
            streaming.text(),
            added.per_chunk(name, _ending).text(),
            added.per_chunk(name, _metrics).text(),
            added.per_chunk(name, _events).text(),
            whole[name].text(),
            added.per_stream(name, _all).text(1_000),
            f"{whole[name].median / sdk_ns:.1%}",
            f"{streaming.median / floor.median:.1f}",
            f"{whole[name].median / official.median:.2f}" if official else NONE,
        ]

    return table(
        f"{subject.package}, {face}: cost beyond the bare SDK, by part",
        "CPU time beyond the uninstrumented SDK, with stubs in place of HTTP and parsing: nanoseconds per chunk of a "
        "long stream, and microseconds per stream of one token. Median over the rounds (lowest…highest). *÷ SDK*: the "
        "sum divided by the time that the SDK itself needs per chunk over loopback. *÷ floor*: *streaming* divided by "
        "that of the floor. *÷ official*: the sum divided by that of the official instrumentation.",
        (
            "variant",
            "streaming, ns/chunk",
            "at the end, ns/chunk",
            "metrics, ns/chunk",
            "token events, ns/chunk",
            "sum, ns/chunk",
            "fixed, µs/stream",
            "÷ SDK",
            "÷ floor",
            "÷ official",
        ),
        _rows(subject, variants, figures),
    )


def length_table(subject: Subject, variants: Sequence[Variant], samples: Samples) -> str:
    """Return the total cost of a stream by its length."""
    lengths = sorted({cell.tokens for cell in samples})

    def figures(name: str) -> list[str]:
        return [
            _Added(samples, face).per_stream(name, _all, length).text(1_000) for face in FACES for length in lengths
        ]

    return table(
        f"{subject.package}: total cost of a stream, by its length",
        "Microseconds of CPU time beyond the uninstrumented SDK, from the request until metrics and token events are "
        "exported.",
        ("variant", *(f"{face}, {_tokens(length)}" for face in FACES for length in lengths)),
        _rows(subject, variants, figures),
    )


def loopback_table(subject: Subject, variants: Sequence[Variant], samples: Samples) -> str:
    """Return the cost of each variant with the real client."""

    def figures(name: str) -> list[str]:
        cells: list[str] = []
        for face in FACES:
            bare, mine = (_cell(samples, variant, face) for variant in (UNINSTRUMENTED, name))
            chunks = subject.chunks(mine.tokens)
            added = spread((x.process - y.process) / chunks for x, y in zip(samples[mine], samples[bare], strict=True))
            own = sdk_ns(subject, samples, face)
            whole = spread(sample.process / chunks for sample in samples[mine])
            share = NONE if name == UNINSTRUMENTED else f"{added.median / own:.1%}"
            cells += [whole.text(1_000), NONE if name == UNINSTRUMENTED else added.text(1_000), share]
        return cells

    columns = ("CPU, µs/chunk", "added, µs/chunk", "added, share")
    return table(
        f"{subject.package}: the real client over loopback",
        "Microseconds of CPU time of the whole process per chunk, including HTTP and parsing, until the metrics are "
        "collected. The cost of measuring is small compared with the spread of these figures: the tables above show it "
        "better.",
        ("variant", *(f"{face}: {column}" for face in FACES for column in columns)),
        _rows(subject, variants, figures, bare=True),
    )


def sdk_ns(subject: Subject, samples: Samples, face: str) -> float:
    """Return the CPU time (ns) that the bare SDK needs per chunk over loopback."""
    cell = _cell(samples, UNINSTRUMENTED, face)
    return statistics.median(sample.process for sample in samples[cell]) / subject.chunks(cell.tokens)


def ending_table(subject: Subject, variants: Sequence[Variant], samples: Samples, sdk: Mapping[str, float]) -> str:
    """Return for how long the end of a long stream blocks its thread."""
    tokens = next(iter(samples)).tokens

    def blocks(name: str, face: str, shape: str) -> Spread:
        mine, bare = (samples[Cell(variant + shape, face, tokens)] for variant in (name, UNINSTRUMENTED))
        return spread(x.ending - y.ending for x, y in zip(mine, bare, strict=True))

    def figures(name: str) -> list[str]:
        cells: list[str] = []
        for face in FACES:
            paced, burst = blocks(name, face, ""), blocks(name, face, BURST)
            cells += [paced.text(1_000), burst.text(1_000), f"{max(paced.median, burst.median) / sdk[face]:.1f}"]
        return cells

    columns = ("paced, µs", "all at once, µs", "SDK chunks")
    return table(
        f"{subject.package}: how long the end of a stream of {tokens:,} tokens blocks its thread",
        "Microseconds of CPU time between the last chunk and the end of the loop, beyond the uninstrumented SDK. "
        "*Paced*: the tokens arrived at the pace of a model; *all at once*: without pauses. *SDK chunks*: how many "
        "chunks the SDK parses in the longer of both. With the default limit of 128 events per span, `each` falls back "
        "to `packed` here.",
        ("variant", *(f"{face}: {column}" for face in FACES for column in columns)),
        _rows(subject, variants, figures),
    )


def piece_table(subject: Subject, spent: Mapping[str, Mapping[int, Spent]]) -> str:
    """Return the CPU time inside the functions of `otel_itl` that are called once per stream."""
    one, many = next(iter(spent.values())).keys()
    names = list(spent)

    def row(label: str) -> list[str]:
        cells = []
        for name in names:
            short, long = spent[name][one][label], spent[name][many][label]
            cells += [_number(short / 1_000), _number(long / 1_000), _number((long - short) / (many - one))]
        return [label, *cells]

    columns = (f"{_tokens(one)}, µs", f"{_tokens(many)}, µs", "per token, ns")
    return table(
        f"{subject.package}: CPU time inside otel_itl, by function",
        "Microseconds of CPU time inside each function and the functions that it calls, medians. `·`: part of "
        "finalizing a stream.",
        ("function", *(f"{name}: {column}" for name in names for column in columns)),
        [row(label) for label, _, _ in FUNCTIONS],
    )


def memory_table(subject: Subject, variants: Sequence[Variant], held: Mapping[str, Held]) -> str:
    """Return the memory per chunk."""
    bare = held[UNINSTRUMENTED]

    def figures(name: str) -> list[str]:
        mine = held[name]
        return [_number(max(x - y, 0.0), 1) for x, y in zip(mine, bare, strict=True)]

    return table(
        f"{subject.package}: memory per chunk",
        "Bytes that Python has allocated (`tracemalloc`) per chunk of a long stream, beyond the uninstrumented SDK; "
        "the consumer keeps no chunk. *Streaming*: while the stream runs. *Ended span*: in the span until it is "
        "exported. *Waiting for metrics*: elsewhere, until the metrics are collected.",
        ("variant", "streaming", "ended span", "waiting for metrics"),
        _rows(subject, variants, figures),
    )


def scale_table(subject: Subject, variants: Sequence[Variant], scales: Mapping[str, Scale]) -> str:
    """Return the memory of one very long stream and of many open ones."""
    bare = scales[UNINSTRUMENTED]
    long, many = bare.chunks, bare.streams

    def figures(name: str) -> list[str]:
        mine = scales[name]
        return [
            _number((mine.streaming - bare.streaming) / 1e6, 1),
            _number((mine.peak - bare.peak) / 1e6, 1),
            _number((mine.after - bare.after) / 1e6, 1),
            _number((mine.open - bare.open) / many, 0),
            _number((mine.closed - bare.closed) / many, 0),
        ]

    return table(
        f"{subject.package}: memory at scale",
        f"Memory that Python has allocated (`tracemalloc`) beyond the uninstrumented SDK: MB for one stream of "
        f"{long:,} tokens, and bytes per stream for {many:,} open streams that have each yielded one chunk.",
        (
            "variant",
            "long: streaming, MB",
            "long: peak at its end, MB",
            "long: exported, MB",
            "many: open, bytes each",
            "many: closed, bytes each",
        ),
        _rows(subject, [variant for variant in variants if variant.name in scales], figures),
    )


def payload_table(subject: Subject, payloads: Mapping[tuple[str, int], Payload]) -> str:
    """Return the bytes on the wire per token."""
    lengths = sorted({tokens for _, tokens in payloads})

    def row(form: str) -> list[str]:
        cells = []
        for tokens in lengths:
            mine, least = payloads[form, tokens], payloads["none", tokens]
            cells += [
                f"{mine.plain:,}",
                _number((mine.plain - least.plain) / tokens, 1),
                f"{mine.gzipped:,}",
                _number((mine.gzipped - least.gzipped) / tokens, 1),
            ]
        return [f"`{form}`", *cells]

    columns = ("bytes", "bytes/token", "gzipped", "gzipped/token")
    return table(
        f"{subject.package}: payload of each form of the token events",
        "Bytes of OTLP protobuf for the span and the logs of one stream, each exported alone, with resource and scope. "
        "The span limits allow one event per token. *Per token*: beyond the form `none`.",
        ("token_events", *(f"{tokens:,} tokens: {column}" for tokens in lengths for column in columns)),
        [row(form) for form in PAYLOAD_FORMS],
    )


def counted_table(subject: Subject, kind: str, variants: Sequence[Variant], readings: Readings, face: str) -> str:
    """Return the machine instructions or bytecodes per chunk."""
    one, low, high = sorted({cell.tokens for cell in readings})

    def of(name: str, tokens: int) -> Count:
        return count(readings[Cell(name, face, tokens)])

    def slope(name: str, part: int) -> float:
        return (of(name, high)[part] - of(name, low)[part]) / (high - low)

    def added(name: str) -> list[float]:
        return [slope(name, part) - slope(UNINSTRUMENTED, part) for part in range(len(Count._fields))]

    sdk, floor = slope(PARSED, 0), added(FLOOR)[0]
    official = sum(added(OFFICIAL)) if Cell(OFFICIAL, face, one) in readings else None

    def figures(name: str) -> list[str]:
        parts = added(name)
        fixed = sum(of(name, one)) - sum(of(UNINSTRUMENTED, one))
        return [
            *(_number(part, 0) for part in (*parts, sum(parts), fixed)),
            f"{sum(parts) / sdk:.2%}",
            f"{parts[0] / floor:.1f}",
            f"{sum(parts) / official:.3f}" if official else NONE,
        ]

    return table(
        f"{subject.package}, {face}: {kind}",
        f"{kind.capitalize()} beyond the uninstrumented SDK, per chunk (from streams of {low} and {high} tokens) and "
        f"per stream of one token. The SDK itself executes {sdk:,.0f} per chunk, parsing included. The garbage "
        "collector is off.",
        (
            "variant",
            "streaming, per chunk",
            "at the end, per chunk",
            "metrics, per chunk",
            "token events, per chunk",
            "sum, per chunk",
            "fixed, per stream",
            "÷ SDK",
            "÷ floor",
            "÷ official",
        ),
        _rows(subject, variants, figures),
    )


Part = Callable[[Sample], float]


def _streaming(sample: Sample) -> float:
    return sample.streaming


def _ending(sample: Sample) -> float:
    return sample.ending


def _metrics(sample: Sample) -> float:
    return sample.metrics


def _events(sample: Sample) -> float:
    return sample.events


def _all(sample: Sample) -> float:
    return sample.streaming + sample.ending + sample.metrics + sample.events


class _Added:
    """Differences between variants and the uninstrumented SDK, each within one round."""

    def __init__(self, samples: Samples, face: str) -> None:
        self._samples = samples
        self._face = face
        self.names = list(dict.fromkeys(cell.variant for cell in samples))
        self._lengths = sorted({cell.tokens for cell in samples})

    def per_stream(self, name: str, part: Part, tokens: int | None = None) -> Spread:
        """Return the difference for a stream of `tokens`, by default of the shortest length."""
        return spread(self._differences(name, part, self._lengths[0] if tokens is None else tokens))

    def per_chunk(self, name: str, part: Part) -> Spread:
        """Return the difference per chunk: that of the longest streams minus that of the shortest."""
        short, long = self._lengths[0], self._lengths[-1]
        return spread(
            (many - one) / (long - short)
            for many, one in zip(self._differences(name, part, long), self._differences(name, part, short), strict=True)
        )

    def _differences(self, name: str, part: Part, tokens: int) -> list[float]:
        mine, bare = (self._samples[Cell(variant, self._face, tokens)] for variant in (name, UNINSTRUMENTED))
        return [part(x) - part(y) for x, y in zip(mine, bare, strict=True)]


def _rows(
    subject: Subject, variants: Sequence[Variant], figures: Callable[[str], list[str]], *, bare: bool = False
) -> list[list[str]]:
    rows = []
    for variant in variants:
        if (variant.name == UNINSTRUMENTED and not bare) or not variant.supports(subject):
            continue
        label = f"**{variant.name}**" if variant.name == OURS else variant.name
        installed = variant.installed(subject) is not None
        rows.append([label, *(figures(variant.name) if installed else [NOT_INSTALLED])])
    return rows


def _cell(samples: Samples, variant: str, face: str) -> Cell:
    return next(cell for cell in samples if cell.variant == variant and cell.face == face)


def _tokens(number: int) -> str:
    return "1 token" if number == 1 else f"{number:,} tokens"


def _number(value: float, decimals: int | None = None) -> str:
    if decimals is None:
        decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{round(value, decimals) + 0.0:,.{decimals}f}"
