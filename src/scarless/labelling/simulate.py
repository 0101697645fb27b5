"""Simulation of labels at one look, of labels at several looks, and of audits.

Seeds are combined with a spawn key of this module. Labels drawn with ``random_state=0`` therefore do not share random
numbers with attributes drawn from ``default_rng(0)``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import BitGenerator, Generator, RandomState, SeedSequence
from numpy.typing import NDArray
from scipy.sparse import issparse

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
from scarless.checks.tables import refuse_invalid_vector
from scarless.labelling.base import LabellingMechanism
from scarless.numerics.arrays import ArrayLike, Mask, Matrix, Vector

# Spawn keys of the random streams: "labl", "look" and "audt" in ASCII. Other keys would change all simulated labels.
_LABEL_STREAM, _LOOK_STREAM, _AUDIT_STREAM = 0x6C61626C, 0x6C6F6F6B, 0x61756474


def own_streams(random_state: Any, keys: Sequence[tuple[int, ...]]) -> list[Generator]:
    """Return one random generator for each spawn key.

    A seed gives independent streams: none depends on how many numbers were drawn from another. If the user passes a
    generator, this generator is used for every key, and its state advances.

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
    """Return a new seed sequence; the user's sequence does not change."""
    return SeedSequence(seed.entropy, spawn_key=spawn_key, pool_size=seed.pool_size)


def simulate_labels(y: ArrayLike, propensity: ArrayLike, *, random_state: Any = None) -> NDArray[np.int64]:
    r"""Draw one label for each row. The propensity is the probability that a positive is labelled; a negative never is.

    .. math:: s_i = y_i \, [u_i < e_i], \qquad u_i \sim U[0, 1)

    Labels are independent given classes and propensities. The random number :math:`u_i` depends only on the seed and
    on the position of the row. With the same seed, higher propensities therefore only add labels.

    Parameters
    ----------
    y : array of shape (n_rows,)
        True classes, coded 0/1, -1/+1 or boolean.
    propensity : float or array of shape (n_rows,)
        Propensity of each row, in (0, 1], for example ``mechanism.propensity(X)``.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers. Pass an int for reproducible results, which are the same on every platform.

    Returns
    -------
    s : array of int, shape (n_rows,)
        Labels: 1 for labelled rows, 0 for unlabelled rows.

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
            f"propensity must be numbers; it is the mechanism {type(propensity).__name__}. "
            "Pass mechanism.propensity(X)."
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
    r"""Draw one label for each row and each look, such as a visit, an annotator or a source.

    .. math:: s_{ik} = [u_{ik} < y_i \, e_{ik} + (1 - y_i) \, h_{ik}], \qquad u_{ik} \sim U[0, 1)

    Labels are independent given classes, propensities and false positive rates. The random numbers of a row at a look
    depend only on the seed and on the positions of the row and the look. With the same seed, higher propensities
    therefore only add labels.

    Parameters
    ----------
    y : array of shape (n_rows,)
        True classes, coded 0/1, -1/+1 or boolean.
    propensities : array of shape (n_rows, n_looks), or list with one entry per look
        Propensity ``Pr(s_k=1|y=1,x)`` of each row at each look, in [0, 1]. An entry of a list is one number for all
        rows, or one number for each row.
    false_positive_rate : float, or like `propensities`, default 0.0
        False positive rate ``Pr(s_k=1|y=0,x)``, in [0, 1]: one number, a list or vector with one entry for each look,
        or an array of shape (n_rows, n_looks).
    observed : float, or like `propensities`, default 1.0
        Probability that a look takes place, in the same forms. A boolean array of shape (n_rows, n_looks) says which
        looks take place.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers. Pass an int for reproducible results, which are the same on every platform.

    Returns
    -------
    S : array of float, shape (n_rows, n_looks)
        Labels: 1 for labelled, 0 for not labelled, NaN if the look did not take place.

    See Also
    --------
    simulate_labels : Labels at one look.
    simulate_audit : True classes of audited rows.

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
    u, v = _random_numbers(random_state, positive.size, n_looks)
    s = u < np.where(positive[:, None], e, h)
    return np.where(v < taken, s.astype(np.float64), np.nan)


def _random_numbers(random_state: Any, n_rows: int, n_looks: int) -> tuple[Matrix, Matrix]:
    """Return the random numbers for the labels and for whether looks take place; each look has its own streams."""
    keys = [(_LOOK_STREAM, use, look) for use in (0, 1) for look in range(n_looks)]
    drawn = np.array([stream.random(n_rows) for stream in own_streams(random_state, keys)])
    return drawn[:n_looks].T, drawn[n_looks:].T


def _by_look(values: Any, name: str, n_rows: int, n_looks: int | None = None) -> Matrix:
    """Return probabilities as an array of shape (n_rows, n_looks); `n_looks` is None if the values determine it.

    A list has one entry for each look, even if it is a list of lists; only arrays and data frames are tables.
    """
    if not isinstance(values, list | tuple):
        if issparse(values):
            raise TypeError(
                f"{name} must be a dense array with one row for each row of y and one column for each look; got a "
                f"sparse matrix. Pass {name}.toarray()."
            )
        refuse_invalid_vector(values, name)
        array = np.asarray(values)
        if array.ndim == 2:
            return _checked_table(array, name, n_rows, n_looks)
        if n_looks is not None and array.ndim == 0:
            return _columns([values] * n_looks, name, n_rows)
        if n_looks is None or array.ndim > 2:
            _refuse_shape(values, array, name)
        values = array.tolist()
    if not len(values):
        raise ValueError(f"{name} is empty. Give one entry for each look, such as [0.5, 0.5] for two looks.")
    if n_looks is not None and len(values) != n_looks:
        raise ValueError(
            f"{name} must be one number, a list with one entry for each look, or an array of shape "
            f"({n_rows}, {n_looks}). Number of looks: {n_looks}; number of entries: {len(values)}."
        )
    return _columns(values, name, n_rows)


def _checked_table(array: Any, name: str, n_rows: int, n_looks: int | None) -> Matrix:
    if array.shape[0] != n_rows or array.shape[1] != (array.shape[1] if n_looks is None else n_looks):
        wanted = "n_looks" if n_looks is None else n_looks
        raise ValueError(
            f"{name} has the shape {array.shape}; an array must have the shape "
            f"({n_rows}, {wanted}), with one row for each row of y and one column for each look."
        )
    if not array.shape[1]:
        raise ValueError(f"{name} is empty. Give one column for each look.")
    return _columns(list(array.T), name, n_rows)


def _columns(entries: Any, name: str, n_rows: int) -> Matrix:
    columns = [_column(entry, f"{name} of look {look}", n_rows) for look, entry in enumerate(entries)]
    return np.column_stack(columns)


def _column(entry: Any, name: str, n_rows: int) -> Vector:
    if isinstance(entry, LabellingMechanism):
        raise ValueError(
            f"{name} must be numbers; it is the mechanism {type(entry).__name__}. Pass mechanism.propensity(X)."
        )
    if isinstance(entry, bool | np.bool_):  # The look took place for all rows, or for none.
        entry = float(entry)
    return check_probability(entry, n_rows=n_rows, name=name)


def _refuse_shape(values: Any, array: Any, name: str) -> None:
    got = f"an array of shape {array.shape}" if array.ndim else shown(values)
    one = f"{name}.reshape(-1, 1)" if array.ndim == 1 else "[0.5]"
    raise ValueError(
        f"{name} must be an array of shape (n_rows, n_looks), or a list with a number or a vector for each look; got "
        f"{got}. For one look, write {one}. For two looks, each with one number for all rows, write [0.5, 0.5]."
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
    r"""Draw the rows of an audit at random, and return their classes.

    Either `n_rows` rows are drawn without replacement, or each row is audited independently with its `probability`.
    Models assume that audits are *ignorable*: rows are selected by attributes, labels or earlier results, and never by
    the class itself. The options `odds_for_positives` and `negatives_reported` simulate violations of this assumption;
    `false_report` simulates wrong results. With :math:`w` = `odds_for_positives`, the probability :math:`\pi_i` of
    being audited is replaced by :math:`\pi_i'`:

    .. math:: \frac{\pi_i'}{1 - \pi_i'} = w^{y_i} \frac{\pi_i}{1 - \pi_i}.

    With `n_rows`, rows are drawn one after the other with weights :math:`w^{y_i}`. With the same seed, a smaller audit
    is a subset of a larger one, and higher odds never remove positives.

    Parameters
    ----------
    y : array of shape (n_rows,)
        True classes, coded 0/1, -1/+1 or boolean.
    n_rows : int or None
        Number of rows to audit.
    probability : float or array of shape (n_rows,), or None
        Probability that a row is audited, in [0, 1]. Pass either this or `n_rows`.
    odds_for_positives : float, default 1.0
        Factor by which the odds of being audited are higher for positives; 1 if the class does not matter.
    negatives_reported : float, default 1.0
        Probability that the result of an audited negative is reported; with 0, only positives are reported.
    false_report : float, default 0.0
        Probability that a reported class is wrong.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers. Pass an int for reproducible results, which are the same on every platform.

    Returns
    -------
    audit : array of float, shape (n_rows,)
        Reported class of audited rows, 1 or 0; NaN for rows that were not audited, or whose result was not reported.

    See Also
    --------
    simulate_looks : Labels at several looks.

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
    reported = _check_share(negatives_reported, "negatives_reported")
    wrong = _check_share(false_report, "false_report")
    row_draw, report_draw, error_draw = (
        stream.random(true.size) for stream in own_streams(random_state, [(_AUDIT_STREAM, use) for use in range(3)])
    )
    log_odds = np.where(true == 1.0, np.log(odds), 0.0)
    if (n_rows is None) == (probability is None):
        raise ValueError(
            "Pass either n_rows (the number of rows to audit) or probability (the probability that a row is audited); "
            f"got {'neither' if n_rows is None else 'both'}."
        )
    if probability is None:
        audited = _drawn_rows(row_draw, log_odds, _check_size(n_rows, true.size))
    else:
        pi = check_probability(probability, n_rows=true.size, name="probability")
        audited = row_draw < _with_odds(pi, log_odds)
    audited &= (true == 1.0) | (report_draw < reported)
    return np.where(audited, np.where(error_draw < wrong, 1.0 - true, true), np.nan)


def _drawn_rows(u: Vector, log_weight: Vector, n_rows: int) -> Mask:
    """Return the mask of `n_rows` rows drawn with weights: the rows with the shortest exponential waiting times."""
    times = np.maximum(-np.log1p(-u), np.finfo(np.float64).tiny)
    first = np.argsort(np.log(times) - log_weight, kind="stable")[:n_rows]
    drawn = np.zeros(u.size, dtype=bool)
    drawn[first] = True
    return drawn


def _with_odds(pi: Vector, log_odds: Vector) -> Vector:
    """Return the probabilities with their odds multiplied by ``exp(log_odds)``; a factor of 1 changes no bit."""
    weight = np.exp(log_odds)
    return np.where(log_odds == 0.0, pi, weight * pi / (1.0 - pi + weight * pi))


def _check_odds(value: Any) -> float:
    odds = check_positive(value, "odds_for_positives")
    if odds == np.inf:
        raise ValueError(
            "odds_for_positives must be finite; got inf. To report only positives, set negatives_reported=0."
        )
    return odds


def _check_share(value: Any, name: str) -> float:
    if np.ndim(value) or isinstance(value, bool):
        raise ValueError(f"{name} must be one number from 0 to 1; got {shown(value)}.")
    return float(check_probability(value, n_rows=1, name=name)[0])


def _check_size(n_rows: Any, n_available: int) -> int:
    size = check_whole(n_rows, "n_rows", at_least=0)
    if size > n_available:
        raise ValueError(
            f"n_rows must be at most {n_available}, the number of rows of y; got {size}. A row is audited at most once."
        )
    return size
