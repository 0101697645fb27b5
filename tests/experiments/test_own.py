"""The user's own datasets, methods and mechanisms: they run, do not see the truth, and changes are detected."""

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest

from scarless.datasets import load_simulated
from scarless.experiments import Cell, Store, read_spec, run_experiment
from scarless.experiments.methods import OUR_ESTIMATORS, Bench, EstimatorMethod, KeptFits
from scarless.experiments.own import check_datasets, load_own, read_class
from scarless.experiments.protocol import label, prepare, split_rows
from scarless.experiments.store import RECORDS
from scarless.labelling import LogisticSAR
from scarless.papers import render_results
from scarless.papers.bekker2019 import specification

MODULE = '''
import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Bunch
from scarless.labelling import LabellingMechanism

class Mine(LogisticRegression):
    def __init__(self, propensity_attributes=None, C=1.0, random_state=None):
        super().__init__(C=C, random_state=random_state)
        self.propensity_attributes = propensity_attributes

class InFit(LogisticRegression):
    """A classifier that uses only its propensity attributes."""
    def fit(self, X, s, propensity_attributes=None):
        self.columns_ = propensity_attributes
        return super().fit(X[:, self.columns_], s)
    def predict_proba(self, X):
        return super().predict_proba(X[:, self.columns_])

class NoChances:
    def fit(self, X, s):
        return self

class Broken(Mine):
    def fit(self, X, s):
        raise ArithmeticError("too <b>much</b>")

class Wild(Mine):
    def predict_proba(self, X):
        return np.full((len(X), 2), np.nan)

class Divided(Mine):
    """Divides by a label frequency, as Elkan and Noto's classifier does: some values are above 1."""
    def predict_proba(self, X):
        return super().predict_proba(X) / 0.3

class Around(LogisticRegression):
    """A classifier that delegates to another classifier."""
    def __init__(self, base=None, steps=None):
        self.base, self.steps = base, steps
    def fit(self, X, s):
        self.base_ = self.base.fit(X, s)
        self.classes_ = self.base_.classes_
        return self
    def predict_proba(self, X):
        return self.base_.predict_proba(X)

class OneColumn(Mine):
    def predict_proba(self, X):
        return np.ones((len(X), 1))

class Backwards(Mine):
    """A classifier with the classes, and the columns of predict_proba, in reverse order."""
    def fit(self, X, s):
        super().fit(X, s)
        self.classes_ = self.classes_[::-1]
        return self
    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-(X @ self.coef_[0] + self.intercept_[0])))
        return np.column_stack([p, 1 - p])

def load_pair(n=200, seed=3):
    return make_classification(n, 4, n_redundant=0, random_state=seed)

def load_bunch():
    X, y = load_pair()
    return Bunch(data=X, target=np.where(y == 1, "sick", "well"))

def load_anew():
    return np.random.random((60, 2)), np.repeat([0, 1], 30)

def load_nothing():
    return 3

def load_badly():
    raise KeyError("gone")

def by_age(table, low=0.3):
    return np.where(table["age"] > 50, 0.9, low)

def by_first(table):
    return np.where(table[:, 0] > 0, 0.9, 0.3)

def by_chance(table):
    return np.random.random(len(table))

class ByFirst(LabellingMechanism):
    assumption = "SAR"
    def __init__(self, attributes, low=0.3):
        self.attributes, self.low = attributes, low
    def compute_propensity(self, X, class_probability):
        return np.where(np.asarray(X)[:, self.attributes[0]] > 0, 0.9, self.low)

class ByChance(LabellingMechanism):
    def compute_propensity(self, X, class_probability):
        return np.random.random(len(X))

number = 3
'''
N = 120
SPEC = """
n_splits = 1
n_labellings = 2
[datasets.mine]
file = "mine.csv"
class = "ill"
propensity_attributes = ["age", "place"]
[methods]
use = ["supervised", "naive"]
[methods.mine]
estimator = "ours_for_tests:Mine"
parameters = {C = 2.0}
"""


def frame(seed=0):
    rng = np.random.default_rng(seed)
    age, place = rng.integers(20, 80, N), rng.choice(["town", "village", "city"], N)
    blood = rng.normal(size=N)
    ill = np.where(blood + rng.normal(size=N) > 0, "yes", "no")
    return pd.DataFrame({"age": age, "place": place, "blood": blood.round(3), "ill": ill})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ours_for_tests.py").write_text(MODULE, encoding="utf-8")
    frame().to_csv(tmp_path / "mine.csv", index=False)
    return tmp_path


@pytest.fixture
def read(folder):
    def read(text=SPEC, *changes):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (folder / "spec.toml").write_text(text, encoding="utf-8")
        return read_spec(folder / "spec.toml")

    return read


def lines(folder):
    return sorted((Path(folder) / RECORDS).read_bytes().splitlines())


def by_method(store):
    return {record["method"]: record for record in store.records()}


def test_a_users_file_and_estimator_run(read, tmp_path):
    store = run_experiment(read(), tmp_path / "found")
    assert [(r["setting"], r["k"], r["dataset"]) for r in store.records()] == [("attributes", 0, "mine")] * 6
    assert not any("error" in record for record in store.records())
    assert set(by_method(store)) == {"supervised", "naive", "mine"}


def test_two_workers_and_a_second_start_give_the_same_bytes(read, tmp_path, folder, monkeypatch):
    spec = read()
    run_experiment(spec, tmp_path / "one")
    run_experiment(spec, tmp_path / "two", jobs=2)
    assert lines(tmp_path / "one") == lines(tmp_path / "two")
    path = tmp_path / "one" / RECORDS
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])  # killed in the middle of a line
    monkeypatch.chdir(tmp_path / "two")  # resume from another folder
    run_experiment(read_spec(folder / "spec.toml"), tmp_path / "one")
    assert lines(tmp_path / "one") == lines(tmp_path / "two")


def test_a_method_sees_rows_and_labels_and_nothing_else(read, tmp_path, monkeypatch):
    seen = []
    found = EstimatorMethod.make

    def make(self, told, *seed):
        seen.append((told, found(self, told, *seed)))
        return seen[-1][1]

    monkeypatch.setattr(EstimatorMethod, "make", make)
    run_experiment(read(), tmp_path / "found")
    del seen[0]  # an instance that was only created for the check
    assert [set(told) for told, _ in seen] == [{"propensity_attributes", "random_state"}] * 2
    assert len({told["random_state"] for told, _ in seen}) == 2
    data = load_own(read(), "mine")
    names = list(data.prepared.columns)
    told = [names[j] for j in seen[0][0]["propensity_attributes"]]
    assert told[0] == "age"
    assert set(told[1:]) == {name for name in names if name.startswith("place")} != set()
    assert "ill" not in data.table.columns
    assert seen[0][1].n_features_in_ == len(names)
    assert seen[0][1].C == 2.0


@pytest.mark.parametrize("name", ["SAREMClassifier", "SCARClassifier", "DEDPUL", "StratifiedSCARClassifier"])
def test_no_estimator_uses_the_truth(name):
    """The predictions are the same without the truth."""
    spec = replace(specification(), datasets=("simulated",))
    data = load_simulated(300, 3, random_state=1)
    split = split_rows(spec, "simulated", 0, prepare(spec, "simulated", data.X, data.y))
    task = label(spec, Cell("simulated", "all", 2, 0, 0), split)
    gone = [np.full_like(values, np.nan) for values in (split.y_train, split.y_test, task.e_train, task.e_test)]
    blind = replace(task, split=replace(split, y_train=gone[0], y_test=gone[1]), e_train=gone[2], e_test=gone[3])
    found, again = (EstimatorMethod(name)(Bench(spec, each, KeptFits())) for each in (task, blind))
    assert np.array_equal(found.f, again.f)
    assert np.array_equal(found.e, again.e)
    assert (found.class_prior, found.label_frequency) == (again.class_prior, again.label_frequency)


def test_fit_may_have_the_parameter_propensity_attributes(read, tmp_path):
    """Age and place are unrelated to the class, so a model that uses only these cannot predict it."""
    spec = read(SPEC, ("tests:Mine", "tests:InFit"), ("n_splits = 1", "n_splits = 4"))
    records = [record for record in run_experiment(spec, tmp_path / "found").records() if record["method"] == "mine"]
    assert abs(np.mean([record["auc_f"] for record in records]) - 0.5) < 0.15


def test_classes_may_come_in_any_order(read, tmp_path):
    both = '[methods.other]\nestimator = "ours_for_tests:Backwards"\nparameters = {C = 2.0}\n'
    records = by_method(run_experiment(read(SPEC + both), tmp_path / "found"))
    assert records["other"]["auc_f"] == records["mine"]["auc_f"]


WITHOUT_PROPENSITY = (
    "NaiveClassifier",
    "NNPUBoostingClassifier",
    "PUBaggingClassifier",
    "ThresholdedNaiveClassifier",
    "TwoStepClassifier",
)


@pytest.mark.parametrize("name", [name for name in OUR_ESTIMATORS if name != "KernelMean"])
def test_every_estimator_of_ours_runs_by_name_in_both_settings(tmp_path, name):
    text = (
        f'datasets = ["simulated"]\nmethods = ["{name}"]\nsettings = ["all", "original"]\nn_splits = 1\n'
        "n_labellings = 1\nadded_attributes = 2\nseed = 4"
    )
    (tmp_path / "spec.toml").write_text(text)
    spec = read_spec(tmp_path / "spec.toml")
    assert list(spec.methods) == [name]
    if name in ("boosted", "SARStackingClassifier", "SAREMClassifierCV"):  # two folds are enough
        quick = f'[methods]\nuse = []\n[methods.quick]\nestimator = "{name}"\nparameters = {{cv = 2}}\n'
        (tmp_path / "spec.toml").write_text(text.replace(f'methods = ["{name}"]\n', "") + "\n" + quick)
        spec = read_spec(tmp_path / "spec.toml")
    records = run_experiment(spec, tmp_path / "found").records()
    assert len(records) == 2
    if name == "StratifiedSCARClassifier":  # it has no parameter classification_attributes
        assert "has the parameter propensity_attributes but not classification_attributes" in records.pop()["error"]
    assert [record["error"] for record in records if "error" in record] == []
    assert all(record["auc_f"] > 0.6 for record in records)
    assert all(("mse_e" in record) == (name not in WITHOUT_PROPENSITY) for record in records)


def test_an_estimator_of_ours_may_have_other_parameters(read, tmp_path):
    km = '[methods.km]\nestimator = "KernelMean"\nparameters = {variant = "km1", max_rows = 60}\n'
    assert "error" not in by_method(run_experiment(read(SPEC + km), tmp_path / "found"))["km"]


@pytest.mark.parametrize(
    ("estimator", "error"),
    [
        ("Broken", "ArithmeticError: too <b>much</b>"),
        ("Wild", "ValueError: predict_proba must return finite numbers; it returned NaN or infinity."),
        (
            "OneColumn",
            "ValueError: predict_proba must return an array of shape (24, 2), one column for each class; its "
            "shape is (24, 1).",
        ),
    ],
)
def test_a_failed_method_is_recorded_and_the_others_run(read, tmp_path, estimator, error):
    store = run_experiment(read(SPEC, ("tests:Mine", f"tests:{estimator}")), tmp_path / "found")
    assert {record["method"]: record.get("error") for record in store.records()} == {
        "supervised": None, "naive": None, "mine": error,
    }  # fmt: skip


def test_scores_that_are_no_probabilities_are_ranked_with_a_warning(read, tmp_path):
    both = '[methods.other]\nestimator = "ours_for_tests:Divided"\nparameters = {C = 2.0}\n'
    store = run_experiment(read(SPEC + both), tmp_path / "found")
    records = by_method(store)
    mine, other = records["mine"], records["other"]
    assert (other["auc_f"], other["average_precision"]) == (mine["auc_f"], mine["average_precision"])
    assert not {"mse_f", "log_loss", "calibration_error", "class_prior", "class_prior_error"} & other.keys()
    assert {"mse_f", "log_loss", "calibration_error", "class_prior", "class_prior_error"} <= mine.keys()
    (note,) = other["warnings"]
    assert "Divided returned values outside 0 to 1, so only the ranking and the decision are scored" in note
    assert "only the ranking and the decision are scored" in render_results(tmp_path / "found").read_text(
        encoding="utf-8"
    )


NESTED = """
[methods.nested]
estimator = "ours_for_tests:Around"
[methods.nested.parameters.base]
estimator = "sklearn.pipeline:Pipeline"
[methods.nested.parameters.base.parameters]
steps = [
  ["scale", {estimator = "sklearn.preprocessing:StandardScaler"}],
  ["fit", {estimator = "ours_for_tests:Mine", parameters = {C = 2.0}}],
]
"""


def test_estimators_inside_of_estimators_are_made_too(read, tmp_path, folder):
    spec = read(SPEC + NESTED)
    store = run_experiment(spec, tmp_path / "found")
    record = by_method(store)["nested"]
    assert "error" not in record
    assert record["auc_f"] == pytest.approx(by_method(store)["mine"]["auc_f"], abs=0.05)
    said = store.manifest()["spec"]["own_methods"]["nested"]
    assert list(said["sources"]) == ["ours_for_tests:Mine"]  # a changed module makes another experiment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("sklearn.preprocessing:StandardScaler", "sklearn.preprocessing:StandrdScaler"), "has no 'StandrdScaler'"),
        (("parameters = {C = 2.0}}", "parameters = {CC = 2.0}}"), "'ours_for_tests:Mine' cannot be created with .*CC"),
        (("sklearn.pipeline:Pipeline", "SCARClasifier"), "There is no estimator 'SCARClasifier'"),
    ],
)
def test_a_nested_estimator_that_cannot_be_made_is_refused_before_anything_runs(read, tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        run_experiment(read(SPEC + NESTED.replace(*change)), tmp_path / "found")


def test_nested_estimators_of_ours_are_seeded_like_the_others():
    method = EstimatorMethod("SCARClassifier", {"label_frequency": {"estimator": "sklearn.svm:SVC"}})
    made = method.make({}, seed=7)
    assert made.label_frequency.random_state == 7


def test_an_estimator_without_classification_attributes_fails_in_the_original_setting(read, tmp_path):
    added = (
        SPEC.replace('propensity_attributes = ["age", "place"]\n', ""),
        ("n_splits", 'settings = ["original"]\nn_splits'),
    )
    records = by_method(run_experiment(read(*added), tmp_path / "found"))
    assert "has the parameter propensity_attributes but not classification_attributes" in records["mine"]["error"]


CHANGES = {
    "parameters": ("C = 2.0", "C = 3.0"),
    "estimator": ("tests:Mine", "tests:Backwards"),
    "seed": ("n_splits", "seed = 5\nn_splits"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_records_of_another_specification_are_not_mixed_with_these(read, tmp_path, change):
    run_experiment(read(), tmp_path / "found")
    with pytest.raises(ValueError, match="has results of another specification"):
        run_experiment(read(SPEC, change), tmp_path / "found")


def test_records_of_another_version_of_a_module_are_not_mixed_with_these(read, tmp_path, folder):
    run_experiment(read(), tmp_path / "found")
    (folder / "ours_for_tests.py").write_text(MODULE + "\n# changed", encoding="utf-8")
    with pytest.raises(ValueError, match="has results of another specification"):
        run_experiment(read(), tmp_path / "found")


@pytest.mark.parametrize("change", ["data", "class", "attributes", "name"])
def test_records_of_other_data_are_not_mixed_with_these(read, tmp_path, folder, change):
    store = run_experiment(read(), tmp_path / "found")
    before = lines(tmp_path / "found")
    spec = read()
    if change == "data":
        frame(seed=1).to_csv(folder / "mine.csv", index=False)
    elif change == "class":
        spec = read(SPEC, ('class = "ill"', 'class = "ill"\npositive = "no"'))
    elif change == "attributes":
        spec = read(SPEC, ('["age", "place"]', '["age"]'))
    else:  # the same data in another folder are the same data
        (folder / "mine.csv").rename(folder / "moved.csv")
        run_experiment(read(SPEC, ("mine.csv", "moved.csv")), tmp_path / "found")
        assert lines(tmp_path / "found") == before
        return
    with pytest.raises(
        ValueError,
        match=r"found has results of an earlier version of the dataset 'mine': its data, or its entry in the spec",
    ):
        run_experiment(spec, tmp_path / "found")
    assert len(store.records()) == 6


def test_a_question_may_be_added_without_a_new_run(read, tmp_path):
    run_experiment(read(), tmp_path / "found")
    asked = SPEC + '[questions]\n"Better?" = ["mine", "naive"]\n'
    run_experiment(read(asked), tmp_path / "found")
    assert Store(tmp_path / "found").manifest()["spec"]["questions"]["Better?"]["than"] == ["naive"]


CALLABLE = (
    'n_splits = 1\nn_labellings = 1\nmethods = ["naive"]\n[datasets.mine]\ncallable = "ours_for_tests:load_pair"\n'
)


def test_a_callable_gives_a_pair_or_a_bunch(read, tmp_path):
    one = run_experiment(read(CALLABLE), tmp_path / "pair").records()
    bunch = read(CALLABLE, ("load_pair", "load_bunch"), ('bunch"', 'bunch"\npositive = "sick"'))
    other = run_experiment(bunch, tmp_path / "bunch").records()
    assert one == other
    assert len(one) == 1


def test_parameters_reach_a_callable_and_what_it_returns_is_its_identity(read, tmp_path):
    run_experiment(read(CALLABLE), tmp_path / "found")
    with pytest.raises(ValueError, match="an earlier version of the dataset 'mine'"):
        run_experiment(read(CALLABLE + "parameters = {seed = 4}\n"), tmp_path / "found")
    anew = read(CALLABLE, ("load_pair", "load_anew"))
    run_experiment(anew, tmp_path / "anew")
    with pytest.raises(ValueError, match="an earlier version of the dataset 'mine'"):
        run_experiment(anew, tmp_path / "anew")


def test_a_mechanism_of_ours_labels_by_its_formula(read, tmp_path, monkeypatch):
    tasks = watch_tasks(monkeypatch)
    flat = '[mechanisms.flat]\nmechanism = "SCAR"\nparameters = {label_frequency = 0.4}\n'
    steep = (
        '[mechanisms.steep]\nmechanism = "LogisticSAR"\n'
        'parameters = {attributes = ["age"], coefficients = [2.0], intercept = 0.5}\n'
    )
    spec = read(SPEC + flat + steep)
    run_experiment(spec, tmp_path / "found")
    assert {task.cell.setting for task in tasks} == {"flat", "steep"}
    everywhere = LogisticSAR(["age"], coefficients=[2.0], intercept=0.5).propensity(load_own(spec, "mine").prepared)
    for task in tasks:
        if task.cell.setting == "flat":
            assert set(task.e_train) == set(task.e_test) == {0.4}
        else:
            assert sorted([*task.e_train, *task.e_test]) == sorted(everywhere)


def test_a_users_mechanism_gets_the_raw_table_without_the_class(read, tmp_path, monkeypatch):
    tasks = watch_tasks(monkeypatch)
    run_experiment(
        read(SPEC + '[mechanisms.old]\ncallable = "ours_for_tests:by_age"\nparameters = {low = 0.2}\n'),
        tmp_path / "found",
    )
    e = np.concatenate([tasks[0].e_train, tasks[0].e_test])
    assert sorted(e) == sorted(np.where(frame()["age"] > 50, 0.9, 0.2))


def test_a_users_mechanism_class_gets_the_prepared_table_and_the_propensity_attributes(read, tmp_path, monkeypatch):
    tasks = watch_tasks(monkeypatch)
    spec = read(SPEC + '[mechanisms.first]\nmechanism = "ours_for_tests:ByFirst"\nparameters = {low = 0.2}\n')
    store = run_experiment(spec, tmp_path / "found")
    own = load_own(spec, "mine")
    e = np.concatenate([tasks[0].e_train, tasks[0].e_test])
    assert sorted(e) == sorted(np.where(own.X[:, own.columns[0]] > 0, 0.9, 0.2))
    assert len(store.manifest()["spec"]["own_mechanisms"]["first"]["source"]) == 64


def test_added_attributes_and_other_mechanisms_go_together(read, tmp_path, monkeypatch):
    tasks = watch_tasks(monkeypatch)
    both = '[mechanisms]\nuse = ["added"]\n[mechanisms.first]\ncallable = "ours_for_tests:by_first"\n'
    records = run_experiment(read(CALLABLE + both), tmp_path / "found").records()
    assert [(record["setting"], record["k"]) for record in records] == [("all", 2), ("first", 0)]
    assert [task.seen_train.shape[1] for task in tasks] == [
        8,
        4,
    ]  # four attributes are added only for the mechanism that uses them
    assert [task.propensity_columns.tolist() for task in tasks] == [[4, 5], [0, 1, 2, 3]]


def watch_tasks(monkeypatch):
    from scarless.experiments import run

    tasks, label = [], run.label

    def labelled(*given):
        tasks.append(label(*given))
        return tasks[-1]

    monkeypatch.setattr(run, "label", labelled)
    return tasks


MECHANISM = SPEC + "[mechanisms.x]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SPEC.replace("tests:Mine", "tests:Mien"),
            r"'ours_for_tests:Mien' cannot be imported: .* Did you mean 'Mine'\?",
        ),
        (SPEC.replace("tests:Mine", "tests:number"), "must be a class or a function; it is int"),
        (SPEC.replace("tests:Mine", "tests:"), "'ours_for_tests:' is not an import path: write module:name"),
        (
            SPEC.replace("ours_for_tests:Mine", "no_such_module:Mine"),
            r"cannot be imported: `import no_such_module` raised ModuleNotFoundError: .* \(searched .* installed",
        ),
        (
            SPEC.replace("ours_for_tests:Mine", "SAREMClasifier"),
            r"There is no estimator 'SAREMClasifier'. Did you mean 'SAREMClassifier'\?",
        ),
        (
            SPEC.replace("tests:Mine", "tests:NoChances").replace("C = 2.0", ""),
            r"with the parameters \{.*\} has no predict_proba and no decision_function. A method needs fit",
        ),
        (SPEC.replace("C = 2.0", "D = 2.0"), r"cannot be created with {'D': 2.0}: .* unexpected keyword argument 'D'"),
        (
            SPEC.replace("methods.mine", "methods.naive"),
            r"\[methods\.naive\]: 'naive' is the name of a built-in method",
        ),
        (
            SPEC.replace("methods.mine", "methods.DEDPUL"),
            r"\[methods\.DEDPUL\]: 'DEDPUL' is the name of a built-in method",
        ),
        (SPEC.replace('"naive"]', '"naiv"]'), r"There is no method 'naiv'\. .* Did you mean 'naive'\?"),
        ("mechanisms = ['attribute']\n" + SPEC, r"There is no mechanism 'attribute'\. Did you mean 'attributes'\?"),
        (
            MECHANISM + "mechanism = 'Logistic'",
            r"\[mechanisms\.x\]: there is no mechanism 'Logistic'. Did .*'LogisticSAR'",
        ),
        (
            MECHANISM + "mechanism = 'ours_for_tests:Mine'",
            r"\[mechanisms\.x\]: 'ours_for_tests:Mine' must be a subclass of",
        ),
        (MECHANISM + "mechanism = 'ours_for_tests:ByFirs'", r"has no 'ByFirs'. Did you mean 'ByFirst'"),
        (
            MECHANISM + "mechanism = 'ours_for_tests:ByFirst'\nparameters = {lo = 1}",
            r"ByFirst has no parameter 'lo'. Did",
        ),
        (
            MECHANISM + "mechanism = 'ours_for_tests:ByFirst'\nparameters = {low = 2}",
            r"failed with ValueError: propensity m",
        ),
        (MECHANISM + "mechanism = 'ours_for_tests:ByChance'", r"ByChance' returns different propensities each time"),
        (MECHANISM + "mechanism = 'SCAR'\nparameters = {c = 1}", r"'x' on .* 'mine': SCAR has no parameter 'c'"),
        (MECHANISM + "mechanism = 'SCAR'\nparameters = {label_frequency = 2}", r"'x' on the dataset 'mine': label_fr"),
        (
            MECHANISM + "callable = 'ours_for_tests:by_chance'",
            "returns different propensities each time. Use a fixed seed",
        ),
        (MECHANISM + "callable = 'ours_for_tests:by_first'", r"'ours_for_tests:by_first' failed with \w*Error"),
        (MECHANISM + "callable = 'ours_for_tests:by_age'\nparameters = {low = 0}", r"must lie in \(0, 1\]"),
        (SPEC.replace("mine.csv", "gone.csv"), r"The dataset 'mine': .*gone\.csv"),
        (SPEC.replace('"ill"', '"il"'), r"The dataset 'mine': .*mine\.csv has no column 'il' .* Did you mean 'ill'\?"),
        (
            SPEC.replace('"ill"', '"place"'),
            "the class 'place' has 3 values, 'city', 'town', 'village'; it must have two",
        ),
        (
            SPEC.replace('class = "ill"', 'class = "ill"\npositive = "maybe"'),
            "positive is 'maybe', but the class 'ill' has",
        ),
        (SPEC.replace('"age", "place"', '"agge"'), r"propensity_attributes names 'agge', .* Did you mean 'age'\?"),
        (CALLABLE.replace("load_pair", "load_nothing"), r"must return \(X, y\), or a Bunch .*; it returned int"),
        (CALLABLE.replace("load_pair", "load_badly"), "'ours_for_tests:load_badly' failed with KeyError: 'gone'"),
        (
            CALLABLE + "propensity_attributes = [4]",
            "propensity_attributes names 4; the columns of this array are 0 to 3",
        ),
        (
            CALLABLE + "[mechanisms]\nuse = ['attributes']",
            "the mechanism needs propensity attributes. Set propensity_attributes in the table of the dataset",
        ),
        (
            CALLABLE + "parameters = {n = 12}",
            "each class needs at least 10 rows, for training and for testing; the smaller class has .\\.",
        ),
    ],
)
def test_errors_are_raised_before_anything_is_written(read, tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        run_experiment(read(text), tmp_path / "found")
    assert not (tmp_path / "found").exists()


def test_the_error_of_a_failing_module_is_reported(read, tmp_path, folder):
    (folder / "ours_for_tests.py").write_text("raise SystemExit('no way')", encoding="utf-8")
    with pytest.raises(ValueError, match=r"`import ours_for_tests` raised SystemExit: no way"):
        run_experiment(read(), tmp_path / "found")


def test_unknown_datasets_and_names_of_ours_are_refused(read):
    with pytest.raises(ValueError, match=r"There is no dataset 'simulatd'\. Did you mean 'simulated'\?"):
        check_datasets(read('datasets = ["simulatd"]'))
    with pytest.raises(ValueError, match=r"\[datasets\.adult\]: 'adult' is the name of a built-in dataset"):
        check_datasets(read(SPEC.replace("datasets.mine", "datasets.adult")))


@pytest.mark.parametrize(
    ("values", "positive", "expected"),
    [
        ([1, 0, 1], None, [1, 0, 1]),
        ([1.0, 0.0], None, [1, 0]),
        ([True, False], None, [1, 0]),
        (["Yes", "no"], None, [1, 0]),
        ([-1, 1], None, [0, 1]),
        (["1.0", "0.0"], None, [1, 0]),
        (["nein", "Ja"], None, [0, 1]),
        (["a", "b"], "b", [0, 1]),
        (["a", "b", "c"], "B", [0, 1, 0]),
        ([3, 4], 3, [1, 0]),
        (pd.Series([True, False], dtype="boolean"), True, [1, 0]),
    ],
)
def test_the_positive_class_is_found_where_it_is_clear(values, positive, expected):
    assert read_class(values, "ill", positive).tolist() == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["yes", "yes"], "the class 'ill' has only the value 'yes'; it must have two"),
        (["a", "b", "c"], r"the class 'ill' has 3 values, 'a', 'b', 'c'; it must have two\. Set `positive`"),
        (["a", "b"], r"the class 'ill' has the values 'a', 'b'\. Set `positive`"),
        (
            ["yes", None, "no"],
            r"the class 'ill' is missing in 1 of 3 rows\. A comparison needs the true class of every row",
        ),
        ([1.0, float("nan"), 0.0], "is missing in 1 of 3 rows"),
        (pd.Series([True, pd.NA], dtype="boolean"), "is missing in 1 of 2 rows"),
    ],
)
def test_invalid_classes_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        read_class(values, "ill")


def test_modules_of_one_folder_are_not_taken_for_those_of_another(tmp_path):
    for name, value in (("one", 0.2), ("two", 0.7)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "twice_named.py").write_text(
            dedent(f"""
            import numpy as np
            def e(table):
                return np.full(len(table), {value})
            """)
        )
        (tmp_path / name / "spec.toml").write_text(
            'n_splits = 1\nn_labellings = 1\nmethods = ["known-c"]\ndatasets = ["simulated"]\n'
            '[mechanisms.flat]\ncallable = "twice_named:e"\n'
        )
    found = [
        run_experiment(read_spec(tmp_path / name / "spec.toml"), tmp_path / name / "found").records()[0]
        for name in ("one", "two")
    ]
    assert [record["label_frequency"] for record in found] == pytest.approx([0.2, 0.7], abs=0.08)
