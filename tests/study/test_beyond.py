"""The study beyond the paper: who is timed must have been trained."""

from __future__ import annotations

from codedfl_lab.reproduce.beyond import beyond_entries, racers
from codedfl_lab.reproduce.sizes import PEER_SIZES, _at_any_size, _peers


def test_whoever_is_timed_again_has_a_trajectory() -> None:
    trained = {entry.models_key for entry in beyond_entries(25)}
    assert {entry.models_key for entry in racers(25)} <= trained
    for size in PEER_SIZES:
        assert {entry.models_key for entry in (*_at_any_size(size), *_peers(size))} <= trained
