"""How soon the slowdown of a session is detected, and how often one is reported that is none."""
