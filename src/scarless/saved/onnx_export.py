"""Export of a fitted model, with its preparation, as an ONNX graph."""

import os
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from scarless.checks.attributes import names_of
from scarless.checks.options import shown
from scarless.checks.tables import MAX_SUMMABLE_VALUE
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.outside.files import write_whole
from scarless.raw.table_classifier import TableClassifier
from scarless.saved.files import ModelFileError, check_target, refuse_unfitted
from scarless.saved.onnx_columns import add_table, flatten, reads_raw_tables
from scarless.saved.onnx_graph import EXTRA, OPSETS, USER, Graph, GraphInput, add_outputs, read_classifier

SUFFIX = ".onnx"
MAX_PROBABILITY_GAP = 1e-6  # between the graph and the model
MAX_ROWS_COMPARED = 100  # rows of X for which graph and model are compared
_TABLE_WITH_GAPS = "A table of numbers, columns in this order; missing is NaN, if the steps fill missing values."


def to_onnx(estimator: Any, *, X: Any = None) -> Any:
    r"""Return a fitted logistic model, with its preparation, as an ONNX graph.

    The graph predicts without Python, in ONNX Runtime or any other runtime that supports double precision. Its outputs
    have one value for each row: ``label``, the more probable class; ``probability``, :math:`\Pr(y=1|x)`;
    ``propensity``, :math:`e(x)`; ``posterior_unlabelled``, :math:`\Pr(y=1|x,s=0)`. The last two exist only if the model
    has a propensity.

    Parameters
    ----------
    estimator : fitted estimator
        `SAREMClassifier`, `SAREMClassifierCV`, `PublishedEMClassifier`, `SCARClassifier`,
        `PropensityWeightedClassifier` or `NaiveClassifier` without an `estimator` of your own; or a
        `sklearn.pipeline.Pipeline` or `TableClassifier` that ends in one.
    X : data frame or array of shape (n_rows, n_columns), optional
        Rows of the raw table. Needed if steps of scikit-learn read text, or columns by name: `X` then determines the
        types of the columns. For up to 100 of these rows, the predictions of the graph are compared with the model's.
        Classifiers without steps, and models with the default preparation of raw tables, ignore `X`.

    Returns
    -------
    onnx.ModelProto
        A classifier without steps, or with steps of scikit-learn and without a data frame `X`, has one input named
        ``X``: a table of numbers. Any other model has an input of shape (n_rows, 1) for each column that its steps use,
        with the name of the column. Numbers and booleans are double, and a missing value is NaN. A missing text is the
        empty text. Dates are days since 1970-01-01, and a missing date is the smallest int64.
        ``metadata_props["scarless"]`` describes each input, as JSON.

    Raises
    ------
    ModelFileError
        If the model, a step or a column cannot be converted, or the predictions of the graph differ from the model's.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    See Also
    --------
    save_onnx : Write the graph to a file.
    save : Store the model itself.

    Notes
    -----
    The model raises an error if a number is infinite or too large, or missing without a step that fills it. The graph
    returns NaN as the probability of such a row, and the negative class as its label.

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
    add_outputs(graph, prepared, linear, MAX_SUMMABLE_VALUE[np.dtype(np.float32 if raw else np.float64)])
    metadata = {"model": linear.name, "classes": linear.classes.tolist(), "preparation": _names(steps)}
    model = graph.model(_describe(linear.name, steps), metadata)
    if steps and not raw and X is not None:
        some = X[:MAX_ROWS_COMPARED]
        compare(model, some, estimator.predict_proba(some)[:, classifier.label_coding_.positive])
    return model


def save_onnx(estimator: Any, path: str | os.PathLike[str], *, X: Any = None) -> None:
    """Write a fitted logistic model, with its preparation, to a file as an ONNX graph.

    Equal models give equal files. The file is written completely before it replaces an existing one.

    Parameters
    ----------
    estimator : fitted estimator
        Model to write, as for `to_onnx`.
    path : path of a file that ends in ``.onnx``
        An existing file is overwritten.
    X : data frame or array of shape (n_rows, n_columns), optional
        Rows of the raw table, as for `to_onnx`.

    Raises
    ------
    ModelFileError
        If the path has another suffix, its folder does not exist, or the model cannot be converted.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    See Also
    --------
    to_onnx : Inputs and outputs of the graph.

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
    """Return the steps before a classifier, and the classifier."""
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


def _describe(name: str, steps: list[Any]) -> str:
    after = f" after {', '.join(_names(steps))}" if steps else ""
    return (
        f"{name} of scarless{after}: class and labelling of rows, learned from positive and unlabelled data. Inputs "
        "and outputs are described by their doc strings, and as JSON in the metadata `scarless`."
    )


# --- steps of scikit-learn before a classifier, converted by skl2onnx in double precision


def whole_table(names: Any, n_columns: int) -> GraphInput:
    """Return one input for all columns."""
    columns = [f"x{j}" for j in range(n_columns)] if names is None else [str(name) for name in names]
    return GraphInput("X", "numbers", "double", None, "A table of numbers, columns in this order.", tuple(columns))


def add_steps(graph: Graph, steps: list[Any], X: Any) -> str:
    """Add steps of scikit-learn; the input is one table of numbers, or each column of `X` if they have names."""
    pipeline = Pipeline([(f"step{i}", step) for i, step in enumerate(steps)])
    n_columns, known = (getattr(steps[0], name, None) for name in ("n_features_in_", "feature_names_in_"))
    if n_columns is None:
        raise ModelFileError(
            f"{type(steps[0]).__name__} has no attribute n_features_in_, the number of its columns, so it cannot be "
            "written as ONNX. Use a transformer of scikit-learn, or store the model with scarless.save."
        )
    if X is not None and (sparse.issparse(X) or len(getattr(X, "shape", ())) != 2 or X.shape[1] != n_columns):
        raise ModelFileError(
            f"X must be a data frame or a dense array with the {n_columns} columns of the fit; got {shown(X)}."
        )
    names = names_of(X)
    if names is None:
        table = whole_table(known, n_columns)._replace(missing="NaN", how=_TABLE_WITH_GAPS)
        return _converted(graph, pipeline, [graph.input(table)], [("X", "double", n_columns)])
    given = [_column_input(str(name), X[name]) for name in names]
    inputs = [graph.input(each) for each in given]
    types = [each.type for each in given]
    if isinstance(steps[0], ColumnTransformer):
        columns = [(each.name, each.type, 1) for each in given]
        return _converted(graph, pipeline, inputs, columns)
    if len(set(types)) > 1:
        raise ModelFileError(
            f"{type(steps[0]).__name__} reads columns of numbers and of text together, which cannot be written as "
            "ONNX. Put a ColumnTransformer first, which assigns columns to steps."
        )
    return _converted(graph, pipeline, [graph.add("Concat", *inputs, axis=1)], [("X", types[0], n_columns)])


def _column_input(name: str, values: Any) -> GraphInput:
    """Return the input for a column, according to its values."""
    array = np.asarray(values)
    if array.dtype.kind not in "biufcmM":
        if any(isinstance(value, str) for value in array):
            return GraphInput(name, "text", "string", None, "Text, never missing.")
        array = _numbers(values)
    if array.dtype.kind not in "biuf":
        raise ModelFileError(
            f"Column {name!r} of X must hold numbers or text, so that the steps of scikit-learn can be written as "
            f"ONNX; it holds {array.dtype}. Convert it to numbers before the fit, or leave it out."
        )
    how = "A number; missing is NaN, if the steps fill missing values."
    return GraphInput(name, "number", "double", "NaN", how)


def _numbers(values: Any) -> Any:
    """Return values as numbers if they are numbers, such as integers with missing values; otherwise unchanged."""
    try:
        if hasattr(values, "isna") and hasattr(values, "dtype"):  # pandas has several kinds of missing values
            return values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.asarray(values)


def _converted(graph: Graph, pipeline: Pipeline, inputs: list[str], columns: list[tuple[str, str, int]]) -> str:
    """Add a pipeline, and return its output in double precision."""
    skl2onnx = need("skl2onnx", USER, EXTRA)
    types = need("skl2onnx.common.data_types", USER, EXTRA)
    kinds = {"double": types.DoubleTensorType, "string": types.StringTensorType}
    try:
        with warnings.catch_warnings():
            # The converter may warn that it supports an older scikit-learn; predictions are compared later.
            warnings.simplefilter("ignore")
            model = skl2onnx.convert_sklearn(
                pipeline,
                initial_types=[(name, kinds[kind]([None, width])) for name, kind, width in columns],
                target_opset=OPSETS,
                custom_conversion_functions={SimpleImputer: _convert_imputer},
                custom_shape_calculators={SimpleImputer: _shape_of_imputed},
            )
            other = {each.domain for each in model.opset_import} - OPSETS.keys()
            if other:
                raise ValueError(f"The steps need operators of {min(other)}, which not every runtime has.")
            graph.onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # skl2onnx raises many kinds of exceptions
        raise ModelFileError(
            f"skl2onnx cannot convert these steps in double precision: {_line(error)} Steps that read text, or columns "
            "by name, need rows of the table: to_onnx(model, X=table). Otherwise use other steps, or store the model "
            "with scarless.save."
        ) from error
    return graph.cast(graph.include(model, inputs), "double")


def _convert_imputer(scope: Any, operator: Any, container: Any) -> None:
    """Convert `SimpleImputer` with indicators in double precision, which skl2onnx's own converter does not support."""
    imputer, double = operator.raw_operator, need("onnx", USER, EXTRA).TensorProto.DOUBLE

    def add(kind: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        name = scope.get_unique_variable_name(kind) if output is None else output
        container.add_node(kind, inputs, [name], name=scope.get_unique_operator_name(kind), **attributes)
        return name

    fine = imputer.statistics_.dtype.kind == "f" and not np.isnan(imputer.statistics_).any()
    if not fine or not _is_nan(imputer.missing_values):
        raise ValueError("SimpleImputer must have numbers, missing_values=nan and no empty column.")
    fills = scope.get_unique_variable_name("fills")
    container.add_initializer(fills, double, [1, imputer.statistics_.size], imputer.statistics_.tolist())
    x = add("Concat", [each.full_name for each in operator.inputs], axis=1)
    missing = add("IsNaN", [x])
    indicated = [] if imputer.indicator_ is None else imputer.indicator_.features_.tolist()
    filled = add("Where", [missing, fills, x])
    parts = [filled]
    if indicated:
        places = scope.get_unique_variable_name("places")
        container.add_initializer(places, need("onnx", USER, EXTRA).TensorProto.INT64, [len(indicated)], indicated)
        parts.append(add("Cast", [add("Gather", [missing, places], axis=1)], to=double))
    add("Concat", parts, operator.outputs[0].full_name, axis=1)


def _shape_of_imputed(operator: Any) -> None:
    imputer, types = operator.raw_operator, need("skl2onnx.common.data_types", USER, EXTRA)
    indicated = 0 if imputer.indicator_ is None else imputer.indicator_.features_.size
    operator.outputs[0].type = types.DoubleTensorType([None, imputer.statistics_.size + indicated])


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and np.isnan(value)


def compare(model: Any, X: Any, expected: Vector) -> None:
    """Raise if the probabilities of the graph differ from those of the model."""
    reference = need("onnx.reference", USER, EXTRA)
    names = names_of(X) or [None]
    feeds = {}
    for given, name in zip(model.graph.input, names, strict=True):
        feeds[given.name] = _values(X if name is None else X[name], given.type.tensor_type.elem_type)
    try:
        with np.errstate(all="ignore"):
            found = reference.ReferenceEvaluator(model).run(["probability"], feeds)[0]
    except Exception as error:  # operators raise many kinds of exceptions
        raise ModelFileError(
            f"skl2onnx's conversion of these steps cannot be run on rows of X: {_line(error)} Fill missing texts in "
            "X, use other steps, or store the model with scarless.save."
        ) from error
    gap = np.abs(found - expected)
    if not np.all(gap <= MAX_PROBABILITY_GAP):  # also if a gap is NaN
        worst = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
        raise ModelFileError(
            f"skl2onnx's conversion of these steps predicts different probabilities: {found[worst]:.8f} for row "
            f"{worst} of X (counted from 0), but the model predicts {expected[worst]:.8f}. Use other steps, or store "
            "the model with scarless.save."
        )


def _values(values: Any, kind: int) -> Any:
    double = kind == need("onnx", USER, EXTRA).TensorProto.DOUBLE
    array = np.asarray(_numbers(values) if double else values, dtype=np.float64 if double else object)
    return array if array.ndim == 2 else array[:, None]


def _line(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0][:200]
    return text if text.endswith(".") else f"{text}."
