"""The page of the method agrees with the code, with the signatures and with the stored records."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import scarless

page = pytest.importorskip("benchmarks.page", reason="the benchmarks are not part of the distribution")
records = pytest.importorskip("benchmarks.records")

ROOT = Path(__file__).parents[1]
METHOD = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
ESTIMATORS = ("SAREMClassifier", "SAREMClassifierCV", "SARStackingClassifier", "PropensityWeightedClassifier")
ESTIMATORS = (*ESTIMATORS, "SCARClassifier", "StratifiedSCARClassifier")
WITHOUT_INFLUENCE = {"pos_label", "n_jobs", "verbose"}
RESULTS = page.Results(records.read())


def sections(text):
    """Return the text of each section that contains a formula of its own, by heading."""
    parts = re.split(r"^(##+ .*)$", text, flags=re.MULTILINE)
    return {head: body for head, body in zip(parts[1::2], parts[2::2], strict=True) if "$$" in body}


def resolve(name):
    """Return the object with a dotted name: a module, or something in a module or class."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def defaults():
    """Return the rows of the table of defaults: what is in code marks in the first column."""
    table = METHOD.partition("## Defaults that change answers")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE)


@pytest.mark.parametrize("path", page.DOCUMENTS, ids=lambda path: path.name)
def test_numbers_agree_with_the_records(path):
    text = path.read_text(encoding="utf-8")
    assert page.with_current_tables(text, RESULTS) == text, "run python -m benchmarks page"
    assert page.misquoted(text, RESULTS) == []


def test_a_wrong_number_is_found():
    results = page.Results([{"benchmark": "b", "table": "t", "case": "one", "values": {"x": "0.12"}}])
    assert page.misquoted("<!-- {{b.t[one].x}} -->\n\nIt is 0.12, and `0.5`, and $0.7$, see arXiv:1.2.", results) == []
    assert page.misquoted("<!-- {{b.t[one].x}} -->\n\nIt is 0.13.", results) == [".13", "b.t[one].x"]
    assert page.misquoted("It is 0.12.", results) == [".12"]
    assert page.misquoted("<!-- {{b.t[one].x}} -->\n\nIt is 0.12.\n\nIt is 0.12.", results) == [".12"]


def test_a_number_of_a_file_must_be_in_the_file():
    results = page.Results([])
    assert page.misquoted("<!-- {{file pyproject.toml}} -->\n\nIt is 0.987.", results) == [".987"]
    assert page.misquoted("<!-- {{file src/scarless/pair/crossed.py}} -->\n\nFrom .025 to .021.", results) == []


def test_tables_are_written_anew():
    results = page.Results([{"benchmark": "b", "table": "t", "case": "one", "values": {"x": 7}}])
    text = "<!-- {{table b.t | case | x}} -->\n\n| old |\n|---|\n\nText."
    written = "| case | x |\n|---|---|\n| one | 7 |"
    assert page.with_current_tables(text, results) == text.replace("| old |\n|---|", written)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(scarless(?:\.\w+)+)`", METHOD))))
def test_every_function_that_the_page_names_exists(name):
    assert resolve(name) is not None


def test_every_formula_names_its_function_and_is_compared_with_it():
    found = sections(METHOD)
    assert len(found) >= 15
    without = [head for head, body in found.items() if "Computed by" not in body or ">>> " not in body]
    assert without == ["## The model"]  # the definition of the model, whose likelihood is the next section


@pytest.mark.parametrize("row", defaults())
def test_a_default_of_the_table_is_the_default_of_the_code(row):
    if found := re.fullmatch(r"(\w+)\((\w+)=(.+)\)", row):
        signature = inspect.signature(getattr(scarless, found[1]))
        assert signature.parameters[found[2]].default == ast.literal_eval(found[3])
    else:
        name, _, value = row.partition(" = ")
        assert resolve(name) == ast.literal_eval(value)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_default_that_may_change_answers_is_in_the_table(name):
    listed = {row.partition("(")[2].partition("=")[0] for row in defaults() if row.startswith(f"{name}(")}
    parameters = inspect.signature(getattr(scarless, name)).parameters.values()
    has_default = {each.name for each in parameters if each.default is not inspect.Parameter.empty}
    assert listed == has_default - WITHOUT_INFLUENCE


def test_other_numbers_beside_a_default_agree_with_the_source():
    """Numbers that the page mentions beside a default, and that are not themselves a signature or a constant."""
    from scarless.models.sar_em_cv import _FOLD_TOL, _penalties
    from scarless.models.sar_stacking import default_boosting
    from scarless.numerics.newton import MAX_MATRIX_PARAMETERS
    from scarless.pair import boosting, cross_fit, crossed, draws, recalibrated, stack, starts

    Cs, trees = _penalties(10, "Cs"), default_boosting()
    assert f"penalties from {Cs[0]:.2g} to {Cs[-1]:.0f}" in METHOD
    assert f"boosting with {trees.max_iter} trees of {trees.max_leaf_nodes} leaves" in METHOD
    assert f"a forest of {draws.FOREST_DRAWS} trees" in METHOD
    assert (
        f"at most {draws.MAX_LABELLED_PER_DRAW:,}; chances 1/e, with e at least {draws.MIN_PROPENSITY_OF_DRAWS}"
        in METHOD
    )
    assert f"e^{{\\ell_j / {stack.LOG_LIKELIHOOD_SCALE:.0f}}}" in METHOD
    assert f"less than {100 * stack.MIN_WEIGHT:.0f}% of the weight" in METHOD
    assert f"more than {MAX_MATRIX_PARAMETERS:,}\nparameters" in METHOD
    assert f"Tables of {starts.MIN_ROWS_FOR_PARTS:,} rows" in METHOD
    assert f"balanced weights, {cross_fit._START_ROUNDS} rounds" in METHOD
    rounds = f"stage of {boosting.ROUNDS_PER_EARLY_STAGE} or {boosting.ROUNDS_PER_LATER_STAGE} rounds"
    assert rounds in METHOD
    assert f"did not rise for {crossed._PATIENCE_ROUNDS} rounds" in METHOD
    odds = f"{recalibrated.MISSING_ATTRIBUTE_ODDS}\\,\\exp(\\min(G, {recalibrated._MAX_GAIN_BY_FOLLOWING:.0f})"
    assert f"{odds}/{recalibrated.MISSING_ATTRIBUTE_SCALE:.0f})" in METHOD
    assert f"\\tau = {recalibrated.MODEL_ERROR}" in METHOD
    assert np.isclose(_FOLD_TOL, 1e-8)
    assert "1e-8 in folds" in METHOD


def test_a_search_does_what_the_program_on_the_page_says():
    """Two sets of attributes, one penalty: fit in folds, recalibrate, average, recalibrate the mean once more."""
    from scarless.numerics.linear import Design
    from scarless.pair.logistic import engine_of
    from scarless.pair.problem import PairProblem
    from scarless.pair.recalibrated import recalibrate, recalibrate_beside_missing_attribute

    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(240, 3)), np.ones(240)
    s = (rng.random(240) < 1 / (1 + np.exp(-2 * X[:, 0]))) * (rng.random(240) < 1 / (1 + np.exp(-X[:, 2]))) * 1.0
    folds = [(np.flatnonzero(np.arange(240) % 3 != k), np.flatnonzero(np.arange(240) % 3 == k)) for k in range(3)]
    settings = {"propensity_attributes": [2], "random_state": 0}
    search = scarless.SAREMClassifierCV(**settings, Cs=[1.0], cv=folds, n_standard_errors=100.0).fit(X, s)
    assert len(search.selection_.members) == 2

    def logits(columns, rows):
        model = scarless.SAREMClassifier(
            **settings, classification_attributes=columns, known=[scarless.PseudoObservations(8)], tol=1e-12
        ).fit(X[rows], s[rows])
        return np.append(model.coef_[0], model.intercept_)

    def problem_with(u):
        rows = engine_of(X, s=s, w=w, u=u)
        return PairProblem.of(rows, Design.of(np.arange(3)), Design.of(np.array([2])), C=1.0, propensity_C=1.0)

    out_of_fold, linear = [], []
    for columns in ([0, 1, 2], [0, 1]):
        u = np.zeros(240)
        for train, test in folds:
            beta = logits(columns, train)
            u[test] = X[test] @ beta[:3] + beta[3]
        found = recalibrate(problem_with(u), pseudo_weight=8.0)
        out_of_fold.append(found(u))
        linear.append(found.of_linear(logits(columns, np.arange(240))))
    mean = problem_with(np.mean(out_of_fold, axis=0))
    last, _ = recalibrate_beside_missing_attribute(mean, pseudo_weight=8.0)
    expected = last.of_linear(np.mean(linear, axis=0))
    np.testing.assert_allclose(np.append(search.coef_[0], search.intercept_), expected, atol=1e-3)
    np.testing.assert_allclose(search.class_prior_, last.class_prior, atol=1e-3)


def test_boosting_does_what_the_program_on_the_page_says():
    """Two stages in two folds: trees fitted to G/H with weights H, then the propensity by the observed likelihood."""
    from scipy.special import expit, logit
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    from scarless.numerics.linear import Design
    from scarless.pair.cross_fit import LogisticPropensity
    from scarless.pair.logistic import engine_of
    from scarless.pair.problem import PairProblem, add_pseudo_observations

    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, size=(200, 3)) / 2.0  # few values, so that binning changes nothing
    s = (rng.random(200) < expit(2 * X[:, 0])) * (rng.random(200) < expit(X[:, 2])) * 1.0
    even = np.arange(200) % 2 == 0
    folds = [(np.flatnonzero(even), np.flatnonzero(~even)), (np.flatnonzero(~even), np.flatnonzero(even))]
    trees = HistGradientBoostingClassifier(max_iter=25, max_leaf_nodes=4)
    model = scarless.SAREMClassifier(trees, propensity_attributes=[2], cv=folds, random_state=0).fit(X, s)

    def stage(z, gradient):
        """Add 5 trees to the logits z of all rows, by the model of each fold; return out-of-fold logits."""
        for fold, (train, _) in enumerate(folds):
            G, H = gradient(z[fold], train)
            grown = HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=4, early_stopping=False)
            z[fold] += grown.fit(X[train], G / H, sample_weight=H).predict(X)
        return np.where(even, z[1], z[0])

    def separate(z, rows):
        weight = np.where(s == 1, 1 - s.mean(), s.mean())[rows]
        p, weight = expit(z[rows]), weight / weight.mean()
        return weight * (s[rows] - p), weight * p * (1 - p)

    def observed(z, rows):
        f, e = expit(z[rows]), expit(propensity.v[rows])
        r = s[rows] - (1 - s[rows]) * f * e / (1 - f * e)
        return r * (1 - f), f * (1 - f)

    table = engine_of(X[:, [2]], s=s, w=np.ones(200))
    problem = PairProblem.of(table, Design.of(np.arange(0)), Design.of(np.arange(1)), 1.0, 1.0)
    pseudo = add_pseudo_observations(table, problem.e, 4.0, swappable=False)
    propensity = LogisticPropensity(problem._replace(pseudo_observations=pseudo))
    z = [np.zeros(200), np.zeros(200)]
    for _ in range(4):  # 20 rounds
        f = expit(stage(z, separate))
    propensity.start(f)
    base = logit(s.mean() / (f @ expit(propensity.v) / f.sum()))
    z = [np.full(200, base), np.full(200, base)]
    found = model.fitted_pair_.source.fit
    for k in range(found.best + 1):  # the trees of the best stage are kept
        u = stage(z, observed)
        if k >= 4:  # boosting uses the propensity attribute, so the first 20 rounds keep the first propensity
            propensity.update(u)
    assert found.best == 4
    np.testing.assert_allclose(found.u, u, atol=1e-9)
