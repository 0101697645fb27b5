"""``python -m benchmarks``: all benchmarks."""

from benchmarks.core import main

main([])
