"""The rules of each raw format, on rows written by hand."""

import io
import sys
import tarfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scarless.datasets import parsers
from scarless.datasets.parsers import (
    list_posts,
    parse_newsgroups,
    read_posts,
    sklearn_order,
    strip_footer,
    strip_header,
    strip_quotes,
)
from scarless.datasets.pu_data import binarise, scale_to_range


def columns_of(parsed):
    X, _, names = parsed
    assert X.shape[1] == len(names)
    assert X.dtype == np.float64
    return {name: X[:, j].tolist() for j, name in enumerate(names)}


def classes_of(parsed):
    assert parsed[1].dtype == np.int64
    return parsed[1].tolist()


# Binarising and scaling


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12))
def test_columns_of_minus_one_and_one(values):
    X, names = binarise(pd.DataFrame({"v": values, "n": np.arange(len(values))}), numbers=["n"])
    levels = sorted(set(values))
    kept = levels if len(levels) > 2 else levels[1:]
    assert names == [*(f"v={level}" for level in kept), "n"]
    for j, level in enumerate(kept):
        assert X[:, j].tolist() == [1.0 if value == level else -1.0 for value in values]
    assert X[:, -1].tolist() == list(range(len(values)))


@settings(deadline=None)
@given(hnp.arrays(np.float64, (7, 3), elements=st.floats(-1e30, 1e30), unique=True), st.booleans())
def test_scaling_reaches_both_ends_keeps_the_order_and_leaves_the_input_alone(X, fortran):
    given_X = np.array(X, order="F" if fortran else "C")
    scaled = scale_to_range(given_X, list("abc"))
    assert scaled.flags.c_contiguous
    np.testing.assert_array_equal(scaled.min(axis=0), -1)
    np.testing.assert_array_equal(scaled.max(axis=0), 1)
    for j in range(3):
        assert (np.diff(scaled[np.argsort(X[:, j]), j]) >= 0).all()
    np.testing.assert_array_equal(given_X, X)


def test_a_constant_attribute_cannot_be_scaled():
    X = np.array([[1.0, 5.0, 0.0], [2.0, 5.0, 0.0]])
    with pytest.raises(
        ValueError,
        match=(
            r"at least two different values to be scaled; 2 of 3 are constant "
            r"\(first: 'b'\)"
        ),
    ):
        scale_to_range(X, list("abc"))


def test_without_pandas_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'Reading this dataset needs pandas: pip install "scarless\[data\]"'):
        parsers.parse_mushroom(b"p,x\n")


# Adult

ADULT_ROW = "{age}, {work}, 77516, Bachelors, 13, Divorced, Sales, Husband, White, Male, 0, 0, 40, Cuba, {income}\n"


def adult(*rows):
    return "".join(ADULT_ROW.format(age=age, work=work, income=income) for age, work, income in rows)


def test_adult_joins_both_files_without_the_header_and_the_full_stops():
    train = adult((39, "Private", "<=50K"), (50, "?", ">50K")) + "\n"
    test = "|1x3 Cross validator\n" + adult((25, "State-gov", "<=50K."), (28, "Private", ">50K."))
    parsed = parsers.parse_adult(train.encode(), test.encode())
    assert classes_of(parsed) == [0, 1, 0, 1]
    columns = columns_of(parsed)
    assert columns["age"] == [39, 50, 25, 28]
    assert columns["workclass=?"] == [-1, 1, -1, -1]
    assert columns["workclass=Private"] == [1, -1, -1, 1]
    assert [name for name in columns if name.startswith("workclass")] == [
        "workclass=?",
        "workclass=Private",
        "workclass=State-gov",
    ]
    assert "education" not in "".join(name for name in columns if "=" in name)  # one value only


# Breast cancer


def test_breast_cancer_drops_rows_with_a_gap_and_the_number_of_the_patient():
    raw = b"1000025,5,1,1,1,2,1,3,1,1,2\n1057013,8,4,5,1,2,?,7,3,1,4\n1017122,8,10,10,8,7,10,9,7,1,4\n"
    parsed = parsers.parse_breast_cancer(raw)
    assert classes_of(parsed) == [0, 1]
    columns = columns_of(parsed)
    assert len(columns) == 9
    assert columns["clump-thickness"] == [5, 8]
    assert columns["bare-nuclei"] == [1, 10]
    assert columns["mitoses"] == [1, 1]


# Cover type


def test_covtype_is_positive_for_lodgepole_pine():
    rows = [[*range(10), *[0] * 44, kind] for kind in (1, 2, 7)]
    parsed = parsers.parse_covtype("\n".join(",".join(map(str, row)) for row in rows).encode())
    assert classes_of(parsed) == [0, 1, 0]
    columns = columns_of(parsed)
    assert len(columns) == 54
    assert columns["horizontal-distance-to-fire-points"] == [9, 9, 9]
    assert list(columns)[-1] == "soil-type-40"
    assert parsed[0].flags.c_contiguous


# Diabetes


def diabetes(n=100, **columns):
    """Return a raw file in which every column that is not given has 100 different values, or is dropped anyway."""
    names = [
        *parsers._DIABETES_DROPPED,
        *parsers._DIABETES_MANY_VALUES,
        *parsers._DIABETES_NUMBERS,
        "readmitted",
    ]
    table = {name: [str(i) for i in range(n)] for name in names}
    table["age"] = [f"[{10 * (i % 10)}-{10 * (i % 10) + 10})" for i in range(n)]
    table |= columns
    return pd.DataFrame(table).to_csv(index=False, lineterminator="\r\n").encode()


def some(n, of, rest, total=100):
    return [of] * n + [rest] * (total - n)


def test_diabetes_drops_attributes_with_one_value_in_more_than_95_percent():
    parsed = parsers.parse_diabetes(
        diabetes(at=some(95, "No", "Up"), above=some(96, "No", "Up"), num_procedures=some(96, "0", "1"))
    )
    columns = columns_of(parsed)
    assert columns["at=Up"] == some(95, -1.0, 1.0)
    assert "above=Up" not in columns
    assert "num_procedures" not in columns
    assert not set(parsers._DIABETES_DROPPED) & {name.split("=")[0] for name in columns}


def test_diabetes_keeps_none_as_a_value_and_makes_numbers_of_age_brackets():
    parsed = parsers.parse_diabetes(diabetes(A1Cresult=[*some(50, "None", "Norm", 90), *[">8"] * 10]))
    columns = columns_of(parsed)
    assert columns["A1Cresult=None"] == some(50, 1.0, -1.0)
    assert [name for name in columns if name.startswith("A1C")] == ["A1Cresult=>8", "A1Cresult=None", "A1Cresult=Norm"]
    assert columns["age"] == [10.0 * (i % 10) for i in range(100)]


def test_diabetes_pools_all_but_the_ten_commonest_values():
    # v00 to v08 five times each, then v09 to v13 four times each: v09 is the tenth, by name.
    values = [f"v{i:02d}" for i in range(9) for _ in range(5)] + [f"v{i:02d}" for i in range(9, 14) for _ in range(4)]
    values += [f"rare{i}" for i in range(100 - len(values))]
    columns = columns_of(parsers.parse_diabetes(diabetes(diag_2=values[::-1])))
    kept = [name for name in columns if name.startswith("diag_2=")]
    assert kept == ["diag_2=other", *(f"diag_2=v{i:02d}" for i in range(10))]
    assert columns["diag_2=other"].count(1.0) == 100 - 9 * 5 - 4


def test_diabetes_drops_rows_with_gaps_but_not_where_the_gap_was_pooled_or_named():
    pairs = ["a", "b"] * 50
    parsed = parsers.parse_diabetes(
        diabetes(
            race=["?", *pairs[1:]],
            gender=[pairs[0], "Unknown/Invalid", *pairs[2:]],
            diag_1=["common"] * 45 + [str(i % 9) for i in range(54)] + ["?"],
            medical_specialty=["?", "?", "?", "Surgery"] * 25,
            weight=["?"] * 100,
            readmitted=["<30", "NO", "<30", ">30"] * 25,
        )
    )
    columns = columns_of(parsed)
    assert len(columns["age"]) == 98
    assert columns["diag_1=other"] == [-1.0] * 97 + [1.0]
    assert columns["medical_specialty=Surgery"] == [-1.0, 1.0] + [-1.0, -1.0, -1.0, 1.0] * 24
    assert classes_of(parsed) == [1, 0] + [1, 0, 1, 0] * 24


# Image segmentation


def test_image_segmentation_joins_both_files_and_drops_the_constant():
    head = "; comment\n\n; attributes\nREGION-CENTROID-COL,REGION-PIXEL-COUNT,HUE-MEAN\n\n"
    train = head + "SKY,1.0,9,-2.5\nWINDOW,2.0,9,0.5\n"
    test = head + "GRASS,3.0,9,1\nFOLIAGE,4.0,9,2\nPATH,5,9,3\nCEMENT,6,9,4\nBRICKFACE,7,9,5\n"
    parsed = parsers.parse_image_segmentation(train.encode(), test.encode())
    assert classes_of(parsed) == [1, 0, 1, 1, 0, 0, 0]
    assert columns_of(parsed) == {
        "region-centroid-col": [1, 2, 3, 4, 5, 6, 7],
        "hue-mean": [-2.5, 0.5, 1, 2, 3, 4, 5],
    }


# Mushroom


def test_mushroom_reads_the_question_mark_as_a_category():
    def row(kind, root, bruises):
        cells = [kind, *"xsn", bruises, *"pfcnke", root, *"sswwpwopksu"]
        return ",".join(cells)

    raw = "\n".join([row("p", "?", "t"), row("e", "c", "f"), row("p", "b", "t")])
    parsed = parsers.parse_mushroom(raw.encode())
    assert classes_of(parsed) == [1, 0, 1]
    assert columns_of(parsed) == {
        "bruises=t": [1, -1, 1],
        "stalk-root=?": [1, -1, -1],
        "stalk-root=b": [-1, -1, 1],
        "stalk-root=c": [-1, 1, -1],
    }


# Splice


def test_splice_joins_both_files():
    parsed = parsers.parse_splice(b"+1 1:3 2:4 60:2\n-1 1:1 2:1 60:1\n", b"-1 1:2 60:4\n")
    assert classes_of(parsed) == [1, 0, 0]
    columns = columns_of(parsed)
    assert len(columns) == 60
    assert columns["base-1"] == [3, 1, 2]
    assert columns["base-2"] == [4, 1, 0]
    assert columns["base-60"] == [2, 1, 4]


# 20 Newsgroups

TRAIN, TEST = "20news-bydate-train", "20news-bydate-test"


def packed(members, prefix="", mtime=0, links=()):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(prefix + name)
            info.size, info.mtime = len(content), mtime
            tar.addfile(info, io.BytesIO(content))
        for name in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(info)
    return buffer.getvalue()


POSTS = {
    f"{TRAIN}/comp.graphics/100": b"From: a\n\nfirst\nsecond line",
    f"{TRAIN}/rec.autos/7": b"",
    f"{TEST}/comp.sys.ibm.pc.hardware/21": b"x 12\nnot a name",
}


def test_the_listing_depends_on_the_posts_alone():
    listing = list_posts(packed(POSTS))
    assert read_posts(listing) == POSTS
    assert listing.startswith(
        b"20news-bydate-test/comp.sys.ibm.pc.hardware/21 15\nx 12\nnot a name20news-bydate-train/"
    )
    backwards = dict(reversed(POSTS.items()))
    strangers = {
        f"{TRAIN}/sci.space/1": b"another group",
        f"../{TRAIN}/rec.autos/8": b"climbs",
        f"{TRAIN}/rec.autos/../../9": b"climbs",
        f"/{TRAIN}/rec.autos/10": b"absolute",
        f"{TRAIN}/rec.autos/readme": b"no post",
        "20news-bydate-other/rec.autos/11": b"no part",
    }
    assert list_posts(packed(backwards, prefix="./", mtime=99)) == listing
    assert list_posts(packed(backwards | strangers, links=[f"{TRAIN}/rec.autos/12"])) == listing


def test_a_sparse_member_is_not_blown_up():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("placeholder")
        info.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": f"{TRAIN}/rec.autos/13",
            "GNU.sparse.realsize": "10000000",
        }
        info.size = 512
        tar.addfile(info, io.BytesIO(b"0\n".ljust(512, b"\0")))  # a sparse file: 512 bytes describe ten million zeros
    with tarfile.open(fileobj=io.BytesIO(buffer.getvalue())) as tar:
        (member,) = tar.getmembers()
    assert (member.name, member.size, member.issparse()) == (f"{TRAIN}/rec.autos/13", 10_000_000, True)
    assert list_posts(buffer.getvalue()) == b""


def test_truncated_and_invalid_archives_are_refused():
    archive = packed({f"{TRAIN}/rec.autos/7": bytes(5000)})
    with pytest.raises(ValueError, match="is not a complete tar archive"):
        list_posts(archive[:2000])
    with pytest.raises(ValueError, match="is not a complete tar archive"):
        list_posts(b"<!DOCTYPE html>")


@settings(deadline=None, max_examples=20)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_depend_on_the_order_of_the_archive(random):
    names = [f"{part}/{group}/{i}" for part in (TRAIN, TEST) for group in ("comp.x", "rec.y") for i in range(20)]
    order = sklearn_order(names)
    assert sorted(order) == sorted(names)
    assert order != sorted(names)
    shuffled = random.sample(names, len(names))
    assert sklearn_order(shuffled) == order


def test_the_most_frequent_words_with_ties_in_alphabetical_order(monkeypatch):
    monkeypatch.setattr(parsers, "N_WORDS", 3)
    texts = {
        f"{TRAIN}/comp.graphics/1": "Write board add Image the",
        f"{TRAIN}/comp.graphics/2": "image write board add a1 x caf\xe9",
        f"{TEST}/rec.autos/3": "image Caf\xe9 caf\xe9 the",
        f"{TEST}/rec.autos/4": "cafe > und nothing else",
    }
    posts = {name: f"Subject: und\n\n{text}".encode("latin1") for name, text in texts.items()}
    X, y, words = parse_newsgroups(list_posts(packed(posts)))
    # cafe and image are in three posts; add, board and write in two; the, nothing and else are stop words
    assert words == ["add", "cafe", "image"]
    rows = {tuple(row) for row in np.column_stack([X, y]).tolist()}
    assert rows == {(1, 0, 1, 1), (1, 1, 1, 1), (0, 1, 1, 0), (0, 1, 0, 0)}
    assert y.sum() == 2


@pytest.mark.parametrize(
    ("post", "body"),
    [("Subject: x\nFrom: y\n\nbody\n\nmore", "body\n\nmore"), ("no blank line", ""), ("\n\nbody", "body")],
)
def test_the_header_ends_at_the_first_blank_line(post, body):
    assert strip_header(post) == body


@pytest.mark.parametrize(
    ("post", "rest"),
    [
        ("text\nmore\n--\nJane", "text\nmore"),
        ("text\n\nmore\n  \nJane", "text\n\nmore"),
        ("text\n-----\nJane\n\n\n", "text"),
        ("text\nmore", "text\nmore"),
        ("--\ntext", "--\ntext"),
    ],
)
def test_the_footer_begins_at_the_last_line_that_is_blank_or_hyphens(post, rest):
    assert strip_footer(post) == rest


def test_quoted_lines_and_their_introductions_are_removed():
    kept = ["own words", " > indented is own", "see In article 5"]
    gone = [
        "> quoted",
        "| quoted",
        "In article <1>",
        "Quoted from b",
        "Jane writes:",
        "J wrote: x",
        "he said:",
        "q writes in r",
    ]
    assert strip_quotes("\n".join([*gone[:4], *kept, *gone[4:]])) == "\n".join(kept)
