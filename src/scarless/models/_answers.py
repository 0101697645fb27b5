"""What a classifier made of two models answers: tables, intervals and predictions, of one label or of several looks."""

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from scarless.checks.options import check_share, check_whole
from scarless.checks.rows import check_rows
from scarless.checks.vectors import check_random_stream
from scarless.engines.base import known_rows
from scarless.models._looks import LooksMixin, choice_remark
from scarless.models._observed import Looks
from scarless.models.base import as_given, need_labels
from scarless.models.summary import Block, Summary, few_labels_remarks
from scarless.models.uncertainty import NOT_CONVERGED, StandardErrors
from scarless.numerics.arrays import ArrayLike, Matrix, Vector
from scarless.numerics.interval import Interval
from scarless.numerics.linear import Design
from scarless.pair.inference import PairInference


class LooksSummary(LooksMixin):
    """What a fit says of itself."""

    def _summary_of_looks(self, level: float) -> Summary:
        """Return the table of a fit to several looks."""
        looks, inference = self._need_looks("summary"), self._known_inference()
        z = inference.quantile(level)
        errors, beta, objective = inference.parameter_errors(), inference.parameters, inference.objective
        blocks = [self._block("Classifier: Pr(y=1|x)", self._names(objective.f), beta, errors, objective.places[0], z)]
        shared = len(objective.models) == 1
        for k, place in enumerate(objective.places[1 : 1 + len(objective.models)]):
            title = "Propensity: Pr(s=1|y=1,x)" + ("" if shared else f", {looks.names[k]}")
            blocks.append(self._block(title, self._look_names(looks), beta, errors, place, z))
        sums = inference.sums
        facts = [("Naive share", f"{float(sums.labelled / sums.weight):.3f}")]
        facts.append(("Looks", f"{looks.n_looks} ({float(sums.looks.sum()):,.0f} took place)"))
        audited = f"{float(sums.audits.sum()):,.0f} ({float(sums.audits[0]):,.0f} positive)"
        facts.append(("Audited rows", audited if sums.audits.sum() else "none"))
        if self._said.audit_labels != "keep":
            facts.append(("Their labels", "dropped" if self._said.audit_labels == "drop" else "undone"))
        for kind in range(objective.n_kinds):
            name = "Every look" if objective.n_kinds == 1 else _titled(looks.names[kind])
            frequency = inference.label_frequency_of(kind)
            facts.append((name, _share(frequency.value, inference.interval_of(frequency, level))))
        facts += self._rate_facts(inference, z)
        if objective.bounds is not None:
            facts.append(("Propensity bounds", f"{objective.bounds[0]:g} to {objective.bounds[1]:g} (given)"))
        return Summary(
            title=type(self).__name__,
            level=level,
            n_rows=inference.n_rows,
            weight=float(sums.weight),
            labelled=float(sums.labelled),
            log_likelihood=inference.log_likelihood,
            converged=bool(self.converged_),
            C=inference.C,
            propensity_C=inference.propensity_C,
            class_prior=self.class_prior_,
            class_prior_interval=self.class_prior_interval(level=level),
            label_frequency=self.label_frequency_,
            label_frequency_interval=self.label_frequency_interval(level=level),
            blocks=tuple(blocks),
            remarks=(*self._collinear_remarks(), *self._looks_remarks()),
            extra=tuple(facts),
        )

    def _rate_facts(self, inference: PairInference, z: float) -> list[tuple[str, str]]:
        objective = inference.objective
        if objective.false_positives is None:
            return [("False positives", "none, by assumption")]
        if not objective.n_rates:
            return [("False positives", f"{self._said.false_positive_rate} (given)")]
        errors, found = inference.parameter_errors(), []
        for place in objective.places[1 + len(objective.models) :]:
            centre, error = inference.parameters[place.start], errors[place.start]
            low, high = expit([centre - z * error, centre + z * error])
            found.append(("False positives", _share(float(expit(centre)), Interval(float(low), float(high)))))
        return found

    def _block(self, title: str, names: list[str], beta: Vector, errors: Vector, place: slice, z: float) -> Block:
        return Block.of(title, names, beta[place], errors[place], z)

    def _look_names(self, looks: Looks) -> list[str]:
        return [*self._names(Design.of(self._e_columns))[:-1], *looks.visits, "intercept"]

    def _looks_remarks(self) -> list[str]:
        looks = self._need_looks("summary")
        remarks = [*self._group_remarks(), *(told[0].upper() + told[1:] for told in self._remembered)]
        if self._inference is not None:
            remarks += few_labels_remarks(float(self._inference.sums.labelled))
        if not self.converged_:
            remarks.append(NOT_CONVERGED)
        if looks.n_looks == 2 and not looks.n_audited:
            remarks.append(
                "With two looks and no audit, rows hardly show whether one look is partly a copy of the other: only "
                "the form of the models tells. In a simulation with a copy in 60% of rows the class prior was 0.18 to "
                "0.21 instead of 0.42. A third look, or 50 to 100 audits of rows without a label, show it."
            )
        if looks.n_looks == 1 and looks.objective.false_positives is not None and not looks.objective.n_rates:
            remarks.append(
                "With one look of each row the false-positive rate is taken as given: rows show at most that it is too "
                "high. The class prior depends on it. Audits of labelled rows, or a second look, allow "
                "false_positive_rate='estimate'."
            )
        if looks.objective.bounds is not None:
            remarks.append(
                "Propensity bounds are taken as given, and the class prior depends on them. Rows contradict them only "
                "where the models fit clearly better without."
            )
        if looks.n_looks > 1:
            remarks.append(
                "Looks count as independent given the attributes. Differences between rows that no attribute explains "
                "make the class prior too low, and intervals far too short. goodness_of_fit looks for them; "
                "audited_class_prior is right whatever the models are."
            )
        if looks.n_audited:
            remarks.append(
                "Audits count as chosen by attributes, labels or chance. If positives were more likely to be checked, "
                "or to be reported, the class prior is too high."
            )
            if self._said.audit_labels == "keep":
                remarks.append(
                    "Labels of audited rows count as labelling. If findings of audits were entered as labels, the "
                    "class prior is too low: use audit_labels='drop' or 'undo'."
                )
            else:
                told = self._choice_remark or choice_remark(None, self._said.audit_labels)
                remarks.append(f"Labels of audited rows count as findings of the audits, not as labelling. {told}")
        return remarks


def _share(value: float, interval: Interval) -> str:
    return f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _titled(name: str) -> str:
    return name[0].upper() + name[1:] if name.startswith("look ") else f"Look {name}"


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
        self, X: Any, s: ArrayLike, *, audit: ArrayLike | None = None, level: float = 0.95
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
        s: ArrayLike,
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


class LooksAnswers(LooksUncertainty):
    """The questions that mean more where there were several looks."""

    def predict_posterior(self, X: Any, s: ArrayLike, audit: ArrayLike | None = None) -> Vector:
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
