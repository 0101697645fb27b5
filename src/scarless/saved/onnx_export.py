"""A fitted model written as an ONNX graph: what goes in front, and the classifier."""

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
from scarless.checks.tables import LARGEST
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.outside.files import write_whole
from scarless.raw.table_classifier import TableClassifier
from scarless.saved.files import ModelFileError, check_target, refuse_unfitted
from scarless.saved.onnx_columns import add_table, flatten, reads_raw_tables
from scarless.saved.onnx_graph import EXTRA, OPSETS, USER, Graph, Input, add_answers, read_classifier

SUFFIX = ".onnx"
MAX_PROBABILITY_GAP = 1e-6
ROWS_COMPARED = 100  # rows of the user's
_TABLE_WITH_GAPS = "A table of numbers, columns in this order; missing is NaN, where the steps fill gaps."


def to_onnx(estimator: Any, *, X: Any = None) -> Any:
    r"""Return a fitted logistic model, with its preparation, as one ONNX graph.

    The graph is asked without Python, by ONNX Runtime or any other runtime that knows double precision, and says what
    the model says. Its outputs, one value for each row: ``label``, the more probable class; ``probability``,
    :math:`\Pr(y=1|x)`; ``propensity``, :math:`e(x)`; ``posterior_unlabelled``, :math:`\Pr(y=1|x,s=0)`. The last two are
    there where the model knows a propensity.

    Parameters
    ----------
    estimator : fitted estimator
        `SAREMClassifier`, `SAREMClassifierCV`, `PublishedEMClassifier`, `SCARClassifier`,
        `PropensityWeightedClassifier` or `NaiveClassifier` without an `estimator` of your own; or a
        `sklearn.pipeline.Pipeline` or `TableClassifier` that ends in one.
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
        some = X[:ROWS_COMPARED]
        compare(model, some, estimator.predict_proba(some)[:, classifier.label_coding_.positive])
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


# --- steps of scikit-learn in front of a classifier, converted by skl2onnx in double precision


def whole_table(names: Any, n_columns: int) -> Input:
    """Return one input for all columns."""
    columns = [f"x{j}" for j in range(n_columns)] if names is None else [str(name) for name in names]
    return Input("X", "numbers", "double", None, "A table of numbers, columns in this order.", tuple(columns))


def add_steps(graph: Graph, steps: list[Any], X: Any) -> str:
    """Add steps of scikit-learn; their inputs are one table of numbers, or the columns of `X` where it has names."""
    pipeline = Pipeline([(f"step{i}", step) for i, step in enumerate(steps)])
    n_columns, known = (getattr(steps[0], name, None) for name in ("n_features_in_", "feature_names_in_"))
    if n_columns is None:
        raise ModelFileError(
            f"{type(steps[0]).__name__} does not say how many columns it reads (n_features_in_), so it cannot be "
            "written as ONNX. Use a transformer of scikit-learn, or keep the model with scarless.save."
        )
    if X is not None and (sparse.issparse(X) or len(getattr(X, "shape", ())) != 2 or X.shape[1] != n_columns):
        raise ModelFileError(
            f"X must be rows of the table that the model was fitted to, with its {n_columns} columns, as a data frame "
            f"or a dense array; got {shown(X)}."
        )
    names = names_of(X)
    if names is None:
        table = whole_table(known, n_columns)._replace(missing="NaN", how=_TABLE_WITH_GAPS)
        return _converted(graph, pipeline, [graph.input(table)], [("X", "double", n_columns)])
    wanted = [_column(str(name), X[name]) for name in names]
    inputs = [graph.input(each) for each in wanted]
    types = [each.type for each in wanted]
    if isinstance(steps[0], ColumnTransformer):
        columns = [(each.name, each.type, 1) for each in wanted]
        return _converted(graph, pipeline, inputs, columns)
    if len(set(types)) > 1:
        raise ModelFileError(
            f"{type(steps[0]).__name__} reads columns of numbers and of text at once, which cannot be written as ONNX. "
            "Put a ColumnTransformer in front that says which step reads which column."
        )
    return _converted(graph, pipeline, [graph.add("Concat", *inputs, axis=1)], [("X", types[0], n_columns)])


def _column(name: str, values: Any) -> Input:
    """Return what a column is as an input, by the values it holds."""
    array = np.asarray(values)
    if array.dtype.kind not in "biufcmM":
        if any(isinstance(value, str) for value in array):
            return Input(name, "text", "string", None, "Text, never missing.")
        array = _numbers(values)
    if array.dtype.kind not in "biuf":
        raise ModelFileError(
            f"The column {name!r} of X holds neither numbers nor text but {array.dtype}, which cannot be written as "
            "ONNX behind steps of scikit-learn. Make numbers of it before the fit, or leave it out."
        )
    return Input(name, "number", "double", "NaN", "A number; missing is NaN, where the steps fill gaps.")


def _numbers(values: Any) -> Any:
    """Return values as numbers where they are some, such as whole ones with gaps; else as they are."""
    try:
        if hasattr(values, "isna") and hasattr(values, "dtype"):  # of pandas, which marks gaps in its own way
            return values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.asarray(values)


def _converted(graph: Graph, pipeline: Pipeline, inputs: list[str], columns: list[tuple[str, str, int]]) -> str:
    """Return what a pipeline makes of inputs, in double precision."""
    skl2onnx = need("skl2onnx", USER, EXTRA)
    types = need("skl2onnx.common.data_types", USER, EXTRA)
    kinds = {"double": types.DoubleTensorType, "string": types.StringTensorType}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a converter that knows an older scikit-learn: answers are compared
            model = skl2onnx.convert_sklearn(
                pipeline,
                initial_types=[(name, kinds[kind]([None, width])) for name, kind, width in columns],
                target_opset=OPSETS,
                custom_conversion_functions={SimpleImputer: _convert_imputer},
                custom_shape_calculators={SimpleImputer: _shape_of_imputed},
            )
            other = {each.domain for each in model.opset_import} - OPSETS.keys()
            if other:
                raise ValueError(f"They need operators of {min(other)}, which not every runtime has.")
            graph.onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # of skl2onnx, of any kind
        raise ModelFileError(
            f"skl2onnx cannot write these steps in double precision: {_line(error)} Steps that read columns by name, "
            "or text, need rows of the table too: to_onnx(model, X=table). Otherwise use other steps, or keep the "
            "model with scarless.save."
        ) from error
    return graph.cast(graph.include(model, inputs), "double")


def _convert_imputer(scope: Any, operator: Any, container: Any) -> None:
    """Write `SimpleImputer` in double precision, which skl2onnx's own converter does not know, with indicators."""
    imputer, double = operator.raw_operator, need("onnx", USER, EXTRA).TensorProto.DOUBLE

    def add(kind: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        name = scope.get_unique_variable_name(kind) if output is None else output
        container.add_node(kind, inputs, [name], name=scope.get_unique_operator_name(kind), **attributes)
        return name

    fine = imputer.statistics_.dtype.kind == "f" and not np.isnan(imputer.statistics_).any()
    if not fine or not _is_nan(imputer.missing_values):
        raise ValueError("SimpleImputer is written for numbers, with missing_values=nan and no empty column.")
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
    """Refuse a graph that says something else of rows than the model it was made of."""
    reference = need("onnx.reference", USER, EXTRA)
    names = names_of(X) or [None]
    feeds = {}
    for wanted, name in zip(model.graph.input, names, strict=True):
        feeds[wanted.name] = _values(X if name is None else X[name], wanted.type.tensor_type.elem_type)
    try:
        with np.errstate(all="ignore"):
            found = reference.ReferenceEvaluator(model).run(["probability"], feeds)[0]
    except Exception as error:  # of any operator
        raise ModelFileError(
            f"The graph that skl2onnx makes of these steps cannot be run on rows of X: {_line(error)} Text must not be "
            "missing. Use other steps, or keep the model with scarless.save."
        ) from error
    off = np.abs(found - expected)
    if not np.all(off <= MAX_PROBABILITY_GAP):  # NaN is not
        worst = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
        raise ModelFileError(
            f"What skl2onnx makes of these steps says something else than the model: of row {worst} of X a probability "
            f"of {found[worst]:.8f}, and the model {expected[worst]:.8f}. Use other steps, or keep the model with "
            "scarless.save."
        )


def _values(values: Any, kind: int) -> Any:
    double = kind == need("onnx", USER, EXTRA).TensorProto.DOUBLE
    array = np.asarray(_numbers(values) if double else values, dtype=np.float64 if double else object)
    return array if array.ndim == 2 else array[:, None]


def _line(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0][:200]
    return text if text.endswith(".") else f"{text}."
