"""Networks on rows whose labels are biased: ``python -m benchmarks.nets --help``."""
