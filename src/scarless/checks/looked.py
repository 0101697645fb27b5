"""Models that were fitted with more than one label of each row, in places that know of one."""

from typing import Any

import numpy as np

from scarless.checks.pipelines import innermost


def looks_of(model: Any) -> Any:
    """Return what a fitted model remembers of several looks, audits and facts; None where it had one label of each row.

    Also of one inside a pipeline, a search or a prepared table.
    """
    return getattr(innermost(model), "_looks", None)


def refuse_looks(model: Any, user: str, *, instead: str, even_one: bool = False) -> None:
    """Raise for a model that `user` would misread.

    Where the labels are one look of each row without false positives, audits and facts make the fit better and change
    nothing of what it means: such models are let through unless `even_one`.
    """
    looks = looks_of(model)
    if looks is None or (looks.plain and not even_one):
        return
    raise ValueError(
        f"{user} is for models of one label of each row, and this {type(innermost(model)).__name__} was fitted with "
        f"{looks.told}. {instead}"
    )


def refuse_other_looks(model: Any, s: Any, fit_params: dict[str, Any]) -> None:
    """Raise where labels or audits that a model is to be fitted to again are not of the kind that it was fitted to."""
    looks, shape = looks_of(model), np.shape(s)
    n_looks, n_audited = (1, 0) if looks is None else (looks.n_looks, looks.n_audited)
    if isinstance(s, str):
        return
    if (shape[1] if len(shape) == 2 else 1) != n_looks:
        raise ValueError(
            f"s has the shape {shape}, and the model was fitted to {n_looks} looks; give the labels of its fit."
        )
    if n_audited and fit_params.get("audit") is None:
        raise ValueError(
            f"The model was fitted with {n_audited} audits, and would be fitted again without: pass "
            "fit_params={'audit': audit}."
        )
    if not n_audited and fit_params.get("audit") is not None:
        raise ValueError(
            "fit_params holds audits, and the model was fitted without any; leave them out, or fit it anew."
        )
