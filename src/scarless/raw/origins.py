"""Origins of prepared columns: the raw column from which each prepared column was derived, and its unit.

Encoders make one column for each category, imputers add missing indicators, and scalers change the unit. A coefficient
belongs to a prepared column. This module traces each prepared column back to its raw column, so that a coefficient can
be reported per unit of the raw column.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from scarless.models.summary import Block, Summary
from scarless.raw.preparation import described
from scarless.scale.preparing import FilePreparation
from scarless.scale.raw_columns import DATE, LOG, MISSING, WORDS, RawColumn


class Origin(NamedTuple):
    """Raw column and unit of a prepared column."""

    column: str | None  # name of the raw column; None if unknown
    piece: str = ""  # category, part of a date, "missing", "log" or words; empty for the column itself
    unit: float = 1.0  # raw units per prepared unit: the standard deviation if standardised; NaN if unknown
    words: bool = False  # whether the column is one of several derived from free text, described by `piece`
    date: bool = False  # whether `piece` is a part of a date, such as "year"

    @property
    def label(self) -> str:
        """Raw column and piece, as shown to users."""
        if self.words:
            return f"{self.column}: {self.piece}"
        if self.date or self.piece == LOG:
            return f"{self.piece.replace('_', ' ')} of {self.column}"
        return str(self.column) if not self.piece else f"{self.column} = {self.piece}"

    def scaled(self, factor: float) -> "Origin":
        """Return the origin of this column after division by a factor."""
        return self._replace(unit=self.unit * factor)


def trace_origins(preparation: Any, names: Any, n_out: int | None = None) -> list[Origin] | None:
    """Return the origin of each output column of a fitted preparation.

    Parameters
    ----------
    preparation : fitted transformer, pipeline, "passthrough" or None
        Preparation to trace.
    names : sequence of str
        Names of its input columns.
    n_out : int, optional
        Number of its output columns, as a check.

    Returns
    -------
    list of Origin or None
        None if the columns of a step cannot be traced.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> table = pd.DataFrame({"sex": ["f", "m"]})
    >>> [each.label for each in trace_origins(OneHotEncoder().fit(table), ["sex"])]
    ['sex = f', 'sex = m']
    """
    found = _follow(preparation, [Origin(str(name)) for name in names])
    return None if found is not None and n_out is not None and len(found) != n_out else found


def _follow(step: Any, before: list[Origin]) -> list[Origin] | None:
    """Return the origins after a step; None if they cannot be traced."""
    if step is None or step == "passthrough" or (isinstance(step, FunctionTransformer) and step.func is None):
        return before
    if getattr(step, "keeps_columns", False):
        return before
    if step == "drop":
        return []
    for kind, follow in _STEPS:
        if isinstance(step, kind):
            return follow(step, before)
    if hasattr(step, "words_") and len(before) == 1:
        return _of_words(step, before[0])
    columns = described(step)
    return _of_unknown(step, before) if columns is None else _of_described(step, columns, before)


def _of_pipeline(pipeline: Any, before: list[Origin]) -> list[Origin] | None:
    now: list[Origin] | None = before
    for _, step in pipeline.steps:
        now = None if now is None else _follow(step, now)
    return now


def _of_columns(transformer: Any, before: list[Origin]) -> list[Origin] | None:
    size = max((span.stop for span in transformer.output_indices_.values()), default=0)
    after = [Origin(None, unit=np.nan)] * size
    names = list(getattr(transformer, "feature_names_in_", range(len(before))))
    for name, step, columns in transformer.transformers_:
        span = transformer.output_indices_.get(name, slice(0, 0))
        inner = _follow(step, [before[j] for j in _positions(columns, names)])
        if inner is not None and len(inner) == span.stop - span.start:
            after[span] = inner
    return after


def _positions(columns: Any, names: list[Any]) -> list[int]:
    """Return the positions of the columns that a fitted ColumnTransformer selects."""
    if isinstance(columns, slice):
        ends = [names.index(end) if isinstance(end, str) else end for end in (columns.start, columns.stop)]
        if isinstance(columns.stop, str):
            ends[1] += 1  # a slice of names includes its last one
        return list(range(len(names)))[slice(*ends)]
    given = [columns] if isinstance(columns, str | int) else list(columns)
    if given and all(isinstance(each, bool | np.bool_) for each in given):
        return [j for j, taken in enumerate(given) if taken]
    return [names.index(each) if isinstance(each, str) else int(each) % len(names) for each in given]


def _of_union(union: Any, before: list[Origin]) -> list[Origin] | None:
    parts = [_follow(step, before) for _, step in union.transformer_list]
    return None if any(part is None for part in parts) else [each for part in parts for each in part or []]


def _of_one_hot(encoder: Any, before: list[Origin]) -> list[Origin] | None:
    after = []
    rare = getattr(encoder, "infrequent_categories_", None)
    for j, (origin, categories) in enumerate(zip(before, encoder.categories_, strict=True)):
        infrequent = set() if rare is None or rare[j] is None else set(rare[j])
        shown = [str(each) for each in categories if each not in infrequent] + (["others"] if infrequent else [])
        dropped = None if encoder.drop_idx_ is None else encoder.drop_idx_[j]
        if dropped is not None:
            reference = categories[dropped]
            shown = [each for each in shown if each != ("others" if reference in infrequent else str(reference))]
        after += [Origin(origin.column, category) for category in shown]
    return after


def _of_imputer(imputer: Any, before: list[Origin]) -> list[Origin] | None:
    empty = np.array([value is None or value != value for value in imputer.statistics_])  # noqa: PLR0124 (NaN)
    kept = (
        before if imputer.keep_empty_features else [each for each, gone in zip(before, empty, strict=True) if not gone]
    )
    indicated = [] if imputer.indicator_ is None else imputer.indicator_.features_
    return kept + [Origin(before[j].column, MISSING) for j in indicated]


def _of_scaler(scaler: Any, before: list[Origin]) -> list[Origin] | None:
    scale = np.ones(len(before)) if scaler.scale_ is None else np.asarray(scaler.scale_, dtype=np.float64)
    factors = 1.0 / scale if isinstance(scaler, MinMaxScaler) else scale
    return [each.scaled(float(factor)) for each, factor in zip(before, factors, strict=True)]


def _of_described(step: Any, columns: list[RawColumn], before: list[Origin]) -> list[Origin] | None:
    """Return the origins after a step that describes its columns."""
    by_name = {each.column: each for each in before}
    found: dict[str, Origin] = {}
    for column in columns:
        origin = by_name.get(column.name)
        for out in column.outputs if origin is not None else ():
            of_date = column.kind == DATE and out.piece not in {"", MISSING}
            own = Origin(column.name, out.piece, out.scale, words=column.kind == WORDS, date=of_date)
            found[out.name] = own if out.piece or origin is None else origin.scaled(out.scale)
    names = step.names if isinstance(step, FilePreparation) else map(str, step.get_feature_names_out())
    return [found.get(name, Origin(None, unit=np.nan)) for name in names]


def _of_words(encoder: Any, origin: Origin) -> list[Origin]:
    """Return the origins of columns derived from free text, which have no unit."""
    return [Origin(origin.column, piece, np.nan, words=True) for piece in encoder.words_]


def _of_unknown(step: Any, before: list[Origin]) -> list[Origin] | None:
    """Return the origins after an unknown step that keeps the columns; their units are unknown."""
    n_in, names = getattr(step, "n_features_in_", None), getattr(step, "get_feature_names_out", None)
    if n_in != len(before) or names is None:
        return None
    given = [f"c{j}" for j in range(n_in)]
    own = getattr(step, "feature_names_in_", None)
    try:
        after = list(names(given if own is None else own))
    except (ValueError, TypeError, AttributeError):
        return None
    same = after == (given if own is None else list(own))
    return [each._replace(unit=np.nan) for each in before] if same else None


_STEPS: tuple[tuple[Any, Any], ...] = (
    (Pipeline, _of_pipeline),
    (ColumnTransformer, _of_columns),
    (FeatureUnion, _of_union),
    (OneHotEncoder, _of_one_hot),
    (SimpleImputer, _of_imputer),
    ((StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler), _of_scaler),
)


def in_raw_units(
    found: Summary, names: Iterable[Any], origins: Sequence[Origin], visit_units: Mapping[str, float]
) -> Summary:
    """Return a summary with names and units of the raw columns, if the units are known.

    The first block is the class model. All other blocks are propensity models. Their parameters are in this order:
    columns, visit attributes, intercept.

    Parameters
    ----------
    found : Summary
        Summary with prepared columns.
    names : sequence of str
        Names of the prepared columns.
    origins : sequence of Origin
        Origin of each prepared column.
    visit_units : dict of str to float
        For each visit attribute, the number of raw units in one unit of its prepared columns.
    """
    place = dict(zip((str(name) for name in names), origins, strict=True))
    own = {name: Origin(name, unit=unit) for name, unit in visit_units.items()}
    first, *others = found.blocks
    blocks = [_in_raw_units(first, place, {}), *(_in_raw_units(block, place, own) for block in others)]
    return replace(found, blocks=tuple(blocks))


def _in_raw_units(block: Block, place: dict[str, Origin], visits: dict[str, Origin]) -> Block:
    """Return the parameters of one model with names and units of the raw columns."""
    *names, intercept = block.names
    n_own = len(names) - len(visits)
    of_columns, of_visits = [place[str(name)] for name in names[:n_own]], [visits[name] for name in names[n_own:]]
    origins = [*of_columns, *of_visits, Origin("intercept")]
    known = [origin.column is not None and np.isfinite(origin.unit) for origin in origins]
    shown = [
        origin.label if has_unit else f"{origin.label if origin.words else name} (prepared)"
        for name, origin, has_unit in zip([*names, intercept], origins, known, strict=True)
    ]
    units = np.array([origin.unit if has_unit else 1.0 for origin, has_unit in zip(origins, known, strict=True)])
    return block.renamed(shown, units)
