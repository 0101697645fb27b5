"""
Three rounds of checks
======================

A clinic can check 50 patients a month. Simulated data: 4,000 patients, of whom few ill ones have a diagnosis. Which 50
patients should it check to learn how many are ill?

**Lesson.** Random patients are a safe choice. Patients whose class says most about the share of ill patients shorten
the interval a little more. Both need the probabilities with which the patients were drawn: with them, an estimate that
does not need the models is available, and it shows whether the models can be believed.
"""

# %%
# On the command line, `scarless audit` draws the rows and writes a worksheet, and `scarless fit --audit` reads the
# answers. Here, `plan_audit` draws the rows, and the simulation answers.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from scarless import SAREMClassifier, audited_class_prior, plan_audit

rng = np.random.default_rng(5)
n, n_checks = 4000, 50
X = rng.normal(size=(n, 4))
ill = rng.random(n) < 1 / (1 + np.exp(1.2 - 1.3 * X[:, 0] - 0.8 * X[:, 1]))
s = ill & (rng.random(n) < 1 / (1 + np.exp(0.6 - X[:, 2])))
print(f"{ill.mean():.1%} are ill, and {s.mean():.1%} have a diagnosis")

# %%
# In each round, the plan knows the patients that were checked before and never draws them again. The probabilities of
# all rounds are combined.
rounds = {}
for design in ("random", "optimal"):
    first = model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    audit, options = np.full(n, np.nan), {}
    rounds[design] = [(model.class_prior_interval(), None)]
    for seed in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The optimal design warns that it depends on the model.
            plan = plan_audit(model, X, s, n_checks, design=design, random_state=seed, **options)
        audit[plan.positions] = ill[plan.positions]
        model = SAREMClassifier(propensity_attributes=[2]).fit(X, s, audit=audit)
        options = {"pilot": audit, "pilot_probability": plan.probability}
        by_answers = audited_class_prior(first, X, s, audit, plan.probability)
        rounds[design].append((model.class_prior_interval(), by_answers.interval))
    low, high = rounds[design][-1][0]
    print(f"{design}: the interval of the models is {100 * (high - low):.1f} percentage points wide")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for panel, source, title in ((left, 0, "Fit with the answers"), (right, 1, "Answers and probabilities, for any model")):
    for shift, (design, colour) in zip((-3, 3), {"random": "#6f6f6f", "optimal": "#1f6fb4"}.items(), strict=True):
        for k, each in enumerate(rounds[design]):
            if each[source] is not None:
                low, high = each[source]
                panel.plot(
                    [n_checks * k + shift] * 2, [low, high], color=colour, lw=3, label=None if k != 1 else design
                )
    panel.axhline(ill.mean(), color="#e08a3c", ls="--", label="true share")
    panel.set(title=title, xlabel="Checked patients", xticks=[0, 50, 100, 150])
left.set_ylabel("Share of ill patients, 95% interval")
left.legend(frameon=False)
plt.show()
