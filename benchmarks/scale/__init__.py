"""Fits to tables that do not fit in memory: ``python -m benchmarks scale`` and ``scale_cost``."""
