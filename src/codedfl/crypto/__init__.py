"""Pads from seeds, sealed and signed messages: primitives of the ``cryptography`` package, composed."""
