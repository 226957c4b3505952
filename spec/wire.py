"""Requests and replies: MessagePack. What has another shape is refused before anything else is done with it."""

from typing import Any

from msgspec import MsgspecError, msgpack

from spec.secrets import sha256, sign

Found = dict[str, Any]

# A dict is a map with exactly these keys, a list an array of exactly these, a tuple an array of any number of one; a
# number is that number of bytes.
ENROLMENT = [str, 32, int, 64]  # name, A, not_after, signature
ENTRY = [*ENROLMENT, 16]  # ..., nonce of the upload that is meant
ROLE_KEY = [str, 32, 32, 64]  # drawer, its A, B, signature
ROLE_SUM = [ROLE_KEY, bytes, ([str, 64],)]  # ..., numbers, [holder, signature] of z + 1 or more

COMMON = {"study": 32, "generation": int, "server": 32}
LISTED = {**COMMON, "ask": bytes, "list": 32}
FOR_HOLDER = {"role_key": ROLE_KEY, "sealed": bytes, "rows": [int, int], "entries": bytes}
ANSWERED = {"numbers": bytes, "signature": bytes}

# kind: [what all receivers get, what this one gets beside it, what is sealed in its reply]
KINDS: dict[str, list[Any]] = {
    "enrol": [{**COMMON, "not_after": int}, {}, {}],
    "draw": [COMMON, {"members": (ENROLMENT,)}, {"public": 32, "signature": 64, "sealed": dict}],
    "put": [COMMON, {"content": bytes}, {}],
    "upload": [{**COMMON, "ask": bytes}, {"role_keys": (ROLE_KEY,)}, {"nonce": 16, **ANSWERED}],
    "answer": [{**LISTED, "e": bytes}, FOR_HOLDER, ANSWERED],
    "certify": [LISTED, {"entries": bytes, "uploads": ([bytes, 64],), "sums": (ROLE_SUM,)}, ANSWERED],
    "close": [{**COMMON, "record": ([32, (str,)],)}, {}, {}],
}
REQUEST = {"kind": str, "common": bytes, "own": bytes, "signature": 64}
REPLY = {"kind": str, "request": 32, "enrolment": object, "code": object, "body": bytes}


def fits(found: Any, shape: Any) -> bool:
    """Whether something has a shape. Whole numbers are 0 to 2^63 - 1."""
    if isinstance(shape, tuple):
        return type(found) is list and all(fits(one, shape[0]) for one in found)
    if isinstance(shape, list):
        return type(found) is list and len(found) == len(shape) and all(map(fits, found, shape))
    if isinstance(shape, dict):
        return type(found) is dict and found.keys() == shape.keys() and all(fits(found[k], shape[k]) for k in shape)
    if isinstance(shape, int):
        return type(found) is bytes and len(found) == shape
    return shape is object or (type(found) is shape and (shape is not int or 0 <= found < 2**63))


def encode(found: Any) -> bytes:
    """MessagePack in as few bytes as it takes; the keys of a map in the order in which they are written here."""
    return msgpack.encode(found)


def decode(data: bytes, shape: Any, code: str = "request") -> Any:
    """Refused if it has another shape, or if anything is left over."""
    try:
        found = msgpack.decode(data)
    except (MsgspecError, RecursionError, ValueError):
        found = None
    assert fits(found, shape), code
    return found


def request(secret: bytes, kind: str, common: Found, own: Found) -> bytes:
    """As the server sends it, signed with its long-term secret."""
    data = encode(common)
    signature = sign(secret, "request", kind, sha256(data))
    return encode({"kind": kind, "common": data, "own": encode(own), "signature": signature})


def read_request(data: bytes) -> tuple[Found, Found, Found]:
    """The request, and both of its parts."""
    assert len(data) <= 2**26, "request"
    found = decode(data, REQUEST)
    assert found["kind"] in KINDS, "request"
    common, own, _ = KINDS[found["kind"]]
    return found, decode(found["common"], common), decode(found["own"], own)
