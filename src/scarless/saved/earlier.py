"""Models whose files were written by earlier versions: the state that they have today."""

from inspect import Parameter, signature
from typing import Any

import numpy as np

from scarless.label_frequency.held_out_scores import DEDPUL, BestBinEstimator, ElkanNoto
from scarless.label_frequency.tice import TIcE
from scarless.models.propensity_weighted import PropensityWeightedClassifier
from scarless.models.published_em import PublishedEMClassifier
from scarless.models.sar_em import SAREMClassifier
from scarless.models.sar_em_cv import SAREMClassifierCV
from scarless.models.sar_stacking import SARStackingClassifier
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import LogisticPair
from scarless.pair.crossed import Crossed, LooksCrossed
from scarless.pair.facts import ImaginaryAudits, Labelling
from scarless.pair.inference import PairInference
from scarless.pair.problem import PairProblem, see_the_same

_CLASSES: dict[str, type] = {
    model.__name__: model
    for model in (
        BestBinEstimator,
        DEDPUL,
        ElkanNoto,
        PropensityWeightedClassifier,
        PublishedEMClassifier,
        SAREMClassifier,
        SAREMClassifierCV,
        SARStackingClassifier,
        TIcE,
    )
}
# What `Labelling` holds today, by its earlier name, with its earlier default.
_LABELLING: dict[str, tuple[str, Any]] = {
    "visit_attributes": ("visit_attributes", None),
    "propensity_offset": ("offset", None),
    "propensity_bounds": ("bounds", None),
    "shared_propensity": ("shared", True),
    "false_positive_rate": ("false_positive_rate", 0.0),
    "audit_labels": ("audit_labels", "keep"),
}
_AUDITS = {"SAREMClassifier": "auto", "SAREMClassifierCV": 8.0, "SARStackingClassifier": "auto"}
_EM_TOL = 1e-4
_GROUPS: dict[str, Any] = {"audits": None, "meat": None, "row_variances": (), "n_groups": 0}
_FOLDS = ("cross_fit", "n_folds")  # earlier names of `cv`
# Parameters of the earlier SAREMClassifier, and of its fits, that nothing reads any more.
_GONE = ("solver", "relax", "refit", "slope_tol", "window", "start", "_f_learner", "_e_learner")


class NoLongerFitted(ValueError):
    """A model of an earlier version whose predictions today's classes cannot compute."""


def renew(value: Any) -> None:
    """Give an object of an earlier version the class and the state that it has today, in place."""
    held = getattr(value, "__dict__", None)
    if type(held) is not dict:
        return
    if isinstance(value, LooksLikelihood) and "e" in held:
        held["models"] = held.pop("e")
    elif isinstance(value, PairInference) and "beta_f" in held:
        state = _inference(held)
        held.clear()
        held.update(state)
    elif isinstance(value, Crossed | LooksCrossed):
        for name in ("plain_e", "plain_others"):
            held.pop(name, None)
    elif type(value) in _CLASSES.values():
        name, state = state_of_today(type(value).__name__, held)
        if type(value) is not _CLASSES[name]:
            value.__class__ = _CLASSES[name]
        held.clear()
        held.update(state)


def state_of_today(name: str, state: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of the class and the state that an object of an earlier version has today.

    Parameters
    ----------
    name : str
        The name of the class that it had.
    state : dict
        Its parameters and, where it was fitted, what the fit found.

    Raises
    ------
    NoLongerFitted
        Where it was cross-fitted with ``relax=False``: today's classes cannot compute its predictions.

    Examples
    --------
    >>> name, state = state_of_today("SAREMClassifier", {"solver": "em", "propensity_attributes": [2], "window": 5})
    >>> name, state["propensity_attributes"], state["window"]
    ('PublishedEMClassifier', [2], 5)
    """
    state = dict(state)
    if name == "SAREMClassifier" and "solver" in state and _was_published_em(state):
        return "PublishedEMClassifier", _with_defaults(PublishedEMClassifier, _published(state))
    if name == "SAREMClassifier":
        if state.get("_crossed") is not None and not state.get("relax", True):
            raise NoLongerFitted(
                "holds a cross-fit with relax=False, which scarless no longer makes: its predictions cannot be "
                "computed. Fit anew; a cross-fit is relaxed now."
            )
        state["n_starts"] = _starts(state.get("start", "auto"), state.get("n_starts", 1))
        for gone in _GONE:
            state.pop(gone, None)
    for folds in _FOLDS:
        if folds in state:
            state["cv"] = state.pop(folds)
    if name in ("SAREMClassifier", "SAREMClassifierCV") and "labelling" not in state:
        state["labelling"] = _labelling(state)
    if "imaginary_audits" in state:
        audits = state.pop("imaginary_audits")
        if audits != _AUDITS[name]:
            state["known"] = [*(state.get("known") or ()), ImaginaryAudits(audits)]
    return name, _with_defaults(_CLASSES[name], state)


def _inference(held: dict[str, Any]) -> dict[str, Any]:
    """Return what a fitted pair knows of its uncertainty, from the fields that it had."""
    objective = held.get("objective") or LogisticPair(held["f"], held["e"])
    if isinstance(objective, LooksLikelihood):
        renew(objective)
    problem = PairProblem(None, None, objective, held["C"], held["propensity_C"], held.get("audits"))  # type: ignore[arg-type]
    same = see_the_same(held["f"], held["e"])
    sums, added = held["sums"], held.get("added")
    return {
        "objective": objective,
        "parameters": np.concatenate([held["beta_f"], held["beta_e"]]),
        **{name: held[name] for name in ("C", "propensity_C", "n_rows", "information", "expected", "noise")},
        "sums": sums.of_one_look() if isinstance(objective, LogisticPair) else sums,
        "added": np.diag(problem.ridge) if added is None and held["information"] is not None else added,
        "exchangeable": bool(held.get("either_way", same)),
        "ridge": problem.ridge,
        "pulls": problem.pulls,
        **{name: held.get(name, default) for name, default in _GROUPS.items()},
    }


def _was_published_em(state: dict[str, Any]) -> bool:
    """Whether the model was, or would have been, fitted by plain EM, or its classifier once more at the end."""
    logistic = state.get("estimator") is None and state.get("propensity_estimator") is None
    alone = not logistic and state.get("cross_fit", 5) is None
    return bool(state["solver"] == "em" or state.get("refit", False) or alone)


def _published(state: dict[str, Any]) -> dict[str, Any]:
    """Return what a fit found, and the parameters that `PublishedEMClassifier` has too."""
    learners = state.get("_f_learner"), state.get("_e_learner")
    parameters = signature(PublishedEMClassifier).parameters
    earlier = {*_GONE, *_LABELLING, "cross_fit", "imaginary_audits", "n_starts", "known", "random_state", "n_jobs"}
    kept = {name: value for name, value in state.items() if name in parameters or name not in earlier}
    if kept.get("tol") is None:
        kept["tol"] = _EM_TOL
    if "class_prior_" in state:
        kept["_learned"] = None if learners[0] is None else learners
    return kept


def _starts(start: Any, n_starts: Any) -> Any:
    """Return today's `n_starts`: how many, or which."""
    if isinstance(start, str) and start == "auto":
        return n_starts
    if isinstance(start, str) and start == "random":
        return [start] * n_starts
    if isinstance(start, str) and start == "class_prior":
        return [number / (n_starts + 1) for number in range(1, n_starts + 1)]
    return [start]


def _labelling(state: dict[str, Any]) -> Labelling | None:
    """Take what is said of the labelling out of a state; None where nothing is."""
    said = {new: (state.pop(old, default), default) for old, (new, default) in _LABELLING.items()}
    given = {name: value for name, (value, default) in said.items() if not _is(value, default)}
    return Labelling(**given) if given else None


def _is(value: Any, default: Any) -> bool:
    return type(value) is type(default) and value == default


def _with_defaults(model: type, state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with all parameters, in the order of the constructor: later versions have more of them."""
    parameters = {
        name: state.pop(name, None if parameter.default is Parameter.empty else parameter.default)
        for name, parameter in signature(model).parameters.items()
    }
    return {**parameters, **state}
