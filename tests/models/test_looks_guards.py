"""Functions for one label per row refuse models of looks, audits and known values; every refused option."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from tests.helpers import fit_quietly

import scarless
from scarless import ClassPrior, LabelFrequency, Labelling, PseudoObservations, SAREMClassifier, TableClassifier
from scarless.diagnostics import (
    ClassCalibrationDisplay,
    LabelCalibrationDisplay,
    Sensitivity,
    bootstrap_intervals,
    identifiability_report,
    labelling_attributes,
    profile_class_prior,
    scar_test,
)
from scarless.metrics import make_pu_scorer
from scarless.report import model_report
from scarless.saved.files import ModelFileError

N = 400
ONE = "needs a model with one label for each row, .* This SAREMClassifier was fitted with"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 4))
    y = rng.random(N) < expit(2 * X[:, 0] - X[:, 1])
    S = (y[:, None] & (rng.random((N, 2)) < expit(X[:, [2]]))).astype(int)
    return {"X": X, "S": S, "s": S[:, 0], "y": y, "audit": np.where(np.arange(N) < 80, y, np.nan)}


def _model(**parameters):
    return SAREMClassifier(**{"propensity_attributes": [2], **parameters})


@pytest.fixture(scope="module")
def models(data):
    X, S, s = data["X"], data["S"], data["s"]
    return {
        "looks": _model().fit(X, S),
        "own looks": _model(labelling=Labelling(shared=False)).fit(X, S),
        "audits": _model().fit(X, s, audit=data["audit"]),
        "false positives": _model(labelling=Labelling(false_positive_rate=0.02)).fit(X, s),
        "facts": _model(known=[ClassPrior(0.5, se=0.1)]).fit(X, s),
        "visits": _model(labelling=Labelling(visit_attributes={"v": [3]})).fit(X, s),
    }


EVERY = pytest.mark.parametrize("name", ["looks", "own looks", "audits", "false positives", "facts", "visits"])
MISREAD = pytest.mark.parametrize("name", ["looks", "own looks", "false positives", "visits"])
PLAIN = pytest.mark.parametrize("name", ["audits", "facts"])


def _s(data, name):
    return data["S"] if "looks" in name else data["s"]


@EVERY
def test_diagnostics_of_a_pair_work_with_looks_audits_and_known_values(models, data, name):
    model, X, s = models[name], data["X"], _s(data, name)
    given = {"audit": data["audit"]} if name == "audits" else {}
    report = identifiability_report(model)
    assert report.class_prior == model.class_prior_
    assert len(report.parameters) == model.fitted_pair_.inference.parameters.size
    profile = profile_class_prior(model, X, s, **given)
    assert profile.interval.low < model.class_prior_ < profile.interval.high
    low, high = model.class_prior_interval()  # for the population, by the delta method
    assert low - 0.05 < profile.interval.low < profile.interval.high < high + 0.05
    with pytest.raises(ValueError, match="kind='grid' needs a recalibrated fit"):
        model.class_prior_interval(kind="grid")


def test_a_profile_needs_the_labels_of_the_fit(models, data):
    with pytest.raises(
        ValueError, match=r"s has the shape \(400, 1\), but X has 400 rows and the model was fitted to 2 looks"
    ):
        profile_class_prior(models["looks"], data["X"], data["s"])
    with pytest.raises(ValueError, match="must be those that the model was fitted on"):
        profile_class_prior(models["looks"], data["X"], 1 - data["S"])


def test_a_report_needs_the_labels_of_the_fit(models, data):
    with pytest.raises(ValueError, match=r"s must have the shape \(400, 2\): .*; got the shape \(400, 1\)"):
        model_report(models["looks"], data["X"], data["s"])


def test_the_error_names_the_extra_information_of_the_model(models, data):
    for name, told in {"looks": "2 looks", "visits": "visit_attributes", "false positives": "false positives"}.items():
        with pytest.raises(ValueError, match=f"fitted with {told}"):
            Sensitivity.from_estimator(models[name], data["X"])


@MISREAD
def test_measures_by_the_propensity_of_one_look_are_refused(models, data, name, tmp_path):
    model, X, s = models[name], data["X"], data["s"]
    for metric in ("accuracy", "roc_auc", "neg_log_loss", "f1"):
        with pytest.raises(ValueError, match=f"This score {ONE}.*Use model.score"):
            make_pu_scorer(metric)(model, X, s)
    for display in (ClassCalibrationDisplay, LabelCalibrationDisplay):
        with pytest.raises(ValueError, match=f"This score {ONE}"):
            display.from_estimator(model, X, s)
    with pytest.raises(ValueError, match=f"Sensitivity {ONE}"):
        Sensitivity.from_estimator(model, X, s)
    with pytest.raises(
        ModelFileError, match="ONNX supports models with one label for each row; this SAREMClassifier was fitted with"
    ):
        scarless.to_onnx(model)


@PLAIN
def test_audits_and_known_values_do_not_change_the_meaning_of_propensity(models, data, name):
    model, X, s = models[name], data["X"], data["s"]
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    want = np.mean(np.where(s == 1, np.log(f * e), np.log(1 - f * e)))
    np.testing.assert_allclose(make_pu_scorer("observed_log_likelihood")(model, X, s), want)
    np.testing.assert_allclose(model.score(X, s), want)
    np.testing.assert_allclose(model.predict_posterior(X, s), np.where(s == 1, 1, f * (1 - e) / (1 - f * e)))
    assert 0.5 < make_pu_scorer("roc_auc")(model, X, s) < 1
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(scarless.to_onnx(model).SerializeToString())
    told = dict(zip([each.name for each in session.get_outputs()], session.run(None, {"X": X}), strict=True))
    np.testing.assert_allclose(np.ravel(told["propensity"]), e, rtol=1e-9)


def test_bootstraps_fit_the_same_model_again(models, data):
    X, S, s, audit = (data[name] for name in ("X", "S", "s", "audit"))
    found = bootstrap_intervals(models["own looks"], X, S, n_resamples=20, random_state=0)
    assert found["propensity_coef_"].low.shape == (2, 4)
    assert "c" not in str(found) or "propensity_coef_ x2" in str(found)
    audited = bootstrap_intervals(models["audits"], X, s, fit_params={"audit": audit}, n_resamples=20, random_state=0)
    counts = audited.samples["class_prior_"]
    assert np.std(counts) < 0.1
    known = bootstrap_intervals(models["facts"], X, s, n_resamples=20, random_state=0)
    plain = bootstrap_intervals(_model().fit(X, s), X, s, n_resamples=20, random_state=0)
    assert (known.samples["class_prior_"] != plain.samples["class_prior_"]).all()
    with pytest.raises(ValueError, match=r"s has the shape \(400,\), but the number of looks in the fit was 2"):
        bootstrap_intervals(models["looks"], X, s, n_resamples=20)
    with pytest.raises(
        ValueError, match=r"fitted with audits \(number of audited rows: 80\), so every refit needs them"
    ):
        bootstrap_intervals(models["audits"], X, s, n_resamples=20)
    with pytest.raises(ValueError, match="fit_params contains audit, but the model was fitted without audits"):
        bootstrap_intervals(models["looks"], X, S, fit_params={"audit": audit}, n_resamples=20)


CLASSIFIERS = ("NaiveClassifier", "SCARClassifier")
ESTIMATORS = ("BestBinEstimator", "DEDPUL", "ElkanNoto", "KernelMean", "TIcE")
SEVERAL = r"y should be a 1d array, got an array of shape \(400, 2\) instead. Only .* accept labels of several looks"


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(
    "name", [*CLASSIFIERS, *ESTIMATORS, "PropensityWeightedClassifier", "StratifiedSCARClassifier"]
)
def test_all_others_refuse_several_looks(data, name, gaps):
    S = np.where(data["S"] == 1, 1, np.nan) if gaps else data["S"]
    options = {"propensity_attributes": [3]} if name == "StratifiedSCARClassifier" else {}
    more = {"propensity": np.full(N, 0.5)} if name == "PropensityWeightedClassifier" else {}
    with pytest.raises(ValueError, match=SEVERAL):
        getattr(scarless, name)(**options).fit(data["X"], S, **more)


def test_tests_of_labels_refuse_several_looks(data):
    for test in (scar_test, labelling_attributes):
        with pytest.raises(ValueError, match=SEVERAL):
            test(data["X"], data["S"], propensity_attributes=[2])


def test_a_table_classifier_accepts_known_values(data):
    frame = pd.DataFrame(data["X"], columns=list("abcd"))
    inner = SAREMClassifier(propensity_attributes=["c"], known=[ClassPrior(0.5, se=0.01)])
    model = TableClassifier(inner).fit(frame, data["s"])
    assert abs(model.estimator_.class_prior_ - 0.5) < 0.03
    assert identifiability_report(model).class_prior == model.estimator_.class_prior_


# Options, and predictions of fitted models


ROWS = {
    "known": [
        (0.3, "known must be a list, such as"),
        (
            [0.3],
            r"known must contain only ClassPrior\(...\), LabelFrequency\(...\) and PseudoObservations\(...\); got 0.3",
        ),
        (
            [LabelFrequency(0.3, look=2)],
            "known has the label frequency of look 2, but labels have 2 looks",
        ),
        (
            [LabelFrequency(0.01, look=1)],
            r"known has the label frequency of look 1, 0\.01, but 0\.\d+ of the rows are labelled\. Labelled rows are",
        ),
        ([ClassPrior(0.3, where={3: 99})], "known has the class prior where 3 = 99, but no row has these values"),
        ([ClassPrior(0.3, where={"zz": 1})], "known names the column 'zz'"),
        ([PseudoObservations(4)], "PseudoObservations cannot be combined with several looks"),
    ],
    "visit_attributes": [
        ("effort", "visit_attributes must be a dict from names to lists of columns, one column for each look"),
        ({"effort": [3]}, r"visit_attributes\['effort'\] has 1 column, but labels have 2 looks"),
        ({"effort": 3}, r"visit_attributes\['effort'\] must be a list of columns, one for each look; got 3"),
        ({"effort": "ab"}, r"visit_attributes\['effort'\] must be a list of columns, one for each look; got 'ab'"),
        (
            {"effort": [2, 3]},
            "propensity_attributes has columns that are also visit_attributes or offset of the labelling",
        ),
    ],
    "false_positive_rate": [
        ("guess", "false_positive_rate must be a number, one number for each look, or 'estimate'; got 'guess'"),
        (0.5, r"false_positive_rate, .*, must be in \[0, 0.5\)"),
        (-0.1, r"false_positive_rate, .*, must be in \[0, 0.5\)"),
        (None, r"false_positive_rate, .*, must be in \[0, 0.5\).*got None"),
        (np.nan, r"false_positive_rate, .*, must be in \[0, 0.5\)"),
        (pd.NA, r"false_positive_rate, .*, must be in \[0, 0.5\)"),
        (np.full((2, 2), 0.1), r"false_positive_rate, .*, must be in \[0, 0.5\)"),
        ([0.1, 0.1, 0.1], "false_positive_rate has 3 numbers, but labels have 2 looks"),
        ([0.1, 0.2], "false_positive_rate differs between looks, but the looks share one propensity"),
    ],
    "shared": [("no", "shared must be True or False; got 'no'")],
    "n_starts": [
        (["random"], "n_starts must be a whole number if there are several looks"),
        ([0.4], "n_starts must be a whole number if there are several looks"),
    ],
}


SAID = Labelling().get_params()


@pytest.mark.parametrize(("parameter", "value", "match"), [(p, *row) for p, rows in ROWS.items() for row in rows])
def test_options_that_are_refused(data, parameter, value, match):
    given = {"labelling": Labelling(**{parameter: value})} if parameter in SAID else {parameter: value}
    with pytest.raises(ValueError, match=match):
        _model(**given).fit(data["X"], data["S"])


def test_the_class_model_does_not_use_columns_of_looks(data):
    with pytest.raises(
        ValueError, match="classification_attributes has columns that are also visit_attributes or offset"
    ):
        _model(classification_attributes=[0, 3], labelling=Labelling(visit_attributes={"v": [1, 3]})).fit(
            data["X"], data["S"]
        )


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: ClassPrior(1.5), "ClassPrior's value"),
        (lambda: ClassPrior(0.5, se=-1), "ClassPrior's se"),
        (lambda: ClassPrior(0.5, where={}), "ClassPrior's where must be a dict of columns and their values"),
        (lambda: ClassPrior(0.5, where="x"), "ClassPrior's where must be a dict of columns and their values"),
        (lambda: LabelFrequency(0), "LabelFrequency's value"),
        (lambda: LabelFrequency(0.5, se=-1), "LabelFrequency's se"),
        (lambda: LabelFrequency(0.5, look=-1), "LabelFrequency's look"),
        (lambda: PseudoObservations(-1.0), "PseudoObservations' weight must be a number of at least 0; got -1.0"),
        (
            lambda: PseudoObservations(np.inf),
            r"PseudoObservations' weight must be at most 1e\+100, so that sums stay finite",
        ),
        (lambda: PseudoObservations("auto"), "PseudoObservations' weight must be a number"),
    ],
)
def test_impossible_known_values_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_uninformative_labels_are_refused(data):
    X, s, S = data["X"], data["s"], data["S"]
    with pytest.raises(
        ValueError, match="false_positive_rate='estimate' needs audits of labelled rows, or a second look"
    ):
        _model(labelling=Labelling(false_positive_rate="estimate")).fit(X, s)
    with pytest.raises(ValueError, match="All 400 rows have a label at some look"):
        _model(labelling=Labelling(false_positive_rate="estimate")).fit(X, np.column_stack([s, 1 - s]))
    for rate in (0.0, [0.0, 0.0], np.zeros(2)):
        with pytest.raises(ValueError, match="were audited negative"):
            _model(labelling=Labelling(false_positive_rate=rate)).fit(X, S, audit=np.zeros(N))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[400, 399\]"):
        _model().fit(X, S[:-1])


def test_impossible_predictions_are_refused(models, data):
    X, S, s, audit = (data[name] for name in ("X", "S", "s", "audit"))
    plain, shared, own = _model().fit(X, s), models["looks"], models["own looks"]
    for ask in (plain.predict_propensity, plain.predict_propensity_interval):
        with pytest.raises(ValueError, match="look=1: this model was fitted to one label for each row"):
            ask(X, look=1)
    for ask in (plain.predict_posterior, plain.predict_posterior_interval):
        with pytest.raises(ValueError, match="audit: this model was fitted without audits"):
            ask(X, s, audit=audit)
    for ask in (own.predict_propensity, own.predict_propensity_interval):
        with pytest.raises(ValueError, match="the 2 looks of this model have different propensities"):
            ask(X)
        for look in (2, -1, 1.0, True, "a"):
            with pytest.raises(ValueError, match="look must be a whole number from 0 to 1"):
                ask(X, look=look)
    for ask in (shared.predict_posterior, shared.predict_posterior_interval):
        with pytest.raises(TypeError, match="s must be the observed labels of the rows"):
            ask(X, None)
        with pytest.raises(
            ValueError, match=r"s has the shape \(400, 1\), but X has 400 rows and the model was fitted to 2 looks"
        ):
            ask(X, s)
        with pytest.raises(ValueError, match="were audited negative"):
            ask(X, S, audit=np.zeros(N))
    with pytest.raises(
        ValueError, match=r"y has the shape \(399, 2\), but X has 400 rows and the model was fitted to 2 looks"
    ):
        shared.score(X, S[:-1])


def test_detection_curve(models, data):
    X, shared, own = data["X"], models["looks"], models["own looks"]
    f, e = shared.predict_proba(X)[:, 1], shared.predict_propensity(X)
    want = [f @ (1 - (1 - e) ** k) / f.sum() for k in (1, 2, 3)]
    np.testing.assert_allclose(shared.detection_curve(X, 3), want)
    np.testing.assert_allclose(shared.detection_curve(X), want[:2])
    np.testing.assert_allclose(own.detection_curve(X)[0], own.label_frequencies_[0])
    with pytest.raises(ValueError, match=r"n_looks=3 is more than the 2 looks of the fit\. The propensities .* differ"):
        own.detection_curve(X, 3)
    for bad in (0, -1, 1.5, True, "a"):
        with pytest.raises(ValueError, match="n_looks must be a whole number of at least 1"):
            shared.detection_curve(X, bad)
    with pytest.raises(ValueError, match="detection_curve needs a fit to several looks"):
        _model().fit(X, data["s"]).detection_curve(X)


@EVERY
def test_posterior_intervals_contain_the_posterior(models, data, name):
    model, X, s = models[name], data["X"], _s(data, name)
    q, ends = model.predict_posterior(X, s), model.predict_posterior_interval(X, s, level=0.9)
    assert ((ends[:, 0] <= q) & (q <= ends[:, 1])).all()
    wider = model.predict_posterior_interval(X, s, level=0.99)
    assert ((wider[:, 0] <= ends[:, 0]) & (ends[:, 1] <= wider[:, 1])).all()
    labelled = np.reshape(s, (N, -1)).any(axis=1)
    assert (ends[labelled] == 1).all() == (name != "false positives")
    audited = model.predict_posterior_interval(X, s, audit=np.where(labelled, 1, 0))
    np.testing.assert_array_equal(audited, np.where(labelled, 1.0, 0.0)[:, None].repeat(2, axis=1))
    assert str(model.summary())


def test_verbose_fits_print_their_steps(data, capsys):
    _model(verbose=True).fit(data["X"], data["S"])
    assert "paper, iteration 1: objective per row" in capsys.readouterr().out


def test_a_fit_with_nearly_all_rows_positive_warns():
    with pytest.warns(UserWarning, match="finds that nearly every row is positive"):
        SAREMClassifier().fit([[0.0], [1.0]], [[1, 0], [0, 0]])


def test_a_label_frequency_below_the_share_of_labelled_rows_is_possible_with_false_positives_or_a_large_error():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    s = ((rng.random(400) < expit(2 * X[:, 0])) & (rng.random(400) < 0.6)).astype(int)
    model = SAREMClassifier(propensity_attributes=[1], max_iter=5)
    with pytest.raises(ValueError, match=r"known has the label frequency of look 0, 0\.1, but 0\.\d+ of the rows are"):
        model.set_params(known=[LabelFrequency(0.1)]).fit(X, s)
    fit_quietly(model.set_params(known=[LabelFrequency(0.1, se=0.2)]), X, s)
    noisy = Labelling(false_positive_rate=0.3)
    fit_quietly(model.set_params(known=[LabelFrequency(0.1)], labelling=noisy), X, s)
