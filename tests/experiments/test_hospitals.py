"""The experiment with institutions' tables, on a small made-up one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pandas as pd
from experiments.hospitals import (
    MOST_STANDARD_ERRORS,
    Partitioned,
    beside_peer,
    peer_systems,
    rehearsed,
    report,
)
from experiments.mpyc_ridge import PeerRidge, listen_on_loopback

from codedfl.contract.study import NumberTarget


def made_up() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1000
    age, ward = rng.integers(18, 95, n).astype(float), rng.choice(["ward", "icu"], n)
    days = 0.2 * age + 3 * (ward == "icu") + rng.normal(size=n)
    age[rng.random(n) < 0.1] = np.nan
    days[:3] = np.nan
    return pd.DataFrame({"clinic": rng.integers(0, 10, n), "age": age, "ward": ward, "days": days})


def test_from_a_folder_of_tables_to_statsmodels_numbers(tmp_path: Path):
    found = rehearsed(Partitioned("stays", made_up, "clinic", "days", ("age", "ward")), tmp_path)
    assert len(found.ready.snapshots) == 10 and found.refusals == {}
    assert found.inference.names == ("constant", "age", "age missing", "ward = ward")
    assert found.furthest < MOST_STANDARD_ERRORS
    assert found.furthest_error < MOST_STANDARD_ERRORS
    text = report("stays", found)
    assert text.startswith(f"stays: {found.inference.rows} training rows on 10 devices in 3 pods\n40 % of the devices")
    systems = peer_systems(found)
    assert [one.shape for one in systems] == [(4, 5)] * 10
    # What the peer is asked to solve has the coefficients of our inference.
    total, target = np.sum(systems, axis=0), found.ready.study.target
    theta = np.linalg.solve(total[:, :4], total[:, 4])
    assert isinstance(target, NumberTarget)
    per_unit = (target.range[1] - target.range[0]) / 2 / found.rehearsal.findings.model.recipe.preprocessing.scale
    np.testing.assert_allclose(theta[1:] * per_unit, found.inference.coefficients[1:], rtol=1e-5)
    peer = PeerRidge(theta + np.array([0, 0, 0, 0.5]), 12.3, 4.5, 678.0, 901_000)
    table = beside_peer(found, systems, peer).splitlines()
    assert table[1].endswith(f"{found.seconds:.1f}        12.3")
    assert table[4].startswith("sent in all, kB") and table[4].endswith("901.0")
    assert table[5].startswith(f"MPyC's coefficients are off by {0.5 / np.abs(theta).max():.1e} of the largest.")


def test_the_peer_listens_on_loopback_only():
    async def addresses() -> list[str]:
        listen_on_loopback()
        loop = asyncio.get_running_loop()
        async with await loop.create_server(asyncio.Protocol, port=0, ssl=None) as server:
            return [socket.getsockname()[0] for socket in server.sockets]

    assert asyncio.run(addresses()) == ["127.0.0.1"]
