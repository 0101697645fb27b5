"""Columns that give the label away."""

import shlex
from typing import Any

import numpy as np

from scarless.models.preparation import MOST_LEVELS

_FEW = 10  # labelled rows, below which chance might tell them apart


def refuse_leaks(X: Any, s: Any) -> None:
    """Raise where a single column gives the label away: its values, or its gaps, are those of the label."""
    for name in X.columns:
        if (how := tells_label(X[name], s)) is not None:
            raise ValueError(
                f"Column {str(name)!r} gives the label away: {how}. A model would only repeat it. Leave it out: "
                f"--exclude {shlex.quote(str(name))} (exclude=[{str(name)!r}])."
            )


def tells_label(values: Any, s: Any) -> str | None:
    """Return how a column tells labelled from unlabelled rows without fail; None where it does not."""
    labelled = s == 1
    missing = values.isna().to_numpy()
    for gone, words in ((missing, "empty"), (~missing, "filled in")):
        if (gone != labelled).sum() == 0 and labelled.sum() >= _FEW:
            return f"it is {words} in all labelled rows and in no others"
    if missing.any() or min(labelled.sum(), (~labelled).sum()) < _FEW:
        return None
    if values.dtype.kind in "fiub":
        numbers = values.to_numpy(dtype=np.float64)
        inside, outside = numbers[labelled], numbers[~labelled]
        if inside.min() > outside.max() or inside.max() < outside.min():
            return "its values in labelled rows lie all on one side of those in the others"
        return None
    text = values.astype(str)
    if text.nunique() > MOST_LEVELS:
        return None
    both = set(text[labelled]) & set(text[~labelled])
    return None if both else "no value of it occurs in labelled and unlabelled rows alike"
