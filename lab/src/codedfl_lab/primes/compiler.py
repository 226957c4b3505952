"""Compiles the kernels with numba and writes their object file to the standard output: what the child process runs.

Every kernel becomes a function with C's calling convention, and all are optimised together. None may need anything of
numba's or Python's when it runs: what could raise or allocate would, and is refused here.
"""

# numba is not typed:
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from numba import cfunc, types

from codedfl.errors import CodedFLError
from codedfl_lab.primes import loops, machine_code

_OF_THE_SYSTEM = {"fmod", "memset", "memcpy", "memmove"}


def object_file(names: Iterable[str] = machine_code.SIGNATURES) -> bytes:
    """Machine code for this processor."""
    target = machine_code.target_machine()
    module = llvm.parse_assembly("")
    for name in names:
        module.link_in(_text_of(name))
    for one in (*module.functions, *module.global_variables):
        if not one.is_declaration and not one.name.startswith(machine_code.PREFIX):
            one.linkage = llvm.Linkage.internal  # free to be inlined and dropped
    passes = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    needed = {one.name for one in module.functions if one.is_declaration and not one.name.startswith("llvm.")}
    if needed - _OF_THE_SYSTEM:
        raise CodedFLError(f"kernels must need the system's C library alone, got {sorted(needed - _OF_THE_SYSTEM)}")
    code: bytes = target.emit_object(module)
    return code


def _text_of(name: str) -> Any:
    result, *arguments = (
        types.CPointer(getattr(types, kind[:-1])) if kind.endswith("*") else getattr(types, kind)
        for kind in machine_code.SIGNATURES[name].split()
    )
    source = getattr(loops, name)
    compiled = cfunc(result(*arguments), error_model="numpy")(source)
    module = llvm.parse_assembly(compiled.inspect_llvm())
    module.get_function(compiled.native_name).name = machine_code.PREFIX + name
    return module


if __name__ == "__main__":
    sys.stdout.buffer.write(object_file())
