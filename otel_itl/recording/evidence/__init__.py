"""What shows how late a chunk may have been recorded, and what kept its consumer waiting.

`StreamEvidence` (`of_stream.py`) is what the rest of the recording uses, `ProcessEvidence` (`of_process.py`) what the
streams of a process share. The sources, one module each: the connection, the frames of an HTTP/2 connection that
several streams share, the pulls after a hold, the run queue, the event loop, and how late the watchdog wakes up. What
follows from them: `lateness` of chunks, and `causes` of silences.
"""
