"""The SDKs whose streams are measured: a small file for each, the wire formats they share, and the one registry."""
