"""A table as people have it, with text, dates and gaps, turned into numbers: by skrub, without looking at labels."""

import sys
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
from scarless.scale.preparing import FilePreparation
from scarless.scale.raw_columns import (
    DATE,
    LEVELS,
    LOG,
    LONG_TAIL,
    MISSING,
    MOST_LEVELS,
    NUMBER,
    TEXT,
    WORDS,
    Column,
    Output,
    Tail,
)

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
_GAPS = ("None", "nan", "<NA>", "NaT")  # what missing values look like as text
BRACKETED = {"none": "(none)", "None": "(None)"}  # words that skrub takes for missing values
_KINDS = {"numeric": NUMBER, "datetime": DATE, "low_cardinality": LEVELS, "high_cardinality": TEXT}  # skrub's words


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
            return X.with_columns(sys.modules["polars"].selectors.string().replace(BRACKETED))
        text = [name for name, kind in X.dtypes.items() if str(kind).startswith(("object", "str"))]
        if text:
            X = X.copy(deep=False)
            for name in text:  # not `assign`, which takes no names that are numbers
                X[name] = X[name].replace(BRACKETED)
        return X

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
        self.least_, self.unit_, self.long_ = _tail_of(_first_column(X))
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns, with the logarithm of the first behind it where its tail is long."""
        columns = np.asarray(X, dtype=np.float64)
        if not self.long_:
            return columns
        logarithm = self.tail_.logarithm(columns[:, 0])
        return np.column_stack([columns[:, :1], logarithm, columns[:, 1:]])

    @property
    def tail_(self) -> Tail:
        """How the logarithm is taken."""
        return Tail(self.least_, self.unit_)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns."""
        names = list(self.feature_names_in_ if input_features is None else input_features)
        return np.array([names[0], f"{names[0]}_{LOG}", *names[1:]] if self.long_ else names, dtype=object)


class NumberColumns(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Prepare all columns of numbers at once: gaps filled, whether there was one, and logarithms of long tails.

    The same, for each column, as a pipeline of `SimpleImputer` and `LongTail` in skrub's vectoriser, whose ten steps a
    column take half of the time of a fit to 1,000 columns.

    Examples
    --------
    >>> import pandas as pd
    >>> step = NumberColumns().fit(pd.DataFrame({"age": [20.0, 30.0, None], "visits": [1, 2, 3]}))
    >>> list(step.get_feature_names_out())
    ['age', 'missingindicator_age', 'visits']
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn medians, and which columns have gaps and long tails."""
        self.names_ = [str(name) for name in X.columns]
        values = _single_precision(X)
        self.imputer_ = SimpleImputer(strategy="median", add_indicator=True).fit(values)
        filled = np.asarray(self.imputer_.transform(values)[:, : len(self.names_)], dtype=np.float64)
        self.least_, self.unit_ = filled.min(axis=0), np.ones(filled.shape[1])
        self.long_ = np.zeros(filled.shape[1], dtype=bool)
        from_mean = filled - filled.mean(axis=0)
        skewed = (from_mean**3).mean(axis=0) > (LONG_TAIL - 1e-6) * (from_mean**2).mean(axis=0) ** 1.5
        # Computed for all columns at once, a sum may be rounded another way: `_tail_of` decides.
        for j in np.flatnonzero((self.least_ >= 0) & skewed):
            self.least_[j], self.unit_[j], self.long_[j] = _tail_of(np.ascontiguousarray(filled[:, j]))
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns, each with its logarithm and whether it was missing behind it where it has these."""
        n = len(self.names_)
        made = np.asarray(self.imputer_.transform(_single_precision(X)), dtype=np.float64)
        filled, gaps = made[:, :n], made[:, n:]
        tails = Tail.logarithms(filled[:, self.long_], self.least_[self.long_], self.unit_[self.long_])
        together = np.hstack([filled, tails, gaps])[:, self._places()].astype(np.float32)
        pandas = sys.modules["pandas"]
        return pandas.DataFrame(together, index=X.index, columns=self.get_feature_names_out())

    def _places(self) -> list[int]:
        """Return the order of the columns: values, logarithms and gaps of one raw column beside each other."""
        n, long, gaps = len(self.names_), np.flatnonzero(self.long_), self.imputer_.indicator_.features_
        owners = [(j, 0) for j in range(n)] + [(int(j), 1) for j in long] + [(int(j), 2) for j in gaps]
        return sorted(range(len(owners)), key=owners.__getitem__)

    def of_column(self, name: str) -> tuple[SimpleImputer, LongTail]:
        """Return the imputer and the step behind it that would do the same to a column by itself."""
        j = self.names_.index(name)
        imputer, tail = clone(self.imputer_), LongTail()
        imputer.statistics_ = self.imputer_.statistics_[j : j + 1]
        imputer.indicator_ = MissingIndicator()
        imputer.indicator_.features_ = np.flatnonzero(self.imputer_.indicator_.features_ == j)[:1] * 0
        tail.least_, tail.unit_, tail.long_ = float(self.least_[j]), float(self.unit_[j]), bool(self.long_[j])
        return imputer, tail

    @property
    def columns_(self) -> list[Column]:
        """What was learned of each column."""
        gaps, found = set(self.imputer_.indicator_.features_.tolist()), []
        for j, name in enumerate(self.names_):
            tail = Tail(float(self.least_[j]), float(self.unit_[j])) if self.long_[j] else None
            outputs = [Output(name, "", 0)]
            outputs += [] if tail is None else [Output(f"{name}_{LOG}", LOG, 1)]
            outputs += [Output(f"missingindicator_{name}", MISSING, len(outputs))] if j in gaps else []
            found.append(Column(name, NUMBER, (), tuple(outputs), tail))
        return found

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns."""
        return np.array([output.name for column in self.columns_ for output in column.outputs], dtype=object)


class TableColumns(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Make numbers of all columns of a raw table: those of numbers together, the others one by one by skrub.

    Columns of numbers are those that pandas holds as such, whose cells are finite and differ. Everything else, also
    tables of polars, is for the vectoriser. Columns keep their order.

    Parameters
    ----------
    vectoriser : skrub.TableVectorizer

    Attributes
    ----------
    numbers_ : NumberColumns or None
    vectoriser_ : skrub.TableVectorizer or None
        Fitted to the other columns; None where there is none.
    input_to_outputs_ : dict
        Names of the columns that are made of each raw one.
    column_to_kind_ : dict
        What each raw column was read as.
    """

    def __init__(self, vectoriser: Any = None) -> None:
        self.vectoriser = vectoriser

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what each column is, and how to read it."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn what each column is, and return what is made of the table."""
        numbers = _columns_of_numbers(X)
        parts = self._fit_parts(X, numbers)
        if len(set(self.all_outputs_)) < len(self.all_outputs_):  # two names in one: the vectoriser finds another
            parts = self._fit_parts(X, [])
        return self._in_order(parts)

    def transform(self, X: Any) -> Any:
        """Return what is made of a table with the same columns."""
        if self.numbers_ is None:
            return self.vectoriser_.transform(X)
        names = [str(name) for name in getattr(X, "columns", ())]
        if names != self.feature_names_in_:
            odd = sorted(set(names) ^ set(self.feature_names_in_)) or ["their order"]
            raise ValueError(f"Columns of the table differ from those of the fit: {', '.join(odd[:6])}.")
        if not hasattr(X, "iloc"):
            X = X.to_pandas()
        parts = [self.numbers_.transform(X.iloc[:, self._places(numbers=True)])]
        if self.vectoriser_ is not None:
            parts.append(self.vectoriser_.transform(X.iloc[:, self._places(numbers=False)]))
        return self._in_order(parts)

    @property
    def columns_(self) -> list[Column]:
        """What was learned of each column, in the order of the table."""
        numbers = [] if self.numbers_ is None else self.numbers_.columns_
        others = [] if self.vectoriser_ is None else _vectorised(self.vectoriser_)
        found = {each.name: each for each in [*numbers, *others]}
        return [found[name] for name in self.feature_names_in_ if name in found]

    def _fit_parts(self, X: Any, numbers: list[int]) -> list[Any]:
        """Fit both parts, and return what they make of the table."""
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
        """Return the positions of the raw columns of numbers, or of the others."""
        own = set(self.numbers_.names_)
        return [j for j, name in enumerate(self.feature_names_in_) if (name in own) is numbers]

    def _in_order(self, parts: list[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        return sys.modules["pandas"].concat(parts, axis=1)[self.all_outputs_]

    def set_output(self, *, transform: Any = None) -> Self:
        """Have the vectoriser give frames of that kind."""
        self.vectoriser.set_output(transform=transform)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns."""
        return np.asarray(self.all_outputs_)


def _columns_of_numbers(X: Any) -> list[int]:
    """Return the positions of the columns that need no more than gaps filled and long tails seen."""
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
    differ = (raw != raw[:1]).any(axis=0)  # a gap differs from everything
    return [j for j, good in zip(found, finite & differ, strict=True) if good]


def _single_precision(X: Any) -> Any:
    """Return a table as numbers in single precision; cells that are none, also of columns of another type, as NaN."""
    pandas = sys.modules["pandas"]
    odd = [j for j, kind in enumerate(X.dtypes) if not (isinstance(kind, np.dtype) and kind.kind in "fiub")]
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which the imputer refuses
        if not odd:
            return X.to_numpy(dtype=np.float32)
        cells = [X.iloc[:, j] for j in range(X.shape[1])]
        read = [pandas.to_numeric(each, errors="coerce") if j in odd else each for j, each in enumerate(cells)]
        return np.column_stack([each.to_numpy(dtype=np.float32, na_value=np.nan) for each in read])


def _tail_of(values: Vector) -> tuple[float, float, bool]:
    """Return the least value, the median of what is above 0, and whether the tail is long."""
    least, above = float(values.min(initial=np.inf)), values[values > 0]
    unit = float(np.median(above)) if above.size else 1.0
    return least, unit, bool(least >= 0 and np.unique(values).size > MOST_LEVELS and skew(values) > LONG_TAIL)


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
        spread = np.outer(np.sqrt(np.maximum(share * (1.0 - share), 0.0)), columns.std(axis=0))
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


def described(step: Any) -> list[Column] | None:
    """Return what a fitted preparation has learned of each raw column; None of a step that does not say.

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


def _vectorised(vectoriser: Any) -> list[Column]:
    """Return what skrub's vectoriser has learned of each column; what an output is, is told by its name."""
    made, kinds = set(map(str, vectoriser.get_feature_names_out())), getattr(vectoriser, "column_to_kind_", {})
    found = []
    for raw, outs in vectoriser.input_to_outputs_.items():
        name = str(raw)
        encoder: Any = getattr(vectoriser, "transformers_", {}).get(raw)
        names = [str(out) for out in outs if str(out) in made]
        words = getattr(encoder, "words_", None)
        if words is not None:  # an output is a direction between words, without a unit
            named = zip(names, words, strict=True)
            outputs = [Output(out, piece, k, scale=np.nan) for k, (out, piece) in enumerate(named)]
            found.append(Column(name, WORDS, (), tuple(outputs)))
            continue
        outputs = [Output(out, _piece_of(name, out), k) for k, out in enumerate(names)]
        levels = tuple(map(str, encoder.categories_[0])) if hasattr(encoder, "categories_") else ()
        last = encoder[-1] if isinstance(encoder, Pipeline) else None
        tail = last.tail_ if isinstance(last, LongTail) and last.long_ else None
        kind = kinds.get(raw, "")
        found.append(Column(name, _KINDS.get(kind, kind), levels, tuple(outputs), tail))
    return found


def _piece_of(raw: str, out: str) -> str:
    """Return what an output of a raw column is, by its name: the column itself, whether it is missing, a level."""
    if out == raw:
        return ""
    return MISSING if out == f"missingindicator_{raw}" else out.removeprefix(f"{raw}_")


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
    steps = [("words", KeepNone()), ("columns", TableColumns(columns)), ("fill", fill), ("scale", StandardScaler())]
    return Pipeline(steps).set_output(transform="pandas")
