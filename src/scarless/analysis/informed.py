"""What a summary says of audits, looks and facts from elsewhere."""

from typing import Any

import numpy as np

from scarless.analysis.looks import Observed
from scarless.analysis.settings import Settings
from scarless.checks.estimators import innermost
from scarless.checks.looks import check_looks
from scarless.models.looks_facts import looks_facts


def informed_summary(
    model: Any, observed: Observed, features: Any, settings: Settings, weight: Any = None
) -> dict[str, Any]:
    """Return the keys of a summary that only such fits have, in plain values.

    Where labels may be wrong, those that are right are counted by their posteriors. Rows count by their weights.
    """
    facts = looks_facts(model, settings.level)
    assert facts is not None
    given = {} if observed.audit is None else {"audit": observed.audit}
    posterior = model.predict_posterior(features, observed.labels, **given)
    counts = np.ones(len(posterior)) if weight is None else np.asarray(weight, dtype=np.float64)
    right = float((counts * posterior)[observed.s == 1].sum())
    found: dict[str, Any] = {"missing_positives": max(float(model.class_prior_) * float(counts.sum()) - right, 0.0)}
    if observed.audit is not None:
        checked = observed.audit[observed.audited]
        found["audits"] = {"rows": int(checked.size), "positive": int(checked.sum())}
    if settings.looks:
        labels = check_looks(observed.labels, coding=innermost(model).label_coding_, name="labels").labels
        found["looks"] = [
            {
                "column": name,
                "took_place": int((labels[:, k] >= 0).sum()),
                "labels": int((labels[:, k] == 1).sum()),
                "label_frequency": facts.frequencies[k][0],
                "label_frequency_interval": _ends(facts.frequencies[k][1]),
            }
            for k, name in enumerate(settings.looks)
        ]
    if facts.rate_is != "none":
        found["false_positive_rates"] = [
            {"value": value, "interval": _ends(interval), "is": _is(interval, facts)} for value, interval in facts.rates
        ]
    return found


def _is(interval: Any, facts: Any) -> str:
    """Return whether a rate was given or estimated."""
    if facts.rate_is != "estimated in part":
        return str(facts.rate_is)
    return "given" if interval is None else "estimated"


def _ends(interval: Any) -> list[float] | None:
    return None if interval is None else [float(interval.low), float(interval.high)]
