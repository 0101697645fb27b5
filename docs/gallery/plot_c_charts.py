"""
Medicine: how many charts must the hospital audit?
==================================================

A hospital knows who has a diagnosis on record, but not who is ill. Reading a complete chart takes an hour. How many
charts are needed to estimate the share of ill patients to within five percentage points? The data are simulated, so the
truth is known.

**Lesson.** Read 50 randomly drawn charts, fit a model, and let it predict how precise the estimate will be with more
charts. Always draw charts at random: the last figure shows the bias if ill patients are audited more often.
"""

# %%
# There are 5,000 patients. Illness and the probability of a diagnosis depend on the same four columns, so the records
# alone hardly separate the two.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scarless import SAREMClassifier
from scarless.diagnostics import audited_class_prior, plan_audit
from scarless.labelling import simulate_audit, simulate_labels

rng = np.random.default_rng(7)
n = 5000
patients = pd.DataFrame(rng.normal(size=(n, 4)), columns=["age", "pressure", "visits", "income"])
ill = rng.random(n) < 1 / (1 + np.exp(0.8 - patients @ [1.2, 1.5, 0.0, -0.4]))
found = 1 / (1 + np.exp(1.0 - patients @ [0.5, 0.3, 1.2, 0.6]))
record = simulate_labels(ill, found, random_state=0)


def describe(model: SAREMClassifier) -> str:
    """Return the class prior and its confidence interval."""
    low, high = model.class_prior_interval()
    return f"{model.class_prior_:.2f} ({low:.2f} to {high:.2f})"


model = SAREMClassifier(propensity_attributes="all").fit(patients, record)
print(f"on record {record.mean():.2f}, estimated {describe(model)}, ill {ill.mean():.2f}")

# %%
# The pilot study reads 50 randomly drawn charts.
pilot = simulate_audit(ill, 50, random_state=0)
model.fit(patients, record, audit=pilot)
print(f"with 50 charts: {describe(model)}")

# %%
# How precise will the estimate be with more charts? The plan says which charts to read, and how wide the interval will
# be.
plan = plan_audit(model, patients, record, n_rows=200, pilot=pilot, random_state=0)
print(plan)
plan.plot()
plt.show()

# %%
# After the charts of the plan have been read, the fit uses all 250 charts. `audited_class_prior` gives a second
# estimate, which does not assume that the model is right.
audit = pilot.copy()
audit[plan.rows] = ill[plan.rows]
model.fit(patients, record, audit=audit)
print(f"with 250 charts: {describe(model)}; ill {ill.mean():.2f}")
print(audited_class_prior(model, patients, record, audit))

# %%
# **What not to do.** We simulate 200 audits in three ways, ten times each. In the first way, patients are drawn at
# random. In the second, ill patients have twice the odds of being audited. In the third, only positive results are
# recorded.
ways = {
    "at random": {},
    "twice the odds\nfor ill patients": {"odds_for_positives": 2.0},
    "only positive results\nare recorded": {"negatives_reported": 0.0},
}
figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for place, options in enumerate(ways.values()):
    for seed in range(10):
        given = simulate_audit(ill, 200, random_state=seed, **options)
        each = SAREMClassifier(propensity_attributes="all").fit(patients, record, audit=given)
        low, high = each.class_prior_interval()
        x = place + (seed - 4.5) / 16
        axes.plot([x, x], [low, high], color="#1f6fb4" if low <= ill.mean() <= high else "#c43c39", lw=1.5)
        axes.plot(x, each.class_prior_, "o", ms=3, color="k")
axes.axhline(ill.mean(), color="k", ls=":", lw=1)
axes.set(xticks=range(len(ways)), xticklabels=ways, ylabel="share of patients who are ill", ylim=(0, 1))
axes.set_title("red: the interval misses the truth (dotted)", fontsize=10)
plt.show()
