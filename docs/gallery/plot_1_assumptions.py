"""
What a label is: SCAR, SAR, and no label
========================================

A label says two things at once: the row is positive, *and* somebody looked. Who looks, and at whom, is the whole
trouble. Simulated data: the same 600 people three times over. Only the labelling differs.

**Lesson.** The classes are the same in all three pictures. A classifier that takes unlabelled people for healthy ones
draws its line by who was looked at.
"""

# %%
# Two measurements. Illness depends on blood sugar alone; how often somebody sees a doctor does not bear on it.
import matplotlib.pyplot as plt
import numpy as np

from scarless import NaiveClassifier
from scarless.labelling import SCAR, LogisticSAR, simulate_labels

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 2))
ill = rng.random(600) < 1 / (1 + np.exp(-3 * X[:, 0]))

# %%
# Three ways to come by a label: everyone is looked at; four in ten of the ill, whoever they are (SCAR: selected
# completely at random); mostly those who see a doctor often (SAR: selected at random *given attributes*).
labels = {
    "everyone is looked at": ill,
    "SCAR: 4 in 10, whoever they are": simulate_labels(ill, SCAR(0.4).propensity(X), random_state=0),
    "SAR: those who see doctors": simulate_labels(ill, LogisticSAR([1], [2.5], -0.6).propensity(X), random_state=0),
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
    level = np.log(s.mean() / (1 - s.mean()))  # the line is where the score passes the share of labels
    axes.plot(x, (level - a - b * x) / (c if abs(c) > 1e-9 else 1e-9), "k--", lw=1.2, label="naive line")
    axes.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), xlabel="blood sugar", title=title)
panels[0].set_ylabel("visits to doctors")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)

# %%
# Left and middle: the line stands upright, as the classes do. Under SCAR the naive scores are too low, but their
# *order* is right. Right: the line leans. Ill people who see no doctor are now on the healthy side, and no threshold
# mends that.
