"""Steps of scikit-learn in front of a classifier, converted by skl2onnx in double precision."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from scarless.checks.attributes import names_of
from scarless.checks.options import shown
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.saved.model_file import ModelFileError
from scarless.saved.onnx.graph import EXTRA, OPSETS, USER, Graph, Input

TOLERANCE = 1e-6
COMPARED = 100  # rows of the user's
_TABLE = "A table of numbers, columns in this order; missing is NaN, where the steps fill gaps."


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
        table = whole_table(known, n_columns)._replace(missing="NaN", how=_TABLE)
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
    if not np.all(off <= TOLERANCE):  # NaN is not
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
