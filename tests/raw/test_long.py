"""Long tables: conversion in any order of lines, alignment of looks, and all errors."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_array_equal

import scarless
from scarless.raw import Looks, from_long

LIBRARIES = [pd.DataFrame, pl.DataFrame]
KEYS = {"unit": "site", "look": "visit", "label": "seen"}


def sites(**changes):
    """Return the lines of three sites; the second was visited once."""
    columns = {
        "site": ["a", "a", "b", "c", "c"],
        "visit": [1, 2, 1, 1, 2],
        "seen": [0, 1, 0, 1, 1],
        "area": [1.5, 1.5, 2.0, 3.0, 3.0],
        "hours": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
    return {name: values for name, values in {**columns, **changes}.items() if values is not None}


def read(columns, *, make=pd.DataFrame, **options):
    return from_long(make(columns), **{**KEYS, "visit_attributes": ["hours"], **options})


def column(frame, name):
    return frame[name].to_list()


# --- there and back


@st.composite
def wide_tables(draw):
    """Draw units with their attributes, labels with gaps, effort that is 0 in gaps, and audits."""
    n, n_looks = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    rng = default_rng(draw(st.integers(0, 2**32)))
    S = np.where(rng.random((n, n_looks)) < 0.4, np.nan, rng.integers(0, 2, (n, n_looks)))
    S[0, 0] = 1.0  # not all labels may be missing
    effort = np.where(np.isnan(S), 0.0, rng.normal(size=S.shape))
    units = np.sort(rng.choice(1000, n, replace=False))
    attributes = {
        "area": rng.normal(size=n).tolist(),
        "count": rng.integers(0, 9, n).tolist(),
        "kind": rng.choice(["moor", "fen"], n).tolist(),
        "wet": (rng.random(n) < 0.5).tolist(),
    }
    audit = np.where(rng.random(n) < 0.5, np.nan, rng.integers(0, 2, n))
    return units, attributes, S, effort, audit, rng


def lines_of(wide, *, day_of, keep_all):
    """Return one line for each look, and lines without a label for missing looks: all, or only those needed."""
    units, attributes, S, effort, audit, rng = wide
    lines = []
    for i, k in np.ndindex(S.shape):
        needed = keep_all or i == 0 or k == 0  # every look and every unit needs a line
        if not np.isnan(S[i, k]) or needed or rng.random() < 0.3:
            gap = np.isnan(S[i, k])
            line = {"site": int(units[i]), "visit": day_of(i, k), "seen": None if gap else int(S[i, k])}
            line |= {name: values[i] for name, values in attributes.items()}
            line |= {"effort": None if gap else effort[i, k]}
            lines.append(line | {"truth": None if np.isnan(audit[i]) or (k and rng.random() < 0.5) else int(audit[i])})
    return [lines[j] for j in rng.permutation(len(lines))]


def check_round_trip(wide, found, make):
    units, attributes, S, effort, audit, _ = wide
    names = [f"effort_{k}" for k in range(1, S.shape[1] + 1)]
    assert isinstance(found, Looks)
    assert type(found.X) is make
    assert list(found.X.columns) == [*attributes, *names]
    for name, values in attributes.items():
        assert column(found.X, name) == values
    assert_array_equal(found.X[names].to_numpy(), effort)
    assert found.visit_attributes == {"effort": names}
    assert_array_equal(found.S, S)
    assert_array_equal(found.audit, audit)
    assert found.units.to_list() == units.tolist()
    if make is pd.DataFrame:
        pd.testing.assert_index_equal(found.X.index, pd.Index(units, name="site"))


OPTIONS = {**KEYS, "audit": "truth", "visit_attributes": "effort"}


@pytest.mark.parametrize("make", LIBRARIES)
@given(wide=wide_tables())
def test_lines_in_any_order_give_back_the_table_by_value(make, wide):
    lines = lines_of(wide, day_of=lambda i, k: f"visit {k}", keep_all=False)
    found = from_long(make(lines), **OPTIONS, align="value")
    check_round_trip(wide, found, make)
    assert (found.align, found.looks) == ("value", tuple(f"visit {k}" for k in range(wide[2].shape[1])))


@pytest.mark.parametrize("make", LIBRARIES)
@given(wide=wide_tables())
def test_lines_in_any_order_give_back_the_table_by_order(make, wide):
    # Days differ between units; a missing look needs a line without a label to keep its position.
    start = datetime.date(2026, 1, 1)
    lines = lines_of(wide, day_of=lambda i, k: start + datetime.timedelta(7 * i + 100 * k), keep_all=True)
    found = from_long(make(lines), **OPTIONS, align="order")
    check_round_trip(wide, found, make)
    assert (found.align, found.looks) == ("order", tuple(range(1, wide[2].shape[1] + 1)))


@pytest.mark.parametrize("make", LIBRARIES)
def test_types_of_attributes_stay(make):
    table = make({**sites(), "day": [datetime.datetime(2026, 1, 1)] * 5, "n": np.array([1, 1, 2, 3, 3], np.int8)})
    found = from_long(table, **KEYS, visit_attributes="hours")
    for name in ("area", "day", "n"):
        assert found.X[name].dtype == table[name].dtype
    assert table.shape == (5, 7)


# --- how looks are aligned


@pytest.mark.parametrize("make", LIBRARIES)
def test_a_missing_line_is_a_look_that_did_not_take_place(make):
    found = read(sites(), make=make)
    assert_array_equal(found.S, [[0, 1], [0, np.nan], [1, 1]])
    assert_array_equal(found.X[["hours_1", "hours_2"]].to_numpy(), [[1, 2], [3, 0], [4, 5]])
    assert found.audit is None
    assert repr(found) == "Looks(3 units x 2 looks by value, 17% of looks missing, 2 units labelled, no audit)"


@pytest.mark.parametrize("make", LIBRARIES)
def test_an_earlier_look_that_is_missing_shifts_the_others_only_by_order(make):
    columns = sites(visit=[1, 2, 2, 1, 2])
    assert_array_equal(read(columns, make=make, align="value").S, [[0, 1], [np.nan, 0], [1, 1]])
    assert_array_equal(read(columns, make=make, align="order").S, [[0, 1], [0, np.nan], [1, 1]])


@pytest.mark.parametrize("make", LIBRARIES)
@pytest.mark.parametrize(
    ("look_of", "n_units", "align"),
    [
        (lambda i, k: k, 10, "value"),  # the same visits at all units
        (lambda i, k: 2 * i + k, 2, "value"),  # four values, two of them at each unit: half of all pairs
        (lambda i, k: 2 * i + k, 3, "order"),  # a third
        (lambda i, k: f"{(i + k) % 20:02d}", 20, "value"),  # a tenth, but names
        (lambda i, k: f"{(i + k) % 21:02d}", 21, "order"),  # too many names
        (lambda i, k: datetime.date(2026, 1, 1 + i + k), 9, "order"),
    ],
)
def test_the_rule_by_which_looks_are_aligned(make, look_of, n_units, align):
    lines = [{"site": i, "visit": look_of(i, k), "seen": k, "area": 1.0} for i in range(n_units) for k in (0, 1)]
    assert from_long(make(lines), **KEYS).align == align


@pytest.mark.parametrize(
    "days",
    [
        pd.Categorical(["Mon", "Fri", "Fri", "Mon", "Fri"], ["Mon", "Fri"], ordered=True),
        pl.Series(["Mon", "Fri", "Fri", "Mon", "Fri"], dtype=pl.Enum(["Mon", "Fri"])),
    ],
)
def test_ordered_categories_keep_their_order(days):
    make = pl.DataFrame if isinstance(days, pl.Series) else pd.DataFrame
    found = read({**sites(), "visit": days}, make=make)
    assert found.looks == ("Mon", "Fri")
    assert_array_equal(found.S, [[0, 1], [np.nan, 0], [1, 1]])
    plain = read({**sites(), "visit": list(days)}, make=make)
    assert plain.looks == ("Fri", "Mon")


@pytest.mark.parametrize(
    "kind",
    [
        lambda k: f"site {k}",
        lambda k: k / 3 - 1,
        lambda k: datetime.date(2026, 1, 1 + k),
        lambda k: datetime.datetime(2026, 1, 1 + k, tzinfo=datetime.UTC),
        lambda k: datetime.timedelta(hours=k),
        datetime.time,
        Decimal,
    ],
)
@pytest.mark.parametrize("make", LIBRARIES)
def test_kinds_of_units_looks_and_attributes(make, kind):
    units = [kind(k) for k in (3, 1, 3, 2)]
    found = from_long(
        make({"site": units, "visit": [kind(k) for k in (5, 4, 4, 5)], "seen": [1, 0, 0, 1], "area": units}), **KEYS
    )
    assert found.units.to_list() == column(found.X, "area") == [kind(k) for k in (1, 2, 3)]
    assert found.looks == (kind(4), kind(5))
    assert_array_equal(found.S, [[0, np.nan], [np.nan, 1], [0, 1]])


# --- labels, audits, columns


@pytest.mark.parametrize("make", LIBRARIES)
@pytest.mark.parametrize(
    ("seen", "pos_label"),
    [
        ([False, True, False, True, None], None),
        ([0.0, 1.0, 0.0, 1.0, np.nan], None),
        (["no", "yes", "no", "yes", None], "yes"),
        (["no", "yes", "no", "yes", None], None),
        (["No", "YES", "no ", "yes", None], None),
        (["nein", "ja", "nein", "ja", None], None),
        (["0", "1", "0", "1", None], None),
        (["yes", "no", "yes", "no", None], "no"),
        ([-1, 1, -1, 1, None], 1),
        ([1, 0, 1, 0, None], 0),
    ],
)
def test_codings_of_labels(make, seen, pos_label):
    assert_array_equal(read(sites(seen=seen), make=make, pos_label=pos_label).S, [[0, 1], [0, np.nan], [1, np.nan]])


def test_one_value_is_enough_if_its_meaning_is_clear():
    assert_array_equal(read(sites(seen=[0] * 5)).S, [[0, 0], [0, np.nan], [0, 0]])
    assert_array_equal(read(sites(seen=["no"] * 5), pos_label="yes").S, [[0, 0], [0, np.nan], [0, 0]])
    assert_array_equal(read(sites(seen=["no"] * 5)).S, [[0, 0], [0, np.nan], [0, 0]])
    for unclear in (["f"] * 5, ["m", "f", "m", "f", "f"], ["yes", "maybe", "yes", "yes", "yes"]):
        with pytest.raises(ValueError, match=r"which value means labelled. Pass pos_label=, or code labels as 1"):
            read(sites(seen=unclear))


@pytest.mark.parametrize("make", LIBRARIES)
@pytest.mark.parametrize(
    ("truth", "options"),
    [
        ([1, None, None, 0, 0], {}),
        ([True, True, None, None, False], {}),
        (["yes", None, None, "no", None], {"seen": ["no", "yes", "no", "yes", "yes"], "pos_label": "yes"}),
        ([1, None, None, 0, None], {"seen": ["no", "yes", "no", "yes", "yes"], "pos_label": "yes"}),
        (["Yes", None, None, "no", None], {}),
        (["yes", None, None, "no", None], {"seen": ["no", "yes", "no", "yes", "yes"]}),
        (["yes", None, None, "no", None], {"seen": ["off", "on", "off", "on", "on"], "pos_label": "on"}),
        ([0, None, None, 1, None], {"pos_label": 0}),
    ],
)
def test_one_line_of_a_unit_determines_its_audit(make, truth, options):
    seen = options.get("seen", [0, 1, 0, 1, 1])
    found = read(sites(truth=truth, seen=seen), make=make, audit="truth", pos_label=options.get("pos_label"))
    assert_array_equal(found.audit, [1, np.nan, 0])
    assert repr(found).endswith("labelled, 2 audited)")


def test_an_audit_of_negatives_only_is_coded_as_the_labels_are():
    words = sites(seen=["no", "yes", "no", "yes", "yes"], truth=["no", None, None, None, None])
    assert_array_equal(read(words, audit="truth", pos_label="yes").audit, [0, np.nan, np.nan])


@pytest.mark.parametrize("make", LIBRARIES)
def test_only_named_attributes_are_kept(make):
    columns = sites(note=["x", "y", "z", "x", "y"], height=[1, 1, 2, 3, 3])
    assert list(read(columns, make=make, attributes=["height"]).X.columns) == ["height", "hours_1", "hours_2"]
    assert list(read(columns, make=make, attributes=[], visit_attributes=None).X.columns) == []
    assert read(columns, make=make, attributes="area", visit_attributes=None).visit_attributes is None


def test_a_frame_without_columns_still_has_its_units():
    found = read(sites(), attributes=[], visit_attributes=None)
    assert found.X.shape == (3, 0)
    assert found.X.index.to_list() == ["a", "b", "c"]
    assert read(sites(), attributes=[], visit_attributes=None, make=pl.DataFrame).units.to_list() == ["a", "b", "c"]


def test_attributes_may_be_missing_as_long_as_they_do_not_differ():
    found = read(sites(area=[np.nan, np.nan, 2.0, 3.0, 3.0]))
    assert_array_equal(found.X["area"], [np.nan, 2, 3])


@pytest.mark.parametrize("hours", [[True, False, True, True, False], [Decimal(1), Decimal(0), 1, True, False]])
def test_visit_attributes_become_floats(hours):
    found = read(sites(hours=hours))
    assert_array_equal(found.X[["hours_1", "hours_2"]], [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    assert found.X["hours_1"].dtype == np.float64


@pytest.mark.parametrize("make", LIBRARIES)
def test_a_visit_attribute_at_a_missing_look_is_ignored(make):
    found = read(sites(seen=[0, 1, 0, 1, None], hours=[1.0, 2.0, 3.0, 4.0, None]), make=make)
    assert column(found.X, "hours_2") == [2.0, 0.0, 0.0]
    assert column(read(sites(seen=[0, 1, 0, 1, None]), make=make).X, "hours_2") == [2.0, 0.0, 0.0]


def test_the_name_is_public_in_two_places():
    assert scarless.from_long is from_long


# --- errors


@pytest.mark.parametrize("make", LIBRARIES)
@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"visit": [1, 1, 1, 1, 2]}, {}, r"Each look at a unit must have one line, but 2 lines have unit 'a' "
                                         r"and look 1 \(lines that repeat an earlier unit and look: 1\). If these "
                                         r"lines are different looks"),
        ({"visit": [1, 1, 1, 1, 2]}, {"align": "order"}, "2 lines have unit 'a' and look 1"),
        ({"seen": [0, 1, 2, 1, 1]}, {}, r"Column 'seen' \(label\) must hold two values, one for labelled and "
                                        r"one for not labelled; it has 3: 0, 1, 2. If a look did not take place, its "
                                        r"label must be missing"),
        ({"seen": ["m", "f", "m", "f", "f"]}, {}, r"Column 'seen' \(label\) holds 'm', 'f', and it is not clear "
                                                  r"which value means labelled. Pass pos_label=, or"),
        ({"seen": [-1, 1, -1, 1, 1]}, {}, "holds -1, 1, and it is not clear which value means labelled"),
        ({"seen": ["n", "y", "n", "y", "y"]}, {"pos_label": "yes"}, "pos_label='yes' is not among the labels 'n', 'y'"),
        ({"seen": [None] * 5}, {}, r"Column 'seen' \(label\) has no value in any line. At least one look"),
        ({"area": [1.5, 1.0, 2.0, 3.0, 4.0]}, {}, r"Attribute 'area' must be constant within a unit, but "
                                                  r"unit 'a' has 1.5 and 1.0 \(number of such units: 2\). If the "
                                                  r"column describes looks, name it in visit_attributes. Otherwise "
                                                  r"leave it out"),
        ({"area": [1.5, 1.5, 2.0, 3.0, None]}, {}, r"Attribute 'area' must be constant within a unit, but "
                                                   r"unit 'c' has 3.0 and missing"),
        ({"truth": [1, 0, None, None, 0]}, {"audit": "truth"}, r"Column 'truth' \(audit\) has both classes for "
                                                               r"unit 'a' \(number of such units: 1\). A unit has "
                                                               r"one true class"),
        ({"truth": [1, 2, None, None, 0]}, {"audit": "truth"}, r"Column 'truth' \(audit\) must hold 1 and 0, yes "
                                                               r"and no, or, if pos_label is given, the "
                                                               r"values of the labels, and be "
                                                               r"missing for units that were not audited; it "
                                                               r"holds .*2"),
        ({"site": ["a", None, "b", "c", None]}, {}, r"Column 'site' \(unit\) is missing in 2 of 5 lines \(first: "
                                                    r"line 1, counted from 0\). Every line must have a unit"),
        ({"visit": [1, 2, None, 1, 2]}, {}, r"Column 'visit' \(look\) is missing in 1 of 5 lines \(first: line 2, "
                                            r"counted from 0\)"),
        ({}, {"unit": "Sites"}, r"table has no column 'Sites' \(unit\). Did you mean 'site'\?"),
        ({}, {"look": "zebra"}, r"table has no column 'zebra' \(look\). The columns are 'site', 'visit', "),
        ({}, {"label": None}, "label must be the name of a column of table; got None"),
        ({}, {"label": ["seen"]}, "label must be the name of a column of table; got"),
        ({}, {"audit": "sen"}, r"table has no column 'sen' \(audit\). Did you mean 'seen'\?"),
        ({}, {"attributes": ["aera"]}, r"no column 'aera' \(attributes\). Did you mean 'area'\?"),
        ({}, {"visit_attributes": ["hour"]}, r"no column 'hour' \(visit_attributes\). Did you mean 'hours'\?"),
        ({}, {"visit_attributes": {"hours": 1}}, r"visit_attributes must be a list of column names; got \{'hours'"),
        ({}, {"attributes": ["area", "area"]}, "attributes names 'area' twice"),
        ({}, {"attributes": ["seen"]}, r"Column 'seen' is named as label and as attributes. Give each column one"),
        ({}, {"look": "site"}, "Column 'site' is named as unit and as look"),
        ({}, {"attributes": ["hours"]}, "Column 'hours' is named as attributes and as visit_attributes"),
        ({"hours": [1.0, 2.0, 3.0, None, 5.0]}, {}, r"Visit attribute 'hours' is missing in 1 of 5 looks that "
                                                    r"took place \(first: line 3, counted from 0, unit 'c'\)"),
        ({"hours": ["1", "2", "3", "4", "5"]}, {}, "Visit attribute 'hours' must hold finite numbers; it holds '1'"),
        ({"hours": [1.0, np.inf, 3.0, 4.0, 5.0]}, {}, "Visit attribute 'hours' must hold finite numbers; it holds inf"),
        ({"hours": [(1,), (1, 2), (3,), (4,), (5,)]}, {}, r"'hours' (must hold .*\(1,\)|holds lists or)"),
        ({"hours_2": [0, 0, 0, 0, 0]}, {}, "Visit attribute 'hours' would add a column 'hours_2', but another"),
        ({"area": [[1], [1], [2], [3], [3]]}, {}, "Column 'area' holds lists or other values that cannot be compared"),
        ({name: [] for name in sites()}, {}, "table must have one line for each unit and look"),
        ({}, {"align": "date"}, "align must be one of 'auto', 'value', 'order'; got 'date'"),
    ],
)  # fmt: skip
def test_invalid_long_tables_are_refused(make, changes, options, message):
    with pytest.raises(ValueError, match=message):
        read(sites(**changes), make=make, **options)


def test_invalid_pandas_tables_are_refused():
    table = pd.DataFrame(sites())
    with pytest.raises(ValueError, match=r"unit='site' is the index of table, not a column. Pass table.reset"):
        from_long(table.set_index("site"), **KEYS)
    with pytest.raises(
        ValueError,
        match=r"Column 'visit' \(look\) holds values that cannot be sorted, of types "
        r"int",
    ):
        read(sites(visit=[1, "2", 1, 1, "2"]))
    twins = pd.DataFrame([["a", 1, 0, 0]], columns=["site", "visit", "seen", "seen"])
    with pytest.raises(ValueError, match=r"2 columns of table are called 'seen'. Rename all but one of them"):
        from_long(twins, **KEYS)


@pytest.mark.parametrize("table", [None, "visits.csv", sites(), np.ones((3, 3))])
def test_only_data_frames_are_read(table):
    with pytest.raises(
        TypeError, match=r"table must be a data frame of pandas or polars, .*; got .* of type .*\. Read"
    ):
        from_long(table, **KEYS)


def test_a_query_must_be_run_first():
    with pytest.raises(
        TypeError, match=r"table is a LazyFrame, a query that has not been run yet. Pass table.collect\(\)"
    ):
        from_long(pl.LazyFrame(sites()), **KEYS)
