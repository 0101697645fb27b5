"""A fitted model written as an ONNX graph: what goes in front, and the classifier."""

import os
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from scarless.checks.tables import LARGEST
from scarless.outside.files import write_whole
from scarless.raw.table_classifier import TableClassifier
from scarless.saved.model_file import check_target, refuse_unfitted
from scarless.saved.onnx.answers import add_answers, read_classifier
from scarless.saved.onnx.columns import add_table, flatten, reads_raw_tables
from scarless.saved.onnx.graph import Graph
from scarless.saved.onnx.steps import COMPARED, add_steps, compare, whole_table

SUFFIX = ".onnx"


def to_onnx(estimator: Any, *, X: Any = None) -> Any:
    r"""Return a fitted logistic model, with its preparation, as one ONNX graph.

    The graph is asked without Python, by ONNX Runtime or any other runtime that knows double precision, and says what
    the model says. Its outputs, one value for each row: ``label``, the more probable class; ``probability``,
    :math:`\Pr(y=1|x)`; ``propensity``, :math:`e(x)`; ``posterior_unlabelled``, :math:`\Pr(y=1|x,s=0)`. The last two are
    there where the model knows a propensity.

    Parameters
    ----------
    estimator : fitted estimator
        `SAREMClassifier`, `SAREMClassifierCV`, `SCARClassifier`, `PropensityWeightedClassifier` or `NaiveClassifier`
        without an `estimator` of your own; or a `sklearn.pipeline.Pipeline` or `TableClassifier` that ends in one.
    X : data frame or array of shape (n_rows, n_columns), optional
        Rows of the raw table, for steps of scikit-learn: where they read columns by name, or text, it says what each
        column holds. The graph's answers on up to 100 of them are compared with the model's. Other models do not need
        it, and it is not looked at.

    Returns
    -------
    onnx.ModelProto
        Inputs: of a classifier alone, or behind steps of scikit-learn without `X`, one table of numbers ``X``; of raw
        tables one tensor of shape (n_rows, 1) for each column that the preparation keeps, named as the column.
        Numbers and truth values are double, missing is NaN; text is text, missing is the empty text; dates are days
        since 1970-01-01, missing is the least int64. ``metadata_props["scarless"]`` says so for each input, as JSON.

    Raises
    ------
    ModelFileError
        Where the model, a step or a column has no counterpart, or the graph's answers are not the model's.
    sklearn.exceptions.NotFittedError
        Where the model is not fitted.

    See Also
    --------
    save_onnx : Write it to a file.
    save : Keep the model itself.

    Notes
    -----
    A row that the model would refuse, since a number is infinite or far too large, or missing where nobody fills gaps,
    has NaN for a probability and the negative class for a label.

    Examples
    --------
    >>> import numpy as np
    >>> import scarless
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> s = ((X[:, 0] > 0) & (rng.random(500) < 1 / (1 + np.exp(-X[:, 2])))).astype(int)
    >>> model = scarless.SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> graph = scarless.to_onnx(model).graph
    >>> [each.name for each in graph.input], [each.name for each in graph.output]
    (['X'], ['label', 'probability', 'propensity', 'posterior_unlabelled'])
    """
    refuse_unfitted(estimator)
    steps, classifier = _parts(estimator)
    linear = read_classifier(classifier)
    graph = Graph()
    raw = reads_raw_tables(steps)
    if raw:
        prepared = add_table(graph, steps)
    elif steps:
        prepared = add_steps(graph, steps, X)
    else:
        prepared = graph.input(whole_table(getattr(estimator, "feature_names_in_", None), linear.n_columns))
    add_answers(graph, prepared, linear, LARGEST[np.dtype(np.float32 if raw else np.float64)])
    facts = {"model": linear.name, "classes": linear.classes.tolist(), "preparation": _names(steps)}
    model = graph.model(_described(linear.name, steps), facts)
    if steps and not raw and X is not None:
        some = X[:COMPARED]
        compare(model, some, estimator.predict_proba(some)[:, classifier._coding.positive])
    return model


def save_onnx(estimator: Any, path: str | os.PathLike[str], *, X: Any = None) -> None:
    """Write a fitted logistic model, with its preparation, to a file as one ONNX graph.

    The same model makes the same bytes. The file is written aside and then moved into place.

    Parameters
    ----------
    estimator : fitted estimator
        As for `to_onnx`.
    path : path of a file that ends in ``.onnx``
        Overwritten if it is there.
    X : data frame or array of shape (n_rows, n_columns), optional
        As for `to_onnx`.

    Raises
    ------
    ModelFileError
        Where the path has another suffix or no folder, or the model cannot be written.
    sklearn.exceptions.NotFittedError
        Where the model is not fitted.

    See Also
    --------
    to_onnx : What is in the graph, and how it wants to be asked.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import onnx
    >>> import scarless
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> s = ((X[:, 0] > 0) & (rng.random(500) < 1 / (1 + np.exp(-X[:, 2])))).astype(int)
    >>> model = scarless.SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> with TemporaryDirectory() as folder:
    ...     scarless.save_onnx(model, Path(folder, "model.onnx"))
    ...     onnx.load(Path(folder, "model.onnx")).producer_name
    'scarless'
    """
    target = check_target(path, SUFFIX)
    write_whole(target, to_onnx(estimator, X=X).SerializeToString(deterministic=True))


def _parts(estimator: Any) -> tuple[list[Any], Any]:
    """Return the steps in front of a classifier, and the classifier."""
    if isinstance(estimator, TableClassifier):
        front, last = estimator.preparation_, estimator.estimator_
    elif isinstance(estimator, Pipeline):
        front, last = estimator[:-1], estimator[-1]
    else:
        return [], estimator
    inner, classifier = _parts(last)
    return flatten(front) + inner, classifier


def _names(steps: list[Any]) -> list[str]:
    return [type(step).__name__ for step in steps]


def _described(name: str, steps: list[Any]) -> str:
    behind = f" behind {', '.join(_names(steps))}" if steps else ""
    return (
        f"{name} of scarless{behind}: the class and the labelling of rows, from positive and unlabelled data. What to "
        "feed is said at each input, what comes out at each output, and both in the metadata under `scarless`, as JSON."
    )
