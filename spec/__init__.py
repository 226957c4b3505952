"""Protocol 4 of codedfl as a specification that runs: plain Python integers, read from top to bottom.

``numbers`` (words modulo 2^k and their places), ``secrets`` (keys, pads, seals, what is signed), ``wire`` (requests and
replies), ``study`` (who takes part), ``device`` (a function of its request), ``server`` (whom to ask for what, and what
to add up). It imports nothing of the package, nor the package of it.
"""
