"""The tool's preparation of raw tables as nodes: skrub's vectoriser column by column, then gaps filled and scaled.

All of it is in single precision, as there: probabilities agree only where every value is rounded where ours is.
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
from scarless.saved.onnx_graph import Graph, Input

_CLEANING = {
    "CleanNullStrings", "DropUninformative", "ToDatetime", "ToFloat", "ToFloat32", "DurationToFloat",
    "CleanCategories", "ToStr",
}  # fmt: skip
_BLANK = r"[\s\x0b\x1c-\x1f\x{85}\p{Z}]*"  # what Python's \s matches, in the words of RE2
_UNKNOWN_LEVEL = -1  # the number of a level that is none
NO_DATE = np.int64(np.iinfo(np.int64).min)  # what numpy's NaT is as a whole number
_DAYS_FROM_MARCH_OF_YEAR_0 = 719_468  # to 1970-01-01; years that begin in March end with the leap day
_DAYS_IN_400_YEARS = 146_097


class Column(NamedTuple):
    """A column of the raw table, what cleans it, and what encodes it."""

    name: str
    cleaning: dict[str, Any]  # by the name of the class
    encoder: Any
    keeps_none: bool

    def refused(self, what: str, advice: str) -> ModelFileError:
        """Return an error that names the column."""
        return ModelFileError(
            f"The column {self.name!r} cannot be written as ONNX: {what}. {advice}, or keep the model with "
            "scarless.save."
        )


def reads_raw_tables(steps: list[Any]) -> bool:
    """Whether steps of a preparation are of the kind that is written here: skrub's vectoriser is among them."""
    return any(isinstance(step, TableColumns) or hasattr(step, "all_processing_steps_") for step in steps)


def add_table(graph: Graph, steps: list[Any]) -> str:
    """Add an input for each column that is not dropped, and return the prepared table in double precision."""
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


def _columns(vectoriser: Any, numbers: NumberColumns | None, names: list[str], keeps_none: bool) -> list[Column]:
    """Return the columns that are not dropped, in their order."""
    found = {}
    for name, steps in () if vectoriser is None else vectoriser.all_processing_steps_.items():
        if name in vectoriser.transformers_:
            *cleaning, encoder = (step for step in steps if hasattr(step, "fit_transform"))  # the last casts outputs
            found[name] = Column(name, {type(step).__name__: step for step in cleaning}, encoder, keeps_none)
    if numbers is not None:
        for name in numbers.names_:
            found[name] = Column(name, {}, make_pipeline(*numbers.of_column(name)), keeps_none)
    return [found[name] for name in names if name in found]


def _add_column(graph: Graph, column: Column) -> str:
    """Return what is made of one raw column, in single precision."""
    odd = column.cleaning.keys() - _CLEANING
    if odd:
        raise column.refused(f"{min(odd)} is a step that is not known here", "Leave it out")
    for kind, add in _ENCODERS.items():
        if type(column.encoder).__name__ == kind:
            return graph.cast(add(graph, column), "float")
    raise column.refused(f"{type(column.encoder).__name__} has no counterpart there", "Use the tool's own preparation")


def _add_number(graph: Graph, column: Column) -> str:
    """Return a number with its gaps filled, its logarithm where the tail is long, and whether it was missing."""
    kinds = [type(step) for _, step in column.encoder.steps]
    if kinds != [SimpleImputer, LongTail]:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise column.refused(f"numbers are read by {names}", "Use the tool's own preparation")
    imputer, tail = (step for _, step in column.encoder.steps)
    if "DurationToFloat" in column.cleaning:
        wanted = Input(column.name, "duration", "double", "NaN", "A length of time in seconds; missing is NaN.")
    else:
        how = "A number, also where the table has it as text; true and false are 1 and 0; missing is NaN."
        wanted = Input(column.name, "number", "double", "NaN", how)
    x = graph.cast(graph.input(wanted), "float")
    missing = graph.add("IsNaN", x)
    filled = graph.cast(graph.add("Where", missing, np.float32(imputer.statistics_[0]), x), "double")
    parts = [filled]
    if tail.long_:
        parts.append(_logarithm(graph, filled, tail))
    if imputer.indicator_ is not None and imputer.indicator_.features_.size:
        parts.append(graph.cast(missing, "double"))
    return graph.add("Concat", *parts, axis=1)


def _logarithm(graph: Graph, x: str, tail: LongTail) -> str:
    """Return the logarithm that `LongTail` puts beside a column."""
    x = graph.add("Max", x, np.float64(tail.least_))
    if tail.least_ > 0:
        return graph.add("Log", x)
    # There is no log1p. What is lost near 0 is lost to single precision too, beside a mean of the order of 1.
    return graph.add("Log", graph.add("Add", graph.add("Div", x, np.float64(tail.unit_)), np.float64(1.0)))


def _add_category(graph: Graph, column: Column) -> str:
    """Return a column for each level but the dropped one; 0 in all of them for a level that the fit had not seen."""
    encoder: OneHotEncoder = column.encoder
    if encoder.handle_unknown != "ignore" or encoder.min_frequency is not None or encoder.max_categories is not None:
        raise column.refused(
            "its OneHotEncoder joins rare levels, or refuses new ones", "Use the tool's own preparation"
        )
    text = graph.input(Input(column.name, "text", "string", "", "Text; missing is the empty text."))
    if "CleanNullStrings" in column.cleaning:
        text = graph.add("Where", graph.add("RegexFullMatch", text, pattern=_BLANK), np.array("", dtype=object), text)
    numbers = _numbers_of_texts(column)
    level = graph.add(
        "LabelEncoder",
        text,
        domain="ai.onnx.ml",
        keys_strings=list(numbers),
        values_int64s=list(numbers.values()),
        default_int64=_UNKNOWN_LEVEL,
    )
    dropped = None if encoder.drop_idx_ is None else encoder.drop_idx_[0]
    shown = [number for number in range(len(encoder.categories_[0])) if number != dropped]
    return graph.add("Equal", level, np.array([shown], dtype=np.int64))


def _numbers_of_texts(column: Column) -> dict[str, int]:
    """Return the number of the level that each text means, those that mean "missing" included."""
    levels = list(column.encoder.categories_[0])
    number = {level: i for i, level in enumerate(levels) if isinstance(level, str)}
    if "" in number:
        raise column.refused(
            "one of its categories is the empty text, which means missing there", "Rename that category"
        )
    gaps = [i for i, level in enumerate(levels) if not isinstance(level, str)]
    cleaner = column.cleaning.get("CleanNullStrings")
    found = dict.fromkeys(["", *_null_words(cleaner)], gaps[0] if gaps else _UNKNOWN_LEVEL)
    if cleaner is not None and column.keeps_none:
        found |= {word: number.get(kept, _UNKNOWN_LEVEL) for word, kept in BRACKETED.items()}
    return found | number


def _null_words(cleaner: Any) -> list[str]:
    """Return the words that skrub takes for missing values."""
    if cleaner is None:
        return []
    own = getattr(cleaner, "null_strings_", None)
    return list(import_module(type(cleaner).__module__).STR_NA_VALUES if own is None else own)


def _add_dates(graph: Graph, column: Column) -> str:
    reader, features = column.cleaning.get("ToDatetime"), list(column.encoder.extracted_features_)
    if features != ["year", "month", "day"][: len(features)] or column.encoder.periodic_encoding is not None:
        raise column.refused("more than year, month and day is taken from its dates", "Use the tool's own preparation")
    if getattr(reader, "output_time_zone_", None) is not None or "%z" in (getattr(reader, "format_", None) or ""):
        raise column.refused("its dates have a time zone", "Convert them to one without before the fit")
    return add_date(graph, column.name, features)


def _refuse_text(graph: Graph, column: Column) -> str:
    raise column.refused(
        "it is text with many values, which are told apart by the parts of words in it",
        "Leave it out, or group its values into at most 40",
    )


_ENCODERS: dict[str, Callable[[Graph, Column], str]] = {
    "Pipeline": _add_number,
    "OneHotEncoder": _add_category,
    "DatetimeEncoder": _add_dates,
    "StringEncoder": _refuse_text,
    "WordParts": _refuse_text,
}


def _add_step(graph: Graph, X: str, step: Any, steps: list[Any]) -> str:
    """Add a step behind the vectoriser, in single precision."""
    if type(step) is SimpleImputer and step.indicator_ is None and step.keep_empty_features:
        return graph.add("Where", graph.add("IsNaN", X), step.statistics_.astype(np.float32)[None], X)
    if isinstance(step, StandardScaler) and step.with_mean and step.with_std:
        return _add_scale(graph, X, step)
    raise _refused(steps)


def _add_scale(graph: Graph, X: str, scaler: StandardScaler) -> str:
    """Add (X - mean) / scale, with mean and scale rounded before or only the results, as scikit-learn here does it."""
    if _rounds_first(scaler):
        centred = graph.add("Sub", X, scaler.mean_.astype(np.float32))
        return graph.add("Div", centred, scaler.scale_.astype(np.float32))
    centred = graph.cast(graph.add("Sub", graph.cast(X, "double"), scaler.mean_), "float")
    return graph.cast(graph.add("Div", graph.cast(centred, "double"), scaler.scale_), "float")


def _rounds_first(scaler: StandardScaler) -> bool:
    """Whether the mean in single precision is scaled to 0: versions of scikit-learn may differ in that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the row has no names
        return not np.any(np.asarray(scaler.transform(scaler.mean_.astype(np.float32)[None])))


def _refused(steps: list[Any]) -> ModelFileError:
    names = ", ".join(type(step).__name__ for step in steps)
    return ModelFileError(
        f"This preparation of raw tables cannot be written as ONNX: it is made of {names}. Use the tool's own, that is "
        "TableClassifier without `preparation`, or scikit-learn's transformers."
    )


def flatten(preparation: Any) -> list[Any]:
    """Return the steps of a pipeline, those of pipelines in it among them."""
    if not isinstance(preparation, Pipeline):
        return [] if preparation in (None, "passthrough") else [preparation]
    return [step for _, inner in preparation.steps for step in flatten(inner)]


# --- dates, by whole numbers alone


def add_date(graph: Graph, name: str, features: list[str]) -> str:
    """Add a date as an input, and return its year, month and day, or the first of these; NaN where it is missing.

    The calendar is the one that numpy, pandas and polars count by: today's rules, also before they were made. With `d`
    the day in a cycle of 400 years, :math:`(d - d/1460 + d/36524 - d/146096)/365` is its year in the cycle, in whole
    numbers, and :math:`(5t+2)/153` the month, from March on, of the day `t` of that year.
    """
    how = "Days since 1970-01-01, as datetime64[D] counts; missing is NaT, that is the least whole number."
    days = graph.input(Input(name, "date", "int64", str(NO_DATE), how))
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
    """Return the whole quotient, of numbers that are not negative or without a rest."""
    return graph.add("Div", x, np.int64(number))
