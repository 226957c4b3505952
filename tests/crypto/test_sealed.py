"""Long-term keys sign and do nothing else; public keys that are none are refused."""

from __future__ import annotations

import pytest

from codedfl.crypto import sealed
from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.sum.keys import ExchangeKey
from trainings import repeatable
from wording import exactly

SIGNER, OTHER = (Identity(bytes([i]) * 32) for i in (1, 2))

# -- identities


def test_an_identity_signs_and_nothing_else():
    """What a stolen key file could open later was never sealed to it."""
    assert Identity(bytes([1]) * 32).public == SIGNER.public != OTHER.public
    assert len(SIGNER.public) == 32
    assert not hasattr(SIGNER, "shared_with")


def test_keys_come_from_the_given_source():
    assert Identity.generate(repeatable(5)).public == Identity(repeatable(5)(32)).public
    assert Identity.generate().public != Identity.generate().public


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_secret_of_another_size_is_refused(size: int):
    with pytest.raises(InvalidInput, match=exactly(f"an identity's secret must have 32 bytes, got {size}")):
        Identity(bytes(size))


def test_repr_shows_the_fingerprint_and_no_secret():
    assert repr(SIGNER) == f"<Identity {sealed.fingerprint(SIGNER.public)}>"


def test_tags_recognise_a_message_for_the_holder_of_the_key_alone():
    assert SIGNER.tag(b"row") == SIGNER.tag(b"row") != SIGNER.tag(b"other row")
    assert SIGNER.tag(b"row") != OTHER.tag(b"row")


# -- points


# The points of small order of RFC 7748's curve, whose exchange is zero whatever the secret.
SMALL_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    (2**255 - 20).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
]


@pytest.mark.parametrize("point", [*SMALL_ORDER, b"short", b""], ids=lambda point: point[:4].hex())
def test_public_keys_that_are_no_points_or_of_small_order_are_refused(point: bytes):
    message = exactly("a public key must be a valid X25519 point, got one that is not")
    with pytest.raises(MessageRefused, match=message):
        ExchangeKey(bytes([1]) * 32).with_public(point)


# -- signatures


def test_a_signature_is_by_its_key_and_for_its_message():
    signature = SIGNER.sign(b"epoch 3")
    sealed.verify(SIGNER.public, b"epoch 3", signature)
    damaged = bytes([signature[0] ^ 1]) + signature[1:]
    for public, message, tried in (
        (OTHER.public, b"epoch 3", signature),
        (SIGNER.public, b"epoch 4", signature),
        (SIGNER.public, b"epoch 3", damaged),
        (SIGNER.public, b"epoch 3", signature[:-1]),
        (SIGNER.public, b"epoch 3", b""),
        (SIGNER.public[:20], b"epoch 3", signature),
        (b"", b"epoch 3", signature),
    ):
        refusal = f"the signature must be by key {sealed.fingerprint(public)}: it is not, or was damaged"
        with pytest.raises(MessageRefused, match=exactly(refusal)):
            sealed.verify(public, message, tried)
