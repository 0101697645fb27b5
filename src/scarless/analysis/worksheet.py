"""Worksheets: rows to check, drawn from a folder of results, as a spreadsheet that a person fills in."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scarless.analysis.audit_history import (
    AUDITS,
    CHECKED,
    NO,
    OWN_AUDITS,
    ROW,
    SHEET,
    UNSURE,
    WORKSHEET,
    YES,
    AuditHistory,
    DrawnSheet,
    file_hash,
    read_history,
    row_names,
)
from scarless.analysis.columns import as_pandas, with_texts_read
from scarless.analysis.labels import ANSWERS, PROBABILITY, ObservedLabels, read_observed
from scarless.analysis.settings import MODEL, RUN, SUMMARY, Settings, nearest, read_run
from scarless.checks.options import check_choice, check_whole
from scarless.diagnostics import plan_audit, yield_curve
from scarless.diagnostics.audits.changes import AuditChanges, Round, compare_with_posteriors
from scarless.diagnostics.audits.difference import AuditedClassPrior, class_prior_from_posteriors
from scarless.diagnostics.audits.plan import AuditPlan
from scarless.numerics.arrays import Integers, Mask, Vector
from scarless.numerics.uncertainty import quantile
from scarless.outside.notices import counted
from scarless.outside.table_files import write_table
from scarless.outside.table_writing import write_form
from scarless.raw.table_classifier import with_prepared

PURPOSES = ("prior", "find", "both")
MIN_DRAWN = 10  # checked rows that were drawn at random, for an estimate that does not need the models; by judgement
N_DRAWS = 200  # draws of the posteriors of the rows asked for


@dataclass(frozen=True, eq=False)
class Worksheet:
    """Rows to check, as `draw_worksheet` returns them; prints as text.

    Attributes
    ----------
    table : pandas DataFrame
        The rows, with an empty column ``checked`` and the columns ``inclusion_probability`` and ``worksheet``.
    notes : tuple of str
        How the rows were chosen, and what to expect.
    key : str
        Key of the worksheet, by which its answers are recognised.
    expected_width : float
        Expected width of the interval of the class prior after a fit with the answers; NaN if it is unknown.
    """

    table: Any = field(repr=False)
    notes: tuple[str, ...]
    key: str
    expected_width: float
    history: AuditHistory = field(repr=False)
    folder: Path = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(self.notes)

    def save(self, path: str | Path) -> Path:
        """Write the worksheet, and record its rows in the folder of results.

        Parameters
        ----------
        path : path
            File to write: .xlsx, with locked cells and a list of answers, or a text file such as .csv.

        Returns
        -------
        Path
        """
        place = Path(path)
        if place.exists():
            raise FileExistsError(f"{place} exists, and may contain answers. Choose another name (--out).")
        place.parent.mkdir(parents=True, exist_ok=True)
        before = read_history(self.folder)
        if (before.sheets if before else ()) != self.history.sheets[: len(before.sheets) if before else 0]:
            raise RuntimeError(
                f"Another worksheet was drawn from {self.folder} in the meantime. Draw this worksheet again, so that "
                "no row is asked for twice."
            )
        if place.suffix.lower() == ".xlsx":
            write_form(self.table, place, sheet=SHEET, column=CHECKED, choices=(YES, NO, UNSURE))
        else:
            write_table(self.table, place)
        try:
            self.history.save(self.folder / AUDITS)
        except BaseException:
            place.unlink(missing_ok=True)  # A worksheet without a record could not be read back.
            raise
        return place


def draw_worksheet(
    folder: str | Path,
    n: int = 50,
    *,
    purpose: str = "prior",
    strata: str = "",
    table: Any = None,
    random_state: int | None = None,
) -> Worksheet:
    """Choose rows to check from a folder of results.

    Parameters
    ----------
    folder : path
        Folder of results of `scarless fit`.
    n : int, default=50
        Number of rows.
    purpose : {"prior", "find", "both"}, default="prior"
        "prior": rows that shorten the interval of the share of positives, drawn at random with unequal probabilities.
        "find": the unlabelled rows that rank highest. "both": half of the rows each.
    strata : str, optional
        Column of the table. Each of its groups gets at least 5 rows, if there are enough.
    table : data frame, optional
        The table of the fit. By default, it is read from the file of the fit.
    random_state : int, optional
        Seed of the random numbers. By default, the seed of the fit plus the number of the worksheet.

    Returns
    -------
    Worksheet
        Its rows are recorded only when it is saved.

    See Also
    --------
    scarless.diagnostics.plan_audit : Chooses rows to audit, without files.
    """
    check_choice(purpose, "purpose", PURPOSES)
    n = check_whole(n, "n", at_least=1)
    place = Path(folder)
    return worksheet_of(StoredFit.of(place, table), n, place, purpose=purpose, strata=strata, random_state=random_state)


def worksheet_of(
    fit: "StoredFit",
    n: int,
    folder: Path,
    *,
    purpose: str = "prior",
    strata: str = "",
    designs: Sequence[str] = ("optimal", "random"),
    random_state: int | None = None,
) -> Worksheet:
    """Choose rows to check from a fit, like `draw_worksheet`.

    `folder` will keep the record of the worksheet. Of the `designs`, the first that the model supports is used.
    """
    history = fit.history if fit.history is not None else fit.begin_history()
    if not np.isfinite(history.posterior).all():  # Rows that are new since the first worksheet can be drawn now.
        new = ~np.isfinite(history.posterior)
        history = replace(history, posterior=np.where(new, fit.posterior_without_audits, history.posterior))
    number = len(history.sheets) + 1
    seed = fit.settings.seed + number if random_state is None else check_whole(random_state, "random_state", at_least=0)
    free = ((fit.observed.s == 0) | fit.settings.may_be_wrong) & ~history.asked & (fit.weight > 0)
    if not free.any():
        raise ValueError("No rows are left to check: every row has a label, or an earlier worksheet asked for it.")
    if n > free.sum():
        raise ValueError(
            f"n must be at most {int(free.sum()):,}, the number of rows that can be asked for; got {n}. Rows of "
            "earlier worksheets are not asked for again."
        )
    draw = _Draw(fit, history, free, strata, tuple(designs), np.random.default_rng(seed))
    chosen = draw.choose(n, purpose)
    rows, chance = chosen.rows, chosen.probability
    prior, low, high = fit.class_prior()
    n_answered = int(history.answered.sum())
    sheet = DrawnSheet(number, "", n, purpose, chosen.design, strata, seed, prior, low, high, n_answered)
    key = _key(sheet, rows, fit)
    recorded = history.with_sheet(
        replace(sheet, key=key), rows, chance, fit.posterior_without_audits, draws=fit.draws(rows)
    )
    shown = fit.shown(rows, chance[rows], key)
    return Worksheet(shown, tuple(chosen.notes), key, chosen.expected_width, recorded, folder)


def _key(sheet: DrawnSheet, rows: Integers, fit: "StoredFit") -> str:
    """Return a short text that depends on the fit, the settings and the rows of a worksheet."""
    content = json.dumps([fit.source, fit.settings.to_dict(), str(sheet), rows.tolist()], sort_keys=True)
    return f"{sha256(content.encode()).hexdigest()[:8]}-{sheet.number}"


@dataclass(frozen=True, eq=False)
class StoredFit:
    """A fit that was read from its folder, with its table."""

    model: Any
    settings: Settings
    table: Any
    observed: ObservedLabels
    source: str  # SHA-256 of the file
    summary: dict[str, Any]
    history: AuditHistory | None

    @classmethod
    def of(cls, folder: Path, table: Any = None) -> "StoredFit":
        """Read the model, the settings, the table and the history of worksheets."""
        from scarless.saved import load  # noqa: PLC0415 (an optional package)

        if not (folder / RUN).exists():
            raise FileNotFoundError(
                f"{folder} is not a folder of results: it contains no {RUN}. Name the folder that `scarless fit` wrote."
            )
        run = read_run(folder / RUN)
        source = run.pop("source", {})
        settings = Settings.from_dict(
            {key: value for key, value in run.items() if key not in ("versions", "ranked")}, source=str(folder / RUN)
        )
        if "files" in source:
            raise ValueError(
                "Worksheets need all rows in memory, so they are not available for a folder of Parquet files. Fit a "
                "single file, such as a random sample of the rows."
            )
        replace(settings, audit=settings.audit or ANSWERS)  # Raises if the settings do not allow audits.
        table = _read_source(source, folder) if table is None else as_pandas(table)
        history = read_history(folder)
        if history is not None:
            table, history, notes = history.join(table, source.get("sha256", ""))
            if notes:
                raise ValueError(f"{notes[0]} Fit again, and draw the worksheet from the new results.")
            table = table if settings.audit == ANSWERS else table.drop(columns=ANSWERS)
        settings.check_columns(list(table.columns))
        observed = read_observed(table, settings)
        table, _ = with_texts_read(table, settings.features(list(table.columns)), settings)
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        return cls(load(folder / MODEL), settings, table, observed, source.get("sha256", ""), summary, history)

    @classmethod
    def of_analysis(cls, found: Any) -> "StoredFit":
        """Return the fit of an analysis that was not saved."""
        source = found.source.get("sha256", "")
        return cls(found.model, found.settings, found.table, found.label, source, found._fitted(), found.history)

    @cached_property
    def posterior_without_audits(self) -> Vector:
        """The posterior of each row according to its labels; audited rows as if they had not been audited."""
        return np.asarray(self.prepared_model.predict_posterior(self.features, self.observed.labels))

    @cached_property
    def features(self) -> Any:
        """The columns of the model."""
        return self.table[list(self.model.feature_names_in_)]

    @cached_property
    def prepared_model(self) -> Any:
        """The model, which prepares `features` once for all its methods."""
        return with_prepared(self.model, self.features, self.model.prepare(self.features))

    @property
    def weight(self) -> Vector:
        """The weight of each row; 1 without weights."""
        name = self.settings.sample_weight
        return self.table[name].to_numpy(dtype=np.float64) if name else np.ones(len(self.table))

    @property
    def may_be_swapped(self) -> bool:
        """Whether the two models may be swapped, so that rows are ranked by their probability of a label."""
        return getattr(self.model, "naive_", None) is not None

    def class_prior(self) -> tuple[float | None, float | None, float | None]:
        """Return the estimated class prior and the ends of its interval."""
        low, high = self.summary.get("class_prior_interval") or (None, None)
        return self.summary.get("class_prior"), low, high

    def begin_history(self) -> AuditHistory:
        """Return a history without worksheets; audits of the table are its first entry, as a random sample."""
        names = row_names(self.table, self.settings.id)
        found = AuditHistory.begin(names, self.settings.id, self.source, self.posterior_without_audits)
        audited = self.observed.audited
        if not audited.any():
            return found
        chance = np.zeros(len(names))
        for kind in (self.observed.s == 0, self.observed.s == 1):
            chance[kind] = audited[kind].mean() if kind.any() else 0.0
        n = int(audited.sum())
        own = DrawnSheet(1, "", n, OWN_AUDITS, "random", "", self.settings.seed, *self.class_prior(), n)
        answers = np.where(self.observed.audit[audited] == 1, YES, NO)  # type: ignore[index]
        return found.with_sheet(own, np.flatnonzero(audited), chance, self.posterior_without_audits, answer=answers)

    def draws(self, rows: Integers) -> Any:
        """Return draws of the posteriors of some rows, one line for each row; None if the model has none."""
        labels = self.observed.of(rows).labels
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = self.model.draw_posteriors(
                    self.features.iloc[rows], labels, n_draws=N_DRAWS, random_state=self.settings.seed
                )
        except (AttributeError, TypeError, ValueError):
            return None
        return np.asarray(found, dtype=np.float32).T

    def shown(self, rows: Integers, chance: Vector, key: str) -> Any:
        """Return the columns of a worksheet: those that a person needs, the answers, and how the row was drawn."""
        settings = self.settings
        hidden = {*settings.labels, settings.audit, settings.sample_weight, settings.known_propensity, settings.id}
        taken = [name for name in (CHECKED, PROBABILITY, WORKSHEET, *(() if settings.id else (ROW,)))
                 if name in self.table.columns]  # fmt: skip
        if taken:
            raise ValueError(
                f"The table has a column {taken[0]!r}, which is also a column of every worksheet. Rename it, and fit "
                "again."
            )
        part = self.table.iloc[rows]
        name, values = (settings.id, part[settings.id]) if settings.id else (ROW, rows + 1)
        found = part[[column for column in part.columns if column not in hidden and column != name]].copy()
        found.insert(0, name, values)
        found.insert(1, CHECKED, None)
        found[PROBABILITY] = chance
        found[WORKSHEET] = key
        return found.reset_index(drop=True)


def _read_source(source: dict[str, Any], folder: Path) -> Any:
    """Return the table of a fit; raise if its file is gone or has changed."""
    from scarless.outside.table_files import read_table  # noqa: PLC0415 (an optional package)

    if "file" not in source:
        raise ValueError(f"{folder / RUN} does not name a file. Pass the table of the fit as table=.")
    path = Path(source["file"])
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}, the file of the fit, does not exist. Run this command in the folder in which you ran "
            "`scarless fit`, or restore the file."
        )
    if file_hash(path) != source.get("sha256"):
        raise ValueError(
            f"{path} has changed since the fit. Fit again (scarless fit --config {folder / RUN}), and draw the "
            "worksheet from the new results."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `scarless fit` has shown these warnings.
        return read_table(path, **{key: source[key] for key in ("separator", "encoding", "sheet") if key in source})


# --- the choice of rows


class _Chosen(NamedTuple):
    """Rows in the order of the worksheet, and the probability that this worksheet or an earlier one asked for a row."""

    rows: Integers
    probability: Vector
    design: str
    notes: list[str]
    expected_width: float = np.nan


@dataclass(frozen=True, eq=False)
class _Draw:
    """A draw of rows for one worksheet."""

    fit: StoredFit
    history: AuditHistory
    free: Mask
    strata: str
    designs: tuple[str, ...]
    rng: np.random.Generator

    def choose(self, n: int, purpose: str) -> "_Chosen":
        """Return the rows, the probabilities of all rows, and notes."""
        if purpose == "find":
            if self.strata:
                raise ValueError(
                    "--strata has no effect with --purpose find, which takes the rows that rank highest. Remove it."
                )
            top, ranked_above, notes = self._highest(n)
            before = self.history.probability
            return _Chosen(top, np.where(ranked_above, 1.0, before), "rank", [*notes, _ONLY_RANK])
        if purpose == "prior":
            plan = self._plan(n, self.free)
            rows, width = self.rng.permutation(plan.positions), plan.width_at(n)
            return _Chosen(rows, plan.probability, plan.design, _expectations(plan, n), width)
        top, ranked_above, notes = self._highest(n // 2)
        free = self.free.copy()
        free[top] = False
        plan = self._plan(n - n // 2, free)
        rows = self.rng.permutation(np.r_[top, plan.positions])
        taken = f"{counted(n // 2, 'row is the row that ranks', 'rows are the rows that rank')} highest. "
        split = f"{taken}{counted(n - n // 2, 'row is', 'rows are')} drawn for the share of positives."
        probability, width = np.where(ranked_above, 1.0, plan.probability), plan.width_at(n - n // 2)
        return _Chosen(rows, probability, plan.design, [split, *notes, *_expectations(plan, n - n // 2)], width)

    def _highest(self, n: int) -> tuple[Integers, Mask, list[str]]:
        """Return the rows that rank highest, all rows that rank at least as high, and the expected positives."""
        fit, places = self.fit, np.flatnonzero(self.free & (self.fit.observed.s == 0))
        if n > places.size:
            raise ValueError(
                f"There are {places.size:,} unlabelled rows that can be asked for, but {n:,} are wanted that rank "
                "highest. Use a smaller --n."
            )
        value = fit.posterior_without_audits
        if fit.may_be_swapped:
            value = np.asarray(fit.model.naive_.predict_proba(fit.features)[:, 1])
        top = places[np.argsort(-value[places], kind="stable")[:n]]
        above = (value >= value[top].min()) & (fit.observed.s == 0) if n else np.zeros(value.size, dtype=bool)
        above[self.free] = False  # Of rows with the same value, only the first are taken.
        above[top] = True
        if fit.may_be_swapped:
            return top, above, ["The models may be swapped, so rows are ranked by their probability of a label."]
        given: dict[str, Any] = {"audit": fit.observed.audit, "level": fit.settings.level}
        given["sample_weight"] = np.where(self.history.asked, 0.0, fit.weight)  # Rows of weight 0 are not ranked.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = yield_curve(fit.prepared_model, fit.features, fit.observed.labels, n=n, compare=False, **given)
        except (TypeError, ValueError):  # The model has no standard errors.
            return top, above, []
        return top, above, [found.sentence()]

    def _plan(self, n: int, free: Mask) -> AuditPlan:
        """Return the plan of an audit: the best design for the share of positives, or random rows without draws."""
        fit = self.fit
        options: dict[str, Any] = {"eligible": free, "level": fit.settings.level}
        if self.strata:
            options["by"] = self._column(self.strata)
        if self.history.sheets:  # Rows of a worksheet that is not filled in yet cannot be drawn again either.
            options["pilot_probability"] = self.history.probability
        if fit.observed.audited.any():
            options["pilot"] = fit.observed.audit
        unclear = fit.may_be_swapped or fit.summary.get("class_prior_interval") is None
        for design in ("random",) if unclear else self.designs:
            state = np.random.default_rng(self.rng.integers(2**32))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # The sentences of the plan have the same content.
                    options |= {"design": design, "random_state": state}
                    return plan_audit(fit.prepared_model, fit.features, fit.observed.labels, n, **options)
            except (AttributeError, TypeError, ValueError):  # The model has no draws of posteriors.
                if design == self.designs[-1]:
                    raise
        raise AssertionError

    def _column(self, name: str) -> Any:
        if name not in self.fit.table.columns:
            raise ValueError(f"There is no column {name!r} (--strata).{nearest(name, list(self.fit.table.columns))}")
        return self.fit.table[name]


def _expectations(plan: AuditPlan, n: int) -> list[str]:
    """Return how the rows of a plan were drawn, and the width that the interval of the share of positives will have."""
    kind = "unlabelled rows" if plan.labels_are_certain else "rows"
    how = "with equal probabilities" if plan.design == "random" else _PREFERRED
    lines = [f"{n:,} of {plan.n_open:,} {kind} {'was' if n == 1 else 'were'} drawn at random, {how}."]
    if n == plan.n_open:
        lines = ["The worksheet has every row that can be checked."]
    now, after, other = (100 * each for each in (plan.width_at(0), plan.width_at(n), plan.width_at(n, difference=True)))
    level = f"{100 * plan.level:.6g}%"
    if np.isfinite(now) and not plan.far_off:
        lines.append(
            f"The {level} interval of the share of positives is {now:.1f} percentage points wide now. After these "
            f"checks, expect about {after:.1f} if the models have the right form."
        )
    elif plan.far_off:
        lines.append("The models say little about the share of positives, so its interval cannot be predicted.")
    about = f"about {other:.1f}"
    if plan.far_off:  # The posteriors are no guide: assume the largest variance of a class.
        p = plan.probability[plan.probability > 0]
        worst = quantile(plan.level) * float(np.sqrt(((1.0 - p) / p).sum())) / plan.probability.size
        about = f"up to {100 * min(worst, 1.0):.1f}"
    lines.append(
        f"For the estimate that is valid even if the models are wrong, expect an interval of {about} percentage points."
    )
    return lines


_PREFERRED = "but rows whose class says most about the share of positives are more likely to be drawn"
_ONLY_RANK = (
    "These rows are not a random sample: they say which rows are positive, but little about the number of positives "
    "among the other rows. For that, use --purpose prior or both."
)


# --- what the answers changed


def changes_of(found: Any, history: AuditHistory) -> AuditChanges:
    """Return what the answers of worksheets changed; `found` is the analysis that used the answers."""
    answered, asked = history.answered, history.asked
    chosen = np.array([each.number for each in history.sheets if each.purpose != OWN_AUDITS])
    rows = np.flatnonzero(answered & np.isin(history.sheet, chosen))
    draws = history.draws[(np.cumsum(asked) - 1)[rows]]
    draws = draws[:, np.isfinite(draws).all(axis=0)]
    n_more = history.sheets[-1].n_rows
    difference, why = _difference(found, history)
    return AuditChanges(
        rounds=_rounds(found, history),
        agreement=compare_with_posteriors(
            history.audit[rows],
            history.expected[rows],
            draws=draws if draws.size else None,
            level=found.settings.level,
        ),
        difference=difference,
        why_no_difference=why,
        n_more=n_more,
        width_after=_width_after(found, history, n_more),
        level=found.settings.level,
        fit_differs=found.audits_differ,
        fit_is_doubted=found.warned,
    )


def _rounds(found: Any, history: AuditHistory) -> tuple[Round, ...]:
    """Return the estimates before the first worksheet and after each fit."""
    rounds = [Round(each.n_answered, each.class_prior, each.low, each.high) for each in history.sheets]
    fitted = found._fitted()
    low, high = fitted["class_prior_interval"] or (None, None)
    rounds.append(Round(int(history.answered.sum()), fitted["class_prior"], low, high))
    # Several worksheets that were drawn from one fit have the same estimate.
    return tuple(each for k, each in enumerate(rounds) if not k or each[1:] != rounds[k - 1][1:])


def _difference(found: Any, history: AuditHistory) -> tuple[AuditedClassPrior | None, str]:
    """Return the class prior from the answers and their probabilities, or the reason why there is none."""
    if not np.isfinite(history.posterior).all():
        return None, (
            "The file has rows that could not be drawn when the first worksheet was made, so there is no estimate that "
            "is valid even if the models are wrong."
        )
    at_random = [each.number for each in history.sheets if each.purpose in ("prior", OWN_AUDITS)]
    drawn = history.answered & ((history.probability < 1.0) | np.isin(history.sheet, at_random))
    n_drawn = int(drawn.sum())
    if n_drawn < MIN_DRAWN and history.answered.sum() < 2 * n_drawn:
        return None, (
            f"{counted(n_drawn, 'checked row was', 'checked rows were')} drawn at random. An estimate that is valid "
            f"even if the models are wrong needs at least {MIN_DRAWN}."
        )
    if n_drawn < MIN_DRAWN:
        return None, (
            "Almost all checked rows were chosen by their rank, so the checks say little about the other rows. For an "
            "estimate that is valid even if the models are wrong, use --purpose prior for the next worksheet."
        )
    labels = np.where(np.isfinite(found.subject.codes), found.subject.codes, -1).astype(np.int8)
    audit = np.where(history.answered, history.audit, -1).astype(np.int8)
    chance, weight = history.probability_of_answer, found.subject.weight
    if ((history.probability > 0.0) & (chance <= 0.0) & (weight > 0)).any():
        return None, (
            "Only a worksheet that has no answers yet could ask for some rows, such as the rows that rank highest. So "
            "there is no estimate that is valid even if the models are wrong. Return this worksheet too."
        )
    given = {"probability": chance, "weight": weight, "level": found.settings.level}
    try:
        return class_prior_from_posteriors(history.posterior, labels.reshape(len(audit), -1), audit, **given), ""
    except ValueError as error:
        return None, str(error)


def _width_after(found: Any, history: AuditHistory, n: int) -> float | None:
    """Return the expected width of the interval of the class prior after `n` more audits; None if it is unknown."""
    subject = found.subject
    options: dict[str, Any] = {"pilot": history.audit, "pilot_probability": history.probability}
    options |= {"eligible": ~history.asked & (subject.weight > 0), "level": found.settings.level, "random_state": 0}
    for design in ("optimal", "random"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                plan = plan_audit(subject.inner, subject.prepared, subject.labels, n, design=design, **options)
        except (AttributeError, TypeError, ValueError):  # The model has no draws, or too few rows are left.
            continue
        width = plan.width_at(n)
        return width if np.isfinite(width) else None
    return None
