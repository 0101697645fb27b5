"""Fits with audits: what a ranking that is worse than the naive model's leads to, and stacks without names."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from scarless import SAREMClassifier, SAREMClassifierCV, SARStackingClassifier
from scarless.analysis import analyse
from scarless.labelling import simulate_audit
from scarless.outside.notices import ClassPriorWarning

WORSE = "ranks the audited rows worse than the naive model"
LOGISTIC = [("logistic", None)]


@pytest.fixture(scope="module")
def audited():
    """Columns 0 and 1 cause the class, and column 3 drives the labelling; 150 rows were audited at random."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = rng.random(1500) < expit(2.0 * X[:, 0] + X[:, 1] - 0.5)
    s = (y & (rng.random(1500) < expit(1.5 * X[:, 3] - 0.5))).astype(int)
    return X, s, simulate_audit(y, 150, random_state=0)


WRONG = (
    SAREMClassifier(propensity_attributes=[0], classification_attributes=[2, 3]),
    SAREMClassifierCV(propensity_attributes=[0], attribute_sets={"others": [2, 3]}, Cs=[1.0], random_state=0),
    SAREMClassifier(
        HistGradientBoostingClassifier(max_iter=20),
        propensity_attributes=[0],
        classification_attributes=[2, 3],
        random_state=0,
    ),
    SARStackingClassifier(LOGISTIC, propensity_attributes=[0], attribute_sets={"others": [2, 3]}, random_state=0),
)


@pytest.mark.parametrize("model", WRONG, ids=["pair", "search", "boosting", "stack"])
def test_a_cause_of_the_class_taken_for_a_driver_is_said_when_audits_show_it(audited, model):
    X, s, audit = audited
    with pytest.warns(ClassPriorWarning, match=WORSE):
        model.fit(X, s, audit=audit)
    assert WORSE in " ".join(str(model.summary()).split())


RIGHT = (
    SAREMClassifier(propensity_attributes=[3]),
    SAREMClassifier(propensity_attributes="all"),
    SARStackingClassifier(LOGISTIC, cv=2, find_attributes=False, random_state=0),
)


@pytest.mark.parametrize("model", RIGHT, ids=["pair", "all", "stack"])
def test_a_fit_that_ranks_audited_rows_well_says_nothing(audited, model):
    X, s, audit = audited
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, s, audit=audit)
    assert not [each for each in caught if WORSE in str(each.message)]


def test_few_audited_positives_say_nothing_about_the_ranking(audited):
    X, s, audit = audited
    few = audit.copy()
    few[np.flatnonzero(audit == 1)[4:]] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        WRONG[0].fit(X, s, audit=few)
    assert not [each for each in caught if WORSE in str(each.message)]


def test_the_tool_and_its_report_say_that_audits_show_a_worse_ranking(audited):
    X, s, audit = audited
    names = ["cause", "other", "noise", "driver"]
    table = pd.DataFrame(X, columns=names).assign(found=np.where(s, "yes", None))
    table["checked"] = np.where(np.isnan(audit), None, np.where(audit == 1, "yes", "no"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = analyse(
            table,
            "found",
            propensity_attributes=["cause"],
            classification_attributes=["noise", "driver"],
            audit="checked",
            model="logistic",
        )
    assert [note for note in fitted.notes if WORSE in note]
    page = fitted.report().to_html()
    assert WORSE in page


@pytest.mark.filterwarnings("ignore")
def test_the_default_members_take_audits_of_a_table_with_few_labels_and_no_names(audited):
    X, s, audit = (each[:300] for each in audited)
    assert s.sum() < 100
    model = SARStackingClassifier(random_state=0).fit(X, s, audit=audit)
    assert [member.name for member in model.members_] == ["logistic", "boosting", "forest"]
    assert model.n_audited_ == np.isfinite(audit).sum()


@pytest.mark.filterwarnings("ignore")
def test_with_audits_naming_every_column_is_naming_none(audited):
    X, s, audit = (each[:400] for each in audited)
    model = SARStackingClassifier(LOGISTIC, cv=2, find_attributes=False, random_state=0)
    none, every = (
        clone(model).set_params(propensity_attributes=names).fit(X, s, audit=audit) for names in (None, "all")
    )
    np.testing.assert_array_equal(none.predict_proba(X), every.predict_proba(X))
