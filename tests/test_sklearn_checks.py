"""Every estimator passes scikit-learn's whole battery, with no expected failures."""

from unittest import SkipTest

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
)

BOOSTING = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=4, min_samples_leaf=3)

ESTIMATORS = [
    NaiveClassifier(),
    PropensityWeightedClassifier(),
    PropensityWeightedClassifier(method="likelihood"),
    SAREMClassifier(),
    SAREMClassifier(propensity_attributes=[0]),
    PublishedEMClassifier(),
    SAREMClassifierCV(propensity_attributes=[0], Cs=[1.0], propensity_Cs=[1.0], cv=2, max_iter=20),
    SCARClassifier(),
    SCARClassifier(label_frequency=0.9),
    SCARClassifier(label_frequency=0.9, method="likelihood"),
    NaiveClassifier(DecisionTreeClassifier(random_state=0)),
    PropensityWeightedClassifier(LogisticRegression(), method="likelihood"),
    SAREMClassifier(DecisionTreeClassifier(random_state=0), cv=2, max_iter=10, random_state=0),
    SAREMClassifier(BOOSTING, cv=2, random_state=0),
    SARStackingClassifier(
        [("logistic", None)], propensity_attributes=[0], attribute_sets=[slice(None)], cv=2, max_iter=20
    ),
]


# The warnings are ours and meant: the checks fit strings without pos_label, give no propensity and label all positives.
@pytest.mark.filterwarnings("ignore:pos_label is not given, and the labels are:UserWarning")
@pytest.mark.filterwarnings("ignore:propensity is not given:UserWarning")
@pytest.mark.filterwarnings("ignore:.* finds that all positives are labelled:UserWarning")
@pytest.mark.filterwarnings("ignore:.* nearly every row is positive:UserWarning")
@pytest.mark.filterwarnings("ignore:.* can be swapped without changing the fit:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS)
def test_estimator_passes_scikit_learns_checks(estimator, check):
    if "sparse_matrix" in str(check) and isinstance(estimator, SAREMClassifierCV | SARStackingClassifier):
        pytest.skip("their fits are SAREMClassifier's, which takes matrices of all kinds; the same check has arrays")
    if "sample_weight_equivalence" in str(check):
        if isinstance(estimator, SAREMClassifier) and estimator.estimator is not None:
            pytest.skip("its table has one unlabelled row, which cannot lie in two folds; test_cross_fit has another")
        if "HistGradientBoosting" in repr(estimator):
            pytest.skip("histogram boosting itself counts rows and not weights in its leaves")
    try:
        check(estimator)
    except SkipTest as reason:
        if "SCIPY_ARRAY_API" in str(reason):
            pytest.fail("tests/conftest.py sets SCIPY_ARRAY_API, so that no check of arrays is skipped")
        raise
