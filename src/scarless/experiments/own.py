"""The user's own datasets, labelling mechanisms and estimators, given by files and import paths.

Import paths have the form `module:name`; modules are searched in the folder of the specification, then in the current
folder.
"""

import importlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from scarless.checks.attributes import nearest_name
from scarless.checks.labels import yes_or_no
from scarless.checks.options import check_propensity
from scarless.datasets.loaders import all_dataset_names
from scarless.experiments.entries import did_you_mean
from scarless.experiments.spec import ADDED, BY_ATTRIBUTES, Spec
from scarless.labelling import SCAR, GeometricMeanSAR, LabellingMechanism, LogisticSAR, StepSAR, StratifiedSAR
from scarless.numerics.arrays import Matrix, Vector
from scarless.outside.extras import need
from scarless.outside.table_files import read_table
from scarless.raw.origins import trace_origins
from scarless.raw.preparation import table_preparation

IMPORT_PATH_FORM = "write module:name, for example my_module:MyClassifier"
_INSTALLED = {"site-packages", "dist-packages"}
VALUES_SHOWN = 6  # values in a message
OUR_MECHANISMS: dict[str, type[LabellingMechanism]] = {
    kind.__name__: kind for kind in (SCAR, GeometricMeanSAR, LogisticSAR, StepSAR, StratifiedSAR)
}


@contextmanager
def importable(folder: str, paths: Iterable[str]) -> Iterator[None]:
    """Add a folder and the current folder to the module search path; forget the imported modules afterwards.

    Worker processes that are started inside inherit the search path.
    """
    before = sys.path[:]
    names = {path.partition(":")[0].partition(".")[0] for path in paths}
    known = names & set(sys.modules)
    if names:
        sys.path[:0] = [os.path.abspath(folder or "."), os.getcwd()]
        importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before
        for name in [name for name in sys.modules if name.partition(".")[0] in names - known]:
            del sys.modules[name]


def import_object(path: str) -> Any:
    """Return the object of an import path; raise an error with the reason if it cannot be imported."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"{path!r} is not an import path: {IMPORT_PATH_FORM}.")
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # A module of the user may raise anything.
        searched = ", ".join(dict.fromkeys(sys.path[:2]))
        raise ValueError(
            f"{path!r} cannot be imported: `import {module}` raised {type(error).__name__}: {error} (searched "
            f"{searched} and the installed packages)."
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{path!r} cannot be imported: {module} has no {part!r}. {did_you_mean(part, dir(found))}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{path!r} must be a class or a function; it is {type(found).__name__}.")
    return found


def source_of(path: str) -> dict[str, str]:
    """Return the hash of the file of an import path; empty for installed packages, and for scarless itself."""
    if path.startswith("scarless."):
        return {}
    file = getattr(sys.modules.get(path.partition(":")[0]), "__file__", None)
    if file is None or not Path(file).is_file():
        return {}
    real = Path(file).resolve()
    if _INSTALLED & set(real.parts) or real.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve()):
        return {}
    return {"source": sha256(real.read_bytes()).hexdigest()}


@dataclass(frozen=True)
class OwnData:
    """A dataset of the user.

    `table` is the raw table without the class, and `prepared` the encoded table for the methods. `columns` are the
    propensity attributes. `identity` is everything that the records of this dataset depend on.
    """

    table: Any
    prepared: Any
    y: Vector
    columns: tuple[int, ...]
    identity: dict[str, Any]

    @property
    def X(self) -> Matrix:
        """The encoded table as an array."""
        return np.ascontiguousarray(self.prepared, dtype=np.float64)


def load_own(spec: Spec, name: str) -> OwnData:
    """Load a dataset of the user, and encode it without using its class."""
    entry = spec.own_datasets[name]
    try:
        if "file" in entry:
            table, values, identity = _from_file(Path(spec.folder or ".", entry["file"]), entry["class"])
        else:
            table, values, identity = _from_callable(entry["callable"], entry.get("parameters", {}))
        y = read_class(values, entry.get("class", "y"), entry.get("positive"))
        check_size(y, spec.test_share)
        prepared, columns = _prepared(table, entry.get("propensity_attributes", []))
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(f"The dataset {name!r}: {error}") from error
    return OwnData(table, prepared, y, columns, {**entry, **identity})


def check_datasets(spec: Spec) -> None:
    """Raise if a dataset is unknown, or if a dataset of the user has the name of a built-in one."""
    ours = all_dataset_names()
    for name in spec.datasets:
        if name in spec.own_datasets and name in ours:
            raise ValueError(f"[datasets.{name}]: {name!r} is the name of a built-in dataset. Choose another name.")
        if name not in spec.own_datasets and name not in ours:
            known = [*ours, *spec.own_datasets]
            hint = did_you_mean(name, known) or f"The datasets are {', '.join(known)}."
            raise ValueError(f"There is no dataset {name!r}. {hint} Define your own in [datasets.NAME].")


def _from_file(path: Path, name: str) -> tuple[Any, Any, dict[str, str]]:
    table = read_table(path)
    if name not in table.columns:
        raise ValueError(f"{path} has no column {name!r} for the class. {nearest_name(name, list(table.columns))}")
    with path.open("rb") as file:
        digest = sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return table.drop(columns=name), table[name], {"sha256": digest.hexdigest()}


def _from_callable(path: str, parameters: Mapping[str, Any]) -> tuple[Any, Any, dict[str, str]]:
    """Call a function that returns X and y, or a Bunch; return its table, its classes and their hash."""
    load = import_object(path)
    try:
        found = load(**parameters)
    except Exception as error:  # A function of the user may raise anything.
        raise ValueError(f"{path!r} failed with {type(error).__name__}: {error}") from error
    pair = found if isinstance(found, tuple) and len(found) == 2 else _of_bunch(found)
    if pair is None:
        raise ValueError(
            f"{path!r} must return (X, y), or a Bunch with data and target; it returned {type(found).__name__}."
        )
    table = pair[0].to_pandas() if hasattr(pair[0], "to_pandas") else pair[0]
    table = table.toarray() if hasattr(table, "toarray") else table
    if not hasattr(table, "columns"):
        table = np.asarray(table, dtype=np.float64)
        if table.ndim != 2 or not np.isfinite(table).all():
            raise ValueError(f"{path!r}: X must be a two-dimensional array of finite numbers, or a data frame.")
    values = pair[1].to_numpy() if hasattr(pair[1], "to_numpy") else np.asarray(pair[1])
    if values.shape != (len(table),):
        raise ValueError(f"{path!r}: y must have one value for each of {len(table)} rows; its shape is {values.shape}.")
    return table, values, {"sha256": _content_hash(table, values), **source_of(path)}


def _of_bunch(found: Any) -> tuple[Any, Any] | None:
    for X, y in (("data", "target"), ("X", "y")):
        if hasattr(found, X) and hasattr(found, y):
            return getattr(found, X), getattr(found, y)
    return None


def _content_hash(table: Any, values: Any) -> str:
    digest = sha256(repr((table.shape, [str(value) for value in values])).encode())
    if hasattr(table, "columns"):
        hashes = need("pandas", "A data frame", "tool").util.hash_pandas_object(table, index=False)
        digest.update(repr([str(name) for name in table.columns]).encode())
        digest.update(hashes.to_numpy().tobytes())
    else:
        digest.update(np.ascontiguousarray(table).tobytes())
    return digest.hexdigest()


def read_class(values: Any, name: str, positive: Any = None) -> Vector:
    """Return 1 for rows of the positive class and 0 for the others.

    Parameters
    ----------
    values : array or Series
        Class of each row, with two distinct values, or more if `positive` is given.
    name : str
        Name of the column, for messages.
    positive : object, optional
        Value of the positive class. Not needed for 1/0, true/false, and yes/no in the languages that `scarless
        fit` knows.

    Examples
    --------
    >>> read_class(["no", "yes", "no"], "ill")
    array([0., 1., 0.])
    """
    text = [_as_text(value) for value in values]
    if empty := text.count(""):
        raise ValueError(
            f"the class {name!r} is missing in {empty} of {len(text)} rows. A comparison needs "
            "the true class of every row: name the column that has it, not the labels, or remove these rows."
        )
    known = sorted(set(text))
    shown = ", ".join(map(repr, known[:VALUES_SHOWN])) + (", ..." if len(known) > VALUES_SHOWN else "")
    if len(known) < 2:
        found = f"only the value {shown}" if shown else "no values"
        raise ValueError(f"the class {name!r} has {found}; it must have two values.")
    if positive is None and len(known) > 2:
        raise ValueError(
            f"the class {name!r} has {len(known)} values, {shown}; it must have two. Set `positive` to the value of "
            "the positive class; all other values are then negative."
        )
    marks = _as_text(positive) if positive is not None else _clear(known)
    if marks is None:
        raise ValueError(
            f"the class {name!r} has the values {shown}. Set `positive` to the value of the positive class."
        )
    marks = marks if marks in known else next((each for each in known if each.lower() == marks.lower()), marks)
    if marks not in known:
        raise ValueError(f"positive is {marks!r}, but the class {name!r} has the values {shown}. Set one of these.")
    return np.asarray([value == marks for value in text], dtype=np.float64)


def _as_text(value: Any) -> str:
    """Return a value as it is written in a specification: whole numbers without a point, missing values as ""."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, int | float | np.number):
        return "" if np.isnan(value) else f"{float(value):.15g}"
    return str(value).strip()


def _clear(known: Sequence[str]) -> str | None:
    """Return which of two values is the positive class, or None if it is not clear."""
    meanings = yes_or_no(known)
    return known[meanings.index(True)] if meanings is not None and len(known) == 2 and sum(meanings) == 1 else None


def check_size(y: Vector, test_share: float) -> None:
    """Raise if a class has too few rows for a training and a test part."""
    smallest = int(min(y.sum(), y.size - y.sum()))
    needed = int(np.ceil(2 / min(test_share, 1 - test_share)))
    if smallest < needed:
        raise ValueError(
            f"each class needs at least {needed} rows, for training and for testing; the smaller class has {smallest}."
        )


def _prepared(table: Any, attributes: Sequence[Any]) -> tuple[Any, tuple[int, ...]]:
    """Return the encoded table, and the positions of the columns that encode the propensity attributes."""
    if not hasattr(table, "columns"):
        wrong = [each for each in attributes if not isinstance(each, int) or not 0 <= each < table.shape[1]]
        if wrong:
            raise ValueError(
                f"propensity_attributes names {wrong[0]!r}; the columns of this array are 0 to {table.shape[1] - 1}."
            )
        return table, tuple(attributes)
    names = [str(name) for name in table.columns]
    for each in attributes:
        if each not in names:
            raise ValueError(
                f"propensity_attributes names {each!r}, which is not a column. {nearest_name(each, names)}"
            )
    preparation = table_preparation()
    prepared = preparation.fit_transform(table)
    origins = trace_origins(preparation, names, prepared.shape[1])
    made = {each: [j for j, origin in enumerate(origins or ()) if origin.column == each] for each in attributes}
    for each, found in made.items():
        if not found:
            raise ValueError(f"propensity_attributes names {each!r}, which is constant or empty. Remove this name.")
    return prepared, tuple(j for found in made.values() for j in found)


def check_mechanisms(spec: Spec) -> None:
    """Raise if a labelling mechanism is unknown or cannot be imported."""
    known = [ADDED, BY_ATTRIBUTES, *spec.own_mechanisms]
    for name in spec.mechanisms:
        if name not in known:
            hint = did_you_mean(name, known) or f"The mechanisms are {', '.join(known)}."
            raise ValueError(f"There is no mechanism {name!r}. {hint} Define your own in [mechanisms.NAME].")
    for name, entry in spec.own_mechanisms.items():
        if "callable" in entry:
            import_object(entry["callable"])
        elif "mechanism" in entry:
            _class_of(entry["mechanism"], f"[mechanisms.{name}]: ")


def _class_of(mechanism: str, where: str = "") -> type[LabellingMechanism]:
    """Return the class of a mechanism, given its name or import path."""
    if mechanism in OUR_MECHANISMS:
        return OUR_MECHANISMS[mechanism]
    if ":" not in mechanism:
        hint = did_you_mean(mechanism, OUR_MECHANISMS) or f"The mechanisms are {', '.join(OUR_MECHANISMS)}."
        raise ValueError(f"{where}there is no mechanism {mechanism!r}. {hint} For your own, {IMPORT_PATH_FORM}.")
    kind = import_object(mechanism)
    if not isinstance(kind, type) or not issubclass(kind, LabellingMechanism):
        raise ValueError(
            f"{where}{mechanism!r} must be a subclass of scarless.labelling.LabellingMechanism. For a function that "
            "returns propensities, use the entry callable."
        )
    return kind


def propensities_of(spec: Spec, dataset: str, table: Any, prepared: Any, columns: tuple[int, ...]) -> dict[str, Vector]:
    """Return the propensities of all rows for each mechanism that is applied to the whole table.

    Parameters
    ----------
    spec : Spec
        Specification of the experiment.
    dataset : str
        Name of the dataset, for messages.
    table : array or data frame
        Raw attributes without the class, for functions of the user.
    prepared : array or data frame
        Encoded attributes, for classes of mechanisms.
    columns : tuple of int
        Propensity attributes: columns of `prepared`.
    """
    found = {}
    for name in spec.table_mechanisms:
        entry = spec.own_mechanisms.get(name, {"mechanism": "GeometricMeanSAR"})
        try:
            if "callable" in entry:
                e = _by_callable(entry["callable"], entry.get("parameters", {}), table)
            else:
                e = _by_class(spec, entry, prepared, columns)
        except (ValueError, TypeError) as error:
            raise ValueError(f"The mechanism {name!r} on the dataset {dataset!r}: {error}") from error
        found[name] = e
    return found


def _by_callable(path: str, parameters: dict[str, Any], table: Any) -> Vector:
    function = import_object(path)
    return _same_twice(path, lambda: function(table.copy(), **parameters), len(table))


def _same_twice(path: str, compute: Callable[[], Any], n_rows: int) -> Vector:
    """Return propensities computed by code of the user; raise if it fails or returns different values each time."""
    try:
        once, again = (np.array(compute(), dtype=np.float64) for _ in range(2))
    except Exception as error:  # A function of the user may raise anything.
        raise ValueError(f"{path!r} failed with {type(error).__name__}: {error}") from error
    if not np.array_equal(once, again, equal_nan=True):
        raise ValueError(f"{path!r} returns different propensities each time. Use a fixed seed for its random numbers.")
    return check_propensity(once, n_rows=n_rows)


def _by_class(spec: Spec, entry: dict[str, Any], prepared: Any, columns: tuple[int, ...]) -> Vector:
    kind = _class_of(entry["mechanism"])
    parameters = dict(entry.get("parameters", {}))
    known = list(signature(kind).parameters)
    for key in parameters:
        if key not in known:
            hint = did_you_mean(key, known) or f"Its parameters are {', '.join(known)}."
            raise ValueError(f"{entry['mechanism']} has no parameter {key!r}. {hint}")
    wanted = next((word for word in ("attributes", "attribute") if word in known), None)
    if wanted and wanted not in parameters:
        if not columns:
            raise ValueError(
                "the mechanism needs propensity attributes. Set propensity_attributes in the table of the dataset, or "
                f'{wanted} in the parameters of the mechanism, or use mechanisms = ["{ADDED}"].'
            )
        parameters[wanted] = list(columns)
    if kind is GeometricMeanSAR:
        parameters = {"low": spec.low, "high": spec.high, **parameters}
    mechanism = kind(**parameters)
    if kind in OUR_MECHANISMS.values():
        return mechanism.propensity(prepared)
    return _same_twice(entry["mechanism"], lambda: mechanism.propensity(prepared.copy()), len(prepared))
