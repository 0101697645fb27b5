"""Checks of scikit-learn on small tables; expected failures have a reason."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.torch.nets import make_net

QUICK = {"max_epochs": 40, "warm_up": 5, "batch_size": 32, "lr": 0.02, "random_state": 0}
# The held-out rows and the order of batches depend on the number of rows.
WEIGHTS = "a row of weight 2 is in one batch once, two equal rows are in two; test_net has the equivalence of all rows"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
}


@pytest.mark.filterwarnings("ignore:pos_label is not given, and the labels are:UserWarning")
@pytest.mark.filterwarnings("ignore:.* finds that all positives are labelled:UserWarning")
@pytest.mark.filterwarnings("ignore:.* nearly every row is positive:UserWarning")
@pytest.mark.filterwarnings("ignore:The fit of SARNetClassifier is uncertain:UserWarning")
@pytest.mark.filterwarnings("ignore:validation_share=:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [make_net(**QUICK), make_net(propensity_attributes=[0], recalibrate="held-out", **QUICK)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_estimator_passes_scikit_learns_checks(estimator, check):
    check(estimator)
