"""Values per row are taken by position; an index that says otherwise is not overheard."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from scarless.checks.row_names import check_row_order, index_of, warn_of_row_order

TABLE = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=["x", "y", "z"])
VALUES = pd.Series([0.1, 0.2, 0.3], index=["x", "y", "z"])
TOLD = r"its index has the same names in another order \(first: position 0 is 'x' among the rows and 'z' in weight\)"


def test_the_same_names_in_another_order_are_told_of_with_both_ways_out():
    with pytest.warns(UserWarning, match=rf"weight is taken by position, .*{TOLD}.*weight.loc\[X.index\].*to_numpy"):
        warn_of_row_order(TABLE, weight=VALUES[::-1])
    with pytest.raises(ValueError, match=rf"weight must be in the order of the rows; {TOLD}.*to_numpy\(\). Reorder it"):
        check_row_order(VALUES[::-1], "weight", index_of(TABLE))
    with pytest.warns(UserWarning, match="labels is taken by position"):
        warn_of_row_order(TABLE, labels=VALUES.to_frame()[::-1])


def test_names_that_occur_twice_cannot_be_reordered_by():
    twice = TABLE.set_axis(["x", "x", "z"])
    with pytest.warns(UserWarning, match="taken by position") as record:
        warn_of_row_order(twice, weight=VALUES.set_axis(["z", "x", "x"]))
    assert ".loc" not in str(record[0].message)


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        VALUES[::-1].to_numpy(),
        VALUES.reset_index(drop=True),
        VALUES[::-1].set_axis(["u", "v", "w"]),
        VALUES[:2],
        pl.Series([0.1, 0.2, 0.3]),
        [0.1, 0.2, 0.3],
        0.5,
        None,
    ],
    ids=["equal", "array", "numbered", "others", "shorter", "polars", "list", "number", "none"],
)
def test_what_gives_no_cause_for_doubt_is_left_alone(values):
    warn_of_row_order(TABLE, weight=values)
    assert check_row_order(values, "weight", index_of(TABLE)) is values


def test_equal_indices_of_other_types_are_equal():
    counted, stored = pd.RangeIndex(3), pd.Index([0, 1, 2], dtype="int32")
    warn_of_row_order(TABLE.set_axis(counted), weight=VALUES.set_axis(stored))
    warn_of_row_order(np.eye(3), weight=VALUES[::-1])
