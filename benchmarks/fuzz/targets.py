"""The public names, and how each is called: alone, or in a chain such as ``fit`` and then all predictions."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.fuzz.base import Base, draw, make_base
from benchmarks.fuzz.commands import command_line
from benchmarks.fuzz.judge import Ended, Trial
from benchmarks.fuzz.options import choice_of
from scarless import ClassPrior, LabelFrequency, Labelling, PseudoObservations
from scarless.diagnostics import Sensitivity
from scarless.labelling import LabellingMechanism

MODULES = ("", ".models", ".metrics", ".labelling", ".label_frequency", ".diagnostics", ".datasets", ".raw", ".saved")
MODULES = (*MODULES, ".field")
# Results, types and the version, which users do not create. Methods of results are called on what calls return.
NOT_CALLED = {
    "__version__",
    "Assumption",
    "AuditPlan",
    "AuditedClassPrior",
    "BalancedDraws",  # a member of a stack
    "Optimum",
    "BootstrapIntervals",
    "Calibration",
    "ClassPriorProfile",
    "ClassPriorWarning",
    "ColumnRoles",  # options of `analyse`
    "Cost",
    "DatasetFileError",
    "Display",
    "Drift",
    "FitComparison",
    "GoodnessOfFit",
    "IdentifiabilityReport",
    "Interval",
    "LabellingAttributes",
    "LabellingMechanism",
    "Looks",
    "MissedPositives",
    "PUData",
    "Provenance",
    "RankBounds",
    "SCARTest",
    "Score",
    "Selection",
    "SensitivityBounds",
    "SensitivityCurve",
    "ClassPriorGrid",
    "ModelFileError",
    "Recalibration",
    "StackSummary",
    "StandardErrors",
    "Summary",
    "TippingPoint",
    "analyse",  # called by `command_line`, and with unusual tables in tests/cli/test_tables.py
    "load",  # tested with invalid files in tests/saved/test_files.py
    "save",
    "save_onnx",  # tested in tests/saved/
    "to_onnx",
    "YieldCurve",
}
BOUNDS = ("accuracy", "f1", "precision", "recall", "roc_auc", "ranks")  # methods of bounds that are called
SENSITIVITY = ("at", "curve", "decision_gammas", "tipping_point", "within")
NOT_CALLED_PREFIXES = ("_", "get_", "set_", "fit", "from_", "index", "count", "columns_of")  # of methods of results
UNUSUAL_SHARES = (0.0, 0.1, 0.1, 0.25, 0.25, 0.5)  # share of arguments that are unusual
# Parameters whose default would take long, access the network or leave out the propensity.
NO_DEFAULT = {"propensity_attributes", "Cs", "propensity_Cs", "cv", "download", "progress", "n_resamples"}
NO_DEFAULT |= {"n_simulations", "random_state", "estimators", "n_estimators", "n_iter"}
USER_OBJECTS = (ClassPrior, PseudoObservations, LabelFrequency, Labelling)
FIT_ARGUMENTS = ("X", "y", "s", "sample_weight", "propensity", "audit")


@dataclass
class Caller:
    """Draws arguments, and makes the calls of one trial."""

    base: Base
    trial: Trial
    rate: float
    kept: dict[str, Any] = field(default_factory=dict)  # arguments of `fit`, for the calls that follow

    def arguments(self, call: str, function: Callable[..., Any], *, keep: bool = False) -> dict[str, Any]:
        """Return arguments by name, some of them unusual."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Some arguments are models, which are fitted here.
            given = self._drawn(call, function, keep=keep)
        if keep:
            self.kept = {name: value for name, value in given.items() if name in FIT_ARGUMENTS}
            self.kept["s"] = self.kept.get("y", self.base.s)
        return given

    def _drawn(self, call: str, function: Callable[..., Any], *, keep: bool) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                found = self._argument(call, parameter, keep=keep)
                if found is not inspect.Parameter.empty:
                    given[parameter.name] = found
        return given

    def _argument(self, call: str, parameter: inspect.Parameter, *, keep: bool) -> Any:
        choice, rng = choice_of(call, parameter), self.base.rng
        if not keep and parameter.name in self.kept and rng.random() < 0.85:
            return self.kept[parameter.name]
        if rng.random() < self.rate:
            words, value = draw(choice.unusual, self.base)
            self.trial.arguments.append(f"{call}({parameter.name}: {words})")
            return value
        optional = parameter.default is not inspect.Parameter.empty
        if choice.good is None or (optional and parameter.name not in NO_DEFAULT and rng.random() < 0.7):
            return inspect.Parameter.empty if optional else None
        return choice.good(self.base)

    def call(self, name: str, function: Callable[..., Any], *, keep: bool = False) -> Any:
        """Call a function with drawn arguments."""
        return self.trial.do(name, partial(function, **self.arguments(name, function, keep=keep)))

    def explore(self, name: str, value: Any) -> None:
        """Represent a result as text, and call all its properties and methods that need no argument."""
        if not type(value).__module__.startswith("scarless"):
            return
        self.trial.do(f"repr({name})", lambda: (repr(value), str(value)))
        for known in [name for name in dir(type(value)) if isinstance(getattr(type(value), name), property)]:
            self.trial.do(f"{type(value).__name__}.{known}", partial(getattr, value, known))
        for method in public_methods(value):
            if all(p.default is not p.empty for p in inspect.signature(getattr(value, method)).parameters.values()):
                self.trial.do(f"{type(value).__name__}.{method}", getattr(value, method))


def public_methods(value: Any) -> list[str]:
    """Return the names of an object's own methods."""
    names = [name for name in dir(type(value)) if not name.startswith(NOT_CALLED_PREFIXES)]
    return [name for name in names if inspect.isroutine(inspect.getattr_static(type(value), name))]


def estimator(caller: Caller, name: str, cls: type) -> None:
    """Make a model, fit it, and call all its methods."""
    model = caller.call(name, cls)
    caller.call(f"{name}.fit", model.fit, keep=True)
    caller.trial.do(f"repr({name})", lambda: (repr(model), str(model)))
    for attribute in ("class_prior_", "label_frequency_", "standard_error_", "interval_"):
        caller.trial.do(f"{name}.{attribute}", lambda attribute=attribute: getattr(model, attribute, None))
    for method in [
        m for m in dir(model) if not m.startswith(NOT_CALLED_PREFIXES) and callable(getattr(model, m, None))
    ]:
        if not isinstance(getattr(model, method), type) and not method.endswith("_"):
            with contextlib.suppress(Ended):  # Call the next method even if this one fails.
                answer = caller.call(f"{name}.{method}", getattr(model, method))
                caller.explore(f"{name}.{method}", answer)


def mechanism(caller: Caller, name: str, cls: type) -> None:
    """Make a labelling mechanism and compute propensities."""
    made = caller.call(name, cls)
    caller.trial.do(f"repr({name})", lambda: (repr(made), made.assumption))
    caller.call(f"{name}.propensity", made.propensity)
    caller.call(f"{name}.fitted", made.fitted)


def scorer(caller: Caller, name: str, cls: type) -> None:
    """Make a scorer and score a model with it."""
    made = caller.call(name, cls)
    caller.call(f"{name}.score", made.score)
    caller.explore(f"{name}.evaluate", caller.call(f"{name}.evaluate", made.evaluate))


def alone(caller: Caller, name: str, function: Callable[..., Any]) -> None:
    """Call a function, and explore its result."""
    caller.explore(name, caller.call(name, function))


def sensitivity(caller: Caller, name: str, cls: type) -> None:
    """Make a sensitivity analysis, and call some of its methods."""
    made = caller.call(name, cls)
    for method in SENSITIVITY:
        if caller.base.rng.random() < 0.4:
            caller.explore(f"{name}.{method}", caller.call(f"{name}.{method}", getattr(made, method)))


def bounds(caller: Caller, name: str, method: str) -> None:
    """Compute bounds of a score of decisions."""
    base = caller.base
    made = Sensitivity(base.f * base.e, base.e).at(1.5)
    caller.explore(f"{name}.{method}", caller.call(f"{name}.{method}", getattr(made, method)))


class Target(NamedTuple):
    """A public name, how it is called, and its weight in the random choice."""

    name: str
    chain: Callable[[Caller, str, Any], None]
    what: Any
    weight: float = 1.0


@cache
def targets() -> tuple[Target, ...]:
    """Return all public names that can be called."""
    found: dict[str, Target] = {}
    for part in MODULES:
        module = importlib.import_module(f"scarless{part}")
        for name in module.__all__:
            if name not in NOT_CALLED:
                found.update({target.name: target for target in _targets_of(name, getattr(module, name))})
    for method in BOUNDS:
        found[f"SensitivityBounds.{method}"] = Target("SensitivityBounds", bounds, method, 0.3)
    found["scarless"] = Target("scarless", command_line, None, 1.8)
    return tuple(found.values())


def _targets_of(name: str, what: Any) -> list[Target]:
    if not inspect.isclass(what):
        return [Target(name, alone, what, 0.15 if name.startswith("load_") else 1.0)]
    others = [method for method in dir(what) if method.startswith("from_")]
    made = [Target(f"{name}.{method}", alone, getattr(what, method), 0.3) for method in others]
    if hasattr(what, "fit"):
        return [Target(name, estimator, what, 2.0 if name.endswith("CV") or "Stacking" in name else 5.0)]
    if issubclass(what, LabellingMechanism):
        return [Target(name, mechanism, what, 1.5)]
    if what is Sensitivity:
        return [Target(name, sensitivity, what, 2.0), *made]
    if hasattr(what, "evaluate"):
        return [Target(name, scorer, what, 2.0)]
    made += [Target(name, alone, what, 0.5)] if what in USER_OBJECTS else []
    if made:
        return made
    raise LookupError(f"There is no rule to call {name}. Add it to NOT_CALLED, or write a chain for it.")


def pick(seed: int, number: int) -> tuple[Target, Caller]:
    """Return the call with this number; the same seed and number always give the same call."""
    rng = np.random.default_rng([seed, number])
    known = targets()
    weights = np.array([target.weight for target in known])
    target = known[int(rng.choice(len(known), p=weights / weights.sum()))]
    rate = UNUSUAL_SHARES[int(rng.integers(len(UNUSUAL_SHARES)))]
    return target, Caller(make_base(rng), Trial(target.name), rate)
