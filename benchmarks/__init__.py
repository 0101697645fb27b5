"""Benchmarks: speed and accuracy measured against the paper's own method."""
