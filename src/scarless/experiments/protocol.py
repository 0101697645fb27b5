"""The protocol of an experiment: propensity attributes from clusters, stratified splits, and simulated labels.

The propensities of a cell come from added attributes, from a mechanism of the whole table, or from a mechanism that is
drawn for the split: by the class probability of a supervised fit, or by random attributes of the table.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from scarless.experiments.entries import ADDED_ATTRIBUTES, CLASS_PROBABILITY, DRAWN_PARAMETERS, OWN_ATTRIBUTES, curve_of
from scarless.experiments.spec import Cell, Spec
from scarless.labelling import GeometricMeanSAR, LogisticSAR, StepSAR, simulate_labels
from scarless.numerics.arrays import Matrix, Vector

#: Maximum number of rows that the clusters of an added propensity attribute are fitted to. By judgement.
ROWS_FOR_CLUSTERS = 20_000
#: A random propensity attribute must differ from its most frequent value in at least this share of the rows. By
#: judgement.
MIN_VARYING_SHARE = 0.1
#: How often labels are drawn until there are `min_labels` of them. By judgement.
MAX_DRAWS = 1_000
#: How often the range of an intercept is made five times as wide until it has a label frequency. By judgement.
MAX_WIDER = 10
#: Mean propensity of the positives if a mechanism by random attributes has no label frequency. By judgement.
USUAL_LABEL_FREQUENCY = 0.5


@dataclass(frozen=True)
class Prepared:
    """The attributes of a dataset, followed by the added attributes (-1/+1), and its classes.

    `columns` are the positions of the propensity attributes that the dataset names. `propensities` are the propensities
    of the rows for each mechanism that needs no added attributes.
    """

    X: Matrix
    y: Vector
    n_original: int
    columns: tuple[int, ...] = ()
    propensities: Mapping[str, Vector] = field(default_factory=dict)


@dataclass(frozen=True)
class Split:
    """The training and test rows of a split."""

    X_train: Matrix
    y_train: Vector
    X_test: Matrix
    y_test: Vector
    n_original: int
    columns: tuple[int, ...] = ()
    e_train: Mapping[str, Vector] = field(default_factory=dict)
    e_test: Mapping[str, Vector] = field(default_factory=dict)
    f_train: Vector | None = None  # class probability by a supervised fit, if a mechanism depends on it
    f_test: Vector | None = None


class Propensities(NamedTuple):
    """The propensities of a cell, and the columns that are named and that classifiers may use."""

    e_train: Vector
    e_test: Vector
    named: tuple[int, ...]  # propensity attributes; empty if none are named
    n_seen: int  # the classifier may use the first columns

    def at(self, c: float | None, y_train: Vector) -> "Propensities":
        """Return propensities times a factor, at most 1, with mean `c` over the positive training rows.

        If `c` is None, the propensities are not changed.
        """
        if c is None:
            return self
        e = self.e_train[y_train == 1]

        def excess(log_factor: float) -> float:
            return float(np.minimum(np.exp(log_factor) * e, 1.0).mean() - c)

        factor = np.exp(brentq(excess, np.log(c), -np.log(e.min()), xtol=1e-12)) if excess(np.log(c)) < 0 else c
        return self._replace(
            e_train=np.minimum(factor * self.e_train, 1.0), e_test=np.minimum(factor * self.e_test, 1.0)
        )


@dataclass(frozen=True)
class Task:
    """The data of one run: labels for the method, and the truth for the scores.

    Only methods that are documented to know the truth may read `y_*` and `e_*`.
    """

    cell: Cell
    split: Split
    s_train: Vector
    e_train: Vector
    e_test: Vector
    seed: int
    named: tuple[int, ...]
    n_seen: int

    @property
    def class_columns(self) -> NDArray[np.intp]:
        """The columns that the classifier may use."""
        return np.arange(self.n_seen)

    @property
    def propensity_columns(self) -> NDArray[np.intp]:
        """The propensity attributes; all columns if none are named."""
        return np.asarray(self.named or range(self.n_seen), dtype=np.intp)

    @property
    def class_prior(self) -> float:
        """The share of positives in the whole dataset."""
        return float(np.concatenate([self.split.y_train, self.split.y_test]).mean())

    @property
    def seen_train(self) -> Matrix:
        """The training rows with the columns that the classifier may use."""
        return self.split.X_train[:, : self.class_columns.size]

    @property
    def seen_test(self) -> Matrix:
        """The test rows with the columns that the classifier may use."""
        return self.split.X_test[:, : self.class_columns.size]


def prepare(spec: Spec, dataset: str, X: Any, y: Any) -> Prepared:
    """Return a dataset with added propensity attributes."""
    if spec.n_added and X.shape[0] < spec.clusters:
        raise ValueError(f"{dataset} has {X.shape[0]} rows, and clusters = {spec.clusters} needs more. Lower clusters.")
    rng = np.random.default_rng(spec.seed_of("attributes", dataset))
    added = [_attribute(X, spec.clusters, rng) for _ in range(spec.n_added)]
    return Prepared(np.column_stack([X, *added]), np.asarray(y, dtype=np.float64), X.shape[1])


def _attribute(X: Matrix, n_clusters: int, rng: np.random.Generator) -> Vector:
    """Return -1 or +1 for each row, with a random probability for each cluster of rows.

    The clusters are fitted to at most `ROWS_FOR_CLUSTERS` rows, drawn anew for each attribute.
    """
    n = X.shape[0]
    rows = rng.choice(n, size=ROWS_FOR_CLUSTERS, replace=False) if n > ROWS_FOR_CLUSTERS else slice(None)
    clusters = KMeans(n_clusters=n_clusters, n_init=1, random_state=int(rng.integers(2**31))).fit(X[rows])
    probability = rng.random(n_clusters)[clusters.predict(X)]
    return np.where(rng.random(n) < probability, 1.0, -1.0)


def sampled_rows(spec: Spec, dataset: str, n_rows: int) -> NDArray[np.intp]:
    """Return the rows of a dataset that are used: all, or a random sample of `max_rows`, in their order."""
    if spec.max_rows == 0 or n_rows <= spec.max_rows:
        return np.arange(n_rows)
    rng = np.random.default_rng(spec.seed_of("rows", dataset))
    return np.sort(rng.permutation(n_rows)[: spec.max_rows])


def split_rows(spec: Spec, dataset: str, split: int, data: Prepared) -> Split:
    """Split the rows into training and test rows with equal shares of positives.

    With the seeds of another comparison, the split is the one of that comparison, which is not stratified.
    """
    rows = np.arange(data.y.size)
    if spec.seeds == "own":
        seed = int(spec.seed_of("split", dataset, split).generate_state(1)[0])
        train, test = train_test_split(rows, test_size=spec.test_share, stratify=data.y, random_state=seed)
        train, test = np.sort(train), np.sort(test)
    else:
        train, test = train_test_split(rows, test_size=spec.test_share, random_state=split)
    for what, part in (("training", train), ("test", test)):
        if np.unique(data.y[part]).size < 2:
            raise ValueError(
                f"{dataset}, split {split}: all {part.size} {what} rows have the same class, so no method can be "
                "fitted and scored. Use more rows, or another test_share."
            )
    e_train, e_test = ({name: e[part] for name, e in data.propensities.items()} for part in (train, test))
    X_train, X_test = data.X[train], data.X[test]
    if spec.scaling == "standardise":
        n = data.n_original  # Added attributes are -1 and +1.
        scaler = StandardScaler().fit(X_train[:, :n])
        X_train, X_test = (np.hstack([scaler.transform(X[:, :n]), X[:, n:]]) for X in (X_train, X_test))
    found = Split(X_train, data.y[train], X_test, data.y[test], data.n_original, data.columns, e_train, e_test)
    return _with_class_probability(spec, found) if spec.uses(CLASS_PROBABILITY) else found


def _with_class_probability(spec: Spec, split: Split) -> Split:
    """Return a split with the class probabilities of a logistic fit to the classes of the training rows.

    As in comparisons by others, this is scikit-learn's model with at most 100 iterations.
    """
    model = LogisticRegression(C=spec.C)
    n = split.n_original
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(split.X_train[:, :n], split.y_train)
        f_train, f_test = (model.predict_proba(X[:, :n])[:, 1] for X in (split.X_train, split.X_test))
    return replace(split, f_train=_inside(f_train), f_test=_inside(f_test))


def _inside(p: Vector) -> Vector:
    """Return probabilities in which 0 and 1 are replaced by .001 and .999, as in Teisseyre et al. (2025)."""
    return np.where(p == 1.0, 0.999, np.where(p == 0.0, 0.001, p))


def label(spec: Spec, cell: Cell, split: Split) -> Task:
    """Draw the labels of a cell; both settings of a split get the same labels."""
    try:
        found = _propensities(spec, cell, split)
    except ValueError as error:
        raise ValueError(f"The mechanism {cell.setting!r} on the dataset {cell.dataset!r}: {error}") from error
    s_train = _labels(spec, cell, split.y_train, found.e_train)
    method = spec.seed_of("methods", cell.dataset, cell.setting, cell.k, cell.split, cell.labelling)
    return Task(
        cell, split, s_train, found.e_train, found.e_test, int(method.generate_state(1)[0]), found.named, found.n_seen
    )


def _labels(spec: Spec, cell: Cell, y: Vector, e: Vector) -> Vector:
    """Draw labels, again and again until there are enough of them."""
    draw: Callable[[int], Any]
    if spec.seeds == "own":
        key = ("labels", cell.dataset, cell.k or cell.setting, cell.split, cell.labelling)

        def draw(attempt: int) -> Any:
            seed = spec.seed_of(*key, *((attempt,) if attempt else ()))
            return simulate_labels(y, e, random_state=seed)
    else:
        draw = partial(_labels_of_teisseyre, y, e, np.random.RandomState(cell.split))
    for attempt in range(MAX_DRAWS):
        s = np.asarray(draw(attempt), dtype=np.float64)
        if s.sum() >= spec.min_labels:
            return s
    raise ValueError(
        f"{cell.dataset}, {cell.setting}: none of {MAX_DRAWS:,} draws has min_labels = {spec.min_labels} labelled "
        f"training rows; {y @ e:.3g} are expected. Lower min_labels, or raise the label frequency."
    )


def _labels_of_teisseyre(y: Vector, e: Vector, stream: np.random.RandomState, attempt: int) -> Vector:
    """Return the labels of Teisseyre et al. (2025): one binomial number for each positive, in the order of the rows."""
    s = np.zeros(y.size)
    s[y == 1] = [stream.binomial(1, p) for p in e[y == 1]]
    return s


# --- propensities of a cell


def _propensities(spec: Spec, cell: Cell, split: Split) -> Propensities:
    """Return the propensities of a cell."""
    n, n_all = split.n_original, split.X_train.shape[1]
    if cell.k:
        return _by_added_attributes(spec, split, cell.k, n_all if cell.setting == "all" else n)
    entry = spec.own_mechanisms.get(cell.setting, {})
    if "by" in entry:
        return _drawn(spec, cell, split, entry)
    found = Propensities(split.e_train[cell.setting], split.e_test[cell.setting], split.columns, n)
    return found.at(entry.get("label_frequency"), split.y_train)


def _drawn(spec: Spec, cell: Cell, split: Split, entry: dict[str, Any]) -> Propensities:
    """Return the propensities of a mechanism that is drawn for the split.

    Mechanisms that differ only in the label frequency, or in the coefficient, depend on the same attributes.
    """
    by, c = entry["by"], entry.get("label_frequency")
    parameters = {**DRAWN_PARAMETERS[by], **entry.get("parameters", {})}
    if by == CLASS_PROBABILITY:
        return _by_class_probability(entry, split)
    if by == ADDED_ATTRIBUTES:
        found = _by_added_attributes(spec, split, parameters["n_attributes"], split.X_train.shape[1])
        return found.at(c, split.y_train)
    key = sorted((name, str(value)) for name, value in parameters.items() if name != "coefficient")
    rng = np.random.default_rng(spec.seed_of("mechanism", cell.dataset, by, str(key), cell.split))
    candidates = varying_columns(split.X_train[:, : split.n_original])
    n_wanted = max(parameters["n_attributes"], parameters["n_named"]) if by == OWN_ATTRIBUTES else 1
    if candidates.size < n_wanted:
        remedy = "Lower n_attributes or n_named, or leave" if n_wanted > 1 else "Leave"
        raise ValueError(
            f"the number of attributes whose most frequent value has at most {1 - MIN_VARYING_SHARE:.0%} of the rows "
            f"must be at least {n_wanted}; it is {candidates.size}. {remedy} the dataset out."
        )
    columns = rng.choice(candidates, size=n_wanted, replace=False)
    if by == OWN_ATTRIBUTES:
        return _by_own_attributes(split, columns, parameters, c or USUAL_LABEL_FREQUENCY, rng)
    column = int(columns[0])
    step = StepSAR(column, [_middle(split.X_train[:, column])], [parameters["low"], parameters["high"]])
    return _by_mechanism(step, split, (column,), split.n_original).at(c, split.y_train)


def _by_added_attributes(spec: Spec, split: Split, k: int, n_seen: int) -> Propensities:
    """Return the geometric mean over the first `k` added attributes."""
    named = tuple(range(split.n_original, split.n_original + k))
    mechanism = GeometricMeanSAR(named, low=spec.low, high=spec.high, ranges=[(-1, 1)] * k)
    return _by_mechanism(mechanism, split, named, n_seen)


def _by_own_attributes(
    split: Split, columns: NDArray[np.intp], parameters: dict[str, Any], c: float, rng: np.random.Generator
) -> Propensities:
    """Return a logistic propensity in standardised attributes, with random signs and mean `c` over the positives."""
    n_driving, n_named = parameters["n_attributes"], parameters["n_named"] or parameters["n_attributes"]
    driving = tuple(columns[:n_driving].tolist())
    Z = split.X_train[:, driving]
    slopes = parameters["coefficient"] * rng.choice([-1.0, 1.0], size=n_driving) / Z.std(axis=0)
    at = partial(LogisticSAR, driving, slopes)
    try:
        with np.errstate(over="ignore"):
            intercept = _intercept(lambda a: at(a).propensity(split.X_train), c, split.y_train, -(Z @ slopes))
    except ValueError as error:
        raise ValueError(f"coefficient = {parameters['coefficient']:g} gives propensities of 0. Lower it.") from error
    return _by_mechanism(at(intercept), split, tuple(sorted(columns[:n_named].tolist())), split.n_original)


def _middle(x: Vector) -> float:
    """Return a threshold near the median, with values on both sides: the value after it, or the median if few follow.

    Examples
    --------
    >>> _middle(np.array([0.0, 0.0, 0.0, 1.0, 2.0])), _middle(np.array([0.0, 1.0, 1.0, 1.0, 1.0]))
    (1.0, 1.0)
    """
    above = x[x > np.median(x)]
    return float(above.min() if above.size >= MIN_VARYING_SHARE * x.size else np.median(x))


def _by_class_probability(entry: dict[str, Any], split: Split) -> Propensities:
    assert split.f_train is not None
    assert split.f_test is not None
    curve, y = curve_of(entry.get("parameters", {})), split.y_train
    if entry.get("level") == "intercept":
        at = partial(replace, curve)
        intercept = _intercept(
            lambda a: at(intercept=a).propensity(split.X_train, class_probability=split.f_train),
            entry["label_frequency"],
            y,
            np.zeros(1),
        )
        curve = at(intercept=intercept)
    e_train = curve.propensity(split.X_train, class_probability=split.f_train)
    e_test = curve.propensity(split.X_test, class_probability=split.f_test)
    if curve.slope != 0 and np.ptp(e_train[y == 1]) == 0 < np.ptp(split.f_train[y == 1]):
        raise ValueError(
            f"the curve is {e_train.max():g} for all positive training rows, so that labels would not depend on the "
            "class probability. Change its slope, intercept, power or scale."
        )
    spread = entry.get("spread", 0.0)  # share of the labels that all positives get with the same probability
    mean = float(e_train[y == 1].mean())
    e_train, e_test = ((1.0 - spread) * e + spread * mean for e in (e_train, e_test))
    found = Propensities(e_train, e_test, (), split.n_original)
    return found if entry.get("level") == "intercept" else found.at(entry.get("label_frequency"), y)


def _intercept(propensity: Callable[[float], Vector], c: float, y: Vector, centre: Vector) -> float:
    """Return the intercept at which the mean propensity of the positives is `c`."""
    low, high = float(centre.min()) - 60.0, float(centre.max()) + 60.0

    def excess(a: float) -> float:
        return float(propensity(a)[y == 1].mean() - c)

    for _ in range(MAX_WIDER):  # A flat curve, or a curve with a steep slope, needs a wider range.
        if excess(low) <= 0.0 <= excess(high):
            return float(brentq(excess, low, high, xtol=1e-12))
        low, high = low - 2.0 * (high - low), high + 2.0 * (high - low)
    lowest, highest = excess(low) + c, excess(high) + c
    raise ValueError(
        f"no intercept gives the label frequency {c:g}; it lies between {lowest:.3g} and {highest:.3g}. Use another "
        'label_frequency, or level = "scale".'
    )


def _by_mechanism(mechanism: Any, split: Split, named: tuple[int, ...], n_seen: int) -> Propensities:
    e_train, e_test = (mechanism.propensity(X) for X in (split.X_train, split.X_test))
    return Propensities(e_train, e_test, named, n_seen)


def varying_columns(X: Matrix) -> NDArray[np.intp]:
    """Return the columns whose most frequent value has at most 90% of the rows.

    Examples
    --------
    >>> varying_columns(np.column_stack([np.arange(20), np.zeros(20)]))
    array([0])
    """
    most = [np.unique(column, return_counts=True)[1].max() for column in X.T]
    return np.flatnonzero(np.asarray(most) <= (1.0 - MIN_VARYING_SHARE) * X.shape[0])
