"""Mechanisms that are drawn for each split, label frequencies, told priors, and splits and labels of others."""

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from scarless.experiments import Cell, Spec, protocol, read_spec, run_experiment
from scarless.experiments.entries import CURVE_PARAMETERS, DECISIONS, DRAWN, DRAWN_PARAMETERS, LEVELS, OWN_KEYS, TOLD
from scarless.experiments.methods import METHODS, OUR_ESTIMATORS, Bench, EstimatorMethod, KeptFits, knows_of
from scarless.experiments.protocol import Propensities, label, prepare, sampled_rows, split_rows, varying_columns
from scarless.experiments.spec import QUESTION_SCORES, SCALINGS, SEEDS
from scarless.labelling import ClassProbabilityCurve
from scarless.labelling.mechanisms import NAMED_CURVES
from scarless.models import SAREMClassifier

N = 600


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(N, 3)), rng.integers(2, size=N), np.zeros(N)])
    y = (rng.random(N) < expit(1.5 * X[:, 0] - X[:, 1])).astype(float)
    return X, y


@pytest.fixture
def read(tmp_path):
    def read(text):
        (tmp_path / "spec.toml").write_text(f'datasets = ["blobs"]\nmethods = ["naive"]\n{text}')
        return read_spec(tmp_path / "spec.toml")

    return read


def tasks(spec, n_splits=2):
    X, y = table()
    data = prepare(spec, "blobs", X, y)
    found = {}
    for split in range(n_splits):
        rows = split_rows(spec, "blobs", split, data)
        for name in spec.other_mechanisms:
            found[name, split] = label(spec, Cell("blobs", name, 0, split, 0), rows)
    return found


def test_a_list_of_label_frequencies_becomes_several_mechanisms(read):
    spec = read('[mechanisms.S4]\nby = "class probability"\nlabel_frequency = [0.1, 0.25]\nparameters = {curve = "S4"}')
    assert spec.mechanisms == ("S4-c0.1", "S4-c0.25")
    assert [table["label_frequency"] for table in spec.own_mechanisms.values()] == [0.1, 0.25]
    assert [cell.setting for cell in spec.cells()][:2] == ["S4-c0.1", "S4-c0.25"]


EVERY_KIND = """
[mechanisms.curve]
by = "class probability"
label_frequency = [0.1, 0.3]
parameters = { curve = "S4" }
[mechanisms.shifted]
by = "class probability"
label_frequency = [0.1, 0.3]
level = "intercept"
parameters = { curve = "Cauchy" }
[mechanisms.mixed]
by = "class probability"
label_frequency = [0.1, 0.3]
spread = 0.1
parameters = { curve = "LBE-A" }
[mechanisms.own]
by = "own attributes"
label_frequency = [0.1, 0.3]
parameters = { n_attributes = 2, coefficient = 3.0 }
[mechanisms.missing]
by = "own attributes"
label_frequency = [0.1, 0.3]
parameters = { n_attributes = 2, n_named = 1, coefficient = 3.0 }
[mechanisms.step]
by = "own step"
label_frequency = [0.1, 0.3]
[mechanisms.added]
by = "added attributes"
label_frequency = [0.1, 0.3]
parameters = { n_attributes = 2 }
[mechanisms.flat]
mechanism = "SCAR"
label_frequency = [0.1, 0.3]
parameters = { label_frequency = 0.9 }
""".replace("[mechanisms.added]", "[mechanisms.clusters]")


def with_flat(spec, X):
    """The propensities of mechanisms of the whole table, which the runner computes."""
    return {name: np.full(len(X), 0.9) for name in spec.table_mechanisms}


def every_task(spec):
    X, y = table()
    data = replace(prepare(spec, "blobs", X, y), propensities=with_flat(spec, X))
    rows = split_rows(spec, "blobs", 0, data)
    return {name: label(spec, Cell("blobs", name, 0, 0, 0), rows) for name in spec.other_mechanisms}


def test_every_mechanism_has_its_label_frequency_among_the_positives(read):
    found = every_task(read(EVERY_KIND))
    assert len(found) == 16
    for name, task in found.items():
        c = float(name.partition("-c")[2])
        assert task.e_train[task.split.y_train == 1].mean() == pytest.approx(c, abs=1e-9), name
        assert task.e_train.max() <= 1.0
        assert task.e_train.min() > 0.0
        assert task.e_test.shape == task.split.y_test.shape


def test_names_and_columns_of_every_mechanism(read):
    found = every_task(read(EVERY_KIND))
    for name, task in found.items():
        kind = name.partition("-c")[0]
        n_named = {"own": 2, "missing": 1, "step": 1, "clusters": 2}.get(kind, 0)
        assert len(task.named) == n_named
        assert task.n_seen == (5 + 4 if kind == "clusters" else 5)
        assert task.seen_train.shape[1] == task.n_seen
        if kind in ("own", "missing", "step"):
            assert set(task.named) <= {0, 1, 2, 3}, "a constant column drives nothing"
        if not n_named:
            assert_array_equal(task.propensity_columns, range(task.n_seen))


def test_mechanisms_that_differ_in_level_depend_on_the_same_attributes(read):
    found = every_task(read(EVERY_KIND))
    for kind in ("own", "missing", "step", "clusters"):
        assert found[f"{kind}-c0.1"].named == found[f"{kind}-c0.3"].named


def test_propensities_by_own_attributes_are_logistic_in_them(read):
    task = every_task(read(EVERY_KIND))["own-c0.3"]
    Z = task.split.X_train[:, task.named]
    z = logit(task.e_train)
    design = np.column_stack([Z, np.ones(len(Z))])
    slopes, *_ = np.linalg.lstsq(design, z, rcond=None)
    assert_allclose(design @ slopes, z, atol=1e-6)
    assert_allclose(np.abs(slopes[:2]) * Z.std(axis=0), 3.0, atol=1e-6)


def test_a_missing_name_still_drives_the_labels(read):
    task = every_task(read(EVERY_KIND))["missing-c0.3"]
    z = logit(task.e_train)
    one = np.column_stack([task.split.X_train[:, task.named], np.ones(z.size)])
    left = z - one @ np.linalg.lstsq(one, z, rcond=None)[0]
    assert left.std() > 1.0


def test_a_step_has_two_propensities_with_a_ratio_of_four(read):
    task = every_task(read(EVERY_KIND))["step-c0.1"]
    low, high = np.unique(task.e_train)
    assert high / low == pytest.approx(4.0)
    share = (task.e_train == high).mean()
    assert 0.1 <= share <= 0.9


def test_a_curve_is_a_function_of_a_supervised_fit_to_the_training_rows(read):
    task = every_task(read(EVERY_KIND))["curve-c0.3"]
    model = LogisticRegression().fit(task.split.X_train[:, :5], task.split.y_train)
    for X, e in ((task.split.X_train, task.e_train), (task.split.X_test, task.e_test)):
        curve = ClassProbabilityCurve.named("S4").propensity(X, class_probability=model.predict_proba(X[:, :5])[:, 1])
        assert_allclose(e / curve, (e / curve)[0], rtol=1e-6)


def test_spread_labels_have_a_part_that_is_the_same_for_all(read):
    task = every_task(read(EVERY_KIND))["mixed-c0.3"]
    positive = task.split.y_train == 1
    unlimited = task.e_train[positive]
    assert unlimited.min() >= 0.1 * 0.3 * 0.9  # without the part, the smallest of p**10 is far lower


def test_a_level_is_reached_with_propensities_limited_to_one():
    e, y = np.array([0.01, 0.5, 1.0, 1.0, 0.3]), np.array([1.0, 1, 1, 1, 0])
    for c in (0.01, 0.4, 0.9, 0.999):
        found = Propensities(e, e, (), 1).at(c, y)
        assert found.e_train[y == 1].mean() == pytest.approx(c, abs=1e-10)
        below = found.e_train < 1
        assert_allclose(np.diff(found.e_train[below] / e[below]), 0, atol=1e-9)
    assert Propensities(np.ones(5), e, (), 1).at(0.3, y).e_train.tolist() == [0.3] * 5


LATE = '[mechanisms.rare]\nby = "class probability"\nlabel_frequency = 0.02\nparameters = {curve = "S1"}\n'


def test_labels_are_drawn_again_until_there_are_enough(read):
    few = [task.s_train.sum() for task in tasks(read(LATE), 12).values()]
    enough = [task.s_train.sum() for task in tasks(read(f"min_labels = 4\n{LATE}"), 12).values()]
    assert min(few) < 4 <= min(enough)
    assert [b for a, b in zip(few, enough, strict=True) if a >= 4] == [a for a in few if a >= 4]


def test_too_many_labels_are_refused(read):
    with pytest.raises(ValueError, match=r"blobs, rare: none of 1,000 draws has min_labels = 200 labelled training"):
        tasks(read(f"min_labels = 200\n{LATE}"))


def test_rows_that_cannot_be_labelled_do_not_stop_the_experiment(tmp_path):
    (tmp_path / "spec.toml").write_text(
        'datasets = ["simulated"]\nmethods = ["naive"]\nn_splits = 1\nn_labellings = 1\nmax_rows = 100\n'
        f"min_labels = 9\n{LATE}{OFTEN.replace('rare', 'often')}"
    )
    found = run_experiment(read_spec(tmp_path / "spec.toml"), tmp_path / "found").records()
    failed, finished = sorted(found, key=lambda record: record["setting"], reverse=True)
    assert failed["error"].startswith("ValueError: simulated, rare: none of 1,000 draws has min_labels = 9 labelled")
    assert finished["n_labels"] >= 9


@pytest.mark.parametrize(("one", "message"), [(0, "all 120 test rows"), (1, "all 480 training rows")])
def test_rows_of_one_class_are_refused(read, one, message):
    """The only positive is a training row, or a test row."""
    spec = read('seeds = "teisseyre2025"\nn_labellings = 1')
    X, y = table()
    y[:] = 0.0
    y[train_test_split(np.arange(N), test_size=0.2, random_state=0)[one][0]] = 1.0
    with pytest.raises(ValueError, match=rf"blobs, split 0: {message} have the same class"):
        split_rows(spec, "blobs", 0, prepare(spec, "blobs", X, y))


def test_a_mechanism_needs_attributes_that_vary(read):
    spec = read('[mechanisms.own]\nby = "own attributes"\nparameters = {n_attributes = 5}')
    with pytest.raises(ValueError, match=r"must be at least 5; it is 4\. Lower n_attributes"):
        tasks(spec)


def test_an_intercept_without_effect_is_refused():
    flat, y = np.full(3, 0.5), np.ones(3)
    with pytest.raises(ValueError, match=r"no intercept gives the label frequency 0\.2; it lies between 0\.5 and 0\.5"):
        protocol._intercept(lambda a: flat, 0.2, y, np.zeros(3))


def test_columns_with_one_frequent_value_do_not_vary():
    X = np.column_stack([np.r_[np.zeros(19), 1], np.r_[np.zeros(18), 1, 1], np.arange(20)])
    assert varying_columns(X).tolist() == [1, 2]


@pytest.mark.parametrize("scaling", ["as is", "standardise"])
def test_scaling_uses_the_training_rows_and_leaves_added_attributes(read, scaling):
    spec = read(f'scaling = "{scaling}"\nmechanisms = ["added"]')
    X, y = table()
    data = prepare(spec, "blobs", X, y)
    split = split_rows(spec, "blobs", 0, data)
    assert set(np.unique(split.X_train[:, 5:])) == {-1.0, 1.0}
    if scaling == "standardise":
        assert_allclose(split.X_train[:, :4].mean(axis=0), 0, atol=1e-12)
        assert_allclose(split.X_train[:, :4].std(axis=0), 1)
        assert np.abs(split.X_test[:, :4].mean(axis=0)).max() > 1e-3
    else:
        assert {tuple(row) for row in split.X_train[:, :5]} < {tuple(row) for row in X}


def test_a_large_dataset_is_replaced_by_a_sample(read):
    spec = read("max_rows = 100")
    rows = sampled_rows(spec, "blobs", N)
    assert rows.size == 100
    assert (np.diff(rows) > 0).all()
    assert sampled_rows(spec, "others", N).tolist() != rows.tolist()
    assert sampled_rows(spec, "blobs", 100).tolist() == list(range(100))


def test_the_splits_and_labels_of_teisseyre_et_al(read):
    """Their program, step by step: NumPy's legacy generator, seeded with the number of the split."""
    spec = read(
        'seeds = "teisseyre2025"\nn_labellings = 1\ntest_share = 0.25\nmin_labels = 1\n'
        '[mechanisms.S4]\nby = "class probability"\nparameters = {curve = "S4"}'
    )
    X, y = table()
    for seed in range(3):
        A, T, ya, yt = train_test_split(X, y, test_size=0.25, random_state=seed)
        stream = np.random.RandomState(seed)
        p = LogisticRegression(random_state=seed).fit(A, ya).predict_proba(A)[:, 1]
        e = 0.5 * expit(-0.5 * np.log(p / (1 - p)))
        s = np.zeros(len(p))
        while s.sum() == 0:
            for i in range(len(p)):
                if ya[i] == 1:
                    s[i] = stream.binomial(1, e[i], size=1)[0]
        split = split_rows(spec, "blobs", seed, prepare(spec, "blobs", X, y))
        task = label(spec, Cell("blobs", "S4", 0, seed, 0), split)
        assert_array_equal(split.X_train, A)
        assert_array_equal(split.X_test, T)
        assert_array_equal(split.y_test, yt)
        assert_allclose(task.e_train, e, rtol=1e-9)
        assert_array_equal(task.s_train, s)


# --- what methods know


OFTEN = LATE.replace("0.02", "0.4")


def bench_of(read, text=OFTEN):
    spec = read(text)
    return Bench(spec, next(iter(tasks(spec, 1).values())), KeptFits())


@pytest.mark.parametrize(
    ("method", "knows"),
    [
        (METHODS["supervised"], "classes"),
        (METHODS["known-e"], "propensity"),
        (METHODS["known-c"], "prior"),
        (METHODS["naive"], "nothing"),
        (METHODS["scar-tice"], "nothing"),
        (METHODS["sar-em"], "names"),
        (METHODS["sar-em-refit"], "names"),
        (EstimatorMethod("SAREMClassifier"), "names"),
        (EstimatorMethod("SAREMClassifier", {"propensity_attributes": "all"}), "nothing"),
        (EstimatorMethod("PGlinClassifier"), "nothing"),
        (EstimatorMethod("ThresholdedNaiveClassifier", {"cut": "prior"}, "prior"), "prior"),
        (EstimatorMethod("sklearn.linear_model:LogisticRegression"), "nothing"),
        (EstimatorMethod("SAREMClassifier", {"propensity_attributes": [0, 2]}), "names"),
        (EstimatorMethod("UPUClassifier", {"class_prior": "tice"}), "nothing"),
        (EstimatorMethod("UPUClassifier", {"class_prior": 0.3}), "prior"),
        (EstimatorMethod("SCARClassifier", {"label_frequency": 0.5}), "prior"),
        (
            EstimatorMethod("SAREMClassifier", {"known": [{"estimator": "scarless:ClassPrior", "parameters": {}}]}),
            "prior",
        ),
        (EstimatorMethod("PUeClassifier", {"class_prior": {"estimator": "scarless:KernelMean"}}), "nothing"),
    ],
)
def test_every_method_says_what_it_knows(method, knows):
    assert knows_of(method) == knows


def test_a_method_that_is_told_the_prior_gets_the_share_of_positive_training_rows(read):
    bench = bench_of(read)
    y, s = bench.task.split.y_train, bench.task.s_train
    told = EstimatorMethod("ThresholdedNaiveClassifier", {"cut": "prior"}, "prior")
    by_hand = EstimatorMethod("ThresholdedNaiveClassifier", {"cut": "prior", "class_prior": float(y.mean())})
    assert_array_equal(told(bench).decision, by_hand(bench).decision)
    told = EstimatorMethod("SCARClassifier", {}, "prior")
    by_hand = EstimatorMethod("SCARClassifier", {"label_frequency": float(s.mean() / y.mean())})
    assert_array_equal(told(bench).f, by_hand(bench).f)


def test_a_method_that_cannot_be_told_the_prior_is_refused(read):
    with pytest.raises(ValueError, match=r"'PGlinClassifier' cannot be told the class prior"):
        EstimatorMethod("PGlinClassifier", {}, "prior").check()


def test_a_second_row_with_another_decision_shares_the_fit(tmp_path, monkeypatch):
    fits = []

    class Counted(SAREMClassifier):
        def fit(self, X, y):
            fits.append(1)
            return super().fit(X, y)

    monkeypatch.setitem(OUR_ESTIMATORS, "SAREMClassifier", Counted)
    (tmp_path / "spec.toml").write_text(
        'datasets = ["simulated"]\nn_splits = 1\nn_labellings = 1\nmax_rows = 400\n[methods]\nuse = []\n'
        '[methods.once]\nestimator = "SAREMClassifier"\n'
        f'[methods.again]\nestimator = "SAREMClassifier"\ndecision = "balanced"\n{OFTEN}'
    )
    spec = read_spec(tmp_path / "spec.toml")
    again, once = run_experiment(spec, tmp_path / "both").records()
    assert len(fits) == 1
    differing = {name for name in {*once, *again} if again.get(name) != once.get(name)}
    of_decision = {"accuracy", "balanced_accuracy", "f1", "share_positive", "warnings"}
    assert {"method", "share_positive"} <= differing <= {"method", *of_decision}
    alone = run_experiment(replace(spec, methods=("again",)), tmp_path / "one").records()
    assert alone == [again]


def test_a_decision_needs_an_estimator_that_has_it(tmp_path):
    with pytest.raises(ValueError, match=r"predict of 'PGlinClassifier' has no parameter decision\. Remove decision"):
        EstimatorMethod("PGlinClassifier", decision="balanced").check()
    (tmp_path / "spec.toml").write_text('[methods.x]\nestimator = "SCARClassifier"\ndecision = "best"')
    with pytest.raises(ValueError, match=r"decision must be one of balanced; it is 'best'"):
        read_spec(tmp_path / "spec.toml")


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_estimators_of_this_package_have_the_penalty_of_the_specification(read, C):
    bench = bench_of(read, f"C = {C}\n{OFTEN}")
    found = EstimatorMethod("NaiveClassifier")(bench)
    assert_array_equal(found.f, METHODS["naive"](bench).f)
    scar, tice = METHODS["scar-tice"](bench), EstimatorMethod("TIcE")(bench)
    assert_array_equal(tice.f, scar.f)
    kept = EstimatorMethod("NaiveClassifier", {"C": 5.0})(bench)
    assert np.abs(kept.f - found.f).max() > 1e-4


def test_a_ranking_is_scored_without_probabilities_but_with_its_own_decision(read):
    bench = bench_of(read)
    found = EstimatorMethod("ThresholdedNaiveClassifier", {"cut": "median"})(bench)
    assert not found.is_probability
    assert found.e is None
    assert np.isnan(found.class_prior)
    naive = METHODS["naive"](bench)
    assert_array_equal(np.argsort(found.f, kind="stable"), np.argsort(naive.f, kind="stable"))
    assert_array_equal(found.decision, found.f > 0)
    assert naive.decision.sum() < found.decision.sum()


def test_records_have_labels_knowledge_and_decisions(tmp_path):
    (tmp_path / "spec.toml").write_text(
        'datasets = ["simulated"]\nn_splits = 1\nn_labellings = 1\nmax_rows = 400\n[methods]\nuse = ["supervised"]\n'
        '[methods.told]\nestimator = "ThresholdedNaiveClassifier"\nparameters = {cut = "prior"}\ntold = "prior"\n'
        f'[methods.em]\nestimator = "SAREMClassifier"\n{OFTEN}'
    )
    records = run_experiment(read_spec(tmp_path / "spec.toml"), tmp_path / "found").records()
    assert not [record for record in records if "error" in record]
    found = {record["method"]: record for record in records}
    assert {name: record["knows"] for name, record in found.items()} == {
        "supervised": "classes",
        "told": "prior",
        "em": "nothing",  # This mechanism has no names to tell.
    }
    assert len({record["n_labels"] for record in records}) == 1
    assert "mse_f" not in found["told"]
    assert found["told"]["share_positive"] == pytest.approx(0.5, abs=0.12)
    assert "class_prior_covered" in found["em"]
    assert all("balanced_accuracy" in record for record in records)


# --- errors

KIND = '[mechanisms.x]\nby = "class probability"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[mechanisms.x]\nby = "clas probability"', r"by must be one of class probability, .* Did you mean 'class pro"),
        ('[mechanisms.x]\nby = "own step"\nmechanism = "SCAR"', r"must have one of .*; it has mechanism and by"),
        (f"{KIND}label_frequency = 1.5", r"label_frequency must be a number strictly between 0 and 1, or a list"),
        (f"{KIND}label_frequency = []", r"label_frequency must be a number strictly between 0 and 1, or a list"),
        (f"{KIND}label_frequency = [0.1, 0.1]", r"label_frequency must not have a number twice"),
        (f'{KIND}level = "top"', r"level must be one of scale, intercept; it is 'top'"),
        (f'{KIND}level = "intercept"', r"level needs by = 'class probability' and a label_frequency"),
        (f"{KIND}spread = 1", r"spread must be a number from 0 to below 1; it is 1"),
        ('[mechanisms.x]\nby = "own step"\nspread = 0.1', r"spread needs by = 'class probability'\. Remove spread"),
        ('[mechanisms.x]\nmechanism = "SCAR"\nspread = 0.1', r"spread needs by = 'class probability'"),
        (
            f'{KIND}level = "intercept"\nlabel_frequency = [0.1, 0.5]\nparameters = {{ curve = "S4" }}',
            r"label_frequency = 0\.5 cannot be reached with level = 'intercept', .* are below its scale, 0\.5",
        ),
        (f'{KIND}parameters = {{ curve = "S5" }}', r"\[mechanisms\.x\]: There is no curve 'S5'"),
        (
            f"{KIND}parameters = {{ slop = 2 }}",
            r"has no parameter 'slop'\. Did you mean 'slope'",
        ),
        (f"{KIND}parameters = {{ power = 0 }}", r"\[mechanisms\.x\]: power must be positive"),
        (
            '[mechanisms.x]\nby = "own attributes"\nparameters = { n_attributes = 0 }',
            r"n_attributes must be a whole number of at least 1; it is 0",
        ),
        (
            '[mechanisms.x]\nby = "own attributes"\nparameters = { coefficient = "strong" }',
            r"coefficient must be a finite number",
        ),
        ('[mechanisms.x]\nby = "own step"\nparameters = { low = 0.9 }', r"low must be below high"),
        (
            '[mechanisms.x]\nby = "added attributes"\nparameters = { n_attributes = 9 }',
            r"n_attributes of a mechanism by added attributes must be at most added_attributes",
        ),
        (f"{KIND}label_frequency = [0.1, 0.1000000001]", r"\[mechanisms\.x\]: there are two mechanisms 'x-c0\.1'"),
        (
            f'{KIND}label_frequency = [1e-5]\n[mechanisms.x-c1e-05]\nby = "own step"',
            r"\[mechanisms\.x-c1e-05\]: there are two mechanisms 'x-c1e-05'\. Give one table another name",
        ),
        (
            f'[mechanisms]\nuse = ["x"]\n{KIND}label_frequency = [0.1, 0.5]',
            r"there is no mechanism 'x', because it has a list of label frequencies\. .* parts: x-c0\.1, x-c0\.5",
        ),
        (
            'added_attributes = 1\nn_propensity_attributes = [1]\n[mechanisms.x]\nby = "added attributes"',
            r"n_attributes of a mechanism by added attributes must be at most added_attributes",
        ),
        ('seeds = "teisseyre2025"', r"n_labellings must be 1 with seeds = 'teisseyre2025', because each split has one"),
        ('anchors = "empty.toml"', r"anchors names 'empty\.toml', which is empty\. Add numbers to it"),
        ('[quick]\nanchors = "no.toml"', r"anchors names 'no\.toml', but there is no file"),
        ('[quick]\nquestions = { q = ["naive"] }', r"\[questions\]: 'q' must be a list of two or more methods"),
        ('seeds = "mine"', r"seeds must be 'own' or 'teisseyre2025'"),
        ('scaling = "log"', r"scaling must be 'as is' or 'standardise'"),
        ("max_rows = 7", r"max_rows must be 0, for all rows, or at least 50"),
        ("min_labels = -1", r"min_labels must be at least 0"),
    ],
)
def test_errors_of_a_specification(read, tmp_path, text, message):
    (tmp_path / "empty.toml").write_text("# nothing yet\n")
    with pytest.raises(ValueError, match=message):
        read(text)


def test_a_package_needs_a_name(tmp_path):
    (tmp_path / "spec.toml").write_text('[methods.x]\nestimator = "SCARClassifier"\npackages = [""]')
    with pytest.raises(ValueError, match=r"\[methods\.x\]: packages has an empty name\. Remove it"):
        read_spec(tmp_path / "spec.toml")


def test_a_method_can_only_be_told_what_there_is(tmp_path):
    (tmp_path / "spec.toml").write_text('[methods.x]\nestimator = "SCARClassifier"\ntold = "truth"')
    with pytest.raises(ValueError, match=r"told must be one of prior; it is 'truth'"):
        read_spec(tmp_path / "spec.toml")


# --- errors of a run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[mechanisms.x]\nby = "own attributes"\nparameters = { coefficient = 1e5 }',
            r"coefficient = 100000 gives pro",
        ),
        (
            '[mechanisms.x]\nby = "own attributes"\nparameters = { coefficient = 1e308 }',
            r"= 1e\+308 gives prop",
        ),
        (
            '[mechanisms.x]\nby = "own attributes"\nparameters = { n_attributes = 9 }',
            r"at most 90% of the rows must be at least 9; it is 4\. Lower n_attributes or n_named, or leave the",
        ),
        (
            f"{KIND}label_frequency = 0.4\nparameters = {{ slope = -1 }}",
            r"the curve is 1e-12 for all positive training rows, so that labels would not depend on the class prob",
        ),
        (f"{KIND}label_frequency = 0.4\nparameters = {{ intercept = 2 }}", r"the curve is 1 for all positive training"),
        ('clusters = 1000\n[mechanisms.x]\nby = "added attributes"', r"blobs has 600 rows, and clusters = 1000 needs"),
    ],
    ids=["coefficient", "infinite coefficient", "attributes", "zero", "one", "clusters"],
)
def test_a_mechanism_that_does_not_fit_a_table_is_refused(read, text, message):
    with pytest.raises(ValueError, match=message):
        tasks(read(text), 1)


@pytest.mark.parametrize(
    ("curve", "c"),
    [('curve = "Cauchy"', 0.003), ('link = "logistic", of = "logit", slope = 1000.0', 0.3)],
    ids=["flat", "steep"],
)
def test_an_intercept_far_away_is_found(read, curve, c):
    spec = read(f'{KIND}label_frequency = {c}\nlevel = "intercept"\nparameters = {{ {curve} }}')
    (task,) = tasks(spec, 1).values()
    assert task.e_train[task.split.y_train == 1].mean() == pytest.approx(c, abs=1e-6)


def test_a_sample_with_too_few_rows_of_a_class_is_refused(tmp_path):
    (tmp_path / "rare_rows.py").write_text(
        "import numpy as np\ndef load():\n    return np.arange(2000.0)[:, None], np.arange(2000) < 20\n"
    )
    (tmp_path / "spec.toml").write_text(
        f'max_rows = 50\n[datasets.rare]\ncallable = "rare_rows:load"\n[methods]\nuse = ["naive"]\n{KIND}'
    )
    with pytest.raises(ValueError, match=r"rare, a sample of max_rows = 50 rows: each class .* Raise max_rows"):
        run_experiment(read_spec(tmp_path / "spec.toml"), tmp_path / "found")


# --- the documentation

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("start", ["[mechanisms.S4]", "[methods]", "[methods.elkanoto]", "[methods.pulearn-elkanoto]"])
def test_examples_of_the_page_are_valid(tmp_path, start):
    (block,) = [block for block in BLOCKS if block.startswith(f"{start}\n")]
    (tmp_path / "spec.toml").write_text(block)
    spec = read_spec(tmp_path / "spec.toml")
    if start == "[mechanisms.S4]":
        assert all(f"`{name}`" in PAGE.read_text(encoding="utf-8") for name in spec.mechanisms)


def test_the_page_names_every_choice():
    text = PAGE.read_text(encoding="utf-8")
    parameters = {name for kind in DRAWN_PARAMETERS.values() for name in kind}
    entries = {key for keys in OWN_KEYS.values() for key in keys} | {each.name for each in fields(Spec)}
    entries -= {"own_datasets", "own_methods", "own_mechanisms", "folder"}
    words = [*OUR_ESTIMATORS, *METHODS, *NAMED_CURVES, *QUESTION_SCORES, *parameters, *CURVE_PARAMETERS, *entries]
    assert [word for word in words if not re.search(rf"[`\[{{ ]{re.escape(word)}[`\] .]", text)] == []
    quoted = [*DRAWN, *LEVELS, *SEEDS, *SCALINGS, *TOLD, *DECISIONS]
    assert [word for word in quoted if f'"{word}"' not in text] == []
