"""Which provider serves a host."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

PROVIDER_BY_HOST: Final = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "cognitiveservices.azure.com": "azure.ai.openai",
    "models.inference.ai.azure.com": "azure.ai.inference",
    "services.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "api.groq.com": "groq",
    "api.deepseek.com": "deepseek",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
    "api.cohere.com": "cohere",
    "api.cohere.ai": "cohere",
    "ml.cloud.ibm.com": "ibm.watsonx.ai",
    "api.together.xyz": "together_ai",
    "api.together.ai": "together_ai",
    "api.fireworks.ai": "fireworks_ai",
    "api.cerebras.ai": "cerebras",
    "openrouter.ai": "openrouter",
}
"""Host, or the domain that it ends with → `gen_ai.provider.name`."""


@lru_cache(maxsize=256)
def provider_of(host: str | None, default: str) -> str:
    """Return the provider that serves `host`, by the longest known domain; `default` where the host is unknown."""
    name = "." + (host or "").lower()
    known = [domain for domain in PROVIDER_BY_HOST if name.endswith(("." + domain, "-" + domain))]
    return PROVIDER_BY_HOST[max(known, key=len)] if known else default
