"""A table as people have it, with text, dates and gaps, turned into numbers: by skrub, without looking at labels."""

import sys
from typing import Any, Self

import numpy as np
from scipy.stats import skew
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scarless.numerics.arrays import Vector
from scarless.outside.extras import need

MOST_LEVELS = 40  # of text that is read as categories; with more it is read as text
TEXT_COLUMNS = 10  # that text is made into
# Hashed parts of words. skrub has 2**20: the SVD took 3 s for 1,470 remarks, and takes 0.1 s with 2**16, for the same
# ten columns (canonical correlations 1.000; at least 0.997 for 5,000 texts with 24,000 different parts).
HASHED_PARTS = 2**16
LONG_TAIL = 2.0  # skewness; that of an exponential distribution
LOG = "log"
_GAPS = ("None", "nan", "<NA>", "NaT")  # what missing values look like as text
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


class WordParts(TransformerMixin, BaseEstimator):
    """Make ten columns of a column of text, by the parts of words in it.

    Parts are three or four letters long, hashed, and weighted by how few rows have them; a truncated SVD leaves ten
    columns. As `skrub.StringEncoder` with ``vectorizer="hashing"``, whose hash table is 16 times as large.

    Examples
    --------
    >>> import pandas as pd
    >>> remarks = pd.DataFrame({"remarks": [f"engine {k} failed" for k in range(50)] + [None]})
    >>> WordParts().fit_transform(remarks).shape
    (51, 10)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn which parts are rare, and which go together."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn from a table with one column of text, and return what is made of it."""
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.vectorizer_ = make_pipeline(
            HashingVectorizer(ngram_range=(3, 4), analyzer="char_wb", n_features=HASHED_PARTS), TfidfTransformer()
        )
        parts = self.vectorizer_.fit_transform(_texts(X)).astype(np.float32)
        self.tsvd_ = TruncatedSVD(min(TEXT_COLUMNS, parts.shape[0]), random_state=0).fit(parts)
        return self.tsvd_.transform(parts)

    def transform(self, X: Any) -> Any:
        """Return the columns that are made of text."""
        return self.tsvd_.transform(self.vectorizer_.transform(_texts(X)).astype(np.float32))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns: that of the text, and a number."""
        (name,) = self.feature_names_in_ if input_features is None else input_features
        return np.array([f"{name}_{k}" for k in range(self.tsvd_.n_components)], dtype=object)


def _texts(X: Any) -> list[str]:
    """Return the cells of a table of one column as text, missing ones as none."""
    cells = np.asarray(X, dtype=object)[:, 0]
    shown = [cell if isinstance(cell, str) else str(cell) for cell in cells]
    return [
        "" if text in _GAPS and not isinstance(cell, str) else text for cell, text in zip(cells, shown, strict=True)
    ]


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
        high_cardinality=WordParts(),
        datetime=skrub.DatetimeEncoder(resolution="day", add_total_seconds=False),
        drop_if_constant=True,
    )
    fill = SimpleImputer(strategy="median", keep_empty_features=True)  # of dates, which the vectoriser leaves empty
    steps = [("words", KeepNone()), ("columns", columns), ("fill", fill), ("scale", StandardScaler())]
    return Pipeline(steps).set_output(transform="pandas")
