"""Messages of models are shown without Python names in reports and terminals; column names do not change."""

import re

import numpy as np
import pytest

from scarless.diagnostics.uncertainty.identifiability import _condition_words
from scarless.outside.plain_words import OTHER_MODEL, plain
from scarless.raw.tables import huge_cells


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("SAREMClassifier: rows are few.", "Rows are few."),
        ("scar_test: name fewer propensity_attributes.", "Name fewer columns for the labelling (--propensity)."),
        ("SCARClassifier finds that all is labelled.", "The model finds that all is labelled."),
        ("Leave it out, --exclude dose (exclude=['dose']).", "Leave it out, --exclude dose."),
        ("Use scarless.diagnostics.bootstrap_intervals.", "Use a bootstrap (in Python)."),
        ("Known: a. If they may be wrong, use within(lower, upper).", "Known: a."),
        ("This analysis is local; profile_class_prior covers a wider range.",
         "This analysis is local; a profile of the likelihood covers a wider range."),
        ("Column 'sample_weight' is empty.", "Column 'sample_weight' is empty."),
        ("Column 'smoker (yes=1)' is empty.", "Column 'smoker (yes=1)' is empty."),
        ("with visits (n=12) and age adjusted", "with visits (n=12) and age adjusted"),
        ("Column 'my sample_weight 2' is empty.", "Column 'my sample_weight 2' is empty."),
        ("PropensityWeightedClassifier (EM) did not converge in max_iter=2 iterations.",
         "The model did not converge in 2 iterations."),
        ("SAREMClassifier did not converge in max_iter=9 iterations: tol is 1e-10. Raise max_iter, scale the columns, "
         "or use a stronger penalty (lower C).",
         f"The model did not converge in 9 iterations: tol is 1e-10. {OTHER_MODEL}"),
        ("SAREMClassifierCV stopped after 9 iterations: no gain. Scale the columns, use a stronger penalty (lower "
         "Cs), or raise tol.", f"--model search stopped after 9 iterations: no gain. {OTHER_MODEL}"),
        ("PublishedEMClassifier did not converge in max_iter=2 iterations.",
         "The model did not converge in 2 iterations."),
        ("They differ. Use Labelling(shared=False), or describe the difference by visit_attributes.",
         "They differ. Use --not-shared, or describe the difference by --visit-attributes."),
        ("sample_weight counts rows.", "Weights count rows."),
        ("If it holds, use audit_labels='drop'; the class prior is then 0.4.",
         "If it holds, use --audit-labels drop; the class prior is then 0.4."),
        ("Use a stronger penalty (lower Cs).", "Use a stronger penalty."),
        ("Pass a label frequency that you know (label_frequency=0.5, for example).",
         "Pass a label frequency that you know."),
        ("known has the label frequency of look 0, 0.05, but 0.09 of the rows are labelled. Give it a larger se.",
         "--label-frequency gives 0.05, but 0.09 of the rows are labelled. Give it a larger standard error."),
        ("known has the class prior, 1e-05, but 0.094 of the rows are labelled. Correct the value, give it a larger "
         "se, or allow for labelled negatives with false_positive_rate.",
         "--prevalence is 1e-05, but 0.094 of the rows are labelled. Correct the value, give it a larger standard "
         "error, or allow for labelled negatives with --false-positive-rate."),
        ("Use SAREMClassifier with n_starts=5, or SAREMClassifierCV, to search for the highest optimum.",
         "Use --model logistic, or --model search, to search for the highest optimum."),
        ("age is a number.", "age is a number."),
    ],
)  # fmt: skip
def test_python_names_are_replaced(sentence, words):
    assert plain(sentence) == words


def test_an_infinite_condition_number_is_written_as_text():
    told = _condition_words(np.inf)
    assert told == "infinite, because the data have no information on some combination of coefficients"
    assert not re.search(r"\binf\b", told)
    assert _condition_words(29.81) == "29.8"


def test_the_count_of_further_cells_agrees_in_number():
    assert "; 1 more such cell follows)" in huge_cells("a", 0, np.inf, 2)
    assert "; 2 more such cells follow)" in huge_cells("a", 0, np.inf, 3)
    assert "follow" not in huge_cells("a", 0, np.inf, 1)
