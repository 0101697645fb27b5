"""Networks on rows with biased labels: ``python -m benchmarks networks``."""
