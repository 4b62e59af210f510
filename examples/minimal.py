"""One line, and every streaming request of the program is measured and sent over OTLP.

Where to, and under which name, is up to the usual variables: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, ...
Which model answers is up to the SDK's: OPENAI_API_KEY, OPENAI_BASE_URL.
"""

import openai

import otel_itl

otel_itl.instrument()

stream = openai.OpenAI().chat.completions.create(
    model="gpt-4o-mini",
    messages=[{"role": "user", "content": "Why is the sky blue?"}],
    stream=True,
    # Without it OpenAI does not say how many tokens there were, and there is no time per output token.
    stream_options={"include_usage": True},
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
