"""What litellm calls providers, errors and addresses, as the conventions call them."""

from __future__ import annotations

from typing import Final

PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "azure_text": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "codestral": "mistral_ai",
    "cohere_chat": "cohere",
    "custom_openai": "openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "ollama_chat": "ollama",
    "text-completion-codestral": "mistral_ai",
    "text-completion-openai": "openai",
    "vertex_ai": "gcp.vertex_ai",
    "vertex_ai_beta": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "watsonx_text": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""litellm's name of a provider → `gen_ai.provider.name`, where the two differ."""
ERRORS: Final = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    408: "Timeout",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}
"""Status → the class of litellm's exception that the caller gets, for the one that a route raises."""


def name_error(error: BaseException) -> str | None:
    """Return the name of litellm's exception for the status of an error; None for an error without one."""
    status = getattr(error, "status_code", None)
    return ERRORS.get(status) if isinstance(status, int) else None
