"""Calls of every public name with unusual arguments: ``python -m benchmarks fuzz``."""
