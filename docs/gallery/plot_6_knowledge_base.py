"""
Knowledge bases: facts that nobody recorded
===========================================

A knowledge base lists the prizes of a person if someone recorded them. Some languages have many editors, others few.
Simulated data: 6,000 people in five languages. The completeness of each language is unknown.

**Lesson.** Within one language, labels are a random share of the prizes; between languages, this share differs. It is
then enough to estimate one label frequency for each language. It shows how complete the records of the language are.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scarless import NaiveClassifier, StratifiedSCARClassifier
from scarless.labelling import StratifiedSAR, simulate_labels

rng = np.random.default_rng(2)
n = 6000
complete = {"A": 0.9, "B": 0.65, "C": 0.45, "D": 0.3, "E": 0.15}
language = rng.integers(0, 5, n)
people = pd.DataFrame(
    {"works": rng.normal(size=n), "citations": rng.normal(size=n) - 0.3 * (language - 2), "language": language}
).astype(float)
prize = (rng.random(n) < 1 / (1 + np.exp(2 - 3 * people["works"] - 5 * people["citations"]))).to_numpy()
editors = StratifiedSAR(["language"], {(float(i),): value for i, value in enumerate(complete.values())})
known = simulate_labels(prize, editors.propensity(people), random_state=0)

# %%
model = StratifiedSCARClassifier(propensity_attributes=["language"], label_frequency="dedpul").fit(people, known)
naive = NaiveClassifier().fit(people, known)
print(f"have a prize {prize.mean():.0%}; on record {known.mean():.0%}; estimated {model.class_prior_:.0%}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
x = np.arange(5)
left.plot(x, list(complete.values()), "d", ms=9, color="#c8500a", label="true")
left.plot(x, [stratum.label_frequency for stratum in model.strata_], "o", ms=8, color="#1f6fb4", label="estimated")
left.set(xticks=x, xticklabels=list(complete), ylim=(0, 1), xlabel="language", ylabel="share of prizes on record")
left.legend(frameon=False)
shares = {
    "true": ([prize[language == i].mean() for i in x], "#e08a3c"),
    "estimated": ([model.predict_proba(people[language == i])[:, 1].mean() for i in x], "#1f6fb4"),
    "naive": ([naive.predict_proba(people[language == i])[:, 1].mean() for i in x], "#b0b0b0"),
}
for shift, (name, (values, colour)) in zip([-0.27, 0, 0.27], shares.items(), strict=True):
    right.bar(x + shift, values, 0.25, color=colour, label=name)
right.set(xticks=x, xticklabels=list(complete), xlabel="language", ylabel="share of people with a prize")
right.legend(frameon=False)

# %%
# The naive model mistakes missing editors for missing prizes. In language E, with few labels, the estimated label
# frequency is too low, and the share of prizes too high. The method needs some people who certainly have a prize. If
# the classes overlap everywhere, the estimated label frequencies are too low.
#
# With about half these coefficients (1.2, 1.5 and 2.5), the classes overlap more. The model then estimates that 49%
# have a prize; the true share is 38%.
