"""What a classifier answers that was fitted to one label of each row, or to several looks and audits."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from scarless.checks.options import check_share
from scarless.engines.base import known_rows
from scarless.models._base import as_given, need_labels
from scarless.models._looks_uncertainty import LooksUncertainty
from scarless.numerics.arrays import ArrayLike, Vector


class LooksAnswers(LooksUncertainty):
    """The questions that mean more where there were several looks."""

    def predict_posterior(self, X: Any, s: ArrayLike | None = None, audit: ArrayLike | None = None) -> Vector:
        r"""Return :math:`\Pr(y=1|x,s)` of each row: its class given its labels, and its audit where there is one.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels, coded as in `fit`.
        audit : array of shape (n_rows,), optional
            The class of rows that someone checked, as in `fit`.

        Returns
        -------
        array of shape (n_rows,)
            Without false positives 1 for labelled rows; for the others :math:`f(1-e)/(1-fe)`, with :math:`1-e` the
            probability that no look of a positive finds a label.
        """
        check_is_fitted(self)
        if self._looks is None:
            self._refuse_audit(audit)
            return super().predict_posterior(X, s)
        need_labels(s, "predict_posterior(X, s)")
        return as_given(X, self._looks_posterior(known_rows(X), s, audit))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        r"""Return the mean observed log-likelihood of labels: what can be said of a fit without knowing the class.

        Higher is better. Not accuracy: against the observed labels that rewards calling every unlabelled row negative.
        Audits are not taken: a model that was fitted with them is scored by labels alone. Labels that came from audits
        (see `Labelling`) count as labels here, so leave such rows out, or give them a weight of 0.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels, coded as in `fit`.
        sample_weight : array of shape (n_rows,), optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if self._looks is None:
            return super().score(X, y, sample_weight)
        return self._looks_score(known_rows(X), y, sample_weight)

    def summary(self, *, level: float = 0.95) -> Any:
        """Return a table of what was found: both models' parameters, or what a cross-fitted classifier can say.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that an interval covers.

        Returns
        -------
        Summary or StackSummary
            Prints as text, shows as HTML in a notebook; ``to_frame()`` gives a pandas DataFrame.
        """
        check_is_fitted(self)
        if self._looks is not None:
            return self._summary_of_looks(check_share(level, "level"))
        return super().summary(level=level)

    def predict_propensity(self, X: Any, look: int | None = None) -> Vector:
        r"""Return the labelling propensity :math:`e(x) = \Pr(s=1|y=1,x)` of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        look : int, optional
            Of a fit to several looks: which one; the first is 0. Needed where their propensities differ.

        Returns
        -------
        array of shape (n_rows,)
        """
        check_is_fitted(self)
        if self._looks is not None:
            return as_given(X, self._look_probability(X, look))
        self._refuse_look(look)
        return as_given(X, self._model_propensity(X))

    def _model_propensity(self, X: Any) -> Vector:
        """Return the propensity of a fit to one label of each row."""
        return self._linear_probability(X, "propensity_")
