"""The protocol of codedfl as a specification that runs: plain Python integers, read from top to bottom.

``numbers`` (the ring), ``fixed_point`` (parameters and grids), ``secrets`` (pads, seals, commitments), ``wire``
(messages, agreement, what is signed), ``parties`` (what both schemes share), then one file per scheme:
``coded_padded`` is the paper's, ``role_keys`` the default. It imports nothing of the package, nor the package of it.
"""
