"""The one registry of supported SDKs: whatever lists SDKs is derived from it, or compared with it by a test.

It imports no SDK, nor any module of ours that knows one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SDKEntry:
    """One supported SDK.

    Args:
        name: in the option `sdks`, of our extra, and (with `_` for `-`) of the module in `otel_itl.sdks`.
        package: what an application imports.
        distribution: what an application installs.
        oldest: the oldest release that is measured.
        title: the name as its class of instrumentor spells it; empty: with capitals at the beginning of words alone.
        pins_others: it asks for certain releases of other SDKs, so that the extra of all SDKs leaves it out.
    """

    name: str
    package: str
    distribution: str
    oldest: tuple[int, ...]
    title: str = ""
    pins_others: bool = False

    @property
    def module(self) -> str:
        """The module of ours that describes the SDK, to be imported when the SDK is instrumented."""
        return f"otel_itl.sdks.{self.name.replace('-', '_')}"

    @property
    def entry_point(self) -> str:
        """The name of the instrumentor's entry point, as in `OTEL_PYTHON_DISABLED_INSTRUMENTATIONS`."""
        return f"itl_{self.name.replace('-', '_')}"

    @property
    def instrumentor(self) -> str:
        """The name of the class in `otel_itl.instrumentor` that the entry point names."""
        return f"{self.title or self.name.title().replace('-', '')}Instrumentor"

    @property
    def requirement(self) -> str:
        """What pip calls the supported releases, such as `openai>=1.40`."""
        return f"{self.distribution}>={'.'.join(map(str, self.oldest))}"


_ENTRIES: Final = (
    SDKEntry("openai", "openai", "openai", (1, 40), "OpenAI"),
    SDKEntry("anthropic", "anthropic", "anthropic", (0, 40)),
    SDKEntry("groq", "groq", "groq", (0, 13)),
    SDKEntry("together", "together", "together", (2, 0)),
    SDKEntry("fireworks", "fireworks", "fireworks-ai", (1, 2)),
    SDKEntry("cerebras", "cerebras.cloud.sdk", "cerebras-cloud-sdk", (1, 12)),
    SDKEntry("google-genai", "google.genai", "google-genai", (1, 56), "GoogleGenAI"),
    SDKEntry("bedrock", "botocore", "botocore", (1, 34, 116)),
    SDKEntry("litellm", "litellm", "litellm", (1, 72), "LiteLLM", pins_others=True),
    SDKEntry("ollama", "ollama", "ollama", (0, 4)),
    SDKEntry("cohere", "cohere", "cohere", (5, 16)),
    SDKEntry("xai", "xai_sdk", "xai-sdk", (1, 4), "XAI"),
    SDKEntry("mistralai", "mistralai", "mistralai", (1, 5), "MistralAI"),
    SDKEntry("huggingface-hub", "huggingface_hub", "huggingface_hub", (0, 30), "HuggingFaceHub"),
)

REGISTRY: Final[Mapping[str, SDKEntry]] = {entry.name: entry for entry in _ENTRIES}
"""Name of the SDK → its entry."""

SDK_NAMES: Final = tuple(REGISTRY)
