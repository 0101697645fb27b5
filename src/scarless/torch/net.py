"""A classifier of two networks, trained by the observed likelihood."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import warn_if_fitted_to_labels, warn_if_scored_by_labels
from scarless.checks.labels import LabelCoding
from scarless.checks.options import check_counts, check_flag, check_vector, check_weight, check_whole, cut_of, shown
from scarless.checks.rows import forget_fit, refuse_lost_class, warn_about_row_order
from scarless.numerics.arrays import Array, ArrayLike, Vector
from scarless.numerics.likelihood import log_likelihood_of_probabilities, posterior
from scarless.outside.notices import warn_user
from scarless.pair.constraints import check_known
from scarless.pair.logistic import all_labelled
from scarless.torch.fitting import NetworkFit, TrainedPair, check_recalibrate
from scarless.torch.inputs import attribute_columns, check_features, check_integers, plain, read_rows, read_training
from scarless.torch.training import NetTraining, check_training

PSEUDO_OBSERVATIONS = 4.0  # where nobody says how many, as in stacks
# What does not tell one fit from another; modules and seeds are told apart by themselves.
_NOT_IN_MARK = (
    "checkpoint", "verbose", "device", "module", "propensity_module", "random_state", "training", "known",
)  # fmt: skip


class SARNetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc, unused-ignore]
    r"""Two networks, one of the class and one of the labelling, trained together by the observed likelihood.

    .. math:: s \sim \mathrm{Bernoulli}(f(x)\, e(z)), \qquad f = \sigma(u(x)), \quad e = \sigma(v(z))

    Training begins as the paper does: the classifier tells labelled from unlabelled rows, both of equal weight, and the
    propensity is the one that this implies. Then both follow the likelihood in batches, until that of held-out rows has
    not risen for `patience` epochs (of `training`), and go back to where it was highest. Last, scale and level of the
    logits of rows that were not trained on are estimated anew together with the propensity (`recalibrate`): early stopping,
    like a penalty, gets directions right and scales too small. Where a logistic propensity sees part of what the
    classifier sees, the class's logit may follow it further than the network did, which has learned least where
    positives are hardly ever labelled. What labels then leave open is said in a warning.

    Right when only positives are labelled, with a probability that depends on `z` alone, and when what the propensity
    network can express is much less than what the classifier can: two flexible networks that see the same rows explain
    the labels equally well in each other's place.

    Parameters
    ----------
    module : torch.nn.Module, class or callable, optional
        The classifier: one logit for each row. A class or function is called with the number of columns (of images,
        with the shape of one), or with nothing if it takes nothing; an instance is copied. By default a network with
        one hidden layer of 64.
    propensity_module : torch.nn.Module, class or callable, optional
        The propensity, likewise. By default logistic.
    propensity_attributes : column selector, "all" or None, default=None
        The columns of `X` that labelling depends on. None, without `propensity_features`, is SCAR: the same propensity
        for every row.
    propensity_features : callable, optional
        In the place of columns: a function of `X` that returns what labelling depends on, such as the brightness of
        each image. `fit` and predictions also take them as arrays.
    training : NetTraining, optional
        How networks are trained: epochs, batches, step lengths, optimiser, held-out rows, precision. Default:
        ``NetTraining()``. Give one for a grid search to reach inside, as ``training__lr``.
    known : list, optional
        ``[PseudoObservations(4)]``, the default: imaginary positives, half of them labelled, that keep the label frequency
        off 0 and 1 where logits are recalibrated.
    n_starts : int, default=1
        How often to train in each fold, each time from other weights; the best by held-out likelihood is taken.
    recalibrate : bool, "held-out" or "out-of-fold", default=True
        Whether to estimate scale and level of logits, and the propensity's, anew, and by which rows. "held-out": one
        pair of networks, and the rows that stopped its training. "out-of-fold": one pair for each fold, so that every
        row is held out once; predictions are by the networks' mean logits. That takes as many times as long, and is
        far more certain of the level where labels are few. True takes "out-of-fold" where less than 500 of the held-out
        rows are labelled, else "held-out". False leaves the networks as training ended.
    standardise : bool, default=True
        Whether networks see columns with mean 0 and variance 1; of images, all pixels together. Columns that hardly
        vary are moved, and not stretched.
    integers : bool, default=False
        Whether `X` holds whole numbers that `module` takes as they are, such as the token ids of texts: they are not
        standardised, and come as ``torch.int64``. `propensity_features` gets them too.
    device : str, default="auto"
        "auto" is "cuda" where there is one, else "cpu".
    checkpoint : path, optional
        A folder in which the state of training is kept after each epoch. A fit of the same rows with the same
        parameters goes on from there, and ends as if it had never been stopped.
    pos_label : label, optional
        Which of two labels marks labelled rows; needed unless they are 0/1, -1/+1 or booleans.
    random_state : int, Generator or None, default=None
        For held-out rows, weights and batches. The same number gives the same networks on the same machine.
    verbose : bool, default=False
        Whether to print a line for each epoch.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The two labels, that of unlabelled rows first.
    module_, propensity_module_ : torch.nn.Module
        The trained networks, out of fold the mean of those of all folds; what they see is standardised.
    net_ : skorch.NeuralNet
        Both under skorch.
    recalibration_ : Recalibration
        How logits were moved and stretched; only where they were.
    class_prior_ : float
        Estimated share of positives, by the rows that were held out.
    label_frequency_ : float
        Estimated share of positives that are labelled.
    log_likelihood_ : float
        Of these rows together.
    starts_ : array of shape (n_folds, n_starts)
        Held-out log-likelihood per row of each start, in the one fold or in all.
    history_ : dict of arrays
        ``fold``, ``start``, ``epoch``, ``train_loss`` and ``log_likelihood`` (held out, per row) of every epoch.
    n_iter_ : int
        Epochs of the start that was taken, the most of any fold.
    converged_ : bool
        Whether held-out rows ended training in every fold, and not `max_epochs`.

    See Also
    --------
    SARLikelihoodLoss : The likelihood alone, for a training loop of your own.
    scarless.SAREMClassifier : Logistic models, or scikit-learn's, for tables.

    References
    ----------
    Bekker, Robberechts and Davis (2019), "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = np.abs(X[:, 0]) > 1  # no line tells these classes apart
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
        return hasattr(self, "class_prior_")  # what a fit stores last

    @property
    def label_coding_(self) -> LabelCoding:
        """The two values of labels in the fit, and which of them is the positive one."""
        return self._coding

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, propensity_features: Any = None) -> Any:
        """Train both networks.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame
            Rows of numbers: columns, images, or of any other shape that `module` takes.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled positives, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts.
        propensity_features : array of shape (n_rows, ...), optional
            What labelling depends on, where it is not columns of `X`; predictions of propensities need it as well.

        Returns
        -------
        SARNetClassifier
        """
        warn_if_fitted_to_labels(self)
        forget_fit(self)
        training, audits = check_training(self.training), self._check_options()
        table, s, coding = read_training(self, X, y)
        weight = check_counts(sample_weight, n_rows=s.size)
        warn_about_row_order(X, sample_weight=sample_weight)
        refuse_lost_class(weight @ s, weight @ (1.0 - s))
        self._coding, self.classes_, self._shape = coding, coding.classes, table.shape[1:]
        self._given = propensity_features is not None
        if self.integers:
            check_integers(table)
        self._columns = self._check_columns(X, table)
        seen = self._propensity_rows(X, table, propensity_features)
        counted = weight > 0
        fit = self._network_fit(training, audits)
        self._store(fit.train(table[counted], seen[counted], s[counted], weight[counted]))
        return self

    def _check_options(self) -> float:
        """Check parameters; return how many pseudo-observations there are."""
        check_whole(self.n_starts, "n_starts", at_least=1)
        check_recalibrate(self.recalibrate)
        for name in ("standardise", "integers"):
            check_flag(getattr(self, name), name)
        if self.propensity_features is not None and not callable(self.propensity_features):
            raise ValueError(
                "propensity_features must be a function of X here, so that predictions can use it; got "
                f"{shown(self.propensity_features)}. An array goes into fit(X, y, propensity_features=Z)."
            )
        known = check_known(self.known, audits=PSEUDO_OBSERVATIONS)
        if known.shares:
            raise ValueError(
                f"known says {known.shares[0].told}, which networks cannot be held to: SARNetClassifier takes "
                "PseudoObservations(...) only. SAREMClassifier and SAREMClassifierCV take what is known of shares."
            )
        return known.audits

    def _check_columns(self, X: Any, rows: Array) -> NDArray[np.intp]:
        ways = (self.propensity_attributes is not None, self.propensity_features is not None, self._given)
        if sum(ways) > 1:
            raise ValueError(
                "What labelling depends on was said more than once: give one of propensity_attributes, the function "
                "propensity_features, and fit(X, y, propensity_features=Z)."
            )
        return attribute_columns(self, X, rows)

    def _propensity_rows(self, X: Any, rows: Array, given: Any) -> Array:
        """Return what the propensity sees of rows."""
        if (given is not None) != self._given:
            raise ValueError(
                "propensity_features were given as an array to fit, and are needed here too: propensity_features=Z."
                if self._given
                else "propensity_features were not given as an array to fit, and cannot be given here."
            )
        if self._given:
            return check_features(given, rows.shape[0])
        if self.propensity_features is not None:
            return check_features(self.propensity_features(plain(X)), rows.shape[0])
        return rows[:, self._columns] if rows.ndim == 2 else np.empty((rows.shape[0], 0))

    def _network_fit(self, training: NetTraining, audits: float) -> NetworkFit:
        own = {name: value for name, value in self.get_params(deep=False).items() if name not in _NOT_IN_MARK}
        how = {f"training__{name}": value for name, value in training.get_params().items()}
        told = sorted({**own, **how, "audits": audits}.items())
        return NetworkFit(
            module=self.module,
            propensity_module=self.propensity_module,
            training=training,
            n_starts=self.n_starts,
            recalibrate=check_recalibrate(self.recalibrate),
            audits=audits,
            standardise=self.standardise,
            integers=self.integers,
            device=self.device,
            checkpoint=self.checkpoint,
            random_state=self.random_state,
            verbose=self.verbose,
            of_x=not self._given,
            sees_all=len(self._shape) == 1 and self._columns.size == self._shape[0],
            words=tuple(f"{name}={shown(value)}" for name, value in told),
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
        prior, self.label_frequency_, self.log_likelihood_ = pair.recalibrated.shares(pair.judged)
        self._warn(prior)
        doubts = pair.recalibrated.doubts(pair.judged)
        if doubts:
            warn_user(f"{type(self).__name__} is in doubt. {' '.join(doubts)}", UserWarning)
        self.class_prior_ = prior

    def _warn(self, prior: float) -> None:
        name = type(self).__name__
        training = check_training(self.training)
        if not self.converged_ and training.patience is not None:
            warn_user(
                f"{name} did not stop in max_epochs={training.max_epochs} epochs: the held-out log-likelihood per row "
                f"is {self.history_['log_likelihood'][-1]:.4f} and may still rise. Raise max_epochs or lr.",
                ConvergenceWarning,
            )
        if all_labelled(self.label_frequency_):
            warn_user(
                f"{name} finds that all positives are labelled (label frequency {self.label_frequency_:.6f}): its "
                "classifier is then the naive one. If that cannot be: does X tell the label? Otherwise use a simpler "
                "module, or recalibrate=True.",
                UserWarning,
            )
        if prior > 0.95:
            warn_user(
                f"{name} finds that nearly every row is positive (class prior {prior:.3f}): the propensity explains "
                "the labels by itself. If that cannot be, let it see less: fewer propensity_attributes, a simpler "
                "propensity_module.",
                UserWarning,
            )

    def predict_proba(self, X: Any) -> Vector:
        """Return the probability of each class, one column per entry of ``classes_``.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame

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
        decision : {"accuracy", "balanced"} or pair of numbers, default="accuracy"
            Which cut of the probability, as in `SAREMClassifier.predict`.

        Returns
        -------
        array of shape (n_rows,)
        """
        check_is_fitted(self)
        warn_if_scored_by_labels(self)
        return self._coding.decode(self._class_probability(X) > cut_of(decision, self.class_prior_))

    def predict_propensity(self, X: Any, *, propensity_features: Any = None) -> Vector:
        r"""Return the labelling propensity :math:`e = \Pr(s=1|y=1,z)` of each row.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame
        propensity_features : array of shape (n_rows, ...), optional
            As in `fit`, where it was given there.

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
        seen = self._propensity_rows(X, rows, None) if self._pair.class_sees_more else None
        return np.asarray(expit(self._pair.class_logits(rows, seen)))

    def predict_posterior(self, X: Any, s: ArrayLike, *, propensity_features: Any = None) -> Vector:
        r"""Return :math:`\Pr(y=1|x,s)` of each row: its class given that it was, or was not, labelled.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame
        s : array of shape (n_rows,)
            Observed labels, coded as in `fit`.
        propensity_features : array of shape (n_rows, ...), optional
            As in `fit`, where it was given there.

        Returns
        -------
        array of shape (n_rows,)
        """
        e = self.predict_propensity(X, propensity_features=propensity_features)
        coded = check_vector(self._coding.encode(plain(s), "s"), "s", n_rows=e.size)
        return posterior(self._class_probability(X), e, coded)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, propensity_features: Any = None) -> float:
        """Return the mean observed log-likelihood of labels: what can be said of a fit without knowing the class.

        Parameters
        ----------
        X : array of shape (n_rows, ...) or data frame
        y : array of shape (n_rows,)
            Observed labels, coded as in `fit`.
        sample_weight : array of shape (n_rows,), optional
        propensity_features : array of shape (n_rows, ...), optional
            As in `fit`, where it was given there.

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
