"""The together SDK (from 2.0 on, which Stainless generates): the usual streaming routes."""

from __future__ import annotations

from otel_itl.sdks.stainless import StainlessSDK

SDK = StainlessSDK("together", "together_ai")
