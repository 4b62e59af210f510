"""From an SDK's stream to a Timeline: everything that happens while a stream runs."""
