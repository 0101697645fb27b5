"""Checks the input of the tests of SCAR, and which columns may affect the class, the labelling, or both."""

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

MIN_ROWS_PER_LABEL = 20  # smallest number of labelled rows, and of unlabelled rows
MIN_LABELLED_PER_ATTRIBUTE = 10
MAX_NAMES = 6  # largest number of attributes that are named in one sentence


class Roles(NamedTuple):
    """Checked rows in canonical order, and the roles of their columns."""

    X_class: Any  # columns that only the class may depend on
    Z: Matrix  # columns that the labelling may depend on
    shared: NDArray[np.bool_]  # for each column of Z, whether the class may depend on it too
    s: Vector
    w: Vector  # weights, above 0
    names: tuple[str, ...]  # of the columns of Z
    left_out: tuple[str, ...]  # propensity attributes that are constant, or linear combinations of others

    @property
    def n_rows(self) -> float:
        """Number of rows, or the sum of weights."""
        return as_count(float(self.w.sum()))

    @property
    def n_labelled(self) -> float:
        """Number of labelled rows, or the sum of their weights."""
        return as_count(float(self.w @ self.s))

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Names of the columns that the class and the labelling may both depend on."""
        return tuple(name for name, shared in zip(self.names, self.shared, strict=True) if shared)


_NO_ATTRIBUTES = (
    "{user} needs propensity_attributes: columns that the labelling may depend on. Ideally, they are unrelated to the "
    "class given the other columns. Without such columns no test is possible, because a constant propensity can "
    "explain any labels."
)
_NO_CLASS = (
    "{user}: the labelling may depend on every column, so no column is left for the class. Name "
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
    """Check a table and its labels, and assign roles to the columns. Rows of weight 0 are dropped."""
    if has_text(X):
        X, (propensity_attributes, classification_attributes) = _prepared(
            X, {"propensity_attributes": propensity_attributes, "classification_attributes": classification_attributes}
        )
    reader = type(user, (BaseEstimator,), {})()  # error texts of the checks contain the name of this class
    table, labels, _ = check_labelled_table(reader, X, s, pos_label=pos_label)
    weight = check_counts(sample_weight, n_rows=labels.size, name=user)
    warn_about_row_order(X, sample_weight=sample_weight)
    refuse_lost_class(weight @ labels, weight @ (1.0 - labels))
    names = getattr(reader, "feature_names_in_", None)
    n_columns = table.shape[1]

    def select(attributes: Any, parameter: str) -> Columns:
        return check_attributes(attributes, X, n_columns=n_columns, names=names, parameter=parameter)

    if propensity_attributes is None and classification_attributes is None:
        raise ValueError(_NO_ATTRIBUTES.format(user=user))
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
    _warn_about_left_out(left_out, kept.size, user)
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
    _warn_about_shared(roles, user)
    return roles


def has_text(X: Any) -> bool:
    """Return whether a table is a data frame with columns of text, categories or dates."""
    if hasattr(X, "schema") and hasattr(X, "get_column"):
        return not all(kind.is_numeric() or str(kind) == "Boolean" for kind in X.schema.values())
    is_pandas = hasattr(X, "iloc") and hasattr(X, "columns")
    return is_pandas and any(getattr(kind, "kind", "O") not in "fiubc" for kind in X.dtypes)


def _prepared(X: Any, selections: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return a raw table as numbers in the original units, and the selected columns of the result.

    The first category of each column gets no column, because the columns of all categories add up to 1.
    """
    names = [str(name) for name in X.columns]
    steps = table_preparation(drop="first")[:-1]  # without the last step, the scaler: effects are per original unit
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
            are, which = ("is", "this name") if len(gone) == 1 else ("are", "these names")
            raise ValueError(
                f"{parameter}: {listed([repr(name) for name in sorted(gone)])} {are} constant or empty, so no effect "
                f"can be estimated. Remove {which} from {parameter}."
            )
        moved.append([j for j, each in enumerate(origins) if each.column in wanted])
    return made, moved


def proviso(names: Sequence[str], shared: Sequence[str]) -> str:
    """Return the condition under which these attributes affect the labelling, and what to do if it does not hold.

    `shared` names the attributes that the class may depend on too.

    Examples
    --------
    >>> proviso(["age"], [])
    'provided that age is unrelated to the class given the classification attributes. Otherwise this may be
    an effect on the class: add age to classification_attributes.'
    """
    alone, both = [name for name in names if name not in shared], [name for name in names if name in shared]
    conditions, otherwise = [], "Otherwise this may be an effect on the class"
    if alone:
        be = f"{alone[0]} is" if len(alone) == 1 else f"{listed(alone, MAX_NAMES) if both else 'they'} are"
        conditions.append(f"{be} unrelated to the class given the classification attributes")
        such = alone[0] if len(alone) == 1 else "attributes that may affect the class"
        otherwise += f": add {such} to classification_attributes"
    if both:
        conditions.append(f"the class and the labelling are logistic in {listed(both, MAX_NAMES)}")
    return f"provided that {' and that '.join(conditions)}. {otherwise}."


def _dense(X: Any) -> Matrix:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def as_count(total: float) -> float:
    """Return a sum of weights, as an int if it is a whole number."""
    return int(total) if total.is_integer() else total


def _check_enough(labelled: float, unlabelled: float, n_tested: int, user: str) -> None:
    if min(labelled, unlabelled) < MIN_ROWS_PER_LABEL:
        raise ValueError(
            f"{user} needs at least {MIN_ROWS_PER_LABEL} labelled and {MIN_ROWS_PER_LABEL} unlabelled rows; there are "
            f"{labelled:.0f} labelled and {unlabelled:.0f} unlabelled rows. Pass more rows."
        )
    if labelled < MIN_LABELLED_PER_ATTRIBUTE * n_tested:
        warn_user(
            f"{user} tests {n_tested} attributes with {labelled:.0f} labelled rows, which is fewer than "
            f"{MIN_LABELLED_PER_ATTRIBUTE} for each attribute. p-values are approximate, and only strong effects are "
            "detected. Name fewer propensity_attributes.",
            UserWarning,
        )


def _warn_about_left_out(left_out: tuple[str, ...], n_tested: int, user: str) -> None:
    if n_tested == 0 and not left_out:
        raise ValueError(
            f"{user} has nothing to test: there are no propensity attributes. Name propensity_attributes, or fewer "
            "classification_attributes."
        )
    if n_tested == 0:
        raise ValueError(
            f"{user} has nothing to test: all propensity attributes ({listed(left_out, MAX_NAMES)}) are constant. Name "
            "attributes that differ between rows."
        )
    if left_out:
        column, it = ("This column is", "it") if len(left_out) == 1 else ("Each of these columns is", "them")
        warn_user(
            f"{user} leaves out {listed(left_out, MAX_NAMES)}. {column} constant, or a linear combination of other "
            f"propensity attributes, so its effect cannot be estimated. Remove {it} from the propensity_attributes.",
            UserWarning,
        )


def _warn_about_shared(roles: Roles, user: str) -> None:
    if roles.shared_names:
        warn_user(
            f"{user}: {listed(roles.shared_names, MAX_NAMES)} may affect both the class and the labelling. Only the "
            "assumed logistic form separates the two effects, so a small p-value can also mean that the form is wrong. "
            "If you know that an attribute does not affect the class, leave it out of classification_attributes.",
            UserWarning,
        )
