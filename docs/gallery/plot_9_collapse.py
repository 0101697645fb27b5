"""
Failure: the collapse to "every positive is labelled"
=====================================================

A flexible classifier can memorise the labels: it classifies labelled rows as positive and all others as negative. The
propensity then approaches 1, and no positives are left to find. Simulated data: positives lie inside a circle, so no
line separates the classes.

**Lesson.** Never estimate the propensity from predictions for rows that a flexible classifier was fitted to.
**Remedy:** cross-fitting, as in `SAREMClassifier` with ``cv=5``: each row is predicted by models that were not fitted
to its label.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from scarless import PublishedEMClassifier, SAREMClassifier
from scarless.labelling import LogisticSAR, simulate_labels

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 3))
f = 1 / (1 + np.exp(4 * (np.hypot(X[:, 0], X[:, 1]) - 1.2)))
y = rng.random(3000) < f
e = LogisticSAR([2], [1.2]).propensity(X)
s = simulate_labels(y, e, random_state=0)

# %%
# The same boosting classifier is fitted in two ways: by plain EM, and cross-fitted.
boosting = HistGradientBoostingClassifier(random_state=0)
seen = {"propensity_attributes": [2], "classification_attributes": [0, 1]}
fits = {
    "plain EM": PublishedEMClassifier(boosting, **seen).fit(X, s),
    "cross-fitted": SAREMClassifier(boosting, cv=5, random_state=0, **seen).fit(X, s),
}

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9), layout="constrained")
colours = {"plain EM": "#8a8a8a", "cross-fitted": "#1f6fb4"}
order = np.argsort(X[:, 2])
left.plot(X[order, 2], e[order], "--", color="#c8500a", label="true")
for name, model in fits.items():
    left.plot(X[order, 2], model.predict_propensity(X)[order], lw=2, color=colours[name], label=name)
left.set(xlabel="propensity attribute", ylabel="propensity", ylim=(0, 1.03))
left.legend(frameon=False, loc="lower right")
new = np.zeros((200, 3))
new[:, 0] = np.linspace(0, 3, 200)
right.plot(new[:, 0], 1 / (1 + np.exp(4 * (new[:, 0] - 1.2))), "--", color="#c8500a", label="true")
for name, model in fits.items():
    right.plot(new[:, 0], model.predict_proba(new)[:, 1], lw=1.6, color=colours[name], label=name)
right.set(xlabel="distance from the centre, along one axis", ylabel="class probability", ylim=(0, 1.03))

# %%
print(f"share of positives: true {y.mean():.2f}, labelled {s.mean():.2f}")
for name, model in fits.items():
    print(f"{name:13} class prior {model.class_prior_:.2f}, label frequency {model.label_frequency_:.2f}")
