"""
Text: labels from one desk
==========================

Editors mark articles about climate. Those of the science desk mark nearly all of theirs, the others hardly any.
Simulated data: a made-up corpus of 3,000 short articles, since no real one comes without a download.

**Lesson.** A naive classifier of words learns the words of the science desk. Give the desk to the propensity and the
words to the classifier, and it learns the words of the topic.
"""

# %%
# An article has words of its desk, words of its topic if it is about climate, and filler.
import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from scarless import NaiveClassifier, SAREMClassifier

rng = np.random.default_rng(4)
n = 3000
topic = ["carbon", "warming", "glacier", "emission", "drought", "heatwave", "methane", "flood"]
desks = {
    "science": ["laboratory", "professor", "journal", "measurement", "hypothesis"],
    "sport": ["match", "coach", "league", "stadium", "goal"],
    "economy": ["market", "shares", "budget", "tax", "minister"],
}
filler = [f"{a}{b}" for a in ("ba", "do", "ku", "li", "mo") for b in ("na", "re", "si", "ta", "vo", "xi")]
desk = rng.choice(list(desks), n)
about = rng.random(n) < 0.3


def write(desk_name, on_topic):
    """Return one article: words in no order."""
    words = [*rng.choice(filler, 12), *rng.choice(desks[desk_name], rng.poisson(3))]
    return " ".join([*words, *rng.choice(topic, rng.poisson(1.6) if on_topic else rng.poisson(0.3))])


articles = [write(*pair) for pair in zip(desk, about, strict=True)]
marked = about & (rng.random(n) < np.where(desk == "science", 0.85, 0.12))
print(articles[0][:70], "...")

# %%
# Words are sparse columns. The desk is one more column, the last, and the only one that the propensity sees.
vectoriser = CountVectorizer(binary=True)
words = vectoriser.fit_transform(articles).astype(float)
X = sparse.csr_array(sparse.hstack([words, sparse.csr_array((desk == "science").astype(float)[:, None])]))
columns = np.arange(words.shape[1])
naive = NaiveClassifier().fit(words, marked)
model = SAREMClassifier(propensity_attributes=[-1], classification_attributes=columns).fit(X, marked)
print(f"about climate {about.mean():.0%}, marked {marked.mean():.0%}, estimated {model.class_prior_:.0%}")
print(
    "propensity by desk, estimated:",
    model.predict_propensity(X[[np.argmax(desk == "science"), np.argmax(desk == "sport")]]).round(2),
)

# %%
names = vectoriser.get_feature_names_out()
kind = np.where(np.isin(names, topic), "#1f6fb4", np.where(np.isin(names, desks["science"]), "#c8500a", "#b0b0b0"))
figure, panels = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for axes, (title, coefficients) in zip(
    panels, {"naive": naive.coef_[0], "desk named": model.coef_[0][columns]}.items(), strict=True
):
    best = np.argsort(-coefficients)[:14][::-1]
    axes.barh(names[best], coefficients[best], color=kind[best])
    axes.set(title=title, xlabel="weight of the word")
panels[1].legend(
    handles=[plt.Rectangle((0, 0), 1, 1, color=colour) for colour in ("#1f6fb4", "#c8500a", "#b0b0b0")],
    labels=["topic", "science desk", "other"], loc="lower right", frameon=False,
)  # fmt: skip

# %%
# Of the first 200 articles that nobody marked, how many are about climate?
waiting = ~marked
for name, scores in {
    "naive": naive.predict_proba(words)[:, 1],
    "desk named": model.predict_posterior(X, marked),
}.items():
    print(f"{name:11} {about[waiting][np.argsort(-scores[waiting])[:200]].mean():.0%}")

# %%
# Where the topic is plain, the desk does less harm. This example was first drawn with more words of the topic (2.5 an
# article in place of 1.6, and 0.15 in place of 0.3 elsewhere): of the first 200 unmarked articles of the *other* desks,
# both lists then had 98% about climate.
