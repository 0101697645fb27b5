"""Methods compared on twenty tables and thirteen labelling mechanisms: ``python -m benchmarks other_tables``."""
