"""Drives an endpoint of the user from its expected peak to several times that, and finds what it carries."""
