"""
Ecology: a species seen on two of four visits
=============================================

Four visits to each of 400 ponds; a frog is there or it is not, and a visit may miss it. Simulated, so that we know
where the frogs are. Field data come as one line per visit, with the hour of the night and gaps where it rained.

**Lesson.** A second visit tells what one visit cannot: how often a visit misses a frog that is there. Then absence can
be counted. What it cannot tell is shown at the end.
"""

# %%
# The field book: one line for each visit that took place.
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scarless import Labelling, SAREMClassifier, from_long
from scarless.labelling import simulate_looks

rng = np.random.default_rng(1)
n, visits = 400, 4
pond = pd.DataFrame({"reeds": rng.normal(size=n), "road": rng.normal(size=n)})
there = rng.random(n) < 1 / (1 + np.exp(0.4 - 1.5 * pond["reeds"] + pond["road"]))
hour = rng.uniform(-1, 1, size=(n, visits))
heard = 1 / (1 + np.exp(0.9 - 1.2 * hour - 0.6 * pond["road"].to_numpy()[:, None]))
seen = simulate_looks(there, heard, observed=0.85, random_state=0)
book = pd.DataFrame(
    [
        {"pond": i, "visit": k + 1, "seen": int(seen[i, k]), "hour": hour[i, k], **pond.iloc[i]}
        for i in range(n)
        for k in range(visits)
        if not np.isnan(seen[i, k])
    ]
)
print(book.head(5).round(2).to_string(index=False))

# %%
# From the book to a fit. Whether a frog is there depends on reeds and road; whether it is heard, on road and hour.
field = from_long(book, unit="pond", look="visit", label="seen", visit_attributes=["hour"])
model = SAREMClassifier(
    propensity_attributes=["road"], C=10, labelling=Labelling(visit_attributes=field.visit_attributes)
)
model.fit(field.X, field.S)
print(model.summary())

# %%
# Ponds with a frog: seen at least once, estimated, true. And how many visits it takes.
counted = np.nanmax(seen, axis=1).mean()
low, high = model.class_prior_interval()
print(f"seen {counted:.2f}, estimated {model.class_prior_:.2f} ({low:.2f} to {high:.2f}), true {there.mean():.2f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
curve = model.detection_curve(field.X)
left.plot(np.arange(1, visits + 1), curve, "o-", color="#1f6fb4")
left.set(xlabel="visits", ylabel="frogs found, of those that are there", ylim=(0, 1), xticks=range(1, visits + 1))
posterior = model.predict_posterior(field.X, field.S)
empty = np.nanmax(field.S, axis=1) == 0
cuts = np.linspace(0, 1, 6)
for a, b in pairwise(cuts):
    inside = empty & (posterior >= a) & (posterior < b)
    if inside.sum() > 5:
        right.plot(posterior[inside].mean(), there[inside].mean(), "o", ms=4 + inside.sum() ** 0.5, color="#e08a3c")
right.plot([0, 1], [0, 1], "k:", lw=1)
right.set(xlabel="probability of a frog, never seen", ylabel="share with a frog", xlim=(0, 0.8), ylim=(0, 0.8))
plt.show()

# %%
# **What visits cannot tell.** Ponds may differ in how well frogs are heard in a way that no column knows: deep reeds, a
# noisy mill. Then those heard twice are the loud ones, the rest are thought absent, and the estimate is too low.
loud = rng.normal(size=(n, 1))
again = simulate_looks(
    there, 1 / (1 + np.exp(-np.log(heard / (1 - heard)) - 1.5 * loud)), observed=0.85, random_state=1
)
other = SAREMClassifier(
    propensity_attributes=["road"], C=10, labelling=Labelling(visit_attributes=field.visit_attributes)
)
other.fit(field.X, again)
print(f"estimated {other.class_prior_:.2f}, true {there.mean():.2f}: `goodness_of_fit` looks for this")
