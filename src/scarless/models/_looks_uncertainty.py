"""Standard errors and intervals of models that were fitted to several looks, audits and facts."""

from typing import Any

import numpy as np
from scipy.special import expit

from scarless.checks.options import check_share, check_whole
from scarless.checks.rows import check_rows
from scarless.checks.vectors import check_random_stream
from scarless.engines.base import known_rows
from scarless.models._base import need_labels
from scarless.models._looks_summary import LooksSummary
from scarless.models.uncertainty import StandardErrors
from scarless.numerics.arrays import ArrayLike, Matrix, Vector
from scarless.pair.inference import PairInference


class LooksUncertainty(LooksSummary):
    """What `InferenceMixin` says of one look, for any number of them."""

    def standard_errors(self) -> StandardErrors:
        """Return the standard errors of everything that the fit estimates.

        Returns
        -------
        StandardErrors
            Named fields `coef`, `intercept`, `propensity_coef`, `propensity_intercept`, `visit_coef` and
            `false_positive_rate`, shaped like the attributes of those names, and `class_prior`, `label_frequency`.
            Infinite where the data tell nothing; the last two of a fit to one label of each row are None.
        """
        inference = self._known_inference()
        if self._looks is None:
            return super().standard_errors()
        errors, objective = inference.parameter_errors(), inference.objective
        n_models, seen = len(objective.models), self._e_columns.size
        of_e = np.array([errors[place] for place in objective.places[1 : 1 + n_models]])
        coef = np.full((n_models, self.n_features_in_), np.nan)
        coef[:, self._e_columns] = of_e[:, :seen]
        return StandardErrors(
            *self._spread(errors[objective.places[0]], objective.f),
            coef,
            of_e[:, -1],
            class_prior=inference.error_of(inference.class_prior),
            label_frequency=inference.error_of(inference.label_frequency),
            visit_coef=of_e[:, seen:-1],
            false_positive_rate=_rate_errors(inference, errors),
        )

    def predict_propensity_interval(self, X: Any, *, look: int | None = None, level: float = 0.95) -> Vector:
        r"""Return an interval for each row's propensity :math:`e(x) = \Pr(s=1|y=1,x)`, one row at a time.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        look : int, optional
            Of a fit to several looks: which one; the first is 0. Needed where their propensities differ.
        level : float, default=0.95
            Nominal probability that each interval covers.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper end.
        """
        inference = self._known_inference()
        if self._looks is None:
            self._refuse_look(look)
            return super().predict_propensity_interval(X, level=level)
        kind = int(self._need_looks("look").kinds[self._look_number(look)])
        return inference.row_intervals(check_rows(self, X), check_share(level, "level"), of="propensity", kind=kind)

    def predict_posterior_interval(
        self, X: Any, s: ArrayLike | None = None, *, audit: ArrayLike | None = None, level: float = 0.95
    ) -> Vector:
        r"""Return an interval for each row's :math:`\Pr(y=1|x,s)`, one row at a time.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels, coded as in `fit`.
        audit : array of shape (n_rows,), optional
            The class of rows that someone checked, as in `fit`.
        level : float, default=0.95
            Nominal probability that each interval covers.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper end; both the same for rows whose class is known: without false positives labelled rows,
            and those that were checked.
        """
        need_labels(s, "predict_posterior_interval(X, s)")
        inference = self._known_inference()
        if self._looks is None:
            self._refuse_audit(audit)
            return super().predict_posterior_interval(X, s, level=level)
        rows = self._rows_with_looks(known_rows(X), s, audit)
        return inference.row_intervals(rows, check_share(level, "level"), of="posterior")

    def draw_posteriors(
        self,
        X: Any,
        s: ArrayLike | None = None,
        *,
        audit: ArrayLike | None = None,
        n_draws: int = 200,
        random_state: Any = 0,
    ) -> Matrix:
        r"""Draw each row's :math:`\Pr(y=1|x,s)` from what the labels leave possible, all rows of a draw together.

        For numbers about many rows at once, such as how many of the 50 that rank highest are positive: compute the
        number for each draw, and take quantiles.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels, coded as in `fit`.
        audit : array of shape (n_rows,), optional
            The class of rows that someone checked, as in `fit`.
        n_draws : int, default=200
            How many.
        random_state : int, numpy generator or RandomState, default=0
            Of the draws.

        Returns
        -------
        array of shape (n_draws, n_rows)
            The class itself for rows whose class is known: without false positives labelled rows, and those that were
            checked.
        """
        need_labels(s, "draw_posteriors(X, s)")
        inference = getattr(self, "_inference", None)
        if self._looks is None or inference is None:
            self._refuse_audit(audit)
            return super().draw_posteriors(X, s, n_draws=n_draws, random_state=random_state)
        rows = self._rows_with_looks(known_rows(X), s, audit)
        n_draws, rng = check_whole(n_draws, "n_draws", at_least=1), check_random_stream(random_state)
        return inference.draw_posteriors(rows, n_draws, rng).T


def _rate_errors(inference: PairInference, errors: Vector) -> Any:
    """Return the standard errors of rates that were estimated; None where none was."""
    objective = inference.objective
    places = objective.places[1 + len(objective.models) :]
    if not places:
        return None
    rates = expit([inference.parameters[place.start] for place in places])
    found = np.array([errors[place.start] for place in places]) * rates * (1.0 - rates)
    return float(found[0]) if found.size == 1 else found
