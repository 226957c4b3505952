"""What running devices of the coded schemes send and hold is what ``codedfl_lab.privacy.views`` computes with.

Number by number: each masked answer is the form along the owners' numbers, their pads and their masks' streams, modulo
the ring's first prime; each device holds the seeds that its view has, and no others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from parties import ASK, FORMS, LENGTH, World

from codedfl.sum import wire as sum_wire
from codedfl.sum.keys import digest
from codedfl_lab.coded import wire
from codedfl_lab.coded.device import CodedDevice
from codedfl_lab.primes.pads import add_expanded
from codedfl_lab.privacy.views import coded_views


class Recorded:
    """What left the devices and what they opened, by place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[int, Any] = {}
        self.bodies: dict[int, bytes] = {}
        self.opened: dict[int, dict[int, wire.Secrets]] = {}
        self.bound: dict[int, bytes] = {}
        self.label = ""
        answered, shared = CodedDevice._answered_epoch, CodedDevice._shared

        def answering(device: CodedDevice, keys: Any, common: Any, own: Any) -> bytes:
            reply = answered(device, keys, common, own)
            found = device._coded[next(iter(device._coded))]
            self.answers[device._place] = sum_wire.decode(reply, wire.CodedAnswered, "an answer").numbers
            self.opened[device._place] = dict(found.opened)
            if own.list is not None:
                self.bound |= {i: device._bound(common, own.list, i) for i in range(len(own.list.shares))}
            self.label = f"mask|{digest(sum_wire.encode(common)).hex()}"
            return reply

        def sharing(device: CodedDevice, *arguments: Any) -> wire.Shared:
            made = shared(device, *arguments)
            self.bodies[device._place] = made.body
            return made

        monkeypatch.setattr(CodedDevice, "_answered_epoch", answering)
        monkeypatch.setattr(CodedDevice, "_shared", sharing)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(5, 3, 1), (6, 2, 2), (4, 4, 1)], ids=str)
@pytest.mark.parametrize("masks", [True, False], ids=["masked", "unmasked"])
def test_answers_are_the_forms_of_the_views(
    form: str, shape: tuple[int, int, int], masks: bool, monkeypatch: pytest.MonkeyPatch
):
    count, alpha, groups = shape
    world, seen = World(FORMS[form], count, alpha, groups, masks=masks), Recorded(monkeypatch)
    assert world.session().sum(ASK) == world.vector
    ring, code, padded = world.study.ring, world.study.code, form == "coded-padded"
    prime, n = ring.primes[0], count
    views = coded_views(code, padded=padded, masks=masks)
    streams = np.zeros((3 * n, LENGTH), dtype=np.int64)
    for i in range(n):
        streams[i] = np.array(world.vectors[i]) % prime
        secret = next(one[i].secret for one in seen.opened.values() if i in one and one[i].secret)
        body = seen.bodies[i]
        if padded:
            body = ChaCha20Poly1305(secret).decrypt(bytes(12), body, seen.bound[i])
        streams[n + i] = (first(ring, body) - streams[i]) % prime
        if masks:
            mask = ring.zeros(LENGTH)
            seed = next(one[i].mask for one in seen.opened.values() if i in one)
            add_expanded(ring, mask, [[1]] * len(ring.primes), [seed], seen.label)
            streams[2 * n + i] = first(ring, ring.pack(mask))
    (answered,) = (one for one in views.server if "answers" in one.what)
    expected = answered.forms.astype(object) @ streams.astype(object) % prime
    assert len(seen.answers) >= n - alpha + 1
    for place, numbers in seen.answers.items():
        assert first(ring, numbers).tolist() == expected[place].tolist()


@pytest.mark.parametrize("form", FORMS)
def test_devices_hold_the_seeds_of_their_views_and_no_others(form: str, monkeypatch: pytest.MonkeyPatch):
    world, seen = World(FORMS[form], 6, 3), Recorded(monkeypatch)
    world.session().sum(ASK)
    views, n = coded_views(world.study.code, padded=form == "coded-padded"), 6
    for place, opened in seen.opened.items():
        forms = np.vstack([one.forms for one in views.devices[place]])
        masked = {i for i in range(n) if forms[:, 2 * n + i].any()}
        about = {i for i in range(n) if forms[:, n + i].any()}
        assert {i for i, one in opened.items() if one.mask} == masked
        assert {i for i, one in opened.items() if one.secret} == about


def first(ring: Any, packed: bytes) -> np.ndarray:
    """The first numbers, modulo the first prime."""
    planes = ring.unpack(packed, len(packed) // ring.bytes_per_number)
    return np.asarray(planes)[0][:LENGTH].astype(np.int64) % ring.primes[0]
