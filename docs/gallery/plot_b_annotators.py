"""
Three annotators: what each of them misses, and what each invents
=================================================================

Three people read 3,000 messages and mark abuse. Nobody reads every message, each annotator misses some abuse, and one
of them marks too much. The data are simulated, so the truth is known.

**Lesson.** A majority vote treats all annotators as equally reliable. A model with several looks estimates how often
each annotator misses abuse or marks harmless messages, without knowing the truth for any message. A few checked
messages make the estimates more precise.
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
base, by_irony = np.array([1.0, -0.2, 0.6]), np.array([0.0, -1.5, -0.5])  # Ben misses irony
sees = 1 / (1 + np.exp(-base - by_irony * messages["irony"].to_numpy()[:, None]))
false_marks = [0.01, 0.01, 0.08]  # Cleo marks 8% of the harmless messages
marks = simulate_looks(abuse, sees, false_positive_rate=false_marks, observed=0.6, random_state=0)
marks = pd.DataFrame(marks, columns=names)
print(marks.head(4).to_string(index=False))

# %%
# Each annotator has separate coefficients and a separate false positive rate. If an annotator did not read a message,
# the mark is missing, which does not mean no.
model = SAREMClassifier(
    propensity_attributes=["irony"], random_state=0, labelling=Labelling(shared=False, false_positive_rate="estimate")
).fit(messages, marks)
found = pd.DataFrame(
    {
        "finds, estimated": model.label_frequencies_,
        "finds, true": sees[abuse].mean(axis=0),
        "false marks, estimated": model.false_positive_rate_,
        "false marks, true": false_marks,
    },
    index=names,
)
print(found.round(3).to_string())

# %%
# Which annotator recognises irony? The figure shows the three propensities, estimated and true.
figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
grid = pd.DataFrame({"insults": 0.0, "length": 0.0, "irony": np.linspace(-2, 2, 50)})
for k, (name, colour) in enumerate(zip(names, ["#1f6fb4", "#e08a3c", "#3c9d5b"], strict=True)):
    axes.plot(grid["irony"], model.predict_propensity(grid, look=k), color=colour, label=name)
    axes.plot(grid["irony"], 1 / (1 + np.exp(-base[k] - by_irony[k] * grid["irony"])), ":", color=colour)
axes.set(xlabel="irony", ylabel="share of abuse that is marked", ylim=(0, 1), title="solid: estimated; dotted: true")
axes.legend(frameon=False)
plt.show()

# %%
# How much abuse is there? The last lines show the share of messages with any mark, the share that a majority of the
# readers marked, the estimates of the model without and with 100 checked messages, and the true share.
read = marks.notna().any(axis=1)
low, high = model.class_prior_interval()
audit = simulate_audit(abuse, 100, random_state=0)
checked = SAREMClassifier(
    propensity_attributes=["irony"], labelling=Labelling(shared=False, false_positive_rate="estimate")
)
checked.fit(messages, marks, audit=audit)
checked_low, checked_high = checked.class_prior_interval()
print(f"any mark             {marks.max(axis=1)[read].mean():.3f}")
print(f"majority             {(marks.mean(axis=1) > 0.5)[read].mean():.3f}")
print(f"model                {model.class_prior_:.3f} ({low:.3f} to {high:.3f})")
print(f"model and 100 checks {checked.class_prior_:.3f} ({checked_low:.3f} to {checked_high:.3f})")
print(f"true                 {abuse.mean():.3f}")
