"""Compares the streams of two sides: is B slower than A, the same, or is there not enough data to know?"""
