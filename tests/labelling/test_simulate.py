"""Simulated labels: exact relations between labellings, frozen streams, and streams that do not mix."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import PCG64, Generator, RandomState, SeedSequence, default_rng

from scarless.labelling import SCAR, simulate_labels

classes = st.lists(st.integers(0, 1), min_size=1, max_size=40).map(np.array)
seeds = st.integers(0, 2**64)
propensities = st.floats(0.01, 1.0)


@given(classes, propensities, seeds)
def test_only_positives_are_labelled(y, e, seed):
    s = simulate_labels(y, e, random_state=seed)
    assert s.dtype == np.int64
    assert set(s) <= {0, 1}
    assert (s <= y).all()


@given(classes, seeds)
def test_with_propensity_one_the_labels_are_the_classes(y, seed):
    np.testing.assert_array_equal(simulate_labels(y, 1.0, random_state=seed), y)
    np.testing.assert_array_equal(simulate_labels(y, np.ones(y.size), random_state=seed), y)


@given(classes, propensities, seeds)
def test_a_row_does_not_depend_on_the_classes_of_others(y, e, seed):
    if_all_were_positive = simulate_labels(np.ones(y.size), e, random_state=seed)
    np.testing.assert_array_equal(simulate_labels(y, e, random_state=seed), y * if_all_were_positive)


@given(classes, propensities, seeds)
def test_a_row_does_not_depend_on_later_rows(y, e, seed):
    half = y.size // 2
    whole = simulate_labels(y, e, random_state=seed)
    np.testing.assert_array_equal(simulate_labels(y[:half], e, random_state=seed), whole[:half])


@given(classes, propensities, propensities, seeds)
def test_no_label_is_lost_as_the_propensity_grows(y, one, other, seed):
    few = simulate_labels(y, min(one, other), random_state=seed)
    many = simulate_labels(y, max(one, other), random_state=seed)
    assert (few <= many).all()


@given(classes, propensities, seeds)
def test_codings_of_y(y, e, seed):
    s = simulate_labels(y, e, random_state=seed)
    for coded in (2 * y - 1, y.astype(bool), y.tolist(), pd.Series(y), y.reshape(-1, 1)):
        np.testing.assert_array_equal(simulate_labels(coded, e, random_state=seed), s)


def test_labels_of_fixed_seeds_never_change():
    y = np.ones(20, dtype=int)
    frozen = [1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    np.testing.assert_array_equal(simulate_labels(y, 0.5, random_state=0), frozen)
    many = [[1, 0, 1, 1, 0, 0, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0, 0, 1, 1, 0]]
    children = SeedSequence(42).spawn(3)
    np.testing.assert_array_equal([simulate_labels(y[:10], 0.5, random_state=child) for child in children], many)


def test_the_stream_is_the_documented_one():
    e = np.linspace(0.01, 1.0, 500)
    u = Generator(PCG64(SeedSequence(11, spawn_key=(0x6C61626C,)))).random(500)
    np.testing.assert_array_equal(simulate_labels(np.ones(500), e, random_state=11), u < e)
    # A row is labelled from the first float above its draw on, and not before.
    assert not simulate_labels(np.ones(500), u, random_state=11).any()
    assert simulate_labels(np.ones(500), np.nextafter(u, 1), random_state=11).all()


def test_label_rates_within_each_propensity():
    # 4.5 standard deviations of a binomial share.
    n = 20_000
    for e in (0.05, 0.5, 0.9):
        rate = simulate_labels(np.ones(n), e, random_state=1).mean()
        assert abs(rate - e) < 4.5 * np.sqrt(e * (1 - e) / n)


@pytest.mark.parametrize("seed", range(20))
def test_labels_are_independent_of_attributes_drawn_from_the_same_seed(seed):
    n = 10_000
    s = simulate_labels(np.ones(n), 0.5, random_state=seed)
    children = SeedSequence(seed).spawn(2)
    attributes = [
        default_rng(seed).random(n),
        default_rng(seed).normal(size=n),
        RandomState(seed).rand(n),
        default_rng(children[0]).random(n),
        default_rng(children[1]).random(n),
    ]
    for x in attributes:
        assert abs(np.corrcoef(s, x)[0, 1]) < 4.5 / np.sqrt(n)


def test_a_seed_sequence_used_for_attributes_too_gives_independent_labels():
    n = 10_000
    child = SeedSequence(5).spawn(1)[0]
    x = default_rng(child).random(n)
    s = simulate_labels(np.ones(n), 0.5, random_state=child)
    assert abs(np.corrcoef(s, x)[0, 1]) < 4.5 / np.sqrt(n)


def test_labellings_are_independent_of_each_other():
    n = 10_000
    s = [simulate_labels(np.ones(n), 0.5, random_state=child) for child in SeedSequence(0).spawn(6)]
    off_diagonal = np.corrcoef(s)[np.triu_indices(6, 1)]
    assert np.abs(off_diagonal).max() < 4.5 / np.sqrt(n)


def test_a_seed_sequence_is_left_as_it_was():
    y, seed = np.ones(30), SeedSequence(3)
    np.testing.assert_array_equal(simulate_labels(y, 0.5, random_state=seed), simulate_labels(y, 0.5, random_state=3))
    assert seed.n_children_spawned == 0


@pytest.mark.parametrize("make", [default_rng, RandomState, PCG64])
def test_a_generator_moves_on(make):
    y = np.ones(200)
    stream, twin = make(8), make(8)
    first, second = (simulate_labels(y, 0.5, random_state=stream) for _ in range(2))
    assert (first != second).any()
    np.testing.assert_array_equal(simulate_labels(y, 0.5, random_state=twin), first)


def test_without_a_seed_labels_differ():
    y = np.ones(200)
    assert (simulate_labels(y, 0.5) != simulate_labels(y, 0.5)).any()


@pytest.mark.parametrize("y", [[0, 1, 2], [0.5, 1.0], [0, np.nan], [-1, 0, 1]])
def test_y_must_be_binary(y):
    with pytest.raises(ValueError, match="y must be binary"):
        simulate_labels(y, 0.5)


def test_lengths_that_differ():
    with pytest.raises(ValueError, match="propensity has 2 values for 3 rows"):
        simulate_labels([0, 1, 1], [0.5, 0.5])


@pytest.mark.parametrize("e", [0.0, 1.5, np.nan, [0.5, -0.1]])
def test_propensity_out_of_range(e):
    with pytest.raises(ValueError, match=r"propensity must lie in \(0, 1\]"):
        simulate_labels([0, 1], e)


def test_a_mechanism_is_not_its_propensities():
    with pytest.raises(ValueError, match=r"propensity is the mechanism SCAR; give its values, mechanism.propensity"):
        simulate_labels([0, 1], SCAR(0.5))


@pytest.mark.parametrize("seed", ["a", -1, 1.5, [1, "b"], object()])
def test_what_is_no_seed_is_refused(seed):
    message = (
        "random_state must be None, a whole number of at least 0, a numpy Generator, RandomState or SeedSequence; got"
    )
    with pytest.raises(ValueError, match=message):
        simulate_labels([1, 0], 0.5, random_state=seed)
