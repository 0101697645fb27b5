"""
What does a label mean? No bias, SCAR and SAR
=============================================

A labelled row is positive, *and* someone recorded it. Labels are biased if some people are checked more often than
others. Simulated data: the same 600 people in three figures. Only the labelling differs.

**Lesson.** The classes are the same in all three figures. A classifier that treats unlabelled people as healthy learns
in part who was checked.
"""

# %%
# There are two measurements. Illness depends on blood sugar alone, and not on the number of visits to a doctor.
import matplotlib.pyplot as plt
import numpy as np

from scarless import NaiveClassifier
from scarless.labelling import SCAR, LogisticSAR, simulate_labels

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 2))
ill = rng.random(600) < 1 / (1 + np.exp(-3 * X[:, 0]))

# %%
# There are three labelling mechanisms: everyone is checked; a random 40% of the ill are labelled (SCAR: selected
# completely at random); mostly people who often see a doctor are labelled (SAR: selected at random *given attributes*).
labels = {
    "everyone is checked": ill,
    "SCAR: a random 40%": simulate_labels(ill, SCAR(0.4).propensity(X), random_state=0),
    "SAR: people who see doctors": simulate_labels(ill, LogisticSAR([1], [2.5], -0.6).propensity(X), random_state=0),
}
figure, panels = plt.subplots(1, 3, figsize=(11, 4), sharey=True, layout="constrained")
for axes, (title, given) in zip(panels, labels.items(), strict=True):
    s = np.asarray(given, dtype=bool)
    for rows, colour, marker, words in [
        (~ill, "#b9b9b9", ".", "healthy, no label"),
        (ill & ~s, "#e08a3c", "x", "ill, no label"),
        (ill & s, "#1f6fb4", "o", "ill, labelled"),
    ]:
        axes.scatter(*X[rows].T, s=18, c=colour, marker=marker, label=words, linewidths=1)
    model = NaiveClassifier().fit(X, s)
    a, (b, c) = model.intercept_[0], model.coef_[0]
    x = np.linspace(-3.2, 3.2, 2)
    threshold = np.log(s.mean() / (1 - s.mean()))  # the logit of the share of labelled rows
    axes.plot(x, (threshold - a - b * x) / (c if abs(c) > 1e-9 else 1e-9), "k--", lw=1.2, label="naive boundary")
    axes.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), xlabel="blood sugar", title=title)
panels[0].set_ylabel("visits to doctors")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)

# %%
# Left and middle: the boundary is vertical, like the boundary of the classes. Under SCAR the naive probabilities are
# too low, but their *ranking* is right. Right: the boundary is tilted. Ill people who see no doctor are now on the
# healthy side, and no other threshold corrects this.
