"""Sealed messages: only the named receiver reads them, only the named sender can have written them."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

import oracle
from codedfl.crypto import sealed
from codedfl.crypto.sealed import BULK_CHUNK, SEAL_OVERHEAD, TAG_BYTES, Identity, RunKey
from codedfl.errors import InvalidInput, MessageRefused
from trainings import repeatable
from wording import exactly

ALICE, BOB, EVE = (RunKey(bytes([i]) * 32) for i in (1, 2, 3))
SIGNER, OTHER = (Identity(bytes([i]) * 32) for i in (1, 2))
CONTEXT = b"run, kind, sender, receiver"
SECRET = b"attack at dawn, or a little later"

NOT_OPENED = (
    f"a sealed message must open with the key of its sender {sealed.fingerprint(ALICE.public)}:"
    " it was damaged, forged or meant for another run, purpose or receiver"
)
WRONG_DIGEST = "the bulk must have the digest its sender sealed: it was damaged or replaced"
WRONG_BULK = "the bulk must open with its content key: it was damaged or cut"


def sealed_letter(plaintext: bytes = SECRET, seed: int = 0) -> bytes:
    return sealed.seal(ALICE, BOB.public, CONTEXT, plaintext, repeatable(seed))


# -- identities


def test_an_identity_signs_and_nothing_else():
    """What a stolen key file could open later was never sealed to it."""
    assert Identity(bytes([1]) * 32).public == SIGNER.public != OTHER.public
    assert len(SIGNER.public) == 32
    assert not hasattr(SIGNER, "shared_with")


def test_keys_come_from_the_given_source():
    for kind in (Identity, RunKey):
        assert kind.generate(repeatable(5)).public == kind(repeatable(5)(32)).public
        assert kind.generate().public != kind.generate().public


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_secret_of_another_size_is_refused(size: int):
    with pytest.raises(InvalidInput, match=exactly(f"an identity's secret must have 32 bytes, got {size}")):
        Identity(bytes(size))
    with pytest.raises(InvalidInput, match=exactly(f"a run key must have 32 bytes, got {size}")):
        RunKey(bytes(size))


def test_repr_shows_the_fingerprint_and_no_secret():
    assert repr(SIGNER) == f"<Identity {sealed.fingerprint(SIGNER.public)}>"
    assert repr(ALICE) == f"<RunKey {sealed.fingerprint(ALICE.public)}>"


def test_tags_recognise_a_message_for_the_holder_of_the_key_alone():
    assert SIGNER.tag(b"row") == SIGNER.tag(b"row") != SIGNER.tag(b"other row")
    assert SIGNER.tag(b"row") != OTHER.tag(b"row")


# -- seal and open


@given(plaintext=st.binary(max_size=200), context=st.binary(max_size=50))
def test_what_is_sealed_opens(plaintext: bytes, context: bytes):
    letter = sealed.seal(ALICE, BOB.public, context, plaintext, repeatable(1))
    assert len(letter) == len(plaintext) + SEAL_OVERHEAD
    assert sealed.open_sealed(BOB, ALICE.public, context, letter) == plaintext


def test_the_construction_is_the_documented_one():
    """Two X25519 exchanges, HKDF-SHA256 bound to both publics, ChaCha20-Poly1305: put together here once more."""
    fresh = X25519PrivateKey.from_private_bytes(repeatable(0)(32))
    fresh_public = fresh.public_key().public_bytes_raw()
    bob = X25519PublicKey.from_public_bytes(BOB.public)
    alice = X25519PrivateKey.from_private_bytes(bytes([1]) * 32)
    key = oracle.hkdf_sha256(
        fresh.exchange(bob) + alice.exchange(bob), fresh_public, b"codedfl v2|seal|" + ALICE.public + BOB.public
    )
    assert sealed_letter() == fresh_public + ChaCha20Poly1305(key).encrypt(bytes(12), SECRET, CONTEXT)


def test_nobody_else_can_open():
    for reader in (EVE, ALICE):
        with pytest.raises(MessageRefused, match=exactly(NOT_OPENED)):
            sealed.open_sealed(reader, ALICE.public, CONTEXT, sealed_letter())


def test_a_letter_by_another_sender_is_refused():
    forged = sealed.seal(EVE, BOB.public, CONTEXT, SECRET, repeatable(2))
    with pytest.raises(MessageRefused, match=exactly(NOT_OPENED)):
        sealed.open_sealed(BOB, ALICE.public, CONTEXT, forged)


def test_a_letter_in_another_context_is_refused():
    for context in (b"", CONTEXT + b"x", CONTEXT[:-1]):
        with pytest.raises(MessageRefused, match=exactly(NOT_OPENED)):
            sealed.open_sealed(BOB, ALICE.public, context, sealed_letter())


def test_a_receiver_cannot_pass_the_letter_on_as_written_to_another():
    """Bob knows the content; he must not be able to make Eve believe Alice wrote it to her."""
    passed_on = sealed.seal(BOB, EVE.public, CONTEXT, SECRET, repeatable(3))
    for letter in (sealed_letter(), passed_on):
        with pytest.raises(MessageRefused, match=exactly(NOT_OPENED)):
            sealed.open_sealed(EVE, ALICE.public, CONTEXT, letter)


def test_every_flipped_bit_is_noticed():
    """Also the top bit of the fresh key, which X25519 ignores (RFC 7748): the key is HKDF's salt as well."""
    letter = sealed_letter()
    for position in range(len(letter)):
        for bit in range(8):
            damaged = bytearray(letter)
            damaged[position] ^= 1 << bit
            with pytest.raises(MessageRefused, match=exactly(NOT_OPENED)):
                sealed.open_sealed(BOB, ALICE.public, CONTEXT, bytes(damaged))


def test_every_truncation_is_noticed():
    letter = sealed_letter()
    for size in range(len(letter)):
        message = NOT_OPENED
        if size < SEAL_OVERHEAD:
            message = f"a sealed message must have at least {SEAL_OVERHEAD} bytes, got {size}"
        with pytest.raises(MessageRefused, match=exactly(message)):
            sealed.open_sealed(BOB, ALICE.public, CONTEXT, letter[:size])
    with pytest.raises(MessageRefused, match=exactly(NOT_OPENED)):
        sealed.open_sealed(BOB, ALICE.public, CONTEXT, letter + b"\x00")


# The points of small order of RFC 7748's curve, whose exchange is zero whatever the secret.
SMALL_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    (2**255 - 20).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
]


@pytest.mark.parametrize("point", SMALL_ORDER, ids=lambda point: point[:4].hex())
def test_keys_of_small_order_are_refused(point: bytes):
    message = exactly("a public key must be a valid X25519 point, got one that is not")
    with pytest.raises(MessageRefused, match=message):
        sealed.seal(ALICE, point, CONTEXT, SECRET, repeatable(0))
    with pytest.raises(MessageRefused, match=message):
        sealed.open_sealed(BOB, point, CONTEXT, sealed_letter())
    with pytest.raises(MessageRefused, match=message):
        sealed.open_sealed(BOB, ALICE.public, CONTEXT, point + bytes(48))


def test_a_key_of_the_wrong_size_is_refused():
    with pytest.raises(MessageRefused, match=exactly("a public key must be a valid X25519 point, got one that is not")):
        sealed.open_sealed(BOB, b"short", CONTEXT, sealed_letter())


def test_equal_plaintexts_have_unrelated_ciphertexts():
    one, other = sealed_letter(bytes(1000), seed=1), sealed_letter(bytes(1000), seed=2)
    assert sum(a == b for a, b in zip(one, other, strict=True)) < 20  # 1048 / 256 = 4 are expected


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


# -- bulk


KEY = bytes(range(32))


def bulk_of(plaintext: bytes, key: bytes = KEY, context: bytes = CONTEXT) -> tuple[bytes, bytes]:
    chunks = list(sealed.encrypt_bulk(key, context, plaintext))
    return b"".join(chunks), sealed.digest_of(chunks)


@pytest.mark.parametrize("size", [0, 1, BULK_CHUNK - 1, BULK_CHUNK, BULK_CHUNK + 1, 2 * BULK_CHUNK, 2 * BULK_CHUNK + 7])
def test_bulk_opens_and_has_the_stated_size(size: int):
    plaintext = bytes(i % 251 for i in range(min(size, 997))) * (size // 997 + 1)
    plaintext = plaintext[:size]
    ciphertext, digest = bulk_of(plaintext)
    assert len(ciphertext) == size + TAG_BYTES * max(1, -(-size // BULK_CHUNK))
    assert digest == hashlib.sha256(ciphertext).digest()
    assert sealed.decrypt_bulk(KEY, CONTEXT, digest, ciphertext) == plaintext


def test_bulk_is_streamed_chunk_by_chunk():
    assert [len(chunk) for chunk in sealed.encrypt_bulk(KEY, CONTEXT, bytes(2 * BULK_CHUNK + 5))] == [
        BULK_CHUNK + TAG_BYTES,
        BULK_CHUNK + TAG_BYTES,
        5 + TAG_BYTES,
    ]


def test_bulk_that_is_not_the_sealed_one_is_refused():
    ciphertext, digest = bulk_of(b"padded data")
    for damaged in (ciphertext[:-1], ciphertext + b"\x00", b"", bytes([ciphertext[0] ^ 1]) + ciphertext[1:]):
        with pytest.raises(MessageRefused, match=exactly(WRONG_DIGEST)):
            sealed.decrypt_bulk(KEY, CONTEXT, digest, damaged)


def test_a_receiver_who_knows_the_content_key_cannot_forge_the_bulk_for_another():
    _, digest = bulk_of(b"padded data")
    forged, _ = bulk_of(b"other stuff")  # the same key, the same context: only the digest tells
    with pytest.raises(MessageRefused, match=exactly(WRONG_DIGEST)):
        sealed.decrypt_bulk(KEY, CONTEXT, digest, forged)


def test_chunks_cannot_be_cut_swapped_or_repeated_even_with_a_fitting_digest():
    """The digest is the sender's word; the chunks must hold together on their own as well."""
    chunks = list(sealed.encrypt_bulk(KEY, CONTEXT, b"a" * BULK_CHUNK + b"b" * BULK_CHUNK + b"c"))
    one_chunk = list(sealed.encrypt_bulk(KEY, CONTEXT, b"c"))
    for altered in (chunks[:2], chunks[:1], [chunks[1], chunks[0], chunks[2]], [chunks[0], *chunks], one_chunk * 2, []):
        with pytest.raises(MessageRefused, match=exactly(WRONG_BULK)):
            sealed.decrypt_bulk(KEY, CONTEXT, sealed.digest_of(altered), b"".join(altered))


def test_bulk_in_another_context_or_under_another_key_is_refused():
    ciphertext, digest = bulk_of(b"padded data")
    for key, context in ((KEY, b"another run"), (bytes(32), CONTEXT)):
        with pytest.raises(MessageRefused, match=exactly(WRONG_BULK)):
            sealed.decrypt_bulk(key, context, digest, ciphertext)
