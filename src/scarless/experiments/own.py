"""What is the user's own: things by import path, datasets from a file or a function, labelling mechanisms.

Import paths are `module:name`, looked for in the folder of the specification, then in the current one.
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
from scarless.datasets import dataset_names
from scarless.experiments.spec import ADDED, BY_ATTRIBUTES, Spec, did_you_mean
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
    """Let import paths be found in a folder and in the current one; forget their modules afterwards.

    Worker processes that are started within find them too: they get the search path of their parent.
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
    """Return what an import path names, or say what was tried and why it failed."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"{path!r} is no import path: {IMPORT_PATH_FORM}.")
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever a user's module does
        looked = ", ".join(dict.fromkeys(sys.path[:2]))
        raise ValueError(
            f"{path!r} cannot be imported: `import {module}` ended in {type(error).__name__}: {error} (looked in "
            f"{looked} and among installed packages)."
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{path!r} cannot be imported: {module} has no {part!r}. {did_you_mean(part, dir(found))}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{path!r} must be a class or a function; it is {type(found).__name__}.")
    return found


def source_of(path: str) -> dict[str, str]:
    """Return the hash of the file that an import path leads to, where that is the user's own and not installed."""
    file = getattr(sys.modules.get(path.partition(":")[0]), "__file__", None)
    if file is None or not Path(file).is_file():
        return {}
    real = Path(file).resolve()
    if _INSTALLED & set(real.parts) or real.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve()):
        return {}
    return {"source": sha256(real.read_bytes()).hexdigest()}


@dataclass(frozen=True)
class OwnData:
    """A dataset of one's own.

    `table` is as it came, without the class, `prepared` as methods get it, with names of columns where there are any;
    `columns` are those that drive the labelling, `identity` is what its records depend on.
    """

    table: Any
    prepared: Any
    y: Vector
    columns: tuple[int, ...]
    identity: dict[str, Any]

    @property
    def X(self) -> Matrix:
        """The numbers alone."""
        return np.ascontiguousarray(self.prepared, dtype=np.float64)


def load_own(spec: Spec, name: str) -> OwnData:
    """Load a dataset of the specification's own, and prepare it without a look at its class."""
    said = spec.own_datasets[name]
    try:
        if "file" in said:
            table, values, identity = _from_file(Path(spec.folder or ".", said["file"]), said["class"])
        else:
            table, values, identity = _from_callable(said["callable"], said.get("parameters", {}))
        y = read_class(values, said.get("class", "y"), said.get("positive"))
        _check_size(y, len(table), spec.test_share)
        prepared, columns = _prepared(table, said.get("propensity_attributes", []))
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(f"The dataset {name!r}: {error}") from error
    return OwnData(table, prepared, y, columns, {**said, **identity})


def check_datasets(spec: Spec) -> None:
    """Refuse datasets that nobody knows, and own ones under a name of ours."""
    ours = dataset_names(bundled=True)
    for name in spec.datasets:
        if name in spec.own_datasets and name in ours:
            raise ValueError(f"[datasets.{name}]: there is a dataset {name!r} already. Choose another name for yours.")
        if name not in spec.own_datasets and name not in ours:
            known = [*ours, *spec.own_datasets]
            hint = did_you_mean(name, known) or f"There are {', '.join(known)}."
            raise ValueError(f"There is no dataset {name!r}. {hint} Yours are defined in [datasets.NAME].")


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
    """Call a function that returns X and y, or a bunch of them; its identity is what it returned."""
    load = import_object(path)
    try:
        found = load(**parameters)
    except Exception as error:  # whatever a user's function does
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
            raise ValueError(f"{path!r}: X must be a table of finite numbers, or a data frame.")
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
    """Return 1 for rows of the positive class, 0 for the others.

    Parameters
    ----------
    values : array or Series
        A class for each row; two different ones, or more if `positive` is given.
    name : str
        What the column is called, for messages.
    positive : object, optional
        The value of the positive class. Not needed for 1 and 0, true and false, yes and no, in the languages that
        `scarless fit` knows.

    Examples
    --------
    >>> read_class(["no", "yes", "no"], "ill")
    array([0., 1., 0.])
    """
    text = [_as_text(value) for value in values]
    if empty := text.count(""):
        raise ValueError(f"the class {name!r} is missing in {empty} of {len(text)} rows: leave these rows out.")
    known = sorted(set(text))
    shown = ", ".join(map(repr, known[:VALUES_SHOWN])) + (", ..." if len(known) > VALUES_SHOWN else "")
    if len(known) < 2:
        raise ValueError(f"the class {name!r} has the one value {shown or 'of no row'}; it must have two.")
    if positive is None and len(known) > 2:
        raise ValueError(
            f"the class {name!r} has {len(known)} values, {shown}; it must have two, or `positive` must say which of "
            "them is the positive class, against all others."
        )
    marks = _as_text(positive) if positive is not None else _clear(known)
    if marks is None:
        raise ValueError(f"the class {name!r} has the values {shown}; say which is the positive one, with `positive`.")
    marks = marks if marks in known else next((each for each in known if each.lower() == marks.lower()), marks)
    if marks not in known:
        raise ValueError(f"no row has {marks!r} as its class {name!r}; it has {shown}.")
    return np.asarray([value == marks for value in text], dtype=np.float64)


def _as_text(value: Any) -> str:
    """Return a value as one would write it in a specification: whole numbers without a point, nothing for gaps."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, int | float | np.number):
        return "" if np.isnan(value) else f"{float(value):.15g}"
    return str(value).strip()


def _clear(known: Sequence[str]) -> str | None:
    """Return which of two values is the positive one, where nobody can doubt it."""
    said = yes_or_no(known)
    return known[said.index(True)] if said is not None and len(known) == 2 and sum(said) == 1 else None


def _check_size(y: Vector, n: int, test_share: float) -> None:
    """Refuse a dataset of which a part would be without one of the classes."""
    fewest = int(min(y.sum(), n - y.sum()))
    needed = int(np.ceil(2 / min(test_share, 1 - test_share)))
    if fewest < needed:
        raise ValueError(f"one of its classes has {fewest} rows; to be split, each must have at least {needed}.")


def _prepared(table: Any, attributes: Sequence[Any]) -> tuple[Any, tuple[int, ...]]:
    """Return a table as numbers, and which columns of these come from attributes of the raw one."""
    if not hasattr(table, "columns"):
        wrong = [each for each in attributes if not isinstance(each, int) or not 0 <= each < table.shape[1]]
        if wrong:
            raise ValueError(
                f"propensity_attributes has {wrong[0]!r}; columns of an array are 0 to {table.shape[1] - 1}."
            )
        return table, tuple(attributes)
    names = [str(name) for name in table.columns]
    for each in attributes:
        if each not in names:
            raise ValueError(f"propensity_attributes has {each!r}, which is no column. {nearest_name(each, names)}")
    preparation = table_preparation()
    prepared = preparation.fit_transform(table)
    origins = trace_origins(preparation, names, prepared.shape[1])
    made = {each: [j for j, origin in enumerate(origins or ()) if origin.column == each] for each in attributes}
    for each, found in made.items():
        if not found:
            raise ValueError(
                f"propensity_attributes has {each!r}, a column that says nothing: it is constant or empty."
            )
    return prepared, tuple(j for found in made.values() for j in found)


def check_mechanisms(spec: Spec) -> None:
    """Refuse names of mechanisms that stand for nothing."""
    known = [ADDED, BY_ATTRIBUTES, *spec.own_mechanisms]
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
    if mechanism in OUR_MECHANISMS:
        return OUR_MECHANISMS[mechanism]
    if ":" not in mechanism:
        hint = did_you_mean(mechanism, OUR_MECHANISMS) or f"There are {', '.join(OUR_MECHANISMS)}."
        raise ValueError(f"{where}there is no mechanism {mechanism!r}. {hint} For one of your own {IMPORT_PATH_FORM}.")
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
    if kind in OUR_MECHANISMS.values():
        return mechanism.propensity(prepared)
    return _same_twice(said["mechanism"], lambda: mechanism.propensity(prepared.copy()), len(prepared))
