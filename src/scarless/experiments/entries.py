"""The user's own tables in a specification: entries of datasets, methods and labelling mechanisms, and their checks."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from scarless.labelling import ClassProbabilityCurve
from scarless.labelling.base import check_number, check_range

OWN_KEYS = {  # keys of the user's own tables
    "datasets": ("file", "callable", "parameters", "class", "positive", "propensity_attributes"),
    "methods": ("estimator", "parameters", "told", "decision", "packages"),
    "mechanisms": ("mechanism", "callable", "by", "parameters", "label_frequency", "level", "spread"),
}
# What the propensity of a mechanism with the entry `by` depends on. The mechanism is drawn anew for each split.
CLASS_PROBABILITY, OWN_ATTRIBUTES, OWN_STEP, ADDED_ATTRIBUTES = (
    "class probability",
    "own attributes",
    "own step",
    "added attributes",
)
DRAWN = (CLASS_PROBABILITY, OWN_ATTRIBUTES, OWN_STEP, ADDED_ATTRIBUTES)
# Parameters of these mechanisms, with their defaults; a mechanism by class probability also has those of its curve.
DRAWN_PARAMETERS: dict[str, dict[str, Any]] = {
    CLASS_PROBABILITY: {"curve": ""},
    OWN_ATTRIBUTES: {"n_attributes": 2, "n_named": 0, "coefficient": 1.0},
    OWN_STEP: {"low": 0.2, "high": 0.8},
    ADDED_ATTRIBUTES: {"n_attributes": 2},
}
CURVE_PARAMETERS = tuple(each.name for each in fields(ClassProbabilityCurve))
TOLD = ("prior",)  # what a method can be told besides the labels
DECISIONS = ("balanced",)  # decisions of `predict` besides its default
LEVELS = ("scale", "intercept")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the most similar known name, or "" if none is similar.

    Examples
    --------
    >>> did_you_mean("n_split", ["n_splits", "seed"]), did_you_mean("colour", ["seed"])
    ("Did you mean 'n_splits'?", '')
    """
    words = {word.lower(): word for word in known}
    near = get_close_matches(name.lower(), words, n=1)
    return f"Did you mean {words[near[0]]!r}?" if near else ""


def names_in(value: Any, what: str) -> list[str]:
    """Return a list of names; raise if it is something else."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{what} must be a list of names; it is {value!r}.")
    return value


def list_or_nothing(value: Any) -> list[Any]:
    """Return a list unchanged; anything else, which is refused later, as an empty list."""
    return value if isinstance(value, list) else []


def _checked(table: Any, where: str, group: str) -> dict[str, Any]:
    """Return a table of the user; raise if a key is unknown or a value cannot be written as JSON."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table; it is {table!r}.")
    for key in table:
        if key not in OWN_KEYS[group]:
            hint = did_you_mean(key, OWN_KEYS[group]) or f"The known entries are {', '.join(OWN_KEYS[group])}."
            raise ValueError(f"{where} has an unknown entry {key}. {hint}")
    if not isinstance(table.get("parameters", {}), dict):
        raise ValueError(f"{where}: parameters must be a table; it is {table['parameters']!r}.")
    try:
        json.dumps(table)
    except TypeError as error:
        raise ValueError(
            f"{where} may contain only texts, numbers, true, false, lists and tables ({error})."
        ) from error
    return table


def _one_of(table: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    """Raise unless a table has exactly one of several keys, with a text."""
    given = [key for key in keys if key in table]
    if len(given) != 1:
        found = ("both" if given else "neither") if len(keys) == 2 else " and ".join(given) or "none of them"
        choice = f"either {keys[0]} or {keys[1]}" if len(keys) == 2 else f"one of {', '.join(keys)}"
        raise ValueError(f"{where} must have {choice}; it has {found}.")
    _text(table, given[0], where)


def _text(table: dict[str, Any], key: str, where: str) -> None:
    if not isinstance(table.get(key), str):
        found = f"it is {table[key]!r}" if key in table else "it is missing"
        raise ValueError(f"{where}: {key} must be a text; {found}.")


def _dataset(table: Any, where: str) -> dict[str, Any]:
    found = _checked(table, where, "datasets")
    _one_of(found, ("file", "callable"), where)
    if "file" in found:
        _text(found, "class", where)
    apart = ("parameters",) if "file" in found else ("class",)
    for key in apart:
        if key in found:
            raise ValueError(
                f"{where}: {key} must not be used with {'file' if 'file' in found else 'callable'}. Remove {key}."
            )
    if isinstance(found.get("positive", ""), list | dict):
        raise ValueError(f"{where}: positive must be one value of the class; it is {found['positive']!r}.")
    attributes = found.get("propensity_attributes", ["any"])
    fitting = isinstance(attributes, list) and all(type(name) in (str, int) for name in attributes)
    if not fitting or not attributes:
        raise ValueError(f"{where}: propensity_attributes must be a list of columns; it is {attributes!r}.")
    return found


def _method(table: Any, where: str) -> dict[str, Any]:
    found = _checked(table, where, "methods")
    _text(found, "estimator", where)
    _choice(found, "told", TOLD, where)
    _choice(found, "decision", DECISIONS, where)
    if "" in names_in(found.get("packages", []), f"{where}: packages"):
        raise ValueError(f"{where}: packages has an empty name. Remove it.")
    return found


def _mechanism(table: Any, where: str) -> dict[str, Any]:
    found = _checked(table, where, "mechanisms")
    _one_of(found, ("mechanism", "callable", "by"), where)
    frequencies = found.get("label_frequency", 0.5)
    numbers = frequencies if isinstance(frequencies, list) else [frequencies]
    if not numbers or not all(isinstance(c, int | float) and not isinstance(c, bool) and 0 < c < 1 for c in numbers):
        raise ValueError(
            f"{where}: label_frequency must be a number strictly between 0 and 1, or a list of them; it is "
            f"{frequencies!r}."
        )
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{where}: label_frequency must not have a number twice; it is {frequencies!r}.")
    _choice(found, "level", LEVELS, where)
    if "level" in found and (found.get("by") != CLASS_PROBABILITY or "label_frequency" not in found):
        raise ValueError(f"{where}: level needs by = {CLASS_PROBABILITY!r} and a label_frequency.")
    spread = found.get("spread", 0.0)
    if not isinstance(spread, int | float) or isinstance(spread, bool) or not 0 <= spread < 1:
        raise ValueError(f"{where}: spread must be a number from 0 to below 1; it is {spread!r}.")
    if "spread" in found and found.get("by") != CLASS_PROBABILITY:
        raise ValueError(f"{where}: spread needs by = {CLASS_PROBABILITY!r}. Remove spread.")
    if "by" in found:
        _choice(found, "by", DRAWN, where)
        _check_drawn(found["by"], found.get("parameters", {}), where)
    if found.get("level") == "intercept":
        _check_intercept(curve_of(found.get("parameters", {})), max(numbers), where)
    return found


def _check_intercept(curve: ClassProbabilityCurve, c: float, where: str) -> None:
    """Raise if no intercept of a curve gives the mean propensity `c`."""
    if curve.link != "identity" and c >= curve.scale:
        raise ValueError(
            f"{where}: label_frequency = {c:g} cannot be reached with level = 'intercept', because the propensities of "
            f"this curve are below its scale, {curve.scale:g}. Use a larger scale, or level = 'scale'."
        )


def _choice(table: dict[str, Any], key: str, known: Sequence[str], where: str) -> None:
    """Raise if a key is there and its value is not one of the known texts."""
    if key in table and table[key] not in known:
        hint = did_you_mean(str(table[key]), known)
        raise ValueError(f"{where}: {key} must be one of {', '.join(known)}; it is {table[key]!r}. {hint}".rstrip())


def _check_drawn(by: str, parameters: dict[str, Any], where: str) -> None:
    """Raise if a parameter of a mechanism that is drawn for each split is unknown or has a wrong value."""
    known = [*DRAWN_PARAMETERS[by], *(CURVE_PARAMETERS if by == CLASS_PROBABILITY else ())]
    for key, value in parameters.items():
        if key not in known:
            hint = did_you_mean(key, known) or f"Its parameters are {', '.join(known)}."
            raise ValueError(f"{where}: by = {by!r} has no parameter {key!r}. {hint}")
        whole = key in ("n_attributes", "n_named")
        if whole and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ValueError(f"{where}: {key} must be a whole number of at least 1; it is {value!r}.")
    try:
        if by == CLASS_PROBABILITY:
            curve_of(parameters)
        elif by == OWN_STEP:
            given = {**DRAWN_PARAMETERS[by], **parameters}
            check_range(given["low"], given["high"], "swap them")
        elif by == OWN_ATTRIBUTES:
            check_number(parameters.get("coefficient", 1.0), "coefficient")
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def curve_of(parameters: dict[str, Any]) -> ClassProbabilityCurve:
    """Return the curve of a mechanism by class probability: a named one, changed by the other parameters.

    Examples
    --------
    >>> curve_of({"curve": "S2", "scale": 0.5})
    ClassProbabilityCurve(link='identity', of='probability', slope=1.0, intercept=0.0, power=1.0, scale=0.5)
    """
    rest = {key: value for key, value in parameters.items() if key != "curve"}
    named = ClassProbabilityCurve.named(parameters["curve"]) if "curve" in parameters else ClassProbabilityCurve()
    return replace(named, **rest)


def by_label_frequency(tables: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the mechanisms with one label frequency each: a list of label frequencies becomes several mechanisms.

    Examples
    --------
    >>> by_label_frequency({"S4": {"by": "class probability", "label_frequency": [0.1, 0.5]}}, "here")
    {'S4-c0.1': {'by': ..., 'label_frequency': 0.1}, 'S4-c0.5': {'by': ..., 'label_frequency': 0.5}}
    """
    found: dict[str, Any] = {}
    for name, table in tables.items():
        given = table.get("label_frequency")
        parts = [(f"{name}-c{c:g}", float(c)) for c in given] if isinstance(given, list) else [(name, given)]
        for each, c in parts:
            if each in found:
                raise ValueError(
                    f"{where}, [mechanisms.{name}]: there are two mechanisms {each!r}. Give one table another name, or "
                    "use label frequencies that differ in their first six digits."
                )
            found[each] = table if c is None else {**table, "label_frequency": c}
    return found


def refuse_joint_names(used: Any, tables: dict[str, Any], where: str) -> None:
    """Raise if a mechanism is named without one of its label frequencies."""
    for name in list_or_nothing(used):
        parts = [each for each in tables if each.startswith(f"{name}-c") and name not in tables]
        if parts:
            raise ValueError(
                f"{where}: there is no mechanism {name!r}, because it has a list of label frequencies. Use the names "
                f"of its parts: {', '.join(parts)}."
            )


OWN_CHECKS: dict[str, Callable[[Any, str], dict[str, Any]]] = {
    "datasets": _dataset,
    "methods": _method,
    "mechanisms": _mechanism,
}
