"""
Medicine: tumours that were found because they were large
=========================================================

A large tumour is felt and gets diagnosed; a small one often is not. Measurements and diagnoses are real:
scikit-learn's breast cancer table, 569 tumours. Who has a diagnosis *on record* is simulated, by size.

**Lesson.** A model that takes "no diagnosis" for "benign" believes in half as many malignant tumours as there are.
Name what drove the diagnoses, and the number comes out about right. The list of patients to call in gets better too,
by a little: these classes are so well apart that even a naive order is good.
"""

# %%
# Malignant tumours are on record with a propensity that depends on their mean radius: about 1 in 10 at the average
# size of all tumours, 9 in 10 two standard deviations above.
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
# Ten labellings. Each time, both models rank the patients without a diagnosis.
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
# Left: how many of the missed tumours are found, as one calls in one patient after another. Right: how many malignant
# tumours each model believes there are.
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
right.set(yticks=[0, 1], yticklabels=list(priors), xlim=(0, 0.6), ylim=(1.5, -0.6), xlabel="share believed malignant")

# %%
# In numbers, after 100 calls:
for name, curves in found.items():
    at_100 = np.mean([curve[99] for curve in curves])
    print(f"{name:6} finds {at_100:.0%} of the missed tumours, believes in {np.mean(priors[name]):.0%} malignant")
print(f"true share of malignant tumours: {malignant.mean():.0%}")
