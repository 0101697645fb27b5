"""
Clicks: items at the top are clicked more often
===============================================

A click means that an item is relevant *and* that it was seen. Few people look below the third position. Simulated data:
2,500 result pages with ten positions. The old ranking put popular items first.

**Lesson.** Use the position as propensity attribute, with one column for each position. The model then estimates the
relevance as if every position were seen, and also how often each position is seen.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scarless import NaiveClassifier, SAREMClassifier
from scarless.labelling import simulate_labels

rng = np.random.default_rng(5)
pages, places = 2500, 10
match, popularity = rng.normal(size=(2, pages, places))
order = np.argsort(-(popularity + 0.8 * rng.normal(size=(pages, places))), axis=1)
match, popularity = (np.take_along_axis(values, order, axis=1).ravel() for values in (match, popularity))
place = np.tile(np.arange(1, places + 1), pages)
relevance = 1 / (1 + np.exp(0.8 - 1.5 * match - 0.2 * popularity))
relevant = rng.random(relevance.size) < relevance
examined = 0.95 * place**-0.9
clicked = simulate_labels(relevant, examined, random_state=0)

# %%
# There is one column for each position except the first, so the model can estimate any dependence of attention on
# position.
shown = pd.get_dummies(place, prefix="place", dtype=float).iloc[:, 1:]
table = pd.concat([pd.DataFrame({"match": match, "popularity": popularity}), shown], axis=1)
features = ["match", "popularity"]
model = SAREMClassifier(propensity_attributes="place", classification_attributes=features).fit(table, clicked)
naive = NaiveClassifier().fit(table[features], clicked)

# %%
# Popularity hardly affects the relevance (true coefficient 0.2). It determined the position of the items, and therefore
# the clicks.
for name, coefficients in {"naive": naive.coef_[0], "with places": model.coef_[0]}.items():
    print(f"{name:12} match {coefficients[0]:.2f} (true 1.50), popularity {coefficients[1]:.2f} (true 0.20)")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
first = np.arange(places)
left.plot(place[:places], examined[:places], "d--", color="#c8500a", label="true")
left.plot(place[:places], model.predict_propensity(table.iloc[first]), "o-", color="#1f6fb4", label="estimated")
left.set(xlabel="position on the page", ylabel="probability of being seen", ylim=(0, 1.02), xticks=range(1, 11))
left.legend(frameon=False)
guesses = {"naive": naive.predict_proba(table[features])[:, 1], "with places": model.predict_proba(table)[:, 1]}
edges = np.quantile(relevance, np.linspace(0, 1, 21))
group = np.digitize(relevance, edges[1:-1])
for (name, guess), colour in zip(guesses.items(), ["#8a8a8a", "#1f6fb4"], strict=True):
    means = [guess[group == number].mean() for number in range(20)]
    right.plot([relevance[group == number].mean() for number in range(20)], means, "o-", color=colour, label=name, ms=4)
right.plot([0, 1], [0, 1], color="#c8500a", ls="--", label="true")
right.set(xlabel="true relevance", ylabel="estimated", xlim=(0, 1), ylim=(0, 1))
right.legend(frameon=False)

# %%
# The estimated attention at the first position is slightly too low, and the estimated relevance slightly too high. The
# labels determine their product better than the two factors.
