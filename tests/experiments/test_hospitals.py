"""The experiment with institutions' tables, on a small made-up one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pandas as pd
from experiments.hospitals import (
    MOST_STANDARD_ERRORS,
    Partitioned,
    beside_datashield,
    beside_peer,
    peer_systems,
    rehearsed,
    report,
)
from experiments.mpyc_ridge import PeerRidge, listen_on_loopback

from codedfl.analyses.glm import GlmFit
from codedfl.data.columns import NumberTarget


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
    assert found.inference.names == ("constant", "age", "ward = ward")
    assert found.furthest < MOST_STANDARD_ERRORS
    assert found.furthest_error < MOST_STANDARD_ERRORS
    text = report("stays", found)
    assert text.startswith(f"stays: {found.inference.rows} training rows on 10 devices in 3 pods\n40 % of the devices")
    systems = peer_systems(found)
    assert [one.shape for one in systems] == [(3, 4)] * 10
    # What the peer is asked to solve has the coefficients of our inference.
    total, target = np.sum(systems, axis=0), found.ready.study.target
    theta = np.linalg.solve(total[:, :3], total[:, 3])
    assert isinstance(target, NumberTarget)
    per_unit = (target.range[1] - target.range[0]) / 2 / found.rehearsal.findings.model.recipe.preprocessing.scale
    np.testing.assert_allclose(theta[1:] * per_unit, found.inference.coefficients[1:], rtol=1e-5)
    peer = PeerRidge(theta + np.array([0, 0, 0.5]), 12.3, 4.5, 678.0, 901_000)
    table = beside_peer(found, systems, peer).splitlines()
    assert table[1].endswith(f"{found.seconds:.1f}        12.3")
    assert table[4].startswith("sent in all, kB") and table[4].endswith("901.0")
    assert table[5].startswith(f"MPyC's coefficients are off by {0.5 / np.abs(theta).max():.1e} of the largest.")


def test_a_logistic_model_from_table_one_beside_what_datashield_shows(tmp_path: Path):
    frame = made_up().dropna()
    rng = np.random.default_rng(1)
    long = rng.random(len(frame)) < 1 / (1 + np.exp(0.3 * (15 - frame["days"])))
    frame = frame.assign(age=frame["age"] + rng.integers(0, 100, len(frame)) / 100, long=np.where(long, "yes", "no"))
    found = rehearsed(Partitioned("long", lambda: frame, "clinic", "long", ("age", "ward"), "logistic"), tmp_path)
    assert found.inference.names == ("constant", "age", "ward = ward")
    assert found.furthest < 1e-6 and found.furthest_error < 1e-5
    assert report("long", found).startswith(f"long: {len(frame)} training rows on 10 devices in 3 pods\n")
    first, second, third, last = beside_datashield(found).splitlines()
    assert first.startswith("DataSHIELD's analyst would see 12 numbers of each of 10 sites per iteration:")
    fit = found.inference.fit
    assert isinstance(fit, GlmFit)
    assert f"Our server saw 12 numbers {fit.iterations} times, and before that counts" in f"{second} {third}"
    assert last == f"sent in all: {found.sent_bytes / 1e3:.1f} kB" and found.sent_bytes > found.upload_bytes > 0


def test_the_peer_listens_on_loopback_only():
    async def addresses() -> list[str]:
        listen_on_loopback()
        loop = asyncio.get_running_loop()
        async with await loop.create_server(asyncio.Protocol, port=0, ssl=None) as server:
            return [socket.getsockname()[0] for socket in server.sockets]

    assert asyncio.run(addresses()) == ["127.0.0.1"]
