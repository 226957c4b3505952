"""Integers modulo a few primes on float32 planes, with compiled kernels: what a gradient code needs to exist."""

import sys

if sys.byteorder != "little":  # packed numbers, and the kernels that read them, are little endian
    raise ImportError(f"codedfl-lab needs a machine whose byte order is little endian, got {sys.byteorder} endian")
