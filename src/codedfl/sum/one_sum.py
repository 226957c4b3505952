"""A contract of one vector: what estimators and trainings sum, where no study says more."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from codedfl.sum.layout import Layout, Words
from codedfl.sum.terms import Terms
from codedfl.sum.wire import Refused


def no_words() -> Words:
    """The server's: it has no rows. A function of this module, since contracts are sent to other processes.

    Examples
    --------
    >>> no_words().size
    0
    """
    return np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True)
class OneSum:
    """The requests for one vector, how it is laid out, and this device's words of it; the server has none.

    Examples
    --------
    See ``codedfl.run.sums_in_process``, whose devices have one.
    """

    terms: Terms
    asks: Collection[bytes]
    form: Layout
    make: Callable[[], Words] = no_words

    def layout(self, ask: bytes) -> Layout:
        """Of the vector; any other request is refused."""
        if ask not in self.asks:
            named = " or ".join(one.decode() for one in self.asks)
            raise Refused("request", f"the request must be for {named}, got another")
        return self.form

    def groups(self, ask: bytes) -> Collection[int]:
        """Whoever is there."""
        del ask
        return ()

    def needs(self, ask: bytes) -> Collection[bytes]:
        """Nothing."""
        del ask
        return ()

    def words(self, ask: bytes) -> Words:
        """What this device adds up."""
        del ask
        return self.make()
