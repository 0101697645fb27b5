"""A table as people have it, with text, dates and gaps, turned into numbers: by skrub, without looking at labels."""

import sys
from typing import Any, Self

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scarless.outside.extras import need

MOST_LEVELS = 40  # of text that is read as categories; with more it is read as text
TEXT_COLUMNS = 10  # that text is made into
_WORDS = {"none": "(none)", "None": "(None)"}  # which skrub takes for missing values


class KeepNone(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Put the word `none` into brackets: as a kind of insurance it is a value, and not a missing one.

    Examples
    --------
    >>> import pandas as pd
    >>> KeepNone().fit_transform(pd.DataFrame({"insurance": ["none", "full", None]}))["insurance"].tolist()[:2]
    ['(none)', 'full']
    """

    keeps_columns = True  # in number, order, name and unit

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn nothing but the columns' names."""
        self.feature_names_in_ = list(X.columns)
        return self

    def transform(self, X: Any) -> Any:
        """Return the table with the word in brackets, in columns of text."""
        if "polars" in sys.modules and isinstance(X, sys.modules["polars"].DataFrame):
            return X.with_columns(sys.modules["polars"].selectors.string().replace(_WORDS))
        text = [name for name, kind in X.dtypes.items() if str(kind).startswith(("object", "str"))]
        return X.assign(**{name: X[name].replace(_WORDS) for name in text}) if text else X

    def set_output(self, *, transform: Any = None) -> Self:
        """Do nothing: frames come out as they went in."""
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names that came in."""
        return self.feature_names_in_ if input_features is None else input_features


def table_preparation(*, drop: str = "if_binary") -> Pipeline:
    """Return the preparation that the tool uses: skrub's vectoriser, gaps filled, every column standardised.

    Numbers: missing values become the median, with a column beside that says so. Text with up to 40 values: a column
    for each, missing a value of its own. Other text: ten columns by the parts of words in it. Dates: year, month and
    day. Constant and empty columns are left out. Labels are not looked at: held-out rows tell nothing of theirs. The
    word `none` is a value; what else means "missing" (``NA``, ``null``, ``?``) is skrub's list. Numbers are read in
    single precision.

    Parameters
    ----------
    drop : {"if_binary", "first"}, default="if_binary"
        Which level of a category gets no column: that of two, or one of any number, which is what tests need.

    Returns
    -------
    Pipeline
        Unfitted; gives data frames with names.
    """
    skrub = need("skrub", "Preparing a table", "tool")
    columns = skrub.TableVectorizer(
        cardinality_threshold=MOST_LEVELS,
        numeric=SimpleImputer(strategy="median", add_indicator=True),
        low_cardinality=OneHotEncoder(handle_unknown="ignore", sparse_output=False, drop=drop),
        high_cardinality=skrub.StringEncoder(n_components=TEXT_COLUMNS, vectorizer="hashing", random_state=0),
        datetime=skrub.DatetimeEncoder(resolution="day", add_total_seconds=False),
        drop_if_constant=True,
    )
    fill = SimpleImputer(strategy="median", keep_empty_features=True)  # of dates, which the vectoriser leaves empty
    steps = [("words", KeepNone()), ("columns", columns), ("fill", fill), ("scale", StandardScaler())]
    return Pipeline(steps).set_output(transform="pandas")
