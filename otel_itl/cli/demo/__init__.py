"""The demonstration: scripted models, the real clients, and what was measured of them."""
