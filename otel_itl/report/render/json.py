"""The report as JSON."""

from __future__ import annotations

import json

from otel_itl.report.sessions import SessionRow
from otel_itl.report.summary import Report, as_data


def as_json(report: Report, session: SessionRow | None = None) -> str:
    """The report as indented JSON: seconds are floats, what is absent is null. `docs/report.md` has the schema."""
    data = as_data(report, session)
    try:
        import orjson  # noqa: PLC0415 - an extra
    except ImportError:
        return json.dumps(data, indent=2, ensure_ascii=False)
    return orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()
