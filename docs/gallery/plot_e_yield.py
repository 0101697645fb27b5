"""
How many positives will we find?
================================

A hospital can check the records of a few hundred patients without a diagnosis (simulated data). In which order should
it check them, and how many ill patients will it find?

**Lesson.** Patients who are probably diagnosed are not the patients who are probably ill without a diagnosis. The order
of the label probability therefore wastes checks, and `yield_curve` shows how many.
"""

# %%
# Simulated patients
# ------------------
# Illness depends on two measurements. Ill patients who often see a doctor are usually diagnosed already; ill patients
# who seldom see one usually are not.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scarless import SAREMClassifierCV, TableClassifier
from scarless.diagnostics import YieldCurveDisplay, yield_curve

rng = np.random.default_rng(0)
n = 6000
table = pd.DataFrame({"marker": rng.normal(size=n), "pressure": rng.normal(size=n), "visits": rng.poisson(3, size=n)})
ill = rng.random(n) < 1 / (1 + np.exp(2 - 2 * table["marker"] - table["pressure"]))
diagnosed = (ill & (rng.random(n) < 1 / (1 + np.exp(3 - table["visits"])))).astype(int)

# %%
# What will we find?
# ------------------
# The visits drive the labelling, so they are the propensity attribute. `yield_curve` ranks the patients without a
# diagnosis, and estimates the number of ill patients among the first of them. The last line compares with two other
# orders of the same patients.
model = TableClassifier(SAREMClassifierCV(propensity_attributes=["visits"])).fit(table, diagnosed)
found = yield_curve(model, table, diagnosed, n=[10, 20, 50, 100, 150, 200, 300, 400, 500])
print(found.sentence(5))
print(found.comparison(5))

# %%
# The truth
# ---------
# The data are simulated, so the truth is known: it lies inside the interval of every number of patients. The circles
# are the ill patients that the hospital would find in the order of the model, and the squares those in the order of the
# label probability.
ax = YieldCurveDisplay(found).plot().ax_
truth = np.cumsum(ill.to_numpy()[found.order])[found.n - 1]
naive = np.cumsum(ill.to_numpy()[found.naive_order])[found.n - 1]
ax.plot(found.n, truth, "o", mfc="white", color="black", label="truth, ranked by this model")
ax.plot(found.n, naive, "s", mfc="white", color="black", label="truth, ranked by probability of a label")
ax.legend(fontsize="small", frameon=False)
plt.show()

# %%
# All numbers as a table, with the truth in the last two columns.
print(found.to_frame().round(0).astype(int).assign(truth=truth, naive_truth=naive).to_string())
