"""Integers modulo primes in compiled kernels, bit for bit against Python's own integers."""
