"""Latency models on top of a fleet's own: heavy tails, congested places, devices that vanish, speeds that drift.

One file each, found by being there; another package adds one by an entry point of the group ``codedfl.latencies``.
A fleet file lists them (``latency_models``), ``--fleet paper+NAME:KEY=VALUE`` adds one, each on top of the one before.
"""

from codedfl.on_demand import load_all

load_all(__name__, __path__)
