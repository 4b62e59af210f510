"""The measuring itself, on frozen data. It imports the standard library alone: no LLM SDK and no OpenTelemetry."""
