"""All public functions accept columns in the same forms, and refuse invalid columns with the same messages."""

import importlib
import inspect
import pickle
import re
import warnings
from itertools import product

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import make_column_selector

from scarless import (
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    StratifiedSCARClassifier,
)
from scarless.diagnostics import LabellingAttributesDisplay, labelling_attributes, scar_test
from scarless.labelling import GeometricMeanSAR, LogisticSAR, StepSAR, StratifiedSAR

NAMES = ["home_town", "home_farm", "smoker", "insured", "age", "visits"]
K = 4  # Tests select from the first K columns, which are binary.


def make_table(n_rows=160):
    rng = np.random.default_rng(5)
    home = rng.integers(0, 3, n_rows)
    X = np.column_stack([home == 1, home == 2, rng.random((n_rows, 2)) < 0.5, rng.normal(size=(n_rows, 2))]) * 1.0
    y = X[:, 4] + rng.normal(size=n_rows) > 0
    return pd.DataFrame(X, columns=NAMES), (y & (rng.random(n_rows) < 0.3 + 0.2 * X[:, 0] + 0.3 * X[:, 3])) * 1


X, S = make_table()
FRAMES = {"pandas": X, "polars": pl.DataFrame(X.to_dict("list")), "array": X.to_numpy()}


def both(model, table, probability=True):
    model.fit(table, S)
    return np.append(model.predict_propensity(table), model.predict_proba(table)[:, 1] if probability else [])


def logistic(table, selector):
    """Try each number of coefficients, because the number of selected columns is not known here."""
    for k in range(1, K + 1):
        try:
            return LogisticSAR(selector, 2.0 ** np.arange(k)).propensity(table)
        except ValueError as error:
            if "coefficients must have" not in str(error):
                raise
    raise AssertionError("no number of coefficients fits")


def stratified(table, selector):
    for k in range(1, K + 1):
        strata = list(product([0, 1], repeat=k))
        try:
            return StratifiedSAR(
                selector, dict(zip(strata, np.linspace(0.1, 0.9, len(strata)), strict=True))
            ).propensity(table)
        except ValueError as error:
            if "the stratum" not in str(error):
                raise
    raise AssertionError("no number of values fits")


def drawn(table, **options):
    with mpl.rc_context({"backend": "agg"}):
        display = LabellingAttributesDisplay.from_data(table, S, **TEST, **options)
        plt.close(display.figure_)
    return display.result.effect


class StandInFrequency:
    """A fast stand-in for an estimator of the label frequency; its result depends on the columns."""

    def fit(self, table, s):
        self.label_frequency_ = 1 / (2 + np.asarray(table)[0].sum() % 1)
        return self


FEW_STEPS = {"tol": 1.0, "slope_tol": 1.0, "window": 2}
CV = {"Cs": [1.0], "cv": 2, "random_state": 0, "recalibrate": False}
STACK = {"estimators": [("logistic", None)], "cv": 2, "random_state": 0}
TEST = {"estimator": "logistic", "cv": 2, "random_state": 0}
PLACES = {
    "SAREMClassifier.propensity_attributes": lambda t, a: both(SAREMClassifier(propensity_attributes=a), t),
    "SAREMClassifier.classification_attributes": lambda t, a: both(
        SAREMClassifier(propensity_attributes=[5], classification_attributes=a), t
    ),
    "PublishedEMClassifier.propensity_attributes": lambda t, a: both(
        PublishedEMClassifier(propensity_attributes=a, **FEW_STEPS), t
    ),
    "PublishedEMClassifier.classification_attributes": lambda t, a: both(
        PublishedEMClassifier(propensity_attributes=[5], classification_attributes=a, **FEW_STEPS), t
    ),
    "SAREMClassifierCV.propensity_attributes": lambda t, a: both(
        SAREMClassifierCV(propensity_attributes=a, attribute_sets=[None], **CV), t
    ),
    "SAREMClassifierCV.attribute_sets": lambda t, a: both(
        SAREMClassifierCV(propensity_attributes=[5], attribute_sets={"one": a}, **CV), t
    ),
    "SARStackingClassifier.propensity_attributes": lambda t, a: both(
        SARStackingClassifier(propensity_attributes=a, attribute_sets=[None], **STACK), t
    ),
    "SARStackingClassifier.attribute_sets": lambda t, a: both(
        SARStackingClassifier(propensity_attributes=[5], attribute_sets={"one": a}, **STACK), t
    ),
    "StratifiedSCARClassifier.propensity_attributes": lambda t, a: both(
        StratifiedSCARClassifier(a, label_frequency=StandInFrequency(), min_rows=20), t
    ),
    "GeometricMeanSAR.attributes": lambda t, a: GeometricMeanSAR(a).propensity(t),
    "LogisticSAR.attributes": logistic,
    "StratifiedSAR.attributes": stratified,
    "StepSAR.attribute": lambda t, a: StepSAR(a, [0.5], [0.2, 0.7]).propensity(t),
    "scar_test.propensity_attributes": lambda t, a: scar_test(t, S, propensity_attributes=a, **TEST).statistic,
    "scar_test.classification_attributes": lambda t, a: (
        scar_test(t, S, propensity_attributes=[5], classification_attributes=a, **TEST).statistic
    ),
    "labelling_attributes.propensity_attributes": lambda t, a: (
        labelling_attributes(t, S, propensity_attributes=a, **TEST).effect
    ),
    "labelling_attributes.classification_attributes": lambda t, a: (
        labelling_attributes(t, S, propensity_attributes=[5], classification_attributes=a, **TEST).effect
    ),
    "LabellingAttributesDisplay.from_data.propensity_attributes": lambda t, a: drawn(t, propensity_attributes=a),
    "LabellingAttributesDisplay.from_data.classification_attributes": lambda t, a: drawn(
        t, propensity_attributes=[5], classification_attributes=a
    ),
}
ORDERED = (
    "GeometricMeanSAR",
    "LogisticSAR",
    "StratifiedSAR",
    "StratifiedSCAR",
)  # have a value for each column, so the order of columns matters
PLACE = pytest.mark.parametrize(("place", "use"), PLACES.items(), ids=PLACES)


def quietly(use, table, selector):
    """Call `use` and ignore its warnings, which the small number of rows causes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return use(table, selector)


def spellings(columns, kind):
    """Return all forms in which the same columns can be named."""
    n, names = len(NAMES), [NAMES[j] for j in columns]
    mask = np.isin(np.arange(n), columns)
    ways = {
        "positions": columns,
        "array of positions": np.array(columns),
        "negative positions": [j - n for j in columns],
        "mask": mask,
        "list of truth values": mask.tolist(),
        "callable": lambda table: [j - n for j in columns],
        "callable for a mask": lambda table: mask,
    }
    if columns == list(range(columns[0], columns[-1] + 1)):
        ways["slice"] = slice(columns[0], columns[-1] + 1)
        ways["slice from the end"] = slice(columns[0] - n, columns[-1] + 1 - n)
    if len(columns) == 1:
        ways["position"] = columns[0]
        ways["negative position"] = columns[0] - n
    if kind == "array":
        return ways
    ways |= {"names": names, "index": pd.Index(names), "names and positions": [*names[:1], *columns[1:]]}
    if "slice" in ways:
        ways["slice of names"] = slice(names[0], names[-1])
    if len(columns) == 1:
        ways["name"] = names[0]
    if kind == "polars":
        wanted = f"^({'|'.join(names)})$"
        return ways | {"selector": cs.matches(wanted), "expression": pl.col(names), "in a list": [cs.matches(wanted)]}
    return ways | {
        "make_column_selector": make_column_selector(f"^({'|'.join(names)})$"),
        "mask with names": pd.Series(mask, index=NAMES)[::-1],
    }


@PLACE
@settings(deadline=None, max_examples=3)
@given(data=st.data())
def test_all_spellings_mean_the_same_columns(place, use, data):
    kind = data.draw(st.sampled_from(list(FRAMES)))
    most = 1 if place.startswith("StepSAR") else K - 1
    columns = sorted(data.draw(st.sets(st.integers(0, K - 1), min_size=1, max_size=most)))
    ways = spellings(columns, kind)
    few = 1 if "Stacking" in place else 4  # because a stack takes half a second
    chosen = data.draw(st.permutations(list(ways)))[: None if "SAR." in place else few]
    expected = quietly(use, FRAMES[kind], columns)
    for way in chosen:
        np.testing.assert_array_equal(quietly(use, FRAMES[kind], ways[way]), expected, err_msg=way)
    if len(columns) > 1 and not place.startswith(ORDERED):
        np.testing.assert_array_equal(quietly(use, FRAMES[kind], columns[::-1]), expected)


@PLACE
def test_the_columns_that_are_selected_matter(place, use):
    """Otherwise the test above could not fail."""
    assert not np.array_equal(quietly(use, X, [1]), quietly(use, X, [3]))


@PLACE
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_raw_name_means_all_its_columns(place, use, kind):
    if place.startswith("StepSAR"):
        with pytest.raises(ValueError, match="attribute must select one column; it selects 2 "):
            use(FRAMES[kind], "home")
        return
    expected = quietly(use, FRAMES[kind], [0, 1])
    ways = {"pandas": ("home", slice("home", "home")), "polars": (["home"], lambda table: ["home"])}[kind]
    for raw in ways[:1] if "Stacking" in place else ways:
        np.testing.assert_array_equal(quietly(use, FRAMES[kind], raw), expected)


HOME = "'home' (columns 'home_town', 'home_farm')"
REFUSED = {
    "unknown": (["smokers"], "{} names 'smokers', which is not a column of X. Did you mean 'smoker'?"),
    "one level": (["home_towm"], f"{{}} names 'home_towm', which is not a column of X. Did you mean {HOME}?"),
    "like none": ("zzz", "{} names 'zzz', which is not a column of X. The columns are 'home_town', 'home_farm', 'smo"),
    "out of range": ([6], "{} selects column 6, but columns of X are numbered 0 to 5."),
    "before the first": ([-7], "{} selects column -7, but columns of X are numbered 0 to 5."),
    "twice": (["home", -6], "{} must select each column only once. Selected more than once: 'home_town'."),
    "empty": ([], "{} selects no column; select at least one"),
    "empty slice": (slice(3, 3), "{} selects no column; select at least one"),
    "empty mask": ([False] * 6, "{} selects no column; select at least one"),
    "short mask": ([True], "{} is a mask of length 1, but X has 6 columns."),
    "number": (
        [1.5],
        "{} must be names or column numbers, a slice, a mask, a callable or a polars selector; got",
    ),
    "slice": (
        slice(0.5),
        "{}: a slice must begin and end with a name or a column number, and its step must be a whole number; got 0.5.",
    ),
    "polars": (
        cs.last(),
        "{} has a polars selector, which needs a polars DataFrame, but X is of type DataFrame",
    ),
    "callable": (lambda table: ["zzz"], "{} names 'zzz', which is not a column of X."),
}


@PLACE
@pytest.mark.parametrize(("selector", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_columns_are_refused_with_the_same_message(place, use, selector, message):
    parameter = place.rpartition(".")[2]
    if place.startswith("StepSAR") and isinstance(selector, list) and len(selector) == 2:
        return  # StepSAR refuses two columns with another message
    with pytest.raises(ValueError, match=re.escape(message.format(parameter))):
        use(X, selector)


@PLACE
def test_a_name_needs_a_table_with_names(place, use):
    parameter = place.rpartition(".")[2]
    with pytest.raises(
        ValueError, match=f"{parameter} names the column 'age', but X has no column names. Pass X as a DataF"
    ):
        use(X.to_numpy(), "age")


@PLACE
def test_a_raw_name_that_may_mean_several_attributes_is_refused_everywhere(place, use):
    table = X.set_axis(["home_a", "home_b", "home_size_s", "home_size_l", "age", "visits"], axis=1)
    message = "'home_a', 'home_b'; 'home_size_s', 'home_size_l'. Give full column names"
    with pytest.raises(ValueError, match=message):
        use(table, "home")


# The next tests fail if a public function with such a parameter is missing from PLACES.

SENTENCE = (
    "names, positions, slice, mask, callable or polars selector. The name of an encoded attribute selects all of its "
    "columns."
)
PARAMETERS = {
    "propensity_attributes",
    "classification_attributes",
    "attribute_sets",
    "attributes",
    "attribute",
    "strata",
}
# The `attributes` of results are found, not passed by the user; `from_long` needs names of a long table.
RESULTS = {"BootstrapIntervals", "LabellingAttributes", "SCARTest", "from_long"}
ROOMS = ["models", "labelling", "label_frequency", "metrics", "diagnostics", "datasets", "experiments"]


def public_places():
    for room in ROOMS:
        module = importlib.import_module(f"scarless.{room}")
        for name in sorted(set(module.__all__) - RESULTS):
            thing = getattr(module, name)
            found = {name: thing}
            if inspect.isclass(thing):
                own = [each for each in vars(thing) if not each.startswith("_")]
                found |= {f"{name}.{each}": getattr(thing, each) for each in own}
            for path, each in found.items():
                taken = PARAMETERS & set(parameters_of(each))
                yield from ((path, each, parameter) for parameter in sorted(taken))


def parameters_of(thing):
    is_error = inspect.isclass(thing) and issubclass(thing, BaseException)
    return inspect.signature(thing).parameters if callable(thing) and not is_error else {}


def test_every_public_function_with_columns_is_tested():
    assert {f"{path}.{parameter}" for path, _, parameter in public_places()} == set(PLACES)


@pytest.mark.parametrize(
    ("path", "thing", "parameter"),
    [
        pytest.param(*place, id=f"{place[0]}.{place[2]}")
        for place in sorted(public_places(), key=lambda at: (at[0], at[2]))
    ],
)
def test_docstrings_describe_columns_in_the_same_words(path, thing, parameter):
    text = " ".join(inspect.getdoc(thing).split())
    if "from_data" in path:
        assert "As for `labelling_attributes`" in text or "See `labelling_attributes`" in text
        return
    assert SENTENCE in text
    if parameter in ("classification_attributes", "attribute_sets"):
        assert re.search("selected (?:as|like) `propensity_attributes`", text)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("model", [SAREMClassifier, SAREMClassifierCV, SARStackingClassifier, StratifiedSCARClassifier])
def test_models_of_any_selector_can_be_cloned_shown_and_pickled(model, kind):
    for way, selector in spellings([1, 2], kind).items():
        made = clone(model(propensity_attributes=selector))
        assert "propensity_attributes=" in repr(made), way
        if "callable" not in way:
            assert type(pickle.loads(pickle.dumps(made)).propensity_attributes) is type(selector)
