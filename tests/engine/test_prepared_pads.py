"""A device that stays makes the pads of its next upload before it is called: in memory, for one upload, whatever its
disk is set back to and however often it is started again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from study_calls import Called, called, memory_of, pod_of_three

from approved_studies import Federation
from codedfl.engine.letters import Parcel
from codedfl.engine.resident_host import ResidentHost
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.prepared_pad import PadLayout, PreparedPads, UploadPad
from codedfl.statistics.statistic import Ask
from expansions import counted_uploads

pytestmark = pytest.mark.usefixtures("no_power_cuts")
NAME = "clinic-0"


def small_kernel(folder: Path) -> Federation:
    return pod_of_three("rbf", folder, held_out=0.0, epochs=3, solver="cg", n_features=6)


def resident(run: Called) -> ResidentHost:
    host = run.hosts[NAME]
    assert isinstance(host, ResidentHost)
    return host


def prepared_seeds(host: ResidentHost) -> list[bytes]:
    pad = host._memory.pads._pad
    return [] if pad is None else pad.seeds


def upload(run: Called) -> Message:
    """What the device sends when the roles' keys come."""
    call = run.until_step(Kind.ROLE_KEYS, NAME)
    reply = run.hosts[NAME].handle(call)
    assert isinstance(reply, Parcel)
    (found,) = [letter for letter in reply.letters if Message.decode(letter.head).kind is Kind.SHARES]
    return Message.decode(found.head, bulk=found.bulk)


def twice_from_one_disk(run: Called, folder: Path) -> list[Message]:
    """The server has an old copy of the device's folder put back, while the process goes on, and asks again."""
    run.until_step(Kind.ROLE_KEYS, NAME)
    shutil.copytree(folder / NAME, folder / "copy")
    first = upload(run)
    shutil.rmtree(folder / NAME)
    shutil.copytree(folder / "copy", folder / NAME)
    return [first, upload(run)]


def test_seeds_are_in_memory_only_until_they_are_used(tmp_path: Path):
    of = small_kernel(tmp_path / "x")
    run = called(of, Ask("products"))
    host = resident(run)
    host.prepare()
    seeds = prepared_seeds(host)
    assert len(seeds) == 2
    run.until_step(Kind.ROLE_KEYS, NAME)
    assert not any(seed in content for seed in seeds for content in memory_of(of, NAME).values())
    with counted_uploads() as uploads:
        sent = upload(run)
    assert (NAME, len(sent.attachment), 0) in uploads
    assert prepared_seeds(host) == []
    host.prepare()
    assert prepared_seeds(host) == [], "a run is going on"
    run.finish()
    host.prepare()
    assert prepared_seeds(host) and not set(prepared_seeds(host)) & set(seeds)


def test_a_total_that_is_small_leaves_what_is_prepared(tmp_path: Path):
    of = small_kernel(tmp_path / "x")
    run = called(of, Ask("cells"))
    host = resident(run)
    host.prepare()
    seeds = prepared_seeds(host)
    run.finish()
    host.prepare()
    assert prepared_seeds(host) == seeds


def test_a_study_of_small_totals_prepares_nothing(tmp_path: Path):
    host = resident(called(pod_of_three("linear", tmp_path / "x", held_out=0.0), Ask("gram")))
    host.prepare()
    assert prepared_seeds(host) == []


class UsedAgain(PreparedPads):
    """Not spent."""

    def take(self, layout: PadLayout) -> UploadPad:
        self.prepare(layout)
        assert self._pad is not None
        return UploadPad(layout, self._pad.seeds)


@pytest.mark.parametrize("kind", [PreparedPads, UsedAgain], ids=["spent", "mutant"])
def test_an_old_copy_of_the_disk_brings_no_pad_back(tmp_path: Path, kind: type[PreparedPads]):
    """A listener would have two uploads under one pad, and with roles dealt out anew their seeds."""
    of = small_kernel(tmp_path / "x")
    run = called(of, Ask("products"))
    host = resident(run)
    host._memory.pads = kind()
    host.prepare()
    one, two = twice_from_one_disk(run, of.folder)
    assert (one.attachment != two.attachment) == (kind is PreparedPads)


def test_a_device_that_is_started_again_has_fresh_pads(tmp_path: Path):
    of = small_kernel(tmp_path / "x")
    seeds: list[bytes] = []
    for _ in range(3):
        host = of.host(NAME, ResidentHost)
        host.prepare()
        seeds += prepared_seeds(host)
    assert len(set(seeds)) == 6
