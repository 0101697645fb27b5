"""SCAR within strata: exact with true label frequencies, and pooled label frequencies for small strata."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers import quick_first

from scarless.label_frequency import BestBinEstimator, ElkanNoto, held_out_scores
from scarless.label_frequency.held_out_scores import default_classifier
from scarless.models import PropensityWeightedClassifier, SCARClassifier, StratifiedSCARClassifier
from scarless.models.stratified_scar import Stratum, combine
from scarless.outside.notices import ClassPriorWarning

SPARSE_KINDS = (sparse.csr_array, sparse.csr_matrix, sparse.coo_array, sparse.csc_array)


class KnownClasses(BaseEstimator):
    """Compute the true label frequency. The last column is the number of the row, divided by 1000."""

    def __init__(self, y):
        self.y = y

    def fit(self, X, s, sample_weight=None):
        w = np.ones(len(s)) if sample_weight is None else sample_weight
        y = self.y[np.rint(1000 * np.asarray(X)[:, -1]).astype(int)]
        self.n_columns_ = X.shape[1]
        self.label_frequency_ = (w @ s) / (w @ y)
        return self


class RootShare(BaseEstimator):
    """Estimate the label frequency as a root of the share of labelled rows."""

    def __init__(self, root=2):
        self.root = root

    def fit(self, X, s, sample_weight=None):
        self.label_frequency_ = np.average(s, weights=sample_weight) ** (1 / self.root)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Unweighted(RootShare):
    def fit(self, X, s):
        return super().fit(X, s)


class Choosy(RootShare):
    """Fail, warn or return an impossible value, depending on the first column."""

    def fit(self, X, s):
        mark = np.asarray(X)[0, 0] if np.unique(np.asarray(X)[:, 0]).size == 1 else 0
        if mark == 1:
            raise ValueError("no convergence here")
        if mark == 2:
            warnings.warn("a rough estimate", UserWarning, stacklevel=2)
        super().fit(X, s)
        if mark == 3:
            self.label_frequency_ = 0.0
        if mark == 4:
            self.label_frequency_ = np.nan
        return self


class Numbered:
    """Rows in strata 0, 1, ... of given sizes, of which given numbers are labelled."""

    def __init__(self, sizes, labelled, seed=0):
        rng = np.random.default_rng(seed)
        self.stratum = np.repeat(np.arange(len(sizes)), sizes)
        self.s = np.concatenate([np.arange(n) < k for n, k in zip(sizes, labelled, strict=True)]).astype(int)
        self.X = np.column_stack([self.stratum, rng.normal(size=(self.s.size, 2)) + self.s[:, None]])


@pytest.fixture
def sar():
    """Six strata of two attributes, with propensities from 0.2 to 0.9, and each row's number as the last column."""
    rng = np.random.default_rng(1)
    n = 900
    strata = np.column_stack([rng.integers(0, 2, size=n), rng.integers(-1, 2, size=n)]).astype(float)
    x = rng.normal(size=(n, 2))
    y = (rng.random(n) < expit(1.5 * x[:, 0] + strata[:, 0] - 0.5)).astype(int)
    e = 0.2 + 0.25 * strata[:, 0] + 0.2 * (strata[:, 1] + 1)
    s = y * (rng.random(n) < e)
    return np.column_stack([x[:, 0], strata, x[:, 1], np.arange(n) / 1000]), y, s


def by_hand(X, y, s, columns=(1, 2)):
    """Return each row's share of labels among the positives of its stratum."""
    e = np.empty(len(s))
    for values in {tuple(row) for row in X[:, columns].tolist()}:
        rows = (X[:, columns] == values).all(axis=1)
        e[rows] = s[rows].sum() / y[rows].sum()
    return e


def model_of(y, **options):
    return StratifiedSCARClassifier(
        options.pop("propensity_attributes", [1, 2]), label_frequency=KnownClasses(y), tol=1e-13, **options
    )


# --- the reduction


@pytest.mark.parametrize("method", ["risk", "likelihood"])
def test_with_true_label_frequencies_it_equals_the_fit_with_known_propensities(sar, method):
    X, y, s = sar
    e = by_hand(X, y, s)
    model = model_of(y, method=method).fit(X, s)
    known = PropensityWeightedClassifier(method=method, tol=1e-13).fit(X, s, propensity=e)
    np.testing.assert_allclose(model.predict_propensity(X), e, rtol=1e-14)
    np.testing.assert_allclose(model.coef_, known.coef_, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, known.intercept_, atol=1e-10)
    assert model.class_prior_ == pytest.approx(known.class_prior_, abs=1e-12)
    assert model.label_frequency_ == pytest.approx(known.label_frequency_, abs=1e-12)
    np.testing.assert_allclose(model.predict_posterior(X, s), known.predict_posterior(X, s, e), atol=1e-10)
    assert model.score(X, s) == pytest.approx(known.score(X, s, propensity=e), abs=1e-12)
    assert model.pooled_label_frequency_ == pytest.approx(s.sum() / y.sum())
    # Label frequencies are exact in each stratum, so the sum of s/e is the true number of positives.
    assert (s / model.predict_propensity(X)).sum() == pytest.approx(y.sum())


def test_any_estimator_gets_the_same_propensities(sar):
    X, y, s = sar
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    model = model_of(y, estimator=tree).fit(X, s)
    known = PropensityWeightedClassifier(tree).fit(X, s, propensity=by_hand(X, y, s))
    np.testing.assert_allclose(model.predict_proba(X), known.predict_proba(X), rtol=1e-12)
    np.testing.assert_allclose(model.predict_propensity(X), by_hand(X, y, s))


@pytest.mark.parametrize("attributes", [[1], None])
def test_one_stratum_equals_scar(sar, attributes):
    X, y, s = sar
    X = X.copy()
    X[:, 1] = 3.0
    model = model_of(y, propensity_attributes=attributes).fit(X, s)
    scar = SCARClassifier(KnownClasses(y), tol=1e-13).fit(X, s)
    np.testing.assert_array_equal(model.coef_, scar.coef_)
    np.testing.assert_array_equal(model.predict_propensity(X), scar.predict_propensity(X))
    assert model.class_prior_ == scar.class_prior_
    assert model.label_frequency_ == pytest.approx(scar.label_frequency_)
    values = () if attributes is None else (3.0,)
    assert model.strata_ == [Stratum(values, s.size, s.sum(), scar.label_frequency_, False)]


def test_the_propensity_attributes_are_left_out_of_the_estimate(sar):
    X, y, s = sar
    assert model_of(y).fit(X, s).label_frequency_estimator_.n_columns_ == 3
    assert model_of(y, propensity_attributes=None).fit(X, s).label_frequency_estimator_.n_columns_ == 5


def test_strata_equal_a_direct_computation():
    data = Numbered(sizes=[16, 25, 9], labelled=[4, 1, 1])
    model = StratifiedSCARClassifier([0], label_frequency=RootShare(), min_rows=4, min_labelled=1).fit(data.X, data.s)
    assert model.strata_ == [
        Stratum((0.0,), 16, 4, 0.5, False),
        Stratum((1.0,), 25, 1, 0.2, False),
        Stratum((2.0,), 9, 1, pytest.approx(1 / 3), False),
    ]
    assert model.pooled_label_frequency_ == pytest.approx(np.sqrt(6 / 50))
    assert isinstance(model.strata_[0].n_rows, int)
    assert list(pd.DataFrame(model.strata_)) == ["values", "n_rows", "n_labelled", "label_frequency", "pooled"]


def test_strata_come_in_the_order_of_their_values(sar):
    X, y, s = sar
    values = [stratum.values for stratum in model_of(y, propensity_attributes=[2, 1]).fit(X, s).strata_]
    assert values == [(-1.0, 0.0), (-1.0, 1.0), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]


# --- strata that fall back


def test_small_strata_use_the_pooled_label_frequency():
    data = Numbered(sizes=[200, 40, 60, 7], labelled=[72, 16, 9, 0])
    model = StratifiedSCARClassifier([0], label_frequency=RootShare()).fit(data.X, data.s)
    pooled = np.sqrt(97 / 307)
    assert model.strata_ == [
        Stratum((0.0,), 200, 72, pytest.approx(0.6), False),
        Stratum((1.0,), 40, 16, pytest.approx(pooled), True),  # fewer than 50 rows
        Stratum((2.0,), 60, 9, pytest.approx(pooled), True),  # fewer than 10 labelled
        Stratum((3.0,), 7, 0, pytest.approx(pooled), True),
    ]
    np.testing.assert_allclose(model.predict_propensity(data.X), np.array([0.6, *[pooled] * 3])[data.stratum])


def test_a_stratum_at_the_limits_is_large_enough():
    data = Numbered(sizes=[50, 100], labelled=[10, 36])
    model = StratifiedSCARClassifier([0], label_frequency=RootShare()).fit(data.X, data.s)
    assert [stratum.pooled for stratum in model.strata_] == [False, False]
    model.set_params(min_rows=51).fit(data.X, data.s)
    assert [stratum.pooled for stratum in model.strata_] == [True, False]
    model.set_params(min_rows=50, min_labelled=11).fit(data.X, data.s)
    assert [stratum.pooled for stratum in model.strata_] == [True, False]


def test_the_pooled_label_frequency_is_raised_to_the_share_of_labels_in_many_rows():
    data = Numbered(sizes=[60, 400], labelled=[20, 1])
    model = StratifiedSCARClassifier([0], label_frequency=RootShare(), min_labelled=21)
    with pytest.warns(UserWarning, match=r"propensity_attributes divide .* rows into 2 strata"):
        model.fit(data.X, data.s)
    assert model.strata_[0] == Stratum((0.0,), 60, 20, pytest.approx(1 / 3), True)
    assert model.strata_[1] == Stratum((1.0,), 400, 1, pytest.approx(np.sqrt(21 / 460)), True)
    model.set_params(min_rows=61)
    with pytest.warns(UserWarning, match=r"propensity_attributes divide .* rows into 2 strata"):
        model.fit(data.X, data.s)
    assert model.strata_[0].label_frequency == model.pooled_label_frequency_


@pytest.mark.parametrize("min_labelled", [10, 61])
def test_large_strata_with_all_rows_labelled_have_label_frequency_1(min_labelled):
    data = Numbered(sizes=[60, 400, 8], labelled=[60, 100, 8])
    model = StratifiedSCARClassifier([0], label_frequency=RootShare(), min_labelled=min_labelled).fit(data.X, data.s)
    assert model.strata_ == [
        Stratum((0.0,), 60, 60, 1.0, False),
        Stratum((1.0,), 400, 100, 0.5, False),
        Stratum((2.0,), 8, 8, model.pooled_label_frequency_, True),  # few rows may all be labelled by chance
    ]


def test_all_labelled_strata_are_not_counted_as_small():
    data = Numbered(sizes=[60, 30, 30, 30], labelled=[60, 9, 9, 9])
    with pytest.warns(UserWarning, match=r"150 rows into 4 strata\. 3 strata \(60% of the rows\) have too few"):
        StratifiedSCARClassifier([0], label_frequency=RootShare()).fit(data.X, data.s)


def test_large_strata_without_labels_get_one_warning():
    data = Numbered(sizes=[300, 50, 49, 70], labelled=[75, 0, 0, 0])
    message = (
        r"2 of 4 strata have at least min_rows=50 rows and no labelled row \(120 rows in total; the first stratum is "
        r"the rows where column 0 = 1\.0\)\. If positives in these strata are never labelled, the method fails, and "
        r"all rows of these strata count as negatives\. Drop these rows, or use other propensity attributes\."
    )
    model = StratifiedSCARClassifier([0], label_frequency=RootShare())
    with pytest.warns(UserWarning, match=message) as record:
        model.fit(data.X, data.s)
    assert len(_without_class_prior_warnings(record)) == 1
    assert record[0].filename == __file__
    assert [stratum.pooled for stratum in model.strata_] == [False, True, True, True]
    model.set_params(min_rows=71).fit(data.X, data.s)


def marked(marks):
    """Return strata of 60 rows, 20 of them labelled, with a mark for each in the column after the stratum's."""
    data = Numbered(sizes=[60] * len(marks), labelled=[20] * len(marks))
    return np.insert(data.X, 1, np.asarray(marks)[data.stratum], axis=1), data.s


@pytest.mark.parametrize(("mark", "reason"), [(1, "no convergence here"), (4, r"estimated a label frequency of NaN")])
def test_a_failed_estimate_uses_the_pooled_value_with_one_warning(mark, reason):
    X, s = marked([0, mark, 0, mark, 0])
    message = (
        rf"Choosy failed in 2 of 5 strata\. These strata use the pooled label frequency, 0\.577\. First error, for the "
        rf"rows where column 0 = 1\.0: .*{reason}"
    )
    with pytest.warns(UserWarning, match=message) as record:
        model = StratifiedSCARClassifier([0], label_frequency=Choosy()).fit(X, s)
    assert len(_without_class_prior_warnings(record)) == 1
    assert record[0].filename == __file__
    assert [stratum.pooled for stratum in model.strata_] == [False, True, False, True, False]


def test_a_failed_pooled_estimate_is_an_error():
    X, s = marked([1, 1])
    with pytest.raises(ValueError, match="no convergence here"):
        StratifiedSCARClassifier([0], label_frequency=Choosy()).fit(X, s)


def test_warnings_of_strata_are_combined_into_one():
    X, s = marked([0, 0, 2, 2, 2, 2])
    frame = pd.DataFrame(X, columns=["region", "mark", "a", "b"])
    message = (
        r"Choosy warned in 4 of 7 fits \(there is one fit for all rows together, and one for each stratum\)\. First "
        r"warning, for the rows where region = 2\.0: a rough estimate"
    )
    with pytest.warns(UserWarning, match=message) as record:
        StratifiedSCARClassifier("region", label_frequency=Choosy()).fit(frame, s)
    assert len(_without_class_prior_warnings(record)) == 1
    assert record[0].filename == __file__


def test_impossible_estimates_are_clipped_with_one_warning():
    X, s = marked([0, 3, 3, 3])
    message = r"Choosy warned in 3 of 5 fits .* First warning, .* column 0 = 1\.0: Choosy estimates a label frequency"
    with pytest.warns(UserWarning, match=message) as record:
        model = StratifiedSCARClassifier([0], label_frequency=Choosy()).fit(X, s)
    assert len(_without_class_prior_warnings(record)) == 1
    assert model.strata_[1].label_frequency == pytest.approx((1 / 3) / (1 - 1 / 60))
    assert not model.strata_[1].pooled


def test_a_warning_about_all_rows_says_so():
    X, s = marked([2, 2])
    with pytest.warns(UserWarning, match=r"warned in 3 of 3 fits .* First warning, for all rows: a rough estimate"):
        StratifiedSCARClassifier([0], label_frequency=Choosy()).fit(X, s)


def test_too_many_strata_get_a_warning():
    sizes = [2] * 40 + [70]
    data = Numbered(sizes=sizes, labelled=[1] * 40 + [20])
    message = (
        r"propensity_attributes divide 150 rows into 41 strata\. 40 strata \(53% of the rows\) have too few rows or "
        r"labels \(min_rows=50, min_labelled=10\), or a failed estimate\. They use the pooled label frequency, 0\.63\. "
        r"Use fewer or binned attributes, or SAREMClassifier"
    )
    with pytest.warns(UserWarning, match=message) as record:
        StratifiedSCARClassifier([0], label_frequency=RootShare()).fit(data.X, data.s)
    assert record[0].filename == __file__


def test_new_combinations_get_the_pooled_label_frequency(sar):
    X, y, s = sar
    kept = ~((X[:, 1] == 1) & (X[:, 2] == 0))
    model = model_of(y).fit(X[kept], s[kept])
    new = np.zeros((5, 5))
    new[:, 1:3] = [[0, 0], [1, 0], [0, 7], [-5, -1], [0.5, 1]]
    seen = next(stratum for stratum in model.strata_ if stratum.values == (0.0, 0.0))
    expected = [seen.label_frequency, *[model.pooled_label_frequency_] * 4]
    np.testing.assert_array_equal(model.predict_propensity(new), expected)
    assert np.isfinite(model.predict_posterior(new, [0, 1, 0, 1, 0])).all()


# --- invariances


def test_the_order_of_rows_changes_nothing(sar):
    X, y, s = sar
    order = np.random.default_rng(0).permutation(s.size)
    model, shuffled = model_of(y).fit(X, s), model_of(y).fit(X[order], s[order])
    assert model.strata_ == shuffled.strata_
    np.testing.assert_allclose(model.coef_, shuffled.coef_, atol=1e-10)


def test_the_order_of_attributes_changes_the_values_only(sar):
    X, y, s = sar
    one, other = model_of(y).fit(X, s), model_of(y, propensity_attributes=[2, 1]).fit(X, s)
    np.testing.assert_array_equal(one.predict_propensity(X), other.predict_propensity(X))
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize("attributes", [["b", "c"], slice("b", "c"), [False, True, True, False, False], [1, -3]])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_with_names_equal_arrays_with_positions(sar, frame, attributes):
    X, y, s = sar
    table = frame({name: X[:, i] for i, name in enumerate("abcde")})
    model, plain = model_of(y, propensity_attributes=attributes).fit(table, s), model_of(y).fit(X, s)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-12)
    np.testing.assert_array_equal(model.predict_propensity(table), plain.predict_propensity(X))
    assert model.strata_ == plain.strata_
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict_propensity(table[list("bacde")])


@pytest.mark.parametrize(
    "convert", quick_first(sparse.csr_array, sparse.csr_matrix, sparse.coo_array, sparse.csc_array)
)
@pytest.mark.parametrize("estimator", [None, LogisticRegression(tol=1e-10, max_iter=1000)])
def test_sparse_tables_equal_dense_tables(sar, convert, estimator):
    X, _, s = sar
    options = {"label_frequency": RootShare(), "estimator": estimator, "method": "likelihood"}
    dense = StratifiedSCARClassifier([1, 2], **options).fit(X, s)
    model = StratifiedSCARClassifier([1, 2], **options).fit(convert(X), s)
    assert model.strata_ == dense.strata_
    np.testing.assert_allclose(model.predict_proba(convert(X)), dense.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict_propensity(convert(X)), dense.predict_propensity(X))


def test_single_precision_finds_the_strata_of_double_precision(sar):
    X, y, s = sar
    X = X.copy()
    X[:, 2] /= 10  # 0.1 is another number in float32
    double, single = model_of(y).fit(X, s), model_of(y).fit(X.astype(np.float32), s)
    for model in (double, single):
        for table in (X, X.astype(np.float32)):
            np.testing.assert_array_equal(model.predict_propensity(table), double.predict_propensity(X))
    np.testing.assert_allclose(double.coef_, single.coef_, rtol=1e-3, atol=1e-5)


def test_large_whole_numbers_are_different_strata():
    data = Numbered(sizes=[60, 60], labelled=[40, 20])
    X = data.X + np.array([20_240_101, 0, 0])
    tree = DecisionTreeClassifier(max_depth=2)
    model = StratifiedSCARClassifier([0], label_frequency=RootShare(), estimator=tree).fit(X, data.s)
    np.testing.assert_allclose(model.predict_propensity(X), np.sqrt([2 / 3, 1 / 3])[data.stratum])


@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_depth=2, random_state=0)])
def test_weights_equal_copies(sar, estimator):
    X, y, s = sar
    weight = np.random.default_rng(0).integers(0, 4, size=s.size)
    weight[X[:, 2] == 1] = 0  # two strata have no rows
    model = model_of(y, estimator=estimator, min_rows=225)
    weighted = clone(model).fit(X, s, sample_weight=weight)
    rows = np.repeat(np.arange(s.size), weight)
    copied = clone(model).fit(X[rows], s[rows])
    assert weighted.strata_ == copied.strata_
    assert len(weighted.strata_) == 4
    assert {stratum.pooled for stratum in weighted.strata_} == {False, True}
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(weighted.predict_propensity(X), copied.predict_propensity(X))


def test_fractional_weights(sar):
    X, y, s = sar
    strata = model_of(y, min_labelled=1).fit(X, s, sample_weight=np.full(s.size, 0.5)).strata_
    assert sum(stratum.n_rows for stratum in strata) == s.size / 2
    assert [stratum.label_frequency for stratum in strata] == pytest.approx(
        [stratum.label_frequency for stratum in model_of(y).fit(X, s).strata_]
    )


@settings(max_examples=60, deadline=None)
@given(
    table=st.integers(1, 3).flatmap(
        lambda k: st.lists(st.tuples(*[st.sampled_from([-2.0, -0.0, 0.0, 0.1, 5.0])] * k), min_size=1, max_size=20)
    ),
    new=st.lists(st.tuples(*[st.sampled_from([-2.0, 0.0, 0.1, 3.0])] * 3), min_size=1, max_size=10),
)
def test_combinations_are_numbered_as_sorted_tuples(table, new):
    columns = list(np.array(table).T)
    distinct = sorted(set(table))
    combinations, code = combine(columns, len(table))
    assert code.tolist() == [distinct.index(row) for row in table]
    assert combinations.find(columns, len(table)).tolist() == code.tolist()
    new = [row[: len(columns)] for row in new]
    expected = [distinct.index(row) if row in distinct else -1 for row in new]
    assert combinations.find(list(np.array(new).T), len(new)).tolist() == expected


# --- text as attributes


def text_reader():
    others = FunctionTransformer(np.asarray)  # the oldest supported scikit-learn does not pass polars frames through
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["region"]), remainder=others)
    return make_pipeline(encode, LogisticRegression(tol=1e-10, max_iter=2000))


def with_regions(sar):
    X, y, s = sar
    frame = pd.DataFrame(X, columns=list("abcde"))
    return frame.assign(region=np.where(frame.pop("b") == 1, "north", "south")), y, s


class LastButRegion(KnownClasses):
    """Check that `fit` receives a data frame with these columns."""

    def fit(self, X, s, sample_weight=None):
        assert list(X.columns) == ["a", "d", "e"]
        return super().fit(X, s, sample_weight)


@pytest.mark.parametrize("dtype", ["object", "str", "category", "polars"])
def test_text_defines_strata_if_the_estimator_reads_it(sar, dtype):
    X, y, s = sar
    table, _, _ = with_regions(sar)
    table = pl.DataFrame(table.to_dict("list")) if dtype == "polars" else table.astype({"region": dtype})
    model = StratifiedSCARClassifier(
        ["region", "c"], label_frequency=LastButRegion(y), estimator=text_reader(), method="likelihood"
    ).fit(table, s)
    assert [stratum.values[0] for stratum in model.strata_] == ["north"] * 3 + ["south"] * 3
    np.testing.assert_allclose(model.predict_propensity(table), by_hand(X, y, s))
    plain = model_of(y, estimator=LogisticRegression(tol=1e-10, max_iter=2000), method="likelihood").fit(X, s)
    assert np.corrcoef(model.predict_proba(table)[:, 1], plain.predict_proba(X)[:, 1])[0, 1] > 0.999


def test_the_label_frequency_estimator_must_read_text_that_the_classifier_reads(sar):
    table, _, s = with_regions(sar)
    model = StratifiedSCARClassifier("c", label_frequency="tice", estimator=text_reader(), method="likelihood")
    message = (
        r"label_frequency: TIcE could not be fitted\. X must contain only numbers.*'region' \(1 of 4\).*"
        r"label_frequency=make_pipeline\(encoder, TIcE\(\)\)"
    )
    with pytest.raises(ValueError, match=message):
        model.fit(table, s)


def as_floats(table):
    return table.astype(float)


def test_whole_numbers_and_booleans_of_a_frame_are_numbers(sar):
    X, y, s = sar
    frame = pd.DataFrame(X, columns=list("abcde"))
    reader = make_pipeline(FunctionTransformer(as_floats), LogisticRegression())
    options = {"propensity_attributes": ["b", "c"], "estimator": reader, "method": "likelihood"}
    plain = model_of(y, **options).fit(frame, s)
    for kinds in ({"b": bool, "c": int}, {"b": "Int64", "c": object}, {"b": "boolean", "c": "category"}):
        model = model_of(y, **options).fit(frame.astype(kinds), s)
        assert model.strata_ == plain.strata_
        np.testing.assert_array_equal(model.predict_propensity(frame), plain.predict_propensity(frame))


@pytest.mark.parametrize("missing", quick_first(None, np.nan, pd.NA, pd.NaT))
def test_missing_text_is_refused(sar, missing):
    table, _, s = with_regions(sar)
    table["region"] = table["region"].astype(object)
    table.loc[[4, 9], "region"] = pd.Series([missing, missing], dtype=object, index=[4, 9])
    model = StratifiedSCARClassifier("region", label_frequency=RootShare(), estimator=text_reader())
    message = r"propensity_attributes: region has 2 missing values in 900 rows \(first: row 4\)\. Code missing"
    with pytest.raises(ValueError, match=message):
        model.fit(table, s)
    table.loc[[4, 9], "region"] = "nan"  # the string "nan" is not a missing value
    model.set_params(method="likelihood").fit(table, s)
    assert ("nan",) in [stratum.values for stratum in model.strata_]


def test_missing_propensity_attributes_are_refused_even_if_the_estimator_accepts_them(sar):
    X, y, s = sar
    X = X.copy()
    X[3, 0] = np.nan
    inner = HistGradientBoostingClassifier(max_iter=3, max_bins=16)
    model = model_of(y, estimator=inner, method="likelihood", max_iter=5)
    model.tol = 0.1
    model.fit(X, s)  # column 0 is not a propensity attribute
    X[7, 2] = np.nan
    message = r"propensity_attributes: column 2 has 1 missing value in 900 rows \(first: row 7\)"
    with pytest.raises(ValueError, match=message):
        model.predict_propensity(X)
    with pytest.raises(ValueError, match=message):
        model.fit(X, s)


def test_text_instead_of_numbers_is_refused(sar):
    table, _, s = with_regions(sar)
    reader = make_pipeline(FunctionTransformer(lambda X: X[["a", "d"]]), LogisticRegression())
    model = StratifiedSCARClassifier("region", label_frequency=RootShare(), estimator=reader, method="likelihood")
    model.fit(table, s)
    with pytest.raises(ValueError, match=r"region was text in fit and is numbers now. Convert it to text"):
        model.predict_propensity(table.assign(region=1))
    model.fit(table.assign(region=1.0), s)
    with pytest.raises(ValueError, match=r"region was numbers in fit and is text now. Convert it to numbers"):
        model.predict_propensity(table)


# --- scikit-learn's tools


def test_the_default_estimator_is_best_bin(sar):
    X, s = sar[0][:120], sar[2][:120]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about rough estimates
        default = StratifiedSCARClassifier([1]).fit(X, s)
        named = StratifiedSCARClassifier([1], label_frequency=BestBinEstimator(random_state=0)).fit(X, s)
    assert default.strata_ == named.strata_


def test_grid_search_over_the_estimator_and_the_attributes(sar):
    X, _, s = sar
    grid = {"label_frequency__root": [2, 5], "propensity_attributes": [[1], [1, 2]]}
    search = GridSearchCV(StratifiedSCARClassifier([2], label_frequency=RootShare()), grid, cv=2).fit(X, s)
    assert (
        np.ptp(search.cv_results_["mean_test_score"].reshape(2, 2), axis=0).min() > 1e-4
    )  # the root changes the score
    attributes, root = search.best_params_["propensity_attributes"], search.best_params_["label_frequency__root"]
    best = StratifiedSCARClassifier(attributes, label_frequency=RootShare(root)).fit(X, s)
    np.testing.assert_array_equal(search.predict_proba(X), best.predict_proba(X))


def test_the_given_estimator_is_left_alone(sar):
    X, y, s = sar
    oracle = KnownClasses(y)
    model = StratifiedSCARClassifier([1], label_frequency=oracle).fit(X, s)
    assert not hasattr(oracle, "label_frequency_")
    assert model.label_frequency_estimator_.label_frequency_ == model.pooled_label_frequency_


class OnlyOnce:
    """An object whose `fit` works only once, without the rest of scikit-learn's interface."""

    def fit(self, X, s):
        if hasattr(self, "label_frequency_"):
            raise ValueError("fitted already")
        self.label_frequency_ = 0.8


def test_every_stratum_has_an_estimator_of_its_own(sar):
    X, _, s = sar
    model = StratifiedSCARClassifier([1, 2], label_frequency=OnlyOnce()).fit(X, s)
    assert {(stratum.label_frequency, stratum.pooled) for stratum in model.strata_} == {(0.8, False)}
    model.fit(X, s)


def test_other_codings_and_a_second_fit(sar):
    X, y, s = sar
    plain = model_of(y).fit(X, s)
    labels = np.where(s == 1, "known", "open")
    coded = model_of(y, pos_label="known").fit(X, labels)
    np.testing.assert_array_equal(coded.coef_, plain.coef_)
    coded.set_params(pos_label=None, propensity_attributes=[1]).fit(X, s)
    assert coded.strata_ == model_of(y, propensity_attributes=[1]).fit(X, s).strata_


# These warnings of scarless are correct: the checks make strata of single rows and label nearly all of them.
@pytest.mark.filterwarnings("ignore:pos_label is not given, and the labels are:UserWarning")
@pytest.mark.filterwarnings("ignore:propensity_attributes divide .* strata:UserWarning")
@pytest.mark.filterwarnings("ignore:.* strata have at least .* rows and no labelled row:UserWarning")
@pytest.mark.filterwarnings("ignore:RootShare warned in:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        StratifiedSCARClassifier([0], label_frequency=RootShare(10)),
        StratifiedSCARClassifier([0], label_frequency=RootShare(10), min_rows=1, min_labelled=1, method="likelihood"),
        StratifiedSCARClassifier(None, label_frequency=RootShare(10)),
    ]
)
def test_it_passes_scikit_learns_checks(estimator, check):
    check(estimator)


# --- wrong input


@pytest.mark.parametrize("value", [0.3, 1, np.float32(0.5), None])
def test_a_number_as_label_frequency_is_refused(sar, value):
    X, _, s = sar
    message = r"label_frequency must be an estimator, or the name of one: 'tice'.* use SCARClassifier\("
    with pytest.raises(ValueError, match=message):
        StratifiedSCARClassifier([1], label_frequency=value).fit(X, s)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_frequency": "tise"}, r"label_frequency='tise' is not the name of an estimator.*Did you mean 'tice'\?"),
        ({"label_frequency": RootShare}, r"got <class .*RootShare'>. Pass an instance: RootShare\(\)\."),
        (
            {"label_frequency": [0.2, 0.3]},
            r"an estimator whose fit\(X, s\) sets label_frequency_ .*; got \[0.2, 0.3\]",
        ),
        ({"label_frequency": StandardScaler()}, "attribute label_frequency_ of StandardScaler must be a number"),
        ({"min_rows": 0}, "min_rows must be a whole number of at least 1; got 0"),
        ({"min_labelled": 2.5}, "min_labelled must be a whole number of at least 1; got 2.5"),
        ({"method": "mle"}, "method must be one of 'risk', 'likelihood'; got 'mle'"),
        ({"C": 0}, "C must be a number above 0; got 0"),
        ({"estimator": LogisticRegression}, "estimator must be an instance of a scikit-learn classifier"),
        ({"propensity_attributes": "age"}, "names the column 'age', but X has no column names"),
        ({"propensity_attributes": []}, "selects no column.*None for a propensity that is the same for every row"),
        ({"propensity_attributes": 9}, "propensity_attributes selects column 9, but columns of X are numbered 0 to 4"),
        (
            {"propensity_attributes": slice(None)},
            r"propensity_attributes selects every column of X \(n_features = 5\), but .* use SAREMClassifier",
        ),
    ],
)
def test_wrong_parameters_are_refused(sar, options, message):
    X, _, s = sar
    options = {"propensity_attributes": [1], "label_frequency": RootShare(), **options}
    model = StratifiedSCARClassifier(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, s)
    with pytest.raises(NotFittedError):
        model.predict_propensity(X)


def test_weights_are_refused_if_the_estimator_does_not_accept_them(sar):
    X, _, s = sar
    message = (
        "sample_weight: Unweighted, the estimator of the label frequency, does not accept weights in fit. Repeat rows"
    )
    with pytest.raises(ValueError, match=message):
        StratifiedSCARClassifier([1], label_frequency=Unweighted()).fit(X, s, sample_weight=np.ones(s.size))


def test_errors_about_missing_values_name_row_and_column(sar):
    X, y, s = sar
    model = model_of(y).fit(X, s)
    X = X.copy()
    X[7, 2] = np.nan
    for call in (lambda: model_of(y).fit(X, s), lambda: model.predict_propensity(X)):
        with pytest.raises(ValueError, match="contains NaN at row 7, column 2"):
            call()


@pytest.mark.parametrize(
    "estimator", [None, HistGradientBoostingClassifier(max_iter=5, max_bins=16)], ids=["logistic", "boosting"]
)
def test_column_names_that_are_other_numbers_than_positions_get_one_warning(pu, estimator):
    X = pd.DataFrame(pu.X > 0, dtype=float)[[3, 0, 1, 2]]
    model = StratifiedSCARClassifier([3], label_frequency=ElkanNoto(LogisticRegression()), estimator=estimator)
    with pytest.warns(UserWarning, match="propensity_attributes: the number 3 is a position") as record:
        model.fit(X, pu.s)
    assert len(_without_class_prior_warnings(record)) == 1
    model.predict_propensity(X)


def _without_class_prior_warnings(record):
    """Return the warnings that are not about the class prior."""
    return [each for each in record if each.category is not ClassPriorWarning]


def _in_strata(kind, seed, n=1400):
    """Return rows (the last column is the stratum), classes and labels."""
    rng = np.random.default_rng(seed)
    region, x = rng.integers(0, 3, n), rng.normal(size=(n, 4))
    c = np.array([0.2, 0.5, 0.8])[region]
    y = rng.random(n) < expit(2 * x[:, 0] - x[:, 1] - 1)
    if kind == "separable":
        y = rng.random(n) < 0.35
        x[:, :2] += 3 * y[:, None]
    if kind == "other attribute":
        c = expit(np.log(c / (1 - c)) + 1.5 * x[:, 2])
    return np.column_stack([x, region]), y, (y & (rng.random(n) < c)).astype(int)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_labels_that_contradict_label_frequencies_get_a_warning(seed, monkeypatch):
    monkeypatch.setattr(held_out_scores, "default_classifier", default_classifier)  # all its trees
    X, y, s = _in_strata("overlapping", seed)
    model = StratifiedSCARClassifier(propensity_attributes=[4])
    with pytest.warns(
        ClassPriorWarning, match="contradict the label frequencies of the strata.*almost certainly positive"
    ):
        model.fit(X, s)
    assert abs(model.class_prior_ - y.mean()) > 0.05  # so the warning is correct


@pytest.mark.parametrize("seed", quick_first(0, 1, 2))
def test_separable_classes_in_strata_get_no_warning(seed):
    X, y, s = _in_strata("separable", seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = StratifiedSCARClassifier(propensity_attributes=[4]).fit(X, s)
    # In each stratum, the share of labels among the k positives has the standard error sqrt(c (1 - c) / k), and the
    # class prior is inversely proportional to it. Allow three standard errors.
    c, counts = np.array([0.2, 0.5, 0.8]), np.bincount(X[:, 4].astype(int), weights=y)
    assert abs(model.class_prior_ - y.mean()) < 3 * np.sqrt(np.sum(counts * (1 - c) / c)) / len(y)


@pytest.mark.parametrize("seed", quick_first(0, 1, 2))
def test_labelling_that_depends_on_more_than_the_stratum_gets_a_warning(seed):
    X, _, s = _in_strata("other attribute", seed)
    with pytest.warns(ClassPriorWarning, match="labels contradict|labels are not completely at random"):
        StratifiedSCARClassifier(propensity_attributes=[4]).fit(X, s)
