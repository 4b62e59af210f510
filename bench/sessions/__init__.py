"""How soon a session that becomes slower is reported, and how often one that does not."""
