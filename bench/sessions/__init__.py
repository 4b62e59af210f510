"""How soon a session that becomes slower is told, and how often one that does not."""
