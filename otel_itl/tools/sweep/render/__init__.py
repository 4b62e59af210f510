"""Prints sweeps: in a terminal, as JSON, and as an HTML page."""
