"""Every reader of files, under damaged files: fleets, models, tables, IDX, keys, rosters, states."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from mutation import INPUTS, damaged, damaged_list, fuzz

from codedfl.analyses.driving import read_total
from codedfl.authoring.formula import expand
from codedfl.contract.enrolment import EnrolmentRequest, load_enrolment
from codedfl.contract.former_ledger import former_ledger
from codedfl.contract.kit import Kit, load_kit
from codedfl.contract.policy import load_policy
from codedfl.contract.roster import Roster, load_roster
from codedfl.contract.seen import SeenRows
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.toml_file import load_study, parse_study
from codedfl.crypto.authority import Requested
from codedfl.crypto.key_files import load_identity
from codedfl.crypto.sealed import Identity
from codedfl.data.columns import Columns
from codedfl.data.model import TrainedModel
from codedfl.data.tables import read_file
from codedfl.errors import InvalidInput
from codedfl_lab.datasets.idx import read_idx
from codedfl_lab.datasets.table_file import TableReading, load_file
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.problems.problem import model_of
from small_problems import digits

FLEET = (Path(__file__).parents[2] / "lab/src/codedfl_lab/fleet/paper.toml").read_bytes()
STUDY = b"""format = "codedfl-study-2"
name = "stay"
[[column]]
name = "age"
kind = "number"
range = [0, 110]
step = 1
[[column]]
name = "ward"
kind = "category"
levels = ["a", "b"]
[target]
name = "days"
range = [0, 60.0]
step = 0.5
[protection]
least_participants = 4
max_rows = 1000
max_rows_per_device = 300
"""
DERIVED = STUDY.replace(
    b"[target]",
    b"""[[column]]
name = "age:ward = b"
kind = "derived"
range = [0, 110]
step = 1
factors = [{ column = "age" }, { column = "ward", level = "b" }]
[[column]]
name = "bs(age, 2)[1]"
kind = "derived"
range = [0, 1]
step = 0.001
factors = [{ column = "age", knots = [0, 55, 110] }]
[target]""",
).replace(b"[[column]]", b"complete_cases = true\n[[column]]\nmissing_codes = [-9]", 1)
PIXELS = b"""format = "codedfl-study-2"
name = "pixels"
[matrix]
columns = 16
range = [0, 1]
step = 0.0625
[target]
name = "y"
classes = [0, 1]
[protection]
least_participants = 4
max_rows = 1000
max_rows_per_device = 300
"""
ROSTER = b'format = "codedfl-roster-1"\n' + b"".join(
    b'[[device]]\nname = "device-%d"\nkey = "%s"\npod = 0\n' % (i, bytes([i] * 32).hex().encode()) for i in range(3)
)
CSV = b"a,b,label,device\n" + b"".join(b"%d,%.3f,class %d,%d\n" % (i, i / 7, i % 2, i % 3) for i in range(12))
IDX = bytes((0, 0, 8, 2)) + struct.pack(">2I", 3, 4) + bytes(range(12))


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def model_file(folder: Path) -> bytes:
    problem = digits(n_features=8)
    path = folder / "valid.safetensors"
    model_of(problem, np.zeros((problem.n_features, problem.n_outputs))).save(path)
    return path.read_bytes()


def with_digest(index: bytes) -> bytes:
    """As the index of a saved state begins: otherwise all damage would look alike."""
    return hashlib.sha256(index).digest() + index


def fuzz_file(read: Callable[[Path], object], valid: list[bytes], path: Path, inputs: int = INPUTS) -> None:
    def decode(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    counts = fuzz(decode, valid, damaged, inputs)
    assert counts["taken"] > 0
    assert counts["refused"] > inputs // 5


def test_fleets(tmp_path: Path):
    fuzz_file(lambda path: Fleet.load(path).mac_rate, [FLEET], tmp_path / "fleet.toml")


def test_studies(tmp_path: Path):
    fuzz_file(load_study, [STUDY, DERIVED, PIXELS], tmp_path / "study.toml")


def test_formulas():
    columns = parse_study(DERIVED.decode()).columns[:2]
    valid = [b"days ~ age * C(ward) + bs(age, 4)", b"days ~ I(age**2) + log1p(`age`) + (age + ward)**2"]
    counts = fuzz(lambda data: expand(data.decode(errors="replace"), columns, "days"), valid, damaged)
    assert counts["taken"] > 0 and counts["refused"] > INPUTS // 5


def test_what_a_device_keeps():
    """Its frozen rows and their tags."""
    rows = Snapshot(bytes(32), np.ones((4, 2), dtype=np.int64), np.ones(4, dtype=np.int64), np.zeros(4, dtype=bool))
    ones = np.ones((4, 2), dtype=np.uint64)
    seen = SeenRows(
        ("a", "b"), (False, True), ones, rows.codes, ones[:, 0], rows.held_out, rows=rows.target, marks=((), (1.0,))
    )
    for kept in (rows, seen):
        counts = fuzz(type(kept).decode, [kept.encode()], damaged_list)
        assert counts["taken"] > 0 and counts["refused"] > INPUTS // 5


def test_ledgers_of_0_3():
    approval = [bytes(32), "s", 1, "w", "t", ["a", "b"], ["gram"], [0.5], 2, 9, 0, "y", []]
    given, asked = [[bytes(32), "gram", b"a", b"run", "t"]], [[bytes(32), b"e"]]
    saved = msgspec.msgpack.encode(["codedfl-ledger-1", [approval], given, asked])
    counts = fuzz(former_ledger, [saved], damaged_list)
    assert counts["taken"] > 0 and counts["refused"] > INPUTS // 5


def test_policies(tmp_path: Path):
    fuzz_file(load_policy, [b"colluders = 2\nmost-epsilon = 0.5\nallow-gram = false\n"], tmp_path / "policy.toml")


def test_totals_that_a_study_wrote(tmp_path: Path):
    study = parse_study(STUDY.decode())
    content = {
        "digest": study.digest().hex(),
        "meaning": "0a" * 32,
        "merged": [[], [0]],
        "parts": [
            {
                "digest": study.digest().hex(),
                "owners": ["a", "b", "c"],
                "gram": ["1", "-2", str(2**90)],
                "clipped": {"rows": 9, "values": {"age": 3}},
            }
        ],
    }

    def load(path: Path) -> object:
        try:
            return read_total(study, json.loads(path.read_bytes()))
        except (ValueError, RecursionError) as error:  # of JSON itself, which whoever reads the file says
            raise InvalidInput("the total must be JSON") from error

    fuzz_file(load, [json.dumps(content).encode()], tmp_path / "total.json")


def test_models(tmp_path: Path):
    fuzz_file(TrainedModel.load, [model_file(tmp_path)], tmp_path / "model.safetensors")


def test_csv_tables(tmp_path: Path):
    fuzz_file(lambda path: load_file(path, TableReading(device="device")), [CSV], tmp_path / "data.csv")
    fuzz_file(lambda path: Columns.of_numbers(("b", "a")).matrix(read_file(path)), [CSV], tmp_path / "predict.csv")


def test_npz_tables(tmp_path: Path):
    rng = np.random.default_rng(0)
    matrix = npz(X=rng.random((8, 3)), y=np.arange(8) % 2, who=np.arange(8) % 3)
    columns = npz(a=rng.random(8), label=np.array(list("abababab")))
    fuzz_file(load_file, [matrix, columns], tmp_path / "data.npz")


def test_parquet_tables(tmp_path: Path):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"a": [1.0, 2.0] * 4, "label": [0, 1] * 4}), tmp_path / "valid.parquet")
    fuzz_file(load_file, [(tmp_path / "valid.parquet").read_bytes()], tmp_path / "data.parquet")


def test_idx_files(tmp_path: Path):
    fuzz_file(read_idx, [IDX, gzip.compress(IDX)], tmp_path / "data-idx")


def test_key_files(tmp_path: Path):
    path = tmp_path / "key"
    path.touch(mode=0o600)
    fuzz_file(load_identity, [bytes(32).hex().encode() + b"\n"], path)


def test_rosters(tmp_path: Path):
    fuzz_file(load_roster, [ROSTER], tmp_path / "roster.toml")


def test_requests_and_kits(tmp_path: Path):
    keys = {name: Identity(name.encode() * 32) for name in "abc"}
    roster = Roster.draft({name: one.public for name, one in keys.items()}, 1)
    said = STUDY + f'roster = "{roster.digest().hex()}"\nserver_key = "{"ab" * 32}"\n'.encode()
    request, kit = tmp_path / "a.request", tmp_path / "a.kit"
    EnrolmentRequest.signed("a", keys["a"], Requested.created("a").request.decode()).save(request)
    Kit("a", said.decode().replace("least_participants = 4", "least_participants = 3"), roster, "mqtts://h").save(kit)
    fuzz_file(load_enrolment, [request.read_bytes()], request)
    fuzz_file(load_kit, [kit.read_bytes()], kit)


# -- what a hundred thousand inputs have found


def test_a_parquet_file_whose_names_are_no_text_is_refused(tmp_path: Path):
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "data.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1.0, 2.0], "label": [0, 1]}), path)
    path.write_bytes(path.read_bytes().replace(b"label", b"l\xe1bel"))
    with pytest.raises(InvalidInput, match=r"^data\.parquet must be a Parquet file, got "):
        load_file(path)


# -- bombs and escapes


def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path):
    path = tmp_path / "data-idx.gz"
    path.write_bytes(gzip.compress(IDX + bytes(300 << 20), 9))
    counts = fuzz(lambda _: read_idx(path), [b""], inputs=1)
    assert counts == {"taken": 0, "refused": 1}


def test_an_array_that_claims_more_than_its_archive_holds_is_refused(tmp_path: Path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000, 10), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(80)
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", array)
        archive.writestr("y.npy", npz(y=np.arange(3)))
    counts = fuzz(lambda _: load_file(path), [b""], inputs=1)
    assert counts == {"taken": 0, "refused": 1}


def test_a_fleet_cannot_ask_for_a_billion_devices(tmp_path: Path):
    text = FLEET.decode()
    head, _, device = text.partition("[[device]]")
    classes = re.sub(r"count = \d+", "count = 999999", f"[[device]]{device}")
    path = tmp_path / "fleet.toml"
    path.write_text(head + classes * 9)
    with pytest.raises(InvalidInput, match=r"device must count at most 1000000 devices in all, got \d+$"):
        Fleet.load(path)
