"""How rows of a dataset are labelled: mechanisms of ours by name, anybody's by import path."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from scarless.checks.vectors import check_propensity
from scarless.experiments.importing import FORM, import_object
from scarless.experiments.reading import ATTRIBUTES
from scarless.experiments.spec import ADDED, Spec, did_you_mean
from scarless.labelling import SCAR, GeometricMeanSAR, LabellingMechanism, LogisticSAR, StepSAR, StratifiedSAR
from scarless.numerics.arrays import Vector

OURS: dict[str, type[LabellingMechanism]] = {
    kind.__name__: kind for kind in (SCAR, GeometricMeanSAR, LogisticSAR, StepSAR, StratifiedSAR)
}


def check_mechanisms(spec: Spec) -> None:
    """Refuse names of mechanisms that stand for nothing."""
    known = [ADDED, ATTRIBUTES, *spec.own_mechanisms]
    for name in spec.mechanisms:
        if name not in known:
            hint = did_you_mean(name, known) or f"There are {', '.join(known)}."
            raise ValueError(f"There is no mechanism {name!r}. {hint} Define it in [mechanisms.NAME].")
    for name, said in spec.own_mechanisms.items():
        if "callable" in said:
            import_object(said["callable"])
        else:
            _class_of(said["mechanism"], f"[mechanisms.{name}]: ")


def _class_of(mechanism: str, where: str = "") -> type[LabellingMechanism]:
    """Return a class of mechanisms: one of ours by name, anybody's by import path."""
    if mechanism in OURS:
        return OURS[mechanism]
    if ":" not in mechanism:
        hint = did_you_mean(mechanism, OURS) or f"There are {', '.join(OURS)}."
        raise ValueError(f"{where}there is no mechanism {mechanism!r}. {hint} For one of your own {FORM}.")
    kind = import_object(mechanism)
    if not isinstance(kind, type) or not issubclass(kind, LabellingMechanism):
        raise ValueError(
            f"{where}{mechanism!r} must be a class that inherits from scarless.labelling.LabellingMechanism. For a "
            "function that returns propensities say callable."
        )
    return kind


def propensities_of(spec: Spec, dataset: str, table: Any, prepared: Any, columns: tuple[int, ...]) -> dict[str, Vector]:
    """Return each row's propensity by each mechanism that needs no added attributes.

    Parameters
    ----------
    spec : Spec
    dataset : str
        Its name, for messages.
    table : array or data frame
        What functions of the user's get: attributes as they came, without the class.
    prepared : array or data frame
        What our mechanisms get: the same in numbers.
    columns : tuple of int
        Columns of `prepared` that the dataset says drive its labelling.
    """
    found = {}
    for name in spec.other_mechanisms:
        said = spec.own_mechanisms.get(name, {"mechanism": "GeometricMeanSAR"})
        try:
            if "callable" in said:
                e = _by_callable(said["callable"], said.get("parameters", {}), table)
            else:
                e = _by_class(spec, said, prepared, columns)
        except (ValueError, TypeError) as error:
            raise ValueError(f"The mechanism {name!r} on the dataset {dataset!r}: {error}") from error
        found[name] = e
    return found


def _by_callable(path: str, parameters: dict[str, Any], table: Any) -> Vector:
    function = import_object(path)
    return _same_twice(path, lambda: function(table.copy(), **parameters), len(table))


def _same_twice(path: str, compute: Callable[[], Any], n_rows: int) -> Vector:
    """Return propensities that code of the user's computes; refuse code that fails, or draws other ones each time."""
    try:
        once, again = (np.array(compute(), dtype=np.float64) for _ in range(2))
    except Exception as error:  # whatever a user's function does
        raise ValueError(f"{path!r} failed with {type(error).__name__}: {error}") from error
    if not np.array_equal(once, again, equal_nan=True):
        raise ValueError(f"{path!r} returns other propensities each time; give what it draws a fixed seed.")
    return check_propensity(once, n_rows=n_rows)


def _by_class(spec: Spec, said: dict[str, Any], prepared: Any, columns: tuple[int, ...]) -> Vector:
    kind = _class_of(said["mechanism"])
    parameters = dict(said.get("parameters", {}))
    known = list(signature(kind).parameters)
    for key in parameters:
        if key not in known:
            hint = did_you_mean(key, known) or f"There are {', '.join(known)}."
            raise ValueError(f"{said['mechanism']} has no parameter {key!r}. {hint}")
    wanted = next((word for word in ("attributes", "attribute") if word in known), None)
    if wanted and wanted not in parameters:
        if not columns:
            raise ValueError(
                f"it needs propensity_attributes of the dataset; name them, or say {wanted} in the mechanism's "
                f'parameters, or take mechanisms = ["{ADDED}"].'
            )
        parameters[wanted] = list(columns)
    if kind is GeometricMeanSAR:
        parameters = {"low": spec.low, "high": spec.high, **parameters}
    mechanism = kind(**parameters)
    if kind in OURS.values():
        return mechanism.propensity(prepared)
    return _same_twice(said["mechanism"], lambda: mechanism.propensity(prepared.copy()), len(prepared))
