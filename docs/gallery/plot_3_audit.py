"""
Audit: fraud is found where auditors look
=========================================

Auditors check large invoices, and the invoices of one branch. A fraud that they find is labelled; nothing is known
about the other invoices. Simulated data: 8,000 invoices. Fraud is more likely for round amounts, new suppliers, haste
and small amounts.

**Lesson.** The naive model imitates the auditors: it selects large invoices of the branch that is audited anyway. A
model of both the fraud and the audits selects frauds.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scarless import NaiveClassifier, SAREMClassifier
from scarless.labelling import LogisticSAR, simulate_labels

rng = np.random.default_rng(3)
n = 8000
table = pd.DataFrame(
    {
        "log amount": rng.normal(size=n),
        "audited branch": rng.integers(0, 2, n),
        "round amount": rng.integers(0, 2, n),
        "new supplier": rng.random(n) < 0.3,
        "haste": rng.normal(size=n),
    }
).astype(float)
logit = -3 - 0.7 * table["log amount"] + 1.2 * table["round amount"] + 1.5 * table["new supplier"] + table["haste"]
fraud = (rng.random(n) < 1 / (1 + np.exp(-logit))).to_numpy()
audits = LogisticSAR(["log amount", "audited branch"], [1.5, 2.0], -2.0)
s = simulate_labels(fraud, audits.propensity(table), random_state=0)
print(f"{fraud.sum()} frauds, {s.sum()} of them found")

# %%
# The amount drives both the fraud and the audits, so it is a propensity attribute and the classifier sees it too. The
# branch drives only the audits, so it is left out of the classification attributes.
naive = NaiveClassifier().fit(table, s)
sar = SAREMClassifier(
    propensity_attributes=["log amount", "audited branch"],
    classification_attributes=["log amount", "round amount", "new supplier", "haste"],
).fit(table, s)
print(f"share of fraud: true {fraud.mean():.1%}, naive {naive.class_prior_:.1%}, SAR {sar.class_prior_:.1%}")

# %%
# Each model chooses the next 400 audits among the unlabelled invoices.
waiting = s == 0
scores = {"naive": naive.predict_proba(table)[:, 1], "SAR": sar.predict_posterior(table, s)}
chosen = {name: np.flatnonzero(waiting)[np.argsort(-score[waiting])[:400]] for name, score in scores.items()}

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9), width_ratios=[1.5, 1], layout="constrained")
bins = np.linspace(-3.5, 3.5, 29)
left.hist(table["log amount"][waiting & fraud], bins, color="#e08a3c", alpha=0.45, label="frauds not found")
for name, colour in {"naive": "#6f6f6f", "SAR": "#1f6fb4"}.items():
    left.hist(
        table["log amount"].iloc[chosen[name]], bins, histtype="step", lw=2, color=colour, label=f"next audits, {name}"
    )
left.set(xlabel="log amount (standardised)", ylabel="invoices")
left.legend(frameon=False, loc="upper right", fontsize=9)
hits = {name: fraud[rows].mean() for name, rows in chosen.items()}
hits = {"at random": fraud[waiting].mean(), **hits}
bars = right.barh(list(hits), list(hits.values()), color=["#cccccc", "#8a8a8a", "#1f6fb4"])
right.bar_label(bars, [f"{value:.0%}" for value in hits.values()], padding=4)
right.set(xlabel="share of frauds in 400 audits", xlim=(0, 1))
right.invert_yaxis()

# %%
# The two models disagree about the sign of the coefficient of the amount.
amount = table.columns.get_loc("log amount")
print(f"coefficient of the amount: true -0.7, naive {naive.coef_[0, amount]:+.1f}, SAR {sar.coef_[0, amount]:+.1f}")
