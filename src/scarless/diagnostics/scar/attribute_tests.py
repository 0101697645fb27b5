"""Effects of single attributes on the labelling, with confidence intervals and tests."""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from scarless.checks.options import check_choice, check_random_stream, check_share
from scarless.diagnostics.scar._learned import check_learning, class_columns
from scarless.diagnostics.scar._pair_tests import SIGNIFICANT, compare, p_text
from scarless.diagnostics.scar._roles import MAX_NAMES, Roles, check_roles, proviso
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.label_tests import holm
from scarless.numerics.uncertainty import quantile
from scarless.outside.extras import need
from scarless.outside.notices import listed, warn_user

COLUMNS = ("effect", "low", "high", "statistic", "p_value", "p_adjusted")
UNITS = ("unit", "deviation")
UNIT_NAMES = {"unit": "unit of the attribute", "deviation": "standard deviation of the attribute"}


@dataclass(frozen=True, eq=False, repr=False)
class LabellingAttributes:
    """Effects of attributes on the labelling, the strongest evidence first; prints as a table.

    Attributes
    ----------
    attributes : tuple of str
        Names of the attributes. The arrays below have one entry for each.
    effect, low, high : arrays
        Change in the log odds that a positive is labelled, for one unit or standard deviation of the attribute with the
        other attributes fixed, and its confidence interval. NaN if the attribute could not be tested: it is constant,
        or its effect cannot be separated from other effects.
    statistic, p_value : arrays
        Wald's statistic for no effect, chi-squared with one degree of freedom, and its p-value.
    p_adjusted : array
        p-values adjusted by Holm's method. If all attributes with values below 0.05 are selected, the probability of
        any false selection is at most 0.05.
    level : float
        Confidence level of each interval.
    per : str
        "unit" or "deviation".
    label_frequency : float
        Estimated label frequency.
    shared : tuple of str
        Attributes that were also named as classification attributes.

    Examples
    --------
    >>> one = np.array([0.5])
    >>> found = LabellingAttributes(("age",), one, one - 0.2, one + 0.2, one, one, one, 0.95, "unit", 0.3)
    >>> found.to_frame().index.tolist()
    ['age']
    """

    attributes: tuple[str, ...]
    effect: Vector
    low: Vector
    high: Vector
    statistic: Vector
    p_value: Vector
    p_adjusted: Vector
    level: float
    per: str
    label_frequency: float
    shared: tuple[str, ...] = ()

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, one row for each attribute.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = need("pandas", "to_frame", extra="frames")
        index = pandas.Index(self.attributes, name="attribute")
        return pandas.DataFrame({column: getattr(self, column) for column in COLUMNS}, index=index)

    def __str__(self) -> str:
        return "\n".join([self._caption(), *aligned([self._head(), *self._cells()]), self.summary()])

    __repr__ = __str__

    def summary(self) -> str:
        """Return a text on the attributes that affect the labelling, and on attributes that could not be tested.

        Returns
        -------
        str
        """
        found = self._names(self.p_adjusted < SIGNIFICANT)
        cleared, untested = self._names(self.p_adjusted >= SIGNIFICANT), self._names(np.isnan(self.p_adjusted))
        words = []
        if found:
            words.append(
                f"The labelling depends on {listed(found, MAX_NAMES)} (Holm-adjusted p below {SIGNIFICANT}), "
                f"{proviso(found, self.shared)}"
            )
        elif cleared:
            words.append(
                f"No evidence that the labelling depends on {listed(cleared, MAX_NAMES)} (Holm-adjusted p of at least "
                f"{SIGNIFICANT})."
            )
        if untested:
            words.append(
                f"Could not be tested: {listed(untested, MAX_NAMES)} (constant, a linear combination of others, or the "
                "likelihood is flat)."
            )
        return " ".join(words)

    def _names(self, chosen: NDArray[np.bool_]) -> list[str]:
        return [self.attributes[j] for j in np.flatnonzero(chosen)]

    def _caption(self) -> str:
        return f"Effect on being labelled, per {UNIT_NAMES[self.per]}"

    def _head(self) -> list[str]:
        return ["attribute", "log odds", f"{100 * self.level:g}% interval", "chi2(1)", "p", "Holm p"]

    def _cells(self) -> list[list[str]]:
        rows = zip(self.attributes, *(getattr(self, column).tolist() for column in COLUMNS), strict=True)
        return [
            [
                name,
                _number(effect),
                f"[{_number(low)}, {_number(high)}]",
                f"{statistic:.2f}",
                p_text(p),
                p_text(adjusted),
            ]
            for name, effect, low, high, statistic, p, adjusted in rows
        ]

    def _repr_html_(self) -> str:
        lines = [_table_row(self._head(), "th"), *(_table_row(row, "td") for row in self._cells())]
        caption = f"<caption>{escape(self._caption())}</caption>"
        return f"<table>{caption}{''.join(lines)}</table><p>{escape(self.summary())}</p>"


def _number(value: float) -> str:
    """Return a number with three decimals, or with three significant digits if it is very small or large."""
    return f"{value:.3f}" if value == 0 or 0.01 <= abs(value) < 1e4 else f"{value:.3g}"


def aligned(rows: list[list[str]]) -> list[str]:
    """Return rows of text as lines: the first column aligned left, the others aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def _table_row(cells: list[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def labelling_attributes(
    X: Any,
    s: ArrayLike,
    *,
    propensity_attributes: Any = None,
    classification_attributes: Any = None,
    sample_weight: ArrayLike | None = None,
    per: str = "unit",
    estimator: Any = None,
    cv: int = 5,
    level: float = 0.95,
    random_state: Any = None,
    pos_label: Any = None,
) -> LabellingAttributes:
    r"""Estimate and test the effect of each attribute on the labelling.

    The labels are modelled as in `scar_test`: :math:`\Pr(s=1|x) = f(x)\,e(x_e)` with a flexible `f`, learned out of
    fold, and :math:`\mathrm{logit}\,e = \gamma_0 + \gamma' x_e`. The effects are the coefficients :math:`\gamma_j`.
    Intervals and tests are Wald's, :math:`\hat\gamma_j \pm z\,\mathrm{se}_j`, with standard errors from the observed
    information. p-values are also adjusted for the number of attributes by Holm's method.

    The results are valid if the propensity is logistic and the propensity attributes are unrelated to the class given
    the classification attributes. An attribute that is named as both kinds gets a logistic effect in `f` too. Only
    this form separates the two effects, so the interval is wide, and a warning is issued.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rows, n_columns)
        Attributes of the rows, one row each. Text, categories and dates in a data frame are encoded as by
        `TableClassifier`, without scaling; select columns of the raw table.
    s : array of shape (n_rows,)
        Observed labels: 1 for labelled rows, 0 for unlabelled rows.
    propensity_attributes : column selector, optional
        Columns that the propensity may depend on: names, positions, slice, mask, callable or polars selector. The name
        of an encoded attribute selects all of its columns. By default, all columns that are not classification
        attributes.
    classification_attributes : column selector, optional
        Columns that the class may depend on, selected like `propensity_attributes`. By default, all columns that are
        not propensity attributes.
    per : {"unit", "deviation"}, default="unit"
        Effects of one unit of an attribute, or of one standard deviation. The latter makes attributes comparable.
    sample_weight, estimator, cv, random_state, pos_label
        See `scar_test`.
    level : float in (0, 1), default=0.95
        Confidence level of each interval.

    Returns
    -------
    LabellingAttributes

    See Also
    --------
    scar_test : One test of all attributes together.
    LabellingAttributesDisplay : Plot of the effects.

    References
    ----------
    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.diagnostics import labelling_attributes
    >>> from scarless.labelling import LogisticSAR, simulate_labels
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 4))
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-3 * X[:, 0] - X[:, 1]))
    >>> e = LogisticSAR(attributes=[2], coefficients=[1.0]).propensity(X)  # column 3 has no effect
    >>> s = simulate_labels(y, e, random_state=1)
    >>> found = labelling_attributes(X, s, propensity_attributes=[2, 3], random_state=0)
    >>> found.summary()
    'The labelling depends on x2 (Holm-adjusted p below 0.05), provided that x2 is unrelated to the class given ...'
    >>> bool(found.low[0] < 1.0 < found.high[0])
    True
    """
    check_choice(per, "per", UNITS)
    check_share(level, "level")
    check_learning(estimator, cv, "labelling_attributes")
    rng = check_random_stream(random_state)
    roles = check_roles(
        X,
        s,
        propensity_attributes=propensity_attributes,
        classification_attributes=classification_attributes,
        sample_weight=sample_weight,
        pos_label=pos_label,
        user="labelling_attributes",
    )
    D = class_columns(roles, estimator=estimator, cv=cv, rng=rng)
    centred = roles.Z - np.average(roles.Z, axis=0, weights=roles.w)
    deviation = np.sqrt(np.average(centred**2, axis=0, weights=roles.w))
    fit = compare(D, centred / deviation, roles.s, roles.w)
    k = len(roles.names)
    effect = fit.alternative[-k - 1 : -1]
    error = np.sqrt(np.diagonal(fit.covariance)[-k - 1 : -1])
    if np.isnan(error).any():
        effect = np.where(np.isnan(error), np.nan, effect)
        _warn_about_flat_likelihood([name for name, nan in zip(roles.names, np.isnan(error), strict=True) if nan])
    return _table(roles, effect, error, deviation if per == "unit" else np.ones(k), level, per, fit.label_frequency)


def _table(
    roles: Roles, effect: Vector, error: Vector, scale: Vector, level: float, per: str, label_frequency: float
) -> LabellingAttributes:
    """Return effects divided by `scale`, the strongest evidence first and attributes that were not tested last."""
    missing = np.full(len(roles.left_out), np.nan)
    statistic = np.append((effect / error) ** 2, missing)
    effect, error = np.append(effect / scale, missing), np.append(error / scale, missing)
    p = chi2.sf(statistic, 1)
    half = quantile(level) * error
    order = np.argsort(-statistic, kind="stable")  # NaN is sorted last
    names = roles.names + roles.left_out
    return LabellingAttributes(
        attributes=tuple(names[j] for j in order),
        effect=effect[order],
        low=(effect - half)[order],
        high=(effect + half)[order],
        statistic=statistic[order],
        p_value=p[order],
        p_adjusted=holm(p)[order],
        level=level,
        per=per,
        label_frequency=label_frequency,
        shared=roles.shared_names,
    )


def _warn_about_flat_likelihood(names: list[str]) -> None:
    warn_user(
        f"labelling_attributes cannot estimate the effect of {listed(names, MAX_NAMES)}: the likelihood is flat. "
        "Either too few rows are labelled, or an effect on the class explains the labels equally well. Name fewer "
        "propensity_attributes. If one of these attributes does not affect the class, leave it out of "
        "classification_attributes.",
        UserWarning,
    )
