"""The default preparation of raw tables as ONNX nodes: skrub's vectoriser, imputation and standardisation.

The nodes use single precision, as the preparation does. The graph and the model give the same probabilities only if
both round every value at the same step.
"""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scarless.raw.preparation import BRACKETED, KeepNone, LongTail, NumberColumns, TableColumns
from scarless.saved.files import ModelFileError
from scarless.saved.onnx_graph import Graph, GraphInput

_CLEANING = {
    "CleanNullStrings", "DropUninformative", "ToDatetime", "ToFloat", "ToFloat32", "DurationToFloat",
    "CleanCategories", "ToStr",
}  # fmt: skip
_BLANK = r"[\s\x0b\x1c-\x1f\x{85}\p{Z}]*"  # the characters that Python's \s matches, in the syntax of RE2
_UNKNOWN_CATEGORY = -1  # code of a category that was not in the fit
NO_DATE = np.int64(np.iinfo(np.int64).min)  # NumPy's NaT as an integer
# Days from 0000-03-01 to 1970-01-01. If years are counted from March, the leap day is the last day of a year.
_DAYS_FROM_MARCH_OF_YEAR_0 = 719_468
_DAYS_IN_400_YEARS = 146_097


class OnnxColumn(NamedTuple):
    """A column of the raw table, with its cleaning steps and its encoder."""

    name: str
    cleaning: dict[str, Any]  # steps by the name of their class
    encoder: Any
    keeps_none: bool  # whether `KeepNone` comes first

    def refused(self, what: str, advice: str) -> ModelFileError:
        """Return an error that names the column."""
        return ModelFileError(
            f"Column {self.name!r} cannot be written as ONNX: {what}. {advice}, or store the model with scarless.save."
        )


def reads_raw_tables(steps: list[Any]) -> bool:
    """Return whether skrub's vectoriser is among the steps of a preparation."""
    return any(isinstance(step, TableColumns) or hasattr(step, "all_processing_steps_") for step in steps)


def add_table(graph: Graph, steps: list[Any]) -> str:
    """Add an input for each column that is not dropped; return the prepared table in double precision."""
    keeps_none = isinstance(steps[0], KeepNone)
    reader, *others = steps[1:] if keeps_none else steps
    vectoriser = reader.vectoriser_ if isinstance(reader, TableColumns) else reader
    numbers = reader.numbers_ if isinstance(reader, TableColumns) else None
    if vectoriser is not None and (
        not hasattr(vectoriser, "all_processing_steps_") or vectoriser.specific_transformers
    ):
        raise _refused(steps)
    columns = _columns(vectoriser, numbers, list(reader.input_to_outputs_), keeps_none)
    made = [out for column in columns for out in reader.input_to_outputs_[column.name]]
    if made != list(reader.get_feature_names_out()):
        raise _refused(steps)
    X = graph.add("Concat", *(_add_column(graph, column) for column in columns), axis=1)
    for step in others:
        X = _add_step(graph, X, step, steps)
    return graph.cast(X, "double")


def _columns(vectoriser: Any, numbers: NumberColumns | None, names: list[str], keeps_none: bool) -> list[OnnxColumn]:
    """Return the columns that are not dropped, in their order."""
    found = {}
    for name, steps in () if vectoriser is None else vectoriser.all_processing_steps_.items():
        if name in vectoriser.transformers_:
            # The steps without fit_transform only cast the outputs.
            *cleaning, encoder = (step for step in steps if hasattr(step, "fit_transform"))
            found[name] = OnnxColumn(name, {type(step).__name__: step for step in cleaning}, encoder, keeps_none)
    if numbers is not None:
        for name in numbers.names_:
            found[name] = OnnxColumn(name, {}, make_pipeline(*numbers.of_column(name)), keeps_none)
    return [found[name] for name in names if name in found]


def _add_column(graph: Graph, column: OnnxColumn) -> str:
    """Return the outputs of one raw column, in single precision."""
    unknown = column.cleaning.keys() - _CLEANING
    if unknown:
        raise column.refused(f"{min(unknown)} is not supported", "Leave that step out")
    for kind, add in _ENCODERS.items():
        if type(column.encoder).__name__ == kind:
            return graph.cast(add(graph, column), "float")
    raise column.refused(f"{type(column.encoder).__name__} is not supported", "Use the default preparation")


def _add_number(graph: Graph, column: OnnxColumn) -> str:
    """Return the imputed number, its logarithm if the tail is long, and its missing indicator."""
    kinds = [type(step) for _, step in column.encoder.steps]
    if kinds != [SimpleImputer, LongTail]:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise column.refused(f"its numbers are prepared by {names}", "Use the default preparation")
    imputer, tail = (step for _, step in column.encoder.steps)
    if "DurationToFloat" in column.cleaning:
        given = GraphInput(column.name, "duration", "double", "NaN", "A duration in seconds; missing is NaN.")
    else:
        how = "A number, even if the table has it as text; true and false are 1 and 0; missing is NaN."
        given = GraphInput(column.name, "number", "double", "NaN", how)
    x = graph.cast(graph.input(given), "float")
    missing = graph.add("IsNaN", x)
    filled = graph.cast(graph.add("Where", missing, np.float32(imputer.statistics_[0]), x), "double")
    parts = [filled]
    if tail.long_:
        parts.append(_logarithm(graph, filled, tail))
    if imputer.indicator_ is not None and imputer.indicator_.features_.size:
        parts.append(graph.cast(missing, "double"))
    return graph.add("Concat", *parts, axis=1)


def _logarithm(graph: Graph, x: str, tail: LongTail) -> str:
    """Return the logarithm that `LongTail` adds to a column."""
    x = graph.add("Max", x, np.float64(tail.least_))
    if tail.least_ > 0:
        return graph.add("Log", x)
    # ONNX has no log1p. The digits that are lost near 0 do not matter: single precision loses them, too, when the
    # column is standardised.
    return graph.add("Log", graph.add("Add", graph.add("Div", x, np.float64(tail.unit_)), np.float64(1.0)))


def _add_category(graph: Graph, column: OnnxColumn) -> str:
    """Return a column for each category but the dropped one; all are 0 for a category that was not in the fit."""
    encoder: OneHotEncoder = column.encoder
    if encoder.handle_unknown != "ignore" or encoder.min_frequency is not None or encoder.max_categories is not None:
        raise column.refused(
            "its OneHotEncoder merges rare categories, or refuses new ones", "Use the default preparation"
        )
    text = graph.input(GraphInput(column.name, "text", "string", "", "Text; missing is the empty text."))
    if "CleanNullStrings" in column.cleaning:
        text = graph.add("Where", graph.add("RegexFullMatch", text, pattern=_BLANK), np.array("", dtype=object), text)
    codes = _codes_of_texts(column)
    code = graph.add(
        "LabelEncoder",
        text,
        domain="ai.onnx.ml",
        keys_strings=list(codes),
        values_int64s=list(codes.values()),
        default_int64=_UNKNOWN_CATEGORY,
    )
    dropped = None if encoder.drop_idx_ is None else encoder.drop_idx_[0]
    shown = [number for number in range(len(encoder.categories_[0])) if number != dropped]
    return graph.add("Equal", code, np.array([shown], dtype=np.int64))


def _codes_of_texts(column: OnnxColumn) -> dict[str, int]:
    """Return the code of the category of each text, including the texts that mean "missing"."""
    categories = list(column.encoder.categories_[0])
    codes = {category: i for i, category in enumerate(categories) if isinstance(category, str)}
    if "" in codes:
        raise column.refused(
            "one of its categories is the empty string, but ONNX export treats an empty string as a missing value",
            "Rename that category",
        )
    missing = [i for i, category in enumerate(categories) if not isinstance(category, str)]
    cleaner = column.cleaning.get("CleanNullStrings")
    found = dict.fromkeys(["", *_null_words(cleaner)], missing[0] if missing else _UNKNOWN_CATEGORY)
    if cleaner is not None and column.keeps_none:
        found |= {word: codes.get(kept, _UNKNOWN_CATEGORY) for word, kept in BRACKETED.items()}
    return found | codes


def _null_words(cleaner: Any) -> list[str]:
    """Return the words that skrub treats as missing values."""
    if cleaner is None:
        return []
    own = getattr(cleaner, "null_strings_", None)
    return list(import_module(type(cleaner).__module__).STR_NA_VALUES if own is None else own)


def _add_dates(graph: Graph, column: OnnxColumn) -> str:
    reader, features = column.cleaning.get("ToDatetime"), list(column.encoder.extracted_features_)
    if features != ["year", "month", "day"][: len(features)] or column.encoder.periodic_encoding is not None:
        raise column.refused(
            "its date encoder creates columns other than year, month and day", "Use the default preparation"
        )
    if getattr(reader, "output_time_zone_", None) is not None or "%z" in (getattr(reader, "format_", None) or ""):
        raise column.refused("its dates have a time zone", "Convert them to dates without one before the fit")
    return add_date(graph, column.name, features)


def _refuse_text(graph: Graph, column: OnnxColumn) -> str:
    raise column.refused(
        "it is text with many different values, encoded by parts of words",
        "Leave it out, or group its values into at most 40 categories",
    )


_ENCODERS: dict[str, Callable[[Graph, OnnxColumn], str]] = {
    "Pipeline": _add_number,
    "OneHotEncoder": _add_category,
    "DatetimeEncoder": _add_dates,
    "StringEncoder": _refuse_text,
    "WordParts": _refuse_text,
}


def _add_step(graph: Graph, X: str, step: Any, steps: list[Any]) -> str:
    """Add a step after the vectoriser, in single precision."""
    if type(step) is SimpleImputer and step.indicator_ is None and step.keep_empty_features:
        return graph.add("Where", graph.add("IsNaN", X), step.statistics_.astype(np.float32)[None], X)
    if isinstance(step, StandardScaler) and step.with_mean and step.with_std:
        return _add_scale(graph, X, step)
    raise _refused(steps)


def _add_scale(graph: Graph, X: str, scaler: StandardScaler) -> str:
    """Add (X - mean) / scale, rounded as in the installed version of scikit-learn.

    Some versions round mean and scale to single precision; others round only the results of the two operations.
    """
    if _rounds_first(scaler):
        centred = graph.add("Sub", X, scaler.mean_.astype(np.float32))
        return graph.add("Div", centred, scaler.scale_.astype(np.float32))
    centred = graph.cast(graph.add("Sub", graph.cast(X, "double"), scaler.mean_), "float")
    return graph.cast(graph.add("Div", graph.cast(centred, "double"), scaler.scale_), "float")


def _rounds_first(scaler: StandardScaler) -> bool:
    """Return whether scikit-learn rounds mean and scale to single precision before it uses them.

    It then transforms the rounded mean to exactly 0.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the columns have no names
        return not np.any(np.asarray(scaler.transform(scaler.mean_.astype(np.float32)[None])))


def _refused(steps: list[Any]) -> ModelFileError:
    names = ", ".join(type(step).__name__ for step in steps)
    return ModelFileError(
        f"This preparation of raw tables cannot be written as ONNX: {names}. Use the default preparation "
        "(TableClassifier without `preparation`), or transformers of scikit-learn."
    )


def flatten(preparation: Any) -> list[Any]:
    """Return the steps of a pipeline, including the steps of inner pipelines."""
    if not isinstance(preparation, Pipeline):
        return [] if preparation in (None, "passthrough") else [preparation]
    return [step for _, inner in preparation.steps for step in flatten(inner)]


# --- dates, with integer arithmetic


def add_date(graph: Graph, name: str, features: list[str]) -> str:
    """Add a date as an input; return its year, month and day, or the first of these; NaN if it is missing.

    The calendar is the proleptic Gregorian calendar, as in NumPy, pandas and polars. With integer division,
    :math:`(d - d/1460 + d/36524 - d/146096)/365` is the year of day `d` in a cycle of 400 years, and
    :math:`(5t+2)/153` is the month, counted from March, of day `t` in that year.
    """
    how = "Days since 1970-01-01, as in datetime64[D]; missing is NaT, the smallest int64."
    days = graph.input(GraphInput(name, "date", "int64", str(NO_DATE), how))
    of_march = _plus(graph, days, _DAYS_FROM_MARCH_OF_YEAR_0)
    day = graph.add("Mod", of_march, np.int64(_DAYS_IN_400_YEARS))
    cycle = _over(graph, graph.add("Sub", of_march, day), _DAYS_IN_400_YEARS)
    leaps = graph.add("Sub", _over(graph, day, 36_524), _over(graph, day, 1_460))
    year = _over(graph, graph.add("Sub", graph.add("Add", day, leaps), _over(graph, day, 146_096)), 365)
    before = graph.add(
        "Sub", graph.add("Add", _times(graph, year, 365), _over(graph, year, 4)), _over(graph, year, 100)
    )
    of_year = graph.add("Sub", day, before)
    month = _over(graph, _plus(graph, _times(graph, of_year, 5), 2), 153)
    of_month = graph.add("Sub", _plus(graph, of_year, 1), _over(graph, _plus(graph, _times(graph, month, 153), 2), 5))
    next_year = graph.cast(graph.add("GreaterOrEqual", month, np.int64(10)), "int64")  # January and February
    parts = {
        "year": graph.add("Add", graph.add("Add", year, _times(graph, cycle, 400)), next_year),
        "month": graph.add("Sub", _plus(graph, month, 3), _times(graph, next_year, 12)),
        "day": of_month,
    }
    all_parts = graph.cast(graph.add("Concat", *(parts[feature] for feature in features), axis=1), "float")
    return graph.add("Where", graph.add("Equal", days, NO_DATE), np.float32("nan"), all_parts)


def _plus(graph: Graph, x: str, number: int) -> str:
    return graph.add("Add", x, np.int64(number))


def _times(graph: Graph, x: str, number: int) -> str:
    return graph.add("Mul", x, np.int64(number))


def _over(graph: Graph, x: str, number: int) -> str:
    """Return the integer quotient, for numbers that are not negative or have no remainder.

    For negative numbers with a remainder, ONNX rounds towards 0, and the calendar needs rounding down.
    """
    return graph.add("Div", x, np.int64(number))
