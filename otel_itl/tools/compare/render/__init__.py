"""Prints comparisons: in a terminal, as JSON, as Markdown, and as an HTML page."""
