"""Experiments that compare methods: a specification, its runs, and their records on disk."""

from scarless.experiments.run import run_experiment
from scarless.experiments.spec import Cell, Spec, check_spec, read_spec
from scarless.experiments.store import Store

__all__ = ["Cell", "Spec", "Store", "check_spec", "read_spec", "run_experiment"]
