"""
Failure: the two models are swapped
===================================

The probability of a label is a product: the probability of being positive times the probability of being labelled if
positive. The order of the factors does not matter. Simulated data, from two logistic models with different attributes.

**Lesson.** If both models may use all attributes, the labels do not show which of the two is the class model, and the
fit may return the models swapped. The likelihood is the same. **Remedy:** name the propensity attributes. Remove
propensity attributes that do not affect the class from the classification attributes.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from scarless import SAREMClassifier
from scarless.diagnostics import identifiability_report
from scarless.labelling import LogisticSAR, simulate_labels

rng = np.random.default_rng(0)
table = pd.DataFrame(rng.normal(size=(6000, 4)), columns=["sugar", "weight", "visits", "distance"])
ill = rng.random(6000) < 1 / (1 + np.exp(-0.8 - 1.5 * table["sugar"] - table["weight"]))
mechanism = LogisticSAR(["visits", "distance"], [1.5, -1.0], -0.8)
s = simulate_labels(ill, mechanism.propensity(table), random_state=0)

# %%
# In the first fit, both models use all attributes. The identifiability report shows the problem.
nameless = SAREMClassifier(propensity_attributes="all").fit(table, s)
print(identifiability_report(nameless))

# %%
named = SAREMClassifier(
    propensity_attributes=["visits", "distance"], classification_attributes=["sugar", "weight"]
).fit(table, s)

# %%
truth = (np.array([1.5, 1.0, 0, 0]), np.array([0, 0, 1.5, -1.0]))
fits = {
    "true": truth,
    "all attributes in both": (nameless.coef_[0], nameless.propensity_coef_[0]),
    "propensity attributes named": (named.coef_[0], named.propensity_coef_[0]),
}
figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
for axes, (title, (f, e)) in zip(panels, fits.items(), strict=True):
    axes.barh(np.arange(4) - 0.19, np.nan_to_num(f), 0.36, color="#1f6fb4", label="class")
    axes.barh(np.arange(4) + 0.19, np.nan_to_num(e), 0.36, color="#e08a3c", label="labelling")
    axes.axvline(0, color="k", lw=0.8)
    axes.set(title=title, yticks=range(4), yticklabels=table.columns, xlabel="coefficient", xlim=(-1.7, 2))
panels[0].invert_yaxis()
panels[0].legend(frameon=False, loc="lower right")

# %%
# Both fits explain the labels about equally well, but only one of them finds the ill patients.
for name, model in {"all attributes in both": nameless, "named": named}.items():
    auc = roc_auc_score(ill, model.predict_proba(table)[:, 1])
    print(f"{name:24} log-likelihood per row {model.score(table, s):.4f}   ROC-AUC for the ill {auc:.2f}")
