"""`python -m bench`: every benchmark there is."""

from bench.overhead.__main__ import main

main()
