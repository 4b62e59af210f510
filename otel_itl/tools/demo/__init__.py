"""The demonstration: scripted models, the real clients of LLM SDKs, and a report on what was measured."""
