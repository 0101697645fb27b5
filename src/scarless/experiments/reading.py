"""A specification from a TOML file: defaults for what it does not say, and what names of one's own stand for."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from scarless.experiments.spec import ADDED, SETTINGS, Spec, check_spec, did_you_mean

TABLES = ("labelling", "options")  # they group a file's entries for the eye; an experiment has no groups
ATTRIBUTES = "attributes"  # the mechanism that labels by the attributes that a dataset names
BUNDLED = ["bundled_breast_cancer", "bundled_digits", "simulated"]  # nothing to download
USUAL_METHODS = ["supervised", "naive", "scar-tice", "sar-em"]
DEFAULTS: dict[str, Any] = {
    "seed": 0,
    "settings": ["all"],
    "n_propensity_attributes": [2],
    "n_splits": 5,
    "n_labellings": 2,
    "test_share": 0.2,
    "added_attributes": 4,
    "clusters": 5,
    "low": 0.2,
    "high": 0.8,
    "C": 1.0,
    "km_max_rows": 2000,
}
QUICK = {"n_splits": 2, "n_labellings": 1}  # where a file has no [quick] of its own
USE = "use"  # beside tables of one's own: which of ours to take as well
KEYS = {  # of one's own
    "datasets": ("file", "callable", "parameters", "class", "positive", "propensity_attributes"),
    "methods": ("estimator", "parameters"),
    "mechanisms": ("mechanism", "callable", "parameters"),
}
JUDGED = ("mse_f", "auc_f", "mse_e", "mae_e", "log_loss", "average_precision", "calibration_error")
_NAME = re.compile(r"[\w-]+")


def read_spec(path: str | Path, *, quick: bool = False) -> Spec:
    """Read and check a specification; `quick` applies its ``[quick]`` table."""
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: {error}.") from error
    quickly = _entries(table.pop("quick", QUICK), f"{path}, [quick]")
    values = {"name": path.stem, **DEFAULTS, **_entries(table, str(path))}
    values.setdefault("title", values["name"])
    own = _own_tables(values, str(path))
    asked = [*_listed(values["methods"]), *_listed(quickly.get("methods", []))]
    values["questions"] = _questions(values.get("questions", {}), asked, str(path))
    values |= quickly if quick else {}
    values.setdefault("mechanisms", _usual_mechanisms(values["datasets"], own["datasets"], str(path)))
    values |= {f"own_{group}": _used(values[group], tables) for group, tables in own.items()}
    return check_spec({**values, "folder": str(path.parent)}, str(path))


def _entries(table: Any, where: str) -> dict[str, Any]:
    """Return all entries of a table and of the groups in it."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table; it is {table!r}.")
    found = {key: value for key, value in table.items() if key not in TABLES}
    for name in (name for name in TABLES if name in table):
        group = _entries(table[name], f"{where}, [{name}]")
        if twice := sorted(group.keys() & found.keys()):
            raise ValueError(f"{where} sets {', '.join(twice)} in [{name}] and also before. Say it once.")
        found |= group
    reserved = sorted(found.keys() & {"folder", *(f"own_{group}" for group in KEYS)})
    if reserved:
        raise ValueError(f"{where} has unknown {', '.join(reserved)}. {did_you_mean(reserved[0], KEYS)}".rstrip())
    return found


def _own_tables(values: dict[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Replace tables of one's own by lists of names; return the tables."""
    usual: dict[str, tuple[list[str], list[str]]] = {  # without tables of one's own, and beside them
        "datasets": (BUNDLED, []),
        "methods": (USUAL_METHODS, USUAL_METHODS),
        "mechanisms": ([], []),
    }
    own: dict[str, dict[str, Any]] = {}
    for group, (alone, beside) in usual.items():
        given = values.pop(group, None)
        if isinstance(given, dict):
            tables = {name: table for name, table in given.items() if name != USE}
            own[group] = {name: CHECKS[group](table, f"{where}, [{group}.{name}]") for name, table in tables.items()}
            _check_names(group, tables, where)
            used = _names(given.get(USE, beside if tables else alone), f"{where}, [{group}]: {USE}")
            values[group] = [*(name for name in used if name not in tables), *tables]
        else:
            own[group] = {}
            values[group] = alone if given is None else given
    if not values["mechanisms"]:
        del values["mechanisms"]
    return own


def _check_names(group: str, names: Iterable[str], where: str) -> None:
    """Refuse names that could not be those of files, or that stand for something else."""
    taken = {"mechanisms": {ADDED, ATTRIBUTES, *SETTINGS}}.get(group, set())
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{where}, [{group}]: {name!r} must be a name of letters, digits, - and _.")
        if name in taken:
            raise ValueError(f"{where}, [{group}]: {name!r} is taken. Choose another name.")


def _names(value: Any, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{what} must be a list of names; it is {value!r}.")
    return value


def _listed(value: Any) -> list[Any]:
    """Return a list as it is, and what is none, which is refused later, as nothing."""
    return value if isinstance(value, list) else []


def _used(names: Any, tables: dict[str, Any]) -> dict[str, Any]:
    return {name: table for name, table in tables.items() if name in names}


def _checked(table: Any, where: str, group: str) -> dict[str, Any]:
    """Return a table of one's own whose keys are known, and whose values can be written as JSON."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table; it is {table!r}.")
    for key in table:
        if key not in KEYS[group]:
            hint = did_you_mean(key, KEYS[group]) or f"There are {', '.join(KEYS[group])}."
            raise ValueError(f"{where} has unknown {key}. {hint}")
    if not isinstance(table.get("parameters", {}), dict):
        raise ValueError(f"{where}: parameters must be a table; it is {table['parameters']!r}.")
    try:
        json.dumps(table)
    except TypeError as error:
        raise ValueError(f"{where} must hold texts, numbers, true, false, lists and tables only ({error}).") from error
    return table


def _one_of(table: dict[str, Any], keys: tuple[str, str], where: str) -> None:
    """Refuse a table that does not say exactly one of two things, in words."""
    said = [key for key in keys if key in table]
    if len(said) != 1:
        came = "both" if said else "neither"
        raise ValueError(f"{where} must have either {keys[0]} or {keys[1]}; it has {came}.")
    _text(table, said[0], where)


def _text(table: dict[str, Any], key: str, where: str) -> None:
    if not isinstance(table.get(key), str):
        came = f"it is {table[key]!r}" if key in table else "it is missing"
        raise ValueError(f"{where}: {key} must be a text; {came}.")


def _dataset(table: Any, where: str) -> dict[str, Any]:
    found = _checked(table, where, "datasets")
    _one_of(found, ("file", "callable"), where)
    if "file" in found:
        _text(found, "class", where)
    apart = ("parameters",) if "file" in found else ("class",)
    for key in apart:
        if key in found:
            raise ValueError(f"{where}: {key} does not go with {'file' if 'file' in found else 'callable'}.")
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
    return found


def _mechanism(table: Any, where: str) -> dict[str, Any]:
    found = _checked(table, where, "mechanisms")
    _one_of(found, ("mechanism", "callable"), where)
    return found


CHECKS: dict[str, Callable[[Any, str], dict[str, Any]]] = {
    "datasets": _dataset,
    "methods": _method,
    "mechanisms": _mechanism,
}


def _usual_mechanisms(datasets: Any, own: dict[str, Any], where: str) -> list[str]:
    """Return how to label where nobody says: by the attributes that datasets name, or by added ones if none does."""
    naming = [name for name in _listed(datasets) if "propensity_attributes" in own.get(name, {})]
    others = [name for name in _listed(datasets) if name not in naming]
    if naming and others:
        raise ValueError(
            f"{where}: {naming[0]} has propensity_attributes and {others[0]} has not, so that it is not clear how to "
            f'label. Name them for each, or say mechanisms = ["{ADDED}"].'
        )
    return [ATTRIBUTES] if naming else [ADDED]


def _questions(table: Any, methods: Sequence[Any], where: str) -> dict[str, Any]:
    """Return each question with who is to be better than whom, and by which score."""
    if not isinstance(table, dict):
        raise ValueError(f"{where}, [questions] must be a table; it is {table!r}.")
    return {text: _question(asked, methods, f"{where}, [questions]: {text!r}") for text, asked in table.items()}


def _question(asked: Any, methods: Sequence[Any], where: str) -> dict[str, Any]:
    pair = {"better": asked[0], "than": asked[1:]} if isinstance(asked, list) and len(asked) > 1 else asked
    found = {"by": "mse_f", **pair} if isinstance(pair, dict) else {}
    than = [found["than"]] if isinstance(found.get("than"), str) else found.get("than")
    if set(found) != {"better", "than", "by"} or not isinstance(than, list) or not than:
        raise ValueError(
            f'{where} must be a pair of methods, such as ["mine", "naive"], or a table with better, than and by; it is '
            f"{asked!r}."
        )
    for method in (found["better"], *than):
        if method not in methods:
            hint = did_you_mean(str(method), map(str, methods)) or f"There are {', '.join(map(str, methods))}."
            raise ValueError(f"{where} asks after {method!r}, which is no method of this experiment. {hint}")
    if found["by"] not in JUDGED:
        hint = did_you_mean(str(found["by"]), JUDGED) or f"There are {', '.join(JUDGED)}."
        raise ValueError(f"{where}: there is no score {found['by']!r}. {hint}")
    return {**found, "than": than}
