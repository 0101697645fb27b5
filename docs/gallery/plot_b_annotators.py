"""
Three annotators: who misses what, and who sees ghosts
======================================================

Three people read 3,000 messages and mark those that are abuse. Not everybody reads every message, each misses some, and
one of them marks too much. Simulated, so that the truth is known.

**Lesson.** A majority vote takes all annotators for equal, and a gap for a no. A model of their looks learns how each
of them works, and needs no gold standard for it; a few checked messages make it surer still.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scarless import Labelling, SAREMClassifier
from scarless.labelling import simulate_audit, simulate_looks

rng = np.random.default_rng(3)
n, names = 3000, ["Ada", "Ben", "Cleo"]
messages = pd.DataFrame({"insults": rng.normal(size=n), "length": rng.normal(size=n), "irony": rng.normal(size=n)})
abuse = rng.random(n) < 1 / (1 + np.exp(1.2 - 1.8 * messages["insults"] - 0.8 * messages["irony"]))
level, by_irony = np.array([1.0, -0.2, 0.6]), np.array([0.0, -1.5, -0.5])  # Ben misses what is ironic
sees = 1 / (1 + np.exp(-level - by_irony * messages["irony"].to_numpy()[:, None]))
ghosts = [0.01, 0.01, 0.08]  # Cleo marks 8% of what is harmless
marks = simulate_looks(abuse, sees, false_positive_rate=ghosts, observed=0.6, random_state=0)
marks = pd.DataFrame(marks, columns=names)
print(marks.head(4).to_string(index=False))

# %%
# Each annotator has coefficients and a rate of false marks of their own. A gap is no look, and not a no.
model = SAREMClassifier(
    propensity_attributes=["irony"], random_state=0, labelling=Labelling(shared=False, false_positive_rate="estimate")
).fit(messages, marks)
found = pd.DataFrame(
    {
        "finds, estimated": model.label_frequencies_,
        "finds, true": sees[abuse].mean(axis=0),
        "false marks, estimated": model.false_positive_rate_,
        "false marks, true": ghosts,
    },
    index=names,
)
print(found.round(3).to_string())

# %%
# Who finds irony? The three propensities, estimated and true.
figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
grid = pd.DataFrame({"insults": 0.0, "length": 0.0, "irony": np.linspace(-2, 2, 50)})
for k, (name, colour) in enumerate(zip(names, ["#1f6fb4", "#e08a3c", "#3c9d5b"], strict=True)):
    axes.plot(grid["irony"], model.predict_propensity(grid, look=k), color=colour, label=name)
    axes.plot(grid["irony"], 1 / (1 + np.exp(-level[k] - by_irony[k] * grid["irony"])), ":", color=colour)
axes.set(xlabel="irony", ylabel="share of abuse that is marked", ylim=(0, 1), title="solid: estimated; dotted: true")
axes.legend(frameon=False)
plt.show()

# %%
# How much abuse is there? Any mark, the majority of those who read it, the model, the truth; and with 100 messages that
# somebody checked.
read = marks.notna().any(axis=1)
low, high = model.class_prior_interval()
audit = simulate_audit(abuse, 100, random_state=0)
checked = SAREMClassifier(
    propensity_attributes=["irony"], labelling=Labelling(shared=False, false_positive_rate="estimate")
)
checked.fit(messages, marks, audit=audit)
few, many = checked.class_prior_interval()
print(f"any mark             {marks.max(axis=1)[read].mean():.3f}")
print(f"majority             {(marks.mean(axis=1) > 0.5)[read].mean():.3f}")
print(f"model                {model.class_prior_:.3f} ({low:.3f} to {high:.3f})")
print(f"model and 100 checks {checked.class_prior_:.3f} ({few:.3f} to {many:.3f})")
print(f"true                 {abuse.mean():.3f}")
