"""Signatures of others, each checked once: by a device, of everything that others have signed."""

from __future__ import annotations

from collections.abc import Callable

from codedfl.crypto.sealed import verify
from codedfl.errors import MessageRefused
from codedfl.sum.keys import Scope, pack
from codedfl.sum.terms import Terms
from codedfl.sum.wire import Enrolment, Refused, RoleKey

_MOST_CHECKED = 1 << 16


class Checks:
    """What was found to be in order need not be checked again; the cache may be lost at any time."""

    def __init__(self, terms: Terms, now: Callable[[], float]) -> None:
        self._terms, self._now = terms, now
        self._checked: set[bytes] = set()

    def enrolment(self, scope: Scope, one: Enrolment) -> None:
        """See ``Terms.check_enrolment``."""
        place = pack("enrolment", scope.generation, one.name, one.public, one.not_after, one.signature)
        if one.not_after <= self._now() or place not in self._checked:
            self._terms.check_enrolment(scope, one, self._now())
            self._remember(place)

    def role_key(self, scope: Scope, role: int, key: RoleKey) -> None:
        """See ``Terms.check_role_key``."""
        place = pack("role key", scope.generation, role, key.drawer, key.public, key.signature)
        if place not in self._checked:
            self._terms.check_role_key(scope, role, key)
            self._remember(place)

    def signature(self, code: str, key: bytes, text: bytes, signature: bytes) -> None:
        """Refuse with this code what the owner of a key has not signed."""
        place = pack("signature", key, text, signature)
        if place in self._checked:
            return
        try:
            verify(key, text, signature)
        except MessageRefused as error:
            raise Refused(code, str(error)) from None
        self._remember(place)

    def _remember(self, place: bytes) -> None:
        if len(self._checked) >= _MOST_CHECKED:
            self._checked.clear()
        self._checked.add(place)
