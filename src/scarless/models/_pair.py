"""What the classifiers made of two logistic models share: what a fit stores, and how it predicts."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from scarless.checks.attributes import check_attributes
from scarless.engines.base import known_rows
from scarless.engines.blocks import Units
from scarless.models.base import (
    WIDE_INTERVAL,
    PUClassifier,
    as_given,
    need_labels,
    warn_if_all_labelled,
    warn_if_all_positive,
    warn_if_level_is_unknown,
    warn_unless_converged,
)
from scarless.models.summary import attribute_names
from scarless.models.uncertainty import InferenceMixin
from scarless.numerics.arrays import ArrayLike, Columns, Vector
from scarless.numerics.namespace import in_numpy
from scarless.numerics.uncertainty import PairSums
from scarless.outside.notices import ClassPriorWarning, warn_user
from scarless.pair.facts import check_known
from scarless.pair.fit import PairFit
from scarless.pair.form import SUSPECT, FormTest, check_form, unnamed_driver
from scarless.pair.inference import PairInference, pair_inference
from scarless.pair.logistic import Training
from scarless.pair.optima import Basin, Climb, Progress, choose, find_optima, seen_higher, told_of, warn_of_higher
from scarless.pair.problem import PairProblem
from scarless.pair.search import RelaxedPairFit
from scarless.pair.stack import MOST_COLUMNS, gap_to_naive
from scarless.pair.starts import asks_for_papers_start

RANKED_WORSE = 0.02  # in the area under the ROC curve: less is no reason to worry
_RESTS_ON_FORM = (
    "Class prior, interval and propensities rest on that form, and classifier and propensity may be swapped. Check "
    "propensity_attributes, or use SARStackingClassifier, whose classifiers need not be linear."
)


def _is_numeric(X: Any) -> bool:
    """Whether a table that a classifier of the user's reads holds finite numbers only."""
    values = X.data if sparse.issparse(X) else X
    return isinstance(values, np.ndarray) and values.dtype.kind in "fiub" and bool(np.isfinite(values).all())


def told_of_driver(name: str, gain: float) -> str:
    """Say that a column which nobody named drives the labelling, by the labels."""
    return (
        f"The labels contradict the propensity attributes: the log-likelihood rises by {gain:.1f} if {name!r}, which "
        "is not named, drives the labelling. If that can be, name it; if not, the class depends on it in a way that "
        "the models do not see. Until then the class prior and its interval may be far off."
    )


def means_all(attributes: Any) -> bool:
    """Whether the word "all" stands for every column. A column of that name is meant by ``["all"]``."""
    return isinstance(attributes, str) and attributes == "all"


class PairClassifier(InferenceMixin, PUClassifier):
    """A classifier of the true class together with a model of the labelling."""

    propensity_attributes: Any
    max_iter: int
    _none_is_scar = True  # what it means that no propensity attributes are named
    _looks_elsewhere = True  # whether one start is followed by a look from another

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return what scikit-learn shows, with a comment where one propensity for all rows is assumed: SCAR."""
        # Scikit-learn breaks the lines of classes with its own __repr__ only: it is shown one that has it.

        def get_params(_: Any, deep: bool = True) -> dict[str, Any]:
            return self.get_params(deep)

        of_class = {"__init__": type(self).__init__, "get_params": get_params}
        twin: Any = type(type(self).__name__, (BaseEstimator,), of_class)
        text = BaseEstimator.__repr__(twin.__new__(twin), N_CHAR_MAX)
        is_scar = self._none_is_scar and self.propensity_attributes is None
        return f"{text}  # SCAR: no propensity_attributes" if is_scar else text

    def predict_propensity(self, X: Any) -> Vector:
        r"""Return the labelling propensity :math:`e(x) = \Pr(s=1|y=1,x)` of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)

        Returns
        -------
        array of shape (n_rows,)
        """
        return as_given(X, self._linear_probability(X, "propensity_"))

    def predict_posterior(self, X: Any, s: ArrayLike) -> Vector:
        r"""Return :math:`\Pr(y=1|x,s)` of each row: its class given that it was, or was not, labelled.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,)
            Observed labels, coded as in `fit`.

        Returns
        -------
        array of shape (n_rows,)
            1 for labelled rows; for the others :math:`f(1-e)/(1-fe)`.
        """
        need_labels(s, "predict_posterior(X, s)")
        rows = known_rows(X)
        return as_given(X, self._posterior(rows, s, in_numpy(self.predict_propensity(rows)), known=False))

    def _assumed_propensity(self, X: Any) -> Vector:
        return in_numpy(self.predict_propensity(X))

    def _class_probability(self, X: Any) -> Vector:
        return self._linear_probability(X)

    def _columns(self, X: Any, attributes: Any, parameter: str) -> NDArray[np.intp]:
        """Return the columns that a parameter selects; None is all for the classifier and none for the propensity."""
        if means_all(attributes):
            return np.arange(self.n_features_in_)
        if attributes is None:
            return np.arange(0 if parameter == "propensity_attributes" else self.n_features_in_)
        names = getattr(self, "feature_names_in_", None)
        return check_attributes(attributes, X, n_columns=self.n_features_in_, names=names, parameter=parameter)

    def _climb(
        self, problem: PairProblem, asked: Any, tol: float, *, rng: Any = None, progress: Progress | None = None
    ) -> Climb:
        """Climb by Newton from as many starts as were asked for, and return the optimum to believe.

        After the paper's start alone, see whether another leads higher.
        """
        climbs = find_optima(problem, asked, rng, tol=tol, max_iter=self.max_iter, progress=progress)
        self.basins_ = [climb.basin for climb in climbs]
        self.selection_ = choose(problem, climbs)
        found = climbs[self.selection_.index]
        warn_unless_converged(found.fit.solution, type(self).__name__, total_weight=problem.weight, tol=tol)
        look = asks_for_papers_start(asked) and not problem.told_by_height and self._looks_elsewhere
        self.higher_basin_: Basin | None = seen_higher(problem, found.basin) if look else None
        self._tell_of_higher(found.basin)
        return found

    def _tell_of_higher(self, found: Basin) -> None:
        if self.higher_basin_ is not None:
            warn_of_higher(self.higher_basin_, found, type(self).__name__)
            self.selection_ = replace(self.selection_, reason=self._told_of_higher())

    def _told_of_higher(self) -> str:
        """Return the sentences on a higher optimum that was seen; empty where none was."""
        higher = getattr(self, "higher_basin_", None)
        if higher is None:
            return ""
        told = told_of(higher, self.basins_[self.selection_.index])
        return told[0].upper() + told[1:]

    def _remarks(self) -> list[str]:
        told = self._told_of_higher()
        return [*filter(None, [told, self._told_of_form()]), *super()._remarks()]

    def _store_relaxed(self, chosen: RelaxedPairFit, fits: list[PairFit]) -> None:
        """Store a relaxed pair, found from fits by Newton."""
        problem = chosen.problem
        self._store_linear(chosen.f, problem.f)
        self._store_linear(chosen.e, problem.e, "propensity_")
        self._store_history(fits[0])
        self.n_iter_ = max(fit.solution.n_iter for fit in fits)
        self.converged_ = all(fit.converged for fit in fits) and chosen.relaxation.converged
        self._inference = pair_inference(problem._replace(audits=None), np.concatenate([chosen.f, chosen.e]))
        self._warn_of_units(problem.engine.units)
        self.relaxation_ = chosen.relaxation
        self._levels = (chosen.relaxation.levels, *(each.levels for each in chosen.possible))
        self.log_likelihood_ = self._inference.log_likelihood
        self.label_frequency_ = chosen.relaxation.label_frequency
        warn_if_all_labelled(self.label_frequency_, type(self).__name__)
        self.class_prior_ = chosen.relaxation.class_prior
        warn_if_all_positive(self.class_prior_, problem.labelled_share, type(self).__name__)
        self._warn_if_ranked_worse(problem, chosen.f, chosen.e)
        self._test_form(problem, chosen.f, chosen.e)
        self._warn_if_level_is_unknown(problem.totals.labelled)

    def _store_history(self, fit: PairFit) -> None:
        """Store how a fit by Newton's method went."""
        self.n_iter_, self.converged_ = fit.solution.n_iter, fit.converged
        self.history_ = {
            "log_likelihood": np.array(fit.log_likelihoods),
            "gain": np.array([at.gain for at in fit.solution.history]),
            "step": np.array([at.step for at in fit.solution.history]),
        }

    def _store_pair(self, problem: PairProblem, fit: PairFit, sums: PairSums | None = None) -> None:
        """Store a fit by Newton; `sums` are the fit's, where they are known."""
        self._store_linear(fit.f, problem.f)
        self._store_linear(fit.e, problem.e, "propensity_")
        self._store_history(fit)
        inference = pair_inference(problem, fit, information=fit.information, sums=sums)
        self._levels = ()
        self._warn_of_units(problem.engine.units)
        self._inference: PairInference | None = inference
        self._store_summary(inference.log_likelihood, inference.positives, inference.labelled_positives, problem.weight)
        self._warn_if_ranked_worse(problem, fit.f, fit.e)
        self._test_form(problem, fit.f, fit.e)
        self._warn_if_level_is_unknown(problem.totals.labelled)

    def _warn_if_ranked_worse(self, problem: PairProblem, beta_f: Vector, beta_e: Vector) -> None:
        """Warn where the fit ranks labelled rows worse than the naive model.

        A classifier that sees the same columns as the propensity is compared by itself, since the two may have changed
        places. Else the product of both is compared: a good classifier alone may rank labels worse than naive.
        """
        if not self._looks_elsewhere:
            return
        gap = gap_to_naive(problem, beta_f, None if problem.exchangeable else beta_e)
        if gap is None or not gap.is_loss or gap.difference >= -RANKED_WORSE:
            return
        what = "the classifier ranks" if problem.exchangeable else "classifier and propensity together rank"
        why = (
            "It sees the same columns as the propensity, and the two have probably changed places."
            if problem.exchangeable
            else "The fit is probably in a poor local optimum: use n_starts=5."
        )
        warn_user(
            f"{type(self).__name__}: {what} labelled rows worse than the naive model (area under the "
            f"ROC curve lower by {-gap.difference:.2f}). {why} Name the attributes that drive the labelling, or use "
            "SARStackingClassifier(), whose ranking is compared with the naive one.",
            ClassPriorWarning,
        )

    def _test_form(self, problem: PairProblem, beta_f: Vector, beta_e: Vector) -> None:
        """Test the form of two logistic models, and warn where the labels contradict it.

        A local optimum fails the test too: after a single start others are tried where there is reason to doubt.
        """
        self.form_test_: FormTest | None = check_form(problem, beta_f, beta_e) if self._looks_elsewhere else None
        doubtful = self.form_test_ is not None and self.form_test_.p_value < SUSPECT
        basins = getattr(self, "basins_", [])
        if doubtful and len(basins) == 1 and basins[0].starts == ("paper",) and self.higher_basin_ is None:
            self.higher_basin_ = seen_higher(problem, basins[0], thoroughly=True)
            self._tell_of_higher(basins[0])
        if told := self._told_of_form():
            warn_user(f"{type(self).__name__}: {told[0].lower()}{told[1:]}", ClassPriorWarning)

    def _told_of_form(self) -> str:
        """Say that the labels contradict the form of the models, and what to do; empty where they do not."""
        found = getattr(self, "form_test_", None)
        if found is None or not found.rejected or getattr(self, "higher_basin_", None) is not None:
            return ""
        names = attribute_names(self)
        if found.driver >= 0:
            return f"{told_of_driver(str(names[found.driver]), found.gain)} {_RESTS_ON_FORM}"
        return (
            f"The labels contradict the form of the two models: they fit clearly better with "
            f"{found.direction.told(names)} (score test, adjusted p = {found.p_value:.1g}). The class is not linear in "
            f"the attributes, or the labelling depends on attributes that are not named. {_RESTS_ON_FORM}"
        )

    def _warn_of_driver(self, training: Training, logits: list[Vector], held: Vector, named: Columns) -> None:
        """Warn where labels say that a column which nobody named drives the labelling; `logits` have not seen them."""
        self._driver: tuple[int, float] | None = None
        n_columns = training.X.shape[1]
        if not self._looks_elsewhere or not 0 < named.size < n_columns <= MOST_COLUMNS or not _is_numeric(training.X):
            return
        found = unnamed_driver(training, logits, held, tuple(int(column) for column in named))
        self._driver = None if found is None else (found.column, found.gain)
        if told := self._told_of_driver():
            warn_user(f"{type(self).__name__}: {told[0].lower()}{told[1:]}", ClassPriorWarning)

    def _told_of_driver(self) -> str:
        """Say that labels reject the named attributes against a column which is not among them; empty if not."""
        found = getattr(self, "_driver", None)
        return "" if found is None else told_of_driver(str(attribute_names(self)[found[0]]), found[1])

    def _warn_if_level_is_unknown(self, labelled: float) -> None:
        """Warn where labels are few or the class prior's interval is wide; not again for each resample of a fit."""
        if not self._looks_elsewhere:
            return
        try:
            interval = self.class_prior_interval()
        except ValueError:  # too many columns for standard errors
            interval = None
        named = getattr(self, "propensity_attributes", None)
        shares = check_known(getattr(self, "known", None)).shares
        if shares and interval is not None and interval.high - interval.low <= WIDE_INTERVAL:
            return  # the level is known from elsewhere
        warn_if_level_is_unknown(
            type(self).__name__,
            labelled,
            self.class_prior_,
            interval,
            nameless=named is None or means_all(named),
            swappable=means_all(named) and self._none_is_scar,
        )

    def _warn_of_units(self, units: Units | None) -> None:
        """Warn that errors were computed from columns that a solver had to centre and scale."""
        if units is None:
            return
        bad = np.flatnonzero((units.shift != 0) | (units.scale != 1))
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(units.scale.size)])
        more = f" and {bad.size - 1} more" if bad.size > 1 else ""
        warn_user(
            f"{type(self).__name__}: column {names[bad[0]]!r}{more} lies farther from 0 than 1e5 times its spread, or "
            "has entries below 1e-100 only. The models were fitted to centred and scaled columns and are right; their "
            "standard errors and intervals are not to be trusted. Scale the columns first, e.g. with "
            "sklearn.preprocessing.StandardScaler.",
            UserWarning,
        )

    def _store_summary(self, log_likelihood: float, positives: float, labelled: float, weight: float) -> None:
        self.log_likelihood_ = log_likelihood
        self.label_frequency_ = labelled / positives
        warn_if_all_labelled(self.label_frequency_, type(self).__name__)
        self.class_prior_ = positives / weight
