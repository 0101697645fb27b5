"""Simulated labels: exact relations between labellings, fixed random streams, and independent streams."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import PCG64, Generator, RandomState, SeedSequence, default_rng
from scipy import sparse
from scipy.stats import binom, hypergeom

from scarless.labelling import SCAR, simulate_audit, simulate_labels, simulate_looks

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
def test_higher_propensities_only_add_labels(y, one, other, seed):
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
    # A row is labelled if and only if the propensity is above its random number.
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


def test_a_seed_sequence_is_not_changed():
    y, seed = np.ones(30), SeedSequence(3)
    np.testing.assert_array_equal(simulate_labels(y, 0.5, random_state=seed), simulate_labels(y, 0.5, random_state=3))
    assert seed.n_children_spawned == 0


@pytest.mark.parametrize("make", [default_rng, RandomState, PCG64])
def test_a_generator_advances(make):
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


def test_a_mechanism_instead_of_propensities_is_refused():
    with pytest.raises(
        ValueError, match=r"propensity must be numbers; it is the mechanism SCAR. Pass mechanism.propensity"
    ):
        simulate_labels([0, 1], SCAR(0.5))


@pytest.mark.parametrize("seed", ["a", -1, 1.5, [1, "b"], object()])
def test_invalid_seeds_raise_an_error(seed):
    message = (
        "random_state must be None, a whole number of at least 0, a numpy Generator, RandomState or SeedSequence; got"
    )
    with pytest.raises(ValueError, match=message):
        simulate_labels([1, 0], 0.5, random_state=seed)


# --- Simulated looks and audits: exact relations between draws, shares within exact binomial bounds, and every error.


LOOK, AUDIT = 0x6C6F6F6B, 0x61756474
FROZEN_LOOKS, FROZEN_AUDIT = "110000--00001100-10-", [1, 5, 8, 9]
shares = st.floats(0.0, 1.0)


@st.composite
def settings_with_looks(draw):
    """Draw classes, and tables of propensities, false positive rates and probabilities that a look takes place."""
    y, n_looks = draw(classes), draw(st.integers(1, 4))
    rng = default_rng(draw(st.integers(0, 2**32)))
    return y, *rng.random((3, y.size, n_looks))


def within(count, n, p, tail=1e-6):
    """Return whether a count is outside the two tails of a binomial distribution."""
    return binom.ppf(tail, n, p) <= count <= binom.isf(tail, n, p)


# --- looks


@given(settings_with_looks(), seeds)
def test_every_look_is_a_0_a_1_or_missing(drawn, seed):
    y, e, h, taken = drawn
    S = simulate_looks(y, e, false_positive_rate=h, observed=taken, random_state=seed)
    assert S.shape == e.shape
    assert S.dtype == np.float64
    assert (np.isnan(S) | (S == 0) | (S == 1)).all()


@given(classes, seeds)
def test_looks_with_propensity_one_are_the_classes_and_with_zero_have_no_labels(y, seed):
    S = simulate_looks(y, [1.0, 0.0, 1.0, 0.0], false_positive_rate=[0.0, 0.0, 1.0, 1.0], random_state=seed)
    np.testing.assert_array_equal(S, np.column_stack([y, 0 * y, np.ones(y.size), 1 - y]))


@given(settings_with_looks(), seeds)
def test_without_false_positives_no_negative_is_labelled(drawn, seed):
    y, e, _, taken = drawn
    S = simulate_looks(y, e, observed=taken, random_state=seed)
    assert not np.nansum(S[y == 0])


@given(settings_with_looks(), seeds)
def test_a_mask_selects_exactly_the_looks_that_took_place(drawn, seed):
    y, e, h, taken = drawn
    all_looks = simulate_looks(y, e, false_positive_rate=h, random_state=seed)
    assert not np.isnan(all_looks).any()
    for mask in (taken < 0.5, (taken < 0.5).astype(float), pd.DataFrame(taken < 0.5), list((taken < 0.5).T)):
        S = simulate_looks(y, e, false_positive_rate=h, observed=mask, random_state=seed)
        np.testing.assert_array_equal(S, np.where(taken < 0.5, all_looks, np.nan))


@given(settings_with_looks(), seeds)
def test_a_row_depends_on_no_other_row_and_a_look_on_no_other_look(drawn, seed):
    y, e, h, taken = drawn
    whole = simulate_looks(y, e, false_positive_rate=h, observed=taken, random_state=seed)
    rows, looks = slice(y.size // 2 + 1), slice((e.shape[1] + 1) // 2)
    part = simulate_looks(
        y[rows],
        e[rows, looks],
        false_positive_rate=h[rows, looks],
        observed=taken[rows, looks],
        random_state=seed,
    )
    np.testing.assert_array_equal(part, whole[rows, looks])
    if_all_were = [simulate_looks(np.full(y.size, v), e, false_positive_rate=h, random_state=seed) for v in (0, 1)]
    np.testing.assert_array_equal(whole, np.where(np.isnan(whole), np.nan, np.where(y[:, None], *if_all_were[::-1])))


@given(settings_with_looks(), seeds, shares)
def test_higher_probabilities_only_add_labels_and_looks(drawn, seed, factor):
    y, e, h, taken = drawn
    few = simulate_looks(y, factor * e, false_positive_rate=factor * h, random_state=seed)
    many = simulate_looks(y, e, false_positive_rate=h, random_state=seed)
    assert (few <= many).all()
    seldom, often = (simulate_looks(y, e, observed=share * taken, random_state=seed) for share in (factor, 1.0))
    assert (np.isnan(often) <= np.isnan(seldom)).all()


@given(settings_with_looks(), seeds)
def test_equivalent_forms_of_the_same_looks(drawn, seed):
    y, e, h, taken = drawn
    same = {"false_positive_rate": h[0], "observed": taken[0], "random_state": seed}
    S = simulate_looks(y, e, **same)
    for table in (list(e.T), tuple(e.T), pd.DataFrame(e), pl.DataFrame(e, schema=[str(k) for k in range(e.shape[1])])):
        np.testing.assert_array_equal(simulate_looks(y, table, **same), S)
    for coded in (2 * y - 1, y.astype(bool), y.tolist(), pd.Series(y)):
        np.testing.assert_array_equal(simulate_looks(coded, e, **same), S)
    full = {"false_positive_rate": np.tile(h[0], (y.size, 1)), "observed": taken[0].tolist(), "random_state": seed}
    np.testing.assert_array_equal(simulate_looks(y, e, **full), S)
    constant = simulate_looks(y, [0.3] * 3, false_positive_rate=0.2, observed=0.5, random_state=seed)
    vectors = {"false_positive_rate": [0.2] * 3, "observed": np.full((y.size, 3), 0.5), "random_state": seed}
    np.testing.assert_array_equal(simulate_looks(y, np.full((y.size, 3), 0.3), **vectors), constant)


def test_a_boolean_applies_to_all_rows_of_a_look():
    S = simulate_looks([1, 0], [1.0, 1.0], observed=[True, False], random_state=0)
    np.testing.assert_array_equal(S, [[1, np.nan], [0, np.nan]])
    assert not np.isnan(simulate_looks([1, 0], [1.0], observed=True)).any()


def test_the_streams_of_looks_are_the_documented_ones():
    n, e, taken = 300, np.linspace(0, 1, 300), np.linspace(1, 0, 300)
    u, v = (
        np.column_stack([Generator(PCG64(SeedSequence(7, spawn_key=(LOOK, use, k)))).random(n) for k in range(2)])
        for use in (0, 1)
    )
    S = simulate_looks(np.ones(n), [e, e], observed=[taken, taken], random_state=7)
    np.testing.assert_array_equal(S, np.where(v < taken[:, None], u < e[:, None], np.nan))


def test_looks_and_audits_of_fixed_seeds_never_change():
    y = np.tile([1, 0], 5)
    S = simulate_looks(y, [0.5, 0.5], false_positive_rate=0.3, observed=0.7, random_state=0)
    assert "".join("-" if np.isnan(s) else str(int(s)) for s in S.ravel()) == FROZEN_LOOKS
    audit = simulate_audit(y, 4, random_state=0)
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(audit)), FROZEN_AUDIT)


def test_shares_of_labels_looks_and_false_positives():
    n, e, h, taken = 20_000, (0.05, 0.5, 0.9), (0.3, 0.02, 0.0), (0.2, 0.7, 1.0)
    for y, rate in ((1, e), (0, h)):
        S = simulate_looks(np.full(n, y), list(e), false_positive_rate=h, observed=taken, random_state=1)
        for k in range(3):
            looked = ~np.isnan(S[:, k])
            assert within(looked.sum(), n, taken[k])
            assert within(np.nansum(S[:, k]), looked.sum(), rate[k])


def test_looks_are_independent_of_each_other_and_of_the_gaps():
    n = 10_000
    full = simulate_looks(np.ones(n), [0.5] * 4, random_state=3)
    looked = ~np.isnan(simulate_looks(np.ones(n), [0.5] * 4, observed=0.5, random_state=3))
    audited = ~np.isnan(simulate_audit(np.ones(n), probability=0.5, random_state=3))
    labels = simulate_labels(np.ones(n), 0.5, random_state=3)
    drawn = np.column_stack([full, looked, audited, labels, default_rng(3).random(n)])
    off_diagonal = np.corrcoef(drawn.T)[np.triu_indices(drawn.shape[1], 1)]
    assert np.abs(off_diagonal).max() < 4.8 / np.sqrt(n)


@pytest.mark.parametrize("make", [default_rng, RandomState, PCG64])
@pytest.mark.parametrize("call", [lambda s: simulate_looks(np.ones(200), [0.5, 0.5], random_state=s),
                                  lambda s: simulate_audit(np.arange(200) % 2, 90, random_state=s)])  # fmt: skip
def test_a_generator_advances_with_looks(make, call):
    stream, twin = make(8), make(8)
    first, second = call(stream), call(stream)
    np.testing.assert_array_equal(call(twin), first)
    assert not np.array_equal(first, second, equal_nan=True)
    assert not np.array_equal(call(None), call(None), equal_nan=True)


def test_a_generator_advances_equally_for_all_options():
    after = []
    for options in ({}, {"observed": 0.2}, {"false_positive_rate": 0.5}):
        stream = default_rng(0)
        simulate_looks([1, 0, 1], [0.5, 0.5], random_state=stream, **options)
        after.append(stream.random())
    assert after[0] == after[1] == after[2]


def test_a_seed_sequence_is_not_changed_by_looks():
    seed = SeedSequence(3)
    S = simulate_looks(np.ones(30), [0.5, 0.5], random_state=seed)
    np.testing.assert_array_equal(S, simulate_looks(np.ones(30), [0.5, 0.5], random_state=3))
    assert seed.n_children_spawned == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": [0, 2, 1]}, "y must be binary, coded 0/1, -1/"),
        ({"propensities": 0.5}, r"propensities must be an array of shape \(n_rows, n_looks\), or a list.*; got 0.5. "
         r"For one look, write \[0.5\]. For two"),
        ({"propensities": np.ones(3)}, r"got an array of shape \(3,\). For one look, write propensities.reshape\(-1"),
        ({"propensities": np.ones((3, 2, 1))}, r"got an array of shape \(3, 2, 1\). For one look"),
        ({"propensities": []}, "propensities is empty. Give one entry for each look, such as"),
        ({"propensities": np.ones((3, 0))}, "propensities is empty. Give one column for each look"),
        ({"propensities": np.ones((2, 3))}, r"propensities has the shape \(2, 3\); .*\(3, n_looks\)"),
        ({"propensities": [0.5, [0.5, 0.5]]}, "propensities of look 1 has 2 values for 3 rows"),
        ({"propensities": [0.5, 1.5]}, r"propensities of look 1 must contain probabilities in \[0, 1\], .* 3 of 3"),
        ({"propensities": [[0.5, np.nan, 1.0]]}, r"propensities of look 0 must contain .*\(first: .*\[1\] = nan\)"),
        ({"propensities": [0.5, SCAR(0.5)]}, "propensities of look 1 must be numbers; it is the mechanism SCAR"),
        ({"propensities": [0.5, "a"]}, "propensities of look 1 must contain only numbers"),
        ({"false_positive_rate": -0.1}, "false_positive_rate of look 0 must contain probabilities"),
        ({"false_positive_rate": [0.1]}, r"false_positive_rate must be one number.* \(3, 2\).*: 2; .* entries: 1"),
        ({"false_positive_rate": np.array([0.1, 0.1, 0.1])}, "false_positive_rate must .* looks: 2; .* entries: 3"),
        ({"observed": [1.0, 1.0, 1.0]}, "observed must be one number, a list with one entry for .* entries: 3"),
        ({"observed": np.ones((3, 3))}, r"observed has the shape \(3, 3\); .* shape \(3, 2\), with one row"),
        ({"observed": 2}, r"observed of look 0 must contain probabilities in \[0, 1\]"),
        ({"random_state": -1}, "random_state must be None, a whole number of at least 0"),
        ({"random_state": True}, "random_state must be None, a whole number of at least 0"),
    ],
)  # fmt: skip
def test_invalid_arguments_of_simulate_looks_are_refused(options, message):
    given = {"y": [1, 0, 1], "propensities": [0.5, 0.5], **options}
    with pytest.raises(ValueError, match=message):
        simulate_looks(given.pop("y"), given.pop("propensities"), **given)


def test_sparse_propensities_are_refused():
    with pytest.raises(TypeError, match=r"propensities must be a dense array .*Pass propensities\.toarray\(\)\.$"):
        simulate_looks([1, 0], sparse.csr_array(np.ones((2, 2))))


# --- audits


@given(classes, seeds, st.data())
def test_an_audit_returns_the_classes_of_the_audited_rows(y, seed, data):
    size = data.draw(st.integers(0, y.size))
    audit = simulate_audit(y, size, random_state=seed)
    audited = ~np.isnan(audit)
    assert audited.sum() == size
    assert audit.dtype == np.float64
    np.testing.assert_array_equal(audit[audited], y[audited])


@given(classes, seeds, st.data())
def test_the_rows_of_a_smaller_audit_are_among_those_of_a_larger_one(y, seed, data):
    small, large = sorted(data.draw(st.tuples(*[st.integers(0, y.size)] * 2)))
    odds = data.draw(st.floats(0.01, 100))
    first, more = (simulate_audit(y, n, odds_for_positives=odds, random_state=seed) for n in (small, large))
    assert (np.isnan(more) <= np.isnan(first)).all()


@given(classes, seeds, st.floats(0.01, 100), st.floats(0.01, 100), st.data())
def test_higher_odds_only_add_positives(y, seed, one, other, data):
    size = data.draw(st.integers(0, y.size))
    for how in ({"n_rows": size}, {"probability": size / y.size}):
        fair, biased = (
            simulate_audit(y, odds_for_positives=odds, random_state=seed, **how) for odds in sorted((one, other))
        )
        assert ((fair == 1) <= (biased == 1)).all()
        assert ((biased == 0) <= (fair == 0)).all()


@given(classes, seeds)
def test_rows_that_are_audited_for_sure_or_never(y, seed):
    sure = np.arange(y.size) % 2 == 0
    for odds in (0.1, 1.0, 30.0):
        audit = simulate_audit(y, probability=sure, odds_for_positives=odds, random_state=seed)
        np.testing.assert_array_equal(audit, np.where(sure, y, np.nan))


@given(classes, seeds, shares)
def test_reports_of_negatives_and_false_reports(y, seed, probability):
    fair = simulate_audit(y, probability=probability, random_state=seed)
    findings = simulate_audit(y, probability=probability, negatives_reported=0.0, random_state=seed)
    np.testing.assert_array_equal(findings, np.where(fair == 1, 1.0, np.nan))
    lies = simulate_audit(y, probability=probability, false_report=1.0, random_state=seed)
    np.testing.assert_array_equal(lies, 1.0 - fair)


def test_the_stream_of_an_audit_is_the_documented_one():
    u = Generator(PCG64(SeedSequence(11, spawn_key=(AUDIT, 0)))).random(500)
    pi = np.linspace(0, 1, 500)
    audited = ~np.isnan(simulate_audit(np.ones(500), probability=pi, random_state=11))
    np.testing.assert_array_equal(audited, u < pi)
    by_number = ~np.isnan(simulate_audit(np.ones(500), 100, random_state=11))
    np.testing.assert_array_equal(np.flatnonzero(by_number), np.sort(np.argsort(u)[:100]))


def test_a_fair_audit_has_as_many_positives_as_a_draw_without_replacement():
    y = (np.arange(50_000) % 10 < 3).astype(int)
    law = hypergeom(y.size, y.sum(), 20_000)
    assert law.ppf(1e-6) <= np.nansum(simulate_audit(y, 20_000, random_state=2)) <= law.isf(1e-6)


@pytest.mark.parametrize("odds", [0.5, 2.0, 5.0])
def test_odds_for_positives_are_odds_ratios(odds):
    # The odds are exact for independent draws, and nearly exact for few rows drawn from many.
    n, share = 200_000, 0.3
    y = (np.arange(n) % 10 < 10 * share).astype(int)
    audit = simulate_audit(y, probability=0.2, odds_for_positives=odds, random_state=4)
    chance = odds * 0.25 / (1 + odds * 0.25)
    assert within((audit == 1).sum(), y.sum(), chance)
    assert within((audit == 0).sum(), n - y.sum(), 0.2)
    few = simulate_audit(y, 2000, odds_for_positives=odds, random_state=4)
    assert within(np.nansum(few), 2000, odds * share / (odds * share + 1 - share))


def test_the_odds_of_the_next_row_are_exact_for_three_rows():
    # Wallenius by enumeration: one positive with weight 2, two negatives; Pr(positive among two) = 1/2 + 1/2 * 2/3.
    n = 2000
    found = sum(
        not np.isnan(simulate_audit([1, 0, 0], 2, odds_for_positives=2.0, random_state=seed)[0]) for seed in range(n)
    )
    assert within(found, n, 1 / 2 + 1 / 2 * 2 / 3)


def test_shares_of_false_and_missing_reports():
    y = np.arange(40_000) % 2
    audit = simulate_audit(y, y.size, negatives_reported=0.3, false_report=0.1, random_state=5)
    reported = ~np.isnan(audit)
    assert reported[y == 1].all()
    assert within(reported[y == 0].sum(), 20_000, 0.3)
    assert within((audit[reported] != y[reported]).sum(), reported.sum(), 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            r"Pass either n_rows .the number of rows to audit. or probability .the probability.*; got neither",
        ),
        ({"n_rows": 1, "probability": 0.5}, "or probability .the probability that a row is audited.; got both"),
        ({"n_rows": 4}, "n_rows must be at most 3, the number of rows of y; got 4. A row is audited at most once"),
        ({"n_rows": -1}, "n_rows must be a whole number of at least 0; got -1"),
        ({"n_rows": 1.5}, "n_rows must be a whole number of at least 0; got 1.5"),
        ({"probability": 1.5}, r"probability must contain probabilities in \[0, 1\], .* 3 of 3"),
        ({"probability": [0.5, 0.5]}, "probability has 2 values for 3 rows"),
        ({"n_rows": 1, "odds_for_positives": 0}, "odds_for_positives must be a number above 0; got 0"),
        ({"n_rows": 1, "odds_for_positives": np.inf}, "odds_for_positives must be finite; .* negatives_reported=0"),
        ({"n_rows": 1, "negatives_reported": 2}, r"negatives_reported must contain probabilities in \[0, 1\]"),
        ({"n_rows": 1, "negatives_reported": [1.0]}, "negatives_reported must be one number from 0 to 1; got .1.0."),
        ({"n_rows": 1, "false_report": np.nan}, r"false_report must contain probabilities in \[0, 1\]"),
        ({"n_rows": 1, "false_report": True}, "false_report must be one number from 0 to 1; got True"),
        ({"n_rows": 1, "random_state": "a"}, "random_state must be None, a whole number of at least 0"),
        ({"n_rows": 1, "y": [0, 1, 5]}, "y must be binary"),
    ],
)
def test_invalid_arguments_of_simulate_audit_are_refused(options, message):
    given = {"y": [1, 0, 1], **options}
    with pytest.raises(ValueError, match=message):
        simulate_audit(given.pop("y"), **given)
