"""
Medicine: large tumours are diagnosed more often
================================================

A large tumour is felt and diagnosed; a small tumour often is not. Measurements and diagnoses are real: the breast
cancer table of scikit-learn, with 569 tumours. We simulate which diagnoses are *on record*; this depends on the size of
the tumour.

**Lesson.** A model that treats "no diagnosis" as "benign" estimates half the true number of malignant tumours. If you
name the attribute that drives the diagnoses, the estimate is about right. The ranking of the patients improves only
slightly, because the classes are so well separated that even the naive ranking is good.
"""

# %%
# The propensity of a malignant tumour depends on its mean radius: about 10% at the mean of all tumours, and about 90%
# at two standard deviations above the mean.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from scarless import NaiveClassifier, SAREMClassifierCV
from scarless.labelling import LogisticSAR, simulate_labels

data = load_breast_cancer(as_frame=True)
table = StandardScaler().set_output(transform="pandas").fit_transform(data.data)
malignant = (data.target == 0).to_numpy()
e = LogisticSAR(["mean radius"], [2.0], -2.0).propensity(table)

# %%
# Labels are simulated ten times. Each time, both models rank the patients without a diagnosis.
found = {"naive": [], "SAR": []}
priors = {"naive": [], "SAR": []}
for seed in range(10):
    s = simulate_labels(malignant, e, random_state=seed)
    waiting = s == 0
    naive = NaiveClassifier().fit(table, s)
    sar = SAREMClassifierCV(propensity_attributes=["mean radius"], random_state=seed).fit(table, s)
    orders = {"naive": naive.predict_proba(table)[:, 1], "SAR": sar.predict_posterior(table, s)}
    for name, model in {"naive": naive, "SAR": sar}.items():
        ranked = malignant[waiting][np.argsort(-orders[name][waiting])]
        found[name].append(np.cumsum(ranked)[:150] / ranked.sum())
        priors[name].append(model.class_prior_)

# %%
# Left: the share of missed tumours that are found, by the number of patients who are called in for a check. Right: each
# model's estimate of the share of malignant tumours.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), width_ratios=[1.5, 1], layout="constrained")
colours = {"naive": "#8a8a8a", "SAR": "#1f6fb4"}
calls = np.arange(1, 151)
for name, curves in found.items():
    left.plot(calls, np.mean(curves, axis=0), color=colours[name], lw=2, label=name)
    left.fill_between(calls, *np.quantile(curves, [0.1, 0.9], axis=0), color=colours[name], alpha=0.2, lw=0)
left.set(xlabel="patients called in", ylabel="share of missed tumours found", ylim=(0, 1), xlim=(0, 150))
left.legend(frameon=False, loc="lower right")
for row, (name, values) in enumerate(priors.items()):
    right.plot(values, np.full(10, row), "o", color=colours[name], alpha=0.6)
right.axvline(malignant.mean(), color="#c8500a", ls="--")
right.text(malignant.mean(), -0.42, " true", color="#c8500a")
right.set(yticks=[0, 1], yticklabels=list(priors), xlim=(0, 0.6), ylim=(1.5, -0.6), xlabel="estimated malignant")

# %%
# After 100 calls:
for name, curves in found.items():
    at_100 = np.mean([curve[99] for curve in curves])
    print(f"{name:6} finds {at_100:.0%} of the missed tumours, estimates {np.mean(priors[name]):.0%} malignant")
print(f"true share of malignant tumours: {malignant.mean():.0%}")
