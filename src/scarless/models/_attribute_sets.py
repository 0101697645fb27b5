"""Sets of attributes that a classifier may see, by name."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from scarless.checks.options import shown
from scarless.numerics.arrays import Columns

WITHOUT = "all but the propensity attributes"


def check_attribute_sets(
    given: Any, e_columns: Columns, n_columns: int, columns_of: Callable[[Any], Columns]
) -> dict[str, Columns]:
    """Return the columns of each set. "auto": all columns, and all but the propensity attributes."""
    if isinstance(given, str) and given == "auto":
        everything = np.arange(n_columns)
        without = np.setdiff1d(everything, e_columns)
        return {"all": everything} | ({WITHOUT: without} if 0 < without.size < n_columns else {})
    named = _named_sets(given)
    sets = {name: columns_of(chosen) for name, chosen in named}
    if len(sets) < len(named):
        names = ", ".join(repr(name) for name, _ in named)
        raise ValueError(f"Each of attribute_sets needs its own name; got {names}. Give a dict with other names.")
    return sets


def _named_sets(given: Any) -> list[tuple[str, Any]]:
    if isinstance(given, Mapping):
        named = [(str(name), chosen) for name, chosen in given.items()]
    else:
        each = [] if isinstance(given, str) or not np.iterable(given) else list(given)
        named = [(_name(i, chosen), chosen) for i, chosen in enumerate(each)]
    if not named:
        raise ValueError(
            "attribute_sets must be 'auto', or a list or dict with at least one set of attributes, each as "
            f"classification_attributes of SAREMClassifier takes them; got {shown(given)}."
        )
    return named


def _name(i: int, chosen: Any) -> str:
    if chosen is None:
        return "all"
    plain = isinstance(chosen, str) or (np.iterable(chosen) and all(isinstance(part, str) for part in chosen))
    return (chosen if isinstance(chosen, str) else ", ".join(chosen)) if plain else f"set {i + 1}"
