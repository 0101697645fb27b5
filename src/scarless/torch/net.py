"""Classifier with two networks that maximise the likelihood of the observed labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import warn_if_fitted_to_labels, warn_if_scored_by_labels
from scarless.checks.labels import LabelCoding
from scarless.checks.options import (
    check_counts,
    check_flag,
    check_vector,
    check_weight,
    check_whole,
    decision_threshold,
    shown,
)
from scarless.checks.rows import check_label_weights, forget_fit, warn_about_row_order
from scarless.numerics.arrays import Array, ArrayLike, Matrix, Vector
from scarless.numerics.likelihood import log_likelihood_of_probabilities, posterior
from scarless.outside.notices import warn_user
from scarless.pair.constraints import check_known
from scarless.pair.logistic import all_labelled
from scarless.torch.fitting import NetworkFit, TrainedPair, check_recalibrate
from scarless.torch.inputs import attribute_columns, check_features, check_integers, plain, read_rows, read_training
from scarless.torch.training import NetTraining, check_training

PSEUDO_OBSERVATIONS = 4.0  # default number, as in stacks
# Parameters that are not part of the identifier of a fit in its checkpoint. Of these, the modules, the seed, `training`
# and `known` are added to the identifier in another form.
_NOT_IN_MARK = (
    "checkpoint", "verbose", "device", "module", "propensity_module", "random_state", "training", "known",
)  # fmt: skip


class SARNetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc, unused-ignore]
    r"""Classifier with two networks, one for the class and one for the labelling, trained by the observed likelihood.

    .. math:: s \sim \mathrm{Bernoulli}(f(x)\, e(z)), \qquad f = \sigma(u(x)), \quad e = \sigma(v(z))

    Training starts as in Bekker et al. (2019): the classifier separates labelled from unlabelled rows, with equal total
    weights. The propensity is then fitted to the labels, with unlabelled rows weighted by their class probability. Then
    both networks maximise the likelihood in batches. Training ends when the likelihood of held-out rows has not
    improved for `patience` epochs, and the best weights are restored. Like a penalty, early stopping makes the logits
    too small. They are therefore recalibrated on held-out rows, together with the propensity (`recalibrate`). A warning
    names the quantities that the labels do not determine.

    Assumptions: only positives are labelled, with a probability that depends only on `z`; and the propensity network is
    much less flexible than the classifier. Two flexible networks with the same inputs could be swapped.

    Parameters
    ----------
    module : torch.nn.Module, class or callable, optional
        Classifier, which returns one logit for each row. A class or function is called with the number of columns or,
        for images, with the shape of one image; if it takes no arguments, it is called without any. An instance is
        copied. Default: a network with one hidden layer of 64 units.
    propensity_module : torch.nn.Module, class or callable, optional
        Propensity network, passed like `module`. Default: a logistic model.
    propensity_attributes : column selector, "all" or None, default=None
        Columns of `X` that the propensity depends on. None, without `propensity_features`, means SCAR: the same
        propensity for every row.
    propensity_features : callable, optional
        Function of `X` that returns the inputs of the propensity, such as the brightness of each image; use it instead
        of columns. `fit` and predictions also accept the inputs as arrays.
    training : NetTraining, optional
        Options of the training: epochs, batches, learning rates, optimiser, held-out rows, precision. Default:
        ``NetTraining()``. Pass a `NetTraining` if a grid search should set its parameters, such as ``training__lr``.
    known : list, optional
        Pseudo-observations, which keep the label frequency away from 0 and 1 in the recalibration. Default:
        ``[PseudoObservations(4)]``.
    n_starts : int, default=1
        Number of trainings in each fold, from different initial weights. The networks with the best held-out likelihood
        are chosen.
    recalibrate : bool, "held-out" or "out-of-fold", default=True
        Whether to recalibrate the logits, and on which rows. "held-out": one pair of networks, recalibrated on the
        held-out rows that determined when its training ended. "out-of-fold": one pair for each fold, so that every row
        is held out once; predictions use the mean logits. This multiplies the training time by the number of folds, but
        determines the class prior much better if there are few labels. True: "out-of-fold" if fewer than 500 held-out
        rows are labelled, else "held-out". False: no recalibration.
    standardise : bool, default=True
        Whether to standardise columns to mean 0 and variance 1; for images, all pixels together. Nearly constant
        columns are shifted, but not scaled.
    integers : bool, default=False
        Whether `X` holds integers, such as token ids of texts. They are not standardised, and `module` receives them as
        ``torch.int64``. `propensity_features` receives them, too.
    device : str, default="auto"
        Device of torch. "auto" is "cuda" if it is available, else "cpu".
    checkpoint : path, optional
        Folder in which the state is stored after each epoch. If a fit with the same rows and parameters is started
        again, it resumes from this state, with the same result.
    pos_label : label, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.
    random_state : int, Generator or None, default=None
        Seed of the random numbers: held-out rows, weights and batches. Pass an int for reproducible results on the same
        machine.
    verbose : bool, default=False
        Whether to print a line for each epoch.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The two labels; the label of unlabelled rows is first.
    module_, propensity_module_ : torch.nn.Module
        The trained networks, or the means over all folds. Their inputs are standardised.
    net_ : skorch.NeuralNet
        Both networks in skorch.
    recalibration_ : Recalibration
        Recalibration of the logits; absent if they were not recalibrated.
    class_prior_ : float
        Share of positives, estimated on held-out rows.
    label_frequency_ : float
        Estimated share of positives that are labelled.
    log_likelihood_ : float
        Total log-likelihood of held-out rows.
    starts_ : array of shape (n_folds, n_starts)
        Held-out log-likelihood per row of each fold and start.
    history_ : dict of arrays
        ``fold``, ``start``, ``epoch``, ``train_loss`` and held-out ``log_likelihood`` per row of every epoch.
    n_iter_ : int
        Epochs of the chosen start; the largest number over folds.
    converged_ : bool
        Whether training ended before `max_epochs` in every fold.

    See Also
    --------
    SARLikelihoodLoss : The likelihood as a loss, for your own training loop.
    scarless.SAREMClassifier : Logistic models, or models of scikit-learn, for tables.

    References
    ----------
    Bekker, Robberechts and Davis (2019), "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = np.abs(X[:, 0]) > 1  # no straight line separates these classes
    >>> s = y & (rng.random(1000) < 1 / (1 + np.exp(-X[:, 2])))
    >>> model = SARNetClassifier(propensity_attributes=[2], training=NetTraining(lr=0.01), random_state=0)
    >>> model = model.fit(X, s)
    >>> print(f"{np.mean(y):.2f} positive, {np.mean(s):.2f} labelled, {np.mean(model.predict(X)):.1f} estimated")
    0.32 positive, 0.16 labelled, 0.3 estimated
    """

    _coding: LabelCoding
    _shape: tuple[int, ...]
    _columns: NDArray[np.intp]
    _given: bool
    _pair: TrainedPair

    def __init__(
        self,
        module: Any = None,
        propensity_module: Any = None,
        *,
        propensity_attributes: Any = None,
        propensity_features: Any = None,
        training: Any = None,
        known: Any = None,
        n_starts: int = 1,
        recalibrate: bool | str = True,
        standardise: bool = True,
        integers: bool = False,
        device: str = "auto",
        checkpoint: Any = None,
        pos_label: Any = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.module = module
        self.propensity_module = propensity_module
        self.propensity_attributes = propensity_attributes
        self.propensity_features = propensity_features
        self.training = training
        self.known = known
        self.n_starts = n_starts
        self.recalibrate = recalibrate
        self.standardise = standardise
        self.integers = integers
        self.device = device
        self.checkpoint = checkpoint
        self.pos_label = pos_label
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.three_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "class_prior_")  # This is the last attribute that a fit stores.

    @property
    def label_coding_(self) -> LabelCoding:
        """The two values of labels in the fit, and which of them marks a labelled row."""
        return self._coding

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, propensity_features: Any = None) -> Any:
        """Train both networks.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame
            Rows of numbers: columns, images, or any other shape that `module` takes.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.
        propensity_features : array of shape (n_rows, ...), optional
            Inputs of the propensity, if they are not columns of `X`. Predictions of propensities then need them, too.

        Returns
        -------
        SARNetClassifier
        """
        warn_if_fitted_to_labels(self)
        forget_fit(self)
        training, pseudo_weight = check_training(self.training), self._check_options()
        table, s, coding = read_training(self, X, y)
        weight = check_counts(sample_weight, n_rows=s.size)
        warn_about_row_order(X, sample_weight=sample_weight)
        check_label_weights(s, weight)
        self._coding, self.classes_, self._shape = coding, coding.classes, table.shape[1:]
        self._given = propensity_features is not None
        if self.integers:
            check_integers(table)
        self._columns = self._check_columns(X, table)
        seen = self._propensity_rows(X, table, propensity_features)
        counted = weight > 0
        fit = self._network_fit(training, pseudo_weight)
        self._store(fit.train(table[counted], seen[counted], s[counted], weight[counted]))
        return self

    def _check_options(self) -> float:
        """Check parameters, and return the number of pseudo-observations."""
        check_whole(self.n_starts, "n_starts", at_least=1)
        check_recalibrate(self.recalibrate)
        for name in ("standardise", "integers"):
            check_flag(getattr(self, name), name)
        if self.propensity_features is not None and not callable(self.propensity_features):
            raise ValueError(
                f"propensity_features must be a function of X; got {shown(self.propensity_features)}. Pass an array to "
                "fit instead: fit(X, y, propensity_features=Z)."
            )
        known = check_known(self.known, pseudo_weight=PSEUDO_OBSERVATIONS)
        if known.shares:
            raise ValueError(
                "SARNetClassifier accepts only PseudoObservations(...) in known; got "
                f"{known.shares[0].description}. Use SAREMClassifier or SAREMClassifierCV for a known class prior or "
                "label frequency."
            )
        return known.pseudo_weight

    def _check_columns(self, X: Any, rows: Array) -> NDArray[np.intp]:
        ways = (self.propensity_attributes is not None, self.propensity_features is not None, self._given)
        if sum(ways) > 1:
            raise ValueError(
                "The inputs of the propensity were specified more than once. Pass only one of propensity_attributes, "
                "the function propensity_features, and fit(X, y, propensity_features=Z)."
            )
        return attribute_columns(self, X, rows)

    def _propensity_rows(self, X: Any, rows: Array, given: Any) -> Array:
        """Return the inputs of the propensity."""
        if (given is not None) != self._given:
            raise ValueError(
                "propensity_features was passed to fit as an array, so it is needed here, too: propensity_features=Z."
                if self._given
                else "propensity_features was not passed to fit, so it cannot be passed here. Leave it out."
            )
        if self._given:
            return check_features(given, rows.shape[0])
        if self.propensity_features is not None:
            return check_features(self.propensity_features(plain(X)), rows.shape[0])
        return rows[:, self._columns] if rows.ndim == 2 else np.empty((rows.shape[0], 0))

    def _network_fit(self, training: NetTraining, pseudo_weight: float) -> NetworkFit:
        own = {name: value for name, value in self.get_params(deep=False).items() if name not in _NOT_IN_MARK}
        how = {f"training__{name}": value for name, value in training.get_params().items()}
        # "audits" is the earlier name of the pseudo-observations. With another name, checkpoints of earlier versions
        # could not be resumed.
        parameters = sorted({**own, **how, "audits": pseudo_weight}.items())
        return NetworkFit(
            module=self.module,
            propensity_module=self.propensity_module,
            training=training,
            n_starts=self.n_starts,
            recalibrate=check_recalibrate(self.recalibrate),
            pseudo_weight=pseudo_weight,
            standardise=self.standardise,
            integers=self.integers,
            device=self.device,
            checkpoint=self.checkpoint,
            random_state=self.random_state,
            verbose=self.verbose,
            of_x=not self._given,
            sees_all=len(self._shape) == 1 and self._columns.size == self._shape[0],
            words=tuple(f"{name}={shown(value)}" for name, value in parameters),
        )

    def _store(self, pair: TrainedPair) -> None:
        self._pair, self.net_ = pair, pair.net
        self.module_, self.propensity_module_ = pair.net.module_.f, pair.net.module_.e
        self.starts_ = np.array([[start.log_likelihood for start in fold] for fold in pair.starts])
        best = np.argmax(self.starts_, axis=1)
        self.converged_ = all(fold[i].stopped for fold, i in zip(pair.starts, best, strict=True))
        self.history_ = {name: np.array([each[name] for each in pair.history]) for name in pair.history[0]}
        taken = self.history_["start"] == best[self.history_["fold"]]
        self.n_iter_ = int(np.bincount(self.history_["fold"][taken]).max())
        if pair.recalibrated.recalibration is not None:
            self.recalibration_ = pair.recalibrated.recalibration
        prior, self.label_frequency_, self.log_likelihood_ = pair.recalibrated.shares(pair.held_out)
        self._warn(prior)
        doubts = pair.recalibrated.doubts(pair.held_out)
        if doubts:
            warn_user(f"The fit of {type(self).__name__} is uncertain. {' '.join(doubts)}", UserWarning)
        self.class_prior_ = prior

    def _warn(self, prior: float) -> None:
        name = type(self).__name__
        training = check_training(self.training)
        if not self.converged_ and training.patience is not None:
            warn_user(
                f"{name} did not converge in max_epochs={training.max_epochs} epochs: the held-out log-likelihood per "
                f"row is {self.history_['log_likelihood'][-1]:.4f} and may still increase. Increase max_epochs or lr.",
                ConvergenceWarning,
            )
        if all_labelled(self.label_frequency_):
            # A fit without held-out rows (validation_share=0) is not recalibrated, even if recalibrate is True.
            recalibrated = hasattr(self, "recalibration_")
            other = "" if recalibrated else ", or recalibrate (recalibrate=True, with a validation_share above 0)"
            warn_user(
                f"{name} finds that all positives are labelled (label frequency {self.label_frequency_:.6f}), so its "
                "classifier is the naive model. If this is implausible, remove columns that were filled in after the "
                f"label was known, or use a simpler module{other}.",
                UserWarning,
            )
        if prior > 0.95:
            warn_user(
                f"{name} finds that nearly every row is positive (class prior {prior:.3f}): the propensity alone "
                "explains the labels. If this is implausible, use fewer propensity_attributes, or a simpler "
                "propensity_module.",
                UserWarning,
            )

    def predict_proba(self, X: Any) -> Matrix:
        """Return the probability of each class, one column for each entry of ``classes_``.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame
            Rows, as in `fit`.

        Returns
        -------
        array of shape (n_rows, 2)
        """
        check_is_fitted(self)
        warn_if_scored_by_labels(self)
        return self._coding.columns(self._class_probability(X))

    def predict(self, X: Any, *, decision: Any = "accuracy") -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame
            Rows, as in `fit`.
        decision : {"accuracy", "balanced"} or pair of numbers, default="accuracy"
            Threshold of the probability, as in `SAREMClassifier.predict`.

        Returns
        -------
        array of shape (n_rows,)
        """
        check_is_fitted(self)
        warn_if_scored_by_labels(self)
        return self._coding.decode(self._class_probability(X) > decision_threshold(decision, self.class_prior_))

    def predict_propensity(self, X: Any, *, propensity_features: Any = None) -> Vector:
        r"""Return the propensity :math:`e = \Pr(s=1|y=1,z)` of each row.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame
            Rows, as in `fit`.
        propensity_features : array of shape (n_rows, ...), optional
            Inputs of the propensity, if they were passed to `fit`.

        Returns
        -------
        array of shape (n_rows,)
        """
        check_is_fitted(self)
        rows = read_rows(self, X, self._shape)
        return np.asarray(expit(self._pair.propensity_logits(self._propensity_rows(X, rows, propensity_features))))

    def _class_probability(self, X: Any) -> Vector:
        rows = read_rows(self, X, self._shape)
        if self.integers:
            check_integers(rows)
        seen = self._propensity_rows(X, rows, None) if self._pair.class_needs_propensity_inputs else None
        return np.asarray(expit(self._pair.class_logits(rows, seen)))

    def predict_posterior(self, X: Any, s: ArrayLike, *, propensity_features: Any = None) -> Vector:
        r"""Return the posterior :math:`\Pr(y=1|x,s)` of each row: its class probability given its label.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame
            Rows, as in `fit`.
        s : array of shape (n_rows,)
            Observed labels, coded as in `fit`.
        propensity_features : array of shape (n_rows, ...), optional
            Inputs of the propensity, if they were passed to `fit`.

        Returns
        -------
        array of shape (n_rows,)
        """
        e = self.predict_propensity(X, propensity_features=propensity_features)
        coded = check_vector(self._coding.encode(plain(s), "s"), "s", n_rows=e.size)
        return posterior(self._class_probability(X), e, coded)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, propensity_features: Any = None) -> float:
        """Return the mean log-likelihood of the observed labels. It measures the fit even if the classes are unknown.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame
            Rows, as in `fit`.
        y : array of shape (n_rows,)
            Observed labels, coded as in `fit`.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.
        propensity_features : array of shape (n_rows, ...), optional
            Inputs of the propensity, if they were passed to `fit`.

        Returns
        -------
        float
        """
        e = self.predict_propensity(X, propensity_features=propensity_features)
        f = self._class_probability(X)
        s = check_vector(self._coding.encode(plain(y)), "y", n_rows=f.size)
        w = check_weight(sample_weight, n_rows=f.size)
        counted = w > 0
        return float(w[counted] @ log_likelihood_of_probabilities(f, e, s)[counted]) / float(w.sum())
