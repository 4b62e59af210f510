"""Caps on the number of attribute values in metrics: every value is a time series, and others choose the values."""

from __future__ import annotations

from itertools import count
from typing import Final

OTHER: Final = "other"
OTHER_ERROR: Final = "_OTHER"
"""What the conventions call an error type beyond those that are kept apart."""
MAX_ERROR_TYPES: Final = 100
"""Some error types are codes that a provider makes up."""
MAX_NAMES: Final = 100
"""Providers, and operations: there are a few dozen, but for those that an application makes up."""


class CappedValues:
    """Keeps the first `limit` distinct values and replaces every later one.

    Threads may call it at once: the limit holds exactly, without a lock.

    Args:
        limit: how many distinct values are kept.
        replacement: what every other value becomes.
    """

    def __init__(self, limit: int, replacement: str) -> None:
        self._limit = limit
        self._replacement = replacement
        self._ranks: dict[tuple[str, str | None], int] = {}
        self._next_rank = count()

    def cap(self, value: str, group: str | None = None) -> str:
        """Return `value` if it is one of those that are kept, else the replacement.

        Pairs of `value` and `group` are counted: one value in two groups takes two places.
        """
        rank = self._ranks.get((value, group))
        if rank is None:
            if len(self._ranks) >= self._limit:
                return self._replacement
            # Of two threads that are both let in here with one place left, the second draws a rank beyond the limit.
            rank = self._ranks.setdefault((value, group), next(self._next_rank))
        return value if rank < self._limit else self._replacement


class LabelCaps:
    """Caps label cardinality: at most `limit` request models, response models and servers; others become `other`.

    They are counted apart, so that an upstream that answers with ever new names uses up no request model's place.

    Args:
        limit: how many of each are kept.
    """

    def __init__(self, limit: int) -> None:
        self._request_models = CappedValues(limit, OTHER)
        self._response_models = CappedValues(limit, OTHER)
        self._servers = CappedValues(limit, OTHER)
        self._providers = CappedValues(MAX_NAMES, OTHER)
        self._operations = CappedValues(MAX_NAMES, OTHER)

    def cap_request_model(self, model: str) -> str:
        """Return the metric attribute for a requested model."""
        return self._request_models.cap(model)

    def cap_response_model(self, model: str, request_model: str | None) -> str:
        """Return the metric attribute for the model of a response to a request for `request_model`."""
        return self._response_models.cap(model, request_model)

    def cap_server(self, address: str, port: int | None) -> tuple[str, int | None]:
        """Return the metric attributes for a server's address and port, which are counted as one; `other` has no port.

        An application that asks a host for each of its tenants has thousands of them.
        """
        capped = self._servers.cap(address, str(port))
        return (address, port) if capped == address else (capped, None)

    def cap_provider(self, provider: str) -> str:
        """Return the metric attribute for a provider; `observe()` and litellm take any name for one."""
        return self._providers.cap(provider)

    def cap_operation(self, operation: str) -> str:
        """Return the metric attribute for an operation; `observe()` takes any name for one."""
        return self._operations.cap(operation)
