"""Whole numbers of reals: scales with a proof that no sum wraps, exact X'X, and exact discrete Gaussian noise."""

import sys

if sys.byteorder != "little":  # packed numbers, and the kernels that read them, are little endian
    raise ImportError(f"codedfl needs a machine whose byte order is little endian, got {sys.byteorder} endian")
