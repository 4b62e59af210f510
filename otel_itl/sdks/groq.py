"""The groq SDK: its streaming route. Usage comes in `x_groq` of the last chunk."""

from __future__ import annotations

from otel_itl.sdks.stainless import OPENAI_LIKE, StainlessSDK

SDK = StainlessSDK("groq", "groq", routes=OPENAI_LIKE[:1])
