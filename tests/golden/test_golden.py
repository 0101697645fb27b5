"""All estimators give the numbers that were stored before the code was rearranged.

A difference is either a fault, or it is explained where it is made, and ``python -m tests.golden.record NAME`` stores
the new numbers.
"""

import json

import numpy as np
import pytest
from tests.golden.cases import CASES, HERE, answers
from tests.golden.record import NUMBERS, made_here

STORED = json.loads(NUMBERS.read_text())
SAME_PLACE = made_here()

SAME = 1e-9  # relative difference with the same versions on the same kind of machine: nothing but rounding
SAME_OPTIMUM = 1e-5  # relative difference elsewhere: iterations stop at slightly different points


@pytest.mark.parametrize("name", CASES)
def test_answers_are_the_stored_ones(name):
    if CASES[name].kind == HERE and not SAME_PLACE:
        pytest.skip("these numbers belong to one set of versions")
    stored, fresh = STORED["answers"][name], answers(name)
    assert list(fresh) == list(stored)
    for question in stored:
        if question == "warnings":
            assert fresh[question] == stored[question]
        else:
            tolerance = SAME if SAME_PLACE else SAME_OPTIMUM
            np.testing.assert_allclose(
                fresh[question], stored[question], rtol=tolerance, atol=tolerance, err_msg=question
            )
