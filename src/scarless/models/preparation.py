"""A table as people have it, with text, dates and gaps, turned into numbers: by skrub, without looking at labels."""

import sys
from typing import Any, Self

import numpy as np
from scipy.stats import skew
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scarless.numerics.arrays import Vector
from scarless.outside.extras import need

MOST_LEVELS = 40  # of text that is read as categories; with more it is read as text
TEXT_COLUMNS = 10  # that text is made into
LONG_TAIL = 2.0  # skewness; that of an exponential distribution
LOG = "log"
WORDS = {"none": "(none)", "None": "(None)"}  # which skrub takes for missing values


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
            return X.with_columns(sys.modules["polars"].selectors.string().replace(WORDS))
        text = [name for name, kind in X.dtypes.items() if str(kind).startswith(("object", "str"))]
        return X.assign(**{name: X[name].replace(WORDS) for name in text}) if text else X

    def set_output(self, *, transform: Any = None) -> Self:
        """Do nothing: frames come out as they went in."""
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names that came in."""
        return self.feature_names_in_ if input_features is None else input_features


class LongTail(TransformerMixin, BaseEstimator):
    r"""Put the logarithm of a column with a long tail, as incomes have, beside it: effects may follow either.

    A tail is long where values are not negative, many, and of a skewness above 2. Of a column with zeros it is
    :math:`\log(1 + x/m)`, `m` the median of what is above 0; other columns pass as they are. Gaps must be filled.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """See whether the first column has a long tail."""
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        values = _first_column(X)
        self.least_ = float(values.min(initial=np.inf))
        above = values[values > 0]
        self.unit_ = float(np.median(above)) if above.size else 1.0
        self.long_ = bool(self.least_ >= 0 and np.unique(values).size > MOST_LEVELS and skew(values) > LONG_TAIL)
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns, with the logarithm of the first behind it where its tail is long."""
        columns = np.asarray(X, dtype=np.float64)
        if not self.long_:
            return columns
        values = np.maximum(columns[:, 0], self.least_)
        logarithm = np.log(values) if self.least_ > 0 else np.log1p(values / self.unit_)
        return np.column_stack([columns[:, :1], logarithm, columns[:, 1:]])

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns."""
        names = list(self.feature_names_in_ if input_features is None else input_features)
        return np.array([names[0], f"{names[0]}_{LOG}", *names[1:]] if self.long_ else names, dtype=object)


def _first_column(X: Any) -> Vector:
    return np.asarray(X, dtype=np.float64)[:, 0]


def table_preparation(*, drop: str = "if_binary") -> Pipeline:
    """Return the preparation that the tool uses: skrub's vectoriser, gaps filled, every column standardised.

    Numbers: missing values become the median, with a column beside that says so; where they have a long tail, the
    logarithm is put beside them. Text with up to 40 values: a column
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
        numeric=make_pipeline(SimpleImputer(strategy="median", add_indicator=True), LongTail()),
        low_cardinality=OneHotEncoder(handle_unknown="ignore", sparse_output=False, drop=drop),
        high_cardinality=skrub.StringEncoder(n_components=TEXT_COLUMNS, vectorizer="hashing", random_state=0),
        datetime=skrub.DatetimeEncoder(resolution="day", add_total_seconds=False),
        drop_if_constant=True,
    )
    fill = SimpleImputer(strategy="median", keep_empty_features=True)  # of dates, which the vectoriser leaves empty
    steps = [("words", KeepNone()), ("columns", columns), ("fill", fill), ("scale", StandardScaler())]
    return Pipeline(steps).set_output(transform="pandas")
