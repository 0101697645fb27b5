"""Conversion of models in files of earlier versions to the current classes and attributes."""

from inspect import Parameter, signature
from typing import Any

import numpy as np
from scipy.special import expit

from scarless.label_frequency.held_out_scores import DEDPUL, BestBinEstimator, ElkanNoto
from scarless.label_frequency.tice import TIcE
from scarless.models.propensity_weighted import PropensityWeightedClassifier
from scarless.models.published_em import PublishedEMClassifier
from scarless.models.sar_em import SAREMClassifier
from scarless.models.sar_em_cv import SAREMClassifierCV
from scarless.models.sar_stacking import SARStackingClassifier
from scarless.models.scar import SCARClassifier
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import LogisticPair
from scarless.pair.constraints import Labelling, PseudoObservations
from scarless.pair.crossed import Crossed
from scarless.pair.fitted import FittedPair, StackSource
from scarless.pair.inference import PairInference
from scarless.pair.optima import Optimum
from scarless.pair.problem import PairProblem, same_columns
from scarless.pair.recalibrated import ClassPriorGrid, Recalibration
from scarless.pair.stack import Member

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
        SCARClassifier,
        TIcE,
    )
}
# Earlier parameter -> current attribute of `Labelling`, and the earlier default.
_LABELLING: dict[str, tuple[str, Any]] = {
    "visit_attributes": ("visit_attributes", None),
    "propensity_offset": ("offset", None),
    "propensity_bounds": ("bounds", None),
    "shared_propensity": ("shared", True),
    "false_positive_rate": ("false_positive_rate", 0.0),
    "audit_labels": ("audit_labels", "keep"),
}
# Class -> default of `imaginary_audits`, the earlier name of pseudo-observations.
_DEFAULT_IMAGINARY_AUDITS = {"SAREMClassifier": "auto", "SAREMClassifierCV": 8.0, "SARStackingClassifier": "auto"}
_EM_TOL = 1e-4  # earlier tolerance of EM if `tol` was None
# Attributes that an estimator had before; a `FittedPair` holds them now.
_PARTS = (
    "_inference",
    "_levels",
    "_looks",
    "_crossed",
    "_looks_found",
    "_n_groups",
    "_weight",
    "_labelled",
    "_judged",
    "_digest",
    "_e_columns",
    "_f_columns",
)
# Fields of `PairInference` that earlier versions did not have, with their values.
_NEW_INFERENCE_FIELDS: dict[str, Any] = {"pseudo_observations": None, "meat": None, "row_variances": (), "n_groups": 0}
_FOLDS = ("cross_fit", "n_folds")  # earlier names of `cv`
# Parameters and attributes of the earlier SAREMClassifier that were removed.
_REMOVED = ("solver", "relax", "refit", "slope_tol", "window", "start", "_f_learner", "_e_learner")


# Class -> earlier name -> current name of attributes that were renamed.
_RENAMED: dict[type, dict[str, str]] = {
    Crossed: {"relaxation": "recalibration", "beside": "following_grid"},
    FittedPair: {"levels": "grids", "relaxation": "recalibration", "judged": "held_out_weight"},
    Member: {"relaxation": "recalibration"},
    Optimum: {"exchanged": "swapped"},
    PairInference: {"exchangeable": "swappable", "audits": "pseudo_observations"},
    Recalibration: {"levels": "grid"},
    SAREMClassifier: {"basins_": "optima_", "higher_basin_": "higher_optimum_", "relaxation_": "recalibration_"},
    SAREMClassifierCV: {
        "basins_": "optima_",
        "higher_basin_": "higher_optimum_",
        "relax": "recalibrate",
        "relaxation_": "recalibration_",
    },
    SARStackingClassifier: {"relaxation_": "recalibration_"},
    StackSource: {"relaxation": "recalibration"},
}


class NoLongerFitted(ValueError):
    """A model of an earlier version whose predictions the current classes cannot compute."""


def renew(value: Any) -> None:
    """Convert an object of an earlier version to its current class and state, in place."""
    held = getattr(value, "__dict__", None)
    if type(held) is not dict:
        return
    _rename(value, held)
    if isinstance(value, LooksLikelihood) and "e" in held:
        held["models"] = held.pop("e")
    elif isinstance(value, PairInference) and "beta_f" in held:
        state = _inference(held)
        held.clear()
        held.update(state)
    elif isinstance(value, Crossed):
        state = _crossed(held)
        held.clear()
        held.update(state)
    elif type(value) in _CLASSES.values():
        name, state = current_state(type(value).__name__, held)
        if type(value) is not _CLASSES[name]:
            value.__class__ = _CLASSES[name]
        held.clear()
        held.update(state)


def _rename(value: Any, held: dict[str, Any]) -> None:
    """Replace earlier names of attributes by the current names, in place and in their order."""
    names = _RENAMED.get(type(value), {})
    if names.keys() & held.keys():
        state = {names.get(name, name): item for name, item in held.items()}
        held.clear()
        held.update(state)


def current_state(name: str, state: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the current class name and state of an object of an earlier version.

    Parameters
    ----------
    name : str
        Earlier name of the class.
    state : dict
        Parameters and, if it was fitted, fitted attributes.

    Raises
    ------
    NoLongerFitted
        If the model was cross-fitted with ``relax=False``, because the current classes cannot compute its predictions.

    Examples
    --------
    >>> name, state = current_state("SAREMClassifier", {"solver": "em", "propensity_attributes": [2], "window": 5})
    >>> name, state["propensity_attributes"], state["window"]
    ('PublishedEMClassifier', [2], 5)
    """
    renamed = _RENAMED.get(_CLASSES[name], {})
    state = {renamed.get(key, key): value for key, value in state.items()}
    if name == "SAREMClassifier" and "solver" in state and _was_published_em(state):
        return "PublishedEMClassifier", _with_defaults(PublishedEMClassifier, _published(state))
    if name == "SAREMClassifier":
        if _is_crossed(state) and not state.get("relax", True):
            raise NoLongerFitted(
                "holds a cross-fit with relax=False, which scarless no longer supports: its predictions cannot be "
                "computed. Fit the model again; a cross-fit is always recalibrated now."
            )
        state["n_starts"] = _starts(state.get("start", "auto"), state.get("n_starts", 1))
        for removed in _REMOVED:
            state.pop(removed, None)
    for folds in _FOLDS:
        if folds in state:
            state["cv"] = state.pop(folds)
    if name in ("SAREMClassifier", "SAREMClassifierCV") and "labelling" not in state:
        state["labelling"] = _labelling(state)
    if "imaginary_audits" in state:
        audits = state.pop("imaginary_audits")
        if audits != _DEFAULT_IMAGINARY_AUDITS[name]:
            state["known"] = [*(state.get("known") or ()), PseudoObservations(audits)]
    state = _with_coefficients(state) if name == "PublishedEMClassifier" else _with_pair(name, state)
    return name, _with_defaults(_CLASSES[name], state)


def _with_pair(name: str, state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with a fitted pair instead of its parts."""
    held = {key: state.pop(key) for key in _PARTS if key in state}
    for earlier in {"_remembered", "_told"} & state.keys():
        state["_looks_warnings"] = state.pop(earlier)
    if name == "PropensityWeightedClassifier" or "class_prior_" not in state or "_pair" in state or not held:
        return state
    inference, crossed, looks = (held.get(key) for key in ("_inference", "_crossed", "_looks"))
    for part in (inference, crossed, held.get("_looks_found")):
        renew(part)
    common: dict[str, Any] = {"grids": held.get("_levels", ()), "n_groups": held.get("_n_groups", 0), "looks": looks}
    common["recalibration"] = state.get("recalibration_")
    if inference is not None:
        e_columns = held.get("_e_columns", inference.e.indices)
        sums = inference.sums
        state["_pair"] = FittedPair(
            objective=inference.objective,
            parameters=inference.parameters,
            e_columns=e_columns,
            weight=float(sums.weight),
            labelled=float(sums.labelled),
            inference=inference,
            **common,
        )
        return state
    source: Any = crossed
    if crossed is not None:
        objective, parameters = crossed.objective, crossed.parameters
        common["recalibration"] = crossed.recalibration
    elif "members_" in state:
        template = LogisticPair(Design.of(np.arange(0)), Design.of(held["_e_columns"]))
        source = StackSource.of(state["members_"], state["recalibration_"], template)
        objective, parameters = source.objective, source.parameters
    if source is not None:
        names = ("_weight", "weight"), ("_labelled", "labelled"), ("_judged", "held_out_weight"), ("_digest", "digest")
        common |= {new: held[old] for old, new in (*names, ("_looks_found", "shares")) if old in held}
        state["_pair"] = FittedPair(
            objective=objective, parameters=parameters, e_columns=held["_e_columns"], source=source, **common
        )
    return state


def _inference(held: dict[str, Any]) -> dict[str, Any]:
    """Return the current state of `PairInference`, from its earlier fields."""
    objective = held.get("objective") or LogisticPair(held["f"], held["e"])
    if isinstance(objective, LooksLikelihood):
        renew(objective)
    problem = PairProblem(None, None, objective, held["C"], held["propensity_C"], held.get("pseudo_observations"))  # type: ignore[arg-type]
    same = same_columns(held["f"], held["e"])
    sums, added = held["sums"], held.get("added")
    return {
        "objective": objective,
        "parameters": np.concatenate([held["beta_f"], held["beta_e"]]),
        **{name: held[name] for name in ("C", "propensity_C", "n_rows", "information", "expected", "noise")},
        "sums": sums.of_one_look() if isinstance(objective, LogisticPair) else sums,
        "added": np.diag(problem.ridge) if added is None and held["information"] is not None else added,
        "swappable": bool(held.get("either_way", same)),
        "ridge": problem.ridge,
        "pulls": problem.pulls,
        **{name: held.get(name, default) for name, default in _NEW_INFERENCE_FIELDS.items()},
    }


def _is_crossed(state: dict[str, Any]) -> bool:
    return state.get("_crossed") is not None or getattr(state.get("_pair"), "source", None) is not None


def _crossed(held: dict[str, Any]) -> dict[str, Any]:
    """Return the current state of a cross-fit.

    Earlier versions had two classes: one for rows with one label, and one for rows with several looks.
    """
    state = {name: value for name, value in held.items() if name not in ("plain_e", "plain_others")}
    if "others" in state:
        return _crossed_to_looks(state)
    if "objective" not in state:
        seen = Design.of(np.arange(0 if state["learned"] is not None else np.size(state["e_columns"])))
        template, given = LogisticPair(Design.of(np.arange(0)), seen), state["learned"] is not None
        state["objective"], state["parameters"] = state["recalibration"].on_table_of_logits(template, given=given)
    return state


def _crossed_to_looks(held: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a cross-fit to several looks, whose logit of the class was ``shift + slope u + added z``.

    Such a cross-fit had no grid of class priors, so the grid has one point. Intervals come from the model that contains
    the cross-fit.
    """
    fit, slope, shift, others = (held[name] for name in ("fit", "slope", "shift", "others"))
    renew(held["objective"])
    tilt = np.zeros(np.size(held["columns"]) + 1)
    tilt[np.searchsorted(held["columns"], held["shared"])] = held["added"] / slope
    prior = np.array([np.average(expit(shift + slope * fit.u), weights=fit.weight)])
    none = np.zeros(1)
    grid = ClassPriorGrid(prior, none, none, none, np.array([shift]), np.array([slope]), np.zeros(1, dtype=bool))
    value = fit.log_likelihood[fit.best] * float(fit.weight.sum())
    return {
        "fit": fit,
        "learned": None,
        "recalibration": Recalibration(0.0, shift, slope, others, float(prior[0]), 0.0, value, grid, True),
        "f_columns": held["f_columns"],
        "e_columns": held["columns"],
        "objective": held["objective"],
        "parameters": np.concatenate([[slope, shift], others]),
        "following_grid": None,
        "tilt": tilt,
    }


def _was_published_em(state: dict[str, Any]) -> bool:
    """Return whether the parameters select plain EM, or a refit of the classifier at the end.

    Plain EM was used with `solver="em"`, and for estimators of the user without a cross-fit.
    """
    logistic = state.get("estimator") is None and state.get("propensity_estimator") is None
    alone = not logistic and state.get("cross_fit", 5) is None
    return bool(state["solver"] == "em" or state.get("refit", False) or alone)


def _published(state: dict[str, Any]) -> dict[str, Any]:
    """Return the fitted attributes, and the parameters that `PublishedEMClassifier` has too."""
    learners = state.get("_f_learner"), state.get("_e_learner")
    parameters = signature(PublishedEMClassifier).parameters
    earlier = {*_REMOVED, *_LABELLING, "cross_fit", "imaginary_audits", "n_starts", "known", "random_state", "n_jobs"}
    kept = {name: value for name, value in state.items() if name in parameters or name not in earlier}
    if kept.get("tol") is None:
        kept["tol"] = _EM_TOL
    if "class_prior_" in state:
        kept["_learned"] = None if learners[0] is None else learners
    return _with_coefficients(kept)


def _with_coefficients(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with a pair made of its coefficients, unless it has a pair or learned models."""
    names = ("coef_", "intercept_", "propensity_coef_", "propensity_intercept_")
    for part in _PARTS:
        if part not in ("_e_columns", "_f_columns"):
            state.pop(part, None)
    if "_pair" in state or any(name not in state for name in names) or state.get("_learned") is not None:
        return state
    every = Design.of(np.arange(state["n_features_in_"]))
    state["_pair"] = FittedPair(
        objective=LogisticPair(every, every),
        parameters=np.concatenate([np.ravel(state[name]) for name in names]),
        e_columns=every.indices,
        weight=0.0,
        labelled=0.0,
    )
    return state


def _starts(start: Any, n_starts: Any) -> Any:
    """Return the current `n_starts`: a number, or a list of starts."""
    if isinstance(start, str) and start == "auto":
        return n_starts
    if isinstance(start, str) and start == "random":
        return [start] * n_starts
    if isinstance(start, str) and start == "class_prior":
        return [number / (n_starts + 1) for number in range(1, n_starts + 1)]
    return [start]


def _labelling(state: dict[str, Any]) -> Labelling | None:
    """Remove the parameters of the labelling from a state, and return them; None if all are defaults."""
    found = {new: (state.pop(old, default), default) for old, (new, default) in _LABELLING.items()}
    given = {name: value for name, (value, default) in found.items() if not _equals(value, default)}
    return Labelling(**given) if given else None


def _equals(value: Any, default: Any) -> bool:
    return type(value) is type(default) and value == default


def _with_defaults(model: type, state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with all parameters of the current version, in the order of the constructor."""
    parameters = {
        name: state.pop(name, None if parameter.default is Parameter.empty else parameter.default)
        for name, parameter in signature(model).parameters.items()
    }
    return {**parameters, **state}
