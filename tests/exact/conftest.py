"""Whole numbers of reals: scales, Gram matrices and noise, word for word against Python's own integers."""
