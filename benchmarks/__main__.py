"""``python -m benchmarks``: all benchmarks."""

from benchmarks import core, label_frequency, scar_test, scorers, selection, starts, uncertainty

core.main([])
label_frequency.main([])
selection.main([])
uncertainty.main([])
scar_test.main([])
scorers.main([])
starts.main([])
