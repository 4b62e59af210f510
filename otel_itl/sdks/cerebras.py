"""The cerebras-cloud-sdk: the usual streaming routes."""

from __future__ import annotations

from otel_itl.sdks.stainless import StainlessSDK

SDK = StainlessSDK("cerebras", "cerebras")
