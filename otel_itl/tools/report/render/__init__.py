"""Renders a report for a terminal and as JSON."""
