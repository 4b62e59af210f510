"""The fireworks-ai SDK: the usual streaming routes. It yields an error of the provider as a chunk."""

from __future__ import annotations

from otel_itl.sdks.stainless import StainlessSDK

SDK = StainlessSDK("fireworks", "fireworks_ai")
