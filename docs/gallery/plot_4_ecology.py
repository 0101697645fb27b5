"""
Ecology: a bird that was not seen may be there
==============================================

A site is visited once. A bird that is seen is present; a bird that is not seen may be present and hidden. Simulated
data: 3,000 sites. Occupancy depends on altitude and forest, detection on wind and on the effort of the observer.

**Lesson.** The map of sightings shows where the birds are, and also where the observers are. Here observers stay longer
in the valleys, so the naive model concludes that the bird lives there.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scarless import NaiveClassifier, SAREMClassifier
from scarless.diagnostics import identifiability_report
from scarless.labelling import LogisticSAR, simulate_labels

rng = np.random.default_rng(1)
n = 3000
altitude = rng.uniform(-1.7, 1.7, n)  # standardised
sites = pd.DataFrame(
    {
        "altitude": altitude,
        "forest": rng.normal(size=n),
        "wind": rng.normal(size=n),
        "effort": rng.normal(size=n) - 0.9 * altitude,
    }
)
occupied = (rng.random(n) < 1 / (1 + np.exp(-0.2 - 1.1 * sites["altitude"] - 1.2 * sites["forest"]))).to_numpy()
detection = LogisticSAR(["wind", "effort"], [-0.8, 1.4], -0.3).propensity(sites)
seen = simulate_labels(occupied, detection, random_state=0)

# %%
# In R's unmarked, this is ``occu(~ wind + effort ~ altitude + forest)`` with one visit.
model = SAREMClassifier(
    propensity_attributes=["wind", "effort"], classification_attributes=["altitude", "forest"], C=10, propensity_C=10
).fit(sites, seen)
naive = NaiveClassifier().fit(sites[["altitude", "forest"]], seen)
print(f"occupied {occupied.mean():.0%}, seen {seen.mean():.0%}, estimated {model.class_prior_:.0%}")
print(identifiability_report(model).verdict)

# %%
# Left: occupancy by altitude, in average forest, with a 95% confidence interval. Right: estimated and true detection
# probabilities.
slope = pd.DataFrame({"altitude": np.linspace(-1.7, 1.7, 60), "forest": 0.0, "wind": 0.0, "effort": 0.0})
low, high = np.transpose(model.predict_proba_interval(slope))
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9), layout="constrained")
x = slope["altitude"]
left.plot(x, 1 / (1 + np.exp(-0.2 - 1.1 * x)), color="#c8500a", ls="--", label="true")
left.plot(x, model.predict_proba(slope)[:, 1], color="#1f6fb4", lw=2, label="occupancy and detection")
left.fill_between(x, low, high, color="#1f6fb4", alpha=0.2, lw=0)
left.plot(x, naive.predict_proba(slope[["altitude", "forest"]])[:, 1], color="#8a8a8a", lw=2, label="naive: seen")
left.set(xlabel="altitude (standardised)", ylabel="occupied", ylim=(0, 1))
left.legend(frameon=False, loc="upper left")
right.plot(detection, model.predict_propensity(sites), ".", ms=2, color="#1f6fb4", alpha=0.4)
right.plot([0, 1], [0, 1], color="#c8500a", ls="--")
right.set(xlabel="true detection probability", ylabel="estimated")
