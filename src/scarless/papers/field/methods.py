"""The specification of the comparison, and the method that it adds: gradient boosting on the true classes."""

from functools import cache
from pathlib import Path

from scarless.experiments import Spec, read_spec
from scarless.experiments.methods import CLASSES, Bench, Fit, Method, fit_of, knowing
from scarless.models import NaiveClassifier
from scarless.models.sar_stacking import default_boosting

PATH = Path(__file__).with_name("spec.toml")


@cache
def specification(*, quick: bool = False) -> Spec:
    """Return the specification of the comparison, or of a quick version on data that need no download."""
    return read_spec(PATH, quick=quick)


@knowing(CLASSES)
def supervised_boosted(bench: Bench) -> Fit:
    """Gradient boosting on the true classes."""
    task = bench.task

    def fit() -> Fit:
        model = NaiveClassifier(default_boosting().set_params(random_state=0))
        return fit_of(bench, model.fit(task.seen_train, task.split.y_train), None, float("nan"))

    return bench.of_split.get(f"supervised-boosted/{task.n_seen}", fit)


METHODS: dict[str, Method] = {"supervised-boosted": supervised_boosted}
