"""Renderings of a report: for a terminal, and for machines."""
