"""Each concept has one word: in public signatures, docstrings, documentation and names of constants."""

import ast
import dataclasses
import importlib
import inspect
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from tests.test_house import tree_of

import scarless
from scarless import label_frequency
from scarless.models import Interval, Selection
from scarless.numerics.arrays import Vector

ROOMS = ("", ".datasets", ".diagnostics", ".engines", ".experiments", ".label_frequency", ".labelling", ".metrics")
ROOMS = (*ROOMS, ".field", ".models", ".raw", ".report", ".saved")


def public_names():
    """Return every public class and function once, by name."""
    modules = [importlib.import_module(f"scarless{room}") for room in ROOMS]
    return {name: getattr(module, name) for module in modules for name in module.__all__}


def public_calls():
    """Return the signatures of all public classes, functions and methods of scarless."""
    calls = {}
    for name, value in public_names().items():
        methods = [key for key in dir(value) if not key.startswith("_")] if inspect.isclass(value) else []
        found = {name: value, **{f"{name}.{key}": getattr(value, key) for key in methods}}
        for call, function in found.items():
            ours = (getattr(function, "__module__", None) or "").startswith("scarless")
            if callable(function) and ours and not _is_exception_or_enum(function):
                calls[call] = inspect.signature(function)
    return calls


def _is_exception_or_enum(value):
    return inspect.isclass(value) and (issubclass(value, BaseException) or hasattr(value, "__members__"))


CALLS = public_calls()


@pytest.mark.parametrize("call", CALLS)
def test_a_signature_reads_well_in_help(call):
    """ArrayLike is shown by its name: written out it has 300 characters, and a signature would fill a screen."""
    shown = str(CALLS[call])
    assert len(shown) <= 60 + 50 * len(CALLS[call].parameters), shown
    assert len(shown) <= 720, shown
    assert not re.search(r"\b_[a-z]", shown), f"the signature shows a private name: {shown}"
    assert " at 0x" not in shown, f"the signature shows a memory address: {shown}"


def test_an_array_is_called_an_array():
    assert "s: ArrayLike" in str(CALLS["scar_test"])
    assert "sample_weight: ArrayLike | None = None" in str(CALLS["scar_test"])
    assert str(CALLS["SCARClassifier.predict_proba"]) == "(self, X: Any) -> Matrix"
    assert "audit: ArrayLike | None = None" in str(CALLS["SAREMClassifier.fit"])


@pytest.mark.parametrize("call", CALLS)
def test_a_matrix_is_not_called_a_vector(call):
    name, method = call.partition(".")[::2]
    value = getattr(public_names()[name], method) if method else public_names()[name]
    returned = re.search(r"Returns\n-+\n(.*)", inspect.getdoc(value) or "")
    is_matrix = returned is not None and re.search(r"shape \(\w+, \w+\)", returned[1])
    if is_matrix or re.search(r"predict_proba$|predict_\w+_interval$", method):
        assert CALLS[call].return_annotation is not Vector


@pytest.mark.parametrize("call", CALLS)
def test_one_word_for_an_estimator_of_the_users(call):
    """The word is `estimator`, or `propensity_estimator` if there are two, or `estimators` for a list."""
    others = {"classifier", "clf", "base_estimator", "model", "learner", "propensity_model", "classifiers", "models"}
    if call == "analyse":  # its `model` is the name of a kind of model, as on the command line
        others = others - {"model"}
    assert not others & set(CALLS[call].parameters)


@pytest.mark.parametrize("call", CALLS)
def test_one_word_for_folds(call):
    """The word is `cv`, as in scikit-learn."""
    assert not {"n_folds", "cross_fit", "folds"} & set(CALLS[call].parameters)


@pytest.mark.parametrize("call", [call for call in CALLS if re.search(r"\.(predict|draw)_posterior", call)])
def test_a_posterior_requires_labels(call):
    assert CALLS[call].parameters["s"].default is inspect.Parameter.empty


# --- class_prior_interval has one signature and one meaning


def public_classes():
    return {name: value for name, value in public_names().items() if inspect.isclass(value)}


def has_interval(value):
    fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    return hasattr(value, "class_prior_interval") or "class_prior_interval" in fields


WITH_INTERVAL = [name for name, value in public_classes().items() if has_interval(value)]
ESTIMATORS = [name for name in WITH_INTERVAL if issubclass(public_classes()[name], BaseEstimator)]
LEARNER = {name: {"estimator": LogisticRegression()} for name in ("ElkanNoto", "DEDPUL", "BestBinEstimator")}
FITS = {
    "SAREMClassifier": lambda: scarless.SAREMClassifier(propensity_attributes=[2]),
    "SAREMClassifierCV": lambda: scarless.SAREMClassifierCV(propensity_attributes=[2], Cs=[1.0], cv=2, random_state=0),
    "SARStackingClassifier": lambda: scarless.SARStackingClassifier(
        [("naive Bayes", GaussianNB())], propensity_attributes=[2], cv=2, random_state=0
    ),
    "SCARClassifier": scarless.SCARClassifier,
    "TableClassifier": lambda: scarless.TableClassifier(scarless.SCARClassifier(), preparation="passthrough"),
    **{
        name: lambda name=name: getattr(label_frequency, name)(**LEARNER.get(name, {}), n_resamples=20, random_state=0)
        for name in label_frequency.__all__
    },
}


def make_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = rng.random(300) < 1 / (1 + np.exp(1 - 3 * X[:, 0] - X[:, 1]))
    return X, (y & (rng.random(300) < 0.5)).astype(int)


@pytest.fixture(scope="module", params=sorted(FITS))
def fitted(request):
    return FITS[request.param]().fit(*make_rows())


def test_every_estimator_with_an_interval_is_tested():
    # The paper's EM has no intervals: its methods raise an error.
    assert set(ESTIMATORS) - {"PublishedEMClassifier"} == set(FITS)
    assert len(WITH_INTERVAL) > len(ESTIMATORS)


@pytest.mark.parametrize("name", WITH_INTERVAL)
def test_an_interval_of_the_class_prior_has_one_form(name):
    """Estimators have a method with a keyword `level`; results have an `Interval` and the level at which it holds."""
    value = public_classes()[name]
    if issubclass(value, BaseEstimator):
        for method in (value.class_prior_interval, value.label_frequency_interval):
            parameters = inspect.signature(method).parameters
            assert (parameters["level"].kind, parameters["level"].default) == (inspect.Parameter.KEYWORD_ONLY, 0.95)
            assert inspect.signature(method).return_annotation is Interval
    else:
        fields = {field.name: field.type for field in dataclasses.fields(value)}
        assert fields["class_prior_interval"] is Interval
        assert "level" in fields


def test_an_interval_of_the_class_prior_has_one_meaning(fitted):
    for interval, value in (
        (fitted.class_prior_interval, fitted.class_prior_),
        (fitted.label_frequency_interval, fitted.label_frequency_),
    ):
        wide, narrow = interval(), interval(level=0.5)
        assert type(wide) is type(narrow) is Interval
        assert wide == interval(level=0.95)
        assert 0 <= wide.low <= narrow.low <= value <= narrow.high <= wide.high <= 1
        for level in (0, 1, 95, None):
            with pytest.raises(ValueError, match="level must"):
                interval(level=level)


# --- selection_ has one type, tol has one meaning


@pytest.mark.parametrize("name", ["SAREMClassifier", "SAREMClassifierCV", "SCARClassifier"])
def test_selection_has_the_same_type_in_all_estimators(name):
    model = FITS[name]().fit(*make_rows())
    chosen = model.selection_
    candidates = model.cv_results_["params"] if hasattr(model, "cv_results_") else model.optima_
    assert type(chosen) is Selection
    assert type(chosen.class_priors) is Interval
    assert chosen.index in chosen.members
    assert set(chosen.members) <= set(chosen.possible)
    assert len(chosen.behind) == len(chosen.standard_error) == len(candidates)
    assert str(chosen) == chosen.reason


WITH_TOL = [
    name
    for name, value in public_classes().items()
    if issubclass(value, BaseEstimator) and "tol" in inspect.signature(value).parameters
]


@pytest.mark.parametrize("name", WITH_TOL)
def test_tol_is_a_gain_in_log_likelihood_per_row(name):
    """The docstring of every estimator with `tol` says so, and gives the default."""
    documented = " ".join(inspect.getdoc(public_classes()[name]).split())
    description = re.search(r" tol : float.*? (?:max_iter|slope_tol) :", documented)[0]
    assert re.search(r"\bgains? less than this\b", description)
    assert "log-likelihood per row" in description
    assert re.search(r"1e-\d+", description), "the default"


# --- words of docs/glossary.md, and words that must not be used again

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted((ROOT / "src" / "scarless").rglob("*.py"))
REMOVED_WORDS = {
    r"\bwhoever\b": "name the person or the program",
    r"\bwho cannot\b": "name the person",
    r"imaginary audit|imagined audit": "pseudo-observation",
    r"\bbasins?\b": "optimum",
    r"\brelax(?:ed|es|ation|ing)? (?!Lasso|it\b)": "recalibrate",
    r"\bexchang(?:ed|eable) (?:models|fit)": "swapped",
    r"\bclimb(?:s|ed|ing)?\b": "optimise, iterate",
    r"\bwalk(?:s|ed|ing)? (?:through|along)\b": "evaluate on a grid",
    r"cannot be meant": "what is wrong, and what to do",
    r"not to be had": "not available",
    r"as far as chance": "no detectable misfit",
    r"nat of log-likelihood": "log-likelihood differences are divided by 3",
    r"what speaks for": "main reasons",
    r"chance to be positive|chance of being positive": "probability of being positive",
    r"\bname of rows\b": "identifier",
    r"as an id is\b": "like an identifier",
    r"the other one's": "name the thing",
    r"asked for by the issue|which stood here": "a results page is no diary",
}
# These modules contain old names, because they read files of earlier versions.
OLD_NAMES = ("saved/earlier.py", "saved/trusted.py")
CONCEPTS = {
    *("attribute", "audit", "block", "class prior", "cross-fit", "engine", "false positive", "grid of class priors"),
    *("known value", "label", "label frequency", "labelling mechanism", "look", "naive model", "optimum", "pass"),
    *("posterior", "profile of the class prior", "propensity", "pseudo-observations", "recalibrated fit"),
    *("SAR", "SCAR", "start", "swap"),
}
VAGUE = {
    *("OFTEN", "HALF", "HARDLY", "FAR", "SURE", "STUCK", "NOTHING", "NONE", "FEW", "FEWEST", "MANY", "WIDE", "WIDEST"),
    *("NARROWEST", "FARTHEST", "LONGEST", "LOWEST", "BETTER", "APART", "NEAR", "NEAREST", "LASTING", "MOVED"),
    *("CREEPING", "DOUBT", "MISSING", "FOLLOW", "GROUP", "ROUGH", "STRONGEST", "EDGE", "SILENT", "BROKEN"),
    *("PURE", "ELSEWHERE", "FREE", "UNKNOWN", "WEAK", "NOTEWORTHY", "SHOWN", "CHOSEN", "OUTSIDE", "HEAVY"),
    *("NOISE", "REJECTED", "SUSPECT", "SMALLEST", "LARGEST", "STRANGER", "TOP", "ANY", "MORE", "ALONE"),
}
SHARED = {  # the beginning of the description of parameters that many functions have
    "X": "Attributes of the rows",
    "s": "Observed labels: 1 for labelled rows, 0 for unlabelled rows",
    "sample_weight": "Weight of each row; 1 by default",
    "level": "Confidence level",
    "ax": "Axes to draw on",
    "pos_label": "Value that marks a labelled row",
    "random_state": "Seed of the random numbers",
    "propensity_attributes": "Columns that the propensity depends on",
}


@cache
def texts():
    """Return the text of each page and module by its name."""
    old = {ROOT / "src" / "scarless" / name for name in OLD_NAMES}
    paths = (path for path in [*PAGES, *MODULES] if path not in old)
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@pytest.mark.parametrize("pattern", REMOVED_WORDS)
def test_a_removed_word_is_not_used_again(pattern):
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts().items()
        if re.search(pattern, text, re.IGNORECASE)
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE)
    ]
    assert not found, f"write {REMOVED_WORDS[pattern]!r} instead"


def test_the_glossary_defines_every_concept_of_the_library():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    defined = set(re.findall(r"^([A-Za-z][A-Za-z -]*)\n(?= {4}\S)", text, re.MULTILINE))
    assert defined >= CONCEPTS, CONCEPTS - defined


def test_no_two_classes_share_a_name():
    places = defaultdict(list)
    for path in MODULES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: those for name, those in places.items() if len(those) > 1} == {}


def constants():
    for path in MODULES:
        for node in tree_of(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and target.id.isupper():
                    yield path.relative_to(ROOT).as_posix(), target.id


def test_a_constants_name_says_what_it_measures():
    """An adjective or adverb alone does not say it; MIN_LABELLED_PER_FOLD does."""
    assert [(path, name) for path, name in constants() if name.strip("_") in VAGUE] == []


def described(value):
    """Yield the parameters that a docstring in NumPy's style describes, with their descriptions."""
    found = re.search(r"Parameters\n-+\n(.*?)(?:\n\n[A-Z][A-Za-z ]+\n-+|\Z)", inspect.getdoc(value) or "", re.DOTALL)
    for entry in re.split(r"\n(?=\S)", found[1]) if found else ():
        head, _, body = entry.partition("\n")
        for name in head.partition(" : ")[0].split(", "):
            yield name, " ".join(body.split())


@pytest.mark.parametrize("parameter", SHARED)
def test_a_shared_parameter_is_described_in_one_way(parameter):
    """At least 60% of the descriptions begin with the shared words, or refer to another function."""
    texts = []
    for value in public_names().values():
        names = [key for key in vars(value) if not key.startswith(("_", "set_"))] if inspect.isclass(value) else []
        for documented in (value, *filter(inspect.isfunction, [getattr(value, key) for key in names])):
            texts += [text for name, text in described(documented) if name == parameter]
    shared = [text for text in texts if text.startswith((SHARED[parameter], "See `"))]
    assert len(shared) >= 0.6 * len(texts) > 0, Counter(texts)
