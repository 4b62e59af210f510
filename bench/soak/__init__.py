"""Many streams at once for a long time, ended in every way: every stream is counted once, and nothing grows."""
