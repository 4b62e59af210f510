"""Selects streams by time, provider, model, session and any attribute: the same options for every command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from otel_itl.core.moments import format_time
from otel_itl.tools.report.reading.span_facts import format_attribute
from otel_itl.tools.report.reading.streams import Identity, StoredStream
from otel_itl.tools.report.render.number_format import pluralize


@dataclass(slots=True, kw_only=True)
class Selection:
    """Which streams of the input a command uses. `*` and `?` in names and values are as in file names."""

    since: int | None = None
    """Unix time (ns): those that were requested from then on."""
    until: int | None = None
    """Unix time (ns): those that were requested before."""
    models: Sequence[str] = ()
    """Those of any of these models; empty: of all. Likewise the next two."""
    providers: Sequence[str] = ()
    sessions: Sequence[str] = ()
    where: Sequence[tuple[str, str]] = ()
    """Those that have all of these attributes of the span, or else of its resource, with these values."""
    read: int = 0
    """Streams that were read so far."""
    selected: int = 0
    """Those of them that were selected."""

    @property
    def options(self) -> str:
        """The options that select, as on the command line; empty: all streams are selected."""
        moments = [(name, at) for name, at in (("since", self.since), ("until", self.until)) if at is not None]
        words = [f"--{name} {format_time(at)}" for name, at in moments]
        named = (("provider", self.providers), ("model", self.models), ("session", self.sessions))
        words += [f"--{name} {value}" for name, values in named for value in values]
        return " ".join(words + [f"--where {key}={value}" for key, value in self.where])

    def describe(self) -> str:
        """Return how many of the streams are selected, and by what; empty: nothing selects."""
        return f"{self.selected:,} of {pluralize(self.read, 'stream')}: {self.options}" if self.options else ""

    def select(self, streams: Iterable[StoredStream]) -> Iterator[StoredStream]:
        """Yield the streams that are selected, and count both."""
        return filter(self.takes, streams)

    def takes(self, stream: StoredStream) -> bool:
        """Return whether a stream that was read is selected, and count it."""
        facts = stream.span_facts
        self.read += 1
        is_selected = self.matches(stream.timeline.request_unix_ns, stream, facts.session_id, facts.attributes)
        self.selected += is_selected
        return is_selected

    def matches(
        self, at: int, names: StoredStream | Identity, session_id: str | None, attributes: Mapping[str, Any]
    ) -> bool:
        """Return whether what was requested at a time (Unix, ns) is selected by every option."""
        return (
            (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
            and _matches_any(names.model, self.models)
            and _matches_any(names.provider, self.providers)
            and _matches_any(session_id, self.sessions)
            and all(_matches_any(find_attribute(attributes, key), [value]) for key, value in self.where)
        )


def find_attribute(attributes: Mapping[str, Any], key: str) -> str | None:
    """Return an attribute of a stream's span, or else of its resource, as text; None: neither has it."""
    value = attributes.get(key)
    return None if value is None else format_attribute(value)


def _matches_any(name: str | None, patterns: Sequence[str]) -> bool:
    """Return whether a name matches any pattern, or there is none."""
    return not patterns or (name is not None and any(name == one or fnmatchcase(name, one) for one in patterns))
