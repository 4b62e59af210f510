"""What measuring costs, measured."""
