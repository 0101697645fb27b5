"""Who may depend on what: columns of the class alone, of the labelling, of both."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from scarless.checks.attributes import check_attributes
from scarless.checks.options import check_counts
from scarless.checks.rows import check_labelled_table, refuse_lost_class, warn_about_row_order
from scarless.checks.tables import take_rows
from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.numerics.label_tests import independent_columns
from scarless.numerics.order import canonical_order
from scarless.outside.notices import listed, warn_user
from scarless.raw.origins import trace_origins
from scarless.raw.preparation import table_preparation

FEWEST_LABELLED = 20
FEWEST_PER_ATTRIBUTE = 10  # labelled rows for each attribute that is tested
NAMED = 6  # attributes in one sentence


class Roles(NamedTuple):
    """Checked rows in an order of their own, with the parts that their columns play."""

    X_class: Any  # columns that the class may depend on and the labelling does not
    Z: Matrix  # columns that the labelling may depend on, one name each
    shared: NDArray[np.bool_]  # which of those the class may depend on too
    s: Vector
    w: Vector  # how often each row counts, above 0
    names: tuple[str, ...]
    left_out: tuple[str, ...]  # columns of the labelling that cannot be tested: constant, or a combination of others

    @property
    def n_rows(self) -> float:
        """How many rows there are: the sum of weights."""
        return as_count(float(self.w.sum()))

    @property
    def n_labelled(self) -> float:
        """How many of them are labelled."""
        return as_count(float(self.w @ self.s))

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Names of the columns that class and labelling may both depend on."""
        return tuple(name for name, shared in zip(self.names, self.shared, strict=True) if shared)


_NOTHING_NAMED = (
    "{user} needs propensity_attributes: columns that the labelling may depend on and that, at best, say nothing of "
    "the class once the other columns are known. Without any, no test is possible: whatever the labels, a constant "
    "propensity and some classifier explain them just as well."
)


_NO_CLASS = (
    "{user}: every column is a propensity attribute, which leaves none that the class depends on. Name "
    "classification_attributes, or fewer propensity_attributes."
)


def check_roles(
    X: Any,
    s: Any,
    *,
    propensity_attributes: Any,
    classification_attributes: Any,
    sample_weight: Any,
    pos_label: Any,
    user: str,
) -> Roles:
    """Check a table and its labels, and sort its columns by the part they play. Rows of weight 0 are left out."""
    if has_text(X):
        X, (propensity_attributes, classification_attributes) = _prepared(
            X, {"propensity_attributes": propensity_attributes, "classification_attributes": classification_attributes}
        )
    reader = type(user, (BaseEstimator,), {})()  # the checks of a table name the estimator that reads it
    table, labels, _ = check_labelled_table(reader, X, s, pos_label=pos_label)
    weight = check_counts(sample_weight, n_rows=labels.size)
    warn_about_row_order(X, sample_weight=sample_weight)
    refuse_lost_class(weight @ labels, weight @ (1.0 - labels))
    names = getattr(reader, "feature_names_in_", None)
    n_columns = table.shape[1]

    def select(attributes: Any, parameter: str) -> Columns:
        return check_attributes(attributes, X, n_columns=n_columns, names=names, parameter=parameter)

    if propensity_attributes is None and classification_attributes is None:
        raise ValueError(_NOTHING_NAMED.format(user=user))
    if propensity_attributes is None:
        seen = select(classification_attributes, "classification_attributes")
        tested = np.setdiff1d(np.arange(n_columns), seen)
    else:
        tested = select(propensity_attributes, "propensity_attributes")
        seen = np.setdiff1d(np.arange(n_columns), tested)
        if classification_attributes is not None:
            seen = select(classification_attributes, "classification_attributes")
    if seen.size == 0:
        raise ValueError(_NO_CLASS.format(user=user))
    shown = [f"x{j}" for j in range(n_columns)] if names is None else [str(name) for name in names]
    order = canonical_order(table, labels, weight)
    order = order[weight[order] > 0]
    table, labels, weight = take_rows(table, order), labels[order], weight[order]
    Z = _dense(table[:, tested])
    kept = independent_columns(Z)
    left_out = tuple(shown[j] for j in np.delete(tested, kept))
    _check_enough(float(weight @ labels), float(weight @ (1.0 - labels)), kept.size, user)
    _tell_left_out(left_out, kept.size, user)
    tested = tested[kept]
    roles = Roles(
        X_class=table[:, np.setdiff1d(seen, tested)],
        Z=Z[:, kept],
        shared=np.isin(tested, seen),
        s=labels,
        w=weight,
        names=tuple(shown[j] for j in tested),
        left_out=left_out,
    )
    _tell_shared(roles, user)
    return roles


def has_text(X: Any) -> bool:
    """Whether a table is a data frame with columns of text, categories or dates."""
    if hasattr(X, "schema") and hasattr(X, "get_column"):
        return not all(kind.is_numeric() or str(kind) == "Boolean" for kind in X.schema.values())
    return hasattr(X, "iloc") and any(getattr(kind, "kind", "O") not in "fiubc" for kind in X.dtypes)


def _prepared(X: Any, selections: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return a raw table as numbers, prepared as by `TableClassifier` but in its own units, and columns selected of it.

    One level of each category gets no column: all of them together would be a combination of the others.
    """
    names = [str(name) for name in X.columns]
    steps = table_preparation(drop="first")[:-1]  # without the last step, the scaler: effects are per raw unit
    made = steps.fit_transform(X)
    origins = trace_origins(steps, names, made.shape[1])
    assert origins is not None
    moved: list[Any] = []
    for parameter, given in selections.items():
        if given is None:
            moved.append(None)
            continue
        chosen = check_attributes(given, X, n_columns=len(names), names=np.asarray(names), parameter=parameter)
        wanted = {names[j] for j in chosen}
        gone = wanted - {each.column for each in origins}
        if gone:
            raise ValueError(
                f"{parameter}: nothing is left of {', '.join(map(repr, sorted(gone)))} after the preparation: the "
                "column is constant or empty. Leave it out."
            )
        moved.append([j for j, each in enumerate(origins) if each.column in wanted])
    return made, moved


def proviso(names: Sequence[str], shared: Sequence[str]) -> str:
    """Say what must hold for effects of these attributes to be effects on the labelling, and what to do otherwise.

    `shared` names the attributes that the class may depend on too.

    Examples
    --------
    >>> proviso(["age"], [])
    'provided that age says nothing of the class once the classification attributes are known. Otherwise this may be
    an effect on the class: name age in classification_attributes too, beside the other columns of the class.'
    """
    alone, both = [name for name in names if name not in shared], [name for name in names if name in shared]
    conditions, otherwise = [], "Otherwise this may be an effect on the class"
    if alone:
        say = f"{alone[0]} says" if len(alone) == 1 else f"{listed(alone, NAMED) if both else 'they'} say"
        conditions.append(f"{say} nothing of the class once the classification attributes are known")
        such = alone[0] if len(alone) == 1 else "those that may have one"
        otherwise += f": name {such} in classification_attributes too, beside the other columns of the class"
    if both:
        conditions.append(f"class and labelling are logistic in {listed(both, NAMED)}")
    return f"provided that {' and that '.join(conditions)}. {otherwise}."


def _dense(X: Any) -> Matrix:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def as_count(total: float) -> float:
    """Return a sum of weights, as a whole number where it is one."""
    return int(total) if total.is_integer() else total


def _check_enough(labelled: float, unlabelled: float, n_tested: int, user: str) -> None:
    if min(labelled, unlabelled) < FEWEST_LABELLED:
        raise ValueError(
            f"{user} needs at least {FEWEST_LABELLED} labelled and {FEWEST_LABELLED} unlabelled rows; there are "
            f"{labelled:.0f} and {unlabelled:.0f}. Collect more labels: with fewer, no test tells anything."
        )
    if labelled < FEWEST_PER_ATTRIBUTE * n_tested:
        warn_user(
            f"{user} tests {n_tested} attributes with {labelled:.0f} labelled rows, fewer than {FEWEST_PER_ATTRIBUTE} "
            "for each: its p-values are rough and only strong effects show. Name fewer propensity_attributes.",
            UserWarning,
        )


def _tell_left_out(left_out: tuple[str, ...], n_tested: int, user: str) -> None:
    if n_tested == 0:
        raise ValueError(
            f"{user} has nothing to test: every propensity attribute ({listed(left_out, NAMED)}) is constant. Name "
            "attributes that differ between rows."
        )
    if left_out:
        warn_user(
            f"{user} leaves out {listed(left_out, NAMED)}: constant, or a linear combination of the other propensity "
            "attributes, so that no data tell its effect from theirs.",
            UserWarning,
        )


def _tell_shared(roles: Roles, user: str) -> None:
    if roles.shared_names:
        warn_user(
            f"{user}: {listed(roles.shared_names, NAMED)} may affect the class and the labelling. Only the assumed "
            "form tells the two effects apart (logistic in both), so a rejection may as well mean that the form is "
            "wrong. Leave such attributes out of classification_attributes where you know that they do not affect the "
            "class.",
            UserWarning,
        )
