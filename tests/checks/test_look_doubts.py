import numpy as np
import pytest

from scarless.checks.labels import check_labels
from scarless.checks.look_doubts import doubts_of_audits, doubts_of_looks
from scarless.checks.looks import check_audit, check_looks

PLUS_MINUS = check_labels(np.array([-1, 1]), pos_label=None)


def codes(*columns):
    return np.array(columns, dtype=np.int8).T


def test_a_copy_of_a_look_is_told_of_whatever_is_missing():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 100)
    other = np.where(rng.random(100) < 0.1, 1 - first, first)
    copy = np.where(rng.random(100) < 0.3, -1, first)
    (told,) = doubts_of_looks(codes(first, other, copy), ("a", "b", "c"))
    assert told.startswith(f"a and c are the same in all {(copy >= 0).sum()} rows that have both.")
    assert doubts_of_looks(codes(first, other), ("a", "b")) == []


def test_few_labels_may_agree_by_chance():
    few = np.r_[np.ones(19, dtype=int), np.zeros(80, dtype=int)]
    assert doubts_of_looks(codes(few, few), ("a", "b")) == []
    assert len(doubts_of_looks(codes(np.r_[few, 1], np.r_[few, 1]), ("a", "b"))) == 1


def test_a_look_that_was_written_down_only_if_it_found():
    first, second = np.tile([0, 1], 10), np.tile([-1, 1], 10)
    (told,) = doubts_of_looks(codes(first, second), ("a", "b"))
    assert told.startswith("each of the 10 looks of b that took place found a label, and 10 did not take place.")
    second[0] = 0
    assert doubts_of_looks(codes(first, second), ("a", "b")) == []


def test_audits_that_found_positives_only():
    labels = codes(np.r_[np.ones(5, dtype=int), np.zeros(15, dtype=int)])
    audit = np.full(20, -1, dtype=np.int8)
    audit[:10] = 1  # five of rows that have a label, which say nothing
    (told,) = doubts_of_audits(labels, audit)
    assert told.startswith("all 5 audits of rows without a label are positive.")
    audit[10] = 0
    assert doubts_of_audits(labels, audit) == []
    audit[10], audit[9] = -1, -1
    assert doubts_of_audits(labels, audit) == []


@pytest.mark.parametrize(
    ("audit", "coding"), [([1, -1, np.nan], None), ([1, -1, None], None), ([1, -1, 1], PLUS_MINUS)]
)
def test_minus_one_for_a_negative_finding_is_refused(audit, coding):
    with pytest.raises(ValueError, match="audit holds 1 and -1 and no 0, and -1 means that nobody checked"):
        check_audit(audit, n_rows=3, coding=coding)


def test_minus_one_beside_0_or_alone_means_not_checked():
    assert check_audit([1, -1, 0], n_rows=3).tolist() == [1, -1, 0]
    assert check_audit([1, -1, -1], n_rows=3).tolist() == [1, -1, -1]


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (1, 6), (6, 1, 1)])
def test_a_table_of_audits_is_not_unrolled(shape):
    with pytest.raises(ValueError, match="audit has 6 values for 6 rows, in the shape"):
        check_audit(np.zeros(shape), n_rows=6)


def test_one_column_of_plus_and_minus_one_is_labels_as_everywhere():
    checked = check_looks(np.array([-1, 1, -1]))
    assert checked.labels.ravel().tolist() == [0, 1, 0]
    assert check_looks([1, -1], coding=checked.coding).labels.ravel().tolist() == [1, 0]
    assert check_looks([-1, -1], coding=checked.coding).labels.ravel().tolist() == [0, 0]
