"""Secure schemes of other authors at three sizes, by one convention."""

from __future__ import annotations

from codedfl.solve.registry import BLOCK_KRYLOV
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.comparing.comparison import Settings, train_one
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.reproduce.reproduce import as_the_paper
from codedfl_lab.reproduce.sizes import PEER_SIZES, peers_at_sizes
from codedfl_lab.schemes.coded_keys import CodedKeys
from small_problems import digits


def test_every_size_has_every_scheme_with_what_it_bears():
    settings = Settings(Conditions(Fleet.load("paper")), (0.8,), max_epochs=60)
    exact = [
        as_the_paper(kind, solver)
        for kind in (CodedKeys(25), ConventionalFullBatch())
        for solver in ("gd", BLOCK_KRYLOV)
    ]
    trained = train_one(0, digits(n_features=100), [as_the_paper(Conventional()), *exact], settings)
    rows = peers_at_sizes("digits", trained, settings)
    bears = {
        "conventional": {-1},
        "conventional-full-batch": {-1},
        "light-secagg": {1, 10},
        "coded-padded": {0},
        "coded-secagg": {1, 10},
        "role-keys": {1, 10},
    }
    for size in PEER_SIZES:
        here = [row.timed for row in rows if row.devices == size]
        assert {name: {row.colluders for row in here if row.scheme == name} for name in bears} == bears
        for solver in ("gd", BLOCK_KRYLOV):
            epochs = {
                row.epochs for row in here if row.solver == solver and row.scheme in ("coded-secagg", "role-keys")
            }
            assert len(epochs) == 1, "exact models need the same epochs, whoever makes them"
        assert all(0 <= row.sharing_seconds < row.seconds_mean and row.upload_bytes > 0 for row in here)
        assert all(row.stragglers == 0 for row in here if row.scheme in ("conventional", "light-secagg"))
        assert all(row.stragglers > 0 for row in here if row.scheme in ("coded-secagg", "role-keys"))
