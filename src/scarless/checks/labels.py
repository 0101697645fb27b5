"""Observed labels of any coding -> 0 for unlabelled, 1 for labelled positive; words for yes and no."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from scarless.checks.options import shown
from scarless.checks.tables import plain_array, refuse_odd_vector
from scarless.numerics.arrays import Vector
from scarless.outside.notices import warn_user

_LARGEST_LABEL = 2.0**63
_VALUES_THAT_SAY_THE_KIND = 20  # of labels; of more, scikit-learn wonders whether they are labels at all
_WHOLE_NUMBER = re.compile(r"([+-]?\d+)\.0+", re.ASCII)
YES = frozenset(
    {"1", "yes", "y", "true", "t", "positive", "pos", "case", "labelled", "labeled", "present", "x",
     "ja", "oui", "si", "sí", "sì", "sim", "da", "да", "tak", "ano", "áno", "igen", "kyllä", "evet", "ναι", "是",
     "はい", "wahr", "vrai", "verdadero", "vero", "positiv", "positif", "positivo"}
)  # fmt: skip
NO = frozenset(
    {"0", "-1", "no", "n", "false", "f", "negative", "neg", "control", "unlabelled", "unlabeled", "absent",
     "nein", "nee", "nej", "nei", "non", "não", "nao", "ne", "нет", "nie", "nem", "ei", "hayır", "όχι", "否", "いいえ",
     "falsch", "faux", "falso", "negativ", "négatif", "negatif", "negativo"}
)  # fmt: skip


@dataclass(frozen=True)
class LabelCoding:
    """The two values of a label column, sorted, and which of them marks a labelled positive."""

    classes: NDArray[Any]
    positive: int  # index into classes

    def encode(self, y: Any, name: str = "y") -> Vector:
        """Return 1.0 for labelled, 0.0 for unlabelled rows, as a vector; `name` is what errors call it."""
        y = np.asarray(check_observed(y, name)).reshape(-1)
        self.refuse_unknown(y)
        return (y == self.classes[self.positive]).astype(np.float64)

    def refuse_unknown(self, y: NDArray[Any], place: str = "") -> None:
        """Raise where labels are neither of the two values; `place` is a sentence on where."""
        unknown = y[(y != self.classes[0]) & (y != self.classes[1])]
        if unknown.size:
            raise ValueError(
                f"labels hold {unknown.tolist()[0]!r}; the model was fitted on {self.classes.tolist()}.{place}"
            )

    def decode(self, positive: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the value of the positive class where `positive`, else the other one."""
        return np.where(positive, self.classes[self.positive], self.classes[1 - self.positive])

    def columns(self, p: Vector) -> Vector:
        """Return the probabilities of both classes, in the order of `classes`."""
        pair = (1.0 - p, p) if self.positive == 1 else (p, 1.0 - p)
        return np.column_stack(pair)


def check_observed(y: Any, name: str = "y") -> Any:
    """Return a label column without missing values, of a proper type; a blank label is not taken to mean anything.

    Examples
    --------
    >>> check_observed(np.array([0, 1, True], dtype=object))
    array([0, 1, 1])
    """
    refuse_odd_vector(y, name)
    values: Any = plain_array(y, name)
    _refuse_columns(values, name)
    missing = is_missing(values)
    if missing.any():
        refuse_missing(name, int(missing.sum()), missing.size, int(np.flatnonzero(missing)[0]))
    if values.dtype.kind == "O" and values.ndim == 1:
        return np.array(values.tolist())
    return y


def _refuse_columns(values: NDArray[Any], name: str) -> None:
    """Refuse several labels of each row, where one is needed."""
    if values.ndim == 2 and values.shape[1] > 1:
        raise ValueError(
            f"{name} should be a 1d array, got an array of shape {values.shape} instead. Labels of several looks are "
            "for SAREMClassifier, SAREMClassifierCV and SARStackingClassifier; here give one label of each row, such "
            "as whether any look found one."
        )


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are missing: None, NaN, NaT or pandas' NA."""
    if values.dtype.kind == "f":
        return np.isnan(values).ravel()
    if values.dtype.kind in "mM":
        return np.isnat(values).ravel()
    if values.dtype.kind == "O":
        return np.array([is_missing_value(value) for value in values.ravel()], dtype=bool)
    return np.zeros(values.size, dtype=bool)


def refuse_missing(name: str, n_missing: int, n_rows: int, first: int | None, place: str = "") -> NoReturn:
    """Raise for missing labels, and say where the first is."""
    raise ValueError(
        f"{name} contains NaN: {n_missing} of {n_rows} labels are missing (first: row {first}{place}). If a blank "
        f"means unlabelled, say so: {name}.fillna(0), or {name}.notna() if only labelled rows have an entry."
    )


def need_labels(y: Any, name: str) -> None:
    """Raise where a fit gets no labels."""
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None. "
            "It holds the observed labels: 1 for labelled positives, 0 for unlabelled rows."
        )


def _refuse_huge(y: Any) -> None:
    """Refuse codes beyond all whole numbers, which scikit-learn cannot take for classes."""
    values = np.asarray(y)
    if values.dtype.kind != "f":
        return
    huge = values[np.abs(values.astype(np.float64)) >= _LARGEST_LABEL]
    if huge.size:
        raise ValueError(
            f"y holds {huge[0]:g}, too large a number for a label. Code labelled positives as 1, unlabelled rows as 0."
        )


def is_missing_value(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA, which is not even unequal to itself: that, too, is NA."""
    if value is None:
        return True
    unequal = value != value  # noqa: PLR0124
    return bool(unequal) if isinstance(unequal, bool | np.bool_) else unequal is value


def check_labels(y: Any, *, pos_label: Any = None, place: str = "") -> LabelCoding:
    """Find the two values of a label column and the positive one among them.

    0/1, -1/+1 and booleans explain themselves. Of any other two values `pos_label` names the positive one;
    without it the last in sorted order is taken, with a warning that says so. `place` is a sentence on where a third
    value is, if anybody knows.

    Examples
    --------
    >>> check_labels([0, 1, 1]).positive
    1
    >>> check_labels(["positive", "unlabeled"], pos_label="positive").positive
    0
    """
    _refuse_huge(y)
    classes = distinct_labels(np.asarray(y))
    check_classification_targets(classes[:_VALUES_THAT_SAY_THE_KIND])
    if classes.size > 2:
        kind = type_of_target(classes[:_VALUES_THAT_SAY_THE_KIND], input_name="y")
        shown = ", ".join(repr(value) for value in classes[:5].tolist())
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}. Labels must have two "
            f"values, labelled positive and unlabelled; these have {classes.size}: {shown}"
            f"{', ...' if classes.size > 5 else ''}.{place}"
        )
    positive = _positive_value(classes, pos_label)
    if classes.size < 2:
        missing = "unlabelled row" if same_value(classes[0], positive) else "labelled row"
        raise ValueError(
            f"y has one class only, {classes.tolist()[0]!r}: there is no {missing}. Learning from positive and "
            "unlabelled rows needs both: 1 for labelled positives, 0 for unlabelled rows."
        )
    return LabelCoding(classes, int(np.flatnonzero(classes == positive)[0]))


def distinct_labels(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values that there are, in their order; where they have none, say so."""
    if values.dtype.kind in "biuf" and values.size:  # two values, as a rule: nothing to be sorted
        ends = np.array([values.min(), values.max()])
        if ((values == ends[0]) | (values == ends[1])).all():
            return ends[: 1 + int(ends[0] != ends[1])]
    try:
        return np.unique(values)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values.ravel()[:1000].tolist()})
        raise ValueError(
            f"Labels must be numbers, texts or truth values, all of one kind; these are of the kinds "
            f"{', '.join(kinds)}. Code labelled positives as 1, unlabelled rows as 0."
        ) from None


def same_value(value: Any, other: Any) -> bool:
    """Whether two values are equal; comparing with an array, a table or NA gives no answer."""
    equal = value == other
    return isinstance(equal, bool | np.bool_) and bool(equal)


def _positive_value(classes: NDArray[Any], pos_label: Any) -> Any:
    if pos_label is not None:
        if classes.size == 2 and not any(same_value(value, pos_label) for value in classes.tolist()):
            raise ValueError(f"pos_label={shown(pos_label)} is not among the labels {classes.tolist()}.")
        return pos_label
    if classes.dtype.kind in "biuf" and np.isin(classes, [-1, 0, 1]).all() and not np.isin([-1, 0], classes).all():
        return classes.dtype.type(1)
    if classes.size == 2:
        warn_user(
            f"Labels are {classes.tolist()} and pos_label is not given: taking {classes.tolist()[-1]!r}, the last in "
            "sorted order, as the labelled positives. Pass pos_label= to choose.",
            UserWarning,
        )
    return classes[-1]


# --- words that say whether a row has a label


def folded(text: str) -> str:
    """Return a text as it is compared with others: no capital letters, one space between words, 1 for 1.0.

    Examples
    --------
    >>> folded("YES"), folded("1.0"), folded("Not  done")
    ('yes', '1', 'not done')
    """
    words = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    whole = _WHOLE_NUMBER.fullmatch(words)
    return whole[1] if whole else words


def says(value: Any) -> bool | None:
    """Return True for a value that means yes, False for no, None for any other: the one reader of such values.

    Texts are compared with words in several languages, whatever their capital letters. Numbers and truth values mean
    yes as 1 and no as 0; -1 means no as text, as in files, and nothing as a number, which may stand for a gap.

    Examples
    --------
    >>> says("Yes"), says("nein"), says("1.0"), says(0), says("-1"), says(-1), says("maybe")
    (True, False, True, False, False, None, None)
    """
    if isinstance(value, str):
        word = folded(value)
        return True if word in YES else False if word in NO else None
    return True if same_value(value, 1) else False if same_value(value, 0) else None


def yes_or_no(values: Sequence[Any]) -> list[bool] | None:
    """Return which values of a column say yes, or None where not every value means yes or no, or texts and others mix.

    Where all values say the same, single letters are no answer: a column of nothing but `f` need not be one of labels.

    Examples
    --------
    >>> yes_or_no(["Yes", "no", "YES"]), yes_or_no([1, 0]), yes_or_no(["m", "f"]), yes_or_no(["f"])
    ([True, False, True], [True, False], None, None)
    """
    if len({isinstance(value, str) for value in values}) > 1:
        return None
    said = [says(value) for value in values]
    found = [each for each in said if each is not None]
    letters = any(isinstance(value, str) and len(folded(value)) == 1 and folded(value).isalpha() for value in values)
    return None if len(found) < len(said) or (len(set(found)) == 1 and letters) else found
