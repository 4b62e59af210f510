"""The wire formats that several SDKs stream: one module for each, with a function that classifies its chunks."""
