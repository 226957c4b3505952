"""The kernels as machine code: compiled once per machine by a child process, kept in a file, loaded by LLVM's linker.

numba in a process would be more than half of its memory and a third of its start, long after everything is compiled. So
it compiles in a process of its own (``compiler``), and its machine code is kept beside the bytecode of this package, or
in the user's cache where that cannot be written. The file is named by all that the machine code depends on and begins
with its own digest: another processor, version or source compiles again, and so does a file that is damaged. What
cannot be kept is compiled at the next start.

A kernel takes addresses and numbers as C does and checks nothing; it runs without the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from numpy.typing import NDArray

from codedfl import files
from codedfl.errors import CodedFLError

# What a kernel returns, then what it takes. The functions of these names are in ``loops``.
SIGNATURES = {
    "product": "void float32* float64* float64 float32* int64 int64 int64",
    "reduce": "void float64* float64 float32* int64",
    "add_four": "void float32* float64* float32* float32* float32* float32* float64 int64",
    "add_four_packed": "void float32* float64* uint8* uint8* uint8* uint8* int64 int64 float32* int64",
    "pack": "void float32* int64 uint8* int64",
    "pack_short": "void float32* int64 uint16* int64",
    "unpack": "boolean uint8* int64 float32* int64 int64",
    "add_residues_from_stream": "int64 uint8* int64 int64 int64 float32* int64 int64 int64",
    "square_from_triangle": "void float32* float32* int64",
}
PREFIX = "codedfl_"  # so that no kernel is taken for a function of C's library
_DIGEST = 32  # bytes
_C: dict[str, Any] = {"void": None, "boolean": ctypes.c_bool, "int64": ctypes.c_int64, "float64": ctypes.c_double}
_SOURCES = ("machine_code.py", "compiler.py", "loops.py")

Kernels = dict[str, Callable[..., Any]]


def call(name: str, *arguments: NDArray[Any] | float) -> Any:
    """Call a kernel; an array stands for its address, and must be as the kernel wants it."""
    return _kernels()[name](*arguments)


class _Address(ctypes.c_void_p):
    """Of an array's memory. The short way takes a fifth of the time, but wants memory that may be written."""

    @classmethod
    def from_param(cls, array: Any) -> Any:
        if array.size and array.flags.writeable:
            return ctypes.byref(ctypes.c_char.from_buffer(array))
        return array.ctypes


def target_machine() -> Any:
    """Of this processor with all that it can, for compiling and for loading."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True, codemodel="jitdefault"
    )


def load(code: bytes) -> Kernels:
    """The functions of an object file, by their names."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _LOADED.append(engine)
    kernels: Kernels = {}
    for name, signature in SIGNATURES.items():
        result, *kinds = (_C.get(kind, _Address) for kind in signature.split())
        if address := engine.get_function_address(PREFIX + name):
            kernels[name] = ctypes.CFUNCTYPE(result, *kinds)(address)
    return kernels


_LOADED: list[Any] = []  # machine code lives as long as the engine that loaded it


@functools.cache
def _kernels() -> Kernels:
    return load(_object_code())


def _object_code() -> bytes:
    from importlib.metadata import version  # slow to load, and a device that waits does not need it

    depends_on = [version("numba"), llvm.get_process_triple(), llvm.get_host_cpu_name()]
    depends_on += [llvm.get_host_cpu_features().flatten(), *map(Path(__file__).with_name, _SOURCES)]
    parts = (one.read_bytes() if isinstance(one, Path) else one.encode() for one in depends_on)
    name = f"kernels-{sha256(b''.join(sha256(part).digest() for part in parts)).hexdigest()[:32]}.o"
    folders = (os.path.dirname(importlib.util.cache_from_source(__file__)), os.path.expanduser("~/.cache/codedfl"))
    places = [Path(folder) / name for folder in folders]
    for place in places:
        with suppress(OSError):
            kept = place.read_bytes()
            if sha256(kept[_DIGEST:]).digest() == kept[:_DIGEST]:
                return kept[_DIGEST:]
    code = _compiled_by_a_child()
    for place in places:
        with suppress(OSError):
            files.write_bytes(place, sha256(code).digest() + code)
            break
    return code


def _compiled_by_a_child() -> bytes:
    command = [sys.executable, "-m", "codedfl_lab.primes.compiler"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # so that it finds what this process has found
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise CodedFLError(f"the kernels must compile on this machine, got {said!r}: check that numba is installed")
    return done.stdout
