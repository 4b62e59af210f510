"""The facts of a stream and the arithmetic on them: standard library only."""
