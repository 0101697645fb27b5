"""``python -m benchmarks``: all benchmarks."""

from benchmarks import core, label_frequency

core.main([])
label_frequency.main([])
