"""Table files: values that are read equal those written, and files that cannot be read raise a clear error."""

import datetime
import errno
import gzip
import re
import unicodedata
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import openpyxl
import pandas
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scarless.outside.table_columns import MISSING_WORDS
from scarless.outside.table_files import TableFileError, read_table, table_suffixes, write_table

pytestmark = pytest.mark.usefixtures("empty_folder")


def put(content, name="t.csv"):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def read(content, name="t.csv", **options):
    return read_table(put(content, name), **options)


def values(series):
    return [None if pandas.isna(value) else value for value in series]


def columns(content, **options):
    return {name: values(column) for name, column in read(content, **options).items()}


def kinds(content, **options):
    return [
        "text" if pandas.api.types.is_string_dtype(dtype) else str(dtype) for dtype in read(content, **options).dtypes
    ]


def refused(match, content=None, name="t.csv", **options):
    """Assert that reading a file raises an error of one sentence, which names the file as it was given."""
    if content is not None:
        put(content, name)
    with pytest.raises(TableFileError, match=match) as caught:
        read_table(name, **options)
    said = str(caught.value)
    assert said.startswith(f"{name}: ")
    assert said.endswith(".")
    assert "\n" not in said


# --- separators, header, cells


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_detected_outside_quotes(separator):
    others = "".join({",", ";", "\t", "|"} - {separator})
    text = f'name{separator}"x{others}"\n"a{others * 3}"{separator}1\nb{separator}2\n'
    assert columns(text) == {"name": [f"a{others * 3}", "b"], f"x{others}".strip(): [1, 2]}


def test_a_separator_that_is_given_is_used():
    assert columns("a b\n1 2\n", separator=" ") == {"a": [1], "b": [2]}
    assert columns("a;b\n1;2\n", separator=",") == {"a;b": ["1;2"]}
    assert columns("a\tb;c\n1\t2;3\n", separator="\\t") == {"a": [1], "b;c": ["2;3"]}


def test_tsv_has_tabs_whatever_else_is_in_it():
    put("a,b,c\td\n1,2,3\t4\n", "t.tsv")
    assert list(read_table("t.tsv").columns) == ["a,b,c", "d"]


@pytest.mark.parametrize("separator", ["", ",,", "\n", '"', "§"])
def test_invalid_separators_are_refused(separator):
    refused("must be one ASCII character", "a,b\n1,2\n", separator=separator)


def test_the_sep_line_of_excel_is_not_the_header():
    assert columns("sep=|\na,b|c\n1|2\n") == {"a,b": [1], "c": [2]}


def test_byte_order_mark_white_space_around_names_and_empty_lines():
    assert columns(b'\xef\xbb\xbf\n\n a , "b c "\n\n1,2\n\n3,4\n\n') == {"a": [1, 3], '"b c "': [2, 4]}
    assert columns(b'\xef\xbb\xbf"a ",b\r\n1,2\r\n') == {"a": [1], "b": [2]}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_line_breaks_in_cells(end):
    text = end.join(["a,b", f'1,"x{end}{end}y ""z"""', '2,"u,v"', ""])
    assert columns(text) == {"a": [1, 2], "b": [f'x{end}{end}y "z"', "u,v"]}


def test_a_line_break_in_a_name():
    assert columns('"a\nb",c\n1,2\n') == {"a\nb": [1], "c": [2]}


def test_missing_values_are_missing_in_all_columns():
    text = 'n,t,b,d\n1,x,true,2020-01-01\nNA,n/a,,NULL\n  , nan ,null,\n"",NA,#N/A,<NA>\n'
    table = read(text)
    assert [str(dtype) for dtype in table.dtypes[["n", "b", "d"]]] == ["float64", "boolean", "datetime64[us]"]
    assert table.iloc[1:].isna().all(axis=None)
    assert table.iloc[0].notna().all()


def test_a_header_longer_than_the_first_read():
    names = [f"{'a rather long name of column ' * 100} {place}" for place in range(500)]
    text = ",".join(names) + "\n" + ",".join("1" * len(names)) + "\n"
    assert len(text) > 2**20
    assert list(read(text).columns) == names


def test_a_row_longer_than_a_block():
    long = "x" * 10_000_000
    assert columns(f"a,b\n1,{long}\n2,y\n")["b"] == [long, "y"]


# --- types


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2", "0"], "int64"),
        (["1", "2.5"], "float64"),
        (["0.5", "00.5", "-0.25", ".5", "5.", "1e5", "-inf"], "float64"),
        (["00123", "7"], "text"),
        (["7", "00123"], "text"),
        (["-01"], "text"),
        (["1.5", "012"], "text"),
        (["1.5", "012e3"], "text"),
        (["0", "-0"], "int64"),
        (["0x1F"], "text"),
        (["+491701234567"], "text"),
        (["+1.5", "-2"], "float64"),
        (["9223372036854775807", "-9223372036854775808"], "int64"),
        (["9223372036854775808"], "text"),
        (["9007199254740993", "0.5"], "text"),
        (["9007199254740991", "0.5"], "float64"),
        (["1e400", "1"], "text"),
        (["1", "x"], "text"),
        (["3,5", "4"], "text"),
        (["true", "FALSE"], "bool"),
        (["true", "1"], "text"),
        (["yes", "no"], "text"),
        (["2020-01-31", "9999-12-31"], "datetime64[us]"),
        (["2020-01-31", "2020-02-30"], "text"),
        (["2020-01-31 10:00", "2020-01-31T10:00:00.5"], "datetime64[us]"),
        (["2020-01-31 10:00:00.123456789"], "datetime64[ns]"),
        (["2020-01-31T10:00:00Z", "2020-01-31T10:00:00+01:00"], "datetime64[us, UTC]"),
        (["31.01.2020"], "text"),
        ([" 1", "2 "], "int64"),
        ([" true", "false "], "bool"),
        (["NA", ""], "float64"),
    ],
)
def test_all_values_determine_the_type_of_a_column(cells, kind):
    text = "k,v\n" + "".join(f'0,"{cell}"\n' for cell in cells)
    table = read(text)
    assert kinds(text)[1] == kind
    if kind == "text":
        assert list(table["v"]) == cells


def test_numbers_are_exact():
    assert columns("i,f\n9223372036854775807,0.1\n-5,1e-320\n") == {"i": [2**63 - 1, -5], "f": [0.1, 1e-320]}
    table = read("i,j\n9007199254740993,1\n,\n")
    assert str(table["i"].dtype) == "Int64"
    assert table["i"][0] == 9007199254740993
    assert str(table["j"].dtype) == "float64"


def test_time_offsets_are_converted_to_utc():
    times = read("a\n2020-01-31T10:00:00Z\n2020-01-31T10:00:00+01:00\n")["a"]
    assert list(times) == [
        pandas.Timestamp("2020-01-31 10:00", tz="UTC"),
        pandas.Timestamp("2020-01-31 09:00", tz="UTC"),
    ]


def test_decimal_commas_behind_semicolons_only():
    assert columns("a;b;c\n3,5;1;0,25\n-4;2,x;1.5\n ;3;1,5\n") == {
        "a": [3.5, -4, None],
        "b": ["1", "2,x", "3"],
        "c": ["0,25", "1.5", "1,5"],
    }
    assert columns('a,b\n"3,5",1\n')["a"] == ["3,5"]
    assert columns("a;b\n1,234,5;1\n")["a"] == ["1,234,5"]
    assert columns("a;b\n007;1\n3,5;1\n")["a"] == ["007", "3,5"]


def test_points_that_may_group_thousands_beside_decimal_commas():
    with pytest.warns(
        UserWarning, match=r"t\.csv: column 'b' is read as text\. Column 'a' has decimal commas, so the points"
    ):
        table = read("a;b;c;d\n3,5;1.234;1.5;0.125\n4;56;1.250;0.250\n")
    assert list(table["b"]) == ["1.234", "56"]
    assert list(table["c"]) == [1.5, 1.25]
    assert list(table["d"]) == [0.125, 0.25]
    assert columns("a;b\n3;1.234\n4;56\n")["b"] == [1.234, 56]


def test_texts_keep_the_space_around_them():
    assert columns("a,b\n x ,1\ny,2\n")["a"] == [" x ", "y"]


def test_columns_can_be_written_to():
    table = read("a,b\n1,0.5\n")
    table.loc[0, "a"] = 7
    assert table["a"].to_numpy(copy=True).flags.writeable
    assert list(table["a"]) == [7]


@pytest.mark.parametrize(
    ("last", "kind", "first"),
    [("0.5", "float64", 12345678.0), ("n.k.", "text", "12345678"), ("007", "text", "12345678")],
)
def test_types_are_inferred_from_the_whole_file(last, kind, first):
    """Arrow infers types from the first megabyte. It then fails at later values, or reads 007 as 7."""
    n = 500_000
    text = "a,b\n" + "12345678,x234567890123456789\n" * n + f"{last},y\n"
    assert len(text) > 10 * 2**20
    table = read(text)
    assert kinds("a,b\n" + f"12345678,x\n{last},y\n") == [kind, "text"]
    assert len(table) == n + 1
    assert table["a"][0] == first
    assert str(table["a"].iloc[-1]) == last


# --- kinds of files


@pytest.mark.parametrize("suffix", table_suffixes())
def test_every_kind_of_file_is_written_and_read(suffix):
    table = pandas.DataFrame(
        {
            "whole": [1, -2, 3],
            "float": [0.1, np.nan, 1e300],
            "text": ["a\nb", None, 'ü "x", y'],
            "flag": [True, False, True],
            "day": pandas.to_datetime(["2020-01-31 10:00:01", "1969-07-20 00:00:00", None]).astype("datetime64[us]"),
        }
    )
    write_table(table, f"t{suffix}")
    found = read_table(f"T{suffix}" if Path(f"T{suffix}").exists() else f"t{suffix}")
    pandas.testing.assert_frame_equal(found, table, check_dtype=False)
    assert [path.name for path in Path().iterdir()] == [f"t{suffix}"]


def test_capital_letters_in_a_suffix():
    put("a,b\n1,2\n", "T.CSV")
    assert list(read_table(Path("T.CSV")).columns) == ["a", "b"]


def test_gzip_files_in_several_parts():
    put(gzip.compress(b"a,b\n1,2\n", mtime=0) + gzip.compress(b"3,4\n"), "t.csv.gz")
    assert list(read_table("t.csv.gz")["a"]) == [1, 3]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig", "UTF8"])
def test_encodings(encoding):
    text = "name;größe\n" + "Zoë;3,5\n" * 3
    put(text.encode(encoding), "t.csv")
    table = read_table("t.csv", encoding=encoding)
    assert {name: list(column) for name, column in table.items()} == {"name": ["Zoë"] * 3, "größe": [3.5] * 3}


def test_parquet_types_that_pandas_lacks():
    table = pyarrow.table(
        {
            "gap": pyarrow.array([1, None], pyarrow.int32()),
            "large": pyarrow.array([2**60 + 1, None]),
            "larger": pyarrow.array([2**64 - 1, None], pyarrow.uint64()),
            "flag": pyarrow.array([True, None]),
            "money": pyarrow.array([Decimal("1.25"), None]),
            "day": pyarrow.array([datetime.date(2020, 1, 31), None]),
            "time": pyarrow.array([datetime.time(10, 30), None]),
            "bytes": pyarrow.array(["ü".encode(), None]),
            "level": pyarrow.array(["a", None]).dictionary_encode(),
            "nothing": pyarrow.nulls(2),
            " spaced ": [1, 2],
        }
    )
    for name, write in (("t.parquet", pyarrow.parquet.write_table), ("t.arrow", pyarrow.feather.write_feather)):
        write(table, name)
        found = read_table(name)
        assert {key: str(kind) for key, kind in found.dtypes.drop(["bytes", "time"]).items()} == {
            "gap": "float64", "large": "Int64", "larger": "UInt64", "flag": "boolean", "money": "float64",
            "day": "datetime64[s]", "level": "category", "nothing": "float64", "spaced": "int64",
        }  # fmt: skip
        first = found.iloc[0].drop("nothing")
        assert first["large"] == 2**60 + 1
        assert first["larger"] == 2**64 - 1
        assert first["day"] == pandas.Timestamp("2020-01-31")
        assert (first["money"], first["bytes"], first["level"]) == (1.25, "ü", "a")
        assert first["time"].startswith("10:30:00")
        assert found.drop(columns="spaced").iloc[1].isna().all()


def test_arrow_streams_are_read_too():
    table = pyarrow.table({"a": [1, 2]})
    with pyarrow.OSFile("t.ipc", "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    assert list(read_table("t.ipc")["a"]) == [1, 2]


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_pandas_index_in_a_parquet_file(suffix):
    write = {".parquet": pandas.DataFrame.to_parquet, ".feather": lambda table, name: pyarrow.feather.write_feather(
        pyarrow.Table.from_pandas(table), name)}[suffix]  # fmt: skip
    table = pandas.DataFrame({"a": [1, 2]})
    write(table, f"t{suffix}")
    assert list(read_table(f"t{suffix}").columns) == ["a"]
    write(table.set_axis(["x", "y"]).rename_axis("id"), f"t{suffix}")
    assert list(read_table(f"t{suffix}")["id"]) == ["x", "y"]
    write(table.set_axis([5, 9]), f"t{suffix}")
    with pytest.warns(UserWarning, match=r"the row index of pandas, which has no name, was left out.*reset_index"):
        assert list(read_table(f"t{suffix}").columns) == ["a"]


# --- Excel


def put_sheet(*rows, name="t.xlsx", more_sheets=()):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for title in more_sheets:
        book.create_sheet(title)
    book.save(name)
    return name


def test_excel_cells_keep_their_kind():
    day = datetime.datetime(2020, 1, 31, 10, 30)
    rows = [
        (" id ", "n", "x", "flag", "day", "mixed", "error", None),
        ("007", 1, 0.5, True, day, 1, "#DIV/0!", None),
        ("012", 2, 3, None, None, "x", 2.5, None),
        (None, None, None, None, None, None, None, None),
    ]
    table = read_table(put_sheet(*rows))
    assert {name: values(column) for name, column in table.items()} == {
        "id": ["007", "012"], "n": [1, 2], "x": [0.5, 3], "flag": [True, None], "day": [day, None],
        "mixed": ["1", "x"], "error": [None, 2.5],
    }  # fmt: skip
    assert str(table["n"].dtype) == "int64"


def test_only_the_first_sheet_is_read_with_a_warning():
    put_sheet(["a"], [1], more_sheets=["second"])
    with pytest.warns(UserWarning, match=r"t\.xlsx: only the first of 2 sheets, 'Sheet', is read"):
        assert list(read_table("t.xlsx")["a"]) == [1]


def test_formulas_without_a_computed_value_are_refused():
    refused("row 3 has the formula '=A2\\*2' without a value; open and save", name=put_sheet(["a"], [1], ["=A2*2"]))


def test_empty_sheets():
    refused("first sheet of this workbook is empty", name=put_sheet())
    refused("a header but no rows", name=put_sheet(["a", "b"]))


def test_excel_without_its_package(monkeypatch):
    name = put_sheet(["a"], [1])
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r'Excel needs openpyxl: pip install "scarless\[excel\]"'):
        read_table(name)


def test_text_without_its_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'tables needs pyarrow: pip install "scarless\[tool\]"'):
        read_table(put("a,b\n1,2\n"))


# --- names


def test_unnamed_row_numbers_are_left_out_with_a_warning():
    for text in (",a\n0,x\n1,y\n", '"",a\n1,x\n2,y\n', "Unnamed: 0,a\n0,x\n1,y\n"):
        with pytest.warns(
            UserWarning,
            match=r"t\.csv is read without column 1\. A column without a name is left out if it has only row numbers",
        ):
            assert columns(text) == {"a": ["x", "y"]}
    with pytest.warns(UserWarning, match=r"t\.csv is read without column 3\."):
        assert columns("a,b,\n1,2,\n") == {"a": [1], "b": [2]}


def test_the_warning_points_at_the_line_of_the_user():
    put(",a\n0,x\n1,y\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_table("t.csv")
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]


@pytest.mark.parametrize("text", [",a\n0,x\n2,y\n", ",a\nu,x\nv,y\n", ",a\n2,x\n3,y\n"])
def test_a_column_without_a_name_is_refused(text):
    refused("column 1 has no name; give every column a name", text)


def test_several_columns_without_names():
    refused("columns 2, 4 have no name", "a,,b, \n1,2,3,4\n")


def test_a_named_column_of_row_numbers_stays():
    assert list(columns("id,a\n0,x\n1,y\n")) == ["id", "a"]


def test_duplicate_names():
    refused("the column names 'a', 'b' occur more than once; give every column its own name", "a,b,c, a,b\n1,2,3,4,5\n")
    pyarrow.parquet.write_table(pyarrow.table([[1], [2]], ["x", "x"]), "t.parquet")
    refused("the column name 'x' occurs more than once", name="t.parquet")


# --- files that cannot be read


def test_no_such_file_and_the_nearest_name():
    put("a\n1\n", "patients.csv")
    refused("there is no such file; perhaps you meant 'patients.csv'", name="patient.csv")
    refused("there is no such file; check its name and folder", name="zzz.parquet")
    refused("there is no such file, and no folder 'nowhere'", name="nowhere/t.csv")
    Path("data").mkdir()
    put("a\n1\n", "data/patients.csv")
    refused(re.escape(f"perhaps you meant {str(Path('data/patients.csv'))!r}"), name="data/patiens.csv")


def test_a_folder():
    Path("t.csv").mkdir()
    refused("this is a folder; pass the path of a file", name="t.csv")


@pytest.mark.parametrize("name", ["t.json", "t", "t.gz", "t.parquet.gz", "t.xls"])
def test_unknown_suffixes(name):
    refused(
        r"must be one of \.csv, \.tsv, \.txt, \.parquet.*compressed \(\.gz, \.zst.*; got ",
        "a\n1\n",
        name,
    )
    with pytest.raises(TableFileError, match="the suffix of a table file must be one of"):
        write_table(pandas.DataFrame({"a": [1]}), name)


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "no"), OSError(errno.EIO, "Input/output error")])
def test_errors_of_the_operating_system_are_reported(monkeypatch, error):
    put("a,b\n1,2\n")

    def fails(*_, **__):
        raise error

    monkeypatch.setattr(Path, "open", fails)
    denied = isinstance(error, PermissionError)
    refused("you have no permission to read this file" if denied else r"cannot be read \(Input/output error\)")


@pytest.mark.parametrize("content", [b"", b"\n", b"  \n\t\r\n", b"\xef\xbb\xbf\n"])
def test_empty_files(content):
    refused("this file is empty", content)
    refused("this file is empty", gzip.compress(content, mtime=0), "t.csv.gz")


@pytest.mark.parametrize("content", ["a,b\n", "a,b", "a,b\n\n\r\n"])
def test_a_header_only(content):
    refused("a header but no rows; write it again", content)


def test_a_table_without_rows():
    pandas.DataFrame({"a": []}).to_parquet("t.parquet")
    refused("this file has no rows", name="t.parquet")


@pytest.mark.parametrize(
    ("row", "found", "advice"),
    [("7,8", 2, "write missing cells"), ("7,8,9,10", 4, "quote cells that contain ','"), ("7", 1, "")],
)
def test_ragged_rows_are_named_by_their_line(row, found, advice):
    text = f'a,b,c\n1,2,3\n\n4,"x\r\ny\nz",6\n{row}\n1,2,3\n'
    word = "cells" if found > 1 else "cell"
    refused(rf"the row in line 7 has {found} {word}, but the header has 3 .*{advice}", text)
    put(gzip.compress(text.encode()), "t.txt.gz")
    refused(rf"the row in line 7 has {found} {word}", name="t.txt.gz")


def test_ragged_rows_far_down():
    refused("the row in line 400002 has 1 cell, ", "a;b\n" + "123456;1234567\n" * 400_000 + "1\n")


def test_ragged_rows_below_a_header_in_several_lines():
    refused("the row in line 5 has 3 cells, but the header has 2", '\n"a\nb",c\n1,2\n1,2,3\n')


@pytest.mark.parametrize(
    "text",
    [
        'a,b\n1,2\n2,"x\n3,y\n4,z\n',
        'a,b\n1,2\n2,"x\n3,y\n4,"z"\n5,6\n',
        'a,b\n1,2\n2,"x\n',
        'a\n1\n"x\n3\n4\n',
        'a\n1\n"x\n3\n"y"\n4\n',
    ],
)
def test_rows_are_not_swallowed_by_an_open_quotation_mark(text):
    """Arrow reads all of these without an error, as tables with fewer rows."""
    refused(rf"the row that begins in line {text[: text.index('x')].count(chr(10)) + 1} has a quotation mark", text)


def test_quotation_marks_inside_cells_are_kept():
    assert columns('a,b\n1,5" pipe\n2,"c, ""d""\ne,f,g"\n') == {"a": [1, 2], "b": ['5" pipe', 'c, "d"\ne,f,g']}


def test_wrong_encoding():
    text = 'a,b\n1,"x\ny"\n2,Zoë\n'
    advice = r'not valid in UTF-8.* encoding="latin-1" or encoding="cp1252" \(--encoding latin-1\)'
    refused(f"line 4 has the byte 0xeb, which is {advice}", text.encode("latin-1"))
    refused(f"line 1 has the byte 0xeb, which is {advice}", "Zoë,b\n1,2\n".encode("latin-1"))
    refused("line 300002 has the byte 0xeb", ("a,b\n" + "1234567,x\n" * 300_000 + "1,Zoë\n").encode("latin-1"))
    refused("line 4 has the byte 0xeb", gzip.compress(text.encode("latin-1")), "t.csv.gz")
    refused(r"line 4 has the byte 0xc3, which is not valid in ASCII.*encoding=\"latin-1\"", text, encoding="ascii")
    refused(r"byte 0xff, which is not valid in UTF-8.*encoding=\"utf-16\" \(--encoding utf-16\)", text.encode("utf-16"))
    refused(r"it contains zero bytes.*encoding=\"utf-16\"", text.replace("ë", "e").encode("utf-16-le"))
    refused("encoding='klingon' is unknown; use 'utf-8'", text, encoding="klingon")
    refused("encoding='base64' is unknown", text, encoding="base64")


def packed(suffix):
    write_table(pandas.DataFrame({"a": np.random.default_rng(0).normal(size=5000), "b": 1}), f"x{suffix}")
    return Path(f"x{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", [".csv.gz", ".tsv.zst", ".parquet", ".feather", ".xlsx"])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_damaged_files(suffix, damage):
    good = packed(suffix)
    bad = good[: len(good) // 2] if damage == "cut" else good[:200] + bytes(255 - byte for byte in good[200:])
    refused(r"this (gzip file|zstd file|Parquet file|Arrow file|file) is damaged or", bad, f"t{suffix}")


@pytest.mark.parametrize(
    ("suffix", "content", "match"),
    [
        (".parquet", b"a,b\n1,2\n", r"a Parquet file, but the file seems to be a text file; rename it to end in \.csv"),
        (".feather", b"a,b\n1,2\n", r"an Arrow file, but the file seems to be a text file; rename it to end in \.csv"),
        (".xlsx", b"a,b\n1,2\n", r"an Excel file, but the file seems to be a text file"),
        (".csv.gz", b"a,b\n1,2\n", r"a gzip file, but the file seems to be a text file; rename it to end in \.csv"),
        (".csv", b"PAR1xyz", r"a text file, but the file seems to be a Parquet file; rename it to end in \.parquet"),
        (".csv.gz", gzip.compress(b"PAR1xyz", mtime=0), r"a text file, but the file seems to be a Parquet file"),
        (".csv", b"ARROW1xyz", r"seems to be an Arrow file; rename it to end in \.arrow"),
        (".csv", b"PK\x03\x04xyz", r"seems to be an Excel file; rename it to end in \.xlsx"),
        (".csv", b"\x1f\x8bxyz", r"seems to be a gzip file; convert it"),
        (".csv", b"<!DOCTYPE html><p>Log in", r"seems to be an HTML file; convert it, or write it again"),
        (".xlsx", b"\xd0\xcf\x11\xe0\0\0", r"seems to be an old Excel \(\.xls\) file; convert it"),
        (".parquet", b"\0\1\2\3\xff\xfe\xfd", r"its first bytes do not match"),
    ],
)
def test_files_of_another_kind_than_their_name_says(suffix, content, match):
    refused(match, content, f"t{suffix}")


@pytest.mark.parametrize("value", [[1, 2], {"x": 1}], ids=["list", "struct"])
def test_nested_columns(value):
    pyarrow.parquet.write_table(pyarrow.table({"a": [1], "visits": [value]}), "t.parquet")
    refused(
        r"column 'visits' has nested values \((list|struct)<.*write each part as a separate column",
        name="t.parquet",
    )


def test_columns_of_bytes():
    pyarrow.parquet.write_table(pyarrow.table({"scan": [b"\xff\xfe"]}), "t.parquet")
    refused("column 'scan' has bytes that are not text", name="t.parquet")


# --- writing


def test_a_text_file_as_people_expect_it():
    table = pandas.DataFrame(
        {
            "i": [1, 2],
            "f": [0.1 + 0.2, np.nan],
            "c": pandas.Categorical(["x", None]),
            "d": pandas.to_datetime(["2020-01-31", None]),
            "b": pandas.array([True, None], dtype="boolean"),
            "o": [1, "x"],
        },
        index=[5, 9],
    )
    write_table(table, "t.csv")
    assert Path("t.csv").read_text(encoding="utf-8") == (
        '"i","f","c","d","b","o"\n1,0.30000000000000004,"x",2020-01-31,true,"1"\n2,,,,,"x"\n'
    )


FORMULAS = ["=1+1", "+cmd", "-a", "@x", "\tx", "\r=x", "-1+2", "=", "-"]
HARMLESS = ["a=b", "-3", "+1.5", "-1e5", "'=1", "", " x", "-3,5"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".xlsx"])
def test_no_cell_is_a_formula(suffix):
    texts = pandas.Series([*FORMULAS, *HARMLESS, "z"])
    write_table(pandas.DataFrame({"=a": texts, "c": texts.astype("category"), "n": -1.5}), f"t{suffix}")
    if suffix == ".xlsx":
        sheet = openpyxl.load_workbook("t.xlsx").active
        assert {cell.data_type for row in sheet for cell in row} <= {"inlineStr", "s", "n"}
    table = read_table(f"t{suffix}")
    expected = [f"'{text}" for text in FORMULAS] + [text or None for text in HARMLESS] + ["z"]
    if suffix == ".xlsx":  # XML has only one kind of line end.
        expected = [text and text.replace("\r", "\n") for text in expected]
    assert list(table.columns) == ["'=a", "c", "n"]
    for name in ("'=a", "c"):
        assert values(table[name]) == expected
    assert set(table["n"]) == {-1.5}


def test_parquet_and_arrow_files_keep_every_text():
    for name in ("t.parquet", "t.arrow"):
        write_table(pandas.DataFrame({"a": FORMULAS}), name)
        assert list(read_table(name)["a"]) == FORMULAS


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".xlsx"])
def test_a_single_column_keeps_its_missing_values(suffix):
    for column in ([1.5, None, None], ["x", None, "y"]):
        write_table(pandas.DataFrame({"a": column}), f"t{suffix}")
        if suffix == ".xlsx":
            continue
        assert values(read_table(f"t{suffix}")["a"]) == column


def test_values_that_excel_would_truncate_are_written_as_text():
    zone = pandas.to_datetime(["2020-01-31 10:00"]).tz_localize("Europe/Berlin")
    table = pandas.DataFrame({"id": [2**60 + 1], "when": zone, "x": [np.inf], "d": pandas.to_timedelta(["1h"])})
    write_table(table, "t.xlsx")
    row = list(openpyxl.load_workbook("t.xlsx").active.values)[1]
    assert row[0] == str(2**60 + 1)
    assert row[1] == "2020-01-31 10:00:00+0100"
    assert read_table("t.xlsx")["id"][0] == 2**60 + 1
    assert read_table("t.xlsx")["when"][0] == zone[0]
    assert read_table("t.xlsx")["x"][0] == np.inf


def unwritten(match, table, name):
    with pytest.raises(TableFileError, match=match):
        write_table(table, name)
    assert not list(Path().iterdir())


def test_tables_that_are_not_written():
    two = pandas.DataFrame([[1, 2]], columns=["a", "a"])
    for name in ("t.csv", "t.parquet", "t.xlsx"):
        unwritten("the table has several columns 'a'", two, name)
    unwritten("column 'a' has a text of 40,000 characters", pandas.DataFrame({"a": ["x" * 40_000]}), "t.xlsx")
    unwritten(
        "the column 'a' has a control character that Excel",
        pandas.DataFrame({"a": ["x\x01"]}),
        "t.xlsx",
    )
    unwritten("has room for 1,048,575 rows", pandas.DataFrame({"a": np.zeros(1_048_576)}), "t.xlsx")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".arrow", ".xlsx"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()], ids=["full", "stopped"])
def test_a_file_is_old_or_new_and_nothing_else_is_left(monkeypatch, suffix, error):
    old, new = pandas.DataFrame({"a": [1]}), pandas.DataFrame({"a": [2]})
    write_table(old, f"t{suffix}")

    def fails(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", fails)
        with pytest.raises(type(error)):
            write_table(new, f"t{suffix}")
    assert [path.name for path in Path().iterdir()] == [f"t{suffix}"]
    assert list(read_table(f"t{suffix}")["a"]) == [1]
    write_table(new, f"t{suffix}")
    assert list(read_table(f"t{suffix}")["a"]) == [2]


def test_a_folder_that_is_not_there_to_write_to():
    for name in ("nowhere/t.csv", "nowhere/t.parquet", "nowhere/t.xlsx", "nowhere/t.arrow"):
        with pytest.raises(OSError, match="nowhere"):
            write_table(pandas.DataFrame({"a": [1]}), name)


# --- there and back

LETTERS = st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"])
COLUMNS = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "float": st.one_of(st.none(), st.floats(allow_nan=False)),
    "flag": st.booleans(),
    "gap": st.one_of(st.none(), st.booleans()),
    "time": st.one_of(st.none(), st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))),
    "text": st.one_of(st.none(), st.text(LETTERS, max_size=8)),
}


@st.composite
def tables(draw):
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    n = draw(st.integers(1, 6))
    series = {name: draw(st.lists(COLUMNS[name], min_size=n, max_size=n)) for name in names}
    dtypes = {"whole": "int64", "float": "float64", "flag": "bool", "gap": "boolean"}
    if "time" in series:
        series["time"] = np.array(series["time"], dtype="datetime64[us]")
    return pandas.DataFrame({name: pandas.Series(column, dtype=dtypes.get(name)) for name, column in series.items()})


def assert_same(found, table):
    assert list(found.columns) == list(table.columns)
    assert len(found) == len(table)
    for name in table:
        if name == "time" and table[name].notna().any():
            assert str(found[name].dtype) == "datetime64[us]"
        assert values(found[name]) == values(table[name])


@given(tables())
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_binary_files_there_and_back(suffix, table):
    write_table(table, f"t{suffix}")
    assert_same(read_table(f"t{suffix}"), table)


def as_read(text):
    """Return a text as it is read back from a text file: empty texts are missing, and formulas have an apostrophe."""
    number = re.fullmatch(r" *[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?", text or "")
    if text is None or text.strip() in MISSING_WORDS:
        return None
    return f"'{text}" if (text[0] in "\t\r" or first_seen(text) in SIGNS) and not number else text


SIGNS = tuple("=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b")


def first_seen(text):
    """Return the first character that is neither white space nor invisible."""
    return next((each for each in text if not each.isspace() and unicodedata.category(each)[0] not in "CZ"), "")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".xlsx"])
def test_formulas_after_line_breaks_or_in_full_width_get_an_apostrophe(suffix):
    hidden = [f"{before}{sign}cmd()" for before in ("", "\n", "\n\n ", " ", "\u00a0", "\u200b") for sign in SIGNS]
    write_table(pandas.DataFrame({"text": [*hidden, "a=b", " -3", "a\n=b"]}), f"t{suffix}")
    found = values(read_table(f"t{suffix}")["text"])
    assert found == [*(f"'{text}" for text in hidden), "a=b", " -3", "a\n=b"]


@given(tables())
@example(pandas.DataFrame({"float": [1e20, 9007199254740994.0, 2.0**63, -0.0]}))
@example(pandas.DataFrame({"float": [1e15, 1e16, 123456789012345680.0, 0.5]}))
@example(pandas.DataFrame({"text": ["x", "\n"]}))
@example(pandas.DataFrame({"text": ["x", "a\nb,c", '"', '\n"', " NA "], "flag": [True, False] * 2 + [True]}))
@example(pandas.DataFrame({"whole": [-(2**63), 2**63 - 1]}))
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
def test_text_files_there_and_back(suffix, table):
    if "text" in table:  # A word in the column prevents digits from being read as numbers.
        table = table.assign(text=["word", *values(table["text"])[1:]])
    write_table(table, f"t{suffix}")
    if "text" in table:
        table = table.assign(text=[as_read(text) for text in values(table["text"])])
    assert_same(read_table(f"t{suffix}"), table)


def test_the_word_none_is_a_value_among_texts_and_missing_among_numbers(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text("insurance,visits,seen,all\nNone,None,2020-01-02,None\nfull,3,None,None\n,4,2020-01-03,None\n")
    table = read_table(path)
    assert table["insurance"].tolist()[:2] == ["None", "full"]
    assert table["insurance"].isna().tolist() == [False, False, True]
    assert table["visits"].tolist()[1:] == [3.0, 4.0]
    assert table["seen"].dtype.kind == "M"
    assert table["all"].tolist() == ["None"] * 3
