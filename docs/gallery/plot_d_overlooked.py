"""
Whom does the labelling overlook?
=================================

Two clinics treat similar patients, but one of them tests fewer of its patients (simulated data). Which share of the
ill patients has no diagnosis in each clinic? And does a classifier work equally well in both?

**Lesson.** If unlabelled rows are counted as negatives, a classifier seems to be imprecise in the clinic that tests
fewer patients. The propensity corrects this comparison, and shows how many ill patients each clinic overlooks.
"""

# %%
# Simulated patients
# ------------------
# Illness depends on two measurements and not on the clinic. An ill patient of the city clinic is diagnosed with a
# probability of 70%, and of the rural clinic with a probability of 30%.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scarless import SAREMClassifierCV, TableClassifier
from scarless.diagnostics import MissedPositivesDisplay, missed_positives

rng = np.random.default_rng(0)
n = 6000
table = pd.DataFrame({"marker": rng.normal(size=n), "pressure": rng.normal(size=n)})
table["clinic"] = rng.choice(["city", "rural"], size=n)
ill = rng.random(n) < 1 / (1 + np.exp(1 - 3 * table["marker"] - table["pressure"]))
diagnosed = (ill & (rng.random(n) < np.where(table["clinic"] == "city", 0.7, 0.3))).astype(int)

# %%
# Who is overlooked?
# ------------------
# The clinic drives the labelling, so it is the propensity attribute. The model estimates the ill patients of each
# clinic, and so the share of them without a diagnosis.
model = TableClassifier(SAREMClassifierCV(propensity_attributes=["clinic"])).fit(table, diagnosed)
found = missed_positives(model, table, diagnosed, by="clinic", scores=True)
print(found.finding("clinic"))

# %%
# The truth lies inside the intervals.
for clinic, here in table.groupby("clinic").groups.items():
    print(f"{clinic}: {1 - diagnosed[here].sum() / ill[here].sum():.0%} of the ill patients have no diagnosis")
MissedPositivesDisplay(found).plot()

# %%
# Is the classifier fair?
# -----------------------
# The precision of a classifier is the share of the selected rows that are positive. If unlabelled rows are counted as
# negatives, the classifier seems to be much worse in the rural clinic. The propensity-weighted precision shows that it
# works equally well in both, and agrees with the truth.
selected = model.predict(table) == 1
rows = {clinic: selected & (table["clinic"] == clinic) for clinic in found.groups}
comparison = pd.DataFrame(
    {
        "labels as classes": [diagnosed[here].mean() for here in rows.values()],
        "propensity-weighted": found.scores["precision"].value,
        "truth": [ill[here].mean() for here in rows.values()],
    },
    index=pd.Index(found.groups, name="clinic"),
)
print(comparison.round(2))

# %%
ax = comparison.plot.bar(rot=0, color=["#8a8a8a", "#1f6fb4", "#2a9d72"], figsize=(6.4, 3.6))
ax.set(title="Precision of the classifier in each clinic", ylabel="precision", xlabel="", ylim=(0, 1))
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, frameon=False)
plt.tight_layout()
