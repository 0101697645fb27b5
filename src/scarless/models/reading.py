"""Read labels, audits, looks and known values, and convert them to the problem of a fit.

Labels and audits are arrays in memory, or columns of rows in files. A fit to one label for each row has no
`LookModels`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from scarless.checks.labels import LabelCoding
from scarless.checks.looks import (
    AUDIT_LABELS,
    CheckedLooks,
    Codes,
    LookColumns,
    audit_columns,
    check_audit,
    check_looks,
    has_several_looks,
    is_names,
    labels_for_likelihood,
    look_columns,
    read_columns,
    refuse_contradictions,
    warnings_about_audits,
    warnings_about_looks,
    with_any_label,
    with_counts,
    with_labels_for_likelihood,
)
from scarless.checks.options import check_choice, check_counts, check_flag, check_vector, real_number, shown
from scarless.checks.rows import (
    LabelledRows,
    OpenedRows,
    ReadLabels,
    check_rows,
    named_values,
    row_totals,
    warn_about_row_order,
)
from scarless.checks.tables import take_rows
from scarless.engines import Engine, attach, has_own_engine, open_rows
from scarless.engines.base import known_rows
from scarless.engines.blocks import Reading, Units, how_to_read
from scarless.numerics.arrays import Array, Columns
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.pair.constraints import (
    ClassPrior,
    Constraint,
    LabelFrequency,
    Labelling,
    check_known,
    in_group,
    labelling_of,
)
from scarless.pair.crossed import numeric_columns
from scarless.pair.fitted import LookModels
from scarless.pair.heterogeneity import DEVIATIONS, ESTIMATE, MIN_LOOKS_FOR_HETEROGENEITY, SpreadFit
from scarless.pair.logistic import Training, labelled_rows
from scarless.pair.problem import PairProblem, summarise_observations

MAX_FALSE_POSITIVE_RATE = 0.5  # rates must be lower: at this rate, half of the negatives are labelled
# Replaces a false-positive rate of 0 if other looks have false positives, because the logit of 0 is infinite.
_TINY_FALSE_POSITIVE_RATE = 1e-9

WithGroup = Callable[[Engine, str, tuple[int, ...], tuple[Any, ...]], Engine]


class Given(NamedTuple):
    """Checked input of a fit: rows, columns of each model, looks, audits and known values."""

    rows: LabelledRows
    f_columns: Columns
    e_columns: Columns
    looks: LookModels | None = None
    labels: Codes = np.empty((0, 0), dtype=np.int8)
    audit: Codes = np.empty(0, dtype=np.int8)
    constraints: tuple[Constraint, ...] = ()
    doubts: tuple[str, ...] = ()  # messages about implausible labels and audits
    spreads: tuple[SpreadFit, ...] = ()  # fits with other random shifts, if their standard deviation is estimated

    @property
    def is_one_label(self) -> bool:
        """Whether there is one label for each row, without gaps, audits or known values."""
        if self.looks is None:
            return True
        return self.looks.plain and not (self.looks.n_audited or self.constraints or (self.labels < 0).any())

    def of_one_label(self) -> "Given":
        """Return the same rows with one label each, without looks, audits or known values."""
        return Given(self.rows, self.f_columns, self.e_columns)

    def problem(self, C: float, propensity_C: float) -> PairProblem:
        """Return the problem to fit."""
        engine, _, totals = self.rows
        if self.looks is None:
            f, e = Design.of(self.f_columns), Design.of(self.e_columns)
            return PairProblem.of(engine, f, e, C, propensity_C, totals=totals)
        objective = self.looks.objective
        seen = summarise_observations(engine, objective)
        return PairProblem(engine, totals, objective, C, propensity_C, None, self.constraints, seen)


class ReadLooks(NamedTuple):
    """Labels and audits as codes, with messages about both. Labels that came from audits are removed."""

    checked: CheckedLooks
    audit: Codes
    doubts: tuple[str, ...]


def has_more_than_labels(model: Any, X: Any, y: Any, audit: Any, *, on_grid: bool = False) -> bool:
    """Return whether a fit has looks, audits, known values or options of the labelling beyond one label for each row.

    `on_grid`: whether to ignore known values that refer to all rows, because the grid of class priors of a recalibrated
    fit uses them.
    """
    labelling, shares = labelling_of(model), check_known(model.known).shares
    if on_grid:
        shares = tuple(each for each in shares if getattr(each, "where", None) or getattr(each, "look", None))
    # Values of audit_labels other than "keep" also count, so that a later check can refuse them if there are no audits.
    kept = isinstance(labelling.audit_labels, str) and labelling.audit_labels == "keep"
    more = audit is not None or not kept or names_several(X, y) or bool(shares) or bool(labelling.visit_attributes)
    more = more or any(each is not None for each in (labelling.offset, labelling.bounds))
    rate, spread = labelling.false_positive_rate, labelling.heterogeneity
    more = more or isinstance(spread, str) or real_number(spread) != 0.0
    return more or not (np.ndim(rate) == 0 and real_number(rate) == 0.0) or has_several_looks(y)


def read_rows(model: Any, X: Any, y: Any, sample_weight: Any, audit: Any) -> Given:
    """Check the input of a fit of logistic models to looks, audits or known values; rows can be in files."""
    X, y, audit = by_name(X, y, audit)
    X = attributes_only(X, y, sample_weight, audit)
    read, opened = _read_labels_and_audits(model, X, y, sample_weight, audit)
    checked, codes, doubts = read
    rows = model._check_rows(X, opened, sample_weight)
    model._coding, model.classes_ = checked.coding, checked.coding.classes
    looks, f_columns, e_columns = design_looks(model, X, read)
    _refuse_units(rows.engine.units, looks)
    # Known values need float64: in float32, the objective does not change if a share changes by less than 1e-4.
    reading = Reading(np.dtype(np.float64), rows.engine.units)
    engine = rows.engine.read_as(reading) if check_known(model.known).shares else rows.engine
    if isinstance(opened, ReadLabels):
        labels, seen = looks.counts(checked.labels)
        engine = attach(engine, labels=labels, looks=seen, audit=codes)
    else:
        engine = with_counts(engine, looks.objective.n_kinds)
    doubts += tuple(audit_columns(engine, codes, getattr(model, "feature_names_in_", None)))
    engine, constraints = constraints_of(model, engine, X, looks)
    return Given(rows._replace(engine=engine), f_columns, e_columns, looks, checked.labels, codes, constraints, doubts)


def read_table(model: Any, X: Any, y: Any, sample_weight: Any, audit: Any) -> tuple[Training, Training, Given]:
    """Check the input of a cross-fit to looks, audits or known values; rows are in memory.

    Return all rows, the rows with positive weight, and the checked input of the latter.
    """
    read = read_looks(model, X, y, audit)
    everything = model._check_training(X, any_label(read.checked, model.pos_label), sample_weight)
    model._coding, model.classes_ = read.checked.coding, read.checked.coding.classes
    looks, f_columns, e_columns = design_looks(model, X, read)
    counts = np.flatnonzero(everything.weight)
    training = Training(take_rows(everything.X, counts), everything.s[counts], everything.weight[counts])
    codes, audits = read.checked.labels[counts], read.audit[counts]
    labels, seen = looks.counts(codes)
    rows = without_columns(training, model._coding)
    engine = attach(rows.engine, labels=labels, looks=seen, audit=audits)

    def with_group(engine: Engine, name: str, columns: tuple[int, ...], values: tuple[Any, ...]) -> Engine:
        numbers = numeric_columns(training.X, np.array(columns, dtype=np.intp))
        return attach(engine, **in_group(numbers, {}, name, tuple(range(len(columns))), values))  # type: ignore[arg-type]

    engine, constraints = constraints_of(model, engine, X, looks, with_group)
    given = Given(rows._replace(engine=engine), f_columns, e_columns, looks, codes, audits, constraints, read.doubts)
    return everything, training, given


def without_columns(training: Training, coding: LabelCoding) -> LabelledRows:
    """Return rows of an engine with labels and weights only, because the user's estimator reads the table itself."""
    return labelled_rows(training._replace(X=np.empty((training.s.size, 0))), coding)


def _read_labels_and_audits(
    model: Any, X: Any, y: Any, sample_weight: Any, audit: Any
) -> tuple[ReadLooks, ReadLabels | OpenedRows]:
    """Return labels and audits as codes, and for each row whether it has any label."""
    columns, pos_label, labelling = look_columns(X, y, audit), model.pos_label, labelling_of(model)
    if columns is None:
        read = read_looks(model, X, y, audit)
        return read, ReadLabels(any_label(read.checked, pos_label))  # not read again, so warnings appear only once
    engine, checked, codes = read_columns(open_rows(X, columns.all, sample_weight), columns, pos_label=pos_label)
    read = _without_audit_labels(labelling, checked, codes)
    any_label(read.checked, pos_label)
    engine = with_labels_for_likelihood(engine, labelling.audit_labels)
    return read, OpenedRows(with_any_label(engine, _two_values(checked.coding, pos_label)))


def read_looks(model: Any, X: Any, y: Any, audit: Any) -> ReadLooks:
    """Return labels and audits as codes; for a table in files, `y` and `audit` are names of columns."""
    if names_several(X, y):
        names = tuple(y)
        y = np.stack([named_values(X, name, labels=True, gaps=True) for name in names], axis=1)
        checked = check_looks(y, pos_label=model.pos_label)._replace(names=names)
    else:
        checked = check_looks(named_values(X, y, labels=True, gaps=True), pos_label=model.pos_label)
        warn_about_row_order(X, y=y)
    codes = check_audit(
        named_values(X, audit, labels=True, gaps=True), n_rows=len(checked.labels), coding=checked.coding
    )
    warn_about_row_order(X, audit=audit)
    return _without_audit_labels(labelling_of(model), checked, codes)


def _without_audit_labels(labelling: Labelling, checked: CheckedLooks, audit: Codes) -> ReadLooks:
    """Return labels without those that came from audits, with messages about implausible labels and audits.

    Raise if labels and audits contradict each other, or if false-positive rates cannot be estimated.
    """
    labels, how = checked.labels, labelling.audit_labels
    check_choice(how, "audit_labels", AUDIT_LABELS)
    if how != "keep" and not (audit >= 0).any():
        raise ValueError(
            f"audit_labels={how!r} needs audits, and no row was audited. Pass fit(X, s, audit=audit), or use "
            "audit_labels='keep'."
        )
    rates = each_rate(labelling.false_positive_rate)
    if not any(isinstance(each, str) or real_number(each) != 0 for each in rates):
        refuse_contradictions(labels, audit)
    labels = labels_for_likelihood(labels, audit, how)
    if not (labels == 1).any() and (checked.labels == 1).any():
        raise ValueError(
            f"audit_labels={how!r} leaves no label, because all labelled rows were audited. Add labelled rows that "
            "were not audited, or use audit_labels='keep' if the labels do not come from the audits."
        )
    estimated = any(isinstance(each, str) for each in rates)
    if estimated and labels.shape[1] == 1 and not ((labels[:, 0] == 1) & (audit >= 0)).any():
        raise ValueError(
            "false_positive_rate='estimate' needs audits of labelled rows, or a second look, and there are none. Audit "
            "some labelled rows, add a second look, or give the rate as a number."
        )
    doubts = (*warnings_about_looks(labels, checked.names), *warnings_about_audits(labels, audit))
    return ReadLooks(checked._replace(labels=labels), audit, doubts)


# --- the models of several looks


def design_looks(model: Any, X: Any, read: ReadLooks) -> tuple[LookModels, Columns, Columns]:
    """Return the models of all looks, and the columns of class model and propensity model."""
    labelling, n_looks = labelling_of(model), read.checked.labels.shape[1]
    check_flag(labelling.shared, "shared")
    visits, offsets = _visit_columns(model, labelling, X, n_looks), _offset_columns(model, labelling, X, n_looks)
    taken = np.concatenate([np.arange(0), *visits.values(), offsets])
    f_chosen = getattr(model, "classification_attributes", None)  # searches and stacks have attribute_sets instead
    f_columns = model._columns(X, f_chosen, "classification_attributes")
    e_columns = model._columns(X, model.propensity_attributes, "propensity_attributes")
    for chosen, columns, parameter in (
        (f_chosen, f_columns, "classification_attributes"),
        (model.propensity_attributes, e_columns, "propensity_attributes"),
    ):
        named = chosen is not None and not isinstance(chosen, str)
        if named and np.isin(columns, taken).any():
            raise ValueError(
                f"{parameter} has columns that are also visit_attributes or offset of the labelling. Only the "
                f"propensity of their look can use these columns. Remove them from {parameter}."
            )
    f = Design.of(np.setdiff1d(f_columns, taken) if taken.size else f_columns)
    e_columns = np.setdiff1d(e_columns, taken) if taken.size else e_columns
    per_look = [np.concatenate([e_columns, [columns[k] for columns in visits.values()]]) for k in range(n_looks)]
    designs = [Design.of(columns.astype(np.intp)) for columns in per_look]
    one_kind = labelling.shared and not visits and np.unique(offsets).size <= 1
    if one_kind:
        models: tuple[tuple[Design, ...], ...] = ((designs[0],),)
    else:
        models = (tuple(designs),) if labelling.shared else tuple((design,) for design in designs)
    kinds = np.zeros(n_looks, dtype=np.intp) if one_kind else np.arange(n_looks)
    rates = _false_positives(labelling, 1 if one_kind else n_looks, n_looks)
    added = tuple(int(column) for column in offsets[: 1 if one_kind else n_looks]) or None
    spread = _heterogeneity(model, labelling, read.checked.labels)
    objective = LooksLikelihood(f, models, rates, added, check_bounds(labelling.bounds), spread)
    n_audited = int(np.count_nonzero(read.audit >= 0))
    return LookModels(n_looks, read.checked.names, kinds, visits, objective, n_audited), f.indices, e_columns


def _visit_columns(model: Any, labelling: Labelling, X: Any, n_looks: int) -> dict[str, NDArray[np.intp]]:
    """Return the columns of each visit attribute, one for each look."""
    given = labelling.visit_attributes
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ValueError(
            "visit_attributes must be a dict from names to lists of columns, one column for each look, for example "
            f"{{'effort': ['effort_1', 'effort_2']}}; got {shown(given)}."
        )
    found = {}
    for name, columns in given.items():
        if isinstance(columns, str) or not np.iterable(columns):
            raise ValueError(
                f"visit_attributes[{name!r}] must be a list of columns, one for each look; got {shown(columns)}."
            )
        names = list(columns)
        places = [model._columns(X, [column], "visit_attributes") for column in names]
        _refuse_several_columns(names, places, f"visit_attributes[{name!r}]")
        if len(places) != n_looks:
            raise ValueError(
                f"visit_attributes[{name!r}] has {_counted(len(places), 'column')}, but labels have "
                f"{_counted(n_looks, 'look')}. Give one column for each look, in order."
            )
        found[str(name)] = np.concatenate(places).astype(np.intp)
        if n_looks > 1 and np.unique(found[str(name)]).size == 1:
            raise ValueError(
                f"visit_attributes[{name!r}] has the same column for all {n_looks} looks, so it does not differ "
                "between looks. Name this column in propensity_attributes instead; the class model can then use it too."
            )
    return found


def _offset_columns(model: Any, labelling: Labelling, X: Any, n_looks: int) -> NDArray[np.intp]:
    """Return the offset column of each look's propensity; empty if there is none."""
    given = labelling.offset
    if given is None:
        return np.arange(0)
    several = np.iterable(given) and not isinstance(given, str)
    names = list(given) if several else [given]
    columns = [model._columns(X, [column], "offset") for column in names]
    _refuse_several_columns(names, columns, "offset")
    if len(columns) not in (1, n_looks):
        raise ValueError(
            f"offset has {_counted(len(columns), 'column')}, but labels have {_counted(n_looks, 'look')}. Give one "
            "column, or one for each look."
        )
    return np.resize(np.concatenate(columns), n_looks).astype(np.intp)


def _refuse_several_columns(names: Any, places: list[NDArray[np.intp]], parameter: str) -> None:
    """Raise if a name selects several columns, as the name of an encoded attribute does."""
    for name, place in zip(names, places, strict=True):
        if place.size != 1:
            raise ValueError(
                f"{parameter}: {name!r} selects {_counted(place.size, 'column')}. Each entry must select one numeric "
                "column."
            )


def _refuse_units(units: Units | None, looks: LookModels) -> None:
    """Raise if an offset had to be scaled, or if columns of one visit attribute had to be scaled differently.

    The coefficient of an offset is 1, and the columns of a visit attribute share a coefficient.
    """
    offsets = list(looks.objective.offsets or ())
    if units is not None and (units.shift[offsets].any() or (units.scale[offsets] != 1).any()):
        raise ValueError(
            "offset: the column has a mean more than 1e5 standard deviations from 0, or only values below 1e-100. An "
            "offset is added to the logit unchanged. Check the unit of the column."
        )
    if units is None or len(looks.objective.models) > 1:
        return
    for name, columns in looks.visits.items():
        if np.ptp(units.shift[columns]) > 0 or np.ptp(units.scale[columns]) > 0:
            raise ValueError(
                f"visit_attributes[{name!r}] has a column with a mean more than 1e5 standard deviations from 0, or "
                "with only values below 1e-100. First centre and scale all columns of this attribute by the same "
                "numbers."
            )


def _false_positives(labelling: Labelling, n_kinds: int, n_looks: int) -> Any:
    """Return the logits of the false-positive rates, with NaN for rates to estimate.

    Return "shared" or "own" if a single "estimate" is given, and None if all rates are 0.
    """
    rate = labelling.false_positive_rate
    if isinstance(rate, str):
        if rate != "estimate":
            raise ValueError(
                f"false_positive_rate must be a number, one number for each look, or 'estimate'; got {rate!r}."
            )
        return "shared" if labelling.shared else "own"
    is_estimated = [isinstance(each, str) and each == "estimate" for each in each_rate(rate)]
    rates = np.array(
        [0.0 if unknown else real_number(each) for each, unknown in zip(each_rate(rate), is_estimated, strict=True)]
    )
    if not ((rates >= 0) & (rates < MAX_FALSE_POSITIVE_RATE)).all():
        raise ValueError(
            f"false_positive_rate, the share of negatives that get a label, must be in [0, {MAX_FALSE_POSITIVE_RATE}) "
            f"or 'estimate'; got {shown(rate)}."
        )
    if rates.size not in (1, n_looks):
        raise ValueError(
            f"false_positive_rate has {_counted(rates.size, 'number')}, but labels have {_counted(n_looks, 'look')}. "
            "Give one number, or one for each look."
        )
    if not rates.any() and not any(is_estimated):
        return None
    if rates.size > n_kinds and (np.ptp(rates) > 0 or 0 < sum(is_estimated) < len(is_estimated)):
        raise ValueError(
            "false_positive_rate differs between looks, but the looks share one propensity. Use "
            "Labelling(shared=False), or give one rate for all looks."
        )
    known = np.where(is_estimated, np.nan, logit(np.maximum(rates, _TINY_FALSE_POSITIVE_RATE)))
    return np.asarray(np.resize(known, n_kinds))


def _heterogeneity(model: Any, labelling: Labelling, labels: Codes) -> float:
    """Return the given standard deviation of a random shift of a row's propensities; 0 if it is to be estimated."""
    given = labelling.heterogeneity
    estimated = isinstance(given, str) and given == ESTIMATE
    deviation = 0.0 if estimated else real_number(given)
    if not 0.0 <= deviation <= max(DEVIATIONS):
        raise ValueError(
            f"heterogeneity, the standard deviation of the logits of propensities between rows, must be a number from "
            f"0 to {max(DEVIATIONS):g}, or 'estimate'; got {shown(given)}."
        )
    if not estimated and not deviation:
        return 0.0
    if not model._takes_heterogeneity:
        raise ValueError(
            "heterogeneity needs SAREMClassifier with two logistic models: leave estimator and propensity_estimator "
            f"out. It is not available for this {type(model).__name__}."
        )
    needed = MIN_LOOKS_FOR_HETEROGENEITY if estimated else 2
    most = int((labels >= 0).sum(axis=1).max())
    if most < needed:
        raise ValueError(
            f"heterogeneity={given!r} needs at least {needed} looks at some rows, and no row has more than {most}. "
            "With fewer looks, the labels do not show whether rows differ in ways that no column measures. Add looks, "
            "or audit rows that are drawn at random and use audited_class_prior."
        )
    return deviation


def check_bounds(bounds: Any) -> tuple[float, float] | None:
    """Return the bounds of propensities as numbers, or None without bounds.

    Examples
    --------
    >>> check_bounds((0.2, 1)), check_bounds((0, 1))
    ((0.2, 1.0), None)
    """
    if bounds is None:
        return None
    ends = [real_number(each) for each in bounds] if np.iterable(bounds) and not isinstance(bounds, str) else []
    if len(ends) != 2 or not 0.0 <= ends[0] < ends[1] <= 1.0:
        raise ValueError(
            f"bounds must be the lowest and the highest possible propensity, in [0, 1], for example (0.2, 1); got "
            f"{shown(bounds)}."
        )
    return None if ends == [0.0, 1.0] else (ends[0], ends[1])


def each_rate(rate: Any) -> list[Any]:
    """Return false-positive rates as a list; a single rate as a list of one."""
    return list(rate) if np.iterable(rate) and not isinstance(rate, str) else [rate]


# --- known values


def constraints_of(
    model: Any, engine: Engine, X: Any, looks: LookModels, with_group: WithGroup | None = None
) -> tuple[Engine, tuple[Constraint, ...]]:
    """Return rows with an indicator for each group of rows that `known` refers to, and the constraints.

    `with_group` adds the indicator if the engine does not contain the columns of the table.
    """
    with_group = _derived_group if with_group is None else with_group
    found = []
    for number, claim in enumerate(check_known(model.known).shares):
        kind, group = None, None
        if isinstance(claim, LabelFrequency):
            if claim.look >= looks.n_looks:
                raise ValueError(
                    f"known has the {claim.description}, but labels have {_counted(looks.n_looks, 'look')}. Looks are "
                    "numbered from 0."
                )
            kind = int(looks.kinds[claim.look])
            _refuse_impossible(claim, engine, looks, kind)
        elif isinstance(claim, ClassPrior) and claim.where is not None:
            group = f"group {number}"
            columns = tuple(int(model._columns(X, [name], "known")[0]) for name in claim.where)
            engine = with_group(engine, group, columns, tuple(claim.where.values()))
            if not float(engine.total(_block_group, group)[0]) > 0:
                raise ValueError(f"known has the {claim.description}, but no row has these values. Correct where=.")
        elif isinstance(claim, ClassPrior):
            _refuse_fewer_positives_than_labels(claim, engine, looks)
        found.append((claim, kind, group))
    return engine, tuple(
        Constraint(engine, looks.objective, kind, group, float(claim.value), float(claim.se) ** 2, claim.description)
        for claim, kind, group in found
    )


def _refuse_fewer_positives_than_labels(claim: ClassPrior, engine: Engine, looks: LookModels) -> None:
    """Raise if the class prior is lower than the share of labelled rows, all of which are positive."""
    if looks.objective.false_positives is not None:
        return
    totals = row_totals(engine)
    share = totals.labelled_share
    if claim.value + 3.0 * np.sqrt(claim.se**2 + share * (1.0 - share) / totals.weight) < share:
        raise ValueError(
            f"known has the {claim.description}, {claim.value:g}, but {share:.2g} of the rows are labelled. Labelled "
            "rows are positive, so at least this share of the rows is positive. Correct the value, give it a larger "
            "se, or allow for labelled negatives with false_positive_rate."
        )


def _refuse_impossible(claim: LabelFrequency, engine: Engine, looks: LookModels, kind: int) -> None:
    """Raise if more rows are labelled than the label frequency allows, even if all rows are positive."""
    if looks.objective.false_positives is not None:
        return
    labels, examined = (float(each) for each in engine.total(_block_labelled_share, kind))
    share = labels / examined if examined > 0 else 0.0
    if claim.value + 3.0 * np.sqrt(claim.se**2 + share * (1.0 - share) / max(examined, 1.0)) < share:
        raise ValueError(
            f"known has the {claim.description}, {claim.value:g}, but {share:.2g} of the rows are labelled. Labelled "
            "rows are positive, so at least this share of the positives has a label. Correct the value, or give it a "
            "larger se."
        )


def _block_labelled_share(X: Any, rows: Any, kind: int) -> tuple[Any, Any]:
    if "labels" not in rows:
        return rows["w"] @ rows["s"], rows["w"].sum()
    return rows["w"] @ rows["labels"][:, kind], rows["w"] @ rows["looks"][:, kind]


def _derived_group(engine: Engine, name: str, columns: tuple[int, ...], values: tuple[Any, ...]) -> Engine:
    return engine.derive(in_group, name, columns, values, keep=True)


def _block_group(X: Any, rows: Any, group: str) -> tuple[Any]:
    return (np.asarray(rows["w"] @ rows[group]),)


# --- column names and tables in files


def any_label(checked: CheckedLooks, pos_label: Any) -> Array:
    """Return whether each row has a label at any look, as 0 and 1 or, with `pos_label`, in the user's coding."""
    labelled = (checked.labels == 1).any(axis=1)
    if labelled.all():
        raise ValueError(
            f"All {labelled.size} rows have a label at some look, and the fit needs unlabelled rows. Add rows without "
            "any label, or use fewer looks."
        )
    return labelled.astype(np.int64) if pos_label is None else checked.coding.decode(labelled)


def attributes_only(X: Any, *others: Any) -> Any:
    """Return a table in files without the columns of labels, weights and audits."""
    if not has_own_engine(X) or not hasattr(X, "select"):
        return X
    taken = {name for each in others for name in ([each] if isinstance(each, str) else each if is_names(each) else [])}
    return X.select([name for name in X.column_names if name not in taken])


def names_several(X: Any, y: Any) -> bool:
    """Return whether labels are given as a list of column names of a table in files."""
    return has_own_engine(X) and is_names(y)


def by_name(X: Any, y: Any, audit: Any) -> tuple[Any, Any, Any]:
    """Add labels and audits that are Dask collections to the rows; return the rows and the names of the added columns.

    Labels and audits of other types are returned unchanged.
    """
    X = known_rows(X)
    if not hasattr(X, "and_columns") or not any(hasattr(each, "__dask_graph__") for each in (y, audit)):
        return X, y, audit
    added: dict[str, Any] = {}
    for each, role in ((y, "label"), (audit, "audit")):
        if not hasattr(each, "__dask_graph__"):
            continue
        if each.ndim == 2 and hasattr(each, "columns"):
            added |= {str(column): each[column] for column in each.columns}
        else:
            name = str(getattr(each, "name", None) or role)
            added[f"{name} ({role})" if name in added else name] = each
    names = list(added)
    if hasattr(audit, "__dask_graph__"):
        audit = names.pop()
    if hasattr(y, "__dask_graph__"):
        y = names if y.ndim == 2 else names[0]
    return X.and_columns(added), y, audit


def _counted(n: int, what: str) -> str:
    return f"1 {what}" if n == 1 else f"{n} {what}s"


def _two_values(coding: LabelCoding, pos_label: Any) -> tuple[Any, Any]:
    """Return the values of unlabelled and labelled rows, as in `any_label`."""
    if pos_label is None:
        return 0, 1
    return coding.classes[1 - coding.positive], coding.classes[coding.positive]


# --- rows for predictions of a fitted model


def with_observed(
    rows: Engine, X: Any, s: Any, audit: Any, *, coding: LabelCoding, looks: LookModels | None, name: str = "s"
) -> Engine:
    """Return rows with their labels and audits."""
    if looks is None:
        return attach(rows, s=one_label(X, s, coding, rows.n_rows, name))
    labels, codes = codes_again(X, s, audit, rows.n_rows, coding=coding, looks=looks, name=name)
    counts, seen = looks.counts(labels)
    return attach(rows, labels=counts, looks=seen, audit=codes, w=np.ones(rows.n_rows))


def open_observed(model: Any, X: Any, s: Any, audit: Any, looks: LookModels | None, name: str = "s") -> Engine:
    """Return the rows of a table, in memory or in files, with their labels and audits."""
    if looks is not None:
        X, s, audit = by_name(X, s, audit)
        if (columns := look_columns(X, s, audit)) is not None:
            rows = check_rows(model, X, columns.all)
            return _named_looks(rows, columns, name, coding=model.label_coding_, looks=looks)
    return with_observed(check_rows(model, X), X, s, audit, coding=model.label_coding_, looks=looks, name=name)


def one_label(X: Any, s: Any, coding: LabelCoding, n_rows: int, name: str = "s") -> Array:
    """Return one label for each row as 0 and 1."""
    labels = check_vector(coding.encode(named_values(X, s, labels=True), name), name, n_rows=n_rows)
    warn_about_row_order(X, **{name: s})
    return labels


def _named_looks(engine: Engine, columns: LookColumns, name: str, *, coding: LabelCoding, looks: LookModels) -> Engine:
    if len(columns.looks) != looks.n_looks:
        raise ValueError(
            f"{name} has {_counted(len(columns.looks), 'column')}, but the model was fitted to "
            f"{_counted(looks.n_looks, 'look')}. Name one column for each look."
        )
    refuse_other_order(tuple(columns.looks), looks.names, name)
    engine, checked, codes = read_columns(engine, columns, coding=coding, name=name)
    if looks.objective.false_positives is None:
        refuse_contradictions(checked.labels, codes)
    return with_counts(engine, looks.objective.n_kinds).derive(_weights_of_one)


def codes_again(
    X: Any, s: Any, audit: Any, n_rows: int, *, coding: LabelCoding, looks: LookModels, name: str = "s"
) -> tuple[Codes, Codes]:
    """Return labels and audits of rows as codes, for a fitted model."""
    if names_several(X, s):
        s = np.stack([named_values(X, each, labels=True, gaps=True) for each in s], axis=1)
    checked = check_looks(named_values(X, s, labels=True, gaps=True), coding=coding, name=name)
    if checked.labels.shape != (n_rows, looks.n_looks):
        raise ValueError(
            f"{name} has the shape {checked.labels.shape}, but X has {n_rows} rows and the model was fitted to "
            f"{_counted(looks.n_looks, 'look')}. Give one row for each row of X and one column for each look."
        )
    refuse_other_order(checked.names, looks.names, name)
    warn_about_row_order(X, **{name: s})
    codes = check_audit(named_values(X, audit, labels=True, gaps=True), n_rows=n_rows, coding=coding)
    if looks.objective.false_positives is None:
        refuse_contradictions(checked.labels, codes)
    return checked.labels, codes


def fitted_rows(
    model: Any, X: Any, s: Any, sample_weight: Any, audit: Any, looks: LookModels
) -> tuple[Engine, tuple[Constraint, ...]]:
    """Rebuild the rows of a fit with their labels and audits, and the constraints, for diagnostics."""
    engine, labelling = check_rows(model, X), labelling_of(model)
    reading = how_to_read(engine)
    exact = reading._replace(dtype=np.dtype(np.float64)) if check_known(model.known).shares else reading
    checked, codes = codes_again(X, s, audit, engine.n_rows, coding=model.label_coding_, looks=looks)
    if int(np.count_nonzero(codes >= 0)) != looks.n_audited:
        raise ValueError(
            f"audit has {np.count_nonzero(codes >= 0)} audited rows, but the model was fitted with "
            f"{looks.n_audited} audited rows. Pass the audits of the fit as audit=."
        )
    labels = labels_for_likelihood(checked, codes, labelling.audit_labels)
    counts, seen = looks.counts(labels)
    any_found, w = (labels == 1).any(axis=1).astype(np.float64), check_counts(sample_weight, n_rows=len(labels))
    rows = {"s": any_found, "labels": counts, "looks": seen, "audit": codes, "codes": labels, "w": w}
    return constraints_of(model, attach(engine.read_as(exact), **rows), X, looks)


def refuse_other_order(names: tuple[str, ...], known: tuple[str, ...], name: str) -> None:
    """Raise if looks have the names of the fit in another order, because looks are matched by position."""
    if sorted(names) == sorted(known) and names != known:
        raise ValueError(
            f"{name} has the looks {', '.join(names)}, but the fit had them in the order {', '.join(known)}. Looks are "
            f"matched by position: pass {name}[{list(known)}]."
        )


def _weights_of_one(X: Any, rows: Any) -> dict[str, Array]:
    return {"w": np.ones(rows.size)}
