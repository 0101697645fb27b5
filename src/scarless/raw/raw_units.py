"""A classifier's summary in the columns and units of the raw table."""

from dataclasses import replace
from typing import Any

import numpy as np

from scarless.models.summary import Block, Summary
from scarless.models.uncertainty import attribute_names
from scarless.raw.origins import Origin
from scarless.raw.visits import VisitColumns


def in_raw_units(found: Summary, estimator: Any, origins: list[Origin], visits: VisitColumns | None) -> Summary:
    """Return a summary whose parameters are those of raw columns, where their units are known.

    The first block is the classifier's; all others are propensity models, which have the visit attributes behind their
    own columns, and before the intercept.
    """
    place = dict(zip((str(name) for name in attribute_names(estimator)), origins, strict=True))
    own = {} if visits is None else {name: Origin(name, unit=scale) for name, scale in visits.scale.items()}
    first, *others = found.blocks
    blocks = [_in_raw_units(first, place, {}), *(_in_raw_units(block, place, own) for block in others)]
    return replace(found, blocks=tuple(blocks))


def _in_raw_units(block: Block, place: dict[str, Origin], visits: dict[str, Origin]) -> Block:
    """Return a model's parameters as those of raw columns."""
    *names, intercept = block.names
    n_own = len(names) - len(visits)
    of_columns, of_visits = [place[str(name)] for name in names[:n_own]], [visits[name] for name in names[n_own:]]
    origins = [*of_columns, *of_visits, Origin("intercept")]
    known = [origin.column is not None and np.isfinite(origin.unit) for origin in origins]
    shown = [
        origin.label if sure else f"{origin.label if origin.words else name} (prepared)"
        for name, origin, sure in zip([*names, intercept], origins, known, strict=True)
    ]
    units = np.array([origin.unit if sure else 1.0 for origin, sure in zip(origins, known, strict=True)])
    return block.renamed(shown, units)
