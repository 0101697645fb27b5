"""What `SAREMClassifier` does with several looks, audits, false positives and facts from elsewhere."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from scarless.checks.looks import (
    Codes,
    audit_columns,
    has_several_looks,
    labels_that_count,
    with_counts,
)
from scarless.checks.options import real_number, shown
from scarless.checks.rows import ReadLabels, check_rows, named_values
from scarless.checks.vectors import check_counts, check_weight
from scarless.engines import Engine, attach
from scarless.engines.blocks import Reading, how_to_read
from scarless.models._observed import Looks, LooksReading, LooksRows, attributes_only, by_name, names_several
from scarless.models.base import (
    block_probability,
    in_double,
    warn_if_all_labelled,
    warn_if_all_positive,
)
from scarless.models.summary import FEW_LABELS
from scarless.numerics.arrays import Array, Integers, Vector
from scarless.numerics.interval import Interval
from scarless.numerics.looks_objective import detection_curve
from scarless.numerics.objectives import PairObjective
from scarless.numerics.uncertainty import PairSums
from scarless.outside.notices import warn_user
from scarless.pair.facts import ClassPrior, Fact, LabelFrequency, check_known, in_group
from scarless.pair.fit import PairFit
from scarless.pair.inference import PairInference, disagreements, pair_inference
from scarless.pair.look_doubts import (
    AuditGap,
    BoundGap,
    EnteredFindings,
    LookGap,
    OffsetGap,
    OtherChoice,
    PairGap,
    PriorGap,
    UnsaidRate,
    audit_gap,
    bound_gap,
    entered_findings,
    labels_alone,
    look_gaps,
    offset_gap,
    other_choice,
    pair_gaps,
    prior_gap,
    unsaid_rate,
)
from scarless.pair.optima import HARDLY_LOWER
from scarless.pair.problem import PairProblem

CLAIM_DISAGREES = 2.576  # standard errors between rows and a claim that are worth a warning: 1 in 100 by chance
_LARGEST_RATE = 0.5


WithGroup = Callable[[Engine, str, tuple[int, ...], tuple[Any, ...]], Engine]


class LooksMixin(LooksReading):
    """The half of `SAREMClassifier` that takes more than one label column; its parameters are that class's."""

    C: float
    propensity_C: float
    known: Any
    tol: float | None
    n_starts: int
    _looks: Looks | None = None
    _doubted: tuple[str, ...] = ()  # of labels and audits, before any fit
    _choice_remark: str = ""  # what audit_labels takes for granted
    _misfits: tuple[str, ...] = ()  # of the fit, where all that is claimed of it agrees
    _inference: Any

    _crossed: Any = None

    def _wants_looks(self, X: Any, y: Any, audit: Any) -> bool:
        """Whether a fit has more to go by than one label of each row."""
        rate = self._said.false_positive_rate
        # What is not "keep" is refused where there is no audit.
        kept = isinstance(self._said.audit_labels, str) and self._said.audit_labels == "keep"
        more = audit is not None or not kept or names_several(X, y)
        more = more or bool(check_known(self.known).shares) or bool(self._said.visit_attributes)
        more = more or any(said is not None for said in (self._said.offset, self._said.bounds))
        return more or not (np.ndim(rate) == 0 and real_number(rate) == 0.0) or has_several_looks(y)

    def _fit_looks(
        self, X: Any, y: Any, sample_weight: Any, audit: Any, groups: Integers | None = None, progress: Any = None
    ) -> None:
        """Check, compute, store."""
        X, y, audit = by_name(X, y, audit)
        X = attributes_only(X, y, sample_weight, audit)
        given = self._check_looks_rows(X, y, sample_weight, audit)
        problem = given.problem(self.C, self.propensity_C)
        tol = 1e-10 if self.tol is None else self.tol
        found = self._climb(problem, self.n_starts, tol, progress=progress)
        self._doubt_looks(problem, found.fit, given.labels, given.looks)
        self._store_looks(problem, found.fit, given.looks, found.sums)
        self._account_for(groups, problem.engine)
        if not given.looks.n_audited and problem.totals.labelled < FEW_LABELS:
            self._warn_if_level_is_unknown(float(problem.totals.labelled))

    def _doubt_looks(self, problem: PairProblem, fit: PairFit, labels: Codes, looks: Looks) -> None:
        """Remember where rows contradict what the models, and the user, take for granted."""
        differ: list[str] = []
        if looks.n_looks > 1 and self._said.shared:
            differ = told_of_looks(look_gaps(problem, fit.parameters, labels, looks.kinds), looks.names)
        found = told_of_rate(unsaid_rate(problem, fit, max_iter=self.max_iter))
        if fit.converged:
            found += told_of_bounds(bound_gap(problem, fit, max_iter=self.max_iter))
            found += told_of_offset(offset_gap(problem, fit, max_iter=self.max_iter))
            # Looks that differ, and share a propensity, seem to depend on each other as well.
            if looks.n_looks > 1 and not differ:
                found += told_of_pairs(pair_gaps(problem, fit.parameters, labels, looks.kinds), looks.names)
            if looks.n_looks > 1:
                found += told_of_prior(prior_gap(problem, fit, labels, looks.kinds, max_iter=self.max_iter))
        self._misfits = (*differ, *found)

    def _check_looks_rows(self, X: Any, y: Any, sample_weight: Any, audit: Any) -> LooksRows:
        """Check everything that a fit of logistic models gets, wherever its rows live."""
        X = attributes_only(X, y, sample_weight, audit)
        checked, codes, given = self._read_anywhere(X, y, sample_weight, audit)
        rows = self._check_rows(X, given, sample_weight)
        self._coding, self.classes_ = checked.coding, checked.coding.classes
        self._looks = looks = self._design_looks(X, checked, codes)
        self._refuse_units(rows.engine.units, looks)
        # In float32 a step that moves a share by less than 1e-4 is lost in the objective: facts need the digits.
        reading = Reading(np.dtype(np.float64), rows.engine.units)
        engine = rows.engine.read_as(reading) if check_known(self.known).shares else rows.engine
        if isinstance(given, ReadLabels):
            labels, seen = looks.counts(checked.labels)
            engine = attach(engine, labels=labels, looks=seen, audit=codes)
        else:
            engine = with_counts(engine, looks.objective.n_kinds)
        self._doubted += tuple(audit_columns(engine, codes, getattr(self, "feature_names_in_", None)))
        engine, facts = self._facts(engine, X, looks)
        return LooksRows(rows._replace(engine=engine), checked.labels, codes, looks, facts)

    def _facts(
        self, engine: Engine, X: Any, looks: Looks, with_group: WithGroup | None = None
    ) -> tuple[Engine, tuple[Fact, ...]]:
        """Return what is known from elsewhere, as parts of the objective, and rows that know their groups.

        `with_group` finds a group where the engine does not hold the table itself.
        """
        with_group = _derived_group if with_group is None else with_group
        facts = []
        for number, claim in enumerate(check_known(self.known).shares):
            kind, group = None, None
            if isinstance(claim, LabelFrequency):
                if claim.look >= looks.n_looks:
                    raise ValueError(f"known says {claim.told}, and labels have {looks.n_looks} looks; the first is 0.")
                kind = int(looks.kinds[claim.look])
            elif isinstance(claim, ClassPrior) and claim.where is not None:
                group = f"group {number}"
                columns = tuple(int(self._columns(X, [name], "known")[0]) for name in claim.where)
                engine = with_group(engine, group, columns, tuple(claim.where.values()))
                if not float(engine.total(_block_group, group)[0]) > 0:
                    raise ValueError(f"known says the {claim.told}, and no row is there.")
            facts.append((claim, kind, group))
        return engine, tuple(
            Fact(engine, looks.objective, kind, group, float(claim.value), float(claim.se) ** 2, claim.told)
            for claim, kind, group in facts
        )

    def _observed_again(self, X: Any, y: Any, sample_weight: Any, audit: Any) -> tuple[Engine, tuple[Fact, ...]]:
        """Return the rows of the fit with all that was observed of them, and what is known, for a second look."""
        looks = self._need_looks("looks")
        engine = check_rows(self, X)
        reading = how_to_read(engine)
        exact = reading._replace(dtype=np.dtype(np.float64)) if check_known(self.known).shares else reading
        checked, codes = self._codes_again(X, y, audit, engine.n_rows, "s")
        if int(np.count_nonzero(codes >= 0)) != looks.n_audited:
            raise ValueError(
                f"audit has {np.count_nonzero(codes >= 0)} classes, and the model was fitted with {looks.n_audited}: "
                "give the audits of fit as audit=."
            )
        labels = labels_that_count(checked, codes, self._said.audit_labels)
        counts, seen = looks.counts(labels)
        s, w = (labels == 1).any(axis=1).astype(np.float64), check_counts(sample_weight, n_rows=len(labels))
        rows = {"s": s, "labels": counts, "looks": seen, "audit": codes, "codes": labels, "w": w}
        return self._facts(attach(engine.read_as(exact), **rows), X, looks)

    def _store_looks(self, problem: PairProblem, fit: PairFit, looks: Looks, sums: PairSums | None = None) -> None:
        self._store_linear(fit.f, problem.f)
        self._crossed = None
        self._inference = pair_inference(problem, fit, information=fit.information, sums=sums)
        self._store_history(fit)
        self._warn_of_units(problem.engine.units)
        self._store_looks_found(problem, fit, looks, self._inference)

    def _store_looks_found(self, problem: PairProblem, fit: PairFit, looks: Looks, inference: PairInference) -> None:
        """Store propensities, rates and shares, whatever the classifier is."""
        objective, places = problem.objective, problem.objective.places
        n_models, n_visits = len(objective.models), len(looks.visits)
        coef, visit = np.zeros((n_models, self.n_features_in_)), np.zeros((n_models, n_visits))
        for k in range(n_models):
            beta = fit.parameters[places[1 + k]][:-1]
            coef[k, self._e_columns], visit[k] = beta[: self._e_columns.size], beta[self._e_columns.size :]
        self.propensity_coef_, self.visit_coef_ = coef, visit
        self.propensity_intercept_ = np.array([fit.parameters[place][-1] for place in places[1 : 1 + n_models]])
        self.n_looks_ = looks.n_looks
        self.n_audited_ = looks.n_audited
        self.false_positive_rate_ = self._stored_rate(objective, fit.parameters, looks.kinds)
        self._levels: tuple[Any, ...] = ()
        self._remembered = self._told_of_looks(problem, fit, inference)
        frequencies = [inference.label_frequency_of(int(kind)).value for kind in looks.kinds]
        self.label_frequencies_ = np.array(frequencies)
        self.log_likelihood_ = inference.log_likelihood
        self.label_frequency_ = inference.labelled_positives / inference.positives
        self.class_prior_ = inference.positives / problem.weight
        if looks.n_looks == 1 and not looks.n_audited:
            warn_if_all_labelled(self.label_frequency_, type(self).__name__)
        warn_if_all_positive(self.class_prior_, problem.labelled_share, type(self).__name__)
        for told in self._remembered:
            warn_user(f"{type(self).__name__}: {told}", UserWarning)

    def _stored_rate(self, objective: PairObjective, beta: Vector, kinds: NDArray[np.intp]) -> Any:
        """Return the rate of false positives of every look; one number where all are the same."""
        if objective.false_positives is None:
            return 0.0
        own = [beta[place.start] for place in objective.places[1 + len(objective.models) :]]
        known = objective.false_positives
        logits = [known[kind] if rate is None else own[rate] for kind, rate in enumerate(objective.rates)]
        rates = np.asarray(expit(logits))[kinds]
        return float(rates[0]) if np.ptp(rates) == 0 else rates

    def _told_of_looks(self, problem: PairProblem, fit: PairFit, inference: PairInference) -> tuple[str, ...]:
        """Return what the user has to know of this fit: where rows and claims disagree, where models changed places."""
        told, wrong = list(self._doubted), False
        if problem.exchangeable:
            told.append(
                "both models see the same attributes, and one label of each row does not say which of them is the "
                "classifier; nor does a known share, which holds either way round. A second look does, or 50 to 100 "
                "audits, or naming what drives the labelling."
            )
        for claim, apart in disagreements(problem, fit, max_iter=self.max_iter):
            if apart > CLAIM_DISAGREES:
                wrong = True
                told.append(
                    f"what is known of the {claim} and the rows disagree: they are {apart:.1f} standard errors apart. "
                    "One of them is wrong: the claim, its standard error, or the form of the models."
                )
        if not fit.met:
            told.append("no models of this form keep to what is known as closely as said; give it a larger se.")
        if fit.met and not wrong:
            told += [*self._misfits, *self._told_of_audits(problem, fit)]
            told += told_of_rivals(self._rivals(), inference.class_prior_interval(0.95))
        rates = np.ravel(np.asarray(self.false_positive_rate_, dtype=np.float64))
        frequencies = [inference.label_frequency_of(int(kind)).value for kind in self._looks.kinds]  # type: ignore[union-attr]
        if rates.max() > min(frequencies):
            told.append(
                f"negatives are found to be labelled as often as positives (false-positive rate {rates.max():.2f}, "
                f"label frequency {min(frequencies):.2f}): the looks say little, or the classes have changed places."
            )
        return tuple(told)

    def _rivals(self) -> list[tuple[float, float]]:
        """Return class priors of optima that are nearly as high as the one that was taken, and how far they are behind.

        Of a search, and of a cross-fit, none are known.
        """
        basins = getattr(self, "basins_", [])
        lower = [(basin.class_prior, basin.objective - basins[0].objective) for basin in basins[1:]]
        return [each for each in lower if each[1] < HARDLY_LOWER]

    def _told_of_audits(self, problem: PairProblem, fit: PairFit) -> list[str]:
        """Return what audits and labels say of each other."""
        alone = labels_alone(problem, fit, max_iter=self.max_iter)
        gap = audit_gap(problem, fit, alone)
        other = other_choice(problem, fit, self._said.audit_labels, max_iter=self.max_iter)
        if self._said.audit_labels != "keep":
            self._choice_remark = choice_remark(other, self._said.audit_labels)
        if otherwise := told_of_choice(other, self._said.audit_labels):
            return otherwise
        return told_of_findings(entered_findings(problem, alone), gap) or told_of_audits(gap)

    def _look_probability(self, X: Any, look: int | None) -> Vector:
        """Return the propensity of a look."""
        looks = self._looks
        assert looks is not None
        k = self._look_number(look)
        if self._inference is not None:
            found = self._inference.objective, self._inference.parameters, int(looks.kinds[k])
            return np.asarray(check_rows(self, X).collect(_block_propensity, *found))
        model = min(k, self.propensity_coef_.shape[0] - 1)
        coef = self.propensity_coef_[model].copy()
        for j, columns in enumerate(looks.visits.values()):
            coef[columns[k]] += self.visit_coef_[model, j]
        return self._probability_of(X, coef, float(self.propensity_intercept_[model]))

    def _look_number(self, look: int | None) -> int:
        """Return which look is meant."""
        looks = self._need_looks("look")
        if look is None and looks.objective.n_kinds > 1:
            raise ValueError(
                f"This model has {looks.n_looks} looks with propensities of their own: say which one, look=0 to "
                f"{looks.n_looks - 1}. detection_curve(X) is how many positives have a label after each."
            )
        k = 0 if look is None else look
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or not 0 <= k < looks.n_looks:
            raise ValueError(f"look must be a whole number from 0 to {looks.n_looks - 1}; got {shown(look)}.")
        return int(k)

    def _probability_of(self, X: Any, coef: Vector, intercept: float) -> Vector:
        return np.asarray(check_rows(self, X).collect(block_probability, coef, intercept))

    @staticmethod
    def _refuse_look(look: int | None) -> None:
        if look not in (None, 0):
            raise ValueError(f"look={look!r}, and this model was fitted to one label of each row.")

    @staticmethod
    def _refuse_audit(audit: Any) -> None:
        if audit is not None:
            raise ValueError("audit goes with a model that was fitted with audits; this one was not.")

    def _looks_posterior(self, X: Any, y: Any, audit: Any) -> Vector:
        engine = self._rows_with_looks(X, y, audit)
        return np.asarray(engine.collect(_block_posterior, self._inference.objective, self._inference.parameters))

    def _looks_score(self, X: Any, y: Any, sample_weight: Any) -> float:
        engine = self._rows_with_looks(X, y, None, "y")
        w = check_weight(named_values(X, sample_weight), n_rows=engine.n_rows)
        values = engine.collect(_block_values, self._inference.objective, self._inference.parameters)
        counted = w > 0
        return float(w[counted] @ np.asarray(values)[counted]) / float(w.sum())

    def detection_curve(self, X: Any, n_looks: int | None = None) -> Vector:
        r"""Return the share of positives that have a label after one look, after two, and so on.

        .. math:: \frac{\sum_i f_i \bigl[1 - \prod_{k \le K} (1 - e_{ik})\bigr]}{\sum_i f_i}

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        n_looks : int, optional
            How many looks; more than there were only where all looks have one propensity. None: as many as in `fit`.

        Returns
        -------
        array of shape (n_looks,)
        """
        check_is_fitted(self)
        looks = self._need_looks("detection_curve")
        wanted = looks.n_looks if n_looks is None else n_looks
        if not isinstance(wanted, int | np.integer) or isinstance(wanted, bool) or wanted < 1:
            raise ValueError(f"n_looks must be a whole number of at least 1; got {shown(n_looks)}.")
        if wanted > looks.n_looks and looks.objective.n_kinds > 1:
            raise ValueError(
                f"n_looks={wanted}, and the model was fitted to {looks.n_looks} looks whose propensities differ: "
                "nothing says what that of another would be."
            )
        return self._detection(X, np.resize(looks.kinds, wanted))

    def _detection(self, X: Any, order: NDArray[np.intp]) -> Vector:
        inference = self._inference
        found, positives = check_rows(self, X).total(detection_curve, inference.objective, inference.parameters, order)
        return np.asarray(found / float(positives))

    def _need_looks(self, what: str) -> Looks:
        if self._looks is None:
            raise ValueError(
                f"{what} needs a fit to several looks: labels as a table, one column for each look. This model was "
                "fitted to one label of each row."
            )
        return self._looks


def _derived_group(engine: Engine, name: str, columns: tuple[int, ...], values: tuple[Any, ...]) -> Engine:
    return engine.derive(in_group, name, columns, values, keep=True)


def _block_group(X: Any, rows: Any, group: str) -> tuple[Any]:
    return (np.asarray(rows["w"] @ rows[group]),)


def _block_propensity(X: Any, rows: Any, objective: PairObjective, beta: Vector, kind: int) -> Array:
    return np.asarray(objective.propensity(objective.logit_values(in_double(X), beta)[1 + kind]))


def _block_posterior(X: Any, rows: Any, objective: PairObjective, beta: Vector) -> Array:
    return objective.terms(X, rows, beta).q


def _block_values(X: Any, rows: Any, objective: PairObjective, beta: Vector) -> Array:
    return objective.terms(X, rows, beta).value


AUDITS_DISAGREE = 3.3  # standard errors between audits and models: 1 in 1,000 by chance
_LOOKS_APART, _SHARE_APART = 4.0, 0.1  # of a look that shares a propensity: surely, and by enough to matter
_BY_CHANCE = 0.001  # how often independent looks are said to depend on each other
_CLAIM_APART = 3.0  # standard errors between rows and bounds, or a coefficient of 1: 3 in 1,000 by chance
_PRIOR_APART = 0.05  # of the class prior: a smaller difference matters to nobody, however sure it is
_LOG_GAIN = 3.5  # log-likelihood: the logarithm of the right offset gains as much in fewer than 3 of 100 cases
_FEWEST_FINDINGS = 5  # audited positives with a label, and labels of rows that were not audited
_MISSING = 2.0  # standard errors: positives without a label that audits should have found
_UNLABELLED_SHARE = 0.1  # of audited positives: at most, where findings seem to be entered as labels
_CHOICE_GAIN = 3.0  # log-likelihood, odds of 20: the wrong choice of rows is ahead by it in fewer than 1 of 100 cases
_ON_BOUND = 0.5  # share of positives from which on a bound decides, and not the rows
_OUTSIDE = 0.1  # share of positives: bounds that rows contradict
_NEAR = 0.02  # class priors that are the same for whoever uses them


def told_of_audits(gap: AuditGap | None) -> list[str]:
    """Return that audits found more positives, or fewer, than labels and models allow."""
    if gap is None or abs(gap.apart) < AUDITS_DISAGREE:
        return []
    return [
        f"audits found {gap.found:,.0f} positives where labels and models expect {gap.expected:,.0f}, "
        f"{abs(gap.apart):.1f} standard errors apart. Either the models are of the wrong form, or audits were not "
        "chosen blindly: by what the check would find, or written down only if it found. If chance chose them, "
        "audited_class_prior is right."
    ]


def told_of_findings(found: EnteredFindings | None, gap: AuditGap | None) -> list[str]:
    """Return that the labels of audited rows seem to come from their audits."""
    if found is None or min(found.labelled, found.others) < _FEWEST_FINDINGS or found.missing < _MISSING:
        return []
    few = found.positives - found.labelled <= _UNLABELLED_SHARE * found.positives
    if not few or not (found.apart > AUDITS_DISAGREE or (gap is not None and gap.apart < -AUDITS_DISAGREE)):
        return []
    return [
        f"{found.labelled:,.0f} of the {found.positives:,.0f} audited positives have a label, and audited rows have "
        f"{found.labels:,.0f} labels where {found.expected:,.0f} are expected of such rows. If findings of the audit "
        "were entered as labels, the class prior is too low: use audit_labels='drop' (--audit-labels drop), or 'undo' "
        "where only rows without a label were audited."
    ]


_CHOSEN = {
    "drop": "rows were audited whether or not they had a label",
    "undo": "only rows without a label were audited",
}


def told_of_choice(other: OtherChoice | None, audit_labels: str) -> list[str]:
    """Return that rows seem to be chosen for audits in another way than `audit_labels` says."""
    if other is None or other.gained < _CHOICE_GAIN:
        return []
    instead = _other_of(audit_labels)
    return [
        f"audit_labels={audit_labels!r} says that {_CHOSEN[audit_labels]}, and the rows contradict it: that "
        f"{_CHOSEN[instead]} fits better (log-likelihood higher by {other.gained:.1f}, if the chance to be audited is "
        f"logistic in the attributes). If it was so, use audit_labels={instead!r}; the class prior is then "
        f"{other.class_prior:.2f}."
    ]


def choice_remark(other: OtherChoice | None, audit_labels: str) -> str:
    """Return what `audit_labels` takes for granted of audits, and what the answer would be if it were otherwise."""
    told = f"audit_labels={audit_labels!r} takes for granted that {_CHOSEN[audit_labels]}."
    if other is None:
        return f"{told} If not, the class prior is wrong."
    instead = _other_of(audit_labels)
    if other.gained >= _CHOICE_GAIN:
        shown = "The rows contradict this"
    else:
        shown = (
            "The rows agree with this" if other.gained <= -_CHOICE_GAIN else "The rows do not show whether it was so"
        )
    return f"{told} {shown}. If it was not so, {instead!r} is right, and the class prior is {other.class_prior:.2f}."


def _other_of(audit_labels: str) -> str:
    return "drop" if audit_labels == "undo" else "undo"


def told_of_pairs(gaps: list[PairGap], names: tuple[str, ...]) -> list[str]:
    """Return that two looks depend on each other, by the pair that does most."""
    worst = max(gaps, key=lambda gap: abs(gap.apart), default=None)
    if worst is None or abs(worst.apart) < norm.isf(0.5 * _BY_CHANCE / len(gaps)):
        return []
    one, other = (names[look] for look in worst.looks)
    if worst.apart > 0:
        return [
            f"{one} and {other} agree more often than independent looks would, by {worst.apart:.1f} standard errors. "
            "Either one is partly a copy of the other (leave it out), or rows differ in ways that no attribute "
            "explains, or the models are of the wrong form. In the first two cases the class prior is too low. Audits "
            "of rows without a label tell."
        ]
    return [
        f"{one} and {other} agree less often than independent looks would, by {-worst.apart:.1f} standard errors. If "
        "no second look was made after a label, code it as NaN and not as 0; else the models are of the wrong form."
    ]


def told_of_prior(gap: PriorGap | None) -> list[str]:
    """Return that the class prior of a fit is far from one that does not depend on the class model."""
    if gap is None or abs(gap.apart) < CLAIM_DISAGREES:
        return []
    if abs(gap.by_histories - gap.by_fit) < _PRIOR_APART * gap.by_fit:
        return []
    return [
        f"the class prior is {gap.by_fit:.3f}, and how often labelled rows are labelled again says "
        f"{gap.by_histories:.3f}, whatever the classifier is ({abs(gap.apart):.1f} standard errors apart). Probably "
        "the classifier is of the wrong form, or misses an attribute; or the propensity does. Try another classifier, "
        "as SAREMClassifier(HistGradientBoostingClassifier()), or audit some rows without a label."
    ]


def told_of_bounds(gap: BoundGap | None) -> list[str]:
    """Return that propensities sit on a bound, or that rows speak for others outside of the bounds."""
    if gap is None:
        return []
    if gap.apart > _CLAIM_APART and gap.outside > _OUTSIDE:
        return [
            f"rows contradict the bounds: without them the fit is better by {gap.apart:.1f} standard errors, and "
            f"{gap.outside:.0%} of positives have a propensity outside of them. The class prior is wrong if the "
            "bounds are: leave them out, or widen them."
        ]
    if gap.on_bound >= _ON_BOUND:
        return [
            f"the propensity of {gap.on_bound:.0%} of positives sits on the bound {gap.bound:g} that was given, "
            "so that the bound decides the class prior, and not the rows. Check where the bound comes from, or widen "
            "it."
        ]
    return []


def told_of_offset(gap: OffsetGap | None) -> list[str]:
    """Return that rows speak for a coefficient of the offset other than 1."""
    if gap is None or (gap.apart < _CLAIM_APART and gap.by_log < _LOG_GAIN):
        return []
    remedy = (
        "The offset is added to the logit as it is: give the logarithm of an effort, not the effort. Or name the "
        "column among propensity_attributes, which estimates its coefficient."
    )
    if gap.by_log >= _LOG_GAIN:
        return [
            f"the logarithm of the offset fits better than the offset itself (log-likelihood higher by "
            f"{gap.by_log:.1f}). {remedy}"
        ]
    return [
        f"the coefficient of the offset is taken for 1, and {gap.coefficient:.2g} fits better, "
        f"{gap.apart:.1f} standard errors apart. {remedy}"
    ]


def told_of_looks(gaps: list[LookGap], names: tuple[str, ...]) -> list[str]:
    """Return that looks which share one propensity differ, by the look that differs most."""
    worst = max(gaps, key=lambda gap: abs(gap.apart))
    if abs(worst.apart) < _LOOKS_APART or abs(worst.found - worst.expected) < _SHARE_APART * worst.expected:
        return []
    return [
        f"{names[worst.look]} found {worst.found:,.0f} labels, and {worst.expected:,.0f} are expected if all looks "
        f"share one propensity ({abs(worst.apart):.1f} standard errors): they differ. Use Labelling(shared=False), or "
        "visit_attributes for what differs."
    ]


def told_of_rate(found: UnsaidRate | None) -> list[str]:
    """Return that rows speak for another rate of false positives than the one that was given."""
    if found is None or found.apart < AUDITS_DISAGREE:
        return []
    said = "without false positives" if found.given == 0 else f"with a false-positive rate of {found.given:.3g}"
    return [
        f"labels do not fit {said}: a rate of {found.rate:.3f} fits better, {found.apart:.1f} standard errors apart. "
        "Either it is so, and false_positive_rate='estimate' takes care of it, or the models are of the wrong form."
    ]


def told_of_rivals(rivals: list[tuple[float, float]], interval: Interval) -> list[str]:
    """Return that another optimum, whose class prior is outside of the interval, is about as likely."""
    low, high = interval
    outside = [each for each in rivals if not low - _NEAR <= each[0] <= high + _NEAR]
    if not outside:
        return []
    prior, behind = min(outside, key=lambda each: each[1])
    return [
        f"models with a class prior of {prior:.2f} fit these rows about as well (log-likelihood lower by "
        f"{behind:.1f}), and no interval knows of them. More audits of rows without a label, or more rows with "
        "several looks, tell which are right."
    ]
