"""Adapters of examples/peers: labels, probabilities and decisions of other packages are translated correctly.

Fake modules stand in for the packages. They have the conventions of the real ones: labels of -1, probabilities above 1,
a prediction of the label instead of the class.
"""

import importlib.util
import re
import sys
import tomllib
from inspect import isclass, signature
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

pytest.importorskip("examples.peers.peers", reason="the examples are not part of the distribution")
from examples.peers import peers

from scarless import SAREMClassifier

FOLDER = Path(peers.__file__).parent
BASES = (peers.Peer, peers.ProbabilityPeer, peers.ConstantPropensity)
ADAPTERS = {
    name: kind
    for name, kind in vars(peers).items()
    if isclass(kind) and issubclass(kind, peers.Peer) and kind not in BASES
}
X = np.arange(20.0).reshape(10, 2)
S = np.array([1, 1, 0, 0, 0, 0, 0, 0, 0, 0])  # 20% of the rows are labelled
SCORES = np.array([-1.0, 0.0, 2.0])
every_adapter = pytest.mark.parametrize("name", list(ADAPTERS))


class Fake:
    """A model of another package, which stores the arguments that it receives."""

    def __init__(self, *args, **options):
        self.args, self.options = args, options

    def fit(self, X, s, **options):
        self.X, self.s, self.fit_options = X, s, options
        return self

    def predict(self, X):
        return np.array([-1, 1, 1])

    def decision_function(self, X):
        return SCORES


def fake(monkeypatch, name, **members):
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
    return module


# --- pulearn


class DividesBothColumns(Fake):
    c = 0.25

    def fit(self, X, s):
        self.args[0].fit(X, s)
        return super().fit(X, s)

    def predict_proba(self, X):
        return np.array([[3.8, 0.2], [2.0, 2.0], [0.4, 3.6]])

    def predict(self, X):
        return np.array([0.0, 1.0, 1.0])


def test_elkan_notos_scores_rank_and_its_probabilities_are_between_0_and_1(monkeypatch):
    fake(monkeypatch, "pulearn", ElkanotoPuClassifier=DividesBothColumns)
    model = peers.PulearnElkanoto(random_state=3).fit(X, S)
    np.testing.assert_array_equal(model.decision_function(X[:3]), [0.2, 2.0, 3.6])
    np.testing.assert_array_equal(model.predict_proba(X[:3]), [[0.8, 0.2], [0.0, 1.0], [0.0, 1.0]])
    found = model.predict(X[:3])
    assert found.dtype.kind == "i"
    assert found.tolist() == [0, 1, 1]
    assert model.label_frequency_ == 0.25
    assert model.predict_propensity(X).tolist() == [0.25] * 10
    assert model.model_.options == {"hold_out_ratio": 0.1, "random_state": 3}


def test_the_classifier_of_the_user_is_not_fitted(monkeypatch):
    fake(monkeypatch, "pulearn", ElkanotoPuClassifier=DividesBothColumns)
    given = LogisticRegression(C=7.0)
    model = peers.PulearnElkanoto(given).fit(X, S)
    assert not hasattr(given, "coef_")
    assert model.model_.args[0].C == 7.0
    assert hasattr(model.model_.args[0], "coef_")


def test_weighted_elkan_noto_gets_the_numbers_of_rows(monkeypatch):
    fake(monkeypatch, "pulearn", WeightedElkanotoPuClassifier=DividesBothColumns)
    model = peers.PulearnWeightedElkanoto().fit(X, S)
    assert {name: model.model_.options[name] for name in ("labeled", "unlabeled")} == {"labeled": 2, "unlabeled": 8}


class NegativeIsMinusOne(Fake):
    classes_ = np.array([-1, 1])

    def predict_proba(self, X):
        return np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])


def test_decisions_of_minus_one_become_zero(monkeypatch):
    fake(monkeypatch, "pulearn", NNPUClassifier=NegativeIsMinusOne)
    model = peers.PulearnNNPU(class_prior=0.5).fit(X, S)
    assert model.predict(X[:3]).tolist() == [0, 1, 1]
    assert model.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(model.predict_proba(X[:3])[:, 1], [0.1, 0.5, 0.8])


def test_nnpu_gets_the_share_of_positives_among_the_unlabelled_rows(monkeypatch):
    # 10 rows, 2 labelled. A class prior of 0.5 means 5 positives, 3 of them among the 8 unlabelled rows.
    estimator = SimpleNamespace(estimate=lambda X, s: SimpleNamespace(pi=0.6))
    fake(monkeypatch, "pulearn", NNPUClassifier=NegativeIsMinusOne, ScarEMPriorEstimator=lambda: estimator)
    known, estimated = peers.PulearnNNPU(class_prior=0.5).fit(X, S), peers.PulearnNNPU().fit(X, S)
    assert known.model_.options["prior"] == pytest.approx(3 / 8)
    assert estimated.model_.options["prior"] == pytest.approx(4 / 8)
    assert (known.class_prior_, estimated.class_prior_) == (0.5, 0.6)
    assert (known.knows, estimated.knows) == ("prior", "nothing")
    assert "class_prior" not in known.model_.options


def test_bagging_passes_its_options(monkeypatch):
    fake(monkeypatch, "pulearn", BaggingPuClassifier=NegativeIsMinusOne)
    model = peers.PulearnBagging(n_estimators=5, random_state=1).fit(X, S)
    assert model.model_.options == {"n_estimators": 5, "max_samples": 1.0, "random_state": 1}
    assert isinstance(model.model_.args[0], LogisticRegression)


def test_the_kind_of_bayesian_classifier_is_chosen_by_name(monkeypatch):
    fake(monkeypatch, "pulearn", WeightedTANClassifier=NegativeIsMinusOne)
    assert isinstance(peers.PulearnBayes("WeightedTAN").fit(X, S).model_, NegativeIsMinusOne)


# --- pu-toolbox


def test_risks_of_pu_toolbox_get_a_prior_that_matches_their_rows(monkeypatch):
    prior = SimpleNamespace(fit=lambda X, s: prior, estimate=lambda: 0.25)
    members = {"UPUClassifier": Fake, "PUSBKernelClassifier": Fake, "ClassPriorEstimator": lambda: prior}
    fake(monkeypatch, "pu_toolbox", **members)
    # 25% of 8 unlabelled rows are 2 positives, so 4 of all 10 rows are.
    risk, kernel = peers.ToolboxUPU().fit(X, S), peers.ToolboxPUSBKernel().fit(X, S)
    assert risk.class_prior_ == kernel.class_prior_ == pytest.approx(0.4)
    assert risk.model_.args[0] == pytest.approx(0.25)
    assert kernel.model_.fit_options["class_prior"] == pytest.approx(0.4)
    assert peers.ToolboxUPU(class_prior=0.5).fit(X, S).model_.args[0] == pytest.approx(3 / 8)
    np.testing.assert_array_equal(risk.decision_function(X[:3]), SCORES)
    assert not hasattr(risk, "predict_proba")


@pytest.mark.parametrize(("class_prior", "share"), [(0.1, 1e-3), (0.2, 1e-3), (1.0, 0.999), (0.6, 0.5)])
def test_the_share_among_unlabelled_rows_stays_between_0_and_1(class_prior, share):
    assert peers.share_of_unlabelled(class_prior, S) == pytest.approx(share)


def test_pusb_of_pu_toolbox_ranks_and_claims_no_probability(monkeypatch):
    fake(monkeypatch, "pu_toolbox", PUSBClassifier=NegativeIsMinusOne)
    model = peers.ToolboxPUSB().fit(X, S)
    assert not hasattr(model, "predict_proba")
    np.testing.assert_array_equal(model.decision_function(X[:3]), SCORES)


class TwoModels(Fake):
    propensity_model_ = SimpleNamespace(predict_proba=lambda X: np.repeat([[0.7, 0.3]], len(X), axis=0))

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)

    def predict_label_proba(self, X):
        return np.full(len(X), 0.15)


def test_the_propensity_of_lbe_is_not_the_probability_of_a_label(monkeypatch):
    fake(monkeypatch, "pu_toolbox", LBEClassifier=TwoModels)
    np.testing.assert_allclose(peers.ToolboxLBE().fit(X, S).predict_propensity(X), np.full(10, 0.3))


def test_elkan_noto_of_pu_toolbox_has_a_label_frequency_and_a_class_prior(monkeypatch):
    class Model(DividesBothColumns):
        propensity_, class_prior_ = 0.5, 0.4

        def fit(self, X, s):
            return Fake.fit(self, X, s)

    fake(monkeypatch, "pu_toolbox", ElkanNotoClassifier=Model)
    model = peers.ToolboxElkanNoto(random_state=2).fit(X, S)
    assert (model.label_frequency_, model.class_prior_) == (0.5, 0.4)
    assert model.predict_propensity(X[:2]).tolist() == [0.5, 0.5]


# --- SAR-EM of others


class PredictsTheLabel:
    """As pysarpu: `predict` is about the label, and starting values come from NumPy's global generator."""

    def __init__(self, class_model, propensity_model):
        self.history = [0.0]

    def fit(self, class_rows, propensity_rows, s, **options):
        self.rows, self.start = (class_rows, propensity_rows), np.random.rand()  # noqa: NPY002
        self.history += [1.0, 2.0]

    def predict_cproba(self, rows):
        return np.full(len(rows), 0.9)

    def predict_eproba(self, rows):
        return np.full(len(rows), 0.1 * rows.shape[1])

    def predict_c(self, rows):
        return np.ones(len(rows), dtype=int)

    def predict(self, class_rows, propensity_rows):
        raise AssertionError("this predicts the label, not the class")


def fake_pysarpu(monkeypatch):
    package = fake(monkeypatch, "pysarpu", PUClassifier=PredictsTheLabel)
    for name, model in (("classification", "LinearLogisticRegression"), ("propensity", "LogisticPropensity")):
        setattr(package, name, fake(monkeypatch, f"pysarpu.{name}", **{model: object}))


def test_pysarpu_predicts_the_class_and_gets_the_columns_of_each_model(monkeypatch):
    fake_pysarpu(monkeypatch)
    model = peers.Pysarpu(propensity_attributes=[1], classification_attributes=[0]).fit(X, S)
    for given, column in zip(model.model_.rows, (0, 1), strict=True):
        np.testing.assert_array_equal(given, X[:, [column]])
    assert model.predict(X).tolist() == [1] * 10
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 0.9)
    np.testing.assert_allclose(model.predict_propensity(X), 0.1)
    assert model.n_iter_ == 2
    nameless = peers.Pysarpu(propensity_attributes="all").fit(X, S)
    np.testing.assert_allclose(nameless.predict_propensity(X), 0.2)
    assert (model.knows, nameless.knows) == ("names", "nothing")


def test_the_global_generator_is_seeded_for_pysarpu_and_restored(monkeypatch):
    fake_pysarpu(monkeypatch)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    starts = [peers.Pysarpu(random_state=seed).fit(X, S).model_.start for seed in (0, 0, 1)]
    assert starts[0] == starts[1] != starts[2]
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


class NeedsOldScikitLearn(LogisticRegression):
    """As the authors' class: the constructor has an option that scikit-learn no longer accepts."""

    def __init__(self, multi_class="ovr"):
        LogisticRegression.__init__(self, multi_class=multi_class, solver="liblinear")

    def fit(self, x, s, e=None, sample_weight=None):
        self.used_propensity = e is not None
        return super().fit(x, s, sample_weight)


class OneColumn:
    def __init__(self, model, columns):
        self.model, self.columns = model, columns

    def predict_proba(self, x):
        return self.model.predict_proba(x[:, self.columns])[:, 1]


def published(x, s, propensity_attributes, **options):
    """Fit both models to the labels, with the signature and results of the published function."""
    columns = (options["classification_attributes"], propensity_attributes)
    models = (options["classification_model"], options["propensity_model"])
    pair = [OneColumn(model.fit(x[:, each], s), each) for model, each in zip(models, columns, strict=True)]
    return *pair, {"nb_iterations": options["max_its"] - 1, "options": options}


def test_the_authors_code_runs_although_its_constructor_does_not(monkeypatch):
    fake(monkeypatch, "sarpu")
    fake(monkeypatch, "sarpu.pu_learning", pu_learn_sar_em=published)
    fake(monkeypatch, "sarpu.PUmodels", LogisticRegressionPU=NeedsOldScikitLearn)
    model = peers.AuthorsSAREM(propensity_attributes=[1], max_its=7).fit(X, S)
    inner = model.model_.model
    assert isinstance(inner, NeedsOldScikitLearn)  # so `fit` is the authors'
    assert (inner.solver, inner.C, inner.used_propensity) == ("liblinear", 1.0, False)
    assert inner is not model.propensity_model_.model
    assert model.n_iter_ == 7
    p, e = model.decision_function(X), model.predict_propensity(X)
    np.testing.assert_allclose(p, LogisticRegression(solver="liblinear").fit(X, S).predict_proba(X)[:, 1])
    np.testing.assert_allclose(
        e, LogisticRegression(solver="liblinear").fit(X[:, [1]], S).predict_proba(X[:, [1]])[:, 1]
    )
    np.testing.assert_array_equal(model.predict(X), p > 0.5)
    assert 0 < model.predict(X).sum() < 10


def test_the_authors_code_is_found_in_a_checkout(tmp_path, monkeypatch):
    package = tmp_path / "sarpu" / "sarpu"
    package.mkdir(parents=True)
    for name in ("__init__", "pu_learning", "PUmodels"):
        (package / f"{name}.py").touch()
    monkeypatch.setenv("SARPU_PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [each for each in sys.path if "site-packages" not in each])
    for name in ("sarpu", "sarpu.pu_learning", "sarpu.PUmodels"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = importlib.util.spec_from_file_location("peers_again", peers.__file__)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    found = again.AuthorsSAREM()._modules()
    assert [Path(module.__file__).parent for module in found] == [package, package]
    for name in ("sarpu", "sarpu.pu_learning", "sarpu.PUmodels"):
        del sys.modules[name]


# --- all adapters


@every_adapter
def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, name):
    kind = ADAPTERS[name]
    for module in kind.needs:
        for each in (module.partition(".")[0], module):
            monkeypatch.setitem(sys.modules, each, None)
    with pytest.raises(ImportError, match=rf"^{name} needs another package \(.*\)\. Install: pip install ") as caught:
        kind().fit(X, S)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(kind.install)


@every_adapter
def test_labels_other_than_0_and_1_are_refused(name):
    with pytest.raises(ValueError, match=rf"{name}: labels must be 1 \(labelled\) and 0 \(unlabelled\)"):
        ADAPTERS[name]().fit(X, 2 * S - 1)


@every_adapter
def test_adapters_can_be_cloned_and_take_a_seed_by_its_usual_name(name):
    made = ADAPTERS[name]()
    assert clone(made).get_params() == made.get_params()
    assert not {"seed", "random_seed"} & set(signature(ADAPTERS[name]).parameters)


def test_the_specification_uses_every_adapter_and_names_its_package():
    spec = tomllib.loads((FOLDER / "spec.toml").read_text(encoding="utf-8"))
    used = {}
    for table in spec["methods"].values():
        if isinstance(table, dict) and table["estimator"].startswith("peers:"):
            used.setdefault(table["estimator"].partition(":")[2], []).append(table)
    assert set(used) == set(ADAPTERS)
    for name, tables in used.items():
        modules = {module.partition(".")[0] for module in ADAPTERS[name].needs}
        for table in tables:
            assert modules <= {package.replace("-", "_") for package in table["packages"]}
            ADAPTERS[name](**table.get("parameters", {}))


def test_the_read_me_has_all_install_commands():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for package in (
        "pulearn",
        "pu-toolbox",
        "pysarpu",
        "statsmodels",
        peers.AUTHORS_REPOSITORY,
        peers.AUTHORS_VARIABLE,
    ):
        assert package in text
    assert re.search(r"scarless compare examples/peers/spec\.toml", text)


# --- the real packages (slow; skipped unless they are installed)


def simulated_rows():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(800, 4))
    y = rng.random(800) < 1 / (1 + np.exp(0.5 - table[:, 0] - 2 * table[:, 1]))
    e = 0.2 + 0.6 / (1 + np.exp(-2 * table[:, 2]))
    return table, y, e, (y & (rng.random(800) < e)).astype(int)


@every_adapter
def test_real_packages_follow_the_contract(name):
    kind = ADAPTERS[name]
    for module in kind.needs:
        pytest.importorskip(module, reason="peers are not dependencies")
    table, y, _, s = simulated_rows()
    small = {"n_basis": 30, "small_grid": True, "class_prior": 0.4, "propensity_attributes": [2], "random_state": 0}
    options = {key: value for key, value in small.items() if key in signature(kind).parameters}
    first, second = kind(**options).fit(table, s), kind(**options).fit(table, s)
    scores = first.decision_function(table)
    np.testing.assert_array_equal(scores, second.decision_function(table))
    decided = first.predict(table)
    assert set(decided.tolist()) <= {0, 1}
    # No decision contradicts the ranking.
    assert scores[decided == 1].min(initial=np.inf) >= scores[decided == 0].max(initial=-np.inf)
    if name != "ToolboxLBE":  # its two models are swapped on these rows
        assert roc_auc_score(y, scores) > 0.7  # The sign of the score is right.
    if hasattr(first, "predict_proba"):
        p = first.predict_proba(table)
        assert ((p >= 0) & (p <= 1)).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
    if hasattr(first, "predict_propensity"):
        e = first.predict_propensity(table)
        assert e.shape == (800,)
        assert ((e >= 0) & (e <= 1)).all()


def test_real_sar_em_of_others_finds_the_propensity_if_it_is_told_the_attribute():
    pytest.importorskip("pysarpu.classification", reason="peers are not dependencies")
    pytest.importorskip("sarpu.pu_learning", reason="peers are not dependencies")
    table, y, e, s = simulated_rows()
    for kind in (peers.Pysarpu, peers.AuthorsSAREM):
        found = kind(propensity_attributes=[2]).fit(table, s).predict_propensity(table)
        assert np.mean((found - e)[y] ** 2) < 0.01, kind.__name__


def test_real_pysarpu_finds_our_maximum_of_the_likelihood():
    pytest.importorskip("pysarpu.classification", reason="peers are not dependencies")
    table, _, _, s = simulated_rows()
    theirs = peers.Pysarpu(propensity_attributes=[2], tol=1e-12, random_state=0).fit(table, s)
    ours = SAREMClassifier(propensity_attributes=[2], C=np.inf, propensity_C=np.inf).fit(table, s)
    np.testing.assert_allclose(theirs.predict_proba(table), ours.predict_proba(table), atol=1e-4)
    np.testing.assert_allclose(theirs.predict_propensity(table), ours.predict_propensity(table), atol=1e-4)
