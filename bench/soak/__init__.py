"""Many streams at once for a long time, ended in every way: what was opened is told of exactly, and nothing grows."""
