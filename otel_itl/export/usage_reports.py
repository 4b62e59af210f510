"""Decides which stream of a background response reports its token usage: one of them, whichever has it first.

A response that runs in the background has several streams: the one of the request that began it, and one for each
request that fetches it again, from its start or from where an earlier stream broke off. The usage at the end of each is
that of the whole response.
"""

from __future__ import annotations

from typing import Final

from otel_itl.core.conventions import FETCH_OPERATIONS
from otel_itl.core.stream import FinishedStream

MAX_RESPONSES: Final = 4_096
"""Background responses that are remembered; then the oldest are forgotten."""


class UsageReports:
    """Remembers the background responses of this process. Threads may use it at once, and none waits.

    Args:
        limit: how many responses are remembered.
    """

    def __init__(self, limit: int = MAX_RESPONSES) -> None:
        self._limit = limit
        self._begun: dict[str, object] = {}
        self._reported: dict[str, object] = {}
        self._fetched: dict[str, object] = {}

    def claim(self, finished: FinishedStream) -> bool:
        """Return whether a stream is to report the usage that it has; a later stream of the response is not, then.

        A request that fetches a response reports usage only if no other can have done so: the stream that began the
        response ended without usage in this process, or this one goes on where an earlier stream broke off. The stream
        that began it reports usage unless one of these was faster. (Some servers give every response one id.)
        """
        request, response = finished.request, finished.response
        is_fetch, has_usage = request.operation in FETCH_OPERATIONS, response.output_tokens is not None
        response_id = response.response_id
        if not response_id:
            return not is_fetch
        if not is_fetch:
            self._remember(self._begun, response_id)
            if has_usage:
                self._remember(self._reported, response_id)
            return not has_usage or self._fetched.pop(response_id, None) is None
        if not request.is_resumed and response_id not in self._begun:
            return False
        is_first = not has_usage or self._remember(self._reported, response_id)
        if has_usage and is_first:
            self._remember(self._fetched, response_id)
        return is_first

    def _remember(self, responses: dict[str, object], response_id: str) -> bool:
        """Add a response; returns whether it was not among them. Of two threads that add it, one gets True."""
        mark = object()
        is_new = responses.setdefault(response_id, mark) is mark
        while len(responses) > self._limit:
            responses.pop(next(iter(responses.copy()), ""), None)
        return is_new
