"""Model files: loaded models equal saved models to the bit, and untrusted files create no objects."""

import importlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import fit_quietly, simulate

import scarless
from scarless import (
    PseudoObservations,
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
)
from scarless.models import Interval
from scarless.saved import ModelFileError, files
from scarless.saved.description import checked_once, described_once, parts_of
from scarless.saved.trusted import KINDS, MOVED_CLASSES, TRUSTED

skops_io = pytest.importorskip("skops.io", reason="skops is an extra")
PU = simulate(n=300)
IN = {"propensity_attributes": [2]}
CROSSED = {**IN, "cv": 2, "random_state": 0}


def boosted(**options):
    return HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=5, max_bins=16, **options)


MODELS = {
    "newton": lambda: SAREMClassifier(**IN),
    "em": lambda: PublishedEMClassifier(**IN),
    "starts": lambda: SAREMClassifier(**IN, n_starts=3, random_state=0),
    "named starts": lambda: SAREMClassifier(**IN, n_starts=["paper", 0.4]),
    "audits": lambda: SAREMClassifier(**IN, known=[PseudoObservations(3)]),
    "search, not recalibrated": lambda: SAREMClassifierCV(**IN, Cs=2, cv=2, recalibrate=False, random_state=0),
    "generator": lambda: SAREMClassifier(**IN, n_starts=2, random_state=np.random.default_rng(0)),
    "random state": lambda: SAREMClassifier(**IN, n_starts=2, random_state=np.random.RandomState(0)),
    "refit": lambda: PublishedEMClassifier(**IN, refit=True),
    "boosted": lambda: SAREMClassifier(boosted(), **IN, cv=2, random_state=0),
    "boosted, one fit": lambda: PublishedEMClassifier(boosted(), **IN, max_iter=3),
    "boosted twice": lambda: SAREMClassifier(boosted(), propensity_estimator=boosted(), **IN, cv=2, random_state=0),
    "boosted in a pipeline": lambda: SAREMClassifier(make_pipeline(StandardScaler(), boosted()), **CROSSED),
    "gradient boosting": lambda: SAREMClassifier(GradientBoostingClassifier(n_estimators=4, random_state=0), **CROSSED),
    "forest": lambda: SAREMClassifier(RandomForestClassifier(4, max_depth=4, random_state=0), **CROSSED),
    "tree": lambda: SAREMClassifier(DecisionTreeClassifier(max_depth=3), **IN, cv=2, random_state=0),
    "search": lambda: SAREMClassifierCV(**IN, Cs=2, cv=2, random_state=0),
    "search over sets": lambda: SAREMClassifierCV(Cs=2, cv=2, random_state=0, attribute_sets={"a": [2], "b": [2, 3]}),
    "stack": lambda: SARStackingClassifier(  # the default members, with fewer trees
        [("logistic", None), ("boosting", boosted())], **IN, cv=2, random_state=0
    ),
    "stack of given": lambda: SARStackingClassifier(
        [("Bayes", GaussianNB()), ("trees", RandomForestClassifier(3, max_depth=3, random_state=0))],
        **IN, cv=2, random_state=0,
    ),
    "SCAR": SCARClassifier,
    "SCAR by likelihood": lambda: SCARClassifier(method="likelihood"),
    "SCAR with a number": lambda: SCARClassifier(label_frequency=0.6),
    **{
        f"SCAR by {name}": lambda name=name: SCARClassifier(label_frequency=name)
        for name in ("tice", "km1", "km2", "elkan-noto", "dedpul", "best-bin")
    },
    **{
        f"SCAR by {kind.__name__}, {method}": lambda kind=kind, method=method: SCARClassifier(
            label_frequency=kind(random_state=0), method=method
        )
        for kind in (
            scarless.TIcE, scarless.KernelMean, scarless.ElkanNoto, scarless.DEDPUL, scarless.BestBinEstimator
        )
        for method in ("risk", "likelihood")
    },
    **{
        f"strata, {method}": lambda method=method: scarless.StratifiedSCARClassifier(
            propensity_attributes=[3], method=method
        )
        for method in ("risk", "likelihood")
    },
    **{
        f"known propensity, {name}, {method}": lambda estimator=estimator, method=method: (
            scarless.PropensityWeightedClassifier(estimator, method=method)
        )
        for name, estimator in {
            "logistic": None, "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
            "boosted": boosted(random_state=0), "of scikit-learn": LogisticRegression(),
        }.items()
        for method in ("risk", "likelihood")
    },
    "naive": scarless.NaiveClassifier,
    **{
        kind.__name__: lambda kind=kind: kind(random_state=0, n_resamples=20)
        for kind in (scarless.TIcE, scarless.KernelMean)
    },
    **{
        kind.__name__: lambda kind=kind: kind(boosted(), cv=2, random_state=0, n_resamples=20)
        for kind in (scarless.ElkanNoto, scarless.DEDPUL, scarless.BestBinEstimator)
    },
}  # fmt: skip


@cache
def fitted(name):
    """Return a table and a fitted model, shared by tests that do not change them."""
    X = PU.X.copy()
    X[:, 3] = X[:, 3] > 0  # two strata
    given = {"propensity": PU.e} if name.startswith("known propensity") else {}
    return X, fit_quietly(MODELS[name](), X, PU.s, **given)


def answers(model, X):
    """Return all predictions and results of a model, by name."""
    found = {}
    for name in ("predict_proba", "predict_propensity"):
        if hasattr(model, name):
            found[name] = getattr(model, name)(X)
    for name, call in {
        "posterior": lambda: model.predict_posterior(X, PU.s),
        "summary": lambda: str(model.summary()),
        "class prior": lambda: model.class_prior_interval(level=0.9),
        "interval": lambda: model.predict_proba_interval(X),
        "label frequency": lambda: model.label_frequency_,
    }.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found[name] = call()
            except (AttributeError, TypeError, ValueError) as error:  # the loaded model must raise the same error
                found[name] = str(error)
    return found


def bare(model):
    """Return the repr of a model, without memory addresses."""
    return re.sub(" at 0x[0-9A-Fa-f]+", "", repr(model))


def same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert np.asarray(value).tobytes() == np.asarray(other[name]).tobytes(), name


@pytest.mark.parametrize("name", MODELS)
def test_loaded_models_predict_identically_to_the_bit(name, tmp_path):
    X, model = fitted(name)
    path = tmp_path / "model.skops"
    scarless.save(model, path)
    first = path.read_bytes()
    again = scarless.load(str(path))
    assert type(again) is type(model)
    assert bare(again) == bare(model)
    said = answers(model, X)
    assert not any(isinstance(value, str) for name, value in said.items() if name == "predict_proba")
    same(said, answers(again, X))
    scarless.save(model, path)
    assert path.read_bytes() == first, "the same model makes the same bytes"
    assert [item.name for item in tmp_path.iterdir()] == ["model.skops"]


def frame(n=300):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    times = pandas.date_range("2020-01-01", periods=n, freq="h")
    return pandas.DataFrame(
        {
            "age": PU.X[:n, 0],
            "visits": np.where(rng.random(n) < 0.1, np.nan, PU.X[:n, 2]),
            "region": rng.choice(["north", "south", "east"], n),
            "note": [f"word{a} other{b}" for a, b in rng.integers(0, 90, size=(n, 2))],
            "seen": times,
            "written": times.strftime("%Y-%m-%d %H:%M"),
            "zoned": times.tz_localize("UTC").tz_convert("Europe/Brussels"),
            "kind": pandas.Categorical(rng.choice(["p", "q"], n)),
            "flag": rng.random(n) < 0.5,
        }
    )


def prepared(model, kind="pandas"):
    skrub = pytest.importorskip("skrub", reason="skrub is an extra")
    pipeline = make_pipeline(skrub.TableVectorizer(), SimpleImputer(), StandardScaler(), model)
    return pipeline.set_output(transform=kind)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (SAREMClassifier(propensity_attributes=["visits", "region"]), "pandas"),
        (SAREMClassifier(boosted(), propensity_attributes=["visits"], cv=2, random_state=0), "polars"),
    ],
)
def test_a_pipeline_of_a_raw_table_can_be_loaded(model, kind, tmp_path):
    table = frame() if kind == "pandas" else pytest.importorskip("polars").from_pandas(frame())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = prepared(model, kind).fit(table, PU.s)
        expected = pipeline.predict_proba(table)
        try:
            scarless.save(pipeline, tmp_path / "model.skops")
        except ModelFileError as error:
            # skops before 0.16 does not support time zones; in old versions of pandas they refer to themselves.
            if "ZoneInfo" not in str(error) and "RecursionError" not in str(error):
                raise
            pytest.skip("this skops stores no time zones")
        again = scarless.load(tmp_path / "model.skops")
        assert np.array_equal(again.predict_proba(table), expected)
    assert str(again[-1].summary()) == str(pipeline[-1].summary())


def test_an_object_that_is_referenced_five_times_is_written_once(tmp_path):
    plain = frame().drop(columns="zoned")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = prepared(SAREMClassifier(propensity_attributes=["visits"])).fit(plain, PU.s)
    scarless.save(pipeline, tmp_path / "a.skops")
    written = members_of(tmp_path / "a.skops")["schema.json"]
    assert written.count(b'"vocabulary_"') == 1
    vectorizer = scarless.load(tmp_path / "a.skops")[0]
    assert vectorizer.transformers_["note"] is vectorizer.all_processing_steps_["note"][-2]


def test_skops_checks_each_part_once_with_the_same_result(tmp_path):
    """Each object holds the previous one twice: without a cache, skops would check 2^18 parts."""
    inner = Own()
    for _ in range(18):
        outer = LogisticRegression()
        outer.one, outer.other = inner, inner
        inner = outer
    asked = []
    plain = skops_io._audit.Node.is_self_safe

    def counted(node):
        asked.append(node)
        return plain(node)

    with described_once():
        data = skops_io.dumps(inner)
    with pytest.MonkeyPatch.context() as patch, checked_once():
        patch.setattr(skops_io._audit.Node, "is_self_safe", counted)
        found = skops_io.get_untrusted_types(data=data)
    assert found == [f"{Own.__module__}.Own"]
    assert len(asked) < 5000


def test_two_threads_save_the_same_model_at_once(tmp_path):
    one = SAREMClassifier(propensity_attributes=[2]).fit(PU.X, PU.s)
    several = {"first": one, "again": [one, one]}
    paths = [tmp_path / f"{i}.skops" for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda path: scarless.save(several, path), paths))
    assert len({path.read_bytes() for path in paths}) == 1
    back = scarless.load(paths[0])
    assert back["first"] is back["again"][0] is back["again"][1]


def test_any_object_of_listed_types_can_be_saved(tmp_path):
    scarless.save({"interval": Interval(0.1, 0.2), 3: [None, 1.5]}, tmp_path / "a.skops")
    assert scarless.load(tmp_path / "a.skops") == {"interval": Interval(0.1, 0.2), 3: [None, 1.5]}
    scarless.save(0.5, tmp_path / "a.skops")
    assert scarless.load(tmp_path / "a.skops") == 0.5


# --- the file that is kept for ever

SAVED = Path(__file__).parent / "files" / "schema-1-sarem.skops"


def test_a_file_of_the_first_version_still_loads():
    """tools/save_model_file.py wrote the file; it contains no state of scikit-learn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* was written with scikit-learn", category=UserWarning)
        model = scarless.load(SAVED)
    rows = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5], [-2.0, 0.5, 2.0]])
    probability = [0.5358200446128547, 0.8363107065308627, 0.02275804592380441]
    propensity = [0.6472251076482954, 0.7366163616811495, 0.9083148105511912]
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], probability, rtol=1e-12)
    np.testing.assert_allclose(model.predict_propensity(rows), propensity, rtol=1e-12)
    assert model.class_prior_ == 0.48239464764415346
    np.testing.assert_allclose(model.class_prior_interval(), (0.3659519300900208, 0.6007813311998682), rtol=1e-9)


def test_a_file_with_earlier_names_of_classes_loads(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"age": rng.normal(50, 10, 300), "kind": rng.choice(["a", "b"], 300)})
    labels = (table["age"] > 50) & (rng.random(300) < 0.7)
    model = scarless.TableClassifier(scarless.NaiveClassifier()).fit(table, labels)
    scarless.save(model, tmp_path / "new.skops")
    before = {new: old for old, new in MOVED_CLASSES.items()}
    renamed = set()

    def as_before(schema):
        for each in parts_of(schema):
            old = before.get(f"{each['__module__']}.{each['__class__']}")
            if old is not None:
                each["__module__"], _, each["__class__"] = old.rpartition(".")
                renamed.add(old)

    old = written(tmp_path, with_schema(members_of(tmp_path / "new.skops"), as_before))
    assert {"scarless.models.table_classifier.TableClassifier", "scarless.checks.origins.Origin"} <= renamed
    found = scarless.load(old)
    np.testing.assert_array_equal(found.predict_proba(table), model.predict_proba(table))
    assert found.origins_ == model.origins_


def test_moved_classes_are_trusted_and_exist():
    assert MOVED_CLASSES.keys().isdisjoint(TRUSTED)
    for name in MOVED_CLASSES.values():
        module, _, own = name.rpartition(".")
        assert name in TRUSTED
        assert getattr(importlib.import_module(module), own).__module__ == module


def earlier(kind):
    """Return a model that scarless 0.1 saved: fitted to rows of 4 columns before SAREMClassifier had a Labelling."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* was written with scikit-learn", category=UserWarning)
        return scarless.load(SAVED.with_name(f"schema-1-{kind}.skops"))


ROWS = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, -1.0, 0.5, 2.0], [-2.0, 0.5, 2.0, -1.0]])


def test_a_fit_by_em_of_an_earlier_version_is_a_published_em():
    """SAREMClassifier(propensity_attributes=[2], solver="em")."""
    model = earlier("em")
    assert repr(model) == "PublishedEMClassifier(propensity_attributes=[2])"
    probability = [0.5641482712694037, 0.9476850589077422, 0.039041369127319786]
    propensity = [0.6612043057011735, 0.7668651489902353, 0.940295052610238]
    np.testing.assert_allclose(model.predict_proba(ROWS)[:, 1], probability, rtol=1e-12)
    np.testing.assert_allclose(model.predict_propensity(ROWS), propensity, rtol=1e-12)
    assert model.class_prior_ == 0.5625619183100874


def test_labelling_parameters_of_an_earlier_version_are_kept():
    """SAREMClassifier(propensity_attributes=[2], shared_propensity=False, false_positive_rate="estimate")."""
    model = earlier("looks")
    assert repr(model.labelling) == "Labelling(false_positive_rate='estimate', shared=False)"
    probability = [0.6145221033184397, 0.9878222722525695, 0.0122730327430908]
    propensity = [0.4728400966792684, 0.6381476299499691, 0.9305761425429521]
    np.testing.assert_allclose(model.predict_proba(ROWS)[:, 1], probability, rtol=1e-12)
    np.testing.assert_allclose(model.predict_propensity(ROWS, look=1), propensity, rtol=1e-12)
    np.testing.assert_allclose(model.class_prior_interval(), (0.5118414465813839, 0.6665004122035627), rtol=1e-9)
    assert "Looks" in str(model.summary())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_cross_fit_that_was_not_recalibrated_is_refused(tmp_path):
    model = SAREMClassifier(DecisionTreeClassifier(max_depth=2), **CROSSED, max_iter=3).fit(PU.X, PU.s)
    model.relax, model.solver = False, "auto"
    scarless.save(model, tmp_path / "a.skops")
    with pytest.raises(ModelFileError, match=r"a\.skops' holds a cross-fit with relax=False, .*Fit the model again"):
        scarless.load(tmp_path / "a.skops")


# --- what save refuses


class Own:
    """A class of the user."""


def own_columns(X):
    return [2]


@pytest.fixture(scope="module")
def model():
    return SAREMClassifier(**IN).fit(PU.X, PU.s)


@pytest.mark.parametrize("name", ["model.pkl", "model", "model.skops.zip"])
def test_the_suffix_is_skops(name, model, tmp_path):
    with pytest.raises(ModelFileError, match=r"must end in \.skops; got .*For example: "):
        scarless.save(model, tmp_path / name)


def test_a_path_of_a_wrong_type_is_refused(model):
    with pytest.raises(ModelFileError, match=r"path must be the path of a file, as text or pathlib\.Path; got 3"):
        scarless.save(model, 3)
    with pytest.raises(ModelFileError, match=r"The folder .*nowhere' for a.skops does not exist"):
        scarless.save(model, "nowhere/a.skops")


def test_what_is_not_fitted_is_refused(tmp_path):
    for unfitted in (SAREMClassifier(), make_pipeline(StandardScaler(), SAREMClassifier())):
        with pytest.raises(NotFittedError, match=f"This {type(unfitted).__name__} is not fitted, so there is nothing"):
            scarless.save(unfitted, tmp_path / "a.skops")
    with pytest.raises(ModelFileError, match="must be a fitted model; got the class SAREMClassifier"):
        scarless.save(SAREMClassifier, tmp_path / "a.skops")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: SAREMClassifier(propensity_attributes=lambda X: [2]).fit(PU.X, PU.s), "<lambda>"),
        (lambda: SAREMClassifier(propensity_attributes=own_columns).fit(PU.X, PU.s), "own_columns"),
        (lambda: [Own()], "Own"),
        (lambda: FunctionTransformer(np.linalg.inv).fit(np.eye(2)), "inv"),
        (lambda: {False: 1}, "a dict with booleans as keys"),
        (lambda: os.system, "system"),
        (lambda: {(1, 2): 3}, "keys must be str"),
        (lambda: complex(1, 2), "complex"),
    ],
)
def test_what_load_would_refuse_is_not_saved(make, named, tmp_path):
    made = make()
    with pytest.raises(ModelFileError, match=r"joblib or cloudpickle. Such files can run code") as caught:
        scarless.save(made, tmp_path / "a.skops")
    assert named in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_lightgbm_is_refused_by_name(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    model = SAREMClassifier(lightgbm.LGBMClassifier(n_estimators=3, verbose=-1), **IN, cv=2, random_state=0)
    with pytest.raises(ModelFileError, match=r"LightGBM|lightgbm"):
        scarless.save(model.fit(PU.X, PU.s), tmp_path / "a.skops")


# --- what load refuses


def members_of(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.fixture(scope="module")
def good(model, tmp_path_factory):
    """Return the members of a good file."""
    path = tmp_path_factory.mktemp("good") / "good.skops"
    scarless.save(model, path)
    return members_of(path)


def refusal(path):
    """Return the error message for a file."""
    with pytest.raises(ModelFileError) as caught:
        scarless.load(path)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 900
    return sentence


def written(tmp_path, members):
    """Write bytes, or members with matching hashes as an attacker would, to a file; return its path."""
    path = tmp_path / "hostile.skops"
    path.write_bytes(members if isinstance(members, bytes) else files.pack(sealed(members)))
    return path


def sealed(members):
    """Return members whose names and stamp have the hashes of their contents."""
    kept, schema = {}, members["schema.json"]
    for name, data in members.items():
        now = files.content_name(name, data) if re.fullmatch(r"[0-9a-f]{64}\.npy", name) else name
        schema = schema.replace(name.encode(), now.encode()) if now != name else schema
        kept[now] = data
    try:
        stamp = json.loads(members["scarless.json"])
        stamp["description"] = files.content_name("schema.json", schema)
        kept["scarless.json"] = json.dumps(stamp).encode()
    except (ValueError, TypeError, RecursionError):
        pass  # an invalid stamp is not changed
    return {**kept, "schema.json": schema}


def with_schema(good, change):
    schema = json.loads(good["schema.json"])
    change(schema)
    return {**good, "schema.json": json.dumps(schema).encode()}


def part(module, name, kind="FunctionNode", **more):
    return {"__class__": name, "__module__": module, "__loader__": kind, **more}


ARGUMENTS = part("builtins", "tuple", "TupleNode", content=[part("builtins", "str", "JsonNode", content='"echo"')])


@pytest.fixture
def nothing_runs(monkeypatch, tmp_path):
    """Make a test fail if code is run or a file is written."""
    ran = []
    monkeypatch.setattr(os, "system", ran.append)
    monkeypatch.setattr(subprocess, "Popen", ran.append)
    yield
    assert ran == []


@pytest.mark.parametrize(
    ("hostile", "named"),
    [
        (part("os", "system"), "os.system"),
        (part("posix", "system"), "posix.system"),
        (part("builtins", "eval"), "builtins.eval"),
        (part("os", "system", "ConstructorFromReduceNode", content=ARGUMENTS), "os.system"),
        (part("builtins", "eval", "TypeNode"), "builtins.eval"),
        (part("subprocess", "Popen", "ConstructorFromReduceNode", content=ARGUMENTS), "subprocess.Popen"),
        (part("subprocess", "Popen", "ObjectNode"), "subprocess.Popen"),
        (part("scarless.outside.files", "write_whole"), "scarless.outside.files.write_whole"),
        (part("scarless.saved.files", "load"), "scarless.saved.files.load"),
        (part("scarless.datasets.fetch", "fetch"), "scarless.datasets.fetch.fetch"),
        (part("scarless.models.sar_em", "check_choice"), "scarless.models.sar_em.check_choice"),
        # Trusted names that are used in a way that is not allowed:
        (
            part("scarless.models.sar_em", "SAREMClassifier", "ConstructorFromReduceNode", content=ARGUMENTS),
            "SAREMClassifier as a ConstructorFromReduce",
        ),
        (part("scarless.pair.boosting", "HistogramBooster", "TypeNode"), "HistogramBooster as a Type"),
        (part("sklearn.utils.validation", "check_array", "ListNode", content=[]), "check_array as a List"),
        (part("skrub._dataframe._common", "is_numeric", "ConstructorFromReduceNode", content=ARGUMENTS), "is_numeric"),
        (
            part("scarless.pair.crossed", "Crossed", "MethodNode", content={"func": "__init__", "obj": None}),
            "scarless.pair.crossed.Crossed.__init__",
        ),
        (
            part("functools", "partial", "PartialNode", content={"func": part("numpy", "exp")}),
            "numpy.exp",
        ),
        (part("operator", "methodcaller", "OperatorFuncNode", attrs=ARGUMENTS), "operator.methodcaller"),
        (part("scipy.sparse", "spmatrix", "SparseMatrixNode", type="scipy"), "scipy.sparse.spmatrix"),
        (part("collections", "defaultdict", "DefaultDictNode", content={}), "collections.defaultdict"),
    ],
)
def test_a_name_that_is_not_on_the_list_is_refused(hostile, named, good, tmp_path, nothing_runs):
    def change(schema):
        schema["content"]["content"]["C"] = hostile

    sentence = refusal(written(tmp_path, with_schema(good, change)))
    assert named in sentence
    assert "No object was created" in sentence


def test_modules_are_not_imported_for_a_name(good, tmp_path):
    """An import runs the code of a module, so `load` must not import modules that a file names."""
    (tmp_path / "hostile_module.py").write_text("raise SystemExit('imported')\n")
    sys.path.insert(0, str(tmp_path))
    try:
        change = {"content": part("hostile_module", "anything", "ObjectNode")}
        sentence = refusal(written(tmp_path, with_schema(good, lambda schema: schema.update(change))))
    finally:
        sys.path.remove(str(tmp_path))
    assert "hostile_module.anything" in sentence
    assert "hostile_module" not in sys.modules


def test_a_generator_calls_no_other_function_of_numpy(tmp_path):
    scarless.save(np.random.default_rng(0), tmp_path / "a.skops")
    members = members_of(tmp_path / "a.skops")
    members["schema.json"] = members["schema.json"].replace(b'\\"PCG64\\"', b'\\"seed\\"')
    assert "numpy.random.seed" in refusal(written(tmp_path, members))


def test_untrusted_names_are_escaped_in_errors(good, tmp_path):
    change = {"content": part("\x1b[31m\n" * 200, "x", "ObjectNode")}
    sentence = refusal(written(tmp_path, with_schema(good, lambda schema: schema.update(change))))
    assert "\x1b" not in sentence
    assert r"\x1b[31m" in sentence


def test_a_list_of_trusted_types_in_a_file_is_ignored(good, tmp_path):
    members = with_schema(good, lambda schema: schema.update(trusted=["os.system"], content=part("os", "system")))
    members["scarless.json"] = json.dumps(json.loads(good["scarless.json"]) | {"trusted": ["os.system"]}).encode()
    assert "os.system" in refusal(written(tmp_path, members))


class Bomb:
    def __reduce__(self):
        return os.system, ("echo",)


def test_a_pickle_is_refused(tmp_path, nothing_runs):
    assert "is not a model file, or is truncated" in refusal(written(tmp_path, pickle.dumps(Bomb())))
    assert "is not a model file" in refusal(written(tmp_path, b""))


def test_a_plain_skops_file_is_refused(model, tmp_path):
    path = written(tmp_path, skops_io.dumps(LogisticRegression().fit(PU.X, PU.y)))
    assert "was not written by scarless.save: it has no scarless.json" in refusal(path)


def test_every_truncation_is_refused(good, tmp_path):
    data = files.pack(good)
    for length in range(0, len(data) - 1, 97):
        assert "is not a model file" in refusal(written(tmp_path, data[:length]))


def test_every_flipped_byte_is_refused_or_does_not_matter(good, tmp_path):
    """The checksums of a zip do not cover names, sizes and flags."""
    data, whole = files.pack(good), scarless.load(written(tmp_path, files.pack(good)))
    for place in range(0, len(data), 149):
        path = written(tmp_path, data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            model = scarless.load(path)
        except ModelFileError:
            continue
        assert np.array_equal(model.predict_proba(PU.X), whole.predict_proba(PU.X))


@pytest.mark.parametrize(
    "name", ["../../escape.npy", "/etc/passwd", "a/b.npy", "inner.zip", "code.py", "X" * 500, "a\\b"]
)
def test_strange_names_of_members_are_refused(name, good, tmp_path):
    sentence = refusal(written(tmp_path, {**good, name: b"PK"}))
    assert "it has a member" in sentence
    assert len(sentence) < 400


def test_members_of_one_name_are_refused(good, tmp_path):
    buffer = io.BytesIO(files.pack(good))
    with zipfile.ZipFile(buffer, "a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        file.writestr("schema.json", good["schema.json"])
    assert "two members of the same name" in refusal(written(tmp_path, buffer.getvalue()))


def test_other_ways_to_pack_are_refused(good, tmp_path):
    buffer = io.BytesIO(files.pack(good))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_BZIP2) as file:
        file.writestr("0" * 64 + ".npy", b"0")
    assert "it has a member" in refusal(written(tmp_path, buffer.getvalue()))


def test_a_zip_bomb_is_refused(good, tmp_path):
    bomb = {**good, "0" * 64 + ".npy": bytes(100 * 2**20)}
    assert re.search(
        r"would unpack from [\d,]+ to 10\d,\d{3},\d{3} bytes, more than 300", refusal(written(tmp_path, bomb))
    )


def test_what_is_too_large_is_refused_by_its_declared_size(good, tmp_path):
    data = bytearray(files.pack({**good, "0" * 64 + ".npy": bytes(10)}))
    at = data.rfind(b"PK\x01\x02")
    data[at + 24 : at + 28] = (2**32 - 2).to_bytes(4, "little")
    assert "a model file may have at most 4,294,967,296" in refusal(written(tmp_path, bytes(data)))


def test_one_array_read_a_million_times_is_refused(good, tmp_path, monkeypatch):
    name = next(name for name in good if name.endswith(".npy"))
    arrays = [part("numpy", "ndarray", "NdArrayNode", type="numpy", file=name)] * 1000
    monkeypatch.setattr("scarless.saved.description.MAX_UNPACKED_BYTES", 100_000)
    members = with_schema(good, lambda schema: schema.update(extra=arrays))
    assert "parts and" in refusal(written(tmp_path, members))


def test_references_that_double_are_refused(good, tmp_path):
    """Forty objects that each hold the previous one twice have a million million parts."""
    inner = part("scarless.pair.selection", "Selection", "ObjectNode", __id__=1)
    for number in range(2, 42):
        again = part("x", "x", "CachedNode", __id__=number - 1)
        held = part("builtins", "list", "ListNode", content=[inner, again])
        inner = part("scarless.pair.selection", "Selection", "ObjectNode", content=held, __id__=number)
    members = with_schema(good, lambda schema: schema.update(content=inner))
    assert "parts and" in refusal(written(tmp_path, members))


@pytest.mark.parametrize("number", [7, "1", None])
def test_references_to_missing_objects_are_refused(number, good, tmp_path):
    reference = part("x", "x", "CachedNode", __id__=number)
    members = with_schema(good, lambda schema: schema.update(content=reference))
    assert "its description is invalid" in refusal(written(tmp_path, members))


def test_references_in_a_circle_are_refused(good, tmp_path):
    def change(schema):
        schema["__id__"] = 1
        schema["content"] = part("x", "x", "CachedNode", __id__=1)

    assert "its description is invalid" in refusal(written(tmp_path, with_schema(good, change)))


@pytest.mark.parametrize(
    "schema",
    [b"", b"[]", b"null", b"{}", b'{"protocol": 2}', b"\xff\xfe", b"[" * 100_000, b'{"protocol": 0, "__loader__": 3}'],
)
def test_an_invalid_description_is_refused(schema, good, tmp_path):
    assert "its description is invalid" in refusal(written(tmp_path, {**good, "schema.json": schema}))


def test_deep_descriptions_are_refused(good, tmp_path):
    deep = '{"__class__":"list","__module__":"builtins","__loader__":"ListNode","content":['
    text = f'{{"protocol":2,{deep[1:]}' + deep * 5000 + "]}" * 5001
    assert "RecursionError" in refusal(written(tmp_path, {**good, "schema.json": text.encode()}))


def test_an_older_protocol_of_skops_is_refused(good, tmp_path):
    """Older protocols describe functions in a way that the check does not support."""
    assert "its protocol must be a whole number of at least 2; it is 0" in refusal(
        written(tmp_path, with_schema(good, lambda schema: schema.update(protocol=0)))
    )


def test_invalid_arrays_are_refused(good, tmp_path):
    for data in (b"", b"\x93NUMPY", pickle.dumps(Bomb())):
        members = {name: data if name.endswith(".npy") else kept for name, kept in good.items()}
        assert "the model cannot be created" in refusal(written(tmp_path, members))


# --- arrays that were edited


def edits(array):
    """Yield copies of an array with other values, or of another shape."""
    if array.size:
        for added in (1, 250) if array.dtype.kind in "fiu" else ():
            yield (array + array.dtype.type(added)).astype(array.dtype)
        if array.dtype.kind == "f":
            for value in (np.nan, np.inf):
                changed = array.copy()
                changed.flat[-1] = value
                yield changed
    yield np.concatenate([array.ravel(), array.ravel()[:1]])
    yield array[None]
    yield array.ravel()[:-1]


def as_bytes(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def edited_files(members, every=1, *, indices_too=False):
    """Yield an array's name, an edited array, and members with the edited array; or only every so many of these.

    With `indices_too`, every edit of an array of integers is among them.
    """
    arrays = {name: np.load(io.BytesIO(data)) for name, data in members.items() if name.endswith(".npy")}
    edited = [(name, other) for name, array in arrays.items() for other in edits(array)]
    for number, (name, other) in enumerate(edited):
        chosen = number % every == 0 or (indices_too and other.dtype.kind == "i")
        if chosen and (changed := as_bytes(other)) != members[name]:
            yield name, other, {**members, name: changed}


@pytest.mark.parametrize("name", ["newton", "refit", "search", "boosted", "strata, risk", "TIcE"])
def test_every_edited_array_is_refused_by_the_name_of_its_member(name, tmp_path):
    tried = 0
    for member, _, members in edited_files(stored(name), every=5):  # at least once for each array
        sentence = refusal(written(tmp_path, files.pack(members)))
        assert f"its member {member} was changed" in sentence
        tried += 1
    assert tried > 4


@pytest.mark.parametrize(
    ("name", "every"),
    [
        pytest.param("newton", 1, id="newton"),
        pytest.param("search", 1, id="search, every edit"),
        pytest.param("search", 20, id="search"),
        pytest.param("boosted", 9, id="boosted"),
        pytest.param("forest", 9, id="forest"),
        pytest.param("strata, risk", 4, id="strata, risk"),
        pytest.param("SCAR", 1, id="SCAR, every edit"),
        pytest.param("SCAR", 6, id="SCAR"),
    ],
)
def test_an_edited_array_with_its_hash_never_predicts_nan(name, every, tmp_path):
    """An attacker can edit an array and its hash. NaN and wrong shapes are then refused if they affect predictions."""
    X, _ = fitted(name)
    refused = 0
    indices_too = name in ("SCAR", "search")  # every edit of an index is tried, because an index can read other columns
    for _, other, members in edited_files(stored(name), every, indices_too=indices_too):
        path = written(tmp_path, members)
        if other.dtype.kind == "f" and not np.isfinite(other).all():
            assert "holds NaN or infinity, but had only finite numbers when it was saved" in refusal(path)
            continue
        try:
            model = scarless.load(path)
        except ModelFileError:
            refused += 1
            continue
        for ask in ("predict_proba", "predict_propensity"):
            try:
                answer = getattr(model, ask)(X)
            except (ValueError, IndexError):  # a late error: only the inner classifier can detect it
                assert name in ("boosted", "forest", "strata, risk")
                continue
            assert np.isfinite(answer).all()
    assert refused or name not in ("newton", "SCAR", "search")  # many edits of these models are tried


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("newton", r"SAREMClassifier\.(propensity_)?(coef|intercept)_ holds NaN or infinity|parameters holds NaN"),
        ("boosted", "thresholds or leaves hold NaN or infinity"),
        ("forest", "thresholds or leaves hold NaN or infinity"),
    ],
)
def test_nan_in_files_without_a_list_of_such_arrays_is_refused(name, sentence, tmp_path):
    """Files of older versions do not say which arrays may hold NaN."""
    members, refused = dict(stored(name)), set()
    stamp = json.loads(members["scarless.json"])
    del stamp["not_finite"]
    members["scarless.json"] = json.dumps(stamp).encode()
    for member, data in list(members.items()):  # in any order, because names are hashes
        if any(re.search(sentence, told) for told in refused):
            break
        array = np.load(io.BytesIO(data)) if member.endswith(".npy") else np.empty(0)
        for field in array.dtype.names or [None]:
            changed = array.copy()
            values = changed if field is None else changed[field]
            if values.dtype.kind != "f" or values.size == 0:
                continue
            values.flat[-1] = np.nan
            try:
                scarless.load(written(tmp_path, {**members, member: as_bytes(changed)}))
            except ModelFileError as error:
                refused.add(str(error))
    assert any(re.search(sentence, told) for told in refused)


@pytest.mark.parametrize(
    ("name", "attribute", "sentence"),
    [
        ("newton", "coef_", r"SAREMClassifier.coef_ must have shape \(1, 4\); it has \(1, 3\)"),
        ("newton", "propensity_intercept_", r"propensity_intercept_ must have shape \(1,\); it has \(2,\)"),
        ("newton", "information", r"PairInference.information must have shape"),
        ("newton", "parameters", r"FittedPair.parameters must have shape"),
    ],
)
def test_wrong_shapes_are_refused_by_the_attribute(name, attribute, sentence, tmp_path):
    from scarless.saved.values import check_values, objects_in

    scarless.save(fitted(name)[1], tmp_path / "a.skops")
    model = scarless.load(tmp_path / "a.skops")
    owner = next(each for each in objects_in(model) if attribute in (getattr(each, "__dict__", None) or {}))
    array = vars(owner)[attribute]
    vars(owner)[attribute] = array[:, :-1] if array.ndim == 2 else np.append(array, 0.0)
    with pytest.raises(ValueError, match=sentence):
        check_values(model)


def test_arrays_that_held_nan_when_they_were_saved_load(tmp_path):
    """The mean of an empty column is NaN, which is not damage."""
    X = np.column_stack([PU.X, np.full(len(PU.X), np.nan)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(StandardScaler(), SimpleImputer(), SAREMClassifier(**IN)).fit(X, PU.s)
        assert np.isnan(model[0].mean_).any()
        scarless.save(model, tmp_path / "a.skops")
        assert np.array_equal(scarless.load(tmp_path / "a.skops").predict_proba(X), model.predict_proba(X))


def test_an_edited_description_is_refused(good, tmp_path):
    members = with_schema(good, lambda schema: schema["content"]["content"]["C"].update(content="7.0"))
    assert "its schema.json was changed" in refusal(written(tmp_path, files.pack(members)))


# --- the stamp


@pytest.mark.parametrize("stamp", [b"", b"[]", b"not json", b"\xff", b"3", b'{"schema": 1}', b"[" * 60_000])
def test_an_invalid_stamp_is_refused(stamp, good, tmp_path):
    assert "its scarless.json cannot be read" in refusal(written(tmp_path, {**good, "scarless.json": stamp}))


@pytest.mark.parametrize(
    "change",
    [{"schema": True}, {"schema": "1"}, {"schema": 0}, {"model": "a b"}, {"numpy": "\x1b[31m"}, {"scarless": "newest"}],
)
def test_a_stamp_with_unexpected_values_is_refused(change, good, tmp_path):
    stamp = json.loads(good["scarless.json"]) | change
    path = written(tmp_path, {**good, "scarless.json": json.dumps(stamp).encode()})
    assert "holds values that scarless.save does not write" in refusal(path)


def test_a_huge_stamp_is_refused(good, tmp_path):
    stamp = json.dumps(json.loads(good["scarless.json"]) | {"x": "y" * 70_000}).encode()
    assert "(scarless.json); a model file may have at most 65,536" in refusal(
        written(tmp_path, {**good, "scarless.json": stamp})
    )


def test_a_stamp_of_another_model_is_refused(good, tmp_path):
    stamp = json.loads(good["scarless.json"]) | {"model": "NaiveClassifier"}
    path = written(tmp_path, {**good, "scarless.json": json.dumps(stamp).encode()})
    assert "the stamp names another class, NaiveClassifier" in refusal(path)


@pytest.mark.parametrize("change", [{"schema": 2}, {"scarless": "999.0"}, {"scarless": "999.0.dev1"}])
def test_files_of_newer_versions_are_refused(change, good, tmp_path):
    stamp = json.loads(good["scarless.json"]) | change
    sentence = refusal(written(tmp_path, {**good, "scarless.json": json.dumps(stamp).encode()}))
    assert f"was written by scarless {stamp['scarless']} (schema {stamp['schema']})" in sentence
    assert f"but scarless {version('scarless')} (schema 1) is installed. Run pip install --upgrade scarless" in sentence


def test_files_of_older_versions_of_scarless_load(good, tmp_path):
    stamp = json.loads(good["scarless.json"]) | {"scarless": "0.0.1"}
    model = scarless.load(written(tmp_path, {**good, "scarless.json": json.dumps(stamp).encode()}))
    assert isinstance(model, SAREMClassifier)


def test_another_version_of_scikit_learn_warns(good, tmp_path):
    stamp = json.loads(good["scarless.json"]) | {"scikit-learn": "1.2.3"}
    path = written(tmp_path, {**good, "scarless.json": json.dumps(stamp).encode()})
    told = f"was written with scikit-learn 1.2.3, but {version('scikit-learn')} is installed"
    with pytest.warns(UserWarning, match=re.escape(told)) as caught:
        scarless.load(path)
    assert caught[0].filename == __file__


def test_the_stamp_is_read_without_the_model(good):
    stamp = json.loads(good["scarless.json"])
    assert stamp["model"] == "SAREMClassifier"
    assert (stamp["scarless"], stamp["schema"]) == (version("scarless"), 1)
    assert {"python", "numpy", "scikit-learn", "skops"} <= set(stamp)
    assert "skrub" not in stamp


def test_missing_files_and_folders_raise(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no model file '.*a\.skops'"):
        scarless.load(tmp_path / "a.skops")
    with pytest.raises(ModelFileError, match="is not a model file: it is a folder"):
        scarless.load(tmp_path)


# --- trees


def tampered_tree(members, change):
    """Return the members with every array of nodes changed."""
    names = {}
    for name, data in members.items():
        if name.endswith(".npy"):
            nodes = np.load(io.BytesIO(data))
            if nodes.dtype.names and change(nodes):
                buffer = io.BytesIO()
                np.save(buffer, nodes)
                names[name] = buffer.getvalue()
    assert names
    return {**members, **names}


@cache
def stored(name):
    """Return the members of a model file, shared by tests that do not change them."""
    with TemporaryDirectory() as folder:
        scarless.save(fitted(name)[1], Path(folder, "a.skops"))
        return members_of(Path(folder, "a.skops"))


def set_field(name, value, inner):
    def change(nodes):
        if name not in nodes.dtype.names or not inner(nodes)[0]:
            return False
        nodes[name][0] = value
        return True

    return change


@pytest.mark.parametrize(
    ("name", "field", "value", "sentence"),
    [
        ("boosted", "left", 10**6, "lead out of bounds, or back"),
        ("boosted", "right", 0, "lead out of bounds, or back"),
        ("boosted", "feature_idx", 10**6, "a column that does not exist"),
        ("boosted", "feature_idx", -1, "a column that does not exist"),
        ("boosted", "is_categorical", 1, "categories are out of bounds"),
        ("forest", "left_child", 10**6, "lead out of bounds, or back"),
        ("forest", "right_child", -7, "lead out of bounds, or back"),
        ("tree", "feature", 4, "a column that does not exist"),
        ("gradient boosting", "left_child", 0, "lead out of bounds, or back"),
    ],
)
def test_a_tree_with_indices_out_of_bounds_is_refused(name, field, value, sentence, tmp_path):
    """Compiled code would read other memory, or loop for ever."""

    def inner(nodes):
        return nodes["is_leaf"] == 0 if "is_leaf" in nodes.dtype.names else nodes["left_child"] != -1

    members = tampered_tree(stored(name), set_field(field, value, inner))
    assert sentence in refusal(written(tmp_path, members))


def test_a_tree_of_other_columns_is_refused(tmp_path):
    """Gradient boosting checks its own number of columns only, not that of its trees."""
    model = GradientBoostingClassifier(n_estimators=2, random_state=0).fit(PU.X, PU.y)
    model.n_features_in_ = 3
    scarless.save(model, tmp_path / "a.skops")
    assert "fitted to another number of columns" in refusal(tmp_path / "a.skops")
    tree = DecisionTreeClassifier(max_depth=2).fit(PU.X, PU.y)
    tree.n_features_in_ = 3
    scarless.save(tree, tmp_path / "a.skops")
    assert "fitted to another number of columns" in refusal(tmp_path / "a.skops")


def test_a_tree_outside_an_estimator_is_refused(tmp_path):
    tree = DecisionTreeClassifier(max_depth=2).fit(PU.X, PU.y)
    scarless.save({"model": tree.tree_}, tmp_path / "a.skops")
    assert "a tree is not part of a scikit-learn estimator" in refusal(tmp_path / "a.skops")


# --- the list


def test_every_trusted_name_exists_and_has_its_kind():
    """Each trusted name exists and has its listed kind; no name is a prefix or a pattern."""
    import importlib
    import inspect

    for name, kind in TRUSTED.items():
        assert re.fullmatch(r"\w+(\.\w+)+", name)
        assert kind in KINDS
        if name.startswith("scarless.") and kind != "MethodNode":
            module, _, attribute = name.rpartition(".")
            value = getattr(importlib.import_module(module), attribute)
            assert inspect.isclass(value), f"{name}: of ours, no function is on the list"
            assert value.__module__ == module
            assert issubclass(value, tuple) == (kind == "TupleNode")


def test_the_trusted_functions_are_these():
    assert {name for name, kind in TRUSTED.items() if kind in ("FunctionNode", "MethodNode")} == {
        "scarless.pair.crossed.Crossed.plain_logits",
        "sklearn.utils.validation.check_array",
        "skrub._dataframe._common.is_any_date",
        "skrub._dataframe._common.is_categorical",
        "skrub._dataframe._common.is_numeric",
        "skrub._dataframe._common.is_string",
        "skrub._table_vectorizer._created_by_predicate",
        "skrub.selectors._selectors._cardinality_below",
    }


@pytest.mark.parametrize(("package", "extra"), [("polars.datatypes", "frames"), ("skrub", "tool")])
def test_a_missing_package_is_named_with_its_extra(model, tmp_path, monkeypatch, package, extra):
    def fail(*_, **__):
        raise ImportError(name=package)

    scarless.save(model, tmp_path / "a.skops")
    monkeypatch.setattr("skops.io.loads", fail)
    with pytest.raises(ImportError, match=rf'needs {package.partition(".")[0]}: pip install "scarless\[{extra}\]"'):
        scarless.load(tmp_path / "a.skops")


def test_without_skops_the_extra_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ImportError, match=r'Saving a model needs skops: pip install "scarless\[tool\]"'):
        scarless.save(model, tmp_path / "a.skops")
    assert files.SCHEMA_NUMBER == 1
