"""The cost model's counts against a real run in this process, every call of a primitive counted.

Public-key operations and bytes of pads agree to the last one; bytes that are sealed, sent and hashed but for the few of
envelopes, names and lengths.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from counting import SERVER, Counted, Counting

from codedfl import BlockKrylov
from codedfl.engines.in_process import InProcess
from codedfl.sum.layout import Layout
from codedfl_lab import CodedKeys, CodedPadded, CodedScheme, Dataset, RoleKeys, make_problem
from codedfl_lab.costs.coded import CODED_QUESTION_BITS, held_numbers, partners_of
from codedfl_lab.costs.times import WorkShape
from codedfl_lab.costs.work import (
    CODED_REQUEST_HASHED,
    Work,
    drawing,
    drawn_at_once,
    enrolling,
    opening_envelopes,
    replying,
    sharing_codewords,
    summing_pads,
    taking_data,
    taking_the_list,
    uploading,
)
from codedfl_lab.problems.problem import Problem
from codedfl_lab.training.in_process import Simulated

PRODUCTS = 2
FEATURES = 520  # three tiles of rows, the last of them small
KEYS = ("verifications", "signatures", "exchanges", "key_pairs")


def made_up(devices: int) -> Problem:
    rng = np.random.default_rng(0)
    X, y = rng.random((4 * devices, FEATURES - 1)), np.arange(4 * devices) % 3
    rows = Dataset("made up", X, y, X, y, "classification", public_range=(0.0, 1.0))
    return make_problem(rows, n_devices=devices, features="linear")


class Run:
    """A training with all parties in this process, counted."""

    def __init__(self, scheme: CodedScheme, devices: int) -> None:
        problem = made_up(devices)
        self.scheme, self.problem, self.simulated = scheme, problem, Simulated.of(scheme, problem)
        self.counting = Counting()
        with pytest.MonkeyPatch.context() as patch:
            self.counting.watch(patch)
            answers = {name: self.counting.device(name, one.reply) for name, one in self.simulated.devices.items()}
            self.simulated.train(BlockKrylov(epochs=PRODUCTS + 1), InProcess(answers))

    @property
    def names(self) -> list[str]:
        return list(self.simulated.devices)

    def of(self, name: str) -> Counted:
        return self.counting.parties[name]

    @property
    def layout(self) -> Layout:
        study: Layout = self.simulated.parties.study.form
        return study


def keys_of(counted: Counted | Work) -> dict[str, float]:
    return {name: getattr(counted, name) for name in KEYS}


def total(*parts: Work) -> Work:
    found = Work()
    for part in parts:
        found += part
    return found


def roles_of(run: Run) -> Iterator[tuple[str, Counted, bool]]:
    """Every device, what it did, and whether it drew its role's key: the first of each role does."""
    assert isinstance(run.scheme, RoleKeys)
    for place, name in enumerate(run.names):
        yield name, run.of(name), place <= run.scheme.colluders


@pytest.mark.parametrize(("devices", "colluders"), [(8, 1), (9, 2), (12, 1)])
def test_public_key_operations_of_role_keys(devices: int, colluders: int) -> None:
    """With all rows at every holder everybody answers each product; the first of a role also for the vector."""
    run = Run(RoleKeys(colluders, narrow=True), devices)
    for place, (_, counted, drew) in enumerate(roles_of(run)):
        holders = len(range(place % (colluders + 1), devices, colluders + 1))
        members = drawn_at_once(holders, colluders) if drew else 0
        parts = [enrolling(), uploading(colluders, 0), *PRODUCTS * [replying(0)]]
        parts += [drawing(members), replying(0)] if drew else []
        parts += [taking_the_list(devices, members, drew=drew)]
        assert keys_of(total(*parts)) == keys_of(counted)
    server = run.of(SERVER)  # it checks every role's key and every device's, and has a secret with each
    assert (server.verifications, server.exchanges) == (devices + colluders + 1, devices)


def test_an_owner_that_holds_no_keys_makes_as_few_operations_whatever_the_fleet() -> None:
    counts = []
    for devices in (8, 14):
        run = Run(RoleKeys(1, holders=4, narrow=True), devices)
        counts.append(keys_of(run.of(run.names[-1])))
    assert counts[0] == counts[1] == keys_of(enrolling() + uploading(1, 0))


@pytest.mark.parametrize(("scheme", "devices"), [(RoleKeys(1, narrow=True), 8), (RoleKeys(2), 9)])
def test_bytes_of_role_keys(scheme: RoleKeys, devices: int) -> None:
    """Pads to the byte; the rest within one part in a hundred."""
    run = Run(scheme, devices)
    layout, shape = run.layout, WorkShape.of(run.problem).on_ring_of(scheme)
    upload, answer = layout.total_bytes, layout.size * layout.columns * layout.bits // 8
    assert layout.total_words == shape.bulk_numbers + 1  # and one that counts rows
    vector = layout.vector_words * layout.bits // 8
    question = answer
    for _, counted, drew in roles_of(run):
        pads = uploading(scheme.colluders, upload) + summing_pads(devices, upload - (0 if drew else vector))
        assert counted.pad_bytes == pads.padded
        work = total(uploading(scheme.colluders, upload), *PRODUCTS * [replying(answer, question)])
        if drew:
            work += replying(vector)
        assert counted.hashed_bytes == pytest.approx(work.hashed, rel=0.01)
        assert counted.sealed_bytes == pytest.approx(work.sealed, rel=0.01)
        assert counted.bytes_up == pytest.approx(work.sealed, rel=0.01)
    # What comes down beside the questions: who has enrolled, and role keys.
    assert PRODUCTS * question < run.of(run.names[-1]).bytes_down < PRODUCTS * question + 2000 + 250 * devices


def test_pads_of_a_block_of_rows() -> None:
    """Every holder that is asked for a block expands what ``held_numbers`` says, of all owners; tiles are whole."""
    devices, blocks = 12, 3
    scheme = RoleKeys(1, blocks=blocks, narrow=True)
    run = Run(scheme, devices)
    layout = run.layout
    own = uploading(1, layout.total_bytes).padded
    width = layout.bits // 8
    needed = {
        devices * width * sum(stop - start for _, _, start, stop in layout.needed_tiles(block, block + 1))
        for block in range(blocks)
    }
    made = {run.of(name).pad_bytes - own for name in run.names[2:]} - {0}
    shape = WorkShape.of(run.problem).on_ring_of(scheme)
    constant = -(-FEATURES // blocks) * shape.n_outputs
    charged = devices * width * (held_numbers(scheme, shape, devices).max() - constant)
    assert made <= needed | {a + b for a in needed for b in needed}  # whoever is done takes another block
    assert charged >= max(needed), "a tile at least is charged"


@pytest.mark.parametrize(
    "scheme", [CodedKeys(3), CodedPadded(3), CodedKeys(5), CodedPadded(7)], ids=lambda one: one.label
)
def test_public_key_operations_of_coded_schemes(scheme: CodedScheme) -> None:
    """Everybody is asked in every epoch, of which the first decodes the constant."""
    devices = 7
    run, padded = Run(scheme, devices), isinstance(scheme, CodedPadded)
    partners = partners_of(scheme, devices)
    before = sharing_codewords(partners, devices, 0, padded=padded) + opening_envelopes(partners)
    questions = PRODUCTS + 1 + padded  # data are put by requests with one signature
    expected = keys_of(total(enrolling(), before, *questions * [replying(0)]))
    assert [keys_of(run.of(name)) for name in run.names] == devices * [expected]


@pytest.mark.parametrize("padded", [False, True], ids=["coded-keys", "coded-padded"])
def test_bytes_of_coded_schemes(padded: bool) -> None:
    devices, alpha = 7, 3
    run = Run(CodedPadded(alpha) if padded else CodedKeys(alpha), devices)
    shape, partners = WorkShape.of(run.problem), partners_of(run.scheme, devices)
    upload, answer = shape.bulk_bits // 8, shape.model_numbers * shape.number_bits // 8
    sent = sharing_codewords(partners, devices, upload, padded=padded)
    if padded:
        sent += taking_data(alpha - 1, upload)
    question = shape.model_numbers * CODED_QUESTION_BITS // 8
    answers = total(replying(answer), *PRODUCTS * [replying(answer, question, CODED_REQUEST_HASHED)])
    for name in run.names:
        assert run.of(name).bytes_up == pytest.approx(upload + answers.sealed, rel=0.01)
        assert run.of(name).hashed_bytes == pytest.approx(sent.hashed + answers.hashed, rel=0.01)
        assert run.of(name).bytes_down == pytest.approx((alpha - 1) * upload * padded + PRODUCTS * question, rel=0.2)
