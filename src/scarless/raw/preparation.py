"""Preparation of raw tables: text, dates and missing values become numbers, with skrub and without using labels."""

import sys
import warnings
from typing import Any, Self

import numpy as np
from scipy.stats import skew
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.raw.dates import dates_again, dates_of_fit, message_about_format, refuse_unread
from scarless.raw.tables import codes_again, replaced
from scarless.scale.preparing import FilePreparation
from scarless.scale.raw_columns import (
    CATEGORIES,
    DATE,
    LOG,
    LONG_TAIL_SKEW,
    MAX_CATEGORIES,
    MISSING,
    MISSING_AS_TEXT,
    NUMBER,
    TEXT,
    WORDS,
    Output,
    RawColumn,
    Tail,
    new_categories,
)

N_TEXT_COLUMNS = 10  # columns derived from a column of free text
# Size of the hash table for parts of words (character n-grams). With skrub's size of 2**20, the SVD of 1,470 remarks
# took 3 s instead of 0.1 s, and gave the same ten columns (canonical correlations of 1.000). For 5,000 texts with
# 24,000 different parts, the canonical correlations were at least 0.997.
N_HASHED_PARTS = 2**16
MAX_WORDS_NAMED = 2  # words of each sign that describe a column derived from text
MAX_ROWS_SEARCHED = 10_000  # rows searched for these words; enough for the correlations of frequent words
MAX_WORDS_COMPARED = 2_000  # the most frequent words
MIN_ROWS_WITH_WORD = 5  # a rarer word means little, and may be the name of a person
MIN_CORRELATION = 0.1  # between a word and a column, for the word to describe the column
MAX_WORD_LENGTH = 20  # characters of a word that are shown
BRACKETED = {"none": "(none)", "None": "(None)"}  # words that skrub would treat as missing values
# skrub's name of a kind of column -> our name.
_KINDS = {"numeric": NUMBER, "datetime": DATE, "low_cardinality": CATEGORIES, "high_cardinality": TEXT}


class KeepNone(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Transformer that writes `none` as `(none)`, so that skrub treats it as a category and not as a missing value.

    Examples
    --------
    >>> import pandas as pd
    >>> KeepNone().fit_transform(pd.DataFrame({"insurance": ["none", "full", None]}))["insurance"].tolist()[:2]
    ['(none)', 'full']
    """

    keeps_columns = True  # number, order, names and units do not change

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the names of the columns."""
        self.feature_names_in_ = list(X.columns)
        return self

    def transform(self, X: Any) -> Any:
        """Return the table with `(none)` instead of `none` in its columns of text."""
        if "polars" in sys.modules and isinstance(X, sys.modules["polars"].DataFrame):
            return X.with_columns(sys.modules["polars"].selectors.string().replace(BRACKETED))
        text = [name for name, kind in X.dtypes.items() if str(kind).startswith(("object", "str"))]
        if text:
            X = X.copy(deep=False)
            for name in text:  # `assign` does not accept names that are numbers
                X[name] = X[name].replace(BRACKETED)
        return X

    def set_output(self, *, transform: Any = None) -> Self:
        """Do nothing: the output has the type of the input."""
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns, which do not change."""
        return self.feature_names_in_ if input_features is None else input_features


class LongTail(TransformerMixin, BaseEstimator):
    r"""Transformer that adds the logarithm of a column with a long tail, such as income.

    The column itself is kept, because an effect may be linear in the value or in its logarithm. A column has a long
    tail if it has no negative values, more than 40 different values, and a skewness above 2. If there are zeros, the
    logarithm is :math:`\log(1 + x/m)`, where `m` is the median of the positive values. Missing values must be filled
    first.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Determine whether the first column has a long tail."""
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.least_, self.unit_, self.long_ = _tail_of(_first_column(X))
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns; if the first has a long tail, its logarithm follows it."""
        columns = np.asarray(X, dtype=np.float64)
        if not self.long_:
            return columns
        logarithm = self.tail_.logarithm(columns[:, 0])
        return np.column_stack([columns[:, :1], logarithm, columns[:, 1:]])

    @property
    def tail_(self) -> Tail:
        """Parameters of the logarithm."""
        return Tail(self.least_, self.unit_)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns."""
        names = list(self.feature_names_in_ if input_features is None else input_features)
        return np.array([names[0], f"{names[0]}_{LOG}", *names[1:]] if self.long_ else names, dtype=object)


class NumberColumns(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Transformer of all columns of numbers at once: imputation, missing indicators, logarithms of long tails.

    The result is the same as with a pipeline of `SimpleImputer` and `LongTail` in skrub's vectoriser. The vectoriser is
    slower: it runs ten steps for each column, which take half of the time of a fit with 1,000 columns.

    Examples
    --------
    >>> import pandas as pd
    >>> step = NumberColumns().fit(pd.DataFrame({"age": [20.0, 30.0, None], "visits": [1, 2, 3]}))
    >>> list(step.get_feature_names_out())
    ['age', 'missingindicator_age', 'visits']
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the medians, and which columns have missing values or long tails."""
        self.names_ = [str(name) for name in X.columns]
        values = _single_precision(X)
        self.imputer_ = SimpleImputer(strategy="median", add_indicator=True).fit(values)
        filled = np.asarray(self.imputer_.transform(values)[:, : len(self.names_)], dtype=np.float64)
        self.least_, self.unit_ = filled.min(axis=0), np.ones(filled.shape[1])
        self.long_ = np.zeros(filled.shape[1], dtype=bool)
        from_mean = filled - filled.mean(axis=0)
        skewed = (from_mean**3).mean(axis=0) > (LONG_TAIL_SKEW - 1e-6) * (from_mean**2).mean(axis=0) ** 1.5
        # Sums over all columns at once may be rounded differently from sums over one column. They therefore only
        # preselect columns; `_tail_of` decides.
        for j in np.flatnonzero((self.least_ >= 0) & skewed):
            self.least_[j], self.unit_[j], self.long_[j] = _tail_of(np.ascontiguousarray(filled[:, j]))
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns, each followed by its logarithm and its missing indicator, if it has them."""
        n = len(self.names_)
        made = np.asarray(self.imputer_.transform(_single_precision(X)), dtype=np.float64)
        filled, gaps = made[:, :n], made[:, n:]
        tails = Tail.logarithms(filled[:, self.long_], self.least_[self.long_], self.unit_[self.long_])
        together = np.hstack([filled, tails, gaps])[:, self._places()].astype(np.float32)
        pandas = sys.modules["pandas"]
        return pandas.DataFrame(together, index=X.index, columns=self.get_feature_names_out())

    def _places(self) -> list[int]:
        """Return the order of the columns: value, logarithm and missing indicator of one raw column together."""
        n, long, gaps = len(self.names_), np.flatnonzero(self.long_), self.imputer_.indicator_.features_
        owners = [(j, 0) for j in range(n)] + [(int(j), 1) for j in long] + [(int(j), 2) for j in gaps]
        return sorted(range(len(owners)), key=owners.__getitem__)

    def of_column(self, name: str) -> tuple[SimpleImputer, LongTail]:
        """Return an imputer and a `LongTail` step that have the same effect on one column."""
        j = self.names_.index(name)
        imputer, tail = clone(self.imputer_), LongTail()
        imputer.statistics_ = self.imputer_.statistics_[j : j + 1]
        imputer.indicator_ = MissingIndicator()
        imputer.indicator_.features_ = np.flatnonzero(self.imputer_.indicator_.features_ == j)[:1] * 0
        tail.least_, tail.unit_, tail.long_ = float(self.least_[j]), float(self.unit_[j]), bool(self.long_[j])
        return imputer, tail

    @property
    def columns_(self) -> list[RawColumn]:
        """Description of each column: its kind and its outputs."""
        gaps, found = set(self.imputer_.indicator_.features_.tolist()), []
        for j, name in enumerate(self.names_):
            tail = Tail(float(self.least_[j]), float(self.unit_[j])) if self.long_[j] else None
            outputs = [Output(name, "", 0)]
            outputs += [] if tail is None else [Output(f"{name}_{LOG}", LOG, 1)]
            outputs += [Output(f"missingindicator_{name}", MISSING, len(outputs))] if j in gaps else []
            found.append(RawColumn(name, NUMBER, (), tuple(outputs), tail))
        return found

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns."""
        return np.array([output.name for column in self.columns_ for output in column.outputs], dtype=object)


class TableColumns(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Transformer of all columns of a raw table: columns of numbers together, other columns one by one with skrub.

    Columns of numbers are numeric columns of a pandas data frame whose values are finite and not all equal. The
    vectoriser transforms all other columns, and all columns of polars data frames. Columns keep their order.

    Parameters
    ----------
    vectoriser : skrub.TableVectorizer
        Transformer of the columns that are not numbers.

    Attributes
    ----------
    numbers_ : NumberColumns or None
        Fitted transformer of the columns of numbers; None if there are none.
    vectoriser_ : skrub.TableVectorizer or None
        Fitted transformer of the other columns; None if there are none.
    input_to_outputs_ : dict
        Names of the columns that are derived from each raw column.
    column_to_kind_ : dict
        Kind of each raw column.
    date_orders_ : dict
        For each column of texts that was read as dates: the first part of the dates.
    """

    def __init__(self, vectoriser: Any = None) -> None:
        self.vectoriser = vectoriser

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the kind of each column and its transformation."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn the kind of each column and its transformation, and return the transformed table."""
        named = hasattr(X, "columns") and len(set(X.columns)) == len(X.columns)
        dates = dates_of_fit(X) if named else {}
        self.date_orders_ = {name: each.first for name, each in dates.items()}
        for name, each in dates.items():
            for message in each.messages_about_dates(str(name)):
                warn_user(message, UserWarning)
        X = replaced(X, {name: each.dates for name, each in dates.items()})
        numbers = _columns_of_numbers(X)
        parts = self._fit_parts(X, numbers)
        # If two columns would get the same name, the vectoriser alone transforms all columns, and finds other names.
        if len(set(self.all_outputs_)) < len(self.all_outputs_):
            parts = self._fit_parts(X, [])
        for name, form in self._date_formats().items():
            if form is not None:
                warn_user(message_about_format(str(name), form), UserWarning)
        return self._in_order(parts)

    def transform(self, X: Any) -> Any:
        """Return the transformed table; it must have the columns of the fit."""
        if self.numbers_ is None:
            return self._vectorise(X)
        names = [str(name) for name in getattr(X, "columns", ())]
        if names != self.feature_names_in_:
            new, absent = set(names) - set(self.feature_names_in_), set(self.feature_names_in_) - set(names)
            found = f" Columns only in X: {_first_names(new)}." if new else ""
            found += f" Columns only in the fit: {_first_names(absent)}." if absent else ""
            raise ValueError(
                f"X must have the columns of the fit, in the same order.{found or ' Only the order differs.'}"
            )
        if not hasattr(X, "iloc"):
            X = X.to_pandas()
        parts = [self.numbers_.transform(X.iloc[:, self._places(numbers=True)])]
        if self.vectoriser_ is not None:
            parts.append(self._vectorise(X.iloc[:, self._places(numbers=False)]))
        return self._in_order(parts)

    def _vectorise(self, X: Any) -> Any:
        """Return the output of the vectoriser; raise if a column of dates cannot be read."""
        if not hasattr(X, "columns"):
            return self.vectoriser_.transform(X)
        formats = self._date_formats()
        columns = _vectorised(self.vectoriser_)
        categories = {each.name: each.categories for each in columns if each.kind == CATEGORIES}
        codes = {name: codes_again(X[name], categories[name]) for name in categories}
        orders = getattr(self, "date_orders_", {})  # fits of earlier versions have none
        read = replaced(X, {**dates_again(X, formats, orders), **codes})
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found unknown categories")  # it names neither column nor category
            made = self.vectoriser_.transform(read)
        for text in new_categories(self._as_encoded(read, list(categories)), columns):
            warn_user(text.replace("'(none)'", "'none'").replace("'(None)'", "'None'"), UserWarning)
        refuse_unread(X, made, self.input_to_outputs_, formats, orders)
        return made

    def _as_encoded(self, X: Any, names: list[str]) -> Any:
        """Return the columns of categories as the encoders get them: words for a missing value are missing."""
        changed = {}
        for name in names:
            column = X[name]
            for step in getattr(self.vectoriser_, "all_processing_steps_", {}).get(name, ()):
                if hasattr(step, "categories_"):
                    break
                column = step.transform(column)
            changed[name] = column
        return replaced(X, changed)

    def _date_formats(self) -> dict[str, str | None]:
        """Return the columns of dates and the formats of their texts; None for columns that held dates in the fit."""
        steps: Any = getattr(self.vectoriser_, "all_processing_steps_", {})
        dates = [name for name, kind in self.column_to_kind_.items() if _KINDS.get(kind) == DATE and name in steps]
        return {name: next((each.format_ for each in steps[name] if hasattr(each, "format_")), None) for name in dates}

    @property
    def columns_(self) -> list[RawColumn]:
        """Description of each column, in the order of the table."""
        numbers = [] if self.numbers_ is None else self.numbers_.columns_
        others = [] if self.vectoriser_ is None else _vectorised(self.vectoriser_)
        found = {each.name: each for each in [*numbers, *others]}
        return [found[name] for name in self.feature_names_in_ if name in found]

    def _fit_parts(self, X: Any, numbers: list[int]) -> list[Any]:
        """Fit both transformers, and return their outputs."""
        names = [str(name) for name in getattr(X, "columns", range(np.shape(X)[1]))]
        self.feature_names_in_, self.n_features_in_ = names, len(names)
        others = sorted(set(range(len(names))) - set(numbers))
        self.numbers_: Any = None
        self.vectoriser_: Any = None
        parts: list[Any] = []
        outputs: dict[str, list[str]] = {}
        kinds: dict[str, str] = {}
        if numbers:
            self.numbers_ = NumberColumns()
            parts.append(self.numbers_.fit_transform(X.iloc[:, numbers]))
            outputs |= {column.name: [each.name for each in column.outputs] for column in self.numbers_.columns_}
            kinds |= dict.fromkeys(self.numbers_.names_, "numeric")
        if others or not numbers:
            self.vectoriser_ = clone(self.vectoriser)
            parts.append(self.vectoriser_.fit_transform(X.iloc[:, others] if numbers else X))
            inner = _vectorised(self.vectoriser_)
            outputs |= {column.name: [each.name for each in column.outputs] for column in inner}
            kinds |= self.vectoriser_.column_to_kind_
        order = {name: j for j, name in enumerate(names)}
        self.input_to_outputs_ = dict(sorted(outputs.items(), key=lambda each: order.get(each[0], len(order))))
        self.column_to_kind_ = kinds
        if numbers:
            self.all_outputs_ = [out for outs in self.input_to_outputs_.values() for out in outs]
        else:
            self.all_outputs_ = list(self.vectoriser_.get_feature_names_out())
        return parts

    def _places(self, *, numbers: bool) -> list[int]:
        """Return the positions of the raw columns of numbers, or of the other columns."""
        own = set(self.numbers_.names_)
        return [j for j, name in enumerate(self.feature_names_in_) if (name in own) is numbers]

    def _in_order(self, parts: list[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        return sys.modules["pandas"].concat(parts, axis=1)[self.all_outputs_]

    def set_output(self, *, transform: Any = None) -> Self:
        """Set the type of the vectoriser's output."""
        self.vectoriser.set_output(transform=transform)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns."""
        return np.asarray(self.all_outputs_)


def _first_names(names: set[str]) -> str:
    return ", ".join(sorted(names)[:6]) + (", ..." if len(names) > 6 else "")


def _columns_of_numbers(X: Any) -> list[int]:
    """Return the positions of the columns that `NumberColumns` can transform."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.DataFrame) or len({str(name) for name in X.columns}) < X.shape[1]:
        return []
    kinds = enumerate(X.dtypes)
    found = [j for j, kind in kinds if isinstance(kind, np.dtype) and kind.kind in "fiu"]
    if not found or not len(X):
        return []
    raw = X.iloc[:, found].to_numpy()
    values, gaps = _single_precision(X.iloc[:, found]), np.isnan(raw)
    finite = (np.isfinite(values) | gaps).all(axis=0) & ~gaps.all(axis=0)
    differ = (raw != raw[:1]).any(axis=0)  # NaN differs from every value
    return [j for j, good in zip(found, finite & differ, strict=True) if good]


def _single_precision(X: Any) -> Any:
    """Return a table as numbers in single precision; cells that are not numbers become NaN."""
    pandas = sys.modules["pandas"]
    others = [j for j, kind in enumerate(X.dtypes) if not (isinstance(kind, np.dtype) and kind.kind in "fiub")]
    with np.errstate(over="ignore"):  # too large values become infinite, and the imputer raises
        if not others:
            return X.to_numpy(dtype=np.float32)
        cells = [X.iloc[:, j] for j in range(X.shape[1])]
        read = [pandas.to_numeric(each, errors="coerce") if j in others else each for j, each in enumerate(cells)]
        return np.column_stack([each.to_numpy(dtype=np.float32, na_value=np.nan) for each in read])


def _tail_of(values: Vector) -> tuple[float, float, bool]:
    """Return the minimum, the median of the positive values, and whether the tail is long."""
    least, positive = float(values.min(initial=np.inf)), values[values > 0]
    unit = float(np.median(positive)) if positive.size else 1.0
    return least, unit, bool(least >= 0 and np.unique(values).size > MAX_CATEGORIES and skew(values) > LONG_TAIL_SKEW)


class WordParts(TransformerMixin, BaseEstimator):
    """Encoder that turns a column of text into ten columns, using the parts of its words (character n-grams).

    Parts have three or four letters. They are hashed and weighted by their rarity (TF-IDF), and a truncated SVD reduces
    them to ten columns. `skrub.StringEncoder` with ``vectorizer="hashing"`` does the same with a hash table that is 16
    times as large.

    Attributes
    ----------
    words_ : list of str
        Description of each column by words, such as ``"'engine', 'failed' rather than 'bird'"``: up to two words whose
        presence has a high positive correlation with the column, then up to two with a high negative correlation. Words
        that occur in fewer than five rows are not named.

    Examples
    --------
    >>> import pandas as pd
    >>> remarks = pd.DataFrame({"remarks": [f"engine {k} failed" for k in range(50)] + [None]})
    >>> encoder = WordParts().fit(remarks)
    >>> encoder.transform(remarks).shape, encoder.words_[0]
    ((51, 10), "'engine', 'failed'")
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the weights of the parts and the singular vectors."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit to a table with one column of text, and return its ten columns."""
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.vectorizer_ = make_pipeline(
            HashingVectorizer(ngram_range=(3, 4), analyzer="char_wb", n_features=N_HASHED_PARTS), TfidfTransformer()
        )
        texts = _texts(X)
        parts = self.vectorizer_.fit_transform(texts).astype(np.float32)
        self.tsvd_ = TruncatedSVD(min(N_TEXT_COLUMNS, parts.shape[0]), random_state=0).fit(parts)
        made = self.tsvd_.transform(parts)
        self.words_, signs = words_of(texts, made)
        self.tsvd_.components_ *= signs[:, None].astype(np.float32)  # the strongest correlation becomes positive
        return made * signs.astype(made.dtype)

    def transform(self, X: Any) -> Any:
        """Return the ten columns."""
        return self.tsvd_.transform(self.vectorizer_.transform(_texts(X)).astype(np.float32))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns: the name of the text column and a number."""
        (name,) = self.feature_names_in_ if input_features is None else input_features
        return np.array([f"{name}_{k}" for k in range(self.tsvd_.n_components)], dtype=object)


def words_of(texts: list[str], columns: Matrix) -> tuple[list[str], Vector]:
    """Return a description of each column derived from texts, and the sign of its strongest correlation.

    The words describe the column times that sign, so that the strongest correlation is positive. If no word is frequent
    enough, as in a column of codes, parts of three or four letters are named. If no part is frequent enough, the
    description is a number. No two columns have the same description.

    Examples
    --------
    >>> words_of(["an engine failed", "a bird, in flight"] * 10, np.array([[1.0], [-1.0]] * 10))
    (["'an', 'engine' rather than 'bird', 'flight'"], array([1.]))
    """
    step = -(-len(texts) // MAX_ROWS_SEARCHED)
    correlations, names = _word_correlations(texts[::step], np.asarray(columns, dtype=np.float64)[::step])
    signs, found = np.ones(columns.shape[1]), []
    for k, correlation in enumerate(correlations.T):
        order = np.argsort(-np.abs(correlation), kind="stable")
        signs[k] = -1.0 if order.size and correlation[order[0]] < 0 else 1.0
        found.append(_describe(correlation * signs[k], order, names) or f"words {k + 1}")
    repeated = [found.count(piece) > 1 for piece in found]
    unique = [f"{piece} (words {k + 1})" if repeated[k] else piece for k, piece in enumerate(found)]
    return unique, signs


def _word_correlations(texts: list[str], columns: Matrix) -> tuple[Matrix, list[str]]:
    """Return the correlation of the presence of each frequent word with each column, and these words."""
    for how in ({"analyzer": "word"}, {"analyzer": "char_wb", "ngram_range": (3, 4)}):
        counter = CountVectorizer(binary=True, min_df=MIN_ROWS_WITH_WORD, max_features=MAX_WORDS_COMPARED, **how)
        try:
            present = counter.fit_transform(texts).astype(np.float64)
        except ValueError:  # no word is frequent enough
            continue
        share = np.asarray(present.mean(axis=0)).ravel()
        spread = np.outer(np.sqrt(np.maximum(share * (1.0 - share), 0.0)), columns.std(axis=0))
        together = present.T @ (columns - columns.mean(axis=0)) / len(texts)
        found = np.divide(together, spread, out=np.zeros_like(together), where=spread > 0)
        # Rounded, so that words with equal correlations keep their order.
        return found.round(6), list(counter.get_feature_names_out())
    return np.zeros((0, columns.shape[1])), []


def _describe(correlation: Vector, order: Columns, names: list[str]) -> str:
    """Return the most correlated words, "rather than" words with a negative correlation; "" if there are none."""
    least = max(MIN_CORRELATION, np.abs(correlation).max(initial=0.0) / 2.0)
    strong = [i for i in order if abs(correlation[i]) >= least]
    more, less = (
        ", ".join(_quoted(names[i]) for i in [i for i in strong if (correlation[i] > 0) == sign][:MAX_WORDS_NAMED])
        for sign in (True, False)
    )
    return f"{more} rather than {less}" if less else more


def _quoted(word: str) -> str:
    clean = "".join(letter for letter in word if letter.isprintable()).strip()
    return f"'{clean if len(clean) <= MAX_WORD_LENGTH else clean[: MAX_WORD_LENGTH - 1] + '…'}'"


def _texts(X: Any) -> list[str]:
    """Return the cells of a table of one column as text; missing values become ""."""
    cells = np.asarray(X, dtype=object)[:, 0]
    shown = [cell if isinstance(cell, str) else str(cell) for cell in cells]
    return [
        "" if text in MISSING_AS_TEXT and not isinstance(cell, str) else text
        for cell, text in zip(cells, shown, strict=True)
    ]


def _first_column(X: Any) -> Vector:
    return np.asarray(X, dtype=np.float64)[:, 0]


def described(step: Any) -> list[RawColumn] | None:
    """Return how a fitted preparation step describes each raw column; None if the step has no descriptions.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [20.0, 30.0, None], "sex": ["f", "m", "f"]})
    >>> [(column.name, column.kind) for column in described(table_preparation().fit(table)[1])]
    [('age', 'number'), ('sex', 'levels')]
    """
    if isinstance(step, FilePreparation | TableColumns | NumberColumns):
        return step.columns_
    return _vectorised(step) if hasattr(step, "input_to_outputs_") else None


def _vectorised(vectoriser: Any) -> list[RawColumn]:
    """Return a description of each column of skrub's vectoriser, derived from the names of its outputs."""
    made, kinds = set(map(str, vectoriser.get_feature_names_out())), getattr(vectoriser, "column_to_kind_", {})
    found = []
    for raw, outs in vectoriser.input_to_outputs_.items():
        name = str(raw)
        encoder: Any = getattr(vectoriser, "transformers_", {}).get(raw)
        names = [str(out) for out in outs if str(out) in made]
        words = getattr(encoder, "words_", None)
        if words is not None:  # an output is a direction in the space of words and has no unit
            named = zip(names, words, strict=True)
            outputs = [Output(out, piece, k, scale=np.nan) for k, (out, piece) in enumerate(named)]
            found.append(RawColumn(name, WORDS, (), tuple(outputs)))
            continue
        outputs = [Output(out, _piece_of(name, out), k) for k, out in enumerate(names)]
        categories = tuple(map(str, encoder.categories_[0])) if hasattr(encoder, "categories_") else ()
        last = encoder[-1] if isinstance(encoder, Pipeline) else None
        tail = last.tail_ if isinstance(last, LongTail) and last.long_ else None
        kind = kinds.get(raw, "")
        found.append(RawColumn(name, _KINDS.get(kind, kind), categories, tuple(outputs), tail))
    return found


def _piece_of(raw: str, out: str) -> str:
    """Return the part of a raw column that an output represents: "" for all of it, "missing", or a category."""
    if out == raw:
        return ""
    return MISSING if out == f"missingindicator_{raw}" else out.removeprefix(f"{raw}_")


def table_preparation(*, drop: str = "if_binary") -> Pipeline:
    """Return the default preparation of raw tables: skrub's vectoriser, imputation and standardisation.

    - Numbers: missing values become the median, and a missing indicator is added. If the column has a long tail, its
      logarithm is added (see `LongTail`). Numbers are read in single precision.
    - Text with up to 40 different values: one column for each category; missing is a category.
    - Other text: ten columns, from the parts of its words (see `WordParts`).
    - Dates: year, month and day.

    Constant and empty columns are left out. Labels are not used, so the labels of held-out rows do not leak. Words that
    skrub treats as missing values, such as ``NA``, ``null`` and ``?``, become missing. The word `none` is a category.

    Parameters
    ----------
    drop : {"if_binary", "first"}, default="if_binary"
        Which category of a column gets no column of its own. ``"if_binary"``: the first, if there are two categories.
        ``"first"``: always the first, as hypothesis tests need.

    Returns
    -------
    Pipeline
        Unfitted pipeline. Its output is a data frame.
    """
    skrub = need("skrub", "Preparing a table", "tool")
    columns = skrub.TableVectorizer(
        cardinality_threshold=MAX_CATEGORIES,
        numeric=make_pipeline(SimpleImputer(strategy="median", add_indicator=True), LongTail()),
        low_cardinality=OneHotEncoder(handle_unknown="ignore", sparse_output=False, drop=drop),
        high_cardinality=WordParts(),
        datetime=skrub.DatetimeEncoder(resolution="day", add_total_seconds=False),
        drop_if_constant=True,
    )
    fill = SimpleImputer(strategy="median", keep_empty_features=True)  # for dates, which the vectoriser does not fill
    steps = [("words", KeepNone()), ("columns", TableColumns(columns)), ("fill", fill), ("scale", StandardScaler())]
    return Pipeline(steps).set_output(transform="pandas")
