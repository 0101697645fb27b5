"""
Ecology: a species seen on two of four visits
=============================================

There are four visits to each of 400 ponds. A frog is present or not, and a visit may miss it. The data are simulated,
so the truth is known. As in many field studies, the table has one line for each visit, with the hour of the night.
Visits that rain prevented have no line.

**Lesson.** Several visits show how often a visit misses a frog that is present. With this information, the share of
ponds without a frog can be estimated. The end of the example shows what several visits cannot reveal.
"""

# %%
# The field book has one line for each visit that took place.
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
# Whether a frog is present depends on reeds and road. Whether it is heard depends on road and hour.
field = from_long(book, unit="pond", look="visit", label="seen", visit_attributes=["hour"])
model = SAREMClassifier(
    propensity_attributes=["road"], C=10, labelling=Labelling(visit_attributes=field.visit_attributes)
)
model.fit(field.X, field.S)
print(model.summary())

# %%
# The output shows the share of ponds with a frog: observed, estimated and true. The left figure shows what share of the
# present frogs is found after one to four visits. The right figure checks the posterior of ponds without a sighting.
counted = np.nanmax(seen, axis=1).mean()
low, high = model.class_prior_interval()
print(f"seen {counted:.2f}, estimated {model.class_prior_:.2f} ({low:.2f} to {high:.2f}), true {there.mean():.2f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
curve = model.detection_curve(field.X)
left.plot(np.arange(1, visits + 1), curve, "o-", color="#1f6fb4")
left.set(xlabel="visits", ylabel="share of present frogs that are found", ylim=(0, 1), xticks=range(1, visits + 1))
posterior = model.predict_posterior(field.X, field.S)
empty = np.nanmax(field.S, axis=1) == 0
cuts = np.linspace(0, 1, 6)
for a, b in pairwise(cuts):
    inside = empty & (posterior >= a) & (posterior < b)
    if inside.sum() > 5:
        right.plot(posterior[inside].mean(), there[inside].mean(), "o", ms=4 + inside.sum() ** 0.5, color="#e08a3c")
right.plot([0, 1], [0, 1], "k:", lw=1)
right.set(xlabel="posterior of ponds without a sighting", ylabel="share with a frog", xlim=(0, 0.8), ylim=(0, 0.8))
plt.show()

# %%
# **What visits cannot reveal.** Ponds may differ in how well frogs are heard, in ways that no column shows: deep reeds,
# a noisy mill. Most frogs that are heard twice are then loud. Many quiet frogs are never heard, the model counts them
# as absent, and the estimate is too low.
loud = rng.normal(size=(n, 1))
again = simulate_looks(
    there, 1 / (1 + np.exp(-np.log(heard / (1 - heard)) - 1.5 * loud)), observed=0.85, random_state=1
)
other = SAREMClassifier(
    propensity_attributes=["road"], C=10, labelling=Labelling(visit_attributes=field.visit_attributes)
)
other.fit(field.X, again)
print(f"estimated {other.class_prior_:.2f}, true {there.mean():.2f}: `goodness_of_fit` tests for this")
