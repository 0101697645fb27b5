"""Checks of observed labels, their coding as 0 (unlabelled) and 1 (labelled), and words that mean yes or no."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from scarless.checks.options import shown
from scarless.checks.tables import plain_array, refuse_invalid_vector
from scarless.numerics.arrays import Vector
from scarless.outside.notices import warn_user

_MAX_LABEL = 2.0**63
_MAX_VALUES_FOR_TYPE = 20  # values passed to scikit-learn's type_of_target, which warns about many classes
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
# Values, and first words of values, that usually mark rows without a label.
_NO_FINDING = frozenset(
    {"healthy", "normal", "well", "unknown", "unclear", "none", "nothing", "untested", "undiagnosed", "pending",
     "gesund", "unauffällig", "unbekannt", "sain", "inconnu", "sano", "desconocido"}
)  # fmt: skip
_NEGATIONS = frozenset({"no", "not", "never", "kein", "keine", "nicht", "nie", "pas", "aucun", "aucune", "sin"})


@dataclass(frozen=True)
class LabelCoding:
    """The two values of a label column, sorted, and which one marks a labelled row."""

    classes: NDArray[Any]
    positive: int  # index into classes

    def encode(self, y: Any, name: str = "y") -> Vector:
        """Return 1.0 for labelled and 0.0 for unlabelled rows; `name` is the name of `y` in errors."""
        y = np.asarray(check_observed(y, name)).reshape(-1)
        self.refuse_unknown(y)
        return (y == self.classes[self.positive]).astype(np.float64)

    def refuse_unknown(self, y: NDArray[Any], place: str = "") -> None:
        """Raise if a label is neither of the two values; `place` is a sentence that says where it is."""
        unknown = y[(y != self.classes[0]) & (y != self.classes[1])]
        if unknown.size:
            raise ValueError(
                f"The labels contain {unknown.tolist()[0]!r}, but the model was fitted with the labels "
                f"{self.classes.tolist()}. Use these two values only.{place}"
            )

    def decode(self, positive: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the value of the positive class for True, and of the negative class for False."""
        return np.where(positive, self.classes[self.positive], self.classes[1 - self.positive])

    def columns(self, p: Vector) -> Vector:
        """Return the probabilities of both classes, in the order of `classes`."""
        pair = (1.0 - p, p) if self.positive == 1 else (p, 1.0 - p)
        return np.column_stack(pair)


def check_observed(y: Any, name: str = "y") -> Any:
    """Return a label column; raise if labels are missing, because a missing label does not always mean unlabelled.

    Examples
    --------
    >>> check_observed(np.array([0, 1, True], dtype=object))
    array([0, 1, 1])
    """
    refuse_invalid_vector(y, name)
    values: Any = plain_array(y, name)
    _refuse_columns(values, name)
    missing = is_missing(values)
    if missing.any():
        refuse_missing(name, int(missing.sum()), missing.size, int(np.flatnonzero(missing)[0]))
    if values.dtype.kind == "O" and values.ndim == 1:
        return np.array(values.tolist())
    return y


def _refuse_columns(values: NDArray[Any], name: str) -> None:
    """Raise if there are several labels per row."""
    if values.ndim == 2 and values.shape[1] > 1:
        raise ValueError(
            f"{name} should be a 1d array, got an array of shape {values.shape} instead. Only SAREMClassifier, "
            "SAREMClassifierCV and SARStackingClassifier accept labels of several looks. Give one label for each row, "
            "for example 1 for rows that are labelled at any look."
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
    """Raise for missing labels, with the row and the `place` of the first one."""
    raise ValueError(
        f"{name} contains NaN: {n_missing} of {n_rows} labels are missing (first: row {first}{place}). If a missing "
        f"label means unlabelled, replace it by 0 (in pandas: {name}.fillna(0)). If every value marks a labelled row, "
        f"use 1 for rows with a value and 0 for other rows (in pandas: {name}.notna()). Otherwise drop the rows whose "
        "label is missing."
    )


def need_labels(y: Any, name: str) -> None:
    """Raise if a fit has no labels."""
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None. "
            "Pass the observed labels: 1 for labelled rows, 0 for unlabelled rows."
        )


def _refuse_huge(y: Any) -> None:
    """Raise for labels that are too large for an integer, which scikit-learn cannot use as classes."""
    values = np.asarray(y)
    if values.dtype.kind != "f":
        return
    huge = values[np.abs(values.astype(np.float64)) >= _MAX_LABEL]
    if huge.size:
        raise ValueError(
            f"y has the value {huge[0]:g}, which is too large for a label. Code labelled rows as 1 and unlabelled rows "
            "as 0."
        )


def is_missing_value(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA; comparing NA with itself gives NA again."""
    if value is None:
        return True
    unequal = value != value  # noqa: PLR0124
    return bool(unequal) if isinstance(unequal, bool | np.bool_) else unequal is value


def check_labels(y: Any, *, pos_label: Any = None, place: str = "") -> LabelCoding:
    """Return the two values of a label column, and which one is positive.

    The positive value is `pos_label` if it is given. By default it is 1 or True for 0/1, -1/+1 and booleans, and
    otherwise the last value in sorted order, with a warning. If this value is a word that means no label, such as
    `unknown`, an error is raised. `place` is a sentence for errors that says where a third value is.

    Examples
    --------
    >>> check_labels([0, 1, 1]).positive
    1
    >>> check_labels(["positive", "unlabeled"], pos_label="positive").positive
    0
    """
    _refuse_huge(y)
    classes = distinct_labels(np.asarray(y))
    check_classification_targets(classes[:_MAX_VALUES_FOR_TYPE])
    if classes.size > 2:
        kind = type_of_target(classes[:_MAX_VALUES_FOR_TYPE], input_name="y")
        shown = ", ".join(repr(value) for value in classes[:5].tolist())
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}. Labels must have two values, "
            f"one for labelled and one for unlabelled rows, but there are {classes.size}: "
            f"{shown}{', ...' if classes.size > 5 else ''}.{place}"
        )
    positive = _positive_value(classes, pos_label)
    if classes.size < 2:
        missing = "unlabelled row" if same_value(classes[0], positive) else "labelled row"
        if pos_label is None and not (classes.dtype.kind in "biuf" and np.isin(classes, [-1, 0, 1]).all()):
            missing = "second value"  # the only value, such as "no", may mark labelled or unlabelled rows
        raise ValueError(
            f"y has one class only, {classes.tolist()[0]!r}: there is no {missing}. The fit needs labelled rows, coded "
            "1, and unlabelled rows, coded 0."
        )
    return LabelCoding(classes, int(np.flatnonzero(classes == positive)[0]))


def distinct_labels(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values in sorted order; raise if they cannot be sorted."""
    if values.dtype.kind in "biuf" and values.size:  # two values are the usual case, and need no sorting
        ends = np.array([values.min(), values.max()])
        if ((values == ends[0]) | (values == ends[1])).all():
            return ends[: 1 + int(ends[0] != ends[1])]
    try:
        return np.unique(values)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values.ravel()[:1000].tolist()})
        raise ValueError(
            f"Labels must be all numbers, all strings or all booleans, but they have the types {', '.join(kinds)}. "
            "Code labelled rows as 1 and unlabelled rows as 0."
        ) from None


def same_value(value: Any, other: Any) -> bool:
    """Return whether two values are equal; False for arrays, tables and NA, whose comparison is not a boolean."""
    equal = value == other
    return isinstance(equal, bool | np.bool_) and bool(equal)


def _positive_value(classes: NDArray[Any], pos_label: Any) -> Any:
    if pos_label is not None:
        if classes.size == 2 and not any(same_value(value, pos_label) for value in classes.tolist()):
            raise ValueError(
                f"pos_label={shown(pos_label)} is not among the labels {classes.tolist()}. Pass one of these labels."
            )
        return pos_label
    if classes.dtype.kind in "biuf" and np.isin(classes, [-1, 0, 1]).all() and not np.isin([-1, 0], classes).all():
        return classes.dtype.type(1)
    if classes.size == 2:
        other, last = classes.tolist()
        if denies(last):
            raise ValueError(
                f"pos_label is not given, and the labels are {[other, last]}, where {last!r} usually means no label. "
                f"Pass the value that marks labelled rows, for example pos_label={other!r}."
            )
        warn_user(
            f"pos_label is not given, and the labels are {[other, last]}. The last value in sorted order, {last!r}, "
            "is assumed to mark labelled rows. To choose the value, pass pos_label.",
            UserWarning,
        )
    return classes[-1]


# --- words for yes and no


def folded(text: str) -> str:
    """Return a text in normal form for comparisons: lower case, single spaces, 1 for 1.0.

    Examples
    --------
    >>> folded("YES"), folded("1.0"), folded("Not  done")
    ('yes', '1', 'not done')
    """
    words = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    whole = _WHOLE_NUMBER.fullmatch(words)
    return whole[1] if whole else words


def says(value: Any) -> bool | None:
    """Return True for a value that means yes, False for no, and None for any other value.

    Texts are compared with words in several languages, regardless of case. Among numbers and booleans, 1 means yes and
    0 means no. The text "-1", as read from a file, means no. The number -1 may mark a missing value and means neither.

    Examples
    --------
    >>> says("Yes"), says("nein"), says("1.0"), says(0), says("-1"), says(-1), says("maybe")
    (True, False, True, False, False, None, None)
    """
    if isinstance(value, str):
        word = folded(value)
        return True if word in YES else False if word in NO else None
    return True if same_value(value, 1) else False if same_value(value, 0) else None


def denies(value: Any) -> bool:
    """Return whether a text usually marks rows without a label.

    Examples
    --------
    >>> denies("unlabelled"), denies("not tested"), denies("churned")
    (True, True, False)
    """
    if not isinstance(value, str):
        return False
    word = folded(value)
    return says(word) is False or word in _NO_FINDING or word.split(" ")[0] in _NEGATIONS


def yes_or_no(values: Sequence[Any]) -> list[bool] | None:
    """Return which values of a column mean yes; None if a value means neither yes nor no, or if only some are text.

    Also None if all values have the same meaning and one is a single letter: a column that contains only `f` may not be
    a label column.

    Examples
    --------
    >>> yes_or_no(["Yes", "no", "YES"]), yes_or_no([1, 0]), yes_or_no(["m", "f"]), yes_or_no(["f"])
    ([True, False, True], [True, False], None, None)
    """
    if len({isinstance(value, str) for value in values}) > 1:
        return None
    meanings = [says(value) for value in values]
    found = [each for each in meanings if each is not None]
    letters = any(isinstance(value, str) and len(folded(value)) == 1 and folded(value).isalpha() for value in values)
    return None if len(found) < len(meanings) or (len(set(found)) == 1 and letters) else found
