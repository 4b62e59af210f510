"""Renders an explanation: as sentences in a terminal, as JSON, and for the page."""
