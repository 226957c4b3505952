"""Integers modulo a few primes on float32 planes, and reals to and from them with a proof that nothing wraps."""
