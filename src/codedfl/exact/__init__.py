"""Integers modulo a few primes on float32 planes, and reals to and from them with a proof that nothing wraps."""

import sys

if sys.byteorder != "little":  # packed numbers, and the kernels that read them, are little endian
    raise ImportError(f"codedfl needs a machine whose byte order is little endian, got {sys.byteorder} endian")
