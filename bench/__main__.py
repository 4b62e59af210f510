"""`python -m bench`: every benchmark there is."""

from bench.overhead.__main__ import main as overhead
from bench.scale.__main__ import main as scale
from bench.sessions.__main__ import main as sessions
from bench.stalls.__main__ import main as stalls
from bench.truth.__main__ import main as truth

overhead()
truth([])
stalls([])
sessions([])
scale([])
stalls([])
