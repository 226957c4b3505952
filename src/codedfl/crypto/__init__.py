"""Keys, signatures, certificates and noise from a seed: primitives of the ``cryptography`` package, composed."""
