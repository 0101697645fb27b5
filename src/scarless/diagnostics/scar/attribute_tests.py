"""Which attributes drive the labelling: effects, intervals and tests, one attribute at a time."""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from scarless.checks.options import check_choice, check_random_stream, check_share
from scarless.diagnostics.scar._learned import check_learning, class_columns
from scarless.diagnostics.scar._pair_tests import SIGNIFICANT, compare, p_text
from scarless.diagnostics.scar._roles import NAMED, Roles, check_roles, proviso
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.label_tests import holm
from scarless.numerics.uncertainty import quantile
from scarless.outside.extras import need
from scarless.outside.notices import listed, warn_user

COLUMNS = ("effect", "low", "high", "statistic", "p_value", "p_adjusted")
UNITS = ("unit", "deviation")
UNIT_WORDS = {"unit": "unit of the attribute", "deviation": "standard deviation of the attribute"}


@dataclass(frozen=True, eq=False, repr=False)
class LabellingAttributes:
    """Effects of attributes on the labelling, the strongest evidence first; ``print`` it for a table.

    Attributes
    ----------
    attributes : tuple of str
        Names; the other fields have one entry for each.
    effect, low, high : arrays
        Log odds of a positive being labelled that one more unit, or standard deviation, of the attribute adds, the
        others held fixed, and its confidence interval. NaN where the attribute could not be tested: it is constant,
        or nothing tells its effect from those of others.
    statistic, p_value : arrays
        Wald's statistic of no effect, chi-squared with one degree of freedom, and its p-value.
    p_adjusted : array
        p-values adjusted by Holm's rule: below 0.05 the attribute matters, and the chance that any such finding is
        false is at most 0.05.
    level : float
        Of the intervals, each by itself.
    per : str
        "unit" or "deviation".
    label_frequency : float
        Estimated share of the positives that are labelled.
    shared : tuple of str
        Those of the attributes that the class may depend on too, as the call said.

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
        """Return the table as a pandas DataFrame, one row per attribute.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = need("pandas", "to_frame", extra="frames")
        index = pandas.Index(self.attributes, name="attribute")
        return pandas.DataFrame({column: getattr(self, column) for column in COLUMNS}, index=index)

    def __str__(self) -> str:
        return "\n".join([self._caption(), *_aligned([self._head(), *self._cells()]), self.summary()])

    __repr__ = __str__

    def summary(self) -> str:
        """Say in words which attributes drive the labelling, on what condition, and which could not be tested.

        Returns
        -------
        str
        """
        found = self._names(self.p_adjusted < SIGNIFICANT)
        cleared, untested = self._names(self.p_adjusted >= SIGNIFICANT), self._names(np.isnan(self.p_adjusted))
        words = []
        if found:
            words.append(
                f"The labelling depends on {listed(found, NAMED)} (Holm-adjusted p below {SIGNIFICANT}), "
                f"{proviso(found, self.shared)}"
            )
        elif cleared:
            words.append(
                f"No evidence that the labelling depends on {listed(cleared, NAMED)} (Holm-adjusted p of at least "
                f"{SIGNIFICANT})."
            )
        if untested:
            words.append(
                f"Could not be tested: {listed(untested, NAMED)} (constant, a linear combination of others, or the "
                "likelihood is flat)."
            )
        return " ".join(words)

    def _names(self, chosen: NDArray[np.bool_]) -> list[str]:
        return [self.attributes[j] for j in np.flatnonzero(chosen)]

    def _caption(self) -> str:
        return f"Effect on being labelled, per {UNIT_WORDS[self.per]}"

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
    """Return three decimals where they say something, three digits otherwise."""
    return f"{value:.3f}" if value == 0 or 0.01 <= abs(value) < 1e4 else f"{value:.3g}"


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return rows of text as lines, the first column flush left and the others flush right."""
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
    fold, and :math:`\mathrm{logit}\,e = \gamma_0 + \gamma' x_e`. Effects are the :math:`\gamma_j`, of each attribute
    with the others held fixed; intervals and tests are Wald's, :math:`\hat\gamma_j \pm z\,\mathrm{se}_j`, with
    standard errors from the observed information. p-values are also adjusted for the number of attributes, by Holm's
    rule.

    Right where the propensity is logistic and the propensity attributes do not affect the class once the
    classification attributes are known. An attribute that may affect both gets a logistic effect in `f` too; then
    only that form tells its two effects apart, its interval is wide, and a warning says so.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        A data frame with columns of text, categories or dates is prepared as by `TableClassifier`, without labels and
        without scaling; selections of columns are those of the raw table.
    s : array of shape (n_rows,)
        Observed labels: 1 for labelled positives, 0 for unlabelled rows.
    propensity_attributes : column selector, optional
        What the labelling may depend on. Columns by name, position, slice, mask, callable or polars selector; the name
        of an encoded attribute stands for all of its columns. None: those that are not classification attributes.
    classification_attributes : column selector, optional
        What the class may depend on, selected as `propensity_attributes` are. None: those that are not propensity
        attributes.
    per : {"unit", "deviation"}, default="unit"
        Effects of one unit of an attribute, or of one standard deviation, which makes attributes comparable.
    sample_weight, estimator, cv, random_state, pos_label
        As in `scar_test`.
    level : float, default=0.95
        Of each interval by itself.

    Returns
    -------
    LabellingAttributes

    See Also
    --------
    scar_test : One test of all attributes together.
    LabellingAttributesDisplay : The picture.

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
    >>> e = LogisticSAR(attributes=[2], coefficients=[1.0]).propensity(X)  # column 3 plays no part
    >>> s = simulate_labels(y, e, random_state=1)
    >>> found = labelling_attributes(X, s, propensity_attributes=[2, 3], random_state=0)
    >>> found.summary()
    'The labelling depends on x2 (Holm-adjusted p below 0.05), provided that x2 says nothing of the class once ...'
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
        _warn_about_unknown([name for name, unknown in zip(roles.names, np.isnan(error), strict=True) if unknown])
    return _table(roles, effect, error, deviation if per == "unit" else np.ones(k), level, per, fit.label_frequency)


def _table(
    roles: Roles, effect: Vector, error: Vector, scale: Vector, level: float, per: str, label_frequency: float
) -> LabellingAttributes:
    """Return effects of so much of each attribute as results, in order of evidence, those without a test last."""
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


def _warn_about_unknown(names: list[str]) -> None:
    warn_user(
        f"labelling_attributes cannot tell the effect of {listed(names, NAMED)}: the likelihood is flat there. Too few "
        "rows are labelled, or the effect on the class explains the labels as well; name fewer propensity_attributes, "
        "or leave these out of classification_attributes.",
        UserWarning,
    )
