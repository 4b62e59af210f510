"""Finds what drives TTFT and ITL in stored telemetry: the hour, own load, the prompt, idle time, a silent change."""
