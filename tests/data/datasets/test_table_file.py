"""The user's own files: the same table in three formats, and everything that can be wrong with one."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from codedfl.data.columns import Columns
from codedfl.data.tables import read_file
from codedfl.data.tables.csv_file import BLOCK
from codedfl.typing import Floats
from codedfl_lab.datasets import load
from codedfl_lab.datasets.table_file import TableReading

ROWS = 20
COLUMNS: dict[str, list[Any]] = {
    "height": [1.5 + i / 16 for i in range(ROWS)],
    "site": [f"clinic {i % 3}" for i in range(ROWS)],
    "label": ["sick" if i % 2 else "well" for i in range(ROWS)],
    "weight": [60 + i for i in range(ROWS)],
}


def write(path: Path, columns: dict[str, Any]) -> Path:
    if path.suffix == ".csv":
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    else:
        arrays: Any = {name: np.array(values) for name, values in columns.items()}
        np.savez(path, **arrays)
    return path


@pytest.fixture(params=[".csv", ".parquet", ".npz"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"patients{request.param}"


def refused(message: str, path: Path, **options: Any) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011, the whole message is compared
        load(path, reading=TableReading(**options))
    assert str(raised.value) == message


def test_the_same_table_in_every_format(path: Path) -> None:
    data = load(write(path, COLUMNS), reading=TableReading(device="site"))
    assert repr(data) == "<Dataset patients: 16 + 4 rows, 2 columns, 2 classes>"
    assert data.columns is not None and data.columns.names == ("height", "weight")
    assert data.task == "classification"
    assert data.public_range is None
    # Every row kept its label and its device: all three follow from the weight.
    i = data.X_train[:, 1].astype(int) - 60
    assert np.array_equal(data.X_train[:, 0], 1.5 + i / 16)
    assert data.y_train.tolist() == ["sick" if k % 2 else "well" for k in i]
    assert data.device is not None
    assert data.device.tolist() == [f"clinic {k % 3}" for k in i]


def test_seed_and_fraction_choose_the_test_rows(path: Path) -> None:
    write(path, COLUMNS)
    first, same, other = (
        load(path, reading=TableReading(device="site", seed=seed, test_fraction=0.5)) for seed in (1, 1, 2)
    )
    assert len(first.X_test) == 10
    assert np.array_equal(first.X_test, same.X_test)
    assert not np.array_equal(first.X_test, other.X_test)


def test_a_number_can_be_the_target(path: Path) -> None:
    data = load(write(path, {k: COLUMNS[k] for k in ("height", "weight")}), reading=TableReading(label="height"))
    assert data.task == "regression"
    assert data.y_train.dtype == np.float64
    assert load(path, reading=TableReading(label="weight")).task == "regression"


def numbers_of(path: Path, *names: str) -> Floats:
    """As predictions read them."""
    return Columns.of_numbers(names).matrix(read_file(path))


def test_a_model_asks_for_its_columns_in_its_order(path: Path) -> None:
    assert numbers_of(write(path, COLUMNS), "weight", "height")[0].tolist() == [60.0, 1.5]
    with pytest.raises(ValueError, match=r"must have the column 'age', got 'height', 'site', 'label', 'weight'$"):
        numbers_of(path, "age")


def test_missing_columns_are_named_with_those_there(path: Path) -> None:
    write(path, COLUMNS)
    there = "'height', 'site', 'label', 'weight'"
    refused(f"label must be a column of {path.name} ({there}), got 'kind'", path, label="kind")
    refused(f"device must be a column of {path.name} ({there}), got 'phone'", path, device="phone")


def test_many_columns_are_not_all_listed(path: Path) -> None:
    write(path, {f"c{j}": [1, 2] for j in range(13)})
    there = ", ".join(f"'c{j}'" for j in range(10)) + " and 3 more"
    refused(f"label must be a column of {path.name} ({there}), got 'label'", path)


def test_where_numbers_are_asked_for_text_and_gaps_are_refused(path: Path) -> None:
    write(path, {**COLUMNS, "height": [1.0, float("nan")] + [2.0] * (ROWS - 2)})
    with pytest.raises(ValueError, match=r"^column 'site' of .* must hold numbers, got 'clinic 0' in row 1 and in .*"):
        numbers_of(path, "site")
    with pytest.raises(ValueError, match=r"^column 'height' of .* must have no missing values, got 1: say what .*$"):
        numbers_of(path, "height")


def test_a_gap_in_the_target_is_refused(path: Path) -> None:
    write(path, {"a": [1, 2, 3], "t": [0.5, float("nan"), 1.5]})
    message = f"column 't' of {path.name} must have no missing values, got 1, the first in row 2: leave those rows out"
    refused(message, path, label="t")


def test_text_and_gaps_are_taken_as_they_are(path: Path) -> None:
    data = load(write(path, {**COLUMNS, "height": [1.0, float("nan")] + [2.0] * (ROWS - 2)}))
    assert data.columns is not None
    assert data.columns.design_names == ("height", "height missing", "site = clinic 1", "site = clinic 2", "weight")
    assert data.notes == ("column 'height' has 1 missing, which become its median 2 and are marked",)
    i = data.X_train[:, 4].astype(int) - 60
    assert np.array_equal(data.X_train[:, 1], i == 1)
    assert np.array_equal(data.X_train[:, 3], i % 3 == 2)


def test_columns_are_chosen_and_dropped(path: Path) -> None:
    write(path, COLUMNS)
    data = load(path, reading=TableReading(columns=["weight"]))
    assert data.columns is not None and data.columns.names == ("weight",)
    data = load(path, reading=TableReading(drop=["site", "height"]))
    assert data.columns is not None and data.columns.names == ("weight",)
    refused(f"a column to drop must be a column of {path.name} ('height', 'site', 'weight'), got 'x'", path, drop=["x"])


def test_no_rows_no_columns_one_class(path: Path) -> None:
    write(path, {"a": np.array([]), "label": np.array([])})
    refused(f"{path.name} must have at least one row, got none", path)
    write(path, {"label": [1, 2]})
    refused(f"{path.name} must have at least one column to learn from, got ", path)
    write(path, {"a": [1, 2, 3, 4, 5], "label": [7] * 5})
    refused("y_train must hold at least two classes, got only 7", path)


def test_files_that_are_not_what_they_are_called(path: Path) -> None:
    refused(f"data file must exist, got {str(path)!r}", path)
    path.write_bytes(b"\xfd\xfe\x00 no table")
    with pytest.raises(ValueError, match=rf"^{path.name} must be "):
        load(path)


def test_an_unknown_ending(tmp_path: Path) -> None:
    path = tmp_path / "data.xlsx"
    path.write_text("")
    rule = "data file must end in .csv, .csv.gz, .tsv, .txt, .parquet or .npz, got"
    refused(f"{rule} 'data.xlsx': save its sheet as CSV UTF-8", path)
    refused(f"{rule} 'data.sav'", path.with_suffix(".sav"))


def test_csv_longer_than_a_block(tmp_path: Path) -> None:
    n = 2 * BLOCK + 3
    write(tmp_path / "long.csv", {"a": list(range(n)), "label": [i % 2 for i in range(n)]})
    assert np.array_equal(numbers_of(tmp_path / "long.csv", "a", "label").T, [np.arange(n), np.arange(n) % 2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the first line of t.csv must name the columns, got ''"),
        ("1,2\n3,4\n", "the first line of t.csv must name the columns, got '1,2'"),
        ("a,a,label\n1,2,3\n", "t.csv must name each column once, got 'a' twice"),
        ("a,label\n1,x\n2\n", "line 3 of t.csv must have 2 cells, got 1"),
        (
            "a,label\n1,x\n2,\n",
            "column 'label' of t.csv must have no missing values, got 1, the first in row 2: leave those rows out",
        ),
    ],
)
def test_a_bad_csv_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    refused(message, tmp_path / "t.csv")


def test_csv_as_spreadsheets_write_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes('\ufeffa , label\r\n"1", "é, b"\r\n2,c\r\n\r\n'.encode())
    assert numbers_of(tmp_path / "t.csv", "a").tolist() == [[1.0], [2.0]]
    assert read_file(tmp_path / "t.csv").column("label").tolist() == ["é, b", "c"]


def test_parquet_types(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    n = 6
    columns = {
        "flag": pyarrow.array([True, False] * 3),
        "small": pyarrow.array(range(n), pyarrow.float32()),
        "label": pyarrow.array(["u", "v"] * 3).dictionary_encode(),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    assert numbers_of(path, "small").tolist() == [[float(i)] for i in range(n)]
    assert read_file(path).column("label").tolist() == ["u", "v"] * 3
    flags = read_file(path).columns["flag"]
    assert flags.tolist() == ["true", "false"] * 3


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused("reading t.parquet needs pyarrow: pip install 'codedfl[parquet]'", tmp_path / "t.parquet")


def test_npz_with_a_matrix(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    X, y = np.arange(30).reshape(10, 3), np.arange(10) % 2
    np.savez(path, X=X, y=y, who=np.arange(10))
    data = load(path, reading=TableReading(device="who"))
    assert repr(data) == "<Dataset m: 8 + 2 rows, 3 columns, 2 classes>"
    assert np.array_equal(data.X_train[:, 0], 3 * data.device)
    assert numbers_of(path, "a", "b", "c").shape == (10, 3)
    with pytest.raises(ValueError, match=r"^X of m\.npz must have 2 columns, got 3$"):
        numbers_of(path, "a", "b")
    np.savez(path, X=X, y=y, X_test=X[:4], y_test=y[:4])
    assert repr(load(path)) == "<Dataset m: 10 + 4 rows, 3 columns, 2 classes>"
    np.savez(path, X=X, y=y[:9])
    refused("y of m.npz must hold one value per row (10), got shape (9,)", path)
    np.savez(path, X=X)
    refused("label must be a column of m.npz ('x0', 'x1', 'x2'), got 'y'", path)
    np.savez(path, X=y, y=y)
    refused("X of m.npz must be a matrix of numbers, got 1 dimension(s) of int64", path)
    pictures = np.zeros((10, 8, 8))
    np.savez(path, X=pictures, y=y)
    refused(
        "X of m.npz must be a matrix of numbers, got 3 dimension(s) of float64: save pictures as X.reshape(10, -1)",
        path,
    )
    np.savez(path, images=pictures, labels=y)
    save = "save a matrix as X with labels y beside it"
    refused(
        f"images of m.npz must hold one value per row, got shape (10, 8, 8): {save}, here X=images.reshape(10, -1)",
        path,
    )
    np.savez(path, rows=X, y=y)
    refused(f"rows of m.npz must hold one value per row, got shape (10, 3): {save}", path)
    np.savez(path, a=np.ones(3), label=np.ones(4))
    refused("all columns of m.npz must be equally long, got {'a': 3, 'label': 4}", path)


def test_npz_is_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "o.npz"
    np.savez(path, a=np.ones(2), label=np.array([object(), object()]))
    refused(
        "array 'label' of o.npz must hold plain numbers or text, got objects: save it as text, by astype(str)", path
    )
    np.save(tmp_path / "single.npy", np.ones(2))
    (tmp_path / "single.npy").rename(tmp_path / "single.npz")
    refused("single.npz must be an .npz archive, got a single array", tmp_path / "single.npz")
