"""
Is last month's model still right?
==================================

A model was fitted to the patients of one month (simulated data). In the next months, one thing changes at a time: the
patients, the share of ill patients, or the labelling. Which of these changes can be seen, and what should be done?

**Lesson.** Moved columns alone are no reason for a new fit: if labels arrive as often as predicted, the model still
holds. If labels do not, first find out whether the labelling changed, because labels show only the product of two
probabilities.
"""

# %%
# Simulated months
# ----------------
# Illness depends on a marker and on age. Ill patients are diagnosed more often in the city clinic. A month can differ
# from the first in three ways.
import numpy as np
import pandas as pd
from scipy.special import expit

from scarless import SAREMClassifierCV, TableClassifier
from scarless.diagnostics import DriftDisplay, compare_fits, detect_drift


def month(seed, n=4000, older=0.0, odds=1.0, rural=0.3):
    """Return patients, diagnoses and illness; `odds` multiplies the odds of the two classes."""
    rng = np.random.default_rng(seed)
    pool = pd.DataFrame({"marker": rng.normal(size=5 * n), "age": rng.normal(55 + older, 12, size=5 * n).round()})
    pool["clinic"] = rng.choice(["city", "rural"], size=5 * n)
    ill = rng.random(5 * n) < expit(-1 + 2.5 * pool["marker"] + 0.05 * (pool["age"] - 55))
    weight = np.where(ill, odds, 1.0)
    rows = rng.choice(5 * n, n, replace=False, p=weight / weight.sum())
    table, ill = pool.iloc[rows].reset_index(drop=True), ill.to_numpy()[rows]
    seen = rng.random(n) < np.where(table["clinic"] == "city", 0.7, rural)
    return table, (ill & seen).astype(int), ill


table, diagnosed, _ = month(0)
model = TableClassifier(SAREMClassifierCV(propensity_attributes=["clinic"], random_state=0)).fit(table, diagnosed)

# %%
# Four months
# -----------
# `detect_drift` compares the columns with the rows of the fit, and the diagnoses with their predicted number.
changes = {
    "nothing changed": {},
    "older patients": {"older": 6.0},
    "more ill patients": {"odds": 2.5},
    "half the labels in the rural clinic": {"rural": 0.15},
}
found, ill = {}, {}
for number, (name, change) in enumerate(changes.items(), start=1):
    rows, labels, ill[name] = month(number, **change)
    found[name] = detect_drift(model, rows, labels, reference=table)
    print(f"{name}: {found[name].verdict}. {found[name].reason}")

# %%
# Older patients: columns moved, labels as predicted
# --------------------------------------------------
# The age moved. The model predicts the number of diagnoses of these older patients correctly, so it can be used.
DriftDisplay(found["older patients"], part="columns").plot()

# %%
# Without labels, nothing shows whether the model holds for the new patients, of whom it expects more to be ill.
rows, _, _ = month(2, older=6.0)
print(detect_drift(model, rows, reference=table).reason)

# %%
# More ill patients
# -----------------
# There are more diagnoses than predicted. If the labelling is the same, the new labels show how many patients are ill.
changed = found["more ill patients"]
print(changed.finding_on_positives())
print(f"Truth: {ill['more ill patients'].sum():,} ill patients")

# %%
# Half the labels in the rural clinic
# -----------------------------------
# The labels are rarer in one group. Fewer ill patients in the rural clinic would explain this too: the result names
# both explanations.
halved = found["half the labels in the rural clinic"]
print("\n".join(halved.findings_on_labels()))
DriftDisplay(halved).plot()

# %%
# After a new fit
# ---------------
# `compare_fits` shows what a new fit learned: the labelling of the rural clinic changed, and the class did not.
rows, labels, _ = month(4, rural=0.15)
new = TableClassifier(SAREMClassifierCV(propensity_attributes=["clinic"], random_state=0)).fit(rows, labels)
comparison = compare_fits(model, new, rows)
print("\n".join(comparison.sentences()))
comparison.plot()
