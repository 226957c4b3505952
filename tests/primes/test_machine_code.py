"""The kernels' machine code: kept once compiled, compiled again when damaged, free of Python and numba."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from codedfl.errors import CodedFLError
from codedfl_lab.primes import compiler, loops, machine_code
from wording import exactly


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What children have compiled: the real thing once, for all of these tests."""
    made: list[bytes] = []
    code = machine_code._object_code()

    def child() -> bytes:
        made.append(code)
        return code

    monkeypatch.setattr(machine_code, "_compiled_by_a_child", child)
    return made


@pytest.fixture
def folder(compiled: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where they are kept now, and what this machine keeps for others is out of sight; nothing is there yet."""
    del compiled
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_what_was_compiled_is_kept(folder: Path, compiled: list[bytes]):
    assert machine_code._object_code() == machine_code._object_code()
    assert len(compiled) == 1
    assert len(list(folder.rglob("kernels-*.o"))) == 1


@pytest.mark.parametrize("damage", [b"", b"short", bytes(4096)])
def test_a_damaged_file_is_replaced(folder: Path, compiled: list[bytes], damage: bytes):
    code = machine_code._object_code()
    (kept,) = folder.rglob("kernels-*.o")
    kept.write_bytes(damage)
    compiled.clear()
    assert machine_code._object_code() == code
    assert len(compiled) == 1
    assert kept.read_bytes().endswith(code)


def test_another_processor_compiles_anew(folder: Path, compiled: list[bytes], monkeypatch: pytest.MonkeyPatch):
    machine_code._object_code()
    monkeypatch.setattr(machine_code.llvm, "get_host_cpu_name", lambda: "another")
    machine_code._object_code()
    assert len(list(folder.rglob("kernels-*.o"))) == 2


def test_where_nothing_can_be_kept_it_is_compiled_each_time(
    compiled: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "no folder"
    file.write_text("")
    monkeypatch.setattr(sys, "pycache_prefix", str(file))
    monkeypatch.setenv("HOME", str(file))
    assert machine_code._object_code() == machine_code._object_code()
    assert len(compiled) == 2


def test_what_does_not_compile_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "false")
    message = "the kernels must compile on this machine, got '': check that numba is installed"
    with pytest.raises(CodedFLError, match=exactly(message)):
        machine_code._compiled_by_a_child()


def test_a_kernel_that_needs_python_is_refused(monkeypatch: pytest.MonkeyPatch):
    def reduce(values: object, prime: float, out: object, size: int) -> None:
        if size < 0:
            raise ValueError

    monkeypatch.setattr(loops, "reduce", reduce)
    with pytest.raises(CodedFLError, match=r"^kernels must need the system's C library alone, got \['NRT_Free', "):
        compiler.object_file(["reduce"])


def test_calling_kernels_loads_no_numba():
    packed = "kernels.pack(kernels.aligned_zeros(3), 65521).tolist()"
    code = f"import sys; from codedfl_lab.primes import kernels; print({packed})"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print('numba' in sys.modules)"], capture_output=True, text=True
    )
    assert done.stdout.split("\n") == [str([0] * 6), "False", ""], done.stderr


def test_arrays_that_may_not_be_written_and_empty_ones_have_addresses_too():
    for array in (np.frombuffer(b"abc", np.uint8), np.empty(0, np.uint8), np.zeros(3, np.uint8)):
        machine_code._Address.from_param(array)
