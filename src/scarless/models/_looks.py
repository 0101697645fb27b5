"""What `SAREMClassifier` does with several looks, audits, false positives and facts from elsewhere."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.utils.validation import check_is_fitted

from scarless.checks.looks import (
    CheckedLooks,
    Codes,
    check_audit,
    check_looks,
    has_several_looks,
    refuse_contradictions,
)
from scarless.checks.options import check_flag, real_number, shown
from scarless.checks.row_names import warn_of_row_order
from scarless.checks.rows import LabelledRows, ReadLabels, check_rows, named_values
from scarless.checks.vectors import check_weight
from scarless.engines import Engine, attach, has_own_engine
from scarless.engines.base import known_rows
from scarless.engines.units import Reading, Units
from scarless.models._base import (
    block_probability,
    warn_if_all_labelled,
    warn_if_all_positive,
    warn_unless_converged,
)
from scarless.models._pair import PairClassifier
from scarless.models.summary import Block, Summary, few_labels_remarks
from scarless.models.uncertainty import EXCHANGEABLE, NOT_CONVERGED
from scarless.numerics.arrays import Array, Vector
from scarless.numerics.interval import Interval, quantile
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood, detection_curve
from scarless.outside.notices import warn_user
from scarless.pair.facts import ClassPrior, Fact, LabelFrequency, in_group
from scarless.pair.fit import FitOptions
from scarless.pair.looks import LooksFit, LooksProblem, fit_looks
from scarless.pair.looks_inference import LooksInference, disagreements, looks_inference
from scarless.pair.problem import see_the_same
from scarless.scale.parquet import ParquetRows

_APART = 2.576  # standard errors between rows and a claim that are worth a warning: 1 in 100 by chance
_LARGEST_RATE = 0.5


WithGroup = Callable[[Engine, str, tuple[int, ...], tuple[Any, ...]], Engine]


class Looks(NamedTuple):
    """What a fit to several looks has to remember."""

    n_looks: int
    names: tuple[str, ...]
    kinds: NDArray[np.intp]  # of each look
    visits: dict[str, NDArray[np.intp]]  # the columns of each visit attribute, one for each look
    objective: LooksLikelihood
    n_audited: int

    @property
    def plain(self) -> bool:
        """Whether labels mean what one label of each row does: one look, and none of a negative."""
        return self.n_looks == 1 and self.objective.false_positives is None and not self.visits

    @property
    def told(self) -> str:
        """What the fit had to go by beside one label of each row, in words."""
        parts = [f"{self.n_looks} looks"] if self.n_looks > 1 else []
        parts += ["visit_attributes"] if self.visits else []
        parts += ["false positives"] if self.objective.false_positives is not None else []
        parts += [f"{self.n_audited} audits"] if self.n_audited else []
        return " and ".join(parts) if parts else "facts from elsewhere, or looks that did not take place"

    def counts(self, labels: Codes) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """Return how many labels, and how many looks, each row has of each kind."""
        n_kinds = self.objective.n_kinds
        if n_kinds == labels.shape[1]:
            return np.asarray(labels == 1, dtype=np.int8), np.asarray(labels >= 0, dtype=np.int8)
        # More than 127 looks are beyond the codes' own type.
        found, seen = (np.asarray(each).sum(axis=1, dtype=np.int32) for each in (labels == 1, labels >= 0))
        return found[:, None], seen[:, None]


class LooksRows(NamedTuple):
    """Checked rows with labels at looks and audits, the models, and facts."""

    rows: LabelledRows
    audit: Codes
    looks: Looks
    facts: tuple[Fact, ...]

    def problem(self, C: float, propensity_C: float) -> LooksProblem:
        """Return what is to be fitted."""
        (engine, _, totals), looks = self.rows, self.looks
        sizes = (float(looks.n_audited), looks.n_looks)
        return LooksProblem(engine, totals, looks.objective, C, propensity_C, self.facts, *sizes)


class LooksMixin(PairClassifier):
    """The half of `SAREMClassifier` that takes more than one label column; its parameters are that class's."""

    C: float
    propensity_C: float
    visit_attributes: Any
    shared_propensity: bool
    false_positive_rate: Any
    known: Any
    tol: float | None
    n_starts: int
    _looks: Looks | None = None
    _inference: Any

    def _forget_learners(self) -> None:
        """Forget what a fit of other models left."""
        raise NotImplementedError

    def _wants_looks(self, X: Any, y: Any, audit: Any) -> bool:
        """Whether a fit has more to go by than one label of each row."""
        rate = self.false_positive_rate
        if self.known is not None and not isinstance(self.known, list | tuple):
            raise ValueError(f"known must be a list, as [ClassPrior(0.35, se=0.02)]; got {shown(self.known)}.")
        more = audit is not None or bool(self.known) or bool(self.visit_attributes) or _names_several(X, y)
        return more or not (np.ndim(rate) == 0 and real_number(rate) == 0.0) or has_several_looks(y)

    def _fit_looks(self, X: Any, y: Any, sample_weight: Any, audit: Any, progress: Any = None) -> None:
        """Check, compute, store."""
        X = _attributes_only(known_rows(X), y, sample_weight, audit)
        given = self._check_looks_rows(X, y, sample_weight, audit)
        problem = given.problem(self.C, self.propensity_C)
        tol = 1e-10 if self.tol is None else self.tol
        fit = fit_looks(problem, FitOptions(tol, self.max_iter), n_starts=self.n_starts, progress=progress)
        warn_unless_converged(fit.solution, type(self).__name__, total_weight=problem.weight, tol=tol)
        self._store_looks(problem, fit, given.looks)

    def _check_looks_rows(self, X: Any, y: Any, sample_weight: Any, audit: Any) -> LooksRows:
        """Check everything that a fit of logistic models gets, wherever its rows live."""
        X = _attributes_only(X, y, sample_weight, audit)
        checked, codes = self._read_looks(X, y, audit)
        # Words have been read already: they are told of once.
        rows = self._check_rows(X, ReadLabels(any_label(checked, self.pos_label)), sample_weight)
        self._coding, self.classes_ = checked.coding, checked.coding.classes
        self._looks = looks = self._design_looks(X, checked, codes)
        labels, seen = looks.counts(checked.labels)
        self._refuse_units(rows.engine.units, looks)
        # In float32 a step that moves a share by less than 1e-4 is lost in the objective: facts need the digits.
        reading = Reading(np.dtype(np.float64), rows.engine.units)
        engine = rows.engine.read_as(reading) if self.known else rows.engine
        engine = attach(engine, labels=labels, looks=seen, audit=codes)
        engine, facts = self._facts(engine, X, looks)
        return LooksRows(rows._replace(engine=engine), codes, looks, facts)

    def _read_looks(self, X: Any, y: Any, audit: Any) -> tuple[CheckedLooks, Codes]:
        """Return labels and audits as codes; of a table in files, by the names of their columns."""
        if _names_several(X, y):
            names = tuple(y)
            y = np.stack([named_values(X, name, labels=True, gaps=True) for name in names], axis=1)
            checked = check_looks(y, pos_label=self.pos_label)._replace(names=names)
        else:
            checked = check_looks(named_values(X, y, labels=True, gaps=True), pos_label=self.pos_label)
            warn_of_row_order(X, y=y)
        codes = check_audit(
            named_values(X, audit, labels=True, gaps=True), n_rows=len(checked.labels), coding=checked.coding
        )
        warn_of_row_order(X, audit=audit)
        if not isinstance(self.false_positive_rate, str) and not np.any(self.false_positive_rate):
            refuse_contradictions(checked.labels, codes)
        self._refuse_unknowable(checked.labels, codes)
        return checked, codes

    def _refuse_unknowable(self, labels: Codes, audit: Codes) -> None:
        """Raise where nothing tells false positives from true ones."""
        estimated = any(isinstance(each, str) for each in _listed(self.false_positive_rate))
        if estimated and labels.shape[1] == 1 and not ((labels[:, 0] == 1) & (audit >= 0)).any():
            raise ValueError(
                "false_positive_rate='estimate' with one look of each row: only audits of labelled rows tell false "
                "positives from true ones, and there are none. Audit some labelled rows, add a second look, or give "
                "the rate as a number."
            )

    def _design_looks(self, X: Any, checked: CheckedLooks, audit: Codes) -> Looks:
        """Return the models: what each sees, at each look."""
        check_flag(self.shared_propensity, "shared_propensity")
        n_looks = checked.labels.shape[1]
        visits = self._visit_columns(X, n_looks)
        taken = np.concatenate([np.arange(0), *visits.values()])
        f_chosen = getattr(self, "classification_attributes", None)  # a search has sets of them
        f_columns = self._columns(X, f_chosen, "classification_attributes")
        e_columns = self._columns(X, self.propensity_attributes, "propensity_attributes")
        for chosen, columns, parameter in (
            (f_chosen, f_columns, "classification_attributes"),
            (self.propensity_attributes, e_columns, "propensity_attributes"),
        ):
            named = chosen is not None and not isinstance(chosen, str)
            if named and np.isin(columns, taken).any():
                raise ValueError(
                    f"{parameter} names columns that are visit_attributes too; these belong to single looks, and are "
                    "seen by the propensity of their look only."
                )
        f = Design.of(np.setdiff1d(f_columns, taken) if taken.size else f_columns)
        e_columns = np.setdiff1d(e_columns, taken) if taken.size else e_columns
        per_look = [np.concatenate([e_columns, [columns[k] for columns in visits.values()]]) for k in range(n_looks)]
        designs = [Design.of(columns.astype(np.intp)) for columns in per_look]
        one_kind = self.shared_propensity and not visits
        if one_kind:
            models: tuple[tuple[Design, ...], ...] = ((designs[0],),)
        else:
            models = (tuple(designs),) if self.shared_propensity else tuple((design,) for design in designs)
        kinds = np.zeros(n_looks, dtype=np.intp) if one_kind else np.arange(n_looks)
        self._f_columns, self._e_columns = f.indices, e_columns
        objective = LooksLikelihood(f, models, self._false_positives(1 if one_kind else n_looks, n_looks))
        n_audited = int(np.count_nonzero(audit >= 0))
        return Looks(n_looks, checked.names, kinds, visits, objective, n_audited)

    def _visit_columns(self, X: Any, n_looks: int) -> dict[str, NDArray[np.intp]]:
        given = self.visit_attributes
        if given is None:
            return {}
        if not isinstance(given, dict):
            raise ValueError(
                f"visit_attributes must be a dict of names and columns, one column for each look, as "
                f"{{'effort': ['effort_1', 'effort_2']}}; got {shown(given)}."
            )
        found = {}
        for name, columns in given.items():
            if isinstance(columns, str) or not np.iterable(columns):
                raise ValueError(
                    f"visit_attributes[{name!r}] must be a list of columns, one for each look; got {shown(columns)}."
                )
            places = [self._columns(X, [column], "visit_attributes") for column in columns]
            if len(places) != n_looks or any(place.size != 1 for place in places):
                raise ValueError(
                    f"visit_attributes[{name!r}] has {len(places)} columns, and labels have {n_looks} looks: give one "
                    "column for each look, in their order."
                )
            found[str(name)] = np.concatenate(places).astype(np.intp)
        return found

    def _refuse_units(self, units: Units | None, looks: Looks) -> None:
        """Raise where columns of one visit attribute would be centred and scaled apart: they share a coefficient."""
        if units is None or len(looks.objective.e) > 1:
            return
        for name, columns in looks.visits.items():
            if np.ptp(units.shift[columns]) > 0 or np.ptp(units.scale[columns]) > 0:
                raise ValueError(
                    f"visit_attributes[{name!r}] holds a column that lies farther from 0 than 1e5 times its spread, or "
                    "has entries below 1e-100 only. Centre and scale all of its columns by the same numbers first."
                )

    def _false_positives(self, n_kinds: int, n_looks: int) -> Any:
        rate = self.false_positive_rate
        if isinstance(rate, str):
            if rate != "estimate":
                raise ValueError(
                    f"false_positive_rate must be a number, one for each look, or 'estimate'; got {rate!r}."
                )
            return "shared" if self.shared_propensity else "own"
        open_ones = [isinstance(each, str) and each == "estimate" for each in _listed(rate)]
        rates = np.array(
            [0.0 if sure else real_number(each) for each, sure in zip(_listed(rate), open_ones, strict=True)]
        )
        if not ((rates >= 0) & (rates < _LARGEST_RATE)).all():
            raise ValueError(
                f"false_positive_rate must lie in [0, {_LARGEST_RATE}): the share of negatives that a look labels; got "
                f"{shown(rate)}."
            )
        if rates.size not in (1, n_looks):
            raise ValueError(
                f"false_positive_rate has {rates.size} numbers, and labels have {n_looks} looks: give one, or one for "
                "each."
            )
        if not rates.any() and not any(open_ones):
            return None
        if rates.size > n_kinds and (np.ptp(rates) > 0 or 0 < sum(open_ones) < len(open_ones)):
            raise ValueError(
                "false_positive_rate differs between looks that share one propensity and no visit attribute. Use "
                "shared_propensity=False."
            )
        # A rate of 0 beside others: less than one in 10^9 labels.
        known = np.where(open_ones, np.nan, logit(np.maximum(rates, 1e-9)))
        return np.asarray(np.resize(known, n_kinds))

    def _facts(
        self, engine: Engine, X: Any, looks: Looks, with_group: WithGroup | None = None
    ) -> tuple[Engine, tuple[Fact, ...]]:
        """Return what is known from elsewhere, as parts of the objective, and rows that know their groups.

        `with_group` finds a group where the engine does not hold the table itself.
        """
        with_group = _derived_group if with_group is None else with_group
        facts = []
        for number, claim in enumerate(self.known or ()):
            kind, group = None, None
            if isinstance(claim, LabelFrequency):
                if claim.look >= looks.n_looks:
                    raise ValueError(f"known says {claim.told}, and labels have {looks.n_looks} looks; the first is 0.")
                kind = int(looks.kinds[claim.look])
            elif isinstance(claim, ClassPrior):
                if claim.where is not None:
                    group = f"group {number}"
                    columns = tuple(int(self._columns(X, [name], "known")[0]) for name in claim.where)
                    engine = with_group(engine, group, columns, tuple(claim.where.values()))
                    if not float(engine.total(_block_group, group)[0]) > 0:
                        raise ValueError(f"known says the {claim.told}, and no row is there.")
            else:
                raise ValueError(f"known must hold ClassPrior(...) and LabelFrequency(...) only; got {shown(claim)}.")
            facts.append((claim, kind, group))
        return engine, tuple(
            Fact(engine, looks.objective, kind, group, float(claim.value), float(claim.se) ** 2, claim.told)
            for claim, kind, group in facts
        )

    def _store_looks(self, problem: LooksProblem, fit: LooksFit, looks: Looks) -> None:
        objective = problem.objective
        self._store_linear(fit.beta[objective.places[0]], objective.f)
        self._forget_learners()
        self._inference = looks_inference(problem, fit)
        self.n_iter_, self.converged_ = fit.solution.n_iter, fit.converged
        self.history_ = {"objective": np.array([at.value for at in fit.solution.history])}
        self._warn_of_units(problem.engine.units)
        self._store_looks_found(problem, fit, looks, self._inference)

    def _store_looks_found(self, problem: LooksProblem, fit: LooksFit, looks: Looks, inference: LooksInference) -> None:
        """Store propensities, rates and shares, whatever the classifier is."""
        objective, places = problem.objective, problem.objective.places
        n_models, n_visits = len(objective.e), len(looks.visits)
        coef, visit = np.zeros((n_models, self.n_features_in_)), np.zeros((n_models, n_visits))
        for k in range(n_models):
            beta = fit.beta[places[1 + k]][:-1]
            coef[k, self._e_columns], visit[k] = beta[: self._e_columns.size], beta[self._e_columns.size :]
        self.propensity_coef_, self.visit_coef_ = coef, visit
        self.propensity_intercept_ = np.array([fit.beta[place][-1] for place in places[1 : 1 + n_models]])
        self.n_looks_ = looks.n_looks
        self.n_audited_ = looks.n_audited
        self.false_positive_rate_ = self._stored_rate(objective, fit.beta, looks.kinds)
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

    def _stored_rate(self, objective: LooksLikelihood, beta: Vector, kinds: NDArray[np.intp]) -> Any:
        """Return the rate of false positives of every look; one number where all are the same."""
        if objective.false_positives is None:
            return 0.0
        own = [beta[place.start] for place in objective.places[1 + len(objective.e) :]]
        known = objective.false_positives
        logits = [known[kind] if rate is None else own[rate] for kind, rate in enumerate(objective.rates)]
        rates = np.asarray(expit(logits))[kinds]
        return float(rates[0]) if np.ptp(rates) == 0 else rates

    def _told_of_looks(self, problem: LooksProblem, fit: LooksFit, inference: LooksInference) -> tuple[str, ...]:
        """Return what the user has to know of this fit: where rows and claims disagree, where models changed places."""
        told = []
        if problem.exchangeable:
            told.append(
                "both models see the same attributes, and one label of each row does not say which of them is the "
                "classifier; nor does a known share, which holds either way round. A second look does, or 50 to 100 "
                "audits, or naming what drives the labelling."
            )
        for claim, apart in disagreements(problem, fit, max_iter=self.max_iter):
            if apart > _APART:
                told.append(
                    f"what is known of the {claim} and the rows disagree: they are {apart:.1f} standard errors apart. "
                    "One of them is wrong: the claim, its standard error, or the form of the models."
                )
        if not fit.met:
            told.append("no models of this form keep to what is known as closely as said; give it a larger se.")
        rates = np.ravel(np.asarray(self.false_positive_rate_, dtype=np.float64))
        frequencies = [inference.label_frequency_of(int(kind)).value for kind in self._looks.kinds]  # type: ignore[union-attr]
        if rates.max() > min(frequencies):
            told.append(
                f"negatives are found to be labelled as often as positives (false-positive rate {rates.max():.2f}, "
                f"label frequency {min(frequencies):.2f}): the looks say little, or the classes have changed places."
            )
        return tuple(told)

    def _look_probability(self, X: Any, look: int | None) -> Vector:
        """Return the propensity of a look."""
        looks = self._looks
        assert looks is not None
        k = self._look_number(look)
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

    def _rows_with_looks(self, X: Any, y: Any, audit: Any, name: str = "s") -> Engine:
        """Return rows with labels, looks and audits, for a fitted model."""
        engine = check_rows(self, X)
        labels, seen, codes = self._looks_again(X, y, audit, engine.n_rows, name)
        return attach(engine, labels=labels, looks=seen, audit=codes, w=np.ones(engine.n_rows))

    def _looks_again(self, X: Any, y: Any, audit: Any, n_rows: int, name: str) -> tuple[Array, Array, Codes]:
        """Return labels and looks, by their kinds, and audits of rows, for a fitted model."""
        looks = self._looks
        assert looks is not None
        if _names_several(X, y):
            y = np.stack([named_values(X, each, labels=True, gaps=True) for each in y], axis=1)
        checked = check_looks(named_values(X, y, labels=True, gaps=True), coding=self._coding, name=name)
        if checked.labels.shape != (n_rows, looks.n_looks):
            raise ValueError(
                f"{name} has the shape {checked.labels.shape}; the model was fitted to {looks.n_looks} looks, and X "
                f"has {n_rows} rows: give one line for each row, one column for each look."
            )
        warn_of_row_order(X, **{name: y})
        codes = check_audit(named_values(X, audit, labels=True, gaps=True), n_rows=n_rows, coding=self._coding)
        if looks.objective.false_positives is None:
            refuse_contradictions(checked.labels, codes)
        return *looks.counts(checked.labels), codes

    def _looks_posterior(self, X: Any, y: Any, audit: Any) -> Vector:
        engine = self._rows_with_looks(X, y, audit)
        return np.asarray(engine.collect(_block_posterior, self._inference.likelihood, self._inference.parameters))

    def _looks_score(self, X: Any, y: Any, sample_weight: Any) -> float:
        engine = self._rows_with_looks(X, y, None, "y")
        w = check_weight(named_values(X, sample_weight), n_rows=engine.n_rows)
        values = engine.collect(_block_values, self._inference.likelihood, self._inference.parameters)
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
        found, positives = check_rows(self, X).total(detection_curve, inference.likelihood, inference.parameters, order)
        return np.asarray(found / float(positives))

    def _need_looks(self, what: str) -> Looks:
        if self._looks is None:
            raise ValueError(
                f"{what} needs a fit to several looks: labels as a table, one column for each look. This model was "
                "fitted to one label of each row."
            )
        return self._looks

    def _summary_of_looks(self, level: float) -> Summary:
        """Return the table of a fit to several looks."""
        looks, inference, z = self._need_looks("summary"), self._known_inference(), quantile(level)
        assert isinstance(inference, LooksInference)
        errors, beta, objective = inference.parameter_errors(), inference.parameters, inference.likelihood
        blocks = [self._block("Classifier: Pr(y=1|x)", self._names(objective.f), beta, errors, objective.places[0], z)]
        shared = len(objective.e) == 1
        for k, place in enumerate(objective.places[1 : 1 + len(objective.e)]):
            title = "Propensity: Pr(s=1|y=1,x)" + ("" if shared else f", {looks.names[k]}")
            blocks.append(self._block(title, self._look_names(looks), beta, errors, place, z))
        sums = inference.looks_sums
        facts = [("Naive share", f"{float(sums.labelled / sums.weight):.3f}")]
        facts.append(("Looks", f"{looks.n_looks} ({float(sums.looks.sum()):,.0f} took place)"))
        audited = f"{float(sums.audits.sum()):,.0f} ({float(sums.audits[0]):,.0f} positive)"
        facts.append(("Audited rows", audited if sums.audits.sum() else "none"))
        for kind in range(objective.n_kinds):
            name = "Every look" if objective.n_kinds == 1 else _titled(looks.names[kind])
            frequency = inference.label_frequency_of(kind)
            facts.append((name, _share(frequency.value, inference.interval_of(frequency, level))))
        facts += self._rate_facts(inference, z)
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

    def _rate_facts(self, inference: LooksInference, z: float) -> list[tuple[str, str]]:
        objective = inference.likelihood
        if objective.false_positives is None:
            return [("False positives", "none, by assumption")]
        if not objective.n_rates:
            return [("False positives", f"{self.false_positive_rate} (given)")]
        errors, found = inference.parameter_errors(), []
        for place in objective.places[1 + len(objective.e) :]:
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
        remarks = [told[0].upper() + told[1:] for told in self._remembered]
        remarks += few_labels_remarks(float(self._inference.sums.labelled))
        if not self.converged_:
            remarks.append(NOT_CONVERGED)
        if looks.n_looks == 1 and not looks.n_audited and see_the_same(looks.objective.f, looks.objective.e[0][0]):
            remarks.append(EXCHANGEABLE)
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
        return remarks


def _listed(rate: Any) -> list[Any]:
    """Return rates one by one; a single one stands for all."""
    return list(rate) if np.iterable(rate) and not isinstance(rate, str) else [rate]


def any_label(checked: CheckedLooks, pos_label: Any) -> Array:
    """Return, 0 or 1 or in the user's own coding, whether a row has a label at any of its looks."""
    labelled = (checked.labels == 1).any(axis=1)
    if labelled.all():
        raise ValueError(
            f"Each of the {labelled.size} rows has a label at some look. What an unlabelled row is like cannot be "
            "learned then: give rows without any label too, or fewer looks."
        )
    return labelled.astype(np.int64) if pos_label is None else checked.coding.decode(labelled)


def _share(value: float, interval: Interval) -> str:
    return f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _titled(name: str) -> str:
    return name[0].upper() + name[1:] if name.startswith("look ") else f"Look {name}"


def _names_several(X: Any, y: Any) -> bool:
    """Whether labels are named columns of a table whose rows live elsewhere."""
    return has_own_engine(X) and _is_names(y)


def _attributes_only(X: Any, *others: Any) -> Any:
    """Return a table whose rows live elsewhere without the columns that are labels, weights or audits."""
    if not has_own_engine(X) or not hasattr(X, "select"):
        return X
    if not isinstance(X, ParquetRows):
        raise TypeError(
            f"Several looks, audits, false positives and known facts of {type(X).__name__} are not read so far. Write "
            "the table into Parquet files, and pass scarless.scale.ParquetRows(folder)."
        )
    taken = {name for each in others for name in ([each] if isinstance(each, str) else each if _is_names(each) else [])}
    return X.select([name for name in X.plan(None, None, raw=True).names if name not in taken])


def _is_names(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(name, str) for name in values)


def _derived_group(engine: Engine, name: str, columns: tuple[int, ...], values: tuple[Any, ...]) -> Engine:
    return engine.derive(in_group, name, columns, values, keep=True)


def _block_group(X: Any, rows: Any, group: str) -> tuple[Any]:
    return (np.asarray(rows["w"] @ rows[group]),)


def _block_posterior(X: Any, rows: Any, objective: LooksLikelihood, beta: Vector) -> Array:
    return objective.terms(X, rows, beta).q


def _block_values(X: Any, rows: Any, objective: LooksLikelihood, beta: Vector) -> Array:
    return objective.terms(X, rows, beta).value
