"""Tables as programs write them: separators, endings, missing values, truth values, dates, odd types."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from codedfl.data.tables import as_raw_table, is_table, read_file
from codedfl.data.tables.csv_file import BLOCK, MOST_INFLATION
from codedfl.errors import InvalidInput
from wording import exactly


def columns(path: Path) -> dict[str, list[object]]:
    return {name: values.tolist() for name, values in read_file(path).columns.items()}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_any_common_separator(tmp_path: Path, separator: str):
    path = tmp_path / "t.csv"
    path.write_text(f'name{separator}n\n"a{separator} b"{separator}1.5\nc{separator}-2e3\n')
    assert columns(path) == {"name": [f"a{separator} b", "c"], "n": [1.5, -2000.0]}


@pytest.mark.parametrize("name", ["t.csv", "T.CSV", "t.txt", "t.tsv"])
def test_endings_in_any_case(tmp_path: Path, name: str):
    (tmp_path / name).write_text("a\tb\n1\tx\n")
    assert columns(tmp_path / name) == {"a": [1.0], "b": ["x"]}


def test_gzip(tmp_path: Path):
    path = tmp_path / "t.csv.GZ"
    path.write_bytes(gzip.compress(b"a,b\n1,x\n"))
    assert columns(path) == {"a": [1.0], "b": ["x"]}
    path.write_bytes(gzip.compress(b"a,b\n" + b"0,0\n" * 10**6))
    message = f"t.csv.GZ must unpack to at most {MOST_INFLATION} times its size, got more: unpack it first"
    with pytest.raises(InvalidInput, match=exactly(message)):
        read_file(path)
    path.write_bytes(gzip.compress(b"a,b\n1,x\n")[:-9])
    with pytest.raises(InvalidInput, match=r"^t\.csv\.GZ must be separated text in UTF-8, got "):
        read_file(path)


def test_a_table_without_rows_is_refused(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n")
    with pytest.raises(InvalidInput, match=r"^t\.csv must have at least one row, got none$"):
        read_file(path)


def test_gaps_and_truth_values_however_written(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("n,t,b,all\n1,x,TRUE,\nNA,,False,NA\n?,null,,\n.,y,true,\n")
    found = read_file(path).columns
    assert np.array_equal(found["n"], [1.0, np.nan, np.nan, np.nan], equal_nan=True)
    assert found["t"].tolist() == ["x", "", "", "y"]
    assert found["b"].tolist() == ["true", "false", "", "true"]
    assert np.isnan(found["all"]).all()


def test_a_decimal_comma_beside_semicolons(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1,5;x\n;y\n")
    found = read_file(path).columns
    assert np.array_equal(found["a"], [1.5, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    "lines", ["dose;b\n3,5;x\n1.971;y\n", "dose;b\n1.971;0,5\n87;1,5\n", "dose;b\n-1.971.000;0,5\n87;1,5\n"]
)
def test_a_point_for_thousands_beside_decimal_commas_is_refused(tmp_path: Path, lines: str):
    path = tmp_path / "t.csv"
    path.write_text(lines)
    with pytest.raises(InvalidInput, match=r"^column 'dose' of t.csv must have no points for thousands beside decimal"):
        read_file(path)
    path.write_text("dose;b\n" + "1;2\n" * BLOCK + "1.971;0,5\n")
    message = (
        "column 'dose' of t.csv must have no points for thousands beside decimal commas, got '1.971' in row"
        f" {BLOCK + 1}: write 1971 or 1,971, as it is meant"
    )
    with pytest.raises(InvalidInput, match=exactly(message)):
        read_file(path)


@pytest.mark.parametrize("lines", ["a;b\n1.971;2\n", "a;b\n1.971;0,5\n0.5;0,5\n", "a;b\n0.971;0,5\n"])
def test_a_decimal_point_beside_semicolons_is_one_where_nothing_speaks_against_it(tmp_path: Path, lines: str):
    path = tmp_path / "t.csv"
    path.write_text(lines)
    assert columns(path)["a"][0] == float(lines.split("\n")[1].split(";")[0])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
@pytest.mark.parametrize("packed", [False, True])
def test_files_of_spreadsheets_with_their_mark(tmp_path: Path, encoding: str, packed: bool):
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    content = "ward;days\nSüd;3,5\n".encode(encoding)
    path.write_bytes(gzip.compress(content) if packed else content)
    assert columns(path) == {"ward": ["Süd"], "days": [3.5]}
    (tmp_path / "big.csv").write_bytes(b"\xfe\xff" + "ward\nSüd\n".encode("utf-16-be"))
    assert columns(tmp_path / "big.csv") == {"ward": ["Süd"]}


def test_other_alphabets_are_refused_with_the_line(tmp_path: Path):
    path = tmp_path / "t.csv"
    message = "t.csv must be text in UTF-8, got the byte 0xfc in line 3, as Windows' cp1252 has: save it as CSV UTF-8"
    path.write_bytes("ward;n\na;1\nSüd;2\n".encode("cp1252"))
    with pytest.raises(InvalidInput, match=exactly(message)):
        read_file(path)
    with pytest.raises(InvalidInput, match=r"got 't\.xlsx': save its sheet as CSV UTF-8$"):
        read_file(tmp_path / "t.xlsx")


def test_a_column_that_turns_out_to_be_text_late(tmp_path: Path):
    """The numbers of earlier blocks keep the text they had."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "007,1\n" * BLOCK + "x,2\n")
    found = read_file(path).columns
    assert found["a"][0] == "007" and found["a"][-1] == "x"
    assert found["b"][-1] == 2.0


def test_a_column_without_a_name(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text(",a\n0,5\n1,6\n")
    assert list(columns(path)) == ["unnamed 1", "a"]


def test_parquet_of_all_types(tmp_path: Path):
    path = tmp_path / "t.parquet"
    day = datetime.date(2020, 1, 2)
    table = {
        "i": pyarrow.array([1, None]),
        "b": pyarrow.array([True, None]),
        "s": pyarrow.array(["x", None]).dictionary_encode(),
        "d": pyarrow.array([day, None]),
        "none": pyarrow.nulls(2),
    }
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    found = read_file(path).columns
    assert np.array_equal(found["i"], [1.0, np.nan], equal_nan=True)
    assert found["b"].tolist() == ["true", ""]
    assert found["s"].tolist() == ["x", ""]
    assert found["d"].tolist() == ["2020-01-02", ""]
    assert np.isnan(found["none"]).all()
    pyarrow.parquet.write_table(pyarrow.table({"l": [[1], [2]]}), path)
    with pytest.raises(InvalidInput, match=r"^column 'l' of t\.parquet must hold numbers or text, got list<.*>$"):
        read_file(path)


def test_a_mapping_and_a_data_frame_are_tables():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1, 2], "s": ["a", None], "b": [True, False], "o": [None, 2.5]})
    found = as_raw_table(frame)
    assert (len(found), found.names) == (2, ("n", "s", "b", "o"))
    assert found.columns["s"].tolist() == ["a", ""]
    assert found.columns["b"].tolist() == ["true", "false"]
    assert np.array_equal(found.columns["o"], [np.nan, 2.5], equal_nan=True)
    assert as_raw_table({"n": [1.0]}).columns["n"].tolist() == [1.0]
    assert repr(found) == "<RawTable the table: 2 rows, 4 columns>"
    assert is_table(frame) and not is_table(np.zeros((2, 2))) and not is_table([[1, 2]])
    with pytest.raises(InvalidInput, match=r"^a table must name each column once, got 'a' twice$"):
        as_raw_table(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InvalidInput, match=r"^all columns of the table must be equally long, got \{'a': 1, 'b': 2\}$"):
        as_raw_table({"a": [1], "b": [1, 2]})
