"""The helpers of an SDK are measured like its plain streams, here `messages.stream()` of anthropic in asyncio."""

import asyncio

import anthropic

import otel_itl

otel_itl.instrument()


async def main() -> None:
    """Stream one message."""
    client = anthropic.AsyncAnthropic()
    async with client.messages.stream(
        model="claude-opus-4-5",
        max_tokens=500,
        messages=[{"role": "user", "content": "Why is the sky blue?"}],
    ) as stream:
        async for text in stream.text_stream:
            print(text, end="", flush=True)
    print()


asyncio.run(main())
