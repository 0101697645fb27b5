"""
Failure: the wrong propensity attribute
=======================================

Labels depend on visits and on income. What happens if you do not name one of these attributes, or name another
attribute instead? Simulated data, five repetitions of 5,000 rows.

**Lesson.** One attribute too many does little harm. If one is missing, the classifier attributes its effect to the
columns that it uses. **Remedy:** compare fits with and without the doubtful attribute, test the attributes that you
left out, and audit some rows if the result matters.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scarless import SAREMClassifier
from scarless.labelling import LogisticSAR, simulate_labels

choices = {
    "both": ["visits", "income"],
    "both and one more": ["visits", "income", "height"],
    "visits only": ["visits"],
    "wrong one": ["height"],
}
mechanism = LogisticSAR(["visits", "income"], [1.5, 1.5], -0.5)


def draw(seed):
    """Return a table, the true probability of illness, the class and the label of each row."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(5000, 5)), columns=["sugar", "weight", "visits", "income", "height"])
    table["sugar"] = 0.8 * table["sugar"] + 0.6 * table["income"]  # income is correlated with a cause
    f = 1 / (1 + np.exp(0.5 - 2 * table["sugar"] - table["weight"]))
    ill = rng.random(5000) < f
    return table, f, ill, simulate_labels(ill, mechanism.propensity(table), random_state=seed)


# %%
# The classifier uses only sugar and weight.
errors, priors, likelihoods = ({name: [] for name in choices} for _ in range(3))
truth = []
for seed in range(5):
    table, f, ill, s = draw(seed)
    truth.append(ill.mean())
    for name, named in choices.items():
        model = SAREMClassifier(propensity_attributes=named, classification_attributes=["sugar", "weight"]).fit(
            table, s
        )
        errors[name].append(np.mean((model.predict_proba(table)[:, 1] - f) ** 2))
        priors[name].append(model.class_prior_)
        likelihoods[name].append(model.score(table, s))

# %%
figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
titles = ["error of the class probability", "estimated share of ill people", "log-likelihood per row"]
for axes, values, title in zip(panels, (errors, priors, likelihoods), titles, strict=True):
    for row, name in enumerate(choices):
        right = name.startswith("both")
        axes.plot(values[name], np.full(5, row), "o", alpha=0.7, color="#1f6fb4" if right else "#c8500a")
    axes.set(yticks=range(4), yticklabels=list(choices), title=title)
panels[1].axvline(np.mean(truth), color="k", ls="--", lw=1)
panels[0].invert_yaxis()

# %%
# The likelihood in the right panel can be computed without the true classes. It is lower with the wrong attributes.
# This reveals the error if the right column is in the table. If it is not, the labels do not reveal the error.
print(f"truly ill: {np.mean(truth):.2f}")
for name in choices:
    print(f"{name:18} error {np.mean(errors[name]):.3f}   estimated ill {np.mean(priors[name]):.2f}")
