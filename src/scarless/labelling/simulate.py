"""Drawing labels from classes and propensities: at one look, at several looks, and audits.

A seed for labels goes through a spawn key that nobody else uses, so that ``random_state=0`` here and ``default_rng(0)``
where the attributes were drawn share no random numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import BitGenerator, Generator, RandomState, SeedSequence
from numpy.typing import NDArray

from scarless.checks.options import (
    bad_seed,
    check_indicator,
    check_positive,
    check_probability,
    check_propensity,
    check_random_stream,
    check_whole,
    shown,
)
from scarless.checks.tables import refuse_odd_vector
from scarless.labelling.base import LabellingMechanism
from scarless.numerics.arrays import ArrayLike, Mask, Matrix, Vector

_LABEL_STREAM = 0x6C61626C  # "labl": the spawn key of the label stream; a change changes every simulated label
# Spawn keys of streams of their own, "look" and "audt"; a change changes everything that is simulated.
_LOOK_STREAM, _AUDIT_STREAM = 0x6C6F6F6B, 0x61756474


def own_streams(random_state: Any, keys: Sequence[tuple[int, ...]]) -> list[Generator]:
    """Return one generator for each spawn key.

    A seed gives streams that share nothing, so that none depends on how much was drawn from another. A generator of
    the user's is used, and moved on, as it is: the same one for every key.

    Examples
    --------
    >>> one, other = own_streams(0, [(1,), (2,)])
    >>> one is other, own_streams(0, [(1,)])[0].random() == one.random()
    (False, True)
    """
    if isinstance(random_state, Generator | BitGenerator | RandomState):
        return [check_random_stream(random_state)] * len(keys)
    seed = _as_seed(random_state)
    return [Generator(np.random.PCG64(_with_key(seed, (*seed.spawn_key, *key)))) for key in keys]


def _as_seed(random_state: Any) -> SeedSequence:
    if isinstance(random_state, SeedSequence):
        return random_state
    if isinstance(random_state, bool):
        raise ValueError(bad_seed(random_state))
    try:
        return SeedSequence(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(bad_seed(random_state)) from error


def _with_key(seed: SeedSequence, spawn_key: tuple[int, ...]) -> SeedSequence:
    """Return a new sequence, so that the user's own one is left as it was."""
    return SeedSequence(seed.entropy, spawn_key=spawn_key, pool_size=seed.pool_size)


def simulate_labels(y: ArrayLike, propensity: ArrayLike, *, random_state: Any = None) -> NDArray[np.int64]:
    r"""Draw one label per row: a positive is labelled with its propensity, a negative never.

    .. math:: s_i = y_i \, [u_i < e_i], \qquad u_i \sim U[0, 1)

    Right when labels are drawn independently, row by row, given class and propensity. Every row uses one
    random number whatever its class, so that a row's luck depends on the seed and its place only. With one
    seed, no label is lost as propensities grow.

    Parameters
    ----------
    y : array of shape (n_rows,)
        The true classes, coded 0/1, -1/+1 or boolean.
    propensity : float or array of shape (n_rows,)
        ``Pr(s=1|y=1,x)`` of each row, in (0, 1]; from a mechanism, ``mechanism.propensity(X)``.
    random_state : int, SeedSequence, Generator, RandomState or None
        An integer or a ``SeedSequence`` seeds a stream of the labels' own, and gives the same labels on every
        platform. A ``Generator`` is used, and moved on, as it is.

    Returns
    -------
    s : array of int, shape (n_rows,)
        1 for labelled rows, 0 for the others.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD 2019.

    Examples
    --------
    >>> simulate_labels([1, 1, 0, 0], 1.0, random_state=0)
    array([1, 1, 0, 0])
    """
    positive = check_indicator(y, "y") == 1.0
    if isinstance(propensity, LabellingMechanism):
        raise ValueError(
            f"propensity is the mechanism {type(propensity).__name__}; give its values, mechanism.propensity(X)."
        )
    e = check_propensity(propensity, n_rows=positive.size)
    u = own_streams(random_state, [(_LABEL_STREAM,)])[0].random(positive.size)
    return (positive & (u < e)).astype(np.int64)


def simulate_looks(
    y: ArrayLike,
    propensities: Any,
    *,
    false_positive_rate: Any = 0.0,
    observed: Any = 1.0,
    random_state: Any = None,
) -> Matrix:
    r"""Draw one label for each row and look: visits, annotators, sources.

    .. math:: s_{ik} = [u_{ik} < y_i \, e_{ik} + (1 - y_i) \, h_{ik}], \qquad u_{ik} \sim U[0, 1)

    Right when looks are independent of each other given class, propensities and false-positive rates. Every row and
    look uses one random number whatever the class, and another one that says whether the look takes place, so that
    the luck of a row at a look depends on the seed and its place only: not on other rows, not on how many looks
    there are. With one seed, no label is lost as propensities grow.

    Parameters
    ----------
    y : array of shape (n_rows,)
        The true classes, coded 0/1, -1/+1 or boolean.
    propensities : array of shape (n_rows, n_looks), or list with one entry per look
        ``Pr(s_k=1|y=1,x)``, in [0, 1]. An entry of a list is a number, or one number per row.
    false_positive_rate : float, or as `propensities`, default 0.0
        ``Pr(s_k=1|y=0,x)``, in [0, 1]: one number, a list or vector of one entry per look, or an array of shape
        (n_rows, n_looks).
    observed : float, or as `propensities`, default 1.0
        The probability that a look takes place: one number, a list or vector of one entry per look, or an array of
        shape (n_rows, n_looks), which may be a mask.
    random_state : int, SeedSequence, Generator, RandomState or None
        An integer or a ``SeedSequence`` seeds streams of the looks' own, and gives the same labels on every
        platform. A ``Generator`` is used, and moved on, as it is.

    Returns
    -------
    S : array of float, shape (n_rows, n_looks)
        1 for labelled, 0 for looked at and not labelled, NaN where the look did not take place.

    See Also
    --------
    simulate_labels : One label column.
    simulate_audit : Rows whose true class somebody found out.

    References
    ----------
    MacKenzie et al., "Estimating site occupancy rates when detection probabilities are less than one", Ecology 83,
    2002; with false positives: Royle and Link, "Generalized site occupancy models allowing for false positive and
    false negative errors", Ecology 87, 2006.

    Examples
    --------
    >>> simulate_looks([1, 1, 0], [1.0, [1.0, 0.0, 0.5]], observed=[1.0, [True, True, False]], random_state=0)
    array([[ 1.,  1.],
           [ 1.,  0.],
           [ 0., nan]])
    """
    positive = check_indicator(y, "y") == 1.0
    e = _by_look(propensities, "propensities", positive.size)
    n_looks = e.shape[1]
    h = _by_look(false_positive_rate, "false_positive_rate", positive.size, n_looks)
    taken = _by_look(observed, "observed", positive.size, n_looks)
    u, v = _luck(random_state, positive.size, n_looks)
    s = u < np.where(positive[:, None], e, h)
    return np.where(v < taken, s.astype(np.float64), np.nan)


def _luck(random_state: Any, n_rows: int, n_looks: int) -> tuple[Matrix, Matrix]:
    """Return the random numbers of labels, and of whether looks take place; each column has a stream of its own."""
    keys = [(_LOOK_STREAM, use, look) for use in (0, 1) for look in range(n_looks)]
    drawn = np.array([stream.random(n_rows) for stream in own_streams(random_state, keys)])
    return drawn[:n_looks].T, drawn[n_looks:].T


def _by_look(values: Any, name: str, n_rows: int, n_looks: int | None = None) -> Matrix:
    """Return probabilities as an array of shape (n_rows, n_looks), the number of looks as it is given or as it must be.

    A list has one entry per look, whatever its entries are; only arrays and data frames are tables.
    """
    if not isinstance(values, list | tuple):
        refuse_odd_vector(values, name)
        array = np.asarray(values)
        if array.ndim == 2:
            return _checked_table(array, name, n_rows, n_looks)
        if n_looks is not None and array.ndim == 0:
            return _columns([values] * n_looks, name, n_rows)
        if n_looks is None or array.ndim > 2:
            _refuse_shape(values, array, name)
        values = array.tolist()
    if not len(values):
        raise ValueError(f"{name} is empty; give one entry for each look, such as [0.5, 0.5] for two looks.")
    if n_looks is not None and len(values) != n_looks:
        raise ValueError(
            f"{name} has {len(values)} entries for {n_looks} looks; give one number, or one entry for each look, or an "
            f"array of shape ({n_rows}, {n_looks})."
        )
    return _columns(values, name, n_rows)


def _checked_table(array: Any, name: str, n_rows: int, n_looks: int | None) -> Matrix:
    if array.shape[0] != n_rows or array.shape[1] != (array.shape[1] if n_looks is None else n_looks):
        wanted = "n_looks" if n_looks is None else n_looks
        raise ValueError(
            f"{name} has the shape {array.shape} for {n_rows} rows; as an array it must have the shape "
            f"({n_rows}, {wanted}), one row for each of y and one column for each look."
        )
    if not array.shape[1]:
        raise ValueError(f"{name} is empty; give one column for each look.")
    return _columns(list(array.T), name, n_rows)


def _columns(entries: Any, name: str, n_rows: int) -> Matrix:
    columns = [_column(entry, f"{name} of look {look}", n_rows) for look, entry in enumerate(entries)]
    return np.column_stack(columns)


def _column(entry: Any, name: str, n_rows: int) -> Vector:
    if isinstance(entry, LabellingMechanism):
        raise ValueError(f"{name} is the mechanism {type(entry).__name__}; give its values, mechanism.propensity(X).")
    if isinstance(entry, bool | np.bool_):  # a look that took place for all rows, or for none
        entry = float(entry)
    return check_probability(entry, n_rows=n_rows, name=name)


def _refuse_shape(values: Any, array: Any, name: str) -> None:
    got = f"an array of shape {array.shape}" if array.ndim else shown(values)
    one = f"{name}.reshape(-1, 1)" if array.ndim == 1 else "[0.5]"
    raise ValueError(
        f"{name} must be an array of shape (n_rows, n_looks), or a list with a number or a vector for each look; got "
        f"{got}. One look is written {one}, two with one number each [0.5, 0.5]."
    )


def simulate_audit(
    y: ArrayLike,
    n_rows: int | None = None,
    *,
    probability: ArrayLike | None = None,
    odds_for_positives: float = 1.0,
    negatives_reported: float = 1.0,
    false_report: float = 0.0,
    random_state: Any = None,
) -> Vector:
    r"""Choose rows at random, and say their true class: the answers of an audit.

    Either `n_rows` rows are drawn without replacement, or each row is audited by itself with its `probability`. A fit
    takes audits to be *ignorable*: chosen by attributes, labels or earlier answers, and never by the class itself. The
    last three options break that, to see what harm it does.

    .. math:: \frac{\pi_i'}{1 - \pi_i'} = w^{y_i} \frac{\pi_i}{1 - \pi_i}

    with `odds_for_positives` :math:`w`. Of a fixed number of rows, each next one is drawn among those that are left
    with the weights :math:`w^{y_i}`. With one seed, the rows of a smaller audit are among those of a larger one, and
    no positive is lost as the odds grow.

    Parameters
    ----------
    y : array of shape (n_rows,)
        The true classes, coded 0/1, -1/+1 or boolean.
    n_rows : int or None
        How many rows are audited.
    probability : float or array of shape (n_rows,), or None
        The probability that a row is audited, in [0, 1]; in place of `n_rows`.
    odds_for_positives : float, default 1.0
        How many times higher the odds to be audited are for a positive. 1 is a fair audit.
    negatives_reported : float, default 1.0
        The probability that the answer of an audited negative is reported at all; 0: positive findings only.
    false_report : float, default 0.0
        The probability that an answer is the wrong class.
    random_state : int, SeedSequence, Generator, RandomState or None
        An integer or a ``SeedSequence`` seeds streams of the audit's own, and gives the same audit on every platform.
        A ``Generator`` is used, and moved on, as it is.

    Returns
    -------
    audit : array of float, shape (n_rows,)
        1 or 0 for audited rows, NaN for the others.

    See Also
    --------
    simulate_looks : Visits, annotators, sources.

    References
    ----------
    Efraimidis and Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters 97, 2006.

    Examples
    --------
    >>> simulate_audit([1, 0, 1, 0], probability=[1.0, 1.0, 0.0, 0.0], random_state=0)
    array([ 1.,  0., nan, nan])
    >>> int(np.isfinite(simulate_audit([1, 0, 1, 0], 3, random_state=0)).sum())
    3
    """
    true = check_indicator(y, "y")
    odds = _check_odds(odds_for_positives)
    reported = _one_share(negatives_reported, "negatives_reported")
    wrong = _one_share(false_report, "false_report")
    chosen, told, failed = (
        stream.random(true.size) for stream in own_streams(random_state, [(_AUDIT_STREAM, use) for use in range(3)])
    )
    log_odds = np.where(true == 1.0, np.log(odds), 0.0)
    if (n_rows is None) == (probability is None):
        raise ValueError(
            "An audit needs either n_rows, a number of rows, or probability, the chance of each row; "
            f"got {'neither' if n_rows is None else 'both'}."
        )
    if probability is None:
        audited = _drawn_rows(chosen, log_odds, _check_size(n_rows, true.size))
    else:
        pi = check_probability(probability, n_rows=true.size, name="probability")
        audited = chosen < _tilted(pi, log_odds)
    audited &= (true == 1.0) | (told < reported)
    return np.where(audited, np.where(failed < wrong, 1.0 - true, true), np.nan)


def _drawn_rows(u: Vector, log_weight: Vector, n_rows: int) -> Mask:
    """Return which rows come first in a race of exponential times with the weights as rates."""
    times = np.maximum(-np.log1p(-u), np.finfo(np.float64).tiny)
    first = np.argsort(np.log(times) - log_weight, kind="stable")[:n_rows]
    drawn = np.zeros(u.size, dtype=bool)
    drawn[first] = True
    return drawn


def _tilted(pi: Vector, log_odds: Vector) -> Vector:
    """Return probabilities with other odds; where the odds are as they were, to the bit what came."""
    weight = np.exp(log_odds)
    return np.where(log_odds == 0.0, pi, weight * pi / (1.0 - pi + weight * pi))


def _check_odds(value: Any) -> float:
    odds = check_positive(value, "odds_for_positives")
    if odds == np.inf:
        raise ValueError(
            "odds_for_positives must be finite; got inf. For answers about positives alone, set negatives_reported=0."
        )
    return odds


def _one_share(value: Any, name: str) -> float:
    if np.ndim(value) or isinstance(value, bool):
        raise ValueError(f"{name} must be one number from 0 to 1; got {shown(value)}.")
    return float(check_probability(value, n_rows=1, name=name)[0])


def _check_size(n_rows: Any, n_there: int) -> int:
    size = check_whole(n_rows, "n_rows", at_least=0)
    if size > n_there:
        raise ValueError(f"n_rows is {size}, and y has {n_there} rows; an audit draws each row at most once.")
    return size
