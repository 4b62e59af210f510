"""Finds what drives TTFT and ITL in stored telemetry: hour, own load, prompt, position, idle time, switches, retries."""
