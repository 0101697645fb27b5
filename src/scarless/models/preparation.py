"""A table as people have it, with text, dates and gaps, turned into numbers: by skrub, without looking at labels."""

import sys
from typing import Any, Self

import numpy as np
from scipy.stats import skew
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.outside.extras import need

MOST_LEVELS = 40  # of text that is read as categories; with more it is read as text
TEXT_COLUMNS = 10  # that text is made into
# Hashed parts of words. skrub has 2**20: the SVD took 3 s for 1,470 remarks, and takes 0.1 s with 2**16, for the same
# ten columns (canonical correlations 1.000; at least 0.997 for 5,000 texts with 24,000 different parts).
HASHED_PARTS = 2**16
WORDS_NAMED = 2  # of each sign, for a column that was made of text
WORD_ROWS = 10_000  # at most, that are searched for these words: enough for the correlations of frequent words
WORDS_COMPARED = 2_000  # at most, the most frequent
MIN_ROWS_WITH_WORD = 5  # a word of fewer rows says little, and may be the name of a person
MIN_CORRELATION = 0.1  # of a word with a column, for it to be named
LONGEST_WORD = 20  # letters of it that are shown
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

    Attributes
    ----------
    words_ : list of str
        For each column, the words whose presence in a row is most correlated with its value: two of a positive
        correlation, "rather than" two of a negative one. Only words of at least five rows are named.

    Examples
    --------
    >>> import pandas as pd
    >>> remarks = pd.DataFrame({"remarks": [f"engine {k} failed" for k in range(50)] + [None]})
    >>> encoder = WordParts().fit(remarks)
    >>> encoder.transform(remarks).shape, encoder.words_[0]
    ((51, 10), "'engine', 'failed'")
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
        texts = _texts(X)
        parts = self.vectorizer_.fit_transform(texts).astype(np.float32)
        self.tsvd_ = TruncatedSVD(min(TEXT_COLUMNS, parts.shape[0]), random_state=0).fit(parts)
        made = self.tsvd_.transform(parts)
        self.words_, signs = words_of(texts, made)
        self.tsvd_.components_ *= signs[:, None].astype(np.float32)  # so that the strongest word has high values
        return made * signs.astype(made.dtype)

    def transform(self, X: Any) -> Any:
        """Return the columns that are made of text."""
        return self.tsvd_.transform(self.vectorizer_.transform(_texts(X)).astype(np.float32))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns: that of the text, and a number."""
        (name,) = self.feature_names_in_ if input_features is None else input_features
        return np.array([f"{name}_{k}" for k in range(self.tsvd_.n_components)], dtype=object)


def words_of(texts: list[str], columns: Matrix) -> tuple[list[str], Vector]:
    """Return which words go with each column that was made of texts, no two alike, and the sign of the strongest.

    Said is what goes with the column times that sign, so that the strongest word is one of high values. Where no word
    is frequent enough, as in codes, their parts of three or four letters are named; where no part is either, the column
    has a number alone.

    Examples
    --------
    >>> words_of(["an engine failed", "a bird, in flight"] * 10, np.array([[1.0], [-1.0]] * 10))
    (["'an', 'engine' rather than 'bird', 'flight'"], array([1.]))
    """
    step = -(-len(texts) // WORD_ROWS)
    correlations, names = _word_correlations(texts[::step], np.asarray(columns, dtype=np.float64)[::step])
    signs, found = np.ones(columns.shape[1]), []
    for k, correlation in enumerate(correlations.T):
        order = np.argsort(-np.abs(correlation), kind="stable")
        signs[k] = -1.0 if order.size and correlation[order[0]] < 0 else 1.0
        found.append(_said(correlation * signs[k], order, names) or f"words {k + 1}")
    alike = [found.count(piece) > 1 for piece in found]
    unique = [f"{piece} (words {k + 1})" if alike[k] else piece for k, piece in enumerate(found)]
    return unique, signs


def _word_correlations(texts: list[str], columns: Matrix) -> tuple[Matrix, list[str]]:
    """Return the correlation of each frequent word's presence with each column, and these words."""
    for how in ({"analyzer": "word"}, {"analyzer": "char_wb", "ngram_range": (3, 4)}):
        counter = CountVectorizer(binary=True, min_df=MIN_ROWS_WITH_WORD, max_features=WORDS_COMPARED, **how)
        try:
            present = counter.fit_transform(texts).astype(np.float64)
        except ValueError:  # no word is in that many rows
            continue
        share = np.asarray(present.mean(axis=0)).ravel()
        spread = np.outer(np.sqrt(share * (1.0 - share)), columns.std(axis=0))
        together = present.T @ (columns - columns.mean(axis=0)) / len(texts)
        found = np.divide(together, spread, out=np.zeros_like(together), where=spread > 0)
        return found.round(6), list(counter.get_feature_names_out())  # rounded: words of the same rows stay in order
    return np.zeros((0, columns.shape[1])), []


def _said(correlation: Vector, order: Columns, names: list[str]) -> str:
    """Return the words that go with a column, the strongest first, then those of the other sign; "" where none does."""
    least = max(MIN_CORRELATION, np.abs(correlation).max(initial=0.0) / 2.0)
    strong = [i for i in order if abs(correlation[i]) >= least]
    more, less = (
        ", ".join(_quoted(names[i]) for i in [i for i in strong if (correlation[i] > 0) == sign][:WORDS_NAMED])
        for sign in (True, False)
    )
    return f"{more} rather than {less}" if less else more


def _quoted(word: str) -> str:
    clean = "".join(letter for letter in word if letter.isprintable()).strip()
    return f"'{clean if len(clean) <= LONGEST_WORD else clean[: LONGEST_WORD - 1] + '…'}'"


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
