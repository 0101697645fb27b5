"""
Text: labels from one desk
==========================

Editors mark articles about climate. The science desk marks nearly all of its articles, the other desks hardly any.
Simulated data: 3,000 short artificial articles, because real articles need a download.

**Lesson.** A naive classifier learns the words of the science desk. If the desk is the propensity attribute and the
words are the classification attributes, the model learns the words of the topic.
"""

# %%
# An article consists of words of its desk, words of the topic if it is about climate, and filler words.
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
    """Return the words of one article, in arbitrary order."""
    words = [*rng.choice(filler, 12), *rng.choice(desks[desk_name], rng.poisson(3))]
    return " ".join([*words, *rng.choice(topic, rng.poisson(1.6) if on_topic else rng.poisson(0.3))])


articles = [write(*pair) for pair in zip(desk, about, strict=True)]
marked = about & (rng.random(n) < np.where(desk == "science", 0.85, 0.12))
print(articles[0][:70], "...")

# %%
# The words are sparse columns. The desk is the last column, and the only propensity attribute.
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
# How many of the 200 highest-ranked unmarked articles are about climate?
waiting = ~marked
for name, scores in {
    "naive": naive.predict_proba(words)[:, 1],
    "desk named": model.predict_posterior(X, marked),
}.items():
    print(f"{name:11} {about[waiting][np.argsort(-scores[waiting])[:200]].mean():.0%}")

# %%
# If the topic is clearer, the bias of the labels does less harm. With more words of the topic (2.5 per article instead
# of 1.6, and 0.15 instead of 0.3 in other articles), 98% of the 200 highest-ranked unmarked articles of the *other*
# desks are about climate, in both rankings.
