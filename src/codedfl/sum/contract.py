"""What server and devices know of a study by themselves, as the secure sum asks for it; neither chooses any of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from codedfl.sum.layout import Layout, Words
from codedfl.sum.terms import Terms


class ServedStudy(Protocol):
    """What everybody knows of a study, the server among them."""

    @property
    def terms(self) -> Terms:
        """Who takes part."""

    def layout(self, ask: bytes) -> Layout:
        """How a statistic is laid out; ``Refused`` where it does not follow from the study."""

    def groups(self, ask: bytes) -> Collection[int]:
        """The disclosure groups that are in this sum; empty where any union of groups may be."""

    def needs(self, ask: bytes) -> Collection[bytes]:
        """Digests of the contents that the others of these functions read: the device has them before it calls those.

        They are found by digest where the device keeps them (``Memory.content``).
        """


class Contract(ServedStudy, Protocol):
    """What a device knows besides: its rows."""

    def words(self, ask: bytes) -> Words:
        """What this device adds up over its frozen rows, noise included. The same ask always has the same words."""
