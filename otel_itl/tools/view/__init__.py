"""The page that draws token time: its data, its single file, and the server that shows streams while they run."""
