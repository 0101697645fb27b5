"""Adapters for other packages, so that `scarless compare` can run them as methods by import path.

Each adapter is a scikit-learn classifier with the same contract:

- `fit(X, s)`: `s` is 1 for labelled rows and 0 for the others;
- `predict(X)`: the package's own decision, as 1 and 0;
- `decision_function(X)`: the package's own ranking, unchanged;
- `predict_proba(X)`: only if the package says that its numbers are class probabilities. Numbers above 1 become 1, and
  the two columns add up to 1, because only then can their errors be compared;
- `predict_propensity(X)`: only if the package estimates the propensity;
- `label_frequency_` and `class_prior_`: only if the package estimates them. The class prior is the share of positives
  among all rows.

Defaults are those of the packages, with one exception: a package that needs a classifier gets logistic regression, so
that methods are compared and not classifiers. A package is imported in `fit`.
"""

import os
import sys
from contextlib import contextmanager
from importlib import import_module

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression

AUTHORS_REPOSITORY = "https://github.com/ML-KULeuven/SAR-PU"
AUTHORS_VARIABLE = "SARPU_PATH"  # environment variable: the folder of a checkout of this repository

if AUTHORS_VARIABLE in os.environ:  # Last, so that an installed version, which the results name, is used first.
    sys.path.append(os.path.join(os.environ[AUTHORS_VARIABLE], "sarpu"))


class Peer(ClassifierMixin, BaseEstimator):
    """Base class of adapters: a ranking and a decision.

    A subclass defines `_fitted`, and `_score` or `_decide` if its package has other conventions.
    """

    needs = ()  # modules of the package
    install = ""  # command that installs it

    def fit(self, X, s):
        """Fit the method of the package to the labels `s`."""
        X, s = np.asarray(X, dtype=np.float64), np.asarray(s)
        if not np.isin(s, (0, 1)).all():
            raise ValueError(f"{type(self).__name__}: labels must be 1 (labelled) and 0 (unlabelled).")
        self.classes_ = np.array([0, 1])
        self.model_ = self._fitted(*self._modules(), X, s.astype(np.int64))
        return self

    def decision_function(self, X):
        """Return the score of each row, by which the package ranks rows; large scores mean positive."""
        return np.asarray(self._score(np.asarray(X, dtype=np.float64)), dtype=np.float64).reshape(-1)

    def predict(self, X):
        """Return the package's own decision: 1 for positive, 0 for negative."""
        return np.asarray(self._decide(np.asarray(X, dtype=np.float64)), dtype=np.int64).reshape(-1)

    @property
    def knows(self):
        """What the method is told besides the rows and their labels: nothing, names or prior."""
        names, prior = (getattr(self, each, None) for each in ("propensity_attributes", "class_prior"))
        return "names" if not _is_all(names) else "prior" if prior is not None else "nothing"

    def _fitted(self, *modules_and_data):
        """Return the fitted model of the package, given its modules, the rows and the labels."""
        raise NotImplementedError

    def _score(self, X):
        return self.model_.decision_function(X)

    def _decide(self, X):
        return np.asarray(self.model_.predict(X)) == 1  # Negative rows are 0, 0.0 or -1, depending on the package.

    def _modules(self):
        try:
            return [import_module(name) for name in self.needs]
        except ImportError as error:
            raise ImportError(
                f"{type(self).__name__} needs another package ({error}). Install: {self.install}"
            ) from error


class ProbabilityPeer(Peer):
    """Base class of adapters for packages that return class probabilities, which are their ranking too."""

    def predict_proba(self, X):
        """Return the probabilities of the two classes, one column for each."""
        p = np.clip(self.decision_function(X), 0.0, 1.0)
        return np.column_stack([1.0 - p, p])

    def _score(self, X):
        return self.model_.predict_proba(X)[:, 1]  # The second column is the positive class in all packages.


class ConstantPropensity(ProbabilityPeer):
    """Base class of adapters for packages that estimate a label frequency."""

    def predict_propensity(self, X):
        """Return the label frequency for each row."""
        return np.full(len(X), self.label_frequency_)


# --- pulearn


class PulearnElkanoto(ConstantPropensity):
    """Elkan and Noto's classifier: probability of a label, divided by the label frequency of held-out rows.

    The package divides both columns by the label frequency, so that they add up to more than 1. The ranking is that of
    the naive classifier, fitted to 90% of the rows.
    """

    needs, install = ("pulearn",), "pip install pulearn"

    def __init__(self, estimator=None, *, hold_out_ratio=0.1, random_state=None):
        self.estimator = estimator
        self.hold_out_ratio = hold_out_ratio
        self.random_state = random_state

    def _fitted(self, pulearn, X, s):
        model = self._made(pulearn, s, hold_out_ratio=self.hold_out_ratio, random_state=self.random_state).fit(X, s)
        self.label_frequency_ = float(model.c)
        return model

    def _made(self, pulearn, s, **options):
        return pulearn.ElkanotoPuClassifier(_logistic_unless(self.estimator), **options)


class PulearnWeightedElkanoto(PulearnElkanoto):
    """Elkan and Noto's weighted variant, as in pulearn.

    The probability of a label is multiplied by a number that depends on *all rows of the call*, so that predictions of
    one row change with the rows around it. The ranking within one call is that of `PulearnElkanoto`.
    """

    def _made(self, pulearn, s, **options):
        counts = {"labeled": int(s.sum()), "unlabeled": int((1 - s).sum())}
        return pulearn.WeightedElkanotoPuClassifier(_logistic_unless(self.estimator), **counts, **options)


class PulearnBagging(ProbabilityPeer):
    """PU bagging of pulearn. By default, it draws as many unlabelled rows as there are, with replacement.

    Mordelet and Vert draw as many as there are labelled rows.
    """

    needs, install = ("pulearn",), "pip install pulearn"

    def __init__(self, estimator=None, *, n_estimators=10, max_samples=1.0, random_state=None):
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.random_state = random_state

    def _fitted(self, pulearn, X, s):
        options = {name: value for name, value in self.get_params(deep=False).items() if name != "estimator"}
        return pulearn.BaggingPuClassifier(_logistic_unless(self.estimator), **options).fit(X, s)


class PulearnNNPU(ProbabilityPeer):
    """Linear classifier with the non-negative risk (or, with ``nnpu=False``, the unbiased risk) of pulearn.

    `class_prior` is the share of positives among all rows; pulearn wants the share among the unlabelled rows. If it is
    None, pulearn's `ScarEMPriorEstimator` estimates it.
    """

    needs, install = ("pulearn",), "pip install pulearn"

    def __init__(self, *, class_prior=None, nnpu=True, max_iter=1000, learning_rate=0.01, random_state=None):
        self.class_prior = class_prior
        self.nnpu = nnpu
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.random_state = random_state

    def _fitted(self, pulearn, X, s):
        known = self.class_prior is not None
        self.class_prior_ = self.class_prior if known else pulearn.ScarEMPriorEstimator().estimate(X, s).pi
        options = {name: value for name, value in self.get_params().items() if name != "class_prior"}
        return pulearn.NNPUClassifier(prior=share_of_unlabelled(self.class_prior_, s), **options).fit(X, s)


class PulearnBayes(ProbabilityPeer):
    """A Bayesian classifier of pulearn 0.2.

    `kind` is PositiveNaiveBayes, WeightedNaiveBayes, PositiveTAN or WeightedTAN.
    """

    needs, install = ("pulearn",), 'pip install "pulearn>=0.2"'

    def __init__(self, kind="PositiveNaiveBayes"):
        self.kind = kind

    def _fitted(self, pulearn, X, s):
        return getattr(pulearn, f"{self.kind}Classifier")().fit(X, s)


# --- pu-toolbox


class ToolboxElkanNoto(ConstantPropensity):
    """Elkan and Noto's classifier of pu-toolbox; by default, unlabelled rows are weighted and the model is refitted."""

    needs, install = ("pu_toolbox",), "pip install pu-toolbox"

    def __init__(self, *, mode="weighted_retraining", random_state=None):
        self.mode = mode
        self.random_state = random_state

    def _fitted(self, toolbox, X, s):
        model = toolbox.ElkanNotoClassifier(mode=self.mode, random_state=self.random_state).fit(X, s)
        self.label_frequency_, self.class_prior_ = float(model.propensity_), float(model.class_prior_)
        return model


class ToolboxPUSB(Peer):
    """`PUSBClassifier` of pu-toolbox: logistic regression of the labels, cut at 1/2.

    It says that its score is an ordering and no probability. It has no cut-off at the class prior, unlike PUSB.
    """

    needs, install = ("pu_toolbox",), "pip install pu-toolbox"

    def __init__(self, *, C=1.0):
        self.C = C

    def _fitted(self, toolbox, X, s):
        return toolbox.PUSBClassifier(C=self.C).fit(X, s)


class ToolboxPUSBKernel(Peer):
    """Kernel PUSB of pu-toolbox, with its cut-off at the class prior's quantile of the training scores.

    If `class_prior` is None, pu-toolbox estimates it. Its cross-validation over 72 pairs of a kernel's width and a
    penalty takes minutes; `small_grid` leaves nine pairs.
    """

    needs, install = ("pu_toolbox",), "pip install pu-toolbox"

    def __init__(self, *, class_prior=None, n_basis=300, small_grid=False, random_state=None):
        self.class_prior = class_prior
        self.n_basis = n_basis
        self.small_grid = small_grid
        self.random_state = random_state

    def _fitted(self, toolbox, X, s):
        grids = {"sigma_grid": (0.5, 2.0, 10.0), "reg_grid": (0.001, 0.01, 0.1)} if self.small_grid else {}
        model = toolbox.PUSBKernelClassifier(n_basis=self.n_basis, random_state=self.random_state, **grids)
        self.class_prior_ = toolbox_prior(toolbox, X, s, self.class_prior)
        return model.fit(X, s, class_prior=self.class_prior_)


class ToolboxUPU(Peer):
    """Unbiased risk of pu-toolbox, with a linear model; `predict` is the sign of the score.

    pu-toolbox treats unlabelled rows as a sample of all rows. In one table they are not, so the adapter passes the
    share of positives among the unlabelled rows. If `class_prior` is None, pu-toolbox estimates it.
    """

    needs, install = ("pu_toolbox",), "pip install pu-toolbox"

    def __init__(self, *, class_prior=None, loss="logistic", random_state=None):
        self.class_prior = class_prior
        self.loss = loss
        self.random_state = random_state

    def _fitted(self, toolbox, X, s):
        self.class_prior_ = toolbox_prior(toolbox, X, s, self.class_prior)
        prior = share_of_unlabelled(self.class_prior_, s)
        return toolbox.UPUClassifier(prior, loss=self.loss, random_state=self.random_state).fit(X, s)


class ToolboxLBE(ProbabilityPeer):
    """`LBEClassifier` of pu-toolbox: two logistic models on all attributes, 20 steps of EM."""

    needs, install = ("pu_toolbox",), "pip install pu-toolbox"

    def __init__(self, *, n_em_iter=20, C=1.0):
        self.n_em_iter = n_em_iter
        self.C = C

    def predict_propensity(self, X):
        """Return the propensity of each row; `predict_label_proba` of the package is the probability of a label."""
        return self.model_.propensity_model_.predict_proba(X)[:, 1]

    def _fitted(self, toolbox, X, s):
        return toolbox.LBEClassifier(n_em_iter=self.n_em_iter, C=self.C).fit(X, s)


def toolbox_prior(toolbox, X, s, class_prior):
    """Return the known class prior, or the one that pu-toolbox estimates by default.

    The estimate compares labelled with unlabelled rows, so it is the share of positives among the unlabelled rows.
    """
    if class_prior is not None:
        return float(class_prior)
    hidden = toolbox.ClassPriorEstimator().fit(X, s).estimate()
    return float(s.mean() + (1.0 - s.mean()) * hidden)


# --- SAR-EM of others


class Pysarpu(ProbabilityPeer):
    """SAR-EM of pysarpu: two logistic models without a penalty, by EM from random starting values.

    `predict` of the package predicts the *label*, from the product of both models. Its decision about the class, which
    the adapter uses, is `predict_c`. The package draws from NumPy's global generator, which the adapter seeds for the
    fit and then restores.
    """

    needs = ("pysarpu", "pysarpu.classification", "pysarpu.propensity")
    install = "pip install pysarpu statsmodels"

    def __init__(
        self,
        *,
        propensity_attributes=None,
        classification_attributes=None,
        max_iter=10_000,
        tol=1e-6,
        random_state=None,
    ):
        self.propensity_attributes = propensity_attributes
        self.classification_attributes = classification_attributes
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def predict_propensity(self, X):
        """Return the propensity of each row."""
        return self.model_.predict_eproba(np.asarray(X)[:, _columns(self.propensity_attributes, X)])

    def _fitted(self, pysarpu, classification, propensity, X, s):
        model = pysarpu.PUClassifier(classification.LinearLogisticRegression(), propensity.LogisticPropensity())
        with global_seed(self.random_state):
            model.fit(
                self._seen(X), X[:, _columns(self.propensity_attributes, X)], s, tol=self.tol, max_iter=self.max_iter
            )
        self.n_iter_ = len(model.history) - 1
        return model

    def _score(self, X):
        return self.model_.predict_cproba(self._seen(X))

    def _decide(self, X):
        return self.model_.predict_c(self._seen(X))

    def _seen(self, X):
        return X[:, _columns(self.classification_attributes, X)]


class AuthorsSAREM(ProbabilityPeer):
    """SAR-EM of Bekker, Robberechts and Davis (2019), as published, with its final refit.

    `LogisticRegressionPU` of the published code passes ``multi_class`` to scikit-learn, which scikit-learn 1.9 refuses.
    The adapter replaces its constructor; everything else is the published code.
    """

    needs = ("sarpu.pu_learning", "sarpu.PUmodels")
    install = (
        f'pip install "git+{AUTHORS_REPOSITORY}#subdirectory=sarpu", or set {AUTHORS_VARIABLE} to the folder of a '
        "checkout of this repository"
    )

    def __init__(self, *, propensity_attributes=None, classification_attributes=None, refit=True, max_its=500):
        self.propensity_attributes = propensity_attributes
        self.classification_attributes = classification_attributes
        self.refit = refit
        self.max_its = max_its

    def predict_propensity(self, X):
        """Return the propensity of each row."""
        return self.propensity_model_.predict_proba(np.asarray(X))

    def _fitted(self, learning, models, X, s):
        model, self.propensity_model_, info = learning.pu_learn_sar_em(
            X,
            s,
            _columns(self.propensity_attributes, X),
            classification_attributes=_columns(self.classification_attributes, X),
            classification_model=authors_logistic(models),
            propensity_model=authors_logistic(models),
            max_its=self.max_its,
            refit_classifier=self.refit,
        )
        self.n_iter_ = info["nb_iterations"] + 1
        return model

    def _score(self, X):
        return self.model_.predict_proba(X)  # one column: the probability of the positive class

    def _decide(self, X):
        return self._score(X) > 0.5


def authors_logistic(models):
    """Return the authors' logistic regression with the options of its constructor, without ``multi_class``."""

    class CurrentLogisticRegressionPU(models.LogisticRegressionPU):
        def __init__(self, C=1.0):
            LogisticRegression.__init__(self, C=C, solver="liblinear")

    return CurrentLogisticRegressionPU()


# --- translations


def share_of_unlabelled(class_prior, s):
    """Return the share of positives among the unlabelled rows, given their share among all rows.

    All labelled rows are positive. The share is kept between 0.001 and 0.999, as the packages need.
    """
    labelled = np.mean(s)
    return float(np.clip((class_prior - labelled) / (1.0 - labelled), 1e-3, 1.0 - 1e-3))


@contextmanager
def global_seed(seed):
    """Seed NumPy's global generator, and restore its state afterwards."""
    state = np.random.get_state()  # noqa: NPY002 (the package uses this generator)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _logistic_unless(estimator):
    """Return a new copy of a classifier, because pulearn fits the classifier that it is given."""
    return LogisticRegression(max_iter=1000) if estimator is None else clone(estimator)


def _columns(attributes, X):
    """Return the numbers of the columns; None and "all" mean all."""
    return np.arange(np.shape(X)[1]) if _is_all(attributes) else np.asarray(attributes, dtype=np.intp)


def _is_all(attributes):
    return attributes is None or (isinstance(attributes, str) and attributes == "all")
